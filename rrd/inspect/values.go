package inspect

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/zeebo/xxh3"

	"github.com/reelhouse/reelhouse/chunk"
)

// hashChunk writes what counts of a chunk in a form that does not depend on how
// its buffers are cut.
func hashChunk(h *xxh3.Hasher, c *chunk.Chunk, counts func(chunk.Timeline) bool) {
	hashString(h, string(c.EntityPath()))
	hashInt(h, c.NumRows())
	for _, t := range c.Timelines() {
		if counts(t.Timeline) {
			hashString(h, t.Name)
			hashInt(h, int(t.Kind))
			_, _ = h.Write(bytesOf(t.Times))
		}
	}
	for _, m := range c.Components() {
		hashString(h, m.Archetype)
		hashString(h, m.Component)
		hashString(h, m.Type)
		hashString(h, m.Values.DataType().String())
		hashArray(h, m.Values)
	}
}

func hashInt(h *xxh3.Hasher, n int) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], uint64(n))
	_, _ = h.Write(b[:])
}

func hashString(h *xxh3.Hasher, s string) {
	hashInt(h, len(s))
	_, _ = h.WriteString(s)
}

func bytesOf[T int32 | int64](v []T) []byte {
	if len(v) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), len(v)*int(unsafe.Sizeof(v[0])))
}

// hashArray writes the values of an array; what lies below a null does not count.
func hashArray(h *xxh3.Hasher, a arrow.Array) {
	hashInt(h, a.Len())
	if a.NullN() > 0 && a.DataType().ID() != arrow.NULL {
		for i := range a.Len() {
			if a.IsNull(i) {
				hashInt(h, -1)
				continue
			}
			s := array.NewSlice(a, int64(i), int64(i+1))
			hashValues(h, s)
			s.Release()
		}
		return
	}
	hashValues(h, a)
}

// hashValues writes an array without nulls.
func hashValues(h *xxh3.Hasher, a arrow.Array) {
	d := a.Data()
	off, n := d.Offset(), d.Len()
	if n == 0 {
		return
	}
	switch t := a.(type) {
	case *array.List:
		o := t.Offsets()[off : off+n+1]
		if o[0] == 0 {
			_, _ = h.Write(bytesOf(o))
		} else {
			for i := range n {
				hashInt(h, int(o[i+1]-o[i]))
			}
		}
		child := array.NewSlice(t.ListValues(), int64(o[0]), int64(o[n]))
		hashArray(h, child)
		child.Release()
	case *array.FixedSizeList:
		w := int64(t.DataType().(*arrow.FixedSizeListType).Len())
		child := array.NewSlice(t.ListValues(), int64(off)*w, int64(off+n)*w)
		hashArray(h, child)
		child.Release()
	case *array.Struct:
		for i := range t.NumField() {
			hashArray(h, t.Field(i))
		}
	case *array.String, *array.Binary:
		o := arrow.Int32Traits.CastFromBytes(d.Buffers()[1].Bytes())[off : off+n+1]
		for i := range n {
			hashInt(h, int(o[i+1]-o[i]))
		}
		if v := d.Buffers()[2]; v != nil {
			_, _ = h.Write(v.Bytes()[o[0]:o[n]])
		}
	case *array.Boolean, *array.Null:
		for i := range n {
			hashString(h, a.ValueStr(i))
		}
	default:
		if ft, ok := a.DataType().(arrow.FixedWidthDataType); ok && len(d.Children()) == 0 && a.DataType().ID() != arrow.DICTIONARY && ft.BitWidth()%8 == 0 {
			w := ft.Bytes()
			_, _ = h.Write(d.Buffers()[1].Bytes()[off*w : (off+n)*w])
			return
		}
		// Rare types: their text is as good as their values.
		for i := range n {
			hashString(h, a.ValueStr(i))
		}
	}
}

