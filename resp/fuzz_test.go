package resp

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime/metrics"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/redcon"
)

// What a peer sends is bytes, in pieces of any size. These targets and tests
// hold that the answers depend on the bytes alone, that nothing a peer sends
// makes a handler fail or loop, and that it pays for what it makes us keep.

// Bounds of what a session may take for what it is sent.
const (
	fuzzMax      = 64 << 10 // bytes of one fuzzed conversation
	pieceTurns   = 10_000   // Feeds that may follow one another without more input
	keptBase     = 64 << 10 // bytes allocated for input that is not answered
	keptPerByte  = 64       // and per byte of it
	wordsPerSeed = 4        // commands of the dictionary's seeds
)

// transcripts are the conversations that the documentation shows, each as the
// commands that its clients send.
func transcripts(tb testing.TB) (all [][]byte) {
	tb.Helper()
	paths, err := filepath.Glob("../cmd/rlserver/testdata/*.txt")
	if err != nil || len(paths) == 0 {
		tb.Fatalf("no transcripts (%v)", err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			tb.Fatal(err)
		}
		var sent []byte
		for _, line := range strings.Split(string(text), "\n") {
			_, said, ok := strings.Cut(line, "> ")
			if !ok {
				_, said, ok = strings.Cut(line, "! ")
			}
			if ok && !strings.HasPrefix(line, "#") {
				sent = append(sent, frame(strings.Fields(said)...)...)
			}
		}
		all = append(all, sent)
	}
	return all
}

// dictionary is what commands are made of: all names there are, all words of
// their options, and values at the edges.
func dictionary() (words []string) {
	for _, c := range rows() {
		words = append(words, c.name)
		for _, sub := range c.subs {
			words = append(words, sub.name)
		}
		for _, a := range c.args {
			words = append(words, a.token)
		}
	}
	words = append(words, "k", "{a}b", "10", "20", "1/m", "5/1m:10", "fixed:2/1s", "sliding:3/1m", "log:2/1m", "adaptive:1..5:3", "@x", "*", "0", "-1", "+1", "1e3", "0.5", "250ms", "30d",
		"9007199254740992", "9223372036854775807", "9223372036854775808", "1767225600000", "a\r\nb", "\x00", "[a-", "match", "docs", "default", ">pw", "~k*", "+@all", strings.Repeat("k", 1025))
	slices.Sort(words)
	return slices.Compact(words)
}

// spell makes commands of the picks: each is a word of the dictionary, and
// 0xff ends a command.
func spell(words []string, picks []byte) (sent []byte) {
	for _, call := range bytes.Split(picks, []byte{0xff}) {
		var say []string
		for i, pick := range call {
			at := int(pick)
			if i == 0 {
				at = int(pick) * len(words) / 256 // a name may be anywhere
			} else if i%2 == 0 {
				at += 256
			}
			say = append(say, words[at%len(words)])
		}
		if len(say) > 0 {
			sent = append(sent, frame(say...)...)
		}
	}
	return sent
}

// listen feeds a session a conversation in pieces and returns all it answers.
func listen(tb testing.TB, s *Session, pieces ...[]byte) (said []byte) {
	var in []byte
	for _, piece := range pieces {
		in = append(in, piece...)
		for turns := 0; ; turns++ {
			if turns > pieceTurns {
				tb.Fatalf("a session goes on without end after %.200q", in)
			}
			taken := s.Feed(in)
			in = in[:copy(in, in[taken:])]
			said = append(said, s.Output()...)
			again := s.full
			s.Written()
			if s.act == actionClose {
				return said
			}
			if !again {
				break
			}
		}
	}
	return said
}

// changing says whether the answers may differ from one server to the next.
func changing(sent []byte) bool {
	sent = bytes.ToLower(sent)
	for _, word := range []string{"info", "genpass", "log", "hotkeys", "slowlog", "memory", "random", "scan", "keys"} {
		if bytes.Contains(sent, []byte(word)) {
			return true
		}
	}
	return false
}

