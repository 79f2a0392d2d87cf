package shard

// A watched is what a shard knows of a key that somebody watches. Keys that
// nobody watches cost nothing but one look whether the shard has any.
type watched struct {
	watchers int
	changes  uint64 // how often the key was put, deleted or cleared since
}

// A Watch is a key as it was when Tx.Watch looked, so that a later Tx can say
// whether it is still so. It is to be ended by Tx.Unwatch: until then the shard
// keeps the key.
type Watch struct {
	key   string
	of    *watched
	seen  uint64 // of.changes then
	there bool   // what Get said then
}

// Watch begins to watch a key, that may be absent.
func (t *Tx) Watch(key []byte) Watch {
	_, there := t.Get(key)
	sh := t.shard
	of := sh.watched[string(key)]
	if of == nil {
		of = &watched{}
		if sh.watched == nil {
			sh.watched = map[string]*watched{}
		}
		sh.watched[string(key)] = of
	}
	of.watchers++
	return Watch{key: string(key), of: of, seen: of.changes, there: there}
}

// Key returns the key watched.
func (w *Watch) Key() string { return w.key }

// Intact says whether the key is as it was: nothing was put or deleted, the
// same value included, and it was not dropped by the clock. The Tx must lock
// the key. A named limit that changed is no change of its keys.
func (t *Tx) Intact(w *Watch) bool {
	if w.of.changes != w.seen {
		return false
	}
	_, there := t.Get([]byte(w.key))
	return there == w.there
}

// Unwatch ends a watch. The Tx must lock the key.
func (t *Tx) Unwatch(w *Watch) {
	t.seek([]byte(w.key))
	if w.of.watchers--; w.of.watchers > 0 {
		return
	}
	sh := t.shard
	delete(sh.watched, w.key)
	if len(sh.watched) == 0 {
		sh.watched = nil
	}
}

// touch counts a change of a key for those who watch it.
func (sh *shard) touch(key []byte) {
	if of := sh.watched[string(key)]; of != nil {
		of.changes++
	}
}

// touchAll counts a Clear for those who watch a key that is there.
func (t *Tx) touchAll(sh *shard) {
	for key, of := range sh.watched {
		if _, there := t.Get([]byte(key)); there {
			of.changes++
		}
	}
}
