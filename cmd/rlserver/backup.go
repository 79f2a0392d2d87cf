package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/rlserver/rlserver/persist"
)

// backupInto is what BGSAVE TO does: nil if there is no directory for backups.
func (n *node) backupInto(dir string) func(name string) error {
	if dir == "" {
		return nil
	}
	return func(name string) error {
		err := n.db.Backup(filepath.Join(dir, name))
		if errors.Is(err, persist.ErrBackupRunning) {
			return errors.New("Background save already in progress") // Redis's words
		}
		return err
	}
}

// Bounds of waiting for a server.
const (
	askWithin   = 10 * time.Second // for an answer
	backupEvery = 100 * time.Millisecond
)

// runBackup is rlserver backup NAME [FILE] [--option value ...]: it asks the
// server that runs with these options, and waits for the end.
func runBackup(args []string, stdout, stderr io.Writer) int {
	fail := func(code int, err error) int {
		fmt.Fprintf(stderr, "rlserver backup: %v\n", err)
		return code
	}
	inv, err := parseInvocation(args[1:], os.Environ())
	if err == nil && inv.action != actionServe {
		err = errors.New("expected a config file and options")
	}
	if err != nil {
		return fail(exitBadUsage, err)
	}
	v := inv.config.Values()
	a, err := askServer(v)
	if err != nil {
		return fail(exitUnable, asWhom(err))
	}
	defer a.conn.Close()
	if _, err := a.ask("BGSAVE", "TO", args[0]); err != nil {
		return fail(exitUnable, asWhom(err))
	}
	for {
		info, err := a.ask("INFO", "persistence")
		if err != nil {
			return fail(exitUnable, fmt.Errorf("the server was asked and may have made the backup: %w", err))
		}
		facts := map[string]string{}
		for line := range strings.Lines(info) {
			name, value, _ := strings.Cut(strings.TrimRight(line, "\r\n"), ":")
			facts[name] = value
		}
		switch {
		case filepath.Base(facts["rl_last_backup"]) != args[0]:
			return fail(exitUnable, errors.New("somebody else has begun another backup meanwhile: INFO and the log of the server tell what became of this one"))
		case facts["rl_backup_in_progress"] == "1":
			time.Sleep(backupEvery)
			continue
		case facts["rl_last_backup_status"] != "ok":
			return fail(exitUnable, errors.New(plain(facts["rl_last_backup_error"])))
		}
		bytes, _ := strconv.ParseInt(facts["rl_last_backup_bytes"], 10, 64)
		fmt.Fprintf(stdout, "%s: %s, in %s s\n", plain(facts["rl_last_backup"]), megabytes(bytes), plain(facts["rl_last_backup_seconds"]))
		return exitOK
	}
}

// asWhom adds to a refusal of who asks how another user does.
func asWhom(err error) error {
	for _, refusal := range []string{"NOAUTH", "WRONGPASS", "NOPERM", "ERR AUTH"} {
		if strings.HasPrefix(err.Error(), refusal) {
			return fmt.Errorf("%w (as another user: redis-cli --user NAME --askpass BGSAVE TO NAME)", err)
		}
	}
	return err
}

// An asker speaks to a running server.
type asker struct {
	conn net.Conn
	in   *bufio.Reader
}

// askServer connects to the server that has these options, by its unix socket
// or its plain port, and says the password if there is one.
func askServer(v Values) (*asker, error) {
	network, address := "unix", v.UnixSocket
	if address == "" {
		if !v.plain() || v.Port == 0 {
			return nil, errors.New("needs the server's unixsocket or port; where only TLS is spoken: redis-cli --tls BGSAVE TO NAME")
		}
		to := v.Listen(v.Port)[0]
		network, address = to.Network, to.Address
		for any, local := range map[string]string{"0.0.0.0": "127.0.0.1", "::": "::1"} {
			if host, port, err := net.SplitHostPort(address); err == nil && host == any {
				address = net.JoinHostPort(local, port)
			}
		}
	}
	conn, err := net.DialTimeout(network, address, askWithin)
	if err != nil {
		return nil, fmt.Errorf("no server answers: %w", err)
	}
	a := &asker{conn, bufio.NewReader(conn)}
	if v.RequirePass != "" {
		if _, err := a.ask("AUTH", string(v.RequirePass)); err != nil {
			conn.Close()
			return nil, err
		}
	}
	return a, nil
}

// maxAnswer is the longest answer that is read, in bytes.
const maxAnswer = 1 << 20

// ask sends a command and returns the reply, a string of any kind.
func (a *asker) ask(words ...string) (string, error) {
	a.conn.SetDeadline(time.Now().Add(askWithin))
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(words))
	for _, w := range words {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(w), w)
	}
	if _, err := io.WriteString(a.conn, b.String()); err != nil {
		return "", err
	}
	line, err := a.in.ReadString('\n')
	if err != nil {
		return "", err
	}
	line = strings.TrimRight(line, "\r\n")
	if line == "" {
		return "", errors.New("the server answers nothing that a Redis server would")
	}
	switch line[0] {
	case '+':
		return line[1:], nil
	case '-':
		return "", errors.New(plain(line[1:]))
	case '$':
		if n, err := strconv.Atoi(line[1:]); err == nil && n >= 0 && n <= maxAnswer {
			text := make([]byte, n+len("\r\n"))
			_, err := io.ReadFull(a.in, text)
			return string(text[:n]), err
		}
	}
	return "", errors.New("the server answers nothing that a Redis server would")
}
