//go:build linux

package main

import (
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"fmt"
	"strconv"
)

const (
	spentEvery = 5  // each fifth key is an emptied bucket that refills in 30 days: the share of denials is the same for all
	batch      = 32 // calls in a pipelined batch
)

//go:embed tokenbucket.lua
var tokenBucket string

// scriptHash is what EVALSHA calls the script by.
func scriptHash() string {
	sum := sha1.Sum([]byte(tokenBucket))
	return hex.EncodeToString(sum[:])
}

// kinds returns every server as it is set up for the comparison.
func kinds(o options) []kind {
	return []kind{
		{name: "rlserver", title: "rlserver", program: o.rlserver, saves: true,
			args: []string{"--http-addr", "", "--durability", "interval", "--loglevel", "warning"}},
		{name: "redis", title: "Redis, no persistence", program: o.redis,
			args: []string{"--save", "", "--appendonly", "no", "--loglevel", "warning"}},
		{name: "redis-aof", title: "Redis, AOF everysec", program: o.redis,
			args: []string{"--save", "", "--appendonly", "yes", "--appendfsync", "everysec", "--auto-aof-rewrite-percentage", "0", "--loglevel", "warning"}},
	}
}

// A cell is one command sent to one server at one depth.
type cell struct {
	name    string // server/command/xdepth
	server  string // a kind's name
	command string // in the report
	depth   int
	frame   frame
	spent   *frame // for the emptied buckets; nil where nothing is decided
}

// A command can be sent to a server. The arguments of spent are those for an emptied bucket.
type command struct {
	name, title string
	args, spent []string
}

// commands returns what is measured on a server, in the order of the report.
func commands(server string) []command {
	ping := command{name: "ping", title: "PING", args: []string{"PING"}}
	if server == "rlserver" {
		return []command{
			{"acquire", "RL.ACQUIRE key 10 20",
				[]string{"RL.ACQUIRE", "user:%key", "10", "20"}, []string{"RL.ACQUIRE", "user:%key", "1/30d", "1"}},
			{"acquire-now", "RL.ACQUIRE key 10 20 now",
				[]string{"RL.ACQUIRE", "user:%key", "10", "20", "%now"}, []string{"RL.ACQUIRE", "user:%key", "1/30d", "1", "%now"}},
			ping,
		}
	}
	script := command{"lua", "EVALSHA sha 1 key 10 20 now 1",
		[]string{"EVALSHA", scriptHash(), "1", "user:%key", "10", "20", "%now", "1"},
		[]string{"EVALSHA", scriptHash(), "1", "user:%key", "0.0000003858", "1", "%now", "1"}}
	if server == "redis-aof" {
		return []command{script}
	}
	return []command{script, ping, {name: "incr", title: "INCR key", args: []string{"INCR", "incr:%key"}}}
}

func cells(kinds []kind) []cell {
	var all []cell
	for _, depth := range []int{batch, 1} {
		for _, k := range kinds {
			for _, c := range commands(k.name) {
				made := cell{server: k.name, command: c.title, depth: depth, frame: newFrame(c.args...)}
				made.name = fmt.Sprintf("%s/%s/x%d", k.name, c.name, depth)
				if c.spent != nil {
					spent := newFrame(c.spent...)
					made.spent = &spent
				}
				all = append(all, made)
			}
		}
	}
	return all
}

// slowBucket returns the call for one token of a bucket that refills by one in 30 days.
func slowBucket(k kind, burst int) frame {
	if k.name == "rlserver" {
		return newFrame("RL.ACQUIRE", "slow:%key", "1/30d", strconv.Itoa(burst))
	}
	return newFrame("EVALSHA", scriptHash(), "1", "slow:%key", "0.0000003858", strconv.Itoa(burst), "%now", "1")
}
