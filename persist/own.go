package persist

import (
	"errors"
	"fmt"
	"io/fs"
)

// Whose the directory is. A directory can be removed, or put in the place of another one, while a server uses it: by a hand, by a restore
// of a backup. A server that wrote on by its path would spoil what is there now, perhaps another server's data. So before it replaces one
// of the files beside the generations, and before it makes a generation, it looks whether LOCK is still the file that it locked.

// A fileID tells a file from another one of the same name; zero where the file system has none.
type fileID struct{ device, number uint64 }

var (
	errGone  = errors.New("the data directory was removed while in use")
	errTaken = errors.New("the data directory was replaced while in use, perhaps by another server's: stop this one, or put its own back")
)

// takeLock locks the directory, which is there.
func (d *DB) takeLock() error {
	name := d.fs.PathJoin(d.o.Dir, lockFile)
	lock, err := d.fs.Lock(name)
	if err != nil {
		return notLocked(d.o.Dir, err)
	}
	d.lock = lock
	if info, err := d.fs.Stat(name); err == nil {
		d.locked = idOf(info)
	}
	return nil
}

// owned returns nil if the directory is the one that was locked, errGone or errTaken.
func (d *DB) owned() error {
	info, err := d.fs.Stat(d.fs.PathJoin(d.o.Dir, lockFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errGone
	case err != nil: // the disk is in trouble, and who writes will hear of it
		return nil
	case idOf(info) != d.locked || d.lock == nil:
		return errTaken
	}
	return nil
}

// reclaim makes a directory that was removed anew, before a new generation is written to it. One that holds anything but what this server
// left there is somebody else's.
func (d *DB) reclaim() error {
	if err := d.owned(); err != errGone {
		return err
	}
	names, err := d.fs.List(d.o.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if len(names) > 0 {
		if m, err := readMark(d.fs, d.o.Dir); err != nil || *m != d.marked {
			return errTaken
		}
	}
	if err := d.fs.MkdirAll(d.o.Dir, dirMode); err != nil {
		return err
	}
	if d.lock != nil {
		d.lock.Close()
		d.lock = nil
	}
	if err := d.takeLock(); err != nil {
		return err
	}
	if err := syncDir(d.fs, d.fs.PathDir(d.o.Dir)); err != nil {
		return err
	}
	if err := writeFormat(d.fs, d.o.Dir); err != nil {
		return fmt.Errorf("file FORMAT: %w", err)
	}
	return nil
}
