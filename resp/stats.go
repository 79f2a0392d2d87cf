package resp

import "sync/atomic"

// bucketsNs are the upper bounds of the duration histogram, in ns.
var bucketsNs = [...]int64{1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6, 2e6, 5e6, 1e7, 1e8, 1e9}

// run gathers the figures of consecutive calls of one command, so that a
// pipeline of 32 costs one round of atomic additions and not 32.
type run struct {
	cmd                            *command
	started                        int64    // ns, of the call at hand; 0 = none
	args                           [][]byte // of the call at hand; none if it was refused
	calls, allowed, denied, errors uint64
	ns                             uint64
	hist                           [len(bucketsNs) + 1]uint32
}

// cell is the server's total of one command.
type cell struct {
	calls, allowed, denied, errors, ns atomic.Uint64
}

// counters are the server's totals. The rest of Stats is read where it lives.
type counters struct {
	cells          []cell // by command.index; the last one is for unknown commands
	hist           [len(bucketsNs) + 1]atomic.Uint64
	histNs         atomic.Uint64
	accepted       atomic.Uint64
	refused        atomic.Uint64
	evicted        atomic.Uint64
	acceptErrors   atomic.Uint64
	protocolErrors atomic.Uint64
	httpRequests   atomic.Uint64
	authFailures   atomic.Uint64
	deniedCommands atomic.Uint64
	deniedKeys     atomic.Uint64
	tlsFailures    atomic.Uint64
	panics         atomic.Uint64
	timeouts       atomic.Uint64
	clamped        atomic.Uint64
	keysRefused    atomic.Uint64
	closedAtGate   atomic.Uint64
	slowListeners  atomic.Uint64
	bytesIn        atomic.Uint64
	bytesOut       atomic.Uint64
}

// begin opens the account of a call that starts at ns and closes the one
// before: a clock reading per command serves both.
func (s *Session) begin(c *command, ns int64) {
	s.lap(ns)
	if s.run.cmd != c {
		s.flushRun()
		s.run.cmd = c
	}
	s.run.started = ns
	s.run.calls++
}

// putOff takes back that the command at hand was counted: it is when EXEC runs it.
func (s *Session) putOff() {
	s.run.calls--
	s.run.started = 0
}

// lap ends the call at hand, if any.
func (s *Session) lap(ns int64) {
	if s.run.started == 0 {
		return
	}
	d := max(ns-s.run.started, 0)
	i := 0
	for i < len(bucketsNs) && d > bucketsNs[i] {
		i++
	}
	s.run.hist[i]++
	s.run.ns += uint64(d)
	if d >= int64(s.conf.SlowerThan) && s.run.cmd != nil {
		s.srv.slow.add(s, s.run.cmd, s.run.args, d)
	}
	s.run.started, s.run.args = 0, nil
}

// settle ends a batch: everything counted so far goes to the server's totals.
func (s *Session) settle() {
	if s.run.calls == 0 && s.run.cmd == nil {
		return
	}
	s.show()
	s.showMulti()
	s.lastCmd.Store(s.cmd)
	s.active.Store(s.now)
	if s.run.started != 0 {
		s.lap(s.srv.clock.NowNs())
	}
	s.flushRun()
}

// flushRun adds the run to the server's totals.
func (s *Session) flushRun() {
	if s.run.calls == 0 {
		s.run.cmd = nil
		return
	}
	totals := &s.srv.counters
	at := len(totals.cells) - 1
	if s.run.cmd != nil {
		at = s.run.cmd.index
	}
	c := &totals.cells[at]
	c.calls.Add(s.run.calls)
	c.ns.Add(s.run.ns)
	add(&c.allowed, s.run.allowed)
	add(&c.denied, s.run.denied)
	add(&c.errors, s.run.errors)
	for i, n := range s.run.hist {
		add(&totals.hist[i], uint64(n))
	}
	totals.histNs.Add(s.run.ns)
	s.run = run{}
}

// add spares the shared cache line when there is nothing to add.
func add(total *atomic.Uint64, n uint64) {
	if n != 0 {
		total.Add(n)
	}
}

