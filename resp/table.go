package resp

// sinceVersion is the release that brought the commands here.
const sinceVersion = "0.1.0"

// Arguments that several rows share.
var (
	argKey   = arg{name: "key", kind: "key"}
	argKeys  = arg{name: "key", kind: "key", multiple: true}
	argLimit = arg{name: "limit", kind: "oneof", sub: []arg{
		{name: "rate-burst", kind: "block", sub: []arg{{name: "rate", kind: "string"}, {name: "burst", kind: "integer"}}},
		{name: "rate:burst", kind: "string"},
		{name: "algorithm:limit/window", kind: "string"},
		{name: "@name", kind: "string"},
	}}
	argNow  = arg{name: "now", kind: "string", optional: true}
	argCost = arg{name: "tokens", kind: "integer", token: "COST", optional: true}
)

// rows is the command table. To add a command, add a row, its handler in the
// file of its group, and its transcript.
func rows() []*command {
	all := limiterRows()
	all = append(all, namedRows()...)
	all = append(all, feedbackRows()...)
	all = append(all, acquireAllRows()...)
	all = append(all, windowRows()...)
	all = append(all, throttleRows()...)
	all = append(all, resetRows()...)
	all = append(all, hashRows()...)
	all = append(all, keyRows()...)
	all = append(all, scanRows()...)
	all = append(all, expireRows()...)
	all = append(all, objectRows()...)
	all = append(all, multiRows()...)
	all = append(all, slowLogRows()...)
	all = append(all, connectionRows()...)
	all = append(all, aclRows()...)
	all = append(all, replicationRows()...)
	all = append(all, pubSubRows()...)
	return append(all, serverRows()...)
}

func limiterRows() []*command {
	optionalLimit := argLimit
	optionalLimit.optional = true
	return []*command{
		{name: "rl.acquire", arity: -3, flags: flagWrite | flagDenyOOM | flagFast | flagLimiter | flagDecides, first: 1, last: 1, step: 1, group: "limiter",
			summary: "Takes tokens if the limit allows it, and says so in five integers; times are in ms. " +
				"With MAXWAIT a call that would have to wait for at most so long is allowed, takes its tokens now, and is told to sleep first. " +
				"PARTIAL grants as much of the cost as there is. FORCE takes the tokens in any case, into debt, when what was used is known only afterwards. " +
				"These three are for buckets and exclude one another; PARTIAL excludes COST 0 too.",
			complexity: "O(1)", reply: "decision", run: rlAcquire,
			args: []arg{argKey, argLimit, argNow, argCost,
				{name: "ms", kind: "string", token: "MAXWAIT", optional: true},
				{name: "partial", kind: "pure-token", token: "PARTIAL", optional: true},
				{name: "force", kind: "pure-token", token: "FORCE", optional: true}}},
		{name: "rl.peek", arity: -2, flags: flagRead | flagFast | flagLimiter, first: 1, last: 1, step: 1, group: "limiter",
			summary: "The decision the same acquire would get; changes nothing. Without a limit, by the one the key carries. " +
				"After the key one bare number is now, two are rate and burst, three all of them.",
			complexity: "O(1)", reply: "decision?", run: rlPeek,
			args: []arg{argKey, optionalLimit, argNow, argCost}},
		{name: "rl.refund", arity: -3, flags: flagWrite | flagFast | flagLimiter, first: 1, last: 1, step: 1, group: "limiter",
			summary:    "Gives tokens back, up to the limit. Null if the key is absent.",
			complexity: "O(1)", reply: "decision?", run: rlRefund,
			args: []arg{argKey, {name: "tokens", kind: "integer"}, argNow}},
		{name: "rl.penalize", arity: -4, flags: flagWrite | flagDenyOOM | flagFast | flagLimiter, first: 1, last: 1, step: 1, group: "limiter",
			summary:    "No call before now + wait: for when the upstream answered 429. Never shortens an earlier penalty.",
			complexity: "O(1)", reply: "decision", run: rlPenalize,
			args: []arg{argKey, argLimit, {name: "wait", kind: "string"}, argNow}},
		{name: "rl.get", arity: 2, flags: flagRead | flagFast | flagLimiter, first: 1, last: 1, step: 1, group: "limiter",
			summary:    "What is stored for a key, as a map. Null if the key is absent.",
			complexity: "O(1)", reply: "map?", run: rlGet,
			args: []arg{argKey}},
	}
}

