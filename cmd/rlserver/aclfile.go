package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/rlserver/rlserver/resp"
)

// maxACLFileBytes bounds the aclfile: room for as many users as can be held.
const maxACLFileBytes = 16 << 20

// An aclFile is the path of the aclfile. It implements resp.UserStore.
type aclFile string

// Load implements resp.UserStore. Any error is a resp.UserFaults: a file that cannot be read is as wrong as one with faults.
func (path aclFile) Load() (*resp.UserFile, error) {
	text, err := readWhole(string(path), maxACLFileBytes)
	if errors.Is(err, os.ErrNotExist) {
		err = fmt.Errorf("%w (an empty file says: the user default alone, as requirepass has it)", err)
	}
	if err != nil {
		return nil, aclFault(err)
	}
	return resp.ParseUsers(string(path), text)
}

func aclFault(err error) error { return resp.UserFaults{fmt.Sprintf("aclfile: %v", err)} }

// Save implements resp.UserStore. The file keeps its mode; a crash leaves the old one or the new one.
func (path aclFile) Save(text string) (err error) {
	mode := os.FileMode(0o600)
	if info, err := os.Stat(string(path)); err == nil {
		mode = info.Mode().Perm()
	}
	dir := filepath.Dir(string(path))
	f, err := os.CreateTemp(dir, filepath.Base(string(path))+".new-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close(), os.Remove(f.Name()))
		}
	}()
	if _, err = f.WriteString(text); err != nil {
		return err
	}
	if err = errors.Join(f.Chmod(mode), f.Sync()); err != nil {
		return err
	}
	if err = os.Rename(f.Name(), string(path)); err != nil {
		return err
	}
	return errors.Join(f.Close(), syncDir(dir))
}

// syncDir makes a rename in a directory durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// readACLFile reads the aclfile, if there is one.
func readACLFile(path string) (*resp.UserFile, error) {
	if path == "" {
		return nil, nil
	}
	return aclFile(path).Load()
}

// userStore is where ACL LOAD and ACL SAVE find the aclfile; nil if there is none.
func userStore(path string) resp.UserStore {
	if path == "" {
		return nil
	}
	return aclFile(path)
}

func logUsers(v Values, file *resp.UserFile, log *slog.Logger) {
	if file == nil {
		return
	}
	log.Info("aclfile in force", "file", v.ACLFile, "users", file.Len())
	if v.RequirePass != "" && file.Default() {
		log.Warn("requirepass is not in force: the aclfile says how the user default logs in", "file", v.ACLFile)
	}
}
