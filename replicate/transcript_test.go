package replicate

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rlserver/rlserver/shard"
)

var updateTranscripts = flag.Bool("update", false, "write what the nodes of the transcripts do now")

// A scribe runs one transcript: a line that begins with a time is a message, and
// the indented lines below it are the effects that it has. Times count from the
// start of the node; the frame of a cut and the chunks of a walk are told by the
// keys in them.
type scribe struct {
	n   *Node
	cut Cut
	ids int
	out strings.Builder
}

// TestTranscripts: the node's logic is one function from messages to effects, so
// what it does is told by transcripts. -update writes them anew.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no transcripts", err)
	}
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			got := transcribe(t, string(text))
			if got == string(text) {
				return
			}
			if *updateTranscripts {
				if err := os.WriteFile(path, []byte(got), 0o666); err != nil {
					t.Fatal(err)
				}
				return
			}
			was, is := strings.Split(string(text), "\n"), strings.Split(got, "\n")
			for i := range min(len(was), len(is)) {
				if was[i] != is[i] {
					t.Fatalf("line %d:\n\t%s\nis now\n\t%s", i+1, was[i], is[i])
				}
			}
			t.Fatalf("%d lines are now %d", len(was), len(is))
		})
	}
}

func transcribe(t *testing.T, text string) string {
	s := &scribe{}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		switch {
		case line == "" || line[0] == '#':
			s.out.WriteString(line + "\n")
		case line[0] == '\t':
		case strings.HasPrefix(line, "node "):
			s.out.WriteString(line + "\n")
			acks, err := strconv.Atoi(strings.TrimPrefix(line, "node acks "))
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			s.begin(AckMode(acks))
		default:
			s.out.WriteString(line + "\n")
			if err := s.step(strings.Fields(line)); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
		}
	}
	return s.out.String()
}

func (s *scribe) begin(acks AckMode) {
	s.ids = 0
	s.n = New(Config{
		Self: Peer{"me", "me:1"}, Mine: func(a string) bool { return a == "me:1" },
		NewID: func() string { s.ids++; return fmt.Sprintf("history%d", s.ids) },
		Acks:  acks, FenceAfter: FenceAfter, RingBytes: 300,
	})
}

func (s *scribe) step(words []string) error {
	at, err := time.ParseDuration(words[0])
	if err != nil {
		return err
	}
	m, err := s.message(words[1], args(words[2:]))
	if err != nil {
		return err
	}
	for _, e := range s.n.Step(simStart+at, m) {
		if c, ok := e.(Cut); ok {
			s.cut = c
		}
		s.out.WriteString("\t" + tellEffect(e) + "\n")
	}
	return nil
}

// args are the words of a message. What is not there is empty, or 0.
type args []string

func (a args) word(i int) string {
	if i < len(a) {
		return a[i]
	}
	return ""
}

func (a args) num(i int) uint64 {
	n, err := strconv.ParseUint(a.word(i), 10, 64)
	if err != nil && a.word(i) != "" {
		panic(err)
	}
	return n
}

func (a args) from(i int) args { return a[min(i, len(a)):] }

