package rrd

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
)

// SchemaHash is the SHA-256 of a sorbet schema in its canonical form: fields
// sorted by name, no schema metadata, encoded byte for byte like the reference
// does (spec/rrd.md 2.2). It is independent of the order of fields.
func SchemaHash(schema *arrow.Schema) ([sha256.Size]byte, error) {
	b, err := canonicalSchema(schema)
	return sha256.Sum256(b), err
}

// canonicalSchema is the framed IPC schema message that is hashed.
func canonicalSchema(schema *arrow.Schema) ([]byte, error) {
	fields := slices.Clone(schema.Fields())
	slices.SortStableFunc(fields, func(a, b arrow.Field) int {
		return cmp.Or(
			strings.Compare(a.Name, b.Name),
			strings.Compare(a.Type.String(), b.Type.String()),
			int(boolByte(a.Nullable))-int(boolByte(b.Nullable)),
			strings.Compare(a.Metadata.String(), b.Metadata.String()))
	})
	f := flatWriter{buf: make([]byte, 4<<10), shared: map[string]int{}, minAlign: 1}
	f.head = len(f.buf)
	positions := make([]int, len(fields))
	for i, field := range fields {
		var err error
		if positions[i], err = f.field(field); err != nil {
			return nil, fmt.Errorf("schema hash: field %q: %w", field.Name, err)
		}
	}
	vector := f.vector(positions)
	s := f.table(slot{id: 1, ref: vector})
	msg := f.table(slot{0, 2, 4, 0}, slot{1, 1, 1, 0}, slot{id: 2, ref: s})
	data := f.finish(msg)
	n := (len(data) + 8 + 63) / 64 * 64
	out := make([]byte, 0, n)
	out = binary.LittleEndian.AppendUint32(out, 0xffffffff)
	out = binary.LittleEndian.AppendUint32(out, uint32(n-8))
	return append(out, data...)[:n], nil
}

// flatWriter writes a flatbuffer downwards as the reference does: every push
// aligns to its own size, vtables are shared only if identical in all bytes.
// Positions are distances from the end.
type flatWriter struct {
	buf      []byte // filled from head on
	head     int
	shared   map[string]int
	minAlign int
}

// slot is a field of a table: a scalar of size bytes, or a reference if size is 0.
type slot struct {
	id    int
	size  int
	value uint64
	ref   int
}

func (f *flatWriter) len() int { return len(f.buf) - f.head }

// room makes n bytes in front and returns them.
func (f *flatWriter) room(n int) []byte {
	for n > f.head {
		grown := make([]byte, 2*len(f.buf))
		copy(grown[len(f.buf):], f.buf)
		f.head += len(f.buf)
		f.buf = grown
	}
	f.head -= n
	return f.buf[f.head : f.head+n]
}

// align pads so that after n more bytes the position is a multiple of a.
func (f *flatWriter) align(n, a int) {
	f.minAlign = max(f.minAlign, a)
	clear(f.room((a - (f.len()+n)%a) % a))
}

func (f *flatWriter) push(size int, v uint64) int {
	f.align(size, size)
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], v)
	copy(f.room(size), b[:size])
	return f.len()
}

func (f *flatWriter) ref(pos int) int {
	f.align(4, 4)
	return f.push(4, uint64(f.len()+4-pos))
}

func (f *flatWriter) string(s string) int {
	f.align(len(s)+1, 4)
	b := f.room(len(s) + 1)
	b[copy(b, s)] = 0
	return f.push(4, uint64(len(s)))
}

func (f *flatWriter) vector(pos []int) int {
	f.align(4*len(pos), 4)
	for _, p := range slices.Backward(pos) {
		f.ref(p)
	}
	return f.push(4, uint64(len(pos)))
}

func (f *flatWriter) ints(v []int32) int {
	f.align(4*len(v), 4)
	for _, x := range slices.Backward(v) {
		f.push(4, uint64(uint32(x)))
	}
	return f.push(4, uint64(len(v)))
}

