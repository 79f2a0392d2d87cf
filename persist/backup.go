package persist

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// Backups. The flusher, right after a round, has Pebble make a checkpoint beside the generation, of hard links to the tables and copies of
// the rest: that takes some ms, and nobody changes anything meanwhile. What the directory needs besides is copied as it is at that moment.
// Another goroutine then moves the whole to its place, or copies it if that is on another disk, and the flusher goes on. FORMAT is written
// last, and under its name a backup is complete: nothing starts on less.

// checkpointDir is where in the data directory a backup begins. A start takes no notice of it, and removes it.
const checkpointDir = "backup" + tmpSuffix

// ErrBackupRunning is the refusal of a second backup.
var ErrBackupRunning = errors.New("a backup is being made")

// BackupStats are the figures of backups.
type BackupStats struct {
	Running  bool    `metric:"backup_in_progress" type:"gauge" help:"1 while a backup is being made." info:"Persistence:rl_backup_in_progress"`
	OK       bool    `metric:"last_backup_ok" type:"gauge" help:"1 if the last backup was made, or none was asked for." info:"Persistence:rl_last_backup_status"`
	Error    string  `info:"Persistence:rl_last_backup_error"`
	Last     string  `info:"Persistence:rl_last_backup"` // the directory of the last one asked for
	At       int64   `metric:"last_backup_timestamp_seconds" type:"gauge" help:"Unix time of the state in the last backup that was made, 0 if none was." info:"Persistence:rl_last_backup_time"`
	Seconds  float64 `metric:"last_backup_seconds" type:"gauge" help:"How long the last backup took, s." info:"Persistence:rl_last_backup_seconds"`
	Bytes    int64   `metric:"last_backup_bytes" type:"gauge" help:"Size of the last backup, bytes." info:"Persistence:rl_last_backup_bytes"`
	Made     uint64  `metric:"backups_total" type:"counter" help:"Backups made."`
	Failures uint64  `metric:"backup_failures_total" type:"counter" help:"Backups that failed."`
}

// backups is what the flusher, a backup under way and its callers share.
type backups struct {
	mu      sync.Mutex
	wanted  string // the directory of the one that the flusher is to begin, "" if none
	began   time.Time
	stats   BackupStats
	closed  bool
	working sync.WaitGroup // backups that the flusher has begun
}

// Backup asks for a backup in a new directory and does not wait: BackupStats tells when it is made. It holds everything that was changed
// before the call, as one round left it. The error is ErrBackupRunning or ErrClosed.
func (d *DB) Backup(dir string) error {
	b := &d.backups
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed:
		return ErrClosed
	case b.stats.Running:
		return ErrBackupRunning
	}
	b.wanted, b.began = dir, time.Now()
	b.stats.Running, b.stats.Last = true, dir
	d.wakeUp()
	return nil
}

// BackupStats returns the figures. It never waits for the disk.
func (d *DB) BackupStats() BackupStats {
	b := &d.backups
	b.mu.Lock()
	defer b.mu.Unlock()
	st := b.stats
	st.OK = st.Error == ""
	return st
}

func (b *backups) isWanted() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.wanted != ""
}

// take returns the backup to begin, "" if none is wanted.
func (b *backups) take() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	dir := b.wanted
	b.wanted = ""
	return dir
}

// backupOver notes the end of a backup.
func (d *DB) backupOver(dir string, at time.Time, bytes int64, err error) {
	b := &d.backups
	b.mu.Lock()
	st, took := &b.stats, time.Since(b.began)
	st.Running, st.Error, st.Seconds = false, "", took.Seconds()
	if err != nil {
		st.Error = err.Error()
		st.Failures++
	} else {
		st.Made++
		st.At, st.Bytes = at.Unix(), bytes
	}
	b.mu.Unlock()
	if err != nil {
		d.log.Error("the backup failed", "dir", dir, "error", err)
		return
	}
	d.log.Info("backup made", "dir", dir, "bytes", bytes, "took", took)
}

// backUp begins the backup that is wanted, if one is. It is a part of the flusher's work; its error is one of the handle.
func (d *DB) backUp() error {
	dir := d.backups.take()
	if dir == "" {
		return nil
	}
	if d.h != nil && d.status.owes() {
		d.rewrite()
	}
	if d.h == nil {
		d.backupOver(dir, time.Time{}, 0, fmt.Errorf("writing to the data directory fails: %w", d.Trouble()))
		return nil
	}
	err := d.round()
	if err == nil {
		err = d.seal()
	}
	if err != nil {
		d.backupOver(dir, time.Time{}, 0, err)
		return err
	}
	at := d.schedule.lastCut
	files, err := d.checkpoint()
	if dead := d.h.guard.failed(); dead != nil {
		err = dead
	}
	if err != nil {
		d.fs.RemoveAll(d.checkpointDir())
		d.backupOver(dir, at, 0, err)
		return d.h.guard.failed()
	}
	d.backups.working.Go(func() {
		bytes, err := d.deliver(dir, files)
		d.backupOver(dir, at, bytes, err)
	})
	return nil
}

func (d *DB) checkpointDir() string { return d.fs.PathJoin(d.o.Dir, checkpointDir) }

