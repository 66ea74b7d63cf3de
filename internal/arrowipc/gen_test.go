package arrowipc

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/decimal256"
	"github.com/apache/arrow-go/v18/arrow/float16"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

var flatTypes = []arrow.DataType{
	arrow.Null, arrow.FixedWidthTypes.Boolean,
	arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Int16, arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Int64,
	arrow.PrimitiveTypes.Uint8, arrow.PrimitiveTypes.Uint16, arrow.PrimitiveTypes.Uint32, arrow.PrimitiveTypes.Uint64,
	arrow.FixedWidthTypes.Float16, arrow.PrimitiveTypes.Float32, arrow.PrimitiveTypes.Float64,
	arrow.BinaryTypes.Binary, arrow.BinaryTypes.String, arrow.BinaryTypes.LargeBinary, arrow.BinaryTypes.LargeString,
	arrow.BinaryTypes.BinaryView, arrow.BinaryTypes.StringView,
	&arrow.FixedSizeBinaryType{ByteWidth: 16}, &arrow.FixedSizeBinaryType{ByteWidth: 3},
	&arrow.Decimal32Type{Precision: 9, Scale: 2}, &arrow.Decimal64Type{Precision: 12, Scale: -3},
	&arrow.Decimal128Type{Precision: 38, Scale: 10}, &arrow.Decimal256Type{Precision: 70, Scale: 0},
	arrow.FixedWidthTypes.Date32, arrow.FixedWidthTypes.Date64,
	arrow.FixedWidthTypes.Time32s, arrow.FixedWidthTypes.Time32ms, arrow.FixedWidthTypes.Time64us, arrow.FixedWidthTypes.Time64ns,
	&arrow.TimestampType{Unit: arrow.Nanosecond}, &arrow.TimestampType{Unit: arrow.Second, TimeZone: "Europe/Oslo"},
	arrow.FixedWidthTypes.Duration_s, arrow.FixedWidthTypes.Duration_ms, arrow.FixedWidthTypes.Duration_us, arrow.FixedWidthTypes.Duration_ns,
	arrow.FixedWidthTypes.MonthInterval, arrow.FixedWidthTypes.DayTimeInterval, arrow.FixedWidthTypes.MonthDayNanoInterval,
}

func genMetadata(r *rand.Rand) arrow.Metadata {
	var k, v []string
	for i := range r.IntN(3) {
		k = append(k, fmt.Sprintf("key%d", i))
		v = append(v, strings.Repeat("v", r.IntN(9)))
	}
	return arrow.NewMetadata(k, v)
}

func genField(r *rand.Rand, name string, depth int) arrow.Field {
	return arrow.Field{Name: name, Type: genType(r, depth), Nullable: true, Metadata: genMetadata(r)}
}

func genType(r *rand.Rand, depth int) arrow.DataType {
	if depth <= 0 || r.IntN(3) == 0 {
		return flatTypes[r.IntN(len(flatTypes))]
	}
	elem := func() arrow.Field { return genField(r, "item", depth-1) }
	fields := func() []arrow.Field {
		fs := make([]arrow.Field, r.IntN(3)+1)
		for i := range fs {
			fs[i] = genField(r, fmt.Sprintf("f%d", i), depth-1)
		}
		return fs
	}
	codes := func(n int) []arrow.UnionTypeCode {
		c := make([]arrow.UnionTypeCode, n)
		for i := range c {
			c[i] = arrow.UnionTypeCode(i*7 + r.IntN(7))
		}
		return c
	}
	switch r.IntN(11) {
	case 0:
		return arrow.ListOfField(elem())
	case 1:
		return arrow.LargeListOfField(elem())
	case 2:
		return arrow.ListViewOfField(elem())
	case 3:
		return arrow.LargeListViewOfField(elem())
	case 4:
		return arrow.FixedSizeListOfField(int32(r.IntN(4)+1), elem())
	case 5:
		return arrow.StructOf(fields()...)
	case 6:
		key := []arrow.DataType{arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int64}[r.IntN(2)]
		// Not MapOf, whose hidden entries field differs from what any reader makes.
		m := arrow.MapOfFields(arrow.Field{Type: key, Metadata: genMetadata(r)}, genField(r, "", depth-1))
		m.KeysSorted = r.IntN(2) == 0
		return m
	case 7:
		fs := fields()
		return arrow.SparseUnionOf(fs, codes(len(fs)))
	case 8:
		fs := fields()
		return arrow.DenseUnionOf(fs, codes(len(fs)))
	case 9:
		ends := []arrow.DataType{arrow.PrimitiveTypes.Int16, arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Int64}[r.IntN(3)]
		return arrow.RunEndEncodedOf(ends, flatTypes[1+r.IntN(len(flatTypes)-1)])
	default:
		index := []arrow.DataType{arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Uint16, arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Uint64}[r.IntN(4)]
		value := []arrow.DataType{arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Float64,
			&arrow.FixedSizeBinaryType{ByteWidth: 4}, arrow.FixedWidthTypes.Date32}[r.IntN(5)]
		return &arrow.DictionaryType{IndexType: index, ValueType: value, Ordered: r.IntN(2) == 0}
	}
}