func keyRows() []*command {
	return []*command{
		{name: "del", arity: -2, flags: flagWrite, first: 1, last: -1, step: 1, touch: touchDelete, group: "generic",
			summary: "Forgets keys. Replies how many there were.", complexity: "O(N) with N keys", reply: "integer", run: del, args: []arg{argKeys}},
		{name: "unlink", arity: -2, flags: flagWrite | flagFast, first: 1, last: -1, step: 1, touch: touchDelete, group: "generic",
			summary: "The same as DEL.", complexity: "O(N) with N keys", reply: "integer", run: del, args: []arg{argKeys}},
		{name: "exists", arity: -2, flags: flagRead | flagFast, first: 1, last: -1, step: 1, touch: touchLook, group: "generic",
			summary: "How many of the keys exist.", complexity: "O(N) with N keys", reply: "integer", run: exists, args: []arg{argKeys}},
		{name: "type", arity: 2, flags: flagRead | flagFast, first: 1, last: 1, step: 1, touch: touchLook, group: "generic",
			summary: "The kind of value: hash for a bucket, else the algorithm's name, as for values of a module; none for an absent key.", complexity: "O(1)", reply: "status", run: keyType, args: []arg{argKey}},
		{name: "ttl", arity: 2, flags: flagRead | flagFast, first: 1, last: 1, step: 1, group: "generic",
			summary: "Seconds until the server looks whether the key can be dropped; -2 if it is absent.", complexity: "O(1)", reply: "integer", run: ttl, args: []arg{argKey}},
		{name: "pttl", arity: 2, flags: flagRead | flagFast, first: 1, last: 1, step: 1, group: "generic",
			summary: "The same as TTL in ms.", complexity: "O(1)", reply: "integer", run: pttl, args: []arg{argKey}},
		{name: "dbsize", arity: 1, flags: flagRead | flagFast | flagWhole, group: "server", also: []string{"keyspace"},
			summary: "How many keys there are.", complexity: "O(1)", reply: "integer", run: dbsize},
		{name: "flushall", arity: -1, flags: flagWrite | flagAllKeys | flagWhole, touch: touchDelete, group: "server", also: []string{"keyspace", "dangerous"},
			summary: "Forgets all keys; named limits stay.", complexity: "O(1)", reply: "ok", run: flushAll, args: []arg{argFlush}},
		{name: "flushdb", arity: -1, flags: flagWrite | flagAllKeys | flagWhole, touch: touchDelete, group: "server", also: []string{"keyspace", "dangerous"},
			summary: "The same as FLUSHALL: there is one database.", complexity: "O(1)", reply: "ok", run: flushAll, args: []arg{argFlush}},
	}
}

var argFlush = arg{name: "flush-type", kind: "oneof", optional: true, sub: []arg{
	{name: "async", kind: "pure-token", token: "ASYNC"}, {name: "sync", kind: "pure-token", token: "SYNC"}}}

func connectionRows() []*command {
	about := flagLoading | flagStale
	always := about | flagFast
	return []*command{
		{name: "ping", arity: -1, flags: flagFast, group: "connection",
			summary: "PONG, or the message given.", reply: "any", run: ping, args: []arg{{name: "message", kind: "string", optional: true}}},
		{name: "echo", arity: 2, flags: always, group: "connection",
			summary: "The message given.", reply: "bulk", run: echo, args: []arg{{name: "message", kind: "string"}}},
		{name: "hello", arity: -1, flags: always | flagNoAuth, group: "connection",
			summary: "Chooses RESP2 or RESP3, may authenticate and name the client, and tells about the server.", reply: "map", run: hello,
			args: []arg{{name: "arguments", kind: "block", optional: true, sub: []arg{
				{name: "protover", kind: "integer"},
				{name: "auth", kind: "block", token: "AUTH", optional: true, sub: []arg{{name: "username", kind: "string"}, {name: "password", kind: "string"}}},
				{name: "clientname", kind: "string", token: "SETNAME", optional: true}}}}},
		{name: "auth", arity: -2, flags: always | flagNoAuth, group: "connection",
			summary: "Authenticates with the password, for the user default.", reply: "ok", run: auth,
			args: []arg{{name: "username", kind: "string", optional: true}, {name: "password", kind: "string"}}},
		{name: "select", arity: 2, flags: always, group: "connection",
			summary: "Database 0 is the only one.", reply: "ok", run: selectDB, args: []arg{{name: "index", kind: "integer"}}},
		{name: "quit", arity: -1, flags: always | flagNoAuth | flagAtOnce, group: "connection",
			summary: "Ends the connection.", reply: "ok", run: quit},
		{name: "reset", arity: 1, flags: always | flagNoAuth | flagAtOnce, group: "connection",
			summary: "The connection as it was at its start.", reply: "status", run: resetSession},
		{name: "client", arity: -2, group: "connection", summary: "About this connection.", reply: "any", run: help,
			subs: clientSubs()},
	}
}

