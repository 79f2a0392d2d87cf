package resp

import "fmt"

// maxBackupName is the longest name of a backup, in bytes.
const maxBackupName = 100

// bgSave is BGSAVE [SCHEDULE], which asks for a round and does not wait, or
// BGSAVE TO name, which asks for a backup and does not wait either.
func bgSave(s *Session, args [][]byte) {
	switch {
	case len(args) == 3 && equalFold(args[1], "to"):
		s.backupTo(args[2])
		return
	case len(args) > 2 || len(args) == 2 && !equalFold(args[1], "schedule"):
		s.fail(errSyntax)
		return
	}
	s.srv.durability.Save()
	s.status("Background saving started")
}

func (s *Session) backupTo(name []byte) {
	if s.srv.backup == nil {
		s.fail(errNoBackups)
		return
	}
	if !backupNameOK(name) {
		s.fail(fmt.Sprintf("ERR backup name %.64q: expected 1 to %d letters, digits, dots, dashes or underscores, no dot or dash first and no .tmp last: nightly-1", name, maxBackupName))
		return
	}
	if err := s.srv.backup(string(name)); err != nil {
		s.failWith(err)
		return
	}
	s.srv.log.Info("backup asked for by a client", "client", s.addr, "name", string(name))
	s.status("Background saving started")
}

// backupNameOK keeps a name from leading anywhere but into the directory of the
// backups, and from being that of one under way.
func backupNameOK(name []byte) bool {
	if len(name) == 0 || len(name) > maxBackupName || name[0] == '.' || name[0] == '-' {
		return false
	}
	for _, ch := range name {
		letter := ch|0x20 >= 'a' && ch|0x20 <= 'z'
		if !letter && (ch < '0' || ch > '9') && ch != '.' && ch != '-' && ch != '_' {
			return false
		}
	}
	return string(name[max(0, len(name)-4):]) != ".tmp"
}
