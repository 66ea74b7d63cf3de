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
			for i := range o {
				var b [4]byte
				binary.LittleEndian.PutUint32(b[:], uint32(o[i]-o[0]))
				_, _ = h.Write(b[:])
			}
		}
		child := array.NewSlice(t.ListValues(), int64(o[0]), int64(o[n]))
		hashArray(h, child)
		child.Release()
		return
	case *array.FixedSizeList:
		w := int64(t.DataType().(*arrow.FixedSizeListType).Len())
		child := array.NewSlice(t.ListValues(), int64(off)*w, int64(off+n)*w)
		hashArray(h, child)
		child.Release()
		return
	case *array.Struct:
		for i := range t.NumField() {
			hashArray(h, t.Field(i))
		}
		return
	case *array.String, *array.Binary:
		o := arrow.Int32Traits.CastFromBytes(d.Buffers()[1].Bytes())[off : off+n+1]
		for i := range n {
			hashInt(h, int(o[i+1]-o[i]))
		}
		if v := d.Buffers()[2]; v != nil {
			_, _ = h.Write(v.Bytes()[o[0]:o[n]])
		}
		return
	}
	if w := fixedWidth(a); w > 0 {
		_, _ = h.Write(d.Buffers()[1].Bytes()[off*w : (off+n)*w])
		return
	}
	for i := range n {
		hashValue(h, a, i)
	}
}

// hashValue writes one value of a type that is seldom in recordings.
func hashValue(h *xxh3.Hasher, a arrow.Array, i int) {
	if a, i = resolve(a, i); a.IsNull(i) {
		hashInt(h, -1)
		return
	}
	if b, ok := valueBytes(a, i); ok {
		hashInt(h, len(b))
		_, _ = h.Write(b)
		return
	}
	switch x := a.(type) {
	case *array.Boolean:
		if x.Value(i) {
			hashInt(h, 1)
		} else {
			hashInt(h, 0)
		}
	case array.ListLike:
		from, to := x.ValueOffsets(i)
		hashInt(h, int(to-from))
		for k := from; k < to; k++ {
			hashValue(h, x.ListValues(), int(k))
		}
	case *array.Struct:
		for k := range x.NumField() {
			hashValue(h, x.Field(k), i)
		}
	case array.Union:
		hashInt(h, int(x.TypeCode(i)))
		child, at := chosen(x, i)
		hashValue(h, child, at)
	}
}

// resolve follows encodings that stand between an array and its values.
func resolve(a arrow.Array, i int) (arrow.Array, int) {
	for {
		switch x := a.(type) {
		case array.ExtensionArray:
			a = x.Storage()
		case *array.Dictionary:
			if x.IsNull(i) {
				return a, i
			}
			a, i = x.Dictionary(), x.GetValueIndex(i)
		case *array.RunEndEncoded:
			a, i = x.Values(), x.GetPhysicalIndex(i)
		default:
			return a, i
		}
	}
}

// chosen is the place of a union's value.
func chosen(u array.Union, i int) (arrow.Array, int) {
	at := i
	if d, ok := u.(*array.DenseUnion); ok {
		at = int(d.ValueOffset(i))
	}
	return u.Field(u.ChildID(i)), at
}

// fixedWidth is how many whole bytes each value takes, or 0.
func fixedWidth(a arrow.Array) int {
	if _, ok := a.(array.ExtensionArray); ok {
		return 0
	}
	switch id := a.DataType().ID(); id {
	case arrow.DICTIONARY, arrow.NULL, arrow.BOOL:
		return 0
	}
	t, ok := a.DataType().(arrow.FixedWidthDataType)
	if !ok || len(a.Data().Children()) > 0 || t.BitWidth()%8 != 0 {
		return 0
	}
	return t.BitWidth() / 8
}

// valueBytes are the bytes of a value that is no container.
func valueBytes(a arrow.Array, i int) ([]byte, bool) {
	switch x := a.(type) {
	case *array.Binary:
		return x.Value(i), true
	case *array.LargeBinary:
		return x.Value(i), true
	case *array.BinaryView:
		return x.Value(i), true
	case *array.String:
		return []byte(x.Value(i)), true
	case *array.LargeString:
		return []byte(x.Value(i)), true
	case *array.StringView:
		return []byte(x.Value(i)), true
	}
	if w := fixedWidth(a); w > 0 {
		at := (a.Data().Offset() + i) * w
		return a.Data().Buffers()[1].Bytes()[at : at+w], true
	}
	return nil, false
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
				return differ("component %q: row %d: %s and %s", m.Component, row, chunk.ValueText(m.Values, row), chunk.ValueText(o.Values, row))
			}
		}
	}
	return nil
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
	a, i = resolve(a, i)
	b, j = resolve(b, j)
	if a.IsNull(i) || b.IsNull(j) {
		return a.IsNull(i) == b.IsNull(j)
	}
	switch x := a.(type) {
	case *array.Float16:
		return nearlyEqual(float64(x.Value(i).Float32()), float64(b.(*array.Float16).Value(j).Float32()), 1e-3)
	case *array.Float32:
		return nearlyEqual(float64(x.Value(i)), float64(b.(*array.Float32).Value(j)), 1e-3)
	case *array.Float64:
		return nearlyEqual(x.Value(i), b.(*array.Float64).Value(j), 1e-8)
	case *array.Boolean:
		return x.Value(i) == b.(*array.Boolean).Value(j)
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
	case array.Union:
		y := b.(array.Union)
		if x.TypeCode(i) != y.TypeCode(j) {
			return false
		}
		u, p := chosen(x, i)
		v, q := chosen(y, j)
		return similar(u, p, v, q)
	}
	p, ok1 := valueBytes(a, i)
	q, ok2 := valueBytes(b, j)
	return ok1 == ok2 && bytes.Equal(p, q)
}

func nearlyEqual(a, b, epsilon float64) bool {
	if a == b || math.IsNaN(a) && math.IsNaN(b) {
		return true
	}
	most := max(math.Abs(a), math.Abs(b))
	return most <= epsilon || math.Abs(a-b)/most <= epsilon
}