// allocated is how many bytes this process has allocated so far.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// FuzzSession holds a conversation with a whole server, of commands spelt with
// the dictionary and of raw bytes, in one piece and parted anywhere.
func FuzzSession(f *testing.F) {
	words := dictionary()
	for i, sent := range transcripts(f) {
		f.Add(sent[:min(len(sent), fuzzMax)], []byte{}, uint16(i))
	}
	for i := 0; i < len(words); i += wordsPerSeed {
		var picks []byte
		for j := i; j < i+wordsPerSeed; j++ {
			picks = append(picks, byte(j*256/len(words)+1), byte(j), byte(j+1), byte(j+2), 0xff)
		}
		f.Add([]byte(nil), picks, uint16(i))
	}
	for _, raw := range []string{"*1\r\n$4\r\nPING\r\n", "*-1\r\n", "PING\r\n", "*3\r\n$99999999999999999999\r\n", "\"a\\x41\" 'b\r\n", "GET / HTTP/1.1\r\n", "*2\r\n$4\r\nECHO\r\n$-1\r\n", "*4096\r\n", "$5\r\n", "\r\n\n\x00"} {
		f.Add([]byte(raw), []byte{1, 2, 0xff}, uint16(3))
	}
	f.Fuzz(func(t *testing.T, raw, picks []byte, at uint16) {
		sent := append(spell(words, picks), raw...)
		if len(sent) > fuzzMax {
			return
		}
		before := allocated()
		s := newTestServer(standingClock{}).newSession("test", "test")
		made := allocated()
		said := listen(t, s, sent)
		if took := allocated() - made; len(said) == 0 && took > max(keptBase, made-before)+keptPerByte*uint64(len(sent)) {
			t.Errorf("%d bytes without an answer take %d bytes", len(sent), took)
		}
		if changing(sent) {
			return
		}
		cut := int(at) % (len(sent) + 1)
		parted := listen(t, newTestServer(standingClock{}).newSession("test", "test"), sent[:cut], sent[cut:])
		if !bytes.Equal(said, parted) {
			t.Errorf("parted after %d of %d bytes, %.300q\nis answered %.300q\ninstead of %.300q", cut, len(sent), sent, parted, said)
		}
	})
}

// Every conversation of the documentation is answered alike wherever it is
// parted, and byte by byte.
func TestSplitPoints(t *testing.T) {
	for _, sent := range transcripts(t) {
		if changing(sent) {
			continue
		}
		fresh := func() *Session { return newTestServer(standingClock{}).newSession("test", "test") }
		want := listen(t, fresh(), sent)
		var bytewise [][]byte
		for i := range sent {
			bytewise = append(bytewise, sent[i:i+1])
		}
		if got := listen(t, fresh(), bytewise...); !bytes.Equal(got, want) {
			t.Errorf("byte by byte, %.300q\nis answered %.300q\ninstead of %.300q", sent, got, want)
		}
		step := 1
		if testing.Short() {
			step = 13
		}
		for cut := 1; cut < len(sent); cut += step {
			if got := listen(t, fresh(), sent[:cut], sent[cut:]); !bytes.Equal(got, want) {
				t.Fatalf("parted after %d bytes, %.300q\nis answered %.300q\ninstead of %.300q", cut, sent, got, want)
			}
		}
	}
}

// FuzzReader holds the reader against redcon's on well-formed frames: the same
// arguments, whatever is in them, and the same number of bytes.
func FuzzReader(f *testing.F) {
	f.Add([]byte("PING"), uint8(1), uint8(1))
	f.Add([]byte("RL.ACQUIRE k 10 20"), uint8(4), uint8(2))
	f.Add([]byte("\r\n$5\r\n*1\r\n\x00\xff"), uint8(3), uint8(3))
	f.Fuzz(func(t *testing.T, data []byte, pieces, commands uint8) {
		var sent []byte
		for n := range int(commands%8) + 1 {
			var words []string
			for i := range int(pieces%20) + 1 {
				from := (i*7 + n) % (len(data) + 1)
				words = append(words, string(data[from:min(len(data), from+i*i)]))
			}
			sent = append(sent, frame(words...)...)
		}
		var p parser
		for rest := sent; len(rest) > 0; {
			args, used, perr := p.next(rest, limits{bulk: maxCommand, authed: true})
			complete, want, _, after, err := redcon.ReadNextCommand(rest, nil)
			if perr != "" || err != nil || used == 0 || !complete {
				t.Fatalf("%.200q: ours %q, %d bytes; redcon %v, complete %v", rest, perr, used, err, complete)
			}
			if len(rest)-used != len(after) || fmt.Sprintf("%q", args) != fmt.Sprintf("%q", want) {
				t.Fatalf("%.200q: ours %q and %d bytes, redcon %q and %d", rest, args, used, want, len(rest)-len(after))
			}
			if key, n := keyOf(rest); n != 0 && (n != used || !bytes.Equal(key, args[1])) || n == 0 && len(args) > 1 && len(args) <= maxAhead {
				t.Fatalf("%.200q: looked ahead to %q and %d bytes, it is %q and %d", rest, key, n, args, used)
			}
			p.reset()
			rest = rest[used:]
		}
	})
}
