package persist

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// tmpSuffix marks a file that is about to replace another.
const tmpSuffix = ".tmp"

// maxSealed is more than any of these files has, in bytes.
const maxSealed = 4 << 10

// A fact is a line "name value" of a sealed file.
type fact struct {
	name  string
	value any
}

// writeSealed replaces a file of facts, checksum last.
func writeSealed(fs vfs.FS, dir, name string, facts ...fact) error {
	return replaceFile(fs, dir, name, sealFacts(name, facts))
}

func sealFacts(name string, facts []fact) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "rlserver %s\n", name)
	for _, f := range facts {
		fmt.Fprintf(&b, "%s %v\n", f.name, f.value)
	}
	fmt.Fprintf(&b, "crc32c %08x\n", crc32.Checksum(b.Bytes(), castagnoli))
	return b.Bytes()
}

// readSealed returns the facts of a file, by name.
func readSealed(fs vfs.FS, dir, name string) (map[string]string, error) {
	b, err := readFile(fs, fs.PathJoin(dir, name), maxSealed)
	if err != nil {
		return nil, err
	}
	at := bytes.LastIndex(b, []byte("crc32c "))
	if at < 0 || string(b[at:]) != fmt.Sprintf("crc32c %08x\n", crc32.Checksum(b[:at], castagnoli)) {
		return nil, errChecksum
	}
	lines := strings.Split(strings.TrimSuffix(string(b[:at]), "\n"), "\n")
	if lines[0] != "rlserver "+name {
		return nil, fmt.Errorf("begins with %.64q", lines[0])
	}
	facts := map[string]string{}
	for _, l := range lines[1:] {
		k, v, ok := strings.Cut(l, " ")
		if !ok {
			return nil, errors.New("a line without a value, though the checksum matches")
		}
		facts[k] = v
	}
	return facts, nil
}
