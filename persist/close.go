package persist

import (
	"fmt"
	"time"
)

// Close writes a last round, brings everything into tables, closes the store and notes that the stop was clean. It waits as long as the
// disk takes. An error says what is not on disk; the directory is free for another process in any case. Further calls return the same.
func (d *DB) Close() error {
	d.once.Do(func() {
		if d.started {
			close(d.stop)
			<-d.done
			d.endBackups()
		} else {
			d.result = d.giveUp()
			close(d.done)
			d.status.end()
		}
		if d.lock == nil {
			return
		}
		if err := d.lock.Close(); err != nil && d.result == nil {
			d.result = err
		}
	})
	return d.result
}

// giveUp closes what was opened and never served. If it was clean it still is.
func (d *DB) giveUp() error {
	if d.h == nil {
		return nil
	}
	err := d.h.close()
	if err == nil && d.store != nil && d.info.Clean {
		err = d.writeMark(true)
	}
	d.h = nil
	return err
}

// finish is the flusher's last act. If writing fails it makes one attempt at a new generation.
func (d *DB) finish() error {
	d.store.Settle()
	if d.h != nil {
		d.h.guard.pace.rushing.Store(true)
		err := d.h.guard.failed()
		switch {
		case err == nil && d.status.owes():
			d.rewrite()
		case err == nil:
			err = d.round()
		}
		if err != nil {
			d.fail(err)
		}
	}
	if d.h == nil {
		d.recover(true)
	}
	if d.h == nil {
		s := d.Stats()
		lag := time.Duration(s.LagMs) * time.Millisecond
		return fmt.Errorf("the changes of the last %v are lost: %w", lag.Round(time.Second), d.status.err)
	}
	if err := d.finishHandle(); err != nil {
		return fmt.Errorf("everything is on disk, but the store was not closed cleanly: %w", err)
	}
	return nil
}

func (d *DB) finishHandle() error {
	if err := d.seal(); err != nil {
		d.h.abandon()
		return err
	}
	if err := d.mergeAll(); err != nil {
		d.h.abandon()
		return err
	}
	if err := d.h.close(); err != nil {
		return err
	}
	return d.writeMark(true)
}
