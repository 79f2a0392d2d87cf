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
	// Replicas are the other nodes of the group, those that followed this one or the
	// same primary, and Sentinels those that watch it, the id the first 8 hex digits
	// of theirs.
	Replicas, Sentinels []Peer
	// Lead is the term of the lead of which the content has everything, 0 = of none.
	// Unclean: it lacks what was decided before a crash; Behind: somebody else has led
	// since.
	Lead            uint64
	Unclean, Behind bool
}

const stateHead = "rlserver-replication 1"

func (s *State) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\nterm %d\nepoch %d\nlead %d\n", stateHead, s.Term, s.Epoch, s.Lead)
	if s.Unclean {
		b.WriteString("unclean\n")
	}
	if s.Behind {
		b.WriteString("behind\n")
	}
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
		case len(words) == 1 && words[0] == "unclean":
			s.Unclean = true
		case len(words) == 1 && words[0] == "behind":
			s.Behind = true
		case len(words) == 2 && words[0] == "lead":
			s.Lead, err = strconv.ParseUint(words[1], 10, 64)
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
