package replicate

import (
	"bufio"
	"fmt"
	"strconv"
	"strings"
)

// A State is what a node must know when it is started again. It is a text of
// lines, each a word and its values.
type State struct {
	Term    uint64
	Epoch   uint64 // the highest heard of Sentinel's configurations
	Primary string // address of the primary followed; empty = this node leads
	Group   string // Sentinel's name for the nodes, empty = none heard
	// Replicas are those that followed this node, and Sentinels those that watch
	// it, the id the first 8 hex digits of theirs.
	Replicas, Sentinels []Peer
}

const stateHead = "rlserver-replication 1"

func (s *State) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\nterm %d\nepoch %d\n", stateHead, s.Term, s.Epoch)
	if s.Primary != "" {
		fmt.Fprintf(&b, "primary %s\n", s.Primary)
	}
	if s.Group != "" {
		fmt.Fprintf(&b, "group %s\n", s.Group)
	}
	for _, p := range s.Replicas {
		fmt.Fprintf(&b, "replica %s %s\n", p.ID, p.Addr)
	}
	for _, p := range s.Sentinels {
		fmt.Fprintf(&b, "sentinel %s %s\n", p.ID, p.Addr)
	}
	return b.String() + "end\n"
}

// ParseState reads what String wrote. A text that ends too early is an error.
func ParseState(text string) (s State, err error) {
	lines := bufio.NewScanner(strings.NewReader(text))
	if !lines.Scan() || lines.Text() != stateHead {
		return s, fmt.Errorf("the first line is not %q", stateHead)
	}
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		switch {
		case len(words) == 1 && words[0] == "end":
			return s, nil
		case len(words) == 2 && words[0] == "term":
			s.Term, err = strconv.ParseUint(words[1], 10, 64)
		case len(words) == 2 && words[0] == "epoch":
			s.Epoch, err = strconv.ParseUint(words[1], 10, 64)
		case len(words) == 2 && words[0] == "primary":
			s.Primary = words[1]
		case len(words) == 2 && words[0] == "group":
			s.Group = words[1]
		case len(words) == 3 && words[0] == "replica":
			s.Replicas = append(s.Replicas, Peer{words[1], words[2]})
		case len(words) == 3 && words[0] == "sentinel":
			s.Sentinels = append(s.Sentinels, Peer{words[1], words[2]})
		default:
			err = fmt.Errorf("line %q is not understood", lines.Text())
		}
		if err != nil {
			return s, err
		}
	}
	return s, fmt.Errorf("the text ends before its last line")
}
