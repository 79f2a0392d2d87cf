package main

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// authority signs certificates.
type authority struct {
	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(t testing.TB) *authority {
	a := &authority{t: t}
	template := x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	a.pem, _, a.cert, a.key = a.make(&template, "authority", nil, nil)
	return a
}

// make makes a certificate; without a parent it signs itself.
func (a *authority) make(template *x509.Certificate, name string, parent *x509.Certificate, by *ecdsa.PrivateKey) (certPEM, keyPEM []byte, cert *x509.Certificate, key *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template.SerialNumber, template.Subject = big.NewInt(time.Now().UnixNano()), pkix.Name{CommonName: name}
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	if parent == nil {
		parent, by = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, by)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, _ = x509.ParseCertificate(der)
	secret, _ := x509.MarshalPKCS8PrivateKey(key)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), cert, key
}

// sign makes a certificate for both sides of 127.0.0.1.
func (a *authority) sign(name string) (certPEM, keyPEM []byte) {
	certPEM, keyPEM, _, _ = a.make(&x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}, name, a.cert, a.key)
	return certPEM, keyPEM
}

// pool holds the authority.
func (a *authority) pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.cert)
	return p
}

// secured is a server with a TLS port beside the plain one, and its files.
type secured struct {
	*testServer
	authority *authority
	files     string // directory of cert.pem, key.pem, ca.pem
	tlsAddr   string
}

func startTLS(t testing.TB, auth string) *secured {
	s := &secured{authority: newAuthority(t), files: t.TempDir()}
	s.write(s.authority, "first")
	port := freePort(t)
	s.testServer = startTest(t, append(s.flags(auth), "--port", freePort(t), "--tls-port", port))
	s.tlsAddr = "127.0.0.1:" + port
	return s
}

// flags name the files to a server.
func (s *secured) flags(auth string) []string {
	return []string{"--tls-cert-file", s.path("cert.pem"), "--tls-key-file", s.path("key.pem"), "--tls-ca-cert-file", s.path("ca.pem"), "--tls-auth-clients", auth}
}

func (s *secured) path(name string) string { return filepath.Join(s.files, name) }

// write puts new files in their places.
func (s *secured) write(by *authority, name string) {
	cert, key := by.sign(name)
	for file, text := range map[string][]byte{"cert.pem": cert, "key.pem": key, "ca.pem": by.pem} {
		if err := os.WriteFile(s.path(file), text, 0o600); err != nil {
			by.t.Fatal(err)
		}
	}
}