func genText(r *rand.Rand) string {
	s := []string{"", "a", "short", "żółć", "twelve bytes", "a string longer than twelve bytes", "日本語のテキスト"}[r.IntN(7)]
	return strings.Repeat(s, r.IntN(3))
}

// genArray makes an array of n random values with nulls.
func genArray(r *rand.Rand, dt arrow.DataType, n int) arrow.Array {
	b := array.NewBuilder(memory.DefaultAllocator, dt)
	nulls := r.IntN(3) > 0
	for range n {
		genValue(r, b, nulls)
	}
	return b.NewArray()
}

func genValue(r *rand.Rand, b array.Builder, nulls bool) {
	if nulls && r.IntN(4) == 0 {
		b.AppendNull()
		return
	}
	list := func(values array.Builder, n int) {
		for range n {
			genValue(r, values, nulls)
		}
	}
	x := r.Int64()
	switch b := b.(type) {
	case *array.NullBuilder:
		b.AppendNull()
	case *array.BooleanBuilder:
		b.Append(x&1 == 0)
	case *array.Int8Builder:
		b.Append(int8(x))
	case *array.Int16Builder:
		b.Append(int16(x))
	case *array.Int32Builder:
		b.Append(int32(x))
	case *array.Int64Builder:
		b.Append(x % 10)
	case *array.Uint8Builder:
		b.Append(uint8(x))
	case *array.Uint16Builder:
		b.Append(uint16(x))
	case *array.Uint32Builder:
		b.Append(uint32(x))
	case *array.Uint64Builder:
		b.Append(uint64(x))
	case *array.Float16Builder:
		b.Append(float16.New(r.Float32()))
	case *array.Float32Builder:
		b.Append(r.Float32())
	case *array.Float64Builder:
		b.Append(float64(x % 10))
	case *array.StringBuilder:
		b.Append(genText(r))
	case *array.LargeStringBuilder:
		b.Append(genText(r))
	case *array.StringViewBuilder:
		b.Append(genText(r))
	case *array.BinaryViewBuilder:
		b.Append([]byte(genText(r)))
	case *array.BinaryBuilder:
		b.Append([]byte(genText(r)))
	case *array.FixedSizeBinaryBuilder:
		w := b.Type().(*arrow.FixedSizeBinaryType).ByteWidth
		v := make([]byte, w)
		v[0] = byte(x % 10)
		b.Append(v)
	case *array.Decimal32Builder:
		b.Append(decimal.Decimal32(x % 1000000))
	case *array.Decimal64Builder:
		b.Append(decimal.Decimal64(x % 1000000))
	case *array.Decimal128Builder:
		b.Append(decimal128.FromI64(x))
	case *array.Decimal256Builder:
		b.Append(decimal256.FromI64(x))
	case *array.Date32Builder:
		b.Append(arrow.Date32(x % 100))
	case *array.Date64Builder:
		b.Append(arrow.Date64(x % 1000 * 86400000))
	case *array.Time32Builder:
		b.Append(arrow.Time32(r.IntN(86400)))
	case *array.Time64Builder:
		b.Append(arrow.Time64(r.IntN(86400000)))
	case *array.TimestampBuilder:
		b.Append(arrow.Timestamp(x % 1000000000))
	case *array.DurationBuilder:
		b.Append(arrow.Duration(x))
	case *array.MonthIntervalBuilder:
		b.Append(arrow.MonthInterval(x))
	case *array.DayTimeIntervalBuilder:
		b.Append(arrow.DayTimeInterval{Days: int32(x), Milliseconds: int32(x >> 32)})
	case *array.MonthDayNanoIntervalBuilder:
		b.Append(arrow.MonthDayNanoInterval{Months: int32(x), Days: int32(x >> 32), Nanoseconds: x})
	case *array.FixedSizeListBuilder:
		b.Append(true)
		list(b.ValueBuilder(), int(b.Type().(*arrow.FixedSizeListType).Len()))
	case *array.MapBuilder:
		b.Append(true)
		for range r.IntN(3) {
			genValue(r, b.KeyBuilder(), false)
			genValue(r, b.ItemBuilder(), nulls)
		}
	case *array.ListViewBuilder:
		n := r.IntN(4)
		b.AppendWithSize(true, n)
		list(b.ValueBuilder(), n)
	case *array.LargeListViewBuilder:
		n := r.IntN(4)
		b.AppendWithSize(true, n)
		list(b.ValueBuilder(), n)
	case array.ListLikeBuilder:
		b.Append(true)
		list(b.ValueBuilder(), r.IntN(4))
	case *array.StructBuilder:
		b.Append(true)
		for i := range b.NumField() {
			genValue(r, b.FieldBuilder(i), nulls)
		}
	case *array.SparseUnionBuilder:
		dt := b.Type().(arrow.UnionType)
		k := r.IntN(dt.NumFields())
		b.Append(dt.TypeCodes()[k])
		for i := range dt.NumFields() {
			if i == k {
				genValue(r, b.Child(i), nulls)
			} else {
				b.Child(i).AppendEmptyValue()
			}
		}
	case *array.DenseUnionBuilder:
		dt := b.Type().(arrow.UnionType)
		k := r.IntN(dt.NumFields())
		b.Append(dt.TypeCodes()[k])
		genValue(r, b.Child(k), nulls)
	case *array.RunEndEncodedBuilder:
		if b.Len() > 0 && r.IntN(2) == 0 {
			b.ContinueRun(1)
			return
		}
		b.Append(1)
		genValue(r, b.ValueBuilder(), nulls)
	case *array.BinaryDictionaryBuilder:
		if err := b.AppendString(genText(r)); err != nil {
			panic(err)
		}
	case *array.Int64DictionaryBuilder:
		if err := b.Append(x % 10); err != nil {
			panic(err)
		}
	case *array.Float64DictionaryBuilder:
		if err := b.Append(float64(x % 10)); err != nil {
			panic(err)
		}
	case *array.Date32DictionaryBuilder:
		if err := b.Append(arrow.Date32(x % 10)); err != nil {
			panic(err)
		}
	case *array.FixedSizeBinaryDictionaryBuilder:
		if err := b.Append([]byte{1, 2, 3, byte(x % 10)}); err != nil {
			panic(err)
		}
	default:
		panic(fmt.Sprintf("no values for %T", b))
	}
}

// genBatch makes a random batch; sliced ones see a part of longer arrays.
func genBatch(r *rand.Rand, sliced bool) arrow.RecordBatch {
	rows := []int{0, 1, 7, 8, 9, 33}[r.IntN(6)]
	fields := make([]arrow.Field, r.IntN(4)+1)
	cols := make([]arrow.Array, len(fields))
	for i := range fields {
		fields[i] = genField(r, fmt.Sprintf("c%d", i), r.IntN(4))
		from, to := 0, 0
		if sliced {
			from, to = r.IntN(20), r.IntN(20)
		}
		a := genArray(r, fields[i].Type, from+rows+to)
		cols[i] = array.NewSlice(a, int64(from), int64(from+rows))
	}
	md := genMetadata(r)
	return array.NewRecordBatch(arrow.NewSchema(fields, &md), cols, int64(rows))
}
