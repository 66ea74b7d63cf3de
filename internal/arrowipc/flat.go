package arrowipc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"unicode/utf8"
	"unsafe"
)

// flat is a flatbuffer under inspection. The first violation is kept and makes
// all later reads return zero values, so that callers check once per step.
type flat struct {
	b   []byte
	err error
}

func (f *flat) fail(pos int, what string) {
	if f.err == nil {
		f.err = fmt.Errorf("flatbuffer: %s (metadata byte %d)", what, pos)
	}
}

// span reports whether n bytes at pos lie in the buffer and pos is aligned.
func (f *flat) span(pos, n, align int) bool {
	if f.err != nil {
		return false
	}
	if pos < 0 || n < 0 || pos > len(f.b)-n {
		f.fail(pos, "offset out of range")
		return false
	}
	if pos&(align-1) != 0 {
		f.fail(pos, "misaligned value")
		return false
	}
	return true
}

func (f *flat) u16(pos int) int { return int(binary.LittleEndian.Uint16(f.b[pos:])) }
func (f *flat) u32(pos int) uint32 {
	return binary.LittleEndian.Uint32(f.b[pos:])
}

// deref follows the unsigned 32-bit offset stored at pos.
func (f *flat) deref(pos int) int {
	if !f.span(pos, 4, 4) {
		return 0
	}
	o := f.u32(pos)
	if o == 0 || o > math.MaxInt32 {
		f.fail(pos, "offset out of range")
		return 0
	}
	return pos + int(o)
}

// table is a flatbuffer table whose vtable has been checked. The object size in
// a vtable says nothing: arrow-go shares vtables between tables of different
// size (rrd.md 2.2).
type table struct {
	f   *flat
	pos int // start of the table, 0 for none
	vt  int // first slot of its vtable
	n   int // number of slots
}

func (f *flat) root() table { return f.table(f.deref(0)) }

func (f *flat) table(pos int) table {
	if !f.span(pos, 4, 4) {
		return table{f: f}
	}
	vt := pos - int(int32(f.u32(pos)))
	if !f.span(vt, 4, 2) {
		return table{f: f}
	}
	vlen := f.u16(vt)
	if vlen < 4 || vlen&1 != 0 {
		f.fail(vt, "bad vtable")
		return table{f: f}
	}
	if !f.span(vt, vlen, 2) {
		return table{f: f}
	}
	return table{f: f, pos: pos, vt: vt + 4, n: (vlen - 4) / 2}
}

// slot returns the position of a field of the given width, 0 when absent.
func (t table) slot(i, width int) int {
	if i >= t.n || t.f.err != nil {
		return 0
	}
	o := t.f.u16(t.vt + 2*i)
	if o == 0 {
		return 0
	}
	if !t.f.span(t.pos+o, width, width) {
		return 0
	}
	return t.pos + o
}

func (t table) u8(i int, def uint8) uint8 {
	if p := t.slot(i, 1); p != 0 {
		return t.f.b[p]
	}
	return def
}

func (t table) bool(i int) bool { return t.u8(i, 0) != 0 }

func (t table) i16(i int, def int16) int16 {
	if p := t.slot(i, 2); p != 0 {
		return int16(t.f.u16(p))
	}
	return def
}

func (t table) i32(i int, def int32) int32 {
	if p := t.slot(i, 4); p != 0 {
		return int32(t.f.u32(p))
	}
	return def
}

func (t table) i64(i int, def int64) int64 {
	if p := t.slot(i, 8); p != 0 {
		return int64(binary.LittleEndian.Uint64(t.f.b[p:]))
	}
	return def
}

// table follows a reference to another table.
func (t table) table(i int) (table, bool) {
	p := t.slot(i, 4)
	if p == 0 {
		return table{f: t.f}, false
	}
	sub := t.f.table(t.f.deref(p))
	return sub, t.f.err == nil
}

// vector returns start and count of a vector of fixed-size elements.
func (t table) vector(i, width, align int) (pos, n int) {
	p := t.slot(i, 4)
	if p == 0 {
		return 0, 0
	}
	p = t.f.deref(p)
	if !t.f.span(p, 4, 4) {
		return 0, 0
	}
	u := t.f.u32(p)
	p += 4
	if int64(u) > int64(len(t.f.b)-p)/int64(width) {
		t.f.fail(p, "vector longer than its message")
		return 0, 0
	}
	if u > 0 && !t.f.span(p, int(u)*width, align) {
		return 0, 0
	}
	return p, int(u)
}

// str returns a string that shares the memory of the buffer.
func (t table) str(i int) string {
	p, n := t.strRange(i)
	if n == 0 {
		return ""
	}
	return unsafe.String(&t.f.b[p], n)
}

// strRange returns where the bytes of a string are. Strings must be UTF-8 and
// end in a NUL byte, as other readers insist too (rrd.md 8).
func (t table) strRange(i int) (pos, n int) {
	p, n := t.vector(i, 1, 1)
	if p == 0 || t.f.err != nil {
		return 0, 0
	}
	if p+n >= len(t.f.b) || t.f.b[p+n] != 0 {
		t.f.fail(p, "string without terminator")
		return 0, 0
	}
	if !utf8.Valid(t.f.b[p : p+n]) {
		t.f.fail(p, "string is not UTF-8")
		return 0, 0
	}
	return p, n
}

var errTruncated = errors.New("truncated")
