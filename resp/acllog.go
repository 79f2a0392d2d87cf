package resp

import (
	"sync"
)

// Bounds of the ACL's log, which are Redis's.
const (
	maxACLLog     = 128    // entries
	aclLogScan    = 10     // of which the newest are looked at for one that says the same
	aclLogGroupMs = 60_000 // and that are not older than this
	maxLogText    = 256    // bytes of what a client sent
)

// aclEntry is one or several refusals that say the same.
type aclEntry struct {
	reason string // command, key, auth
	atOnce bool   // in EXEC
	object string // the command, the key, or the command that carried the password
	user   string // who was refused, or who it said it was
	client string // as in CLIENT INFO
	first  int64  // Unix ms
	last   int64
	count  int64
	id     int64 // counts up
}

// aclLog is what ACL LOG tells, newest first.
type aclLog struct {
	mu      sync.Mutex
	entries []*aclEntry
	nextID  int64
}

// add notes a refusal at e.last.
func (l *aclLog) add(e aclEntry) {
	e.object, e.user = clip(e.object), clip(e.user)
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, old := range l.entries[:min(len(l.entries), aclLogScan)] {
		if old.reason == e.reason && old.atOnce == e.atOnce && old.object == e.object && old.user == e.user && e.last-old.last <= aclLogGroupMs {
			old.count++
			old.last, old.client = e.last, e.client
			copy(l.entries[1:i+1], l.entries[:i])
			l.entries[0] = old
			return
		}
	}
	e.first, e.count, e.id = e.last, 1, l.nextID
	l.nextID++
	if len(l.entries) < maxACLLog {
		l.entries = append(l.entries, nil)
	}
	copy(l.entries[1:], l.entries)
	l.entries[0] = &e
}

func clip(text string) string { return text[:min(len(text), maxLogText)] }

// newest returns at most n entries, as they are now.
func (l *aclLog) newest(n int64) (all []aclEntry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.entries[:min(int64(len(l.entries)), n)] {
		all = append(all, *e)
	}
	return all
}

func (l *aclLog) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = nil
}