// table writes slots in the given order; slots of default values are left out
// by the caller.
func (f *flatWriter) table(slots ...slot) int {
	tail := f.len()
	var at [8]int
	n := 0
	for _, s := range slots {
		if s.size == 0 {
			at[s.id] = f.ref(s.ref)
		} else {
			at[s.id] = f.push(s.size, s.value)
		}
		n = max(n, s.id+1)
	}
	f.align(4, 4)
	clear(f.room(4))
	obj := f.len()
	vt := binary.LittleEndian.AppendUint16(nil, uint16(4+2*n))
	vt = binary.LittleEndian.AppendUint16(vt, uint16(obj-tail))
	for _, p := range at[:n] {
		if p > 0 {
			p = obj - p
		}
		vt = binary.LittleEndian.AppendUint16(vt, uint16(p))
	}
	pos, ok := f.shared[string(vt)]
	if !ok {
		copy(f.room(len(vt)), vt)
		pos = f.len()
		f.shared[string(vt)] = pos
	}
	binary.LittleEndian.PutUint32(f.buf[len(f.buf)-obj:], uint32(int32(pos-obj)))
	return obj
}

func (f *flatWriter) finish(root int) []byte {
	f.align(4, f.minAlign)
	f.ref(root)
	return f.buf[f.head:]
}

func (f *flatWriter) metadata(md arrow.Metadata) int {
	keys := slices.Clone(md.Keys())
	slices.Sort(keys)
	pairs := make([]int, len(keys))
	for i, k := range keys {
		v, _ := md.GetValue(k)
		key, value := f.string(k), f.string(v)
		pairs[i] = f.table(slot{id: 0, ref: key}, slot{id: 1, ref: value})
	}
	return f.vector(pairs)
}

func (f *flatWriter) field(field arrow.Field) (int, error) {
	md := 0
	if field.Metadata.Len() > 0 {
		md = f.metadata(field.Metadata)
	}
	name := f.string(field.Name)
	dt, dictionary := field.Type, 0
	if d, ok := dt.(*arrow.DictionaryType); ok {
		dt = d.ValueType
		dictionary = f.dictionary(d)
	}
	t, err := f.typ(dt)
	if err != nil {
		return 0, err
	}
	slots := append(make([]slot, 0, 7), slot{id: 0, ref: name})
	if dictionary > 0 {
		slots = append(slots, slot{id: 4, ref: dictionary})
	}
	slots = append(slots, slot{2, 1, t.code, 0})
	if field.Nullable {
		slots = append(slots, slot{1, 1, 1, 0})
	}
	slots = append(slots, slot{id: 5, ref: t.children}, slot{id: 3, ref: t.table})
	if md > 0 {
		slots = append(slots, slot{id: 6, ref: md})
	}
	return f.table(slots...), nil
}

func (f *flatWriter) dictionary(d *arrow.DictionaryType) int {
	w := d.IndexType.(arrow.FixedWidthDataType).BitWidth()
	index := f.table(intSlots(w, !arrow.IsUnsignedInteger(d.IndexType.ID()))...)
	slots := []slot{{id: 1, ref: index}}
	if d.Ordered {
		slots = append(slots, slot{2, 1, 1, 0})
	}
	return f.table(slots...)
}

func intSlots(width int, signed bool) []slot {
	s := make([]slot, 0, 2)
	if signed {
		s = append(s, slot{1, 1, 1, 0})
	}
	return append(s, slot{0, 4, uint64(width), 0})
}

// flatType is a written type: its number in the union of types, its table and
// its vector of child fields.
type flatType struct {
	code            uint64
	table, children int
}

func (f *flatWriter) children(fields ...arrow.Field) (pos []int, err error) {
	pos = make([]int, len(fields))
	for i, c := range fields {
		if pos[i], err = f.field(c); err != nil {
			return nil, err
		}
	}
	return pos, nil
}

// nested writes children, then the table, then the vector of children.
func (f *flatWriter) nested(code uint64, slots []slot, fields ...arrow.Field) (flatType, error) {
	pos, err := f.children(fields...)
	if err != nil {
		return flatType{}, err
	}
	table := f.table(slots...)
	return flatType{code, table, f.vector(pos)}, nil
}

// plain writes the table, then an empty vector of children.
func (f *flatWriter) plain(code uint64, slots ...slot) (flatType, error) {
	table := f.table(slots...)
	return flatType{code, table, f.vector(nil)}, nil
}

// number writes the empty vector first, as the reference does for numbers.
func (f *flatWriter) number(code uint64, slots ...slot) (flatType, error) {
	children := f.vector(nil)
	return flatType{code, f.table(slots...), children}, nil
}

// nonDefault is a scalar slot unless its value is the default.
func nonDefault(id, size int, v, def uint64) []slot {
	if v == def {
		return nil
	}
	return []slot{{id, size, v, 0}}
}

