package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rlserver/rlserver/resp"
)

// replyText says for people what the table's reply kinds are.
var replyText = map[string]string{
	"decision": "a decision: five integers", "decisions": "three integers and an array of decisions",
	"throttle": "five integers: limited (0 or 1), the bucket's size max_burst + 1, remaining, retry_after in seconds (-1 when not limited, and when it never can pass), reset_after in seconds",
	"integer":  "an integer", "ok": "OK", "status": "a word", "bulk": "text",
	"map": "a map (RESP2: names and values in turn)", "array": "an array", "none": "none: the connection ends", "any": "as shown",
}

// groupTitles orders the manual.
var groupTitles = [][2]string{{"limiter", "Limits"}, {"hash", "Buckets as hashes"}, {"generic", "Keys"}, {"transactions", "Transactions"}, {"connection", "Connections"}, {"pubsub", "Channels"}, {"server", "The server"}}

// TestCommandsManual holds commands.md against the command table and its
// transcripts, of which the first paragraph is the example.
func TestCommandsManual(t *testing.T) {
	const path = "../../commands.md"
	want := commandsManual(t)
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Error("commands.md is not what the command table and the transcripts say: go test ./cmd/rlserver -run CommandsManual -update")
	}
}

const manualHead = `# Commands

Made from the command table and the transcripts in cmd/rlserver/testdata; every example was played against the server.
Names are the same in any letter case. ` + "`>`" + ` is what you type, ` + "`!`" + ` what gets an error, ` + "`@ 1s`" + ` is time passing.

A **limit** is a rate and a burst: ` + "`10 20`" + ` or ` + "`10:20`" + ` is ten tokens a second and a bucket of 20; ` + "`5/1m 10`" + ` is five a minute and a
bucket of 10. Rates are decimals with at most nine digits after the point, or N/period with a unit (ms s m h d).
In one argument it is an **expression**: that is the only form where several limits stand in one call, as in RL.ACQUIREALL, and for RL.LIMIT SET.
` + "`fixed:100/1m`, `fixed-aligned:100/1m`, `sliding:100/1m` and `log:100/1m`" + ` are expressions of windows of a minute in which 100 fit: RL.FIXED,
RL.SLIDING, RL.LOG.
` + "`@wb:orders:list`" + ` is a limit that the server holds by that name: RL.LIMIT.

A **decision** is five integers:

| | | |
|---|---|---|
| 1 | allowed | 1 or 0; with PARTIAL how many were granted |
| 2 | retry_after | ms. Denied: until the same call would pass; -1 if it never can. Allowed: 0, or with MAXWAIT the ms to sleep first |
| 3 | remaining | whole tokens left after this call, or what still fits in the window |
| 4 | reset_after | ms until the bucket is full again, or nothing is counted any more |
| 5 | limit | the burst, or the window's limit |

**now** is Unix milliseconds of the caller, or ` + "`*`" + `, or left out: then the server's clock decides. By default a caller's time counts within
` + "`max-clock-skew`" + ` (1 s) of the server's clock and is clamped to it beyond.

An error changes nothing. So does a denial.
`

func commandsManual(t *testing.T) string {
	for _, c := range resp.Commands() {
		if !slices.ContainsFunc(groupTitles, func(g [2]string) bool { return g[0] == c.Group }) {
			t.Errorf("%s is of the group %q, that has no title", c.Name, c.Group)
		}
	}
	var b strings.Builder
	b.WriteString(manualHead)
	for _, g := range groupTitles {
		fmt.Fprintf(&b, "\n## %s\n", g[1])
		for _, c := range resp.Commands() {
			if c.Group == g[0] {
				writeCommand(t, &b, c)
			}
		}
	}
	return b.String()
}

func writeCommand(t *testing.T, b *strings.Builder, c resp.CommandDoc) {
	if sub := strings.Contains(c.Name, "|"); sub {
		fmt.Fprintf(b, "- `%s`: %s Reply: %s.\n", c.Usage, c.Summary, replyWords(c.Reply))
		return
	}
	fmt.Fprintf(b, "\n### %s\n\n", strings.ToUpper(c.Name))
	if c.Open {
		fmt.Fprintf(b, "%s\n", c.Summary)
	} else {
		fmt.Fprintf(b, "    %s\n\n%s Reply: %s.", c.Usage, c.Summary, replyWords(c.Reply))
		if c.Cost != "" {
			fmt.Fprintf(b, " %s.", c.Cost)
		}
		b.WriteString("\n")
	}
	example := firstParagraph(t, "testdata/"+c.Name+".txt")
	if c.Open && !strings.HasPrefix(example[0], "#") { // it shows this and that of the subcommands
		b.WriteString("\n")
		return
	}
	b.WriteString("\n```\n")
	for _, line := range example {
		b.WriteString(line + "\n")
	}
	b.WriteString("```\n")
	if c.Open { // its subcommands follow as a list
		b.WriteString("\n")
	}
}

func replyWords(kind string) string {
	base, orNull := strings.CutSuffix(kind, "?")
	if orNull {
		return replyText[base] + ", or null"
	}
	return replyText[base]
}

// firstParagraph is a transcript up to its first blank line.
func firstParagraph(t *testing.T, path string) []string {
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text, _, _ := strings.Cut(strings.TrimSpace(string(data)), "\n\n")
	return strings.Split(text, "\n")
}