func (s *scribe) message(what string, a args) (Message, error) {
	link := func() LinkID { return LinkID(a.num(0)) }
	switch what {
	case "start":
		state, err := ParseState(stateHead + "\n" + strings.ReplaceAll(strings.Join(a.from(1), " "), "; ", "\n") + "\nend\n")
		return Start{State: state, Clean: a.word(0) == "clean", Clock: 1000}, err
	case "tick":
		return Tick{int(a.num(0)), int(a.num(1))}, nil
	case "wanted":
		return Wanted{}, nil
	case "cut":
		if len(a) == 0 {
			return RoundCut{}, nil
		}
		return RoundCut{appendPart(nil, changesHead{term: s.cut.Term, number: s.cut.Number, clock: s.cut.Clock, later: s.cut.Later}, keyed(s.cut.Clock, a))}, nil
	case "chunk":
		return ChunkRead{link(), appendChunks(nil, 1000, keyed(1000, a.from(2))), a.word(1) == "more"}, nil
	case "attach":
		return Attach{link(), Peer{a.word(1), a.word(2)}, a.word(3), a.num(4), a.num(5)}, nil
	case "asked":
		return Asked{link(), Peer{a.word(1), a.word(2)}, a.word(3), a.num(4), a.num(5)}, nil
	case "line":
		return Line{link(), strings.Join(a.from(1), " ")}, nil
	case "got":
		raw, err := makeFrame(a.word(1), a.from(2))
		if err != nil {
			return nil, err
		}
		f, _, err := nextFrame(raw)
		return Received{link(), f}, err
	case "sent":
		return Sent{link(), int(a.num(1))}, nil
	case "closed":
		return Closed{link(), a.word(1) == "refused"}, nil
	case "lead":
		return Lead{}, nil
	case "follow":
		return Follow{a.word(0)}, nil
	case "hello":
		return Hello{a.word(0), a.word(1), a.word(2), a.word(3), a.num(4)}, nil
	case "contact":
		at, err := time.ParseDuration(a.word(1))
		return Contact{a.word(0), simStart + at}, err
	case "told":
		at, err := time.ParseDuration(a.word(0))
		return Told{simStart + at}, err
	}
	return nil, fmt.Errorf("no message %q", what)
}

func keyed(clock int64, keys []string) (all []shard.Change) {
	for _, k := range keys {
		all = append(all, shard.Change{Key: []byte(k), Kind: 1, Value: []byte("v"), Deadline: clock + 1000})
	}
	return all
}

func makeFrame(what string, a args) ([]byte, error) {
	switch what {
	case "changes", "later": // nobody waits for the ack of later ones
		clock := int64(a.num(2))
		return appendPart(nil, changesHead{term: a.num(0), number: a.num(1), clock: clock, later: what == "later"}, keyed(clock, a.from(3))), nil
	case "chunk":
		return appendChunks(nil, 1000, keyed(1000, a)), nil
	case "whole":
		return appendWhole(nil, a.num(0)), nil
	case "beat":
		b := &beat{a.num(0), int64(a.num(1)), a.num(2), a.num(3), lead{a.num(4), a.num(5)}, nil}
		for p := a.from(6); len(p) > 1; p = p[2:] {
			b.peers = append(b.peers, Peer{p[0], p[1]})
		}
		return appendBeat(nil, b), nil
	case "ack":
		return appendAck(nil, ack{a.num(0), a.num(1)}), nil
	case "pull":
		return appendPull(nil, pull{a.num(0), Peer{a.word(1), a.word(2)}}), nil
	case "pulled":
		flags := byte(0)
		for i, name := range pulledFlags {
			if strings.Contains(a.word(4), name) {
				flags |= 1 << i
			}
		}
		return appendPulled(nil, pulled{a.num(0), a.num(1), a.num(2), a.word(3), flags}), nil
	case "full":
		return appendFull(nil), nil
	}
	return nil, fmt.Errorf("no frame %q", what)
}

var pulledFlags = []string{"fenced", "stale", "other", "sure", "led", "whole", "all"}

