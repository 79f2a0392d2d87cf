package main

import (
	"fmt"
	"strings"
)

// helpText is what --help prints.
func helpText() string {
	var b strings.Builder
	b.WriteString(`rlserver: a rate-limiter store that any Redis client can use

    rlserver [FILE] [--option value ...]

FILE is a config file: an option and its value a line ("port 6390"). An option is taken from the
flag (--port 6390), else the environment (RLSERVER_PORT), else FILE, else the default,
which is shown here:

`)
	for _, o := range options {
		mark := ""
		if o.live {
			mark = "*"
		}
		fmt.Fprintf(&b, "  --%-26s%1s %s (%s)\n", o.name+" "+orQuotes(o.def), mark, o.help, o.kind.shape)
	}
	b.WriteString(`
  * CONFIG SET can change it while the server runs.

  --check-config   read and check all options, then stop
  --version        print the version
  --help           print this

`)
	for _, t := range tools {
		fmt.Fprintf(&b, "  rlserver %-18s %s\n", t.name+" "+t.args, t.help)
	}
	return b.String()
}

// optionsTable is the table of the README.
func optionsTable() string {
	var b strings.Builder
	b.WriteString("| option | default | values | live | meaning |\n|---|---|---|---|---|\n")
	cell := strings.NewReplacer("|", `\|`, "*", `\*`)
	for _, o := range options {
		live := ""
		if o.live {
			live = "yes"
		}
		fmt.Fprintf(&b, "| `%s` | `%s` | %s | %s | %s |\n", o.name, orQuotes(o.def), cell.Replace(o.kind.shape), live, cell.Replace(o.help))
	}
	return b.String()
}

// orQuotes makes an empty value visible.
func orQuotes(text string) string {
	if text == "" {
		return `""`
	}
	return text
}
