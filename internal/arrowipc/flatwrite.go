package arrowipc

import "encoding/binary"

// flatWriter appends a flatbuffer front to back: a table comes before what it
// refers to, and references are filled in as their targets are written.
type flatWriter struct {
	b    []byte
	base int // where the flatbuffer starts in b; alignment counts from here
}

func (w *flatWriter) pad(align int) {
	for (len(w.b)-w.base)&(align-1) != 0 {
		w.b = append(w.b, 0)
	}
}

func (w *flatWriter) zeros(n int) {
	for range n {
		w.b = append(w.b, 0)
	}
}

// ref appends a reference to be filled in by link, and returns its place.
func (w *flatWriter) ref() int {
	w.zeros(4)
	return len(w.b) - 4
}

// link makes the reference at a place point to the end of what is written.
func (w *flatWriter) link(at int) { w.linkTo(at, len(w.b)) }

func (w *flatWriter) linkTo(at, target int) {
	binary.LittleEndian.PutUint32(w.b[at:], uint32(target-at))
}

// layout is the shape of a table: the offset of each slot, 0 for slots that are
// never written, and the size of the whole.
type layout struct {
	slots []uint16
	size  int
	align int
}

// tableAt is a table being written.
type tableAt struct {
	w     *flatWriter
	start int
	l     *layout
}

// table appends a table with all fields zero, linked from the reference at at.
func (w *flatWriter) table(at int, l *layout) tableAt {
	vlen := 4 + 2*len(l.slots)
	w.pad(2)
	for (len(w.b)-w.base+vlen)&(l.align-1) != 0 {
		w.b = append(w.b, 0)
	}
	w.b = binary.LittleEndian.AppendUint16(w.b, uint16(vlen))
	w.b = binary.LittleEndian.AppendUint16(w.b, uint16(l.size))
	for _, s := range l.slots {
		w.b = binary.LittleEndian.AppendUint16(w.b, s)
	}
	w.link(at)
	t := tableAt{w, len(w.b), l}
	w.b = binary.LittleEndian.AppendUint32(w.b, uint32(vlen))
	w.zeros(l.size - 4)
	return t
}

// place is where a slot lives.
func (t tableAt) place(slot int) int { return t.start + int(t.l.slots[slot]) }

// absent removes a slot that has no value.
func (t tableAt) absent(slot int) {
	v := t.start - 2*len(t.l.slots) + 2*slot
	t.w.b[v], t.w.b[v+1] = 0, 0
}

func (t tableAt) u8(slot int, v uint8) { t.w.b[t.place(slot)] = v }

func (t tableAt) bool(slot int, v bool) {
	if v {
		t.u8(slot, 1)
	}
}

func (t tableAt) i16(slot int, v int16) {
	binary.LittleEndian.PutUint16(t.w.b[t.place(slot):], uint16(v))
}

func (t tableAt) i32(slot int, v int32) {
	binary.LittleEndian.PutUint32(t.w.b[t.place(slot):], uint32(v))
}

func (t tableAt) i64(slot int, v int64) {
	binary.LittleEndian.PutUint64(t.w.b[t.place(slot):], uint64(v))
}

// vector appends the head of a vector of n elements linked from a reference.
// Elements must be appended next.
func (w *flatWriter) vector(at, n, align int) {
	w.pad(4)
	for (len(w.b)-w.base+4)&(align-1) != 0 {
		w.b = append(w.b, 0)
	}
	w.link(at)
	w.b = binary.LittleEndian.AppendUint32(w.b, uint32(n))
}

// refs appends a vector of n references and returns the place of the first;
// the others follow at distances of four.
func (w *flatWriter) refs(at, n int) int {
	w.vector(at, n, 4)
	first := len(w.b)
	w.zeros(4 * n)
	return first
}

func (w *flatWriter) str(at int, s string) {
	w.vector(at, len(s), 4)
	w.b = append(w.b, s...)
	w.b = append(w.b, 0)
}