// Stats is a snapshot of the wire's figures. The tags say where each stands in
// INFO and what it is called in /metrics.
type Stats struct {
	Connections    int64     `metric:"connections" type:"gauge" help:"Clients connected now." info:"Clients:connected_clients"`
	MaxClients     int64     `metric:"max_clients" type:"gauge" help:"Most clients served at once." info:"Clients:maxclients"`
	Accepted       uint64    `metric:"connections_accepted_total" type:"counter" help:"Connections accepted." info:"Stats:total_connections_received"`
	Commands       uint64    `metric:"commands_total" type:"counter" help:"Commands received; those of a transaction when EXEC runs them." info:"Stats:total_commands_processed"`
	BytesIn        uint64    `metric:"bytes_in_total" type:"counter" help:"Bytes read from clients." info:"Stats:total_net_input_bytes"`
	BytesOut       uint64    `metric:"bytes_out_total" type:"counter" help:"Bytes written to clients." info:"Stats:total_net_output_bytes"`
	Refused        uint64    `metric:"connections_refused_total" type:"counter" help:"Connections refused: maxclients or protected mode." info:"Stats:rejected_connections"`
	Evicted        uint64    `metric:"clients_evicted_total" type:"counter" help:"Connections closed because the buffers of all took more than maxmemory-clients, or than maxmemory leaves." info:"Stats:evicted_clients"`
	ClientMemory   int64     `metric:"client_buffers_bytes" type:"gauge" help:"Bytes that the buffers of all clients take." info:"Memory:mem_clients_normal"`
	Errors         uint64    `metric:"error_replies_total" type:"counter" help:"Error replies sent." info:"Stats:total_error_replies"`
	AcceptErrors   uint64    `metric:"accept_errors_total" type:"counter" help:"Failures to accept a connection." info:"Stats:rl_accept_errors"`
	ProtocolErrors uint64    `metric:"protocol_errors_total" type:"counter" help:"Connections closed for bytes that are no command." info:"Stats:rl_protocol_errors"`
	HTTPRequests   uint64    `metric:"http_requests_refused_total" type:"counter" help:"Connections closed because they spoke HTTP to this port." info:"Stats:rl_http_requests"`
	AuthFailures   uint64    `metric:"auth_failures_total" type:"counter" help:"Wrong passwords." info:"Stats:acl_access_denied_auth"`
	DeniedCommands uint64    `metric:"commands_not_permitted_total" type:"counter" help:"Commands refused because the user may not run them." info:"Stats:acl_access_denied_cmd"`
	DeniedKeys     uint64    `metric:"keys_not_permitted_total" type:"counter" help:"Commands refused because the user may not access a key." info:"Stats:acl_access_denied_key"`
	TLSFailures    uint64    `metric:"tls_handshake_failures_total" type:"counter" help:"Connections to the TLS port that ended before they were one." info:"Stats:rl_tls_failures"`
	Panics         uint64    `metric:"handler_panics_total" type:"counter" help:"Connections closed by a fault of the server." info:"Stats:rl_handler_panics"`
	Timeouts       uint64    `metric:"client_timeouts_total" type:"counter" help:"Connections closed for silence, or for not reading." info:"Stats:rl_client_timeouts"`
	Allowed        uint64    `metric:"allowed_total" type:"counter" help:"Decisions that allowed." info:"Limiter:rl_allowed"`
	Denied         uint64    `metric:"denied_total" type:"counter" help:"Decisions that denied." info:"Limiter:rl_denied"`
	Clamped        uint64    `metric:"caller_clock_clamped_total" type:"counter" help:"Times a caller's now was further than max-clock-skew from the server's clock and was clamped." info:"Limiter:rl_clock_clamped"`
	KeysRefused    uint64    `metric:"keys_refused_total" type:"counter" help:"Calls refused because they would have stored a new key at maxmemory." info:"Limiter:rl_refused_keys"`
	ClosedAtGate   uint64    `metric:"closed_unanswered_total" type:"counter" help:"Connections closed without an answer because what it promised could not be made durable." info:"Stats:rl_closed_unanswered"`
	Taken          uint64    `metric:"feedback_ok_total" type:"counter" help:"Reports to adaptive limits that the upstream took a call." info:"Limiter:rl_feedback_ok"`
	Throttled      uint64    `metric:"feedback_throttled_total" type:"counter" help:"Reports to adaptive limits that the upstream throttled a call." info:"Limiter:rl_feedback_throttled"`
	Decisions      []Count   `metric:"decisions_total" type:"counter" help:"Acquires by command and result."`
	Duration       Histogram `metric:"command_duration_seconds" type:"histogram" help:"Time from a command's dispatch to the next one's or to the end of its batch."`
}

