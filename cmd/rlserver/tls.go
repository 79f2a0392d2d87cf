package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"
)

// A tlsFault is what is wrong with the certificate files.
type tlsFault struct{ error }

func (f tlsFault) Unwrap() error { return f.error }

// certificates are what the TLS port shows and asks for. SIGHUP replaces them; connections that are there stay.
type certificates struct{ now atomic.Pointer[tls.Config] }

// readCertificates reads what the TLS port needs; nil without one. An error is a tlsFault.
func readCertificates(v Values) (*certificates, error) {
	switch {
	case v.TLSPort == 0 && v.TLSReplication:
		return nil, tlsFault{errors.New("tls-replication yes needs tls-port, at which other nodes reach this one")}
	case v.TLSPort == 0:
		return nil, nil
	}
	c := &certificates{}
	return c, c.read(v)
}

// read puts the files in force, or changes nothing.
func (c *certificates) read(v Values) error {
	config, err := tlsConfig(v)
	if err != nil {
		return tlsFault{err}
	}
	c.now.Store(config)
	return nil
}

// config is for a listener: each handshake goes by what is in force then.
func (c *certificates) config() *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.now.Load(), nil },
	}
}

// toNode is for a connection to another node. As in Redis a certificate that an
// authority of ours has signed suffices, whatever name or address it is for.
func (c *certificates) toNode() *tls.Config {
	now := c.now.Load()
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		Certificates:       now.Certificates,
		InsecureSkipVerify: true, // of the name: the chain is verified here
		VerifyConnection: func(s tls.ConnectionState) error {
			chain := x509.VerifyOptions{Roots: now.RootCAs, Intermediates: x509.NewCertPool()}
			for _, cert := range s.PeerCertificates[1:] {
				chain.Intermediates.AddCert(cert)
			}
			_, err := s.PeerCertificates[0].Verify(chain)
			return err
		},
	}
}

// shown is the certificate that clients see.
func (c *certificates) shown() *x509.Certificate { return c.now.Load().Certificates[0].Leaf }

// authClients are the values of tls-auth-clients.
var authClients = map[string]tls.ClientAuthType{
	"yes": tls.RequireAndVerifyClientCert, "optional": tls.VerifyClientCertIfGiven, "no": tls.NoClientCert,
}

func tlsConfig(v Values) (*tls.Config, error) {
	if v.TLSCertFile == "" || v.TLSKeyFile == "" {
		return nil, errors.New("tls-port needs tls-cert-file and tls-key-file")
	}
	pair, err := tls.LoadX509KeyPair(v.TLSCertFile, v.TLSKeyFile)
	if err != nil {
		return nil, fmt.Errorf("tls-cert-file %s with tls-key-file %s: %w", v.TLSCertFile, v.TLSKeyFile, err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, ClientAuth: authClients[v.TLSAuthClients]}
	asks := config.ClientAuth != tls.NoClientCert
	switch {
	case !asks && !v.TLSReplication:
		return config, nil
	case v.TLSCACertFile == "" && asks:
		return nil, fmt.Errorf("tls-auth-clients %s needs tls-ca-cert-file, whose certificates sign the clients'; no asks clients for none", v.TLSAuthClients)
	case v.TLSCACertFile == "":
		return nil, errors.New("tls-replication yes needs tls-ca-cert-file, whose certificates sign those of other nodes")
	}
	text, err := os.ReadFile(v.TLSCACertFile)
	if err != nil {
		return nil, fmt.Errorf("tls-ca-cert-file: %w", err)
	}
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("tls-ca-cert-file %s: no certificate is in it", v.TLSCACertFile)
	}
	config.ClientCAs, config.RootCAs = authorities, authorities
	config.SessionTicketsDisabled = true // a resumed session would be let in by authorities that are not in force any more
	return config, nil
}

// log tells which certificate is in force.
func (c *certificates) log(log *slog.Logger) {
	leaf := c.shown()
	if left := time.Until(leaf.NotAfter); left <= 0 {
		log.Warn("the TLS certificate has expired: clients will refuse it", "subject", leaf.Subject.String(), "expired", leaf.NotAfter)
		return
	}
	log.Info("TLS certificate in force", "subject", leaf.Subject.String(), "expires", leaf.NotAfter)
}

// reloadCertificates reads the TLS files again. With a fault in them the ones before stay in force.
func (n *node) reloadCertificates() {
	if n.certs == nil {
		return
	}
	if err := n.certs.read(n.config.Values()); err != nil {
		n.log.Error("the TLS files are refused, the ones before stay in force", "err", err)
		return
	}
	n.certs.log(n.log)
}
