//go:build linux

package main

import (
	"bytes"
	"context"
	crand "crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/big"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// comparison is what the command line of compare says.
type comparison struct {
	options
	out      string
	rlserver string // binary; "" = built from root
	redis    string
	root     string
}

// secret is the password of the servers that are compared.
const secret = "attack"

// A server is a program to be attacked.
type server struct {
	name, path string
	args       []string // without what follows
	secure     []string // for TLS, without its port
	http       bool     // it has a port of HTTP
}

// compare makes the attacks against rlserver and a real Redis, each time on a server just started, and writes the
// page of what they did.
func compare(ctx context.Context, args []string, out io.Writer) error {
	c := comparison{}
	flags := flag.NewFlagSet("attack compare", flag.ContinueOnError)
	flags.DurationVar(&c.time, "time", 3*time.Second, "how long one attack lasts, 100ms to 1m")
	flags.Float64Var(&c.scale, "scale", 1, "what counts are multiplied with, 0.01 to 1")
	flags.StringVar(&c.out, "o", "", "write the page to this `file`")
	flags.StringVar(&c.rlserver, "rlserver", "", "rlserver `binary` (default: built from -root)")
	flags.StringVar(&c.redis, "redis", "redis-server", "redis-server `binary`")
	flags.StringVar(&c.root, "root", ".", "rlserver's source `directory`")
	if err := flags.Parse(args); err != nil {
		return err
	}
	c.names, c.password = flags.Args(), secret
	chosen, err := choose(c.options)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "attack")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if c.rlserver == "" {
		c.rlserver = filepath.Join(dir, "rlserver")
		build := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", c.rlserver, "./cmd/rlserver")
		build.Dir = c.root
		if text, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("building rlserver: %w\n%s", err, text)
		}
	}
	secure, err := certificate(dir)
	if err != nil {
		return err
	}
	servers := []server{
		{"rlserver", c.rlserver, nil, secure, true},
		{"redis", c.redis, []string{"--save", "", "--appendonly", "no"}, secure, false},
	}
	p := newPage(servers, c.options)
	for _, a := range chosen {
		for i, s := range servers {
			r, err := s.fresh(ctx, dir, a, c.options)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", s.name, a.name, err)
			}
			fmt.Fprintf(out, "%-9s", s.name)
			r.print(out, false)
			p.add(a, i, r)
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
	}
	if c.out == "" {
		return nil
	}
	return os.WriteFile(c.out, p.bytes(), 0o644)
}

// fresh starts a server, has it attacked, and ends it.
func (s server) fresh(ctx context.Context, dir string, a attack, o options) (r result, err error) {
	home, err := os.MkdirTemp(dir, s.name)
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(home)
	ports, err := freePorts(3)
	if err != nil {
		return r, err
	}
	args := slices.Concat([]string{"--port", ports[0], "--dir", home, "--requirepass", secret, "--tls-port", ports[1]}, s.secure, s.args)
	if s.http {
		args = append(args, "--http-addr", net.JoinHostPort("127.0.0.1", ports[2]))
	}
	var said bytes.Buffer
	cmd := exec.Command(s.path, args...)
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt is for us; we end it
	if err := cmd.Start(); err != nil {
		return r, err
	}
	defer func() {
		cmd.Process.Kill()
		cmd.Wait()
	}()
	addr := net.JoinHostPort("127.0.0.1", ports[0])
	var t *target
	for end := time.Now().Add(answerWithin); ; {
		if t, err = reach(addr, secret, cmd.Process.Pid); err == nil {
			return t.suffer(ctx, a, o), nil
		}
		if time.Now().After(end) || ctx.Err() != nil {
			return r, errors.Join(fmt.Errorf("it does not come up: %s", said.Bytes()), err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// certificate makes one with a key of RSA, as most have, and returns the options that name the files.
func certificate(dir string) (options []string, err error) {
	key, err := rsa.GenerateKey(crand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	form := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "attacked"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour)}
	cert, err := x509.CreateCertificate(crand.Reader, form, form, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	err = errors.Join(os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), 0o600),
		os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}), 0o600))
	return []string{"--tls-cert-file", certFile, "--tls-key-file", keyFile, "--tls-auth-clients", "no"}, err
}

// freePorts are ports of this machine that nobody listened on a moment ago, from below those that the system gives to
// clients, of which attacks have many.
func freePorts(n int) (ports []string, err error) {
	const lowest, count, tries = 10_000, 20_000, 100
	for range tries {
		port := strconv.Itoa(lowest + rand.IntN(count))
		l, bad := net.Listen("tcp", net.JoinHostPort("127.0.0.1", port))
		if bad != nil {
			err = bad
			continue
		}
		defer l.Close() // not before all are found, which therefore differ
		if ports = append(ports, port); len(ports) == n {
			return ports, nil
		}
	}
	return nil, err
}
