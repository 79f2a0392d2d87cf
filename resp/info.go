package resp

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

// section is a part of INFO, its fields in order.
type section struct {
	name   string
	fields [][2]string
}

// sectionOrder is Redis's, with ours at the end.
var sectionOrder = []string{"Server", "Clients", "Memory", "Persistence", "Stats", "Replication", "CPU", "Keyspace", "Limiter"}

// infoSections gathers INFO: what only Redis's drivers ask for is put down
// here, every figure comes from the tagged Stats of the rooms.
func (srv *Server) infoSections() []section {
	fields := map[string][][2]string{}
	add := func(sec, name string, value any) {
		fields[sec] = append(fields[sec], [2]string{name, fmt.Sprint(value)})
	}
	srv.serverFields(add)
	loading := 0
	if srv.loading.Load() {
		loading = 1
	}
	add("Persistence", "loading", loading)
	if srv.repl == nil {
		add("Replication", "role", "master")
		add("Replication", "connected_slaves", 0)
	} else {
		for _, f := range srv.repl.Figures() {
			add("Replication", f[0], f[1])
		}
	}
	cpuFields(add)
	if n := srv.store.Len(); n > 0 {
		add("Keyspace", "db0", fmt.Sprintf("keys=%d,expires=%d,avg_ttl=0", n, n))
	}
	for _, st := range append([]any{srv.Stats()}, srv.extra()...) {
		tagged(reflect.ValueOf(st), add)
	}
	var out []section
	for _, name := range sectionOrder {
		out = append(out, section{name, fields[name]})
	}
	return out
}

func (srv *Server) serverFields(add func(sec, name string, value any)) {
	ns := srv.clock.NowNs()
	up := (ns - srv.started) / 1e9
	add("Server", "redis_version", redisVersion)
	add("Server", "server_name", "rlserver")
	add("Server", "rlserver_version", srv.version)
	add("Server", "redis_mode", "standalone")
	add("Server", "os", runtime.GOOS+" "+runtime.GOARCH)
	add("Server", "arch_bits", strconv.IntSize)
	add("Server", "go_version", runtime.Version())
	add("Server", "process_id", os.Getpid())
	add("Server", "run_id", srv.runID)
	add("Server", "tcp_port", srv.port)
	add("Server", "server_time_usec", ns/1000)
	add("Server", "uptime_in_seconds", up)
	add("Server", "uptime_in_days", up/86400)
}

func cpuFields(add func(sec, name string, value any)) {
	var ru syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &ru) != nil {
		return
	}
	add("CPU", "used_cpu_sys", fmt.Sprintf("%d.%06d", ru.Stime.Sec, ru.Stime.Usec))
	add("CPU", "used_cpu_user", fmt.Sprintf("%d.%06d", ru.Utime.Sec, ru.Utime.Usec))
}

// tagged adds the fields of a Stats struct that carry `info:"Section:name"`.
func tagged(v reflect.Value, add func(sec, name string, value any)) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		sec, name, ok := strings.Cut(f.Tag.Get("info"), ":")
		switch {
		case ok && f.Type.Kind() == reflect.Bool:
			add(sec, name, boolWord(name, v.Field(i).Bool()))
		case ok:
			add(sec, name, v.Field(i).Interface())
		case f.Type.Kind() == reflect.Struct && f.IsExported():
			tagged(v.Field(i), add)
		}
	}
}

// boolWord is how INFO says yes and no: a status is ok or err, the rest 1 or 0.
func boolWord(name string, yes bool) string {
	words := [2]string{"0", "1"}
	if strings.HasSuffix(name, "_status") {
		words = [2]string{"err", "ok"}
	}
	if yes {
		return words[1]
	}
	return words[0]
}

// newRunID is 40 hex digits, new in each process.
func newRunID() string {
	var b [20]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