// client is how a client of the authority connects; with a certificate of by, if that is not nil.
func (s *secured) client(by *authority) *tls.Config {
	c := &tls.Config{RootCAs: s.authority.pool()}
	if by != nil {
		cert, key := by.sign("client")
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			s.t.Fatal(err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c
}

// ask connects and sends PING; the answer, or the error.
func (s *secured) ask(c *tls.Config) (string, *tls.Conn) {
	nc, err := tls.Dial("tcp", s.tlsAddr, c)
	if err != nil {
		return err.Error(), nil
	}
	s.t.Cleanup(func() { nc.Close() })
	return pinged(nc), nc
}

// pinged is the answer to PING on a connection, or the error.
func pinged(nc net.Conn) string {
	nc.SetDeadline(time.Now().Add(readyWithin))
	io.WriteString(nc, "PING\r\n")
	line, err := bufio.NewReader(nc).ReadString('\n')
	if err != nil {
		return err.Error()
	}
	return line
}

// TestTLSClients: who is let in with which certificate, and that an old TLS is not.
func TestTLSClients(t *testing.T) {
	t.Parallel()
	for auth, want := range map[string]struct{ with, without, foreign string }{
		"yes":      {"+PONG", "certificate required", "unknown certificate"},
		"optional": {"+PONG", "+PONG", "unknown certificate"},
		"no":       {"+PONG", "+PONG", "+PONG"},
	} {
		s := startTLS(t, auth)
		for name, c := range map[string]struct {
			by   *authority
			want string
		}{"with": {s.authority, want.with}, "without": {nil, want.without}, "foreign": {newAuthority(t), want.foreign}} {
			if got, _ := s.ask(s.client(c.by)); !strings.Contains(got, c.want) {
				t.Errorf("tls-auth-clients %s, %s certificate: %q, want %q", auth, name, got, c.want)
			}
		}
		if auth == "yes" {
			until(t, "the log tells of a client without a certificate", func() bool {
				return strings.Contains(s.log.String(), "for want of a certificate that the other side accepts")
			})
		}
		old := s.client(s.authority)
		old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
		if got, _ := s.ask(old); !strings.Contains(got, "protocol version") {
			t.Errorf("TLS 1.1: %q", got)
		}
		if got := dial(t, s.addr).do("PING").text; got != "PONG" {
			t.Errorf("the plain port beside it: %q", got)
		}
	}
}

// TestTLSCostsOthersNothing: clients that say nothing, or speak the other language, are no matter for those who do it
// right, and who speaks the other one is told so at once.
func TestTLSCostsOthersNothing(t *testing.T) {
	t.Parallel()
	const silent = 20 // a server that heard them one after another would need their deadline, 5 s, for each
	s := startTLS(t, "no")
	for range silent {
		nc, err := net.Dial("tcp", s.tlsAddr)
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
	}
	start := time.Now()
	if got, _ := s.ask(s.client(nil)); got != "+PONG\r\n" {
		t.Errorf("beside silent clients: %q", got)
	}
	if got := converse(t, "tcp", s.tlsAddr, "PING\r\n"); got != "-ERR this port speaks TLS only\r\n" {
		t.Errorf("a plain client is told %q", got)
	}
	if _, err := tls.Dial("tcp", s.addr, s.client(nil)); err == nil || !strings.Contains(err.Error(), "does not look like a TLS handshake") {
		t.Errorf("TLS on the plain port: %v", err)
	}
	if took := time.Since(start); took > readyWithin {
		t.Errorf("it took %v", took)
	}
	if text := s.log.String(); strings.Count(text, "hint=") != 1 || !strings.Contains(text, "does not speak TLS on the port that does") {
		t.Errorf("of the first of the two the log says %s", text)
	}
	s.advance(time.Minute)
	tls.Dial("tcp", s.addr, s.client(nil))
	if text := s.log.String(); strings.Count(text, "hint=") != 2 || !strings.Contains(text, "speaks TLS on a port that does not") {
		t.Errorf("a minute later the log says %s", text)
	}
	if n := s.node.srv.Stats().TLSFailures; n == 0 {
		t.Error("no failure is counted")
	}
}

// TestTLSReload: SIGHUP brings new files in force for new clients and leaves the old ones alone; bad files change nothing.
func TestTLSReload(t *testing.T) {
	t.Parallel()
	s := startTLS(t, "yes")
	_, before := s.ask(s.client(s.authority))
	check := func(when, subject string) {
		t.Helper()
		got, nc := s.ask(s.client(s.authority))
		if nc == nil || got != "+PONG\r\n" {
			t.Fatalf("%s: %q", when, got)
		}
		if name := nc.ConnectionState().PeerCertificates[0].Subject.CommonName; name != subject {
			t.Errorf("%s: the certificate of %q is shown, want %q", when, name, subject)
		}
		if got := pinged(before); got != "+PONG\r\n" {
			t.Errorf("%s: a client that was there gets %q", when, got)
		}
	}
	check("at first", "first")
	s.write(s.authority, "second")
	check("before the signal", "first")
	s.node.reloadCertificates()
	check("after it", "second")
	for _, file := range []string{"cert.pem", "key.pem", "ca.pem"} {
		good, err := os.ReadFile(s.path(file))
		if err != nil {
			t.Fatal(err)
		}
		os.WriteFile(s.path(file), []byte("no certificate"), 0o600)
		s.node.reloadCertificates()
		check("with a bad "+file, "second")
		os.WriteFile(s.path(file), good, 0o600)
	}
	if n := strings.Count(s.log.String(), "the ones before stay in force"); n != 3 {
		t.Errorf("%d bad files were logged, want 3:\n%s", n, s.log.String())
	}
	other := newAuthority(t)
	stale := s.client(s.authority)
	stale.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	s.ask(stale)
	s.write(other, "third")
	s.node.reloadCertificates()
	s.authority = other
	check("with another authority", "third")
	stale.RootCAs = other.pool()
	if got, _ := s.ask(stale); !strings.Contains(got, "unknown certificate") {
		t.Errorf("a client that the old authority signed for gets %q", got)
	}
}

// TestTLSFaults: what is missing or wrong stops the start with a sentence.
func TestTLSFaults(t *testing.T) {
	t.Parallel()
	a, dir := newAuthority(t), t.TempDir()
	cert, key := a.sign("server")
	_, otherKey := a.sign("other")
	file := func(name string, text []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := Values{TLSPort: 1, TLSCertFile: file("cert", cert), TLSKeyFile: file("key", key), TLSCACertFile: file("ca", a.pem), TLSAuthClients: "yes"}
	for _, c := range []struct {
		change func(*Values)
		want   string
	}{
		{func(v *Values) {}, ""},
		{func(v *Values) { v.TLSKeyFile = "" }, "tls-port needs tls-cert-file and tls-key-file"},
		{func(v *Values) { v.TLSKeyFile = file("other", otherKey) }, "private key does not match"},
		{func(v *Values) { v.TLSCertFile = "/nowhere" }, "no such file"},
		{func(v *Values) { v.TLSCACertFile = "" }, "tls-auth-clients yes needs tls-ca-cert-file"},
		{func(v *Values) { v.TLSCACertFile, v.TLSAuthClients = "", "no" }, ""},
		{func(v *Values) { v.TLSCACertFile, v.TLSAuthClients, v.TLSReplication = "", "no", true }, "tls-replication yes needs tls-ca-cert-file"},
		{func(v *Values) { v.TLSPort, v.TLSReplication = 0, true }, "tls-replication yes needs tls-port"},
		{func(v *Values) { v.TLSCACertFile = v.TLSKeyFile }, "no certificate is in it"},
	} {
		v := good
		c.change(&v)
		_, err := readCertificates(v)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", v, err, c.want)
		}
	}
}

// TestPortZero: without another way in it is any free port, with one it is none.
func TestPortZero(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		v    Values
		want bool
	}{{Values{}, true}, {Values{Port: 1, TLSPort: 1}, true}, {Values{TLSPort: 1}, false}, {Values{UnixSocket: "s"}, false}} {
		if got := c.v.plain(); got != c.want {
			t.Errorf("%+v: %v, want %v", c.v, got, c.want)
		}
	}
}