func serverRows() []*command {
	always := flagLoading | flagStale
	names := arg{name: "command-name", kind: "string", optional: true, multiple: true}
	return []*command{
		{name: "time", arity: 1, flags: always | flagFast, group: "server",
			summary: "The server's clock: Unix seconds and microseconds.", reply: "array", run: timeNow},
		{name: "info", arity: -1, flags: always, group: "server", also: []string{"dangerous"},
			summary: "Facts and figures about the server, by section.", reply: "bulk", run: info,
			args: []arg{{name: "section", kind: "string", optional: true, multiple: true}}},
		{name: "save", arity: 1, flags: flagAdmin, group: "server",
			summary: "Writes all changes to disk; answers when they are durable.", reply: "ok", run: save},
		{name: "bgsave", arity: -1, flags: flagAdmin, group: "server",
			summary: "Starts writing all changes to disk, or, with TO, a backup of all data under a name in backup-dir, and answers at once.", reply: "status", run: bgSave,
			args: []arg{{name: "operation", kind: "oneof", optional: true, sub: []arg{
				{name: "schedule", kind: "pure-token", token: "SCHEDULE"}, {name: "name", kind: "string", token: "TO"}}}}},
		{name: "lastsave", arity: 1, flags: always | flagFast | flagAdmin, group: "server",
			summary: "Unix seconds of the last successful write to disk.", reply: "integer", run: lastSave},
		{name: "shutdown", arity: -1, flags: always | flagAdmin | flagNoMulti, group: "server",
			summary: "Stops the server; writes to disk first unless NOSAVE is given.", reply: "none", run: shutdown,
			args: []arg{{name: "save-selector", kind: "oneof", optional: true, sub: []arg{
				{name: "nosave", kind: "pure-token", token: "NOSAVE"}, {name: "save", kind: "pure-token", token: "SAVE"}}},
				{name: "now", kind: "pure-token", token: "NOW", optional: true},
				{name: "force", kind: "pure-token", token: "FORCE", optional: true}}},
		{name: "config", arity: -2, group: "server", summary: "The server's options.", reply: "any", run: help,
			subs: []*command{
				{name: "get", arity: -3, flags: always | flagAdmin, summary: "Options whose names match a pattern.", reply: "map", run: configGet,
					args: []arg{{name: "parameter", kind: "pattern", multiple: true}}},
				{name: "set", arity: -4, flags: always | flagAdmin, summary: "Changes options while the server runs: all of them or none.", reply: "ok", run: configSet,
					args: []arg{{name: "data", kind: "block", multiple: true, sub: []arg{{name: "parameter", kind: "string"}, {name: "value", kind: "string"}}}}},
				{name: "rewrite", arity: 2, flags: always | flagAdmin, summary: "Keeps for the next start whom this node follows.", reply: "ok", run: configRewrite},
				{name: "resetstat", arity: 2, flags: always | flagAdmin, summary: "Starts the figures of INFO at zero again.", reply: "ok", run: configResetStat},
				{name: "help", arity: 2, flags: always, summary: "This list.", reply: "array", run: help},
			}},
		{name: "command", arity: -1, flags: always, group: "server", also: []string{"connection"}, summary: "The command table.", reply: "array", run: commandAll,
			subs: []*command{
				{name: "count", arity: 2, flags: always, summary: "How many commands there are.", reply: "integer", run: commandCount},
				{name: "info", arity: -2, flags: always, summary: "The commands named, or all.", reply: "array", run: commandInfo, args: []arg{names}},
				{name: "docs", arity: -2, flags: always, summary: "What the commands are for and their arguments.", reply: "map", run: commandDocs, args: []arg{names}},
				{name: "list", arity: -2, flags: always, summary: "The names of the commands.", reply: "array", run: commandList,
					args: []arg{{name: "filterby", kind: "oneof", token: "FILTERBY", optional: true, sub: []arg{
						{name: "module-name", kind: "string", token: "MODULE"}, {name: "category", kind: "string", token: "ACLCAT"},
						{name: "pattern", kind: "pattern", token: "PATTERN"}}}}},
				{name: "getkeys", arity: -3, flags: always, summary: "Which arguments of a command are keys.", reply: "array", run: commandGetKeys,
					args: []arg{{name: "command", kind: "string"}, {name: "arg", kind: "string", optional: true, multiple: true}}},
				{name: "help", arity: 2, flags: always, summary: "This list.", reply: "array", run: help},
			}},
	}
}
