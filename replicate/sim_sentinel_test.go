package replicate

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// A simSentinel does what redis-sentinel 7.0.15 does, as far as a node or a
// failover can tell: when it takes a node for down, whom it votes for, what it
// sends to whom, in which order.
type simSentinel struct {
	w      *world
	id     int // 0 to 2; its host is simNodes + id
	paused bool
	held   []func()
	tilt   Time // acts on nothing before
	lastAt Time // of the timer

	epoch       uint64 // current
	configEpoch uint64
	master      int
	voteEpoch   uint64
	vote        int
	insts       [simNodes]inst
	others      [simSentinels]otherSentinel
	helloAt     Time
	fo          failover
	startedAt   Time // of the last failover attempt
}

type inst struct {
	pingAt     Time // of the first ping without an answer, 0 = none
	sentAt     Time
	pongAt     Time
	infoAt     Time // answered
	infoSent   Time
	info       Status
	infoPrio   int
	downSince  Time // 0 = up
	roleSince  Time // of info.Role
	hostSince  Time // of info.Primary
	reconfSent Time
}

type otherSentinel struct {
	downAt Time // when it said last that the master is down
	askAt  Time
	leader int // voted for, -1 = none
	lepoch uint64
}

type foState byte

const (
	foNone foState = iota
	foWait
	foSelect
	foPromote
	foPromoted // waits for role:master
	foReconf
)

type failover struct {
	state   foState
	forced  bool
	epoch   uint64
	start   Time // may lie ahead
	changed Time
	target  int
}

const (
	sentinelQuorum  = 2
	failoverTimeout = 6 * time.Second
	infoPeriod      = 10 * time.Second
	helloPeriod     = 2 * time.Second
	askPeriod       = time.Second
	simTilt         = 5 * time.Second // 30 s in Redis
	groupName       = "mymaster"
)

func (s *simSentinel) host() int { return simNodes + s.id }

func (s *simSentinel) runID() string { return fmt.Sprintf("%08x%032d", 0xabc0+s.id, 0) }

func (s *simSentinel) pingPeriod() Time { return min(time.Second, s.w.conf.downAfter) }

func (s *simSentinel) begin() {
	s.lastAt = s.w.now
	for i := range s.others {
		s.others[i].leader = -1
	}
	for i := range s.insts {
		s.insts[i] = inst{pongAt: s.w.now, roleSince: s.w.now, hostSince: s.w.now}
	}
	s.helloAt = s.w.now + s.w.between(0, helloPeriod)
	s.timer()
}

// hears does something when the Sentinel's process gets to it.
func (s *simSentinel) hears(do func()) {
	if s.paused {
		s.held = append(s.held, do)
		return
	}
	do()
}

func (s *simSentinel) resume() {
	s.paused = false
	held := s.held
	s.held = nil
	for _, do := range held {
		do()
	}
}

func (s *simSentinel) timer() {
	s.w.after(s.w.between(80*time.Millisecond, 120*time.Millisecond), func() {
		if !s.paused {
			s.act()
		}
		s.timer()
	})
}

func (s *simSentinel) act() {
	w := s.w
	if w.now-s.lastAt > 2*time.Second {
		s.tilt = w.now + simTilt
	}
	s.lastAt = w.now
	for i := range s.insts {
		s.talk(i)
	}
	if w.now >= s.helloAt {
		s.hello()
	}
	for i := range s.insts {
		s.judge(i)
	}
	if w.now < s.tilt {
		return
	}
	s.ask()
	s.startIfDown()
	s.machine()
	s.convert()
}

// talk sends PING and INFO when it is time.
func (s *simSentinel) talk(i int) {
	w, in := s.w, &s.insts[i]
	if w.now-in.pongAt > s.pingPeriod() && w.now-in.sentAt > s.pingPeriod()/2 {
		in.sentAt = w.now
		if in.pingAt == 0 {
			in.pingAt = w.now
		}
		s.ping(i)
	}
	period := infoPeriod
	if i != s.master && (s.insts[s.master].downSince != 0 || s.fo.state != foNone || !in.info.Link) {
		period = time.Second
	}
	if in.infoAt == 0 || w.now-in.infoAt > period && w.now-in.infoSent > period/2 {
		in.infoSent = w.now
		s.askInfo(i)
	}
}

