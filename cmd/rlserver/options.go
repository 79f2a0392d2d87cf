package main

import (
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/rlserver/rlserver/shard"
)

// Values are the server's options, one field each, as the rest of the program reads them. The table below fills them;
// after that they are only read.
type Values struct {
	Bind             []string
	Port             int    // see plain
	TLSPort          int    // 0: no TLS
	TLSCertFile      string // PEM, as the next two
	TLSKeyFile       string
	TLSCACertFile    string // empty: none
	TLSAuthClients   string // yes, optional or no: see authClients
	TLSReplication   bool   // other nodes are reached by TLS
	UnixSocket       string // path; empty: none
	UnixSocketPerm   int    // its mode; 0: what the umask leaves
	Dir              string
	Durability       string // interval, always, reserve or shutdown
	SnapshotInterval time.Duration
	UncleanRestart   string // refund or drain
	BackupDir        string // empty: no backups
	CallerClock      string // bounded, trusted or ignored
	MaxClockSkew     time.Duration
	LimitsFile       string // empty: none
	RequirePass      secret // empty: no password asked
	ACLFile          string // empty: none
	ProtectedMode    bool
	MaxClients       int
	Timeout          time.Duration // idle time allowed to a client; 0: any
	TCPKeepalive     time.Duration // 0: off
	HTTPAddr         string        // host:port; empty: off
	SlowerThan       int           // µs from which a command goes to the slow log; negative: none does
	SlowLogLen       int           // entries of the slow log
	LogLevel         string        // debug, verbose, notice or warning: see levelNames
	LogFormat        string        // text or json
	MaxMemory        int64         // bytes; 0: none
	Shards           int           // a power of two, or 0: as many as suit the cores
	ShutdownTimeout  time.Duration
	ProtoMaxBulkLen  int // bytes
	MaxMemoryClients int // bytes; 0: any

	ReplicaOf           string // "host port"; empty: this node leads
	MasterUser          string
	MasterAuth          secret
	ReplAck             string // a number, majority or all
	ReplAckTimeout      time.Duration
	ReplAckOnTimeout    string // degrade or refuse
	FenceAfter          time.Duration
	ReplicaAnnounceIP   string // empty: where it listens
	ReplicaAnnouncePort int    // 0: where it listens
	ReplicaPriority     int
}

// An option is one row of the table: everything that flag, environment, config file, CONFIG, --help and the README
// say about it derives from here.
type option struct {
	name   string // Redis's, where Redis has the option
	def    string // as it would stand in a config file
	help   string // one line
	live   bool   // CONFIG SET may change it while the server runs
	secret bool   // its value is never shown
	kind   kind
}

// Bounds of values. A range that is wider than the rest of the server can honour would be a lie.
const (
	maxSeconds     = 1<<31 - 1 // as Redis
	maxClientCount = 1_000_000
	maxSlowMicros  = 2_000_000_000 // half an hour, and an int of 32 bits
	maxSlowEntries = 10_000        // of at most 5 KiB each
	minBulkBytes   = 2 << 10       // room for the longest key and then some
	maxClientBytes = 2000 << 20
	maxBulkBytes   = 1000 << 10 // a command of several arguments still fits the 1 MiB that one may have
	maxMemoryBytes = 1 << 40    // bytes
)

