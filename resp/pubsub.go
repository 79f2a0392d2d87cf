package resp

import (
	"slices"
	"sync"

	"github.com/tidwall/redcon"
)

// Messages. Who publishes hands a message to the carrier of each subscriber, that
// sends it when what is under way is out; who does not take messages is closed
// when they come to maxPushed.

const (
	// maxPushed is how many bytes of messages may wait for a client to take them.
	maxPushed = 1 << 20
	// maxSubscriptions is how many channels and patterns a client may subscribe to.
	maxSubscriptions = 1024
	// keptPerSubscription is about what one takes beside its name, bytes.
	keptPerSubscription = 128
)

// pubsub knows who wants which messages.
type pubsub struct {
	mu       sync.RWMutex
	channels map[string]map[*Session]struct{}
	patterns map[string]*watchedPattern
}

type watchedPattern struct {
	glob *glob
	who  map[*Session]struct{}
}

// subscriptions are a session's own list.
type subscriptions struct {
	channels, patterns []string
	bytes              int
}

func (s *subscriptions) count() int { return len(s.channels) + len(s.patterns) }

func (p *pubsub) join(s *Session, name string, pattern bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if pattern {
		w := p.patterns[name]
		if w == nil {
			if p.patterns == nil {
				p.patterns = map[string]*watchedPattern{}
			}
			w = &watchedPattern{compile(name), map[*Session]struct{}{}}
			p.patterns[name] = w
		}
		w.who[s] = struct{}{}
		return
	}
	if p.channels == nil {
		p.channels = map[string]map[*Session]struct{}{}
	}
	if p.channels[name] == nil {
		p.channels[name] = map[*Session]struct{}{}
	}
	p.channels[name][s] = struct{}{}
}

func (p *pubsub) leave(s *Session, name string, pattern bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if pattern {
		if w := p.patterns[name]; w != nil {
			if delete(w.who, s); len(w.who) == 0 {
				delete(p.patterns, name)
			}
		}
		return
	}
	if delete(p.channels[name], s); len(p.channels[name]) == 0 {
		delete(p.channels, name)
	}
}

// publish hands a message to all who want it and says how many they are.
func (p *pubsub) publish(channel string, message []byte) (n int64) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	var forms [2][]byte // RESP2 and RESP3
	for s := range p.channels[channel] {
		form := &forms[s.pushProto.Load()&1]
		if *form == nil {
			*form = appendPush(nil, s.pushProto.Load() == 1, "message", channel, string(message))
		}
		s.pushed(*form)
		n++
	}
	for name, w := range p.patterns {
		if !matches(w.glob, channel) {
			continue
		}
		for s := range w.who {
			s.pushed(appendPush(nil, s.pushProto.Load() == 1, "pmessage", name, channel, string(message)))
			n++
		}
	}
	return n
}

// pushed hands a message to the session's carrier, if it has one.
func (s *Session) pushed(raw []byte) {
	if s.carrier != nil {
		s.carrier.push(raw)
	}
}

// appendPush appends what comes unasked: an array in RESP2, in RESP3 a type of its
// own.
func appendPush(out []byte, resp3 bool, words ...string) []byte {
	at := len(out)
	out = redcon.AppendArray(out, len(words))
	if resp3 {
		out[at] = '>'
	}
	for _, w := range words {
		out = redcon.AppendBulkString(out, w)
	}
	return out
}

// named are the channels that somebody subscribes to, in order.
func (p *pubsub) named(g *glob) (names []string) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	for name := range p.channels {
		if g == nil || matches(g, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (p *pubsub) subscribers(channel string) int64 {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return int64(len(p.channels[channel]))
}

func (p *pubsub) patternCount() int64 {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return int64(len(p.patterns))
}
