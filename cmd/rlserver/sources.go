package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
)

// An action is what a command line asks for.
type action int

const (
	actionServe       action = iota
	actionHelp               // --help
	actionVersion            // --version
	actionCheckConfig        // --check-config: read everything, serve nothing
)

// An invocation is a command line with environment and config file, read and checked.
type invocation struct {
	action action
	config *Config  // nil for help and version, which look at nothing else
	file   string   // the config file; empty if none was given
	notes  []string // what was ignored in the environment, worth a warning
}

// A setting is one value that some source gives to one option.
type setting struct {
	where  string // how the source is called in a message: "--port", "RLSERVER_PORT", "rl.conf:3: port"
	option *option
	text   string
}

// parseInvocation reads the options from all sources; a flag beats the environment, the environment beats the file,
// the file beats the default, and within one source the last one wins. args are without the program's name. An error
// is a sentence that says where it stands, what came and what was expected.
func parseInvocation(args, environ []string) (invocation, error) {
	inv, flags, err := readFlags(args)
	if err != nil || inv.action == actionHelp || inv.action == actionVersion {
		return inv, err
	}
	var settings []setting
	if inv.file != "" {
		if settings, err = readFile(inv.file); err != nil {
			return inv, err
		}
	}
	env, notes := readEnvironment(environ)
	inv.notes = notes
	v := defaults()
	for _, s := range slices.Concat(settings, env, flags) {
		if err := s.option.kind.parse(&v, s.text); err != nil {
			return inv, fmt.Errorf("%s: got %s, expected %s", s.where, s.quoted(), s.option.kind.expect)
		}
	}
	inv.config = newConfig(v)
	return inv, nil
}

// maxShownBytes is how much of a bad value a message repeats.
const maxShownBytes = 64

func quote(text string) string {
	if len(text) > maxShownBytes {
		return fmt.Sprintf("%q...", text[:maxShownBytes])
	}
	return fmt.Sprintf("%q", text)
}

func (s *setting) quoted() string {
	if s.option.secret {
		return fmt.Sprintf("a secret of %d bytes", len(s.text))
	}
	return quote(s.text)
}

// find looks an option up; the error says what is wrong with the name.
func find(name string) (*option, error) {
	if o := lookup(name); o != nil {
		return o, nil
	}
	if f := lookupFact(name); f != nil {
		return nil, fmt.Errorf("option %q cannot be set: %s", f.name, f.reason)
	}
	return nil, fmt.Errorf("unknown option %s", quote(name))
}

// readFlags takes the command line apart without looking at the values.
func readFlags(args []string) (inv invocation, flags []setting, err error) {
	for len(args) > 0 {
		word := args[0]
		args = args[1:]
		switch {
		case word == "--help" || word == "-h" || word == "help":
			return invocation{action: actionHelp}, nil, nil
		case word == "--version" || word == "-v":
			return invocation{action: actionVersion}, nil, nil
		case word == "--check-config":
			inv.action = actionCheckConfig
		case strings.HasPrefix(word, "--"):
			s, rest, err := readFlag(word, args)
			if err != nil {
				return inv, nil, err
			}
			flags, args = append(flags, s), rest
		case strings.HasPrefix(word, "-"):
			return inv, nil, fmt.Errorf("unknown option %s: options start with two dashes", quote(word))
		case word == "":
			return inv, nil, errors.New(`"": expected a config file or an option`)
		case inv.file != "":
			return inv, nil, fmt.Errorf("%s: the config file is already %s; a value follows its option: --port 6390", quote(word), quote(inv.file))
		default:
			inv.file = word
		}
	}
	return inv, flags, nil
}

// readFlag reads one option and its value: --name=value, or --name and the words after it.
func readFlag(word string, args []string) (setting, []string, error) {
	name, text, joined := strings.Cut(word[2:], "=")
	o, err := find(name)
	if err != nil {
		return setting{}, nil, fmt.Errorf("--%s: %w", clip(name), err)
	}
	s := setting{where: "--" + o.name, option: o, text: text}
	if joined {
		return s, args, nil
	}
	n := 0
	for n < len(args) && !strings.HasPrefix(args[n], "--") && (n == 0 || o.kind.many) {
		n++
	}
	if n == 0 {
		return s, nil, fmt.Errorf("--%s: a value is missing, expected %s; one that starts with -- is written --%s=VALUE", o.name, o.kind.expect, o.name)
	}
	s.text = strings.Join(args[:n], " ")
	return s, args[n:], nil
}

// clip makes a name fit for a message without quotes.
func clip(name string) string {
	if len(name) > maxShownBytes {
		return plain(name[:maxShownBytes]) + "..."
	}
	return plain(name)
}

// envPrefix starts the name of every environment variable of ours.
const envPrefix = "RLSERVER_"

// Kubernetes gives every container variables about the services around it. Next to one that is called rlserver they
// start like ours, and RLSERVER_PORT is tcp://10.0.0.1:6390.
var (
	serviceName  = regexp.MustCompile(`^RLSERVER_(SERVICE_(HOST|PORT)|PORT_\d+_(TCP|UDP|SCTP))`)
	serviceValue = regexp.MustCompile(`^(tcp|udp|sctp)://`)
)

func envName(o *option) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(o.name, "-", "_"))
}

// readEnvironment picks our variables out of NAME=value pairs. One that names no option is not an error, as it may be
// somebody else's, but a note says that it was ignored.
func readEnvironment(environ []string) (settings []setting, notes []string) {
	for _, pair := range slices.Sorted(slices.Values(environ)) {
		name, text, _ := strings.Cut(pair, "=")
		i := slices.IndexFunc(options, func(o option) bool { return envName(&o) == name })
		switch {
		case !strings.HasPrefix(name, envPrefix) || serviceName.MatchString(name):
		case i < 0:
			notes = append(notes, fmt.Sprintf("environment variable %s names no option; ignored", clip(name)))
		case name == envPrefix+"PORT" && serviceValue.MatchString(text):
			notes = append(notes, fmt.Sprintf("environment variable %s is %s, a Kubernetes service link and no port; ignored", name, quote(text)))
		default:
			settings = append(settings, setting{name, &options[i], text})
		}
	}
	return settings, notes
}

// maxConfigBytes bounds a config file; a longer one is not a config file.
const maxConfigBytes = 1 << 20

// readFile reads a config file in Redis's syntax.
func readFile(name string) ([]setting, error) {
	text, err := readWhole(name, maxConfigBytes)
	if err != nil {
		return nil, fmt.Errorf("config file: %w", err)
	}
	return readLines(name, text)
}

// readWhole reads a file of at most so many bytes.
func readWhole(name string, most int64) (text string, err error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	all, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(all)) > most {
		err = fmt.Errorf("%s: longer than %d bytes", name, most)
	}
	return string(all), err
}

// readLines reads the text of a config file: an option and its value a line, # lines are comments.
func readLines(file, text string) (settings []setting, err error) {
	number := 0
	for line := range strings.Lines(strings.TrimPrefix(text, "\ufeff")) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		words, err := splitWords(line)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, number, err)
		}
		o, err := find(words[0])
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, number, err)
		}
		if n := len(words) - 1; n == 0 || n > 1 && !o.kind.many {
			return nil, fmt.Errorf("%s:%d: %s: got %d values, expected one: %s (one with spaces needs quotes, a comment a line of its own)",
				file, number, o.name, n, o.kind.expect)
		}
		settings = append(settings, setting{fmt.Sprintf("%s:%d: %s", file, number, o.name), o, strings.Join(words[1:], " ")})
	}
	return settings, nil
}
