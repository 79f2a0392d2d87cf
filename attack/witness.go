//go:build linux

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"time"
)

// A witness is another client of the server, well-behaved, that measures how long it waits. It is a process of its
// own, so that the attacker's work does not count as the server's. It asks a control by turns, too: a process that
// only echoes. What the control takes is what the machine, busy with the attack, takes from everybody.

// roleVar in the environment makes this program a child: a control, a witness or an attacker.
const roleVar = "RL_ATTACK_ROLE"

// asksEvery is the pause between two questions of a witness.
const asksEvery = time.Millisecond

// testimony is what a witness saw. Times are in µs.
type testimony struct {
	Asked                int
	P50, P99, Max        int64
	Control50, Control99 int64
	Fault                string `json:",omitempty"` // why it got no more answers
}

// order is what a witness is to do.
type order struct{ Addr, Password string }

func play(role string) error {
	switch role {
	case "control":
		return control()
	case "attacker":
		return attacker()
	}
	return witness()
}

// control echoes what comes, on a port that it tells.
func control() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	nc, err := l.Accept()
	if err != nil {
		return err
	}
	_, err = io.Copy(nc, nc)
	return err
}

// witness reads its order, says "ready", asks until its input ends, and tells what it saw.
func witness() error {
	in := bufio.NewReader(os.Stdin)
	var o order
	line, err := in.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &o)
	}
	if err != nil {
		return err
	}
	echo, other, err := startControl()
	if err != nil {
		return err
	}
	defer echo.stop()
	c, err := (&target{addr: o.Addr, password: o.Password}).login()
	if err != nil {
		return err
	}
	over := make(chan struct{})
	go func() { io.Copy(io.Discard, in); close(over) }()
	var waits, controls []time.Duration
	var t testimony
	question := frame("EXISTS", "attack:witness")
	for first := true; t.Fault == ""; {
		select {
		case <-over:
		case <-time.After(asksEvery):
			if err := ask(other, question, len(question), &controls); err != nil {
				return fmt.Errorf("control: %w", err)
			}
			if err := ask(c, question, len(":0\r\n"), &waits); err != nil {
				t.Fault = err.Error()
			}
			if first {
				first = false
				fmt.Println("ready")
			}
			continue
		}
		break
	}
	t.Asked = len(waits)
	t.P50, t.P99, t.Max = percentile(waits, 50), percentile(waits, 99), percentile(waits, 100)
	t.Control50, t.Control99 = percentile(controls, 50), percentile(controls, 99)
	return json.NewEncoder(os.Stdout).Encode(t)
}

// ask sends a question and waits for an answer of so many bytes.
func ask(c net.Conn, question string, answer int, waits *[]time.Duration) error {
	c.SetDeadline(time.Now().Add(answerWithin))
	began := time.Now()
	if _, err := io.WriteString(c, question); err != nil {
		return err
	}
	_, err := io.ReadFull(c, make([]byte, answer))
	*waits = append(*waits, time.Since(began))
	return err
}

// percentile is in µs; 0 of nothing.
func percentile(all []time.Duration, p int) int64 {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[min(len(all)-1, len(all)*p/100)].Microseconds()
}

// child is a process of ours that plays a role.
type child struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func startChild(role string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), roleVar+"="+role)
	cmd.Stderr = os.Stderr
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		return nil, err
	}
	return &child{cmd, in, bufio.NewReader(out)}, nil
}

func (c *child) stop() {
	c.cmd.Process.Kill()
	c.cmd.Wait()
}

// startControl starts a control and connects to it.
func startControl() (*child, net.Conn, error) {
	c, err := startChild("control")
	if err != nil {
		return nil, nil, err
	}
	addr, err := c.out.ReadString('\n')
	if err == nil {
		var nc net.Conn
		if nc, err = net.Dial("tcp", addr[:len(addr)-1]); err == nil {
			return c, nc, nil
		}
	}
	c.stop()
	return nil, nil, err
}

// callWitness starts a witness that asks from now on.
func (t *target) callWitness() (*child, error) {
	c, err := startChild("witness")
	if err != nil {
		return nil, err
	}
	json.NewEncoder(c.in).Encode(order{t.addr, t.password})
	if line, err := c.out.ReadString('\n'); line != "ready\n" {
		c.stop()
		return nil, fmt.Errorf("the witness says %q: %w", line, err)
	}
	return c, nil
}

// dismiss ends a witness and returns what it saw.
func (c *child) dismiss() (saw testimony) {
	c.in.Close()
	if err := json.NewDecoder(c.out).Decode(&saw); err != nil {
		saw.Fault = "no testimony: " + err.Error()
	}
	c.cmd.Wait()
	return saw
}
