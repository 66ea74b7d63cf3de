package catalog

import (
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/reelhouse/reelhouse/chunk"
)

var timestampType = &arrow.TimestampType{Unit: arrow.Nanosecond}

// frame collects the columns of a record batch with a known number of rows.
type frame struct {
	rows   int
	fields []arrow.Field
	cols   []arrow.Array
}

func newFrame(rows int) *frame { return &frame{rows: rows} }

func (f *frame) add(field arrow.Field, col arrow.Array) {
	f.fields, f.cols = append(f.fields, field), append(f.cols, col)
}

func (f *frame) batch() arrow.RecordBatch {
	return array.NewRecordBatch(arrow.NewSchema(f.fields, nil), f.cols, int64(f.rows))
}

func metadata(pairs ...string) arrow.Metadata {
	var keys, vals []string
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			keys, vals = append(keys, pairs[i]), append(vals, pairs[i+1])
		}
	}
	return arrow.NewMetadata(keys, vals)
}

func (f *frame) strings(name string, v []string, md ...string) {
	f.add(arrow.Field{Name: name, Type: arrow.BinaryTypes.String, Metadata: metadata(md...)}, stringArray(v))
}

func stringArray(v []string) arrow.Array {
	n := 0
	for _, s := range v {
		n += len(s)
	}
	b := array.NewStringBuilder(memory.DefaultAllocator)
	b.Reserve(len(v))
	b.ReserveData(n)
	for _, s := range v {
		b.Append(s)
	}
	return b.NewArray()
}

func (f *frame) optionalStrings(name string, v []*string) {
	b := array.NewStringBuilder(memory.DefaultAllocator)
	for _, s := range v {
		if s == nil {
			b.AppendNull()
		} else {
			b.Append(*s)
		}
	}
	f.add(arrow.Field{Name: name, Type: arrow.BinaryTypes.String, Nullable: true}, b.NewArray())
}

// stringLists adds a list column without nulls at either level.
func (f *frame) stringLists(name string, v [][]string) {
	field := stringListField(name)
	b := array.NewBuilder(memory.DefaultAllocator, field.Type).(*array.ListBuilder)
	items := b.ValueBuilder().(*array.StringBuilder)
	for _, list := range v {
		b.Append(true)
		for _, s := range list {
			items.Append(s)
		}
	}
	f.add(field, b.NewArray())
}

func stringListField(name string) arrow.Field {
	return arrow.Field{Name: name, Type: arrow.ListOfNonNullable(arrow.BinaryTypes.String)}
}

func (f *frame) nulls(name string, dt arrow.DataType) {
	f.add(arrow.Field{Name: name, Type: dt, Nullable: true}, array.MakeArrayOfNull(memory.DefaultAllocator, dt, f.rows))
}

func fixed[T any](dt arrow.DataType, v []T, cast func([]T) []byte) arrow.Array {
	return array.MakeFromData(array.NewData(dt, len(v), []*memory.Buffer{nil, memory.NewBufferBytes(cast(v))}, nil, 0, 0))
}

func (f *frame) uint8s(name string, v []uint8, md arrow.Metadata) {
	f.add(arrow.Field{Name: name, Type: arrow.PrimitiveTypes.Uint8, Metadata: md}, fixed(arrow.PrimitiveTypes.Uint8, v, func(b []byte) []byte { return b }))
}

func (f *frame) uint64s(name string, v []uint64, nullable bool) {
	f.add(arrow.Field{Name: name, Type: arrow.PrimitiveTypes.Uint64, Nullable: nullable}, fixed(arrow.PrimitiveTypes.Uint64, v, arrow.Uint64Traits.CastToBytes))
}

func (f *frame) bools(name string, v []bool, md ...string) {
	b := array.NewBooleanBuilder(memory.DefaultAllocator)
	b.AppendValues(v, nil)
	f.add(arrow.Field{Name: name, Type: arrow.FixedWidthTypes.Boolean, Metadata: metadata(md...)}, b.NewArray())
}

func (f *frame) timestamps(name string, v []time.Time) {
	ns := make([]int64, len(v))
	for i, t := range v {
		ns[i] = t.UnixNano()
	}
	f.add(arrow.Field{Name: name, Type: timestampType}, fixed(timestampType, ns, arrow.Int64Traits.CastToBytes))
}

// ids adds a column of fixed-size ids, given one behind the other.
func (f *frame) ids(name string, v []byte, width int, nullable bool, md ...string) {
	dt := &arrow.FixedSizeBinaryType{ByteWidth: width}
	col := array.MakeFromData(array.NewData(dt, f.rows, []*memory.Buffer{nil, memory.NewBufferBytes(v)}, nil, 0, 0))
	f.add(arrow.Field{Name: name, Type: dt, Nullable: nullable, Metadata: metadata(md...)}, col)
}

// times adds a nullable column of times of a kind.
func (f *frame) times(field arrow.Field, kind chunk.TimeKind, v []int64, valid []bool) {
	field.Type, field.Nullable = kind.ArrowType(), true
	bits := make([]byte, (len(v)+7)/8)
	nulls := len(v)
	for i, ok := range valid {
		if ok {
			bits[i/8] |= 1 << (i % 8)
			nulls--
		}
	}
	buffers := []*memory.Buffer{memory.NewBufferBytes(bits), memory.NewBufferBytes(arrow.Int64Traits.CastToBytes(v))}
	f.add(field, array.MakeFromData(array.NewData(field.Type, len(v), buffers, nil, nulls, 0)))
}