// diffChunks returns the first difference of two chunks of one entity.
func diffChunks(a, b *chunk.Chunk, counts func(chunk.Timeline) bool) error {
	differ := func(format string, args ...any) error {
		return &Difference{fmt.Sprintf("%s: chunks %s and %s: ", a.EntityPath(), a.ID(), b.ID()) + fmt.Sprintf(format, args...)}
	}
	if a.NumRows() != b.NumRows() {
		return differ("%d rows and %d rows", a.NumRows(), b.NumRows())
	}
	ta, tb := counted(a, counts), counted(b, counts)
	if names(ta) != names(tb) {
		return differ("timelines [%s] and [%s]", names(ta), names(tb))
	}
	for i := range ta {
		if ta[i].Kind != tb[i].Kind {
			return differ("timeline %q is a %s and a %s", ta[i].Name, ta[i].Kind, tb[i].Kind)
		}
		for row := range ta[i].Times {
			if x, y := ta[i].Times[row], tb[i].Times[row]; x != y {
				return differ("timeline %q: row %d: %d and %d", ta[i].Name, row, x, y)
			}
		}
	}
	if len(a.Components()) != len(b.Components()) {
		return differ("%d components and %d components", len(a.Components()), len(b.Components()))
	}
	for i, m := range a.Components() {
		o := b.Components()[i]
		if m.Descriptor != o.Descriptor {
			return differ("components %+v and %+v", m.Descriptor, o.Descriptor)
		}
		if !arrow.TypeEqual(m.Values.DataType(), o.Values.DataType()) {
			return differ("component %q: types %v and %v", m.Component, m.Values.DataType(), o.Values.DataType())
		}
		for row := range a.NumRows() {
			if !similar(m.Values, row, o.Values, row) {
				return differ("component %q: row %d: %s and %s", m.Component, row, cut(m.Values.ValueStr(row)), cut(o.Values.ValueStr(row)))
			}
		}
	}
	return nil
}

func cut(s string) string {
	const most = 120
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}

func counted(c *chunk.Chunk, counts func(chunk.Timeline) bool) []chunk.TimeColumn {
	var out []chunk.TimeColumn
	for _, t := range c.Timelines() {
		if counts(t.Timeline) {
			out = append(out, t)
		}
	}
	return out
}

func names(times []chunk.TimeColumn) string {
	all := make([]string, len(times))
	for i, t := range times {
		all[i] = t.Name
	}
	return strings.Join(all, ", ")
}

// similar compares two values of one type; floats up to rounding, NaN is NaN.
func similar(a arrow.Array, i int, b arrow.Array, j int) bool {
	if a.IsNull(i) || b.IsNull(j) {
		return a.IsNull(i) == b.IsNull(j)
	}
	switch x := a.(type) {
	case *array.Float16:
		return close2(float64(x.Value(i).Float32()), float64(b.(*array.Float16).Value(j).Float32()), 1e-3)
	case *array.Float32:
		return close2(float64(x.Value(i)), float64(b.(*array.Float32).Value(j)), 1e-3)
	case *array.Float64:
		return close2(x.Value(i), b.(*array.Float64).Value(j), 1e-8)
	case array.ListLike:
		y := b.(array.ListLike)
		s1, e1 := x.ValueOffsets(i)
		s2, e2 := y.ValueOffsets(j)
		if e1-s1 != e2-s2 {
			return false
		}
		for k := range e1 - s1 {
			if !similar(x.ListValues(), int(s1+k), y.ListValues(), int(s2+k)) {
				return false
			}
		}
		return true
	case *array.Struct:
		y := b.(*array.Struct)
		for k := range x.NumField() {
			if !similar(x.Field(k), i, y.Field(k), j) {
				return false
			}
		}
		return true
	case *array.Binary:
		return bytes.Equal(x.Value(i), b.(*array.Binary).Value(j))
	case array.Union:
		y := b.(array.Union)
		if x.TypeCode(i) != y.TypeCode(j) {
			return false
		}
		p, q := i, j
		if d, ok := x.(*array.DenseUnion); ok {
			p, q = int(d.ValueOffset(i)), int(y.(*array.DenseUnion).ValueOffset(j))
		}
		return similar(x.Field(x.ChildID(i)), p, y.Field(y.ChildID(j)), q)
	}
	return a.ValueStr(i) == b.ValueStr(j)
}

func close2(a, b, epsilon float64) bool {
	if a == b || math.IsNaN(a) && math.IsNaN(b) {
		return true
	}
	most := max(math.Abs(a), math.Abs(b))
	return most <= epsilon || math.Abs(a-b)/most <= epsilon
}
