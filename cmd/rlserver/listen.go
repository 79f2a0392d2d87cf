package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/rlserver/rlserver/resp"
)

// A door is where clients are answered.
type door struct {
	net.Listener
	secure bool // TLS
}

// String is the door as the banner shows it.
func (d door) String() string {
	if d.secure {
		return d.Addr().String() + " (TLS)"
	}
	return d.Addr().String()
}

// cli is how redis-cli is told of the door.
func (d door) cli() string {
	tcp, ok := d.Addr().(*net.TCPAddr)
	if !ok {
		return " -s " + d.Addr().String()
	}
	where := " -p " + strconv.Itoa(tcp.Port)
	if !tcp.IP.IsLoopback() && !tcp.IP.IsUnspecified() {
		where = " -h " + tcp.IP.String() + where
	}
	if d.secure {
		where += " --tls"
	}
	return where
}

// openDoors listens wherever the options say: for plain TCP, for TLS, on a unix socket, in this order. certs is nil
// without TLS.
func openDoors(v Values, certs *certificates) (all []door, err error) {
	defer func() {
		if err != nil {
			for _, d := range all {
				d.Close()
			}
		}
	}()
	if v.plain() {
		listeners, err := listen(v.Listen(v.Port), "--port")
		for _, l := range listeners {
			all = append(all, door{Listener: l})
		}
		if err != nil {
			return all, err
		}
	}
	if certs != nil {
		listeners, err := listen(v.Listen(v.TLSPort), "--tls-port")
		for _, l := range listeners {
			all = append(all, door{resp.SecureListener(l, certs.config()), true})
		}
		if err != nil {
			return all, err
		}
	}
	if v.UnixSocket != "" {
		l, err := listenUnix(v.UnixSocket, v.UnixSocketPerm)
		if err != nil {
			return all, err
		}
		all = append(all, door{Listener: l})
	}
	return all, nil
}

// listen opens addresses of bind; option is the one that chooses their port. What is open is returned with an error too.
func listen(addresses []listenAddress, option string) (all []net.Listener, err error) {
	how := net.ListenConfig{Control: boundSocket}
	how.SetMultipathTCP(false) // connections do not inherit the bound of such a socket
	for _, a := range addresses {
		l, err := how.Listen(context.Background(), a.Network, a.Address)
		if err != nil && a.Optional {
			continue
		}
		if err != nil {
			return all, fmt.Errorf("cannot listen on %s: %w (another server on this port? %s chooses a different one)", a.Address, err, option)
		}
		all = append(all, l)
	}
	if len(all) == 0 {
		return nil, errors.New("none of the addresses of bind is there to listen on")
	}
	return all, nil
}

// unixAnswersWithin is how long a server that listens on a unix socket may take to be noticed.
const unixAnswersWithin = time.Second

// listenUnix makes a unix socket, with a mode if that is not 0. A file that a server left behind is replaced; one that
// somebody listens on, or that is no socket, is an error. It is removed when the listener is closed.
func listenUnix(path string, mode int) (net.Listener, error) {
	fail := func(why error) (net.Listener, error) {
		return nil, fmt.Errorf("cannot listen on unixsocket %s: %w", path, why)
	}
	switch info, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return fail(err)
	case info.Mode().Type() != fs.ModeSocket:
		return fail(errors.New("there is a file of this name that is no socket; remove it or choose another name"))
	default:
		nc, err := net.DialTimeout("unix", path, unixAnswersWithin)
		if err == nil {
			nc.Close()
			return fail(errors.New("another server listens there"))
		}
		if !errors.Is(err, syscall.ECONNREFUSED) {
			return fail(fmt.Errorf("it is not clear whether another server does: %w", err))
		}
		if err := os.Remove(path); err != nil {
			return fail(err)
		}
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return fail(err)
	}
	if mode != 0 {
		if err := os.Chmod(path, fs.FileMode(mode)); err != nil {
			l.Close()
			return fail(err)
		}
	}
	return l, nil
}

// plainPort is the port of the first door of plain TCP, for INFO; 0 = there is none.
func plainPort(doors []door) int {
	if tcp, ok := doors[0].Addr().(*net.TCPAddr); ok && !doors[0].secure {
		return tcp.Port
	}
	return 0
}