// ping is answered if both ways are open. The node hears that its answer has
// arrived, as its kernel does from the other one.
func (s *simSentinel) ping(i int) {
	w := s.w
	w.datagram(s.host(), i, func() {
		p := w.nodes[i].proc
		if p == nil {
			return
		}
		p.later(func() {
			at, notReady := w.now, p.doors.NotReady
			w.datagram(i, s.host(), func() {
				s.hears(func() {
					if !notReady {
						s.insts[i].pongAt, s.insts[i].pingAt = w.now, 0
					}
				})
				w.datagram(s.host(), i, func() {
					if !p.dead && !notReady {
						p.tell(Contact{s.runID()[:shortID], at})
					}
				})
			})
		})
	})
}

func (s *simSentinel) askInfo(i int) {
	w := s.w
	w.datagram(s.host(), i, func() {
		p := w.nodes[i].proc
		if p == nil {
			return
		}
		p.later(func() {
			st := p.status()
			if isMaster(st) {
				p.tell(Told{w.now})
			}
			prio := 100
			if i == w.conf.prefer {
				prio = 1
			}
			prio = st.Priority(prio)
			w.datagram(i, s.host(), func() { s.hears(func() { s.heardInfo(i, st, prio) }) })
		})
	})
}

func isMaster(s Status) bool { return s.Role == Leading || s.Role == Promoting }

func (s *simSentinel) heardInfo(i int, st Status, prio int) {
	w, in := s.w, &s.insts[i]
	if isMaster(st) != isMaster(in.info) || in.infoAt == 0 {
		in.roleSince = w.now
	}
	if st.Primary != in.info.Primary {
		in.hostSince = w.now
	}
	in.info, in.infoPrio, in.infoAt = st, prio, w.now
	if s.fo.state == foPromoted && i == s.fo.target && isMaster(st) && w.now >= s.tilt {
		w.logf("s%d: n%d is promoted, epoch %d", s.id, i, s.fo.epoch)
		s.configEpoch = s.fo.epoch
		s.fo.state, s.fo.changed = foReconf, w.now
		s.hello()
	}
}

// current is whom a hello names.
func (s *simSentinel) current() int {
	if s.fo.state == foReconf {
		return s.fo.target
	}
	return s.master
}

// hello publishes on every node; each passes it on to who subscribes there.
func (s *simSentinel) hello() {
	w := s.w
	s.helloAt = w.now + helloPeriod
	h := Hello{Sentinel: s.runID(), From: fmt.Sprintf("10.0.1.%d:26379", s.id), Name: groupName, Addr: nodeAddr(s.current()), Epoch: s.configEpoch}
	epoch, master := s.epoch, s.current()
	for i := range simNodes {
		w.datagram(s.host(), i, func() {
			p := w.nodes[i].proc
			if p == nil {
				return
			}
			p.later(func() {
				if w.conf.fault != noFence {
					p.tell(h)
				}
				for o := range w.sentinels {
					if o != s.id {
						w.datagram(i, simNodes+o, func() {
							w.sentinels[o].hears(func() { w.sentinels[o].heardHello(epoch, h.Epoch, master) })
						})
					}
				}
			})
		})
	}
}

func (s *simSentinel) heardHello(epoch, configEpoch uint64, master int) {
	s.epoch = max(s.epoch, epoch)
	if configEpoch > s.configEpoch {
		s.configEpoch = configEpoch
		if master != s.master {
			s.switchTo(master)
		}
	}
}

func (s *simSentinel) switchTo(master int) {
	s.w.logf("s%d: switches to n%d, epoch %d", s.id, master, s.configEpoch)
	s.master = master
	s.fo = failover{}
	for i := range s.insts {
		in := &s.insts[i]
		// It counts from now on, and sends a PING a second later, on a new connection.
		in.downSince, in.pingAt, in.pongAt, in.sentAt = 0, s.w.now, s.w.now, 0
		in.roleSince, in.hostSince = s.w.now, s.w.now
	}
	for i := range s.others {
		s.others[i] = otherSentinel{leader: -1}
	}
}

