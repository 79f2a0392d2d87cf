package resp

// The wire's errors. Redis's own texts stand where Redis has one, since drivers
// key on them; ours name the argument, what came and what was expected.
const (
	errWrongType     = "WRONGTYPE Operation against a key holding the wrong kind of value"
	errOOM           = "OOM command not allowed when used memory > 'maxmemory'."
	errNoAuth        = "NOAUTH Authentication required."
	errNoPermKey     = "NOPERM this user has no permissions to access one of the keys used as arguments"
	errNoPermChannel = "NOPERM this user has no permissions to access one of the channels used as arguments"
	errWrongPass     = "WRONGPASS invalid username-password pair or user is disabled."
	errNoPassword    = "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?"
	errHelloNoAuth   = "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time"
	errNoProto       = "NOPROTO unsupported protocol version"
	errProtoNumber   = "ERR Protocol version is not an integer or out of range"
	errMisconf       = "MISCONF Errors writing to the data directory: " // and what the system said
	errReadOnly      = "READONLY You can't write against a read only replica."
	errNoReplication = "ERR this server is alone: it has no replication"
	errWaitReplica   = "ERR WAIT cannot be used with replica instances. Please also note that writes to replicas are just local and are not propagated."
	errMasterPort    = "ERR Invalid master port"
	errRedisSync     = "ERR a Redis cannot follow this server: only another rlserver can, by RL.SYNC"
	errLoading       = "LOADING Redis is loading the dataset in memory"
	errNoUserFile    = "ERR This server is not configured to use an ACL file: start it with aclfile users.acl to have ACL LOAD and ACL SAVE"
	errNoBackups     = "ERR BGSAVE TO is switched off: start the server with backup-dir naming a directory to have it"
	errSyntax        = "ERR syntax error"
	errNotInteger    = "ERR value is not an integer or out of range"
	errDBIndex       = "ERR DB index is out of range"
	errMaxClients    = "ERR max number of clients reached"
	errClientName    = "ERR Client names cannot contain spaces, newlines or special characters."
	errNoSuchClient  = "ERR No such client"
	errClientID      = "ERR client-id should be greater than 0"
	errClientIDs     = "ERR Invalid client ID"
	errMaxAge        = "ERR maxage is not an integer or out of range"
	errMaxAgeLow     = "ERR maxage should be greater than 0"
	errPauseMode     = "ERR CLIENT PAUSE mode must be WRITE or ALL"
	errPauseArgs     = "ERR unknown subcommand or wrong number of arguments for 'pause'. Try CLIENT HELP."
	errPauseTime     = "ERR timeout is not an integer or out of range"
	errPauseNegative = "ERR timeout is negative"
	errPauseLong     = "ERR timeout is out of range"
	errNoSuchCommand = "ERR Invalid command specified"
	errNoKeyArgs     = "ERR The command has no key arguments"
	errBadKeyArgs    = "ERR Invalid number of arguments specified for command"
	errShutdownArgs  = "ERR syntax error: SHUTDOWN takes NOSAVE, SAVE, NOW or FORCE"
	errNotTLS        = "ERR this port speaks TLS only"
	errNested        = "ERR MULTI calls can not be nested"
	errNoExec        = "ERR EXEC without MULTI"
	errNoDiscard     = "ERR DISCARD without MULTI"
	errWatchInMulti  = "ERR WATCH inside MULTI is not allowed"
	errExecAbort     = "EXECABORT Transaction discarded because of previous errors."
	errNoMulti       = "ERR Command not allowed inside a transaction"
	errNoResetMatch  = "ERR RL.RESET MATCH changes keys in turns with other clients, and is not allowed inside a transaction"
	errExecLooks     = "ERR too many keys and names to go through inside a transaction, where nobody else is served meanwhile: ask outside of it"
	errCursor        = "ERR invalid cursor"
	errExpireNX      = "ERR NX and XX, GT or LT options at the same time are not compatible"
	errExpireGTLT    = "ERR GT and LT options at the same time are not compatible"
	errNoFreq        = "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust."
	errSlowCount     = "ERR count should be greater than or equal to -1"
	errInternal      = "ERR internal error, this connection is closed"
	errDenied        = "DENIED rlserver runs in protected mode: no password is set, so only clients on this machine are answered. " +
		"To answer others, set a password (requirepass in the config file, --requirepass, or CONFIG SET requirepass from this machine), " +
		"or switch the protection off with protected-mode no."
)

// The reader's errors, each followed by the end of its connection.
const (
	errInlineTooBig  = "ERR Protocol error: too big inline request"
	errQuotes        = "ERR Protocol error: unbalanced quotes in request"
	errCountTooLong  = "ERR Protocol error: too big mbulk count string"
	errBulkTooLong   = "ERR Protocol error: too big bulk count string"
	errArgCount      = "ERR Protocol error: invalid multibulk length"
	errArgCountAuth  = "ERR Protocol error: unauthenticated multibulk length"
	errBulkLen       = "ERR Protocol error: invalid bulk length"
	errBulkLenAuth   = "ERR Protocol error: unauthenticated bulk length"
	errTLSHere       = "ERR Protocol error: this is a TLS handshake, and TLS is not spoken on this port"
	errCommandTooBig = "ERR Protocol error: command exceeds the largest accepted size"
)

// maxErrorBytes caps an error line: names that a peer sent are echoed in it.
const maxErrorBytes = 256

// appendError appends one error line. CR, LF and NUL become spaces and the text
// is cut, so that nothing a peer sent can split a reply.
func appendError(out []byte, text string) []byte {
	if len(text) > maxErrorBytes && text != errDenied && text != errHelloNoAuth {
		text = text[:maxErrorBytes]
	}
	out = append(out, '-')
	for _, ch := range []byte(text) {
		if ch == '\r' || ch == '\n' || ch == 0 {
			ch = ' '
		}
		out = append(out, ch)
	}
	return append(out, "\r\n"...)
}
