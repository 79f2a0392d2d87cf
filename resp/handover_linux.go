package resp

import (
	"net"
	"os"
	"syscall"
)

// giveAway makes a connection of its own of what the loop serves, and ends the
// loop's part in it.
func (c *sock) giveAway(rest []byte) {
	fd, err := syscall.Dup(c.fd)
	if err != nil {
		c.srv.log.Error("cannot give a connection away", "client", c.s.addr, "err", err)
		c.close()
		return
	}
	syscall.CloseOnExec(fd)
	f := os.NewFile(uintptr(fd), "")
	nc, err := net.FileConn(f)
	f.Close()
	if err != nil {
		c.srv.log.Error("cannot give a connection away", "client", c.s.addr, "err", err)
	} else {
		c.srv.handOver(nc, c.s, rest)
	}
	c.loop.poll.control(syscall.EPOLL_CTL_DEL, c.fd, 0) // the file stays open, so closing fd does not
	c.close()
}
