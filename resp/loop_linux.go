package resp

import (
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// procsPerLoop is how many of Go's processors there are for one event loop, of
	// which there are two for a core. Measured on 2
	// cores with 50 clients, one RL.ACQUIRE each at a time: 8.8 us of CPU a call
	// with one loop, 12.4 us with two, which find half as many sockets ready at
	// each wait and so wait twice as often; with 32 in a pipeline 0.98 and 1.14 us.
	procsPerLoop = 4
	// tickEvery is how often deadlines are looked at, at most.
	tickEvery = 100 * time.Millisecond
	// loopRead is the size of the buffer that all sockets of a loop read into, bytes.
	loopRead = 64 << 10
	// smallRest is how many bytes of an unfinished command are copied to the
	// front of that buffer before the next read. What is longer grows in a buffer
	// of its own.
	smallRest = 16 << 10
	// feedsAtOnce is how often a socket's output may reach flushAt before the
	// others have their turn, if that is not due by its time.
	feedsAtOnce = 4
)

// loops are the server's event loops.
type loops struct {
	all   []*loop
	gates atomic.Pointer[[]*loop] // all, for who does not hold srv.mu
}

// startLoops starts the event loops once. Where that fails, connections have a
// goroutine each. srv.mu is held.
func (srv *Server) startLoops() {
	if srv.loops.all != nil || srv.closing {
		return
	}
	defer func() {
		all := srv.loops.all
		srv.loops.gates.Store(&all)
	}()
	count := srv.loopCount
	if count == 0 {
		count = max(1, runtime.GOMAXPROCS(0)/procsPerLoop)
	}
	for range count {
		poll, err := newEpoll()
		if err != nil {
			srv.log.Error("cannot start an event loop", "err", err)
			return
		}
		l := &loop{srv: srv, poll: poll, in: make([]byte, loopRead)}
		l.gate.again = l.openGate
		srv.loops.all = append(srv.loops.all, l)
		srv.done.Add(1)
		go l.run()
	}
}

// endLoops makes the loops end when their last connection has. srv.mu is held.
func (srv *Server) endLoops() {
	for _, l := range srv.loops.all {
		l.post(func() { l.ending = true })
	}
}

// carry makes the carrier of a connection: plain sockets go to the loop that
// has fewest, everything else gets a goroutine. srv.mu is held.
func (srv *Server) carry(nc net.Conn) carrier {
	switch nc.(type) {
	case *net.TCPConn, *net.UnixConn:
	default:
		return srv.newConn(nc)
	}
	var to *loop
	for _, l := range srv.loops.all {
		if to == nil || l.count.Load() < to.count.Load() {
			to = l
		}
	}
	if to == nil {
		return srv.newConn(nc)
	}
	to.count.Add(1)
	return &sock{life: srv.newLife(nc), nc: nc, loop: to, fd: -1, place: -1}
}

// loop serves many sockets with one goroutine, which alone touches all but
// count and what mu guards.
type loop struct {
	srv   *Server
	poll  *epoll
	socks []*sock      // by descriptor
	count atomic.Int64 // sockets it has, those on their way to it included
	now   time.Time    // read once a round

	in  []byte // every socket reads into it
	out []byte // every session answers into it

	gate    gate      // wait for the disk
	again   []*sock   // wait for a turn behind the others, the longest waiting first
	turned  time.Time // when the last turn ended
	watched []*sock   // have a deadline
	tickAt  time.Time // when watched is looked at next; zero = never
	ending  bool      // ends when the last socket has

	mu    sync.Mutex
	tasks []func() // what other goroutines want done here
	ended bool
}

// post has something done on the loop's goroutine; on a loop that has ended it
// is dropped.
func (l *loop) post(task func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	l.tasks = append(l.tasks, task)
	if len(l.tasks) == 1 {
		l.poll.ring()
	}
}

func (l *loop) run() {
	defer l.srv.done.Done()
	for !l.ending || l.count.Load() > 0 {
		events := l.poll.wait(l.patience())
		l.now = time.Now()
		l.turned = l.now
		rung := false
		for i := range events {
			if fd := int(events[i].Fd); fd == l.poll.bell {
				rung = true
			} else if c := l.socks[fd]; c != nil {
				l.serve(c)
			}
		}
		if rung {
			l.runTasks()
		}
		l.takeTurns()
		l.askAtGate()
		l.tick()
	}
	l.mu.Lock()
	l.ended = true
	l.poll.close()
	l.mu.Unlock()
}

// patience is how long the loop may wait for events; negative = without end.
func (l *loop) patience() time.Duration {
	switch {
	case len(l.again) > 0:
		return 0
	case l.tickAt.IsZero():
		return -1
	}
	return max(0, l.tickAt.Sub(l.now))
}

// runTasks does what other goroutines posted.
func (l *loop) runTasks() {
	l.poll.heard()
	l.mu.Lock()
	tasks := l.tasks
	l.tasks = nil
	l.mu.Unlock()
	for _, task := range tasks {
		task()
	}
}

// tick ends what is past its deadline.
func (l *loop) tick() {
	if l.tickAt.IsZero() || l.now.Before(l.tickAt) {
		return
	}
	l.tickAt = time.Time{}
	for i := len(l.watched) - 1; i >= 0; i-- { // unwatch moves the last one to where one was
		c := l.watched[i]
		switch by := c.deadline(); {
		case by.IsZero():
			l.unwatch(c)
		case l.now.Before(by):
			l.tickAt = nearest(l.tickAt, by)
		default:
			c.late()
		}
	}
	if soon := l.now.Add(tickEvery); !l.tickAt.IsZero() && l.tickAt.Before(soon) {
		l.tickAt = soon
	}
}

// watch has a socket's deadline looked at.
func (l *loop) watch(c *sock, by time.Time) {
	l.tickAt = nearest(l.tickAt, by)
	if c.place < 0 {
		c.place = len(l.watched)
		l.watched = append(l.watched, c)
	}
}

func (l *loop) unwatch(c *sock) {
	if c.place < 0 {
		return
	}
	last := len(l.watched) - 1
	l.watched[c.place] = l.watched[last]
	l.watched[c.place].place = c.place
	l.watched[last] = nil
	l.watched = l.watched[:last]
	c.place = -1
}
