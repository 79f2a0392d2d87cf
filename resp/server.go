package resp

import (
	"context"
	"log/slog"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rlserver/rlserver/engine"
	"github.com/rlserver/rlserver/shard"
)

// Clock is the server's clock: ns since 1970, never running backwards.
type Clock interface{ NowNs() int64 }

// Durability is what the wire asks of the disk. It is called from connections
// and never waits, except in Wait.
type Durability interface {
	// Save asks for a round now and returns the one that will hold everything
	// changed before the call.
	Save() (round uint64)
	// Urgent asks for a round soon, for a change that should not wait for the
	// interval, and does not wait either.
	Urgent() (round uint64)
	// Wait returns when the round is durable, or with the reason it is not.
	Wait(round uint64) error
	// Ready is Wait for who does not wait: it asks for the round, and says whether
	// Wait would return, and with what.
	Ready(round uint64) (ready bool, err error)
	// Durable is the last round that is durable, with all before it.
	Durable() uint64
	// Notify has f called whenever Ready may answer otherwise than before. f must
	// neither wait nor ask the disk anything.
	Notify(f func())
	// Trouble is why a change made now could not become durable, or nil.
	Trouble() error
	// LastSave is the Unix time, in seconds, up to which the disk was brought.
	LastSave() int64
}

// Options is CONFIG's view of the server's options.
type Options interface {
	Get(pattern string) [][2]string
	Set(pairs [][2]string) error // all or nothing; the error is a Redis text
}

// Settings are the options that sessions obey; they may change while clients
// are connected and hold from a client's next command on.
type Settings struct {
	CallerClock   engine.ClockMode
	MaxSkew       int64  // ms
	Password      string // of the user default, put in force when it changes; empty = none
	ProtectedMode bool
	MaxClients    int
	Timeout       time.Duration // idle time allowed; 0 = any
	KeepAlive     time.Duration // TCP keepalive; 0 = off
	MaxBulk       int           // bytes of one argument
	SlowLogLen    int           // entries of the slow log; 0 = there is none
	SlowerThan    time.Duration // a command that takes as long goes to it; negative = none does

	MaxClientMemory int64 // bytes of all clients' buffers together; 0 = any
}

// Config is what a Server is made of. All fields are needed, but for LimitsFile,
// Users, UserStore, Backup, Shutdown and Extra.
type Config struct {
	Store      *shard.Store
	Clock      Clock
	Durability Durability
	Options    Options
	Settings   Settings
	Log        *slog.Logger
	Version    string                  // ours
	Port       int                     // for INFO
	LimitsFile string                  // whose limits callers cannot change; empty = none
	Users      *UserFile               // beside the user default or instead of it; nil = that one alone
	UserStore  UserStore               // for ACL LOAD and ACL SAVE; nil = they are refused
	Backup     func(name string) error // begins a backup and does not wait; the error is a text for the client; nil = BGSAVE TO is refused
	Shutdown   func(save bool)         // SHUTDOWN was asked; must not block
	Extra      func() []any            // other rooms' Stats, for INFO

	Replication Replication // nil = this server is alone
}

// Server answers clients over a keyspace.
type Server struct {
	store      *shard.Store
	clock      Clock
	durability Durability
	options    Options
	log        *slog.Logger
	version    string
	port       int
	limitsFile string
	backup     func(name string) error
	shutdown   func(save bool)
	extra      func() []any
	table      *table
	accounts   *accounts
	settings   atomic.Pointer[Settings]
	loading    atomic.Bool
	nextID     atomic.Int64
	pause      pause
	budget     budget
	pubsub     pubsub
	counters   counters
	slow       slowLog
	clockWarn  atomic.Int64 // ns, when the clamp of a caller's clock was last logged
	portWarned atomic.Int64 // ns, when a client on the wrong port was last logged
	gateWarn   atomic.Int64 // ns, when a client closed at the gate was last logged
	mustLast   bool         // replies to changes wait until they are durable
	ahead      bool         // but for those that the disk is ahead of
	shipping   atomic.Bool  // replies to changes wait until replicas have them
	repl       Replication  // nil = this server is alone
	runID      string
	started    int64 // ns

	within    bounds
	greeting  chan struct{} // one in it for each TLS handshake that computes
	loopCount int           // event loops; 0 = from the cores, negative = none: every connection has a goroutine

	mu        sync.Mutex
	loops     loops
	conns     map[carrier]struct{}
	listeners []net.Listener
	closing   bool
	done      sync.WaitGroup
}