// tellFrame is makeFrame's reverse.
func tellFrame(f *frame) string {
	switch f.kind {
	case typeChanges:
		h, changes, err := readRound(f.raw, nil)
		return fmt.Sprintf("changes %d %d %d%s%s", h.term, h.number, h.clock, tellKeys(changes), tellError(err))
	case typeChunk:
		_, changes, err := readChunk(f, nil)
		return "chunk" + tellKeys(changes) + tellError(err)
	case typeWhole:
		number, err := readWhole(f)
		return fmt.Sprintf("whole %d%s", number, tellError(err))
	case typeBeat:
		b, err := readBeat(f)
		text := fmt.Sprintf("beat %d %d %d %d %d %d", b.term, b.clock, b.stamp, b.head, b.lead.term, b.lead.from)
		for _, p := range b.peers {
			text += " " + p.ID + " " + p.Addr
		}
		return text + tellError(err)
	case typeAck:
		a, err := readAck(f)
		return fmt.Sprintf("ack %d %d%s", a.number, a.stamp, tellError(err))
	case typePull:
		p, err := readPull(f)
		return fmt.Sprintf("pull %d %s %s%s", p.term, p.by.ID, p.by.Addr, tellError(err))
	case typePulled:
		p, err := readPulled(f)
		var flags []string
		for i, name := range pulledFlags {
			if p.flags>>i&1 != 0 {
				flags = append(flags, name)
			}
		}
		return fmt.Sprintf("pulled %d %d %d %s %s%s", p.term, p.head, p.lead, p.replid, strings.Join(flags, ","), tellError(err))
	case typeFull:
		return "full"
	}
	return fmt.Sprintf("frame %d", f.kind)
}

func tellError(err error) string {
	if err != nil {
		return " error " + err.Error()
	}
	return ""
}

func tellKeys(changes []shard.Change) (text string) {
	for i := range changes {
		text += " " + string(changes[i].Key)
	}
	return text
}

func tellSent(raw []byte) string {
	if raw[0] == '+' || raw[0] == '-' {
		return string(bytes.TrimSuffix(raw, []byte("\r\n")))
	}
	var all []string
	for len(raw) > 0 {
		f, need, err := nextFrame(raw)
		if err != nil || need > 0 {
			return "something malformed"
		}
		all = append(all, tellFrame(&f))
		raw = raw[len(f.raw):]
	}
	return strings.Join(all, " + ")
}

func tellEffect(e Effect) string {
	switch e := e.(type) {
	case Send:
		return fmt.Sprintf("send %d %s", e.Link, tellSent(e.Raw))
	case Dial:
		return fmt.Sprintf("dial %d %s %s", e.Link, e.Addr, strings.Join(e.Command, " "))
	case Hangup:
		return fmt.Sprintf("hangup %d", e.Link)
	case Cut:
		return fmt.Sprintf("cut %d %d %d%s", e.Term, e.Number, e.Clock, map[bool]string{true: " later"}[e.Later])
	case BeginWalk:
		return fmt.Sprintf("walk %d", e.Link)
	case ReadChunk:
		return fmt.Sprintf("read chunk %d", e.Link)
	case Feed:
		return fmt.Sprintf("feed on %v", e.On)
	case StoreFollows:
		return fmt.Sprintf("store follows %v", e.On)
	case Apply:
		return fmt.Sprintf("apply wipe %d%s", e.Wipe, tellKeys(e.Changes))
	case SetClock:
		return fmt.Sprintf("clock %d", e.Base+simStart.Milliseconds())
	case Released:
		return fmt.Sprintf("released %d", e.Number)
	case Doors:
		return tellDoors(&e)
	case CloseClients:
		return "close clients"
	case Persist:
		return "persist " + strings.ReplaceAll(strings.TrimSuffix(strings.TrimPrefix(e.State.String(), stateHead+"\n"), "\nend\n"), "\n", "; ")
	case Note:
		return "note " + e.Text
	}
	return fmt.Sprintf("%T", e)
}

func tellDoors(d *Doors) string {
	until := "forever"
	if d.Until != Forever {
		until = max(d.Until-simStart, 0).String()
	}
	text := fmt.Sprintf("doors %s until %s generation %d", []string{"", "leading", "promoting", "following"}[d.Role], until, d.Generation)
	for _, w := range []struct {
		set  bool
		name string
	}{{d.Open, "open"}, {d.NotReady, "not ready"}, {d.Whole, "whole"}, {d.Acks > 0, fmt.Sprintf("acks %d", d.Acks)}, {d.Short, "short"}} {
		if w.set {
			text += ", " + w.name
		}
	}
	return text
}
