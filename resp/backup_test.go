package resp

import (
	"strings"
	"testing"
)

// TestBackupNames: a name leads nowhere but into the directory of the backups.
func TestBackupNames(t *testing.T) {
	for name, want := range map[string]bool{
		"nightly": true, "2024-05-01_03.00": true, "a": true, "a.tmp.1": true, strings.Repeat("x", maxBackupName): true,
		"": false, ".": false, "..": false, ".hidden": false, "-rf": false, "a/b": false, `a\b`: false, "a b": false, "a\x00": false,
		"é": false, "a\n": false, "a.tmp": false, ".tmp": false, "a:b": false, strings.Repeat("x", maxBackupName+1): false,
	} {
		if got := backupNameOK([]byte(name)); got != want {
			t.Errorf("%q: %v, want %v", name, got, want)
		}
	}
}
