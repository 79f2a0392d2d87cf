package resp

import (
	"strconv"

	"github.com/rlserver/rlserver/engine"
)

// Buckets read as the hashes that a limiter script on Redis keeps: t the tokens
// at the time ts. Nothing here changes a key.

// bucketFields are what HGETALL tells, in its order.
var bucketFields = [...]struct {
	name string
	of   func(engine.Info) string
}{
	{"t", func(i engine.Info) string { return i.Tokens }},
	{"ts", func(i engine.Info) string { return strconv.FormatInt(i.TS, 10) }},
}

func hashRows() []*command {
	row := func(name string, arity int, flags flag, summary, complexity, reply string, run func(*Session, [][]byte), args ...arg) *command {
		return &command{name: name, arity: arity, flags: flagRead | flags, first: 1, last: 1, step: 1, group: "hash",
			summary: summary, complexity: complexity, reply: reply, run: run, args: append([]arg{argKey}, args...)}
	}
	field := arg{name: "field", kind: "string"}
	fields := arg{name: "field", kind: "string", multiple: true}
	length := row("hlen", 2, flagFast, "How many fields a bucket has: 2. Of an absent key 0.", "O(1)", "integer", hlen)
	length.touch = touchLook
	return []*command{
		row("hget", 3, flagFast, "A field of a bucket: t, its tokens in decimal, or ts, the Unix ms at which it had them. Others are null.",
			"O(1)", "bulk?", hget, field),
		row("hmget", -3, flagFast, "Several fields of a bucket: t, its tokens in decimal, ts, the Unix ms at which it had them. Others are null.",
			"O(N) with N fields", "array", hmget, fields),
		length,
		row("hgetall", 2, 0, "All fields of a bucket: t, its tokens in decimal, and ts, the Unix ms at which it had them.",
			"O(1)", "map", hgetall),
	}
}

// bucketInfo looks a bucket up. It answers an error itself where the key holds
// something else.
func (s *Session) bucketInfo(key []byte) (info engine.Info, found, failed bool) {
	tx := s.lock(key)
	defer s.unlock(&tx)
	e, found := tx.Get(key)
	if !found {
		return info, false, false
	}
	if e.Kind != byte(engine.Bucket) {
		s.fail(errWrongType)
		return info, false, true
	}
	info, err := s.inspect(&tx, key, e.Value)
	if err != nil {
		s.failWith(err)
	}
	return info, true, err != nil
}

// field answers one field; null if the bucket or the field is not there.
func (s *Session) field(info engine.Info, found bool, name []byte) {
	for _, f := range bucketFields {
		if found && string(name) == f.name {
			s.text(f.of(info))
			return
		}
	}
	s.null()
}

// hlen is HLEN key.
func hlen(s *Session, args [][]byte) {
	switch _, found, failed := s.bucketInfo(args[1]); {
	case failed:
	case found:
		s.int(int64(len(bucketFields)))
	default:
		s.int(0)
	}
}

// hget is HGET key field.
func hget(s *Session, args [][]byte) {
	if info, found, failed := s.bucketInfo(args[1]); !failed {
		s.field(info, found, args[2])
	}
}

// hmget is HMGET key field [field ...].
func hmget(s *Session, args [][]byte) {
	info, found, failed := s.bucketInfo(args[1])
	if failed {
		return
	}
	s.array(len(args) - 2)
	for _, name := range args[2:] {
		s.field(info, found, name)
	}
}

// hgetall is HGETALL key; of an absent key it is empty.
func hgetall(s *Session, args [][]byte) {
	info, found, failed := s.bucketInfo(args[1])
	switch {
	case failed:
	case !found:
		s.dict(0)
	default:
		s.dict(len(bucketFields))
		for _, f := range bucketFields {
			s.text(f.name)
			s.text(f.of(info))
		}
	}
}
