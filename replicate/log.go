package replicate

// A ring holds the frames of a history that were cut or received last, encoded,
// in the order of their numbers without a gap: for replicas that lag or come
// back, and for a sibling that is promoted.
type ring struct {
	frames []logged // a ring buffer, as long as a power of two
	begin  int      // place of the oldest
	n      int
	next   uint64 // number of the frame to come
	bytes  int
	most   int // bytes; the newest frame is kept even if it is longer
}

type logged struct {
	raw []byte
	at  Time // when it was cut or received
}

// reset forgets all; the next frame has this number.
func (l *ring) reset(next uint64) {
	l.frames, l.begin, l.n, l.bytes, l.next = nil, 0, 0, 0, next
}

// head is the number of the newest frame, whether it is held or not.
func (l *ring) head() uint64 { return l.next - 1 }

// first is the number of the oldest frame held.
func (l *ring) first() uint64 { return l.next - uint64(l.n) }

// follows says whether all frames after offset are held.
func (l *ring) follows(offset uint64) bool {
	return offset+1 >= l.first() && offset <= l.head()
}

// get returns the frame of a number, if it is held.
func (l *ring) get(number uint64) (f logged, ok bool) {
	if number < l.first() || number >= l.next {
		return f, false
	}
	return l.frames[(l.begin+int(number-l.first()))&(len(l.frames)-1)], true
}

// append adds the next frame and drops the oldest ones that are too many. raw
// is the ring's from now on.
func (l *ring) append(raw []byte, at Time) {
	if l.n == len(l.frames) {
		l.grow()
	}
	l.frames[(l.begin+l.n)&(len(l.frames)-1)] = logged{raw, at}
	l.n++
	l.next++
	l.bytes += len(raw)
	for l.bytes > l.most && l.n > 1 {
		l.bytes -= len(l.frames[l.begin].raw)
		l.frames[l.begin] = logged{}
		l.begin = (l.begin + 1) & (len(l.frames) - 1)
		l.n--
	}
}

func (l *ring) grow() {
	frames := make([]logged, max(2*len(l.frames), 64))
	for i := range l.n {
		frames[i] = l.frames[(l.begin+i)&(len(l.frames)-1)]
	}
	l.frames, l.begin = frames, 0
}