// checkpoint has Pebble link and copy the generation, and returns what else the directory holds now. Failures of the disk below the
// checkpoint are not failures of the handle.
func (d *DB) checkpoint() (files map[string][]byte, err error) {
	tmp := d.checkpointDir()
	if err := d.fs.RemoveAll(tmp); err != nil {
		return nil, err
	}
	if err := d.fs.MkdirAll(tmp, dirMode); err != nil {
		return nil, err
	}
	files = map[string][]byte{}
	m := d.marked
	m.clean, m.origin = false, OriginBackup
	files[markFile] = sealFacts(markFile, m.facts())
	for _, name := range []string{currentFile, formatFile} {
		if files[name], err = readFile(d.fs, d.fs.PathJoin(d.o.Dir, name), maxSealed); err != nil {
			return nil, err
		}
	}
	g, to := d.h.guard, d.fs.PathJoin(tmp, generationName(d.h.generation))
	g.spare(tmp)
	// What is not synced is flushed first: else Pebble's log could be written while it is copied.
	err = d.h.run(func(db *pebble.DB) error { return db.Checkpoint(to, pebble.WithFlushedWAL()) })
	if e := g.own(); err == nil {
		err = e
	}
	return files, err
}

// deliver completes a checkpoint and brings it to its place. On an error nothing of it is left.
func (d *DB) deliver(dir string, files map[string][]byte) (bytes int64, err error) {
	tmp := d.checkpointDir()
	defer func() {
		if err != nil {
			d.fs.RemoveAll(tmp)
		}
	}()
	for _, name := range []string{markFile, currentFile, formatFile} {
		if err := replaceFile(d.fs, tmp, name, files[name]); err != nil {
			return 0, err
		}
	}
	c := checker{fs: d.fs}
	_, bytes = c.size(tmp)
	parent := d.fs.PathDir(dir)
	if err := d.fs.MkdirAll(parent, dirMode); err != nil {
		return 0, err
	}
	if _, err := d.fs.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		if err == nil {
			err = fmt.Errorf("%s: %w", dir, fs.ErrExist)
		}
		return 0, err
	}
	err = d.fs.Rename(tmp, dir)
	if errors.Is(err, syscall.EXDEV) {
		err = d.copyBackup(tmp, dir)
	}
	if err != nil {
		return 0, err
	}
	if err := syncDir(d.fs, parent); err != nil {
		d.fs.RemoveAll(dir)
		return 0, err
	}
	if err := d.fs.RemoveAll(tmp); err != nil { // it is there if it was copied
		d.log.Warn("could not remove what a backup was copied from", "dir", tmp, "error", err)
	}
	return bytes, nil
}

// copyBackup copies a complete backup to another disk, under another name until it is all there.
func (d *DB) copyBackup(from, to string) error {
	part := to + tmpSuffix
	err := d.fs.RemoveAll(part)
	if err == nil {
		err = d.copyTree(from, part)
	}
	if err == nil {
		err = d.fs.Rename(part, to)
	}
	if err != nil {
		d.fs.RemoveAll(part)
	}
	return err
}

// copyTree copies a directory and syncs it, FORMAT when the rest is there for sure.
func (d *DB) copyTree(from, to string) error {
	names, err := d.fs.List(from)
	if err != nil {
		return err
	}
	if err := d.fs.MkdirAll(to, dirMode); err != nil {
		return err
	}
	for _, name := range names {
		if name == formatFile {
			continue
		}
		if err := d.copyOne(d.fs.PathJoin(from, name), d.fs.PathJoin(to, name)); err != nil {
			return err
		}
	}
	err = syncDir(d.fs, to)
	if err == nil && slices.Contains(names, formatFile) {
		if err = d.copyOne(d.fs.PathJoin(from, formatFile), d.fs.PathJoin(to, formatFile)); err == nil {
			err = syncDir(d.fs, to)
		}
	}
	return err
}

// copyOne copies what is in a directory.
func (d *DB) copyOne(from, to string) error {
	info, err := d.fs.Stat(from)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return d.copyTree(from, to)
	}
	return d.copyFile(from, to)
}

// copyBytes is how much of a file is copied before it is looked whether the server stops.
const copyBytes = 1 << 20

func (d *DB) copyFile(from, to string) (err error) {
	src, err := d.fs.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := d.fs.Create(to, writeCategory)
	if err != nil {
		return err
	}
	defer func() {
		if e := dst.Close(); err == nil {
			err = e
		}
	}()
	buf := make([]byte, copyBytes)
	for {
		select {
		case <-d.stop:
			return ErrClosed
		default:
		}
		n, readErr := src.Read(buf)
		if n > 0 {
			wrote, err := dst.Write(buf[:n])
			if err = whole(wrote, buf[:n], err); err != nil {
				return err
			}
		}
		if errors.Is(readErr, io.EOF) {
			return dst.Sync()
		}
		if readErr != nil {
			return readErr
		}
	}
}

// backupStopMost is how long Close waits for a backup to end, which it does as soon as a disk answers.
const backupStopMost = 2 * time.Second

// endBackups refuses further backups and waits for one under way. The flusher has ended.
func (d *DB) endBackups() {
	b := &d.backups
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	if dir := b.take(); dir != "" {
		d.backupOver(dir, time.Time{}, 0, ErrClosed)
	}
	ended := make(chan struct{})
	go func() {
		b.working.Wait()
		close(ended)
	}()
	timer := time.NewTimer(backupStopMost)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
	}
}