// Count is one labelled figure.
type Count struct {
	Command string `label:"command"`
	Result  string `label:"result"`
	N       uint64 `value:""`
}

// Histogram has one more count than bounds, for what is above the last.
type Histogram struct {
	Bounds []float64 // seconds
	Counts []uint64
	Sum    float64 // seconds
}

// Stats reads the figures.
func (srv *Server) Stats() Stats {
	t := &srv.counters
	st := Stats{
		Connections: srv.connections(), MaxClients: int64(srv.settings.Load().MaxClients),
		Accepted: t.accepted.Load(), Refused: t.refused.Load(), Evicted: t.evicted.Load(), ClientMemory: srv.budget.used.Load(), AcceptErrors: t.acceptErrors.Load(),
		ProtocolErrors: t.protocolErrors.Load(), HTTPRequests: t.httpRequests.Load(), TLSFailures: t.tlsFailures.Load(),
		AuthFailures: t.authFailures.Load(), DeniedCommands: t.deniedCommands.Load(), DeniedKeys: t.deniedKeys.Load(), Panics: t.panics.Load(), Timeouts: t.timeouts.Load(),
		Clamped: t.clamped.Load(), KeysRefused: t.keysRefused.Load(), ClosedAtGate: t.closedAtGate.Load(), BytesIn: t.bytesIn.Load(), BytesOut: t.bytesOut.Load(),
	}
	for i := range t.cells {
		st.Commands += t.cells[i].calls.Load()
		st.Errors += t.cells[i].errors.Load()
	}
	reports := &t.cells[srv.table.byName["rl.feedback"].index]
	st.Taken, st.Throttled = reports.allowed.Load(), reports.denied.Load()
	for _, c := range srv.table.rows {
		if c.flags&flagDecides == 0 {
			continue
		}
		cell := &t.cells[c.index]
		allowed, denied, errs := cell.allowed.Load(), cell.denied.Load(), cell.errors.Load()
		st.Allowed += allowed
		st.Denied += denied
		st.Decisions = append(st.Decisions, Count{c.name, "allow", allowed}, Count{c.name, "deny", denied}, Count{c.name, "error", errs})
	}
	for i, ns := range bucketsNs {
		st.Duration.Bounds = append(st.Duration.Bounds, float64(ns)/1e9)
		st.Duration.Counts = append(st.Duration.Counts, t.hist[i].Load())
	}
	st.Duration.Counts = append(st.Duration.Counts, t.hist[len(bucketsNs)].Load())
	st.Duration.Sum = float64(t.histNs.Load()) / 1e9
	return st
}

// resetStats is CONFIG RESETSTAT: the totals start at zero again.
func (srv *Server) resetStats() {
	t := &srv.counters
	for i := range t.cells {
		c := &t.cells[i]
		for _, n := range []*atomic.Uint64{&c.calls, &c.allowed, &c.denied, &c.errors, &c.ns} {
			n.Store(0)
		}
	}
	for i := range t.hist {
		t.hist[i].Store(0)
	}
	for _, n := range []*atomic.Uint64{&t.histNs, &t.accepted, &t.refused, &t.evicted, &t.acceptErrors, &t.protocolErrors, &t.httpRequests, &t.tlsFailures,
		&t.authFailures, &t.deniedCommands, &t.deniedKeys, &t.panics, &t.timeouts, &t.clamped, &t.keysRefused, &t.closedAtGate, &t.bytesIn, &t.bytesOut} {
		n.Store(0)
	}
}