// unit numbers time units as Arrow's schema does.
func unit(u arrow.TimeUnit) uint64 {
	switch u {
	case arrow.Millisecond:
		return 1
	case arrow.Microsecond:
		return 2
	case arrow.Nanosecond:
		return 3
	}
	return 0
}

func (f *flatWriter) typ(dt arrow.DataType) (flatType, error) {
	switch t := dt.(type) {
	case arrow.ExtensionType:
		return f.typ(t.StorageType())
	case *arrow.Float16Type:
		return f.number(3)
	case *arrow.Float32Type:
		return f.number(3, slot{0, 2, 1, 0})
	case *arrow.Float64Type:
		return f.number(3, slot{0, 2, 2, 0})
	case *arrow.NullType:
		return f.plain(1)
	case *arrow.BinaryType:
		return f.plain(4)
	case *arrow.StringType:
		return f.plain(5)
	case *arrow.BooleanType:
		return f.plain(6)
	case *arrow.LargeBinaryType:
		return f.plain(19)
	case *arrow.LargeStringType:
		return f.plain(20)
	case *arrow.BinaryViewType:
		return f.plain(23)
	case *arrow.StringViewType:
		return f.plain(24)
	case *arrow.FixedSizeBinaryType:
		return f.plain(15, slot{0, 4, uint64(t.ByteWidth), 0})
	case *arrow.Date32Type:
		return f.plain(8, slot{0, 2, 0, 0})
	case *arrow.Date64Type:
		return f.plain(8)
	case *arrow.Time32Type:
		return f.plain(9, nonDefault(0, 2, unit(t.Unit), 1)...)
	case *arrow.Time64Type:
		return f.plain(9, slot{1, 4, 64, 0}, slot{0, 2, unit(t.Unit), 0})
	case *arrow.DurationType:
		return f.plain(18, nonDefault(0, 2, unit(t.Unit), 1)...)
	case *arrow.TimestampType:
		zone := f.string(t.TimeZone)
		slots := nonDefault(0, 2, unit(t.Unit), 0)
		if t.TimeZone != "" {
			slots = append(slots, slot{id: 1, ref: zone})
		}
		return f.plain(10, slots...)
	case *arrow.MonthIntervalType:
		return f.plain(11)
	case *arrow.DayTimeIntervalType:
		return f.plain(11, slot{0, 2, 1, 0})
	case *arrow.MonthDayNanoIntervalType:
		return f.plain(11, slot{0, 2, 2, 0})
	case arrow.DecimalType:
		slots := append(nonDefault(2, 4, uint64(t.BitWidth()), 128), nonDefault(1, 4, uint64(uint32(t.GetScale())), 0)...)
		return f.plain(7, append(slots, slot{0, 4, uint64(uint32(t.GetPrecision())), 0})...)
	case *arrow.ListType:
		return f.nested(12, nil, t.ElemField())
	case *arrow.LargeListType:
		return f.nested(21, nil, t.ElemField())
	case *arrow.ListViewType:
		return f.nested(25, nil, t.ElemField())
	case *arrow.LargeListViewType:
		return f.nested(26, nil, t.ElemField())
	case *arrow.FixedSizeListType:
		return f.nested(16, []slot{{0, 4, uint64(uint32(t.Len())), 0}}, t.ElemField())
	case *arrow.StructType:
		return f.nested(13, nil, t.Fields()...)
	case *arrow.MapType:
		return f.nested(17, nonDefault(0, 1, uint64(boolByte(t.KeysSorted)), 0), t.ElemField())
	case *arrow.RunEndEncodedType:
		return f.nested(22, nil, t.Fields()...)
	case arrow.UnionType:
		pos, err := f.children(t.Fields()...)
		if err != nil {
			return flatType{}, err
		}
		codes := make([]int32, len(t.TypeCodes()))
		for i, c := range t.TypeCodes() {
			codes[i] = int32(c)
		}
		var slots []slot
		if t.Mode() == arrow.DenseMode {
			slots = append(slots, slot{0, 2, 1, 0})
		}
		slots = append(slots, slot{id: 1, ref: f.ints(codes)})
		table := f.table(slots...)
		return flatType{14, table, f.vector(pos)}, nil
	case arrow.FixedWidthDataType:
		if arrow.IsInteger(dt.ID()) {
			return f.number(2, intSlots(t.BitWidth(), !arrow.IsUnsignedInteger(dt.ID()))...)
		}
	}
	return flatType{}, fmt.Errorf("no encoding for type %v", dt)
}
