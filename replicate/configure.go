package replicate

// Configure changes what may change of a Config while the node runs.
type Configure struct {
	Acks       AckMode
	FenceAfter Time
}

func (Configure) message() {}

func (n *Node) configure(m Configure) {
	n.c.Acks, n.c.FenceAfter = m.Acks, m.FenceAfter
	n.watch.renew(n.c.FenceAfter)
	n.releaseAcked()
}