// judge decides who is down, in this Sentinel's eyes.
func (s *simSentinel) judge(i int) {
	w, in := s.w, &s.insts[i]
	down := in.pingAt != 0 && w.now-in.pingAt > w.conf.downAfter ||
		i == s.master && in.infoAt != 0 && !isMaster(in.info) && w.now-in.roleSince > w.conf.downAfter+2*infoPeriod
	switch {
	case down && in.downSince == 0:
		in.downSince = w.now
		w.logf("s%d: +sdown n%d", s.id, i)
	case !down && in.downSince != 0:
		in.downSince = 0
		w.logf("s%d: -sdown n%d", s.id, i)
	}
}

// ask asks the others whether the master is down, and for their vote if a
// failover waits for it.
func (s *simSentinel) ask() {
	w := s.w
	if s.insts[s.master].downSince == 0 {
		return
	}
	master := s.master
	for o := range s.others {
		other := &s.others[o]
		if o == s.id || w.now-other.askAt < askPeriod {
			continue
		}
		other.askAt = w.now
		epoch, forVote := s.epoch, s.fo.state != foNone
		w.datagram(s.host(), simNodes+o, func() {
			w.sentinels[o].hears(func() {
				down, leader, lepoch := w.sentinels[o].isDown(master, epoch, s.id, forVote)
				w.datagram(simNodes+o, s.host(), func() {
					s.hears(func() {
						if down {
							other.downAt = w.now
						} else {
							other.downAt = 0
						}
						if forVote {
							other.leader, other.lepoch = leader, lepoch
						}
					})
				})
			})
		})
	}
}

func (s *simSentinel) isDown(master int, epoch uint64, from int, forVote bool) (down bool, leader int, lepoch uint64) {
	down = s.w.now >= s.tilt && s.master == master && s.insts[master].downSince != 0
	if !forVote {
		return down, -1, 0
	}
	s.voteFor(epoch, from)
	return down, s.vote, s.voteEpoch
}

func (s *simSentinel) voteFor(epoch uint64, who int) {
	s.epoch = max(s.epoch, epoch)
	if s.voteEpoch < epoch && s.epoch <= epoch {
		s.vote, s.voteEpoch = who, epoch
		if who != s.id {
			s.startedAt = s.w.now + s.w.between(0, time.Second)
		}
	}
}

func (s *simSentinel) startIfDown() {
	w := s.w
	if s.insts[s.master].downSince == 0 || s.fo.state != foNone || w.now-s.startedAt < 2*failoverTimeout {
		return
	}
	count := 1
	for o := range s.others {
		if o != s.id && s.others[o].downAt != 0 && w.now-s.others[o].downAt < 5*askPeriod {
			count++
		}
	}
	if count >= sentinelQuorum {
		s.startFailover(false)
	}
}

func (s *simSentinel) startFailover(forced bool) {
	w := s.w
	s.epoch++
	s.fo = failover{state: foWait, forced: forced, epoch: s.epoch, start: w.now + w.between(0, time.Second), changed: w.now}
	if forced {
		s.fo.start = w.now
	}
	s.startedAt = s.fo.start
	for o := range s.others {
		s.others[o].askAt = 0
	}
	w.logf("s%d: begins a failover from n%d, epoch %d, forced %v", s.id, s.master, s.epoch, forced)
}

func (s *simSentinel) abort(why string) {
	s.w.logf("s%d: gives up: %s", s.id, why)
	s.fo = failover{}
}

func (s *simSentinel) machine() {
	w := s.w
	f := &s.fo
	switch f.state {
	case foWait:
		if f.forced || s.elected() {
			f.state, f.changed = foSelect, w.now
			return
		}
		if w.now-f.start > min(10*time.Second, failoverTimeout) {
			s.abort("not elected")
		}
	case foSelect:
		target := s.selectReplica()
		if target < 0 {
			s.abort("no good replica")
			return
		}
		f.target, f.state, f.changed = target, foPromote, w.now
	case foPromote:
		if w.now-f.changed > failoverTimeout {
			s.abort("replica not there")
			return
		}
		if f.forced {
			w.force(f.target)
		}
		s.slaveof(f.target, -1)
		f.state, f.changed = foPromoted, w.now
	case foPromoted:
		if w.now-f.changed > failoverTimeout {
			s.abort("not promoted")
		}
	case foReconf:
		s.reconfigure()
	}
}

