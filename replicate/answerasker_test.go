package replicate

import (
	"fmt"
	"testing"
	"time"
)

// TestAskerIsAnswered: a primary that hears of a promotion from another replica
// gives its last frames and the end to who is promoted on that one's own link too.
func TestAskerIsAnswered(t *testing.T) {
	const promoted, other = LinkID(2), LinkID(4)
	ids := 0
	n := New(Config{Self: Peer{"p", "10.0.0.1:1"}, Mine: func(a string) bool { return a == "10.0.0.1:1" }, FenceAfter: FenceAfter,
		NewID: func() string { ids++; return fmt.Sprintf("%040x", ids) }})
	told := map[LinkID][]byte{}
	var tell func(m Message)
	tell = func(m Message) {
		for _, e := range n.Step(time.Hour, m) {
			switch e := e.(type) {
			case Cut:
				tell(RoundCut{})
			case ReadChunk:
				tell(ChunkRead{Link: e.Link})
			case Send:
				told[e.Link] = append(told[e.Link], e.Raw...)
			}
		}
	}
	a, b := Peer{"a", "10.0.0.2:1"}, Peer{"b", "10.0.0.3:1"}
	tell(Start{Clean: true, Clock: 1})
	tell(Attach{Link: promoted, From: a, Replid: "?"})
	tell(Attach{Link: other, From: b, Replid: "?"})
	clear(told)
	f, _, err := nextFrame(appendPull(nil, pull{n.term + 1, a}))
	if err != nil {
		t.Fatal(err)
	}
	tell(Received{other, f})
	for _, link := range []LinkID{promoted, other} {
		fenced := false
		for raw := told[link]; len(raw) > 0; {
			f, need, err := nextFrame(raw)
			if err != nil || need > 0 {
				t.Fatal(err, need)
			}
			if f.kind == typePulled {
				p, err := readPulled(&f)
				fenced = err == nil && p.flags&flagFenced != 0
			}
			raw = raw[len(f.raw):]
		}
		if !fenced {
			t.Errorf("link %d was not told that the primary decides no more", link)
		}
	}
}
