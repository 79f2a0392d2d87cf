package observe

import (
	"net"
	"sync"
)

// maxVisitors is how many connections there are at once. Nobody says who he is here, and each takes a file and memory
// that clients and the disk would miss.
const maxVisitors = 32

// newest is a listener that keeps its newest connections, at most so many: for one more the oldest is closed. So who
// connects and says nothing keeps nobody out, and a scraper whose connection has to go makes another.
type newest struct {
	net.Listener
	most int

	mu   sync.Mutex
	open []*visitor // oldest first
}

// Newest returns a listener with the bound on connections that Server has to be served on. It owns l.
func Newest(l net.Listener) net.Listener { return &newest{Listener: l, most: maxVisitors} }

// Accept implements net.Listener.
func (n *newest) Accept() (net.Conn, error) {
	c, err := n.Listener.Accept()
	if err != nil {
		return nil, err
	}
	v := &visitor{Conn: c, of: n}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.open = append(n.open, v); len(n.open) > n.most {
		oldest := n.open[0]
		n.open = n.open[1:]
		oldest.Conn.Close() // the server finds out, and calls Close
	}
	return v, nil
}

// visitor is a connection that its listener knows of.
type visitor struct {
	net.Conn
	of *newest
}

// Close implements net.Conn.
func (v *visitor) Close() error {
	v.of.mu.Lock()
	for i, o := range v.of.open {
		if o == v {
			v.of.open = append(v.of.open[:i], v.of.open[i+1:]...)
			break
		}
	}
	v.of.mu.Unlock()
	return v.Conn.Close()
}