// elected counts the votes of this epoch; this one votes for who has most.
func (s *simSentinel) elected() bool {
	var votes [simSentinels]int
	for o := range s.others {
		if o != s.id && s.others[o].leader >= 0 && s.others[o].lepoch == s.epoch {
			votes[s.others[o].leader]++
		}
	}
	best := s.id
	for i, n := range votes {
		if n > votes[best] || n == votes[best] && n > 0 && i < best && votes[best] == 0 {
			best = i
		}
	}
	s.voteFor(s.fo.epoch, best)
	if s.voteEpoch == s.fo.epoch && s.vote >= 0 {
		votes[s.vote]++
	}
	return votes[s.id] >= simSentinels/2+1 && votes[s.id] >= sentinelQuorum
}

func (s *simSentinel) selectReplica() int {
	w := s.w
	valid := 5 * s.pingPeriod()
	masterDown := s.insts[s.master].downSince
	if masterDown == 0 {
		valid = 3 * infoPeriod
	}
	var good []int
	for i := range s.insts {
		in := &s.insts[i]
		if i == s.master || in.downSince != 0 || w.now-in.pongAt > 5*s.pingPeriod() || in.infoPrio == 0 || w.now-in.infoAt > valid || in.infoAt == 0 {
			continue
		}
		most := 10 * w.conf.downAfter
		if masterDown != 0 {
			most += w.now - masterDown
		}
		if in.info.DownSince > most {
			continue
		}
		good = append(good, i)
	}
	if len(good) == 0 {
		return -1
	}
	slices.SortFunc(good, func(a, b int) int {
		return cmp.Or(cmp.Compare(s.insts[a].infoPrio, s.insts[b].infoPrio), cmp.Compare(s.insts[b].info.Offset, s.insts[a].info.Offset), cmp.Compare(a, b))
	})
	return good[0]
}

func (s *simSentinel) reconfigure() {
	w := s.w
	f := &s.fo
	done := true
	for i := range s.insts {
		in := &s.insts[i]
		if i == f.target || i == s.master || in.downSince != 0 {
			continue
		}
		if in.info.Primary == nodeAddr(f.target) && in.info.Link {
			continue
		}
		done = false
		if w.now-in.reconfSent > 2*time.Second {
			in.reconfSent = w.now
			s.slaveof(i, f.target)
		}
	}
	if done || w.now-f.changed > failoverTimeout {
		target := f.target
		s.switchTo(target)
	}
}

// slaveof sends SLAVEOF, to -1 = NO ONE.
func (s *simSentinel) slaveof(i, to int) {
	w := s.w
	w.logf("s%d: tells n%d to follow n%d", s.id, i, to)
	w.datagram(s.host(), i, func() {
		p := w.nodes[i].proc
		if p == nil {
			return
		}
		p.later(func() {
			if to < 0 {
				p.tell(Lead{})
			} else {
				p.tell(Follow{nodeAddr(to)})
			}
		})
	})
}

// convert makes replicas of nodes that should be and are not.
func (s *simSentinel) convert() {
	w := s.w
	m := &s.insts[s.master]
	sane := m.infoAt != 0 && isMaster(m.info) && m.downSince == 0 && w.now-m.infoAt < 2*infoPeriod
	if s.fo.state != foNone || !sane {
		return
	}
	for i := range s.insts {
		in := &s.insts[i]
		if i == s.master || in.infoAt == 0 || in.downSince != 0 || w.now-in.infoAt > infoPeriod {
			continue
		}
		lag := w.now-in.roleSince > 4*helloPeriod && w.now-in.hostSince > 4*helloPeriod
		if isMaster(in.info) && lag || !isMaster(in.info) && in.info.Primary != nodeAddr(s.master) && w.now-in.hostSince > failoverTimeout {
			in.roleSince, in.hostSince = w.now, w.now
			s.slaveof(i, s.master)
		}
	}
}

// later does something when the process gets to it.
func (p *proc) later(do func()) {
	if !p.hold(func() { p.later(do) }) {
		do()
	}
}