// options is the table. Its order is that of --help, CONFIG GET and the README.
var options = []option{
	{name: "bind", def: "127.0.0.1", help: "where to listen; * all IPv4, ::* all IPv6, -ADDR may be missing",
		kind: addresses(func(v *Values) *[]string { return &v.Bind })},
	{name: "port", def: "6390", help: "TCP port; 0: none with tls-port or unixsocket, else any free one",
		kind: integer(0, 65535, func(v *Values) *int { return &v.Port })},
	{name: "tls-port", def: "0", help: "TCP port where TLS is spoken; 0: none",
		kind: integer(0, 65535, func(v *Values) *int { return &v.TLSPort })},
	{name: "tls-cert-file", def: "", help: "certificate of the server, PEM; SIGHUP reads the TLS files again",
		kind: optionalPath(func(v *Values) *string { return &v.TLSCertFile })},
	{name: "tls-key-file", def: "", help: "its private key, PEM",
		kind: optionalPath(func(v *Values) *string { return &v.TLSKeyFile })},
	{name: "tls-ca-cert-file", def: "", help: "certificates of who signs the clients', PEM",
		kind: optionalPath(func(v *Values) *string { return &v.TLSCACertFile })},
	{name: "tls-auth-clients", def: "yes", help: "clients need a certificate, may have one, or are not asked",
		kind: enum(func(v *Values) *string { return &v.TLSAuthClients }, "yes", "no", "optional")},
	{name: "tls-replication", def: "no", help: "connect to the primary and other nodes by TLS, and name them tls-port for it",
		kind: boolean(func(v *Values) *bool { return &v.TLSReplication })},
	{name: "unixsocket", def: "", help: "path of a unix socket to listen on as well; empty: none",
		kind: optionalPath(func(v *Values) *string { return &v.UnixSocket })},
	{name: "unixsocketperm", def: "0", help: "its mode, such as 770; 0: what the umask leaves",
		kind: octal(0o777, func(v *Values) *int { return &v.UnixSocketPerm })},
	{name: "dir", def: "./rlserver-data", help: "directory of the data, made if missing",
		kind: path(func(v *Values) *string { return &v.Dir })},
	{name: "durability", def: "interval", help: "when changes are synced to disk",
		kind: enum(func(v *Values) *string { return &v.Durability }, "interval", "always", "reserve", "shutdown")},
	{name: "snapshot-interval", def: "1s", help: "time between syncs to disk; a crash may lose that and a flush",
		kind: duration(10*time.Millisecond, time.Hour, func(v *Values) *time.Duration { return &v.SnapshotInterval })},
	{name: "unclean-restart", def: "refund", help: "after a crash: the last save, or every key emptied",
		kind: enum(func(v *Values) *string { return &v.UncleanRestart }, "refund", "drain")},
	{name: "backup-dir", def: "./rlserver-backups", help: "where BGSAVE TO puts backups, made if missing; empty: none",
		kind: optionalPath(func(v *Values) *string { return &v.BackupDir })},
	{name: "caller-clock", def: "bounded", help: "how far a caller's now is believed",
		kind: enum(func(v *Values) *string { return &v.CallerClock }, "bounded", "trusted", "ignored")},
	{name: "max-clock-skew", def: "1s", help: "most that a caller's now may differ from the server's clock",
		kind: duration(0, 24*time.Hour, func(v *Values) *time.Duration { return &v.MaxClockSkew })},
	{name: "limits-file", def: "", help: "file of named limits, one a line; SIGHUP reads it again; empty: none",
		kind: optionalPath(func(v *Values) *string { return &v.LimitsFile })},
	{name: "requirepass", def: "", help: "password of the user default; empty: none", live: true, secret: true,
		kind: password(func(v *Values) *secret { return &v.RequirePass })},
	{name: "aclfile", def: "", help: "file of users, one a line, for ACL LOAD and ACL SAVE; empty: none",
		kind: optionalPath(func(v *Values) *string { return &v.ACLFile })},
	{name: "protected-mode", def: "yes", help: "without a password answer this machine only", live: true,
		kind: boolean(func(v *Values) *bool { return &v.ProtectedMode })},
	{name: "maxclients", def: "10000", help: "most clients at once", live: true,
		kind: integer(1, maxClientCount, func(v *Values) *int { return &v.MaxClients })},
	{name: "timeout", def: "0", help: "seconds after which an idle client is closed; 0: never", live: true,
		kind: seconds(maxSeconds, func(v *Values) *time.Duration { return &v.Timeout })},
	{name: "tcp-keepalive", def: "300", help: "seconds between keepalive probes; 0: none", live: true,
		kind: seconds(maxSeconds, func(v *Values) *time.Duration { return &v.TCPKeepalive })},
	{name: "proto-max-bulk-len", def: "512kb", help: "most bytes of one argument of a command", live: true,
		kind: size(minBulkBytes, maxBulkBytes, func(v *Values) *int { return &v.ProtoMaxBulkLen })},
	{name: "maxmemory-clients", def: "256mb", help: "bytes of all client buffers; above, the largest are closed; 0: any", live: true,
		kind: size(0, maxClientBytes, func(v *Values) *int { return &v.MaxMemoryClients })},
	{name: "maxmemory", def: "0", help: "most memory of keys and buffers; then new keys are refused; 0: any", live: true,
		kind: size(0, maxMemoryBytes, func(v *Values) *int64 { return &v.MaxMemory })},
	{name: "replicaof", def: "", help: "\"host port\" of the primary to follow when first started; later the role kept in dir counts",
		kind: hostAndPort(func(v *Values) *string { return &v.ReplicaOf })},
	{name: "masteruser", def: "", help: "user to present to a primary; empty: default", live: true,
		kind: word(func(v *Values) *string { return &v.MasterUser })},
	{name: "masterauth", def: "", help: "password to present to a primary; empty: none", live: true, secret: true,
		kind: password(func(v *Values) *secret { return &v.MasterAuth })},
	{name: "repl-ack", def: "0", help: "how many replicas must have a change before its reply leaves: 0 to 9, majority, all", live: true,
		kind: enum(func(v *Values) *string { return &v.ReplAck }, "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "majority", "all")},
	{name: "repl-ack-timeout", def: "1s", help: "how long a reply waits for them", live: true,
		kind: duration(10*time.Millisecond, time.Minute, func(v *Values) *time.Duration { return &v.ReplAckTimeout })},
	{name: "repl-ack-on-timeout", def: "degrade", help: "then answer all the same, or refuse", live: true,
		kind: enum(func(v *Values) *string { return &v.ReplAckOnTimeout }, "degrade", "refuse")},
	{name: "fence-after", def: "1500ms", help: "a primary decides so long after most Sentinels were heard; below their down-after", live: true,
		kind: duration(200*time.Millisecond, time.Hour, func(v *Values) *time.Duration { return &v.FenceAfter })},
	{name: "replica-announce-ip", def: "", help: "address at which others reach this node; empty: where it listens",
		kind: word(func(v *Values) *string { return &v.ReplicaAnnounceIP })},
	{name: "replica-announce-port", def: "0", help: "and its port; 0: where it listens",
		kind: integer(0, 65535, func(v *Values) *int { return &v.ReplicaAnnouncePort })},
	{name: "replica-priority", def: "100", help: "the replica with the lowest is promoted first; 0: never", live: true,
		kind: integer(0, 1000, func(v *Values) *int { return &v.ReplicaPriority })},
	{name: "shards", def: "0", help: "parts of the keyspace, a power of two; 0: from the cores",
		kind: powerOfTwo(shard.MaxShards, func(v *Values) *int { return &v.Shards })},
	{name: "http-addr", def: "127.0.0.1:9390", help: "where /metrics, /healthz, /readyz are served; empty: nowhere",
		kind: hostPort(func(v *Values) *string { return &v.HTTPAddr })},
	{name: "slowlog-log-slower-than", def: "10000", help: "µs from which SLOWLOG keeps a command; 0: all; -1: none", live: true,
		kind: integer(-1, maxSlowMicros, func(v *Values) *int { return &v.SlowerThan })},
	{name: "slowlog-max-len", def: "128", help: "how many commands SLOWLOG keeps", live: true,
		kind: integer(0, maxSlowEntries, func(v *Values) *int { return &v.SlowLogLen })},
	{name: "loglevel", def: "notice", help: "least severe message that is logged", live: true,
		kind: enum(func(v *Values) *string { return &v.LogLevel }, levelNames()...)},
	{name: "log-format", def: "text", help: "one line for people, or JSON",
		kind: enum(func(v *Values) *string { return &v.LogFormat }, "text", "json")},
	{name: "shutdown-timeout", def: "3", help: "seconds that clients get to finish at shutdown", live: true,
		kind: seconds(3600, func(v *Values) *time.Duration { return &v.ShutdownTimeout })},
}

// A fact is an option of Redis's that clients ask for and that has only one value here.
type fact struct{ name, value, reason string }

var facts = []fact{
	{"maxmemory-policy", "noeviction", `live state is never evicted: new keys are refused; see "maxmemory"`},
	{"save", "", `there are no RDB snapshots; see "durability" and "snapshot-interval"`},           // redis-benchmark asks
	{"appendonly", "no", `there is no append-only file; see "durability" and "snapshot-interval"`}, // redis-benchmark asks
}

// lookup finds an option by its name in any letter case; nil if there is none.
func lookup(name string) *option {
	for i := range options {
		if strings.EqualFold(options[i].name, name) {
			return &options[i]
		}
	}
	return nil
}

// lookupFact finds a fact by its name in any letter case; nil if there is none.
func lookupFact(name string) *fact {
	for i := range facts {
		if strings.EqualFold(facts[i].name, name) {
			return &facts[i]
		}
	}
	return nil
}

// defaults returns the values of the table.
func defaults() Values {
	var v Values
	for _, o := range options {
		if err := o.kind.parse(&v, o.def); err != nil {
			panic("option " + o.name + ": default: " + err.Error())
		}
	}
	return v
}

// shown is the option's value as CONFIG GET and logs may show it.
func (o *option) shown(v *Values) string {
	if o.secret {
		return v.RequirePass.String()
	}
	return o.kind.format(v)
}

// mask stands for a secret that is set.
const mask = "*****"

// A secret is text that is never printed: whatever formats or logs it gets the mask, or nothing if it is empty.
type secret string

func (s secret) String() string {
	if s == "" {
		return ""
	}
	return mask
}

// GoString implements fmt.GoStringer.
func (s secret) GoString() string { return strconv.Quote(s.String()) }

// LogValue implements slog.LogValuer.
func (s secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText implements encoding.TextMarshaler, for JSON.
func (s secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// A listenAddress is one address of bind, ready for net.Listen.
type listenAddress struct {
	Network, Address string
	Optional         bool // bind said -ADDR: an address that this machine does not have is no error
}

// plain says whether there is a port without TLS. Port 0 means none where there is another way in, as in Redis.
func (v *Values) plain() bool { return v.Port != 0 || v.TLSPort == 0 && v.UnixSocket == "" }

// Listen resolves bind and a port into what to listen on. An IPv4 address never brings IPv6 along, nor the reverse.
func (v *Values) Listen(port int) []listenAddress {
	var all []listenAddress
	for _, word := range v.Bind {
		host, optional := strings.CutPrefix(word, "-")
		network := "tcp"
		switch ip, err := netip.ParseAddr(host); {
		case host == "*":
			network, host = "tcp4", "0.0.0.0"
		case host == "::*":
			network, host = "tcp6", "::"
		case err == nil && ip.Is4():
			network = "tcp4"
		case err == nil:
			network = "tcp6"
		}
		all = append(all, listenAddress{network, net.JoinHostPort(host, strconv.Itoa(port)), optional})
	}
	return all
}