// New makes a server. It answers -LOADING until SetLoading(false).
func New(c Config) *Server {
	srv := &Server{
		store: c.Store, clock: c.Clock, durability: c.Durability, options: c.Options, log: c.Log,
		version: c.Version, port: c.Port, limitsFile: c.LimitsFile, backup: c.Backup, shutdown: c.Shutdown, extra: c.Extra,
		table: newTable(rows()), conns: map[carrier]struct{}{}, runID: newRunID(), started: c.Clock.NowNs(),
		within: bounds{write: writeWithin, command: commandWithin, auth: authWithin, handshake: handshakeWithin, turns: turnsWithin, cut: cutWithin, wrongPass: wrongPassDelay, wrongPassMost: maxWrongPassDelay},
	}
	srv.greeting = make(chan struct{}, handshakeTurns())
	srv.counters.cells = make([]cell, srv.table.count+1)
	srv.accounts = newAccounts(srv.table, c.Settings.Password, c.Users, c.UserStore)
	srv.Apply(c.Settings)
	srv.loading.Store(true)
	srv.mustLast = c.Store.Promise() != shard.Nothing
	srv.ahead = c.Store.Promise() == shard.Ahead
	c.Durability.Notify(srv.gatesMayOpen)
	if srv.repl = c.Replication; srv.repl != nil {
		srv.repl.Notify(srv.gatesMayOpen)
	}
	return srv
}

// Apply puts new settings in force.
func (srv *Server) Apply(s Settings) {
	srv.accounts.requirePassword(s.Password)
	if s.SlowLogLen == 0 || s.SlowerThan < 0 {
		s.SlowerThan = math.MaxInt64
	}
	srv.slow.trim(s.SlowLogLen)
	srv.settings.Store(&s)
}

// SetShipping says whether replies to changes wait until replicas have them, as
// Replication.Acked tells.
func (srv *Server) SetShipping(on bool) { srv.shipping.Store(on) }

// SetLoading says whether the data is still being loaded.
func (srv *Server) SetLoading(on bool) { srv.loading.Store(on) }

// Accept back-off, as net/http has it.
const (
	acceptPauseMin = 5 * time.Millisecond
	acceptPauseMax = time.Second
	acceptLogEvery = 10 * time.Second
)

// Serve answers the listener's clients until Shutdown or until the listener is
// closed. Several may run at once.
func (srv *Server) Serve(l net.Listener) {
	if !srv.addListener(l) {
		l.Close()
		return
	}
	pause, logged := time.Duration(0), time.Time{}
	for {
		nc, err := l.Accept()
		if err == nil {
			pause = 0
			srv.counters.accepted.Add(1)
			srv.start(nc)
			continue
		}
		if srv.isClosing() {
			return
		}
		if _, isNet := err.(net.Error); !isNet {
			return // the listener was closed
		}
		// Out of file descriptors or memory: others go on, this listener waits.
		srv.counters.acceptErrors.Add(1)
		if now := time.Now(); now.Sub(logged) >= acceptLogEvery {
			logged = now
			srv.log.Error("cannot accept a connection", "err", err, "hint", "raise the limit of open files (ulimit -n)")
		}
		pause = min(max(2*pause, acceptPauseMin), acceptPauseMax)
		time.Sleep(pause)
	}
}

func (srv *Server) addListener(l net.Listener) bool {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	srv.listeners = append(srv.listeners, l)
	srv.startLoops()
	return !srv.closing
}

func (srv *Server) isClosing() bool {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	return srv.closing
}

// start has a new connection served, or refused. Refusing may block, so it has
// a goroutine.
func (srv *Server) start(nc net.Conn) {
	srv.mu.Lock()
	if srv.closing {
		srv.mu.Unlock()
		nc.Close()
		return
	}
	srv.done.Add(1)
	refusal := srv.refusal(nc)
	var c carrier
	if refusal == "" {
		c = srv.carry(nc)
		c.session().carrier = c
		srv.conns[c] = struct{}{}
	}
	srv.mu.Unlock()
	if c == nil {
		go func() {
			defer srv.done.Done()
			srv.refuse(nc, refusal)
		}()
		return
	}
	srv.keepAlive(nc)
	c.start()
}

// forget is called when a connection has ended.
func (srv *Server) forget(c carrier) {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	delete(srv.conns, c)
}

func (srv *Server) connections() int64 {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	return int64(len(srv.conns))
}

// drainFor is how long a stopping server still reads what clients had sent.
const drainFor = 50 * time.Millisecond

// partFor is how long a stopping server, after its last reply, lets a peer that
// was still sending read. Closing a socket with unread input resets it, and the
// peer's kernel then drops replies that the peer has not read.
const partFor = time.Second

// Shutdown stops accepting, answers what was received, and closes every
// connection; what has not ended when ctx does is cut off. A connection that
// waits for the disk then is not waited for: it ends when the disk answers.
func (srv *Server) Shutdown(ctx context.Context) {
	srv.mu.Lock()
	srv.closing = true
	listeners := srv.listeners
	by := time.Now().Add(drainFor)
	for c := range srv.conns {
		c.drain(by)
	}
	srv.endLoops()
	srv.mu.Unlock()
	for _, l := range listeners {
		l.Close()
	}
	ended := make(chan struct{})
	go func() { srv.done.Wait(); close(ended) }()
	select {
	case <-ended:
		return
	case <-ctx.Done():
	}
	srv.mu.Lock()
	for c := range srv.conns {
		c.cut()
	}
	srv.mu.Unlock()
	select {
	case <-ended:
	case <-time.After(srv.within.cut):
	}
}
