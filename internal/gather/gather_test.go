package gather

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// render is the value of one row as text, the naive model's view of an array.
func render(a arrow.Array, i int) string {
	switch a := a.(type) {
	case *array.RunEndEncoded:
		return render(a.Values(), a.GetPhysicalIndex(i))
	case *array.SparseUnion:
		return fmt.Sprintf("u%d:%s", a.TypeCode(i), render(a.Field(a.ChildID(i)), i))
	case *array.DenseUnion:
		return fmt.Sprintf("u%d:%s", a.TypeCode(i), render(a.Field(a.ChildID(i)), int(a.ValueOffset(i))))
	}
	if _, null := a.(*array.Null); null || a.IsNull(i) {
		return "null"
	}
	switch a := a.(type) {
	case *array.Dictionary:
		return render(a.Dictionary(), a.GetValueIndex(i))
	case *array.Struct:
		var s []string
		for k := range a.NumField() {
			s = append(s, render(a.Field(k), i))
		}
		return "{" + strings.Join(s, ",") + "}"
	case array.ListLike:
		from, to := a.ValueOffsets(i)
		var s []string
		for k := from; k < to; k++ {
			s = append(s, render(a.ListValues(), int(k)))
		}
		return "[" + strings.Join(s, ",") + "]"
	case array.ExtensionArray:
		return render(a.Storage(), i)
	}
	return a.ValueStr(i)
}

func renderAll(a arrow.Array) []string {
	out := make([]string, a.Len())
	for i := range out {
		out[i] = render(a, i)
	}
	return out
}

func drawType(t *rapid.T, depth int) arrow.DataType {
	flat := []arrow.DataType{
		arrow.Null, arrow.FixedWidthTypes.Boolean, arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Uint16,
		arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Float64, arrow.FixedWidthTypes.Timestamp_ns, arrow.FixedWidthTypes.Float16,
		arrow.FixedWidthTypes.MonthDayNanoInterval, &arrow.Decimal128Type{Precision: 20, Scale: 2},
		&arrow.FixedSizeBinaryType{ByteWidth: 3}, arrow.BinaryTypes.String, arrow.BinaryTypes.LargeBinary,
		arrow.BinaryTypes.StringView, arrow.BinaryTypes.BinaryView,
		&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String},
		&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Uint32, ValueType: arrow.PrimitiveTypes.Float64},
	}
	k := rapid.IntRange(0, len(flat)+9).Draw(t, "kind")
	if depth == 0 || k < len(flat) {
		return flat[k%len(flat)]
	}
	sub := func() arrow.DataType { return drawType(t, depth-1) }
	field := func(n string) arrow.Field { return arrow.Field{Name: n, Type: sub(), Nullable: true} }
	switch k - len(flat) {
	case 0:
		return arrow.ListOf(sub())
	case 1:
		return arrow.LargeListOf(sub())
	case 2:
		return arrow.ListViewOf(sub())
	case 3:
		return arrow.LargeListViewOf(sub())
	case 4:
		return arrow.FixedSizeListOf(int32(rapid.IntRange(1, 3).Draw(t, "n")), sub())
	case 5:
		return arrow.StructOf(field("a"), field("b"))
	case 6:
		return arrow.MapOf(arrow.BinaryTypes.String, sub())
	case 7:
		return arrow.SparseUnionOf([]arrow.Field{field("a"), field("b")}, []arrow.UnionTypeCode{3, 7})
	case 8:
		return arrow.DenseUnionOf([]arrow.Field{field("a"), field("b")}, []arrow.UnionTypeCode{5, 1})
	}
	return arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int16, flat[rapid.IntRange(1, 13).Draw(t, "encoded")])
}

func appendValue(t *rapid.T, b array.Builder) {
	if _, union := b.(array.UnionBuilder); !union && rapid.IntRange(0, 4).Draw(t, "null") == 0 {
		b.AppendNull()
		return
	}
	n := rapid.IntRange(0, 3).Draw(t, "value")
	text := strings.Repeat(string(rune('a'+n)), n*7)
	switch b := b.(type) {
	case *array.NullBuilder:
		b.AppendNull()
	case *array.BooleanBuilder:
		b.Append(n > 1)
	case *array.Decimal128Builder:
		b.Append(decimal128.FromI64(int64(n)))
	case *array.FixedSizeBinaryBuilder:
		b.Append([]byte{byte(n), 1, 2})
	case *array.StringBuilder:
		b.Append(text)
	case *array.BinaryBuilder:
		b.Append([]byte(text))
	case *array.StringViewBuilder:
		b.Append(text)
	case *array.BinaryViewBuilder:
		b.Append([]byte(text))
	case *array.BinaryDictionaryBuilder:
		if err := b.AppendString(text); err != nil {
			t.Fatal(err)
		}
	case *array.Float64DictionaryBuilder:
		if err := b.Append(float64(n)); err != nil {
			t.Fatal(err)
		}
	case *array.MonthDayNanoIntervalBuilder:
		b.Append(arrow.MonthDayNanoInterval{Months: int32(n), Nanoseconds: int64(n)})
	case *array.StructBuilder:
		b.Append(true)
		for i := range b.NumField() {
			appendValue(t, b.FieldBuilder(i))
		}
	case *array.MapBuilder:
		b.Append(true)
		for i := range n {
			b.KeyBuilder().(*array.StringBuilder).Append(fmt.Sprint(i))
			appendValue(t, b.ItemBuilder())
		}
	case *array.FixedSizeListBuilder:
		b.Append(true)
		for range b.Type().(*arrow.FixedSizeListType).Len() {
			appendValue(t, b.ValueBuilder())
		}
	case array.VarLenListLikeBuilder:
		b.AppendWithSize(true, n)
		for range n {
			appendValue(t, b.ValueBuilder())
		}
	case *array.SparseUnionBuilder:
		code := b.Type().(arrow.UnionType).TypeCodes()[n&1]
		b.Append(code)
		appendValue(t, b.Child(n&1))
		b.Child(1 - n&1).AppendEmptyValue()
	case *array.DenseUnionBuilder:
		b.Append(b.Type().(arrow.UnionType).TypeCodes()[n&1])
		appendValue(t, b.Child(n&1))
	case *array.RunEndEncodedBuilder:
		if n > 1 && b.Len() > 0 {
			b.ContinueRun(1)
		} else {
			b.Append(1)
			appendValue(t, b.ValueBuilder())
		}
	default:
		if err := b.AppendValueFromString(fmt.Sprint(n)); err != nil {
			t.Fatal(err)
		}
	}
}

func drawArray(t *rapid.T, dt arrow.DataType) arrow.Array {
	b := array.NewBuilder(memory.DefaultAllocator, dt)
	for range rapid.IntRange(0, 12).Draw(t, "rows") {
		appendValue(t, b)
	}
	a := b.NewArray()
	if n := a.Len(); rapid.Bool().Draw(t, "slice") {
		from := rapid.IntRange(0, n).Draw(t, "from")
		a = array.NewSlice(a, int64(from), int64(rapid.IntRange(from, n).Draw(t, "to")))
	}
	return a
}

// nullText is what a null span shows as in the model.
func nullText(dt arrow.DataType) string {
	if u, ok := dt.(arrow.UnionType); ok {
		return fmt.Sprintf("u%d:%s", u.TypeCodes()[0], nullText(u.Fields()[0].Type))
	}
	return "null"
}

func TestRowsAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dt := drawType(t, 2)
		srcs := make([]arrow.Array, rapid.IntRange(1, 3).Draw(t, "sources"))
		for i := range srcs {
			srcs[i] = drawArray(t, dt)
		}
		var spans []Span
		want := []string{}
		for range rapid.IntRange(0, 8).Draw(t, "spans") {
			s := Span{Src: rapid.IntRange(-1, len(srcs)-1).Draw(t, "src")}
			if s.Src < 0 {
				s.Len = rapid.IntRange(0, 3).Draw(t, "len")
				for range s.Len {
					want = append(want, nullText(dt))
				}
			} else {
				n := srcs[s.Src].Len()
				s.Start = rapid.IntRange(0, n).Draw(t, "start")
				s.Len = rapid.IntRange(0, n-s.Start).Draw(t, "len")
				for i := range s.Len {
					want = append(want, render(srcs[s.Src], s.Start+i))
				}
			}
			spans = append(spans, s)
		}
		got, err := Rows(dt, srcs, spans)
		if err != nil {
			t.Fatal(err)
		}
		if !arrow.TypeEqual(dt, got.DataType()) {
			t.Fatalf("type %s", got.DataType())
		}
		if d := cmp.Diff(want, renderAll(got)); d != "" {
			t.Fatalf("%s %v: %s", dt, spans, d)
		}
		if nulls, id := 0, dt.ID(); id != arrow.RUN_END_ENCODED && id != arrow.NULL {
			for i := range got.Len() {
				if got.IsNull(i) {
					nulls++
				}
			}
			if nulls != got.NullN() {
				t.Fatalf("%d nulls, said %d", nulls, got.NullN())
			}
		}
		if d := cmp.Diff(want, renderAll(throughIPC(t, got))); d != "" {
			t.Fatalf("through IPC: %s %v: %s", dt, spans, d)
		}
	})
}

func throughIPC(t *rapid.T, a arrow.Array) arrow.Array {
	schema := arrow.NewSchema([]arrow.Field{{Name: "v", Type: a.DataType(), Nullable: true}}, nil)
	var buf bytes.Buffer
	w := ipc.NewWriter(&buf, ipc.WithSchema(schema))
	if err := w.Write(array.NewRecordBatch(schema, []arrow.Array{a}, int64(a.Len()))); err != nil {
		t.Fatal(err)
	}
	w.Close()
	r, err := ipc.NewReader(&buf)
	if err != nil {
		t.Fatal(err)
	}
	if !r.Next() {
		t.Fatal(r.Err())
	}
	return r.RecordBatch().Column(0)
}

func TestContiguousIsZeroCopy(t *testing.T) {
	b := array.NewInt64Builder(memory.DefaultAllocator)
	b.AppendValues([]int64{1, 2, 3, 4, 5, 6}, []bool{true, false, true, true, true, true})
	a := b.NewArray()
	got, err := Rows(a.DataType(), []arrow.Array{a}, []Span{{0, 1, 2}, {-1, 0, 0}, {0, 3, 2}})
	if err != nil {
		t.Fatal(err)
	}
	if &got.Data().Buffers()[1].Bytes()[0] != &a.Data().Buffers()[1].Bytes()[0] || got.Data().Offset() != 1 {
		t.Error("copied")
	}
	if d := cmp.Diff([]string{"(null)", "3", "4", "5"}, []string{got.ValueStr(0), got.ValueStr(1), got.ValueStr(2), got.ValueStr(3)}); d != "" {
		t.Error(d)
	}
	if got.Data().NullN() != 1 {
		t.Error("null count", got.Data().NullN())
	}
}

func TestSharedDictionary(t *testing.T) {
	dt := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}
	b := array.NewDictionaryBuilder(memory.DefaultAllocator, dt).(*array.BinaryDictionaryBuilder)
	for i := range 100 {
		_ = b.AppendString(fmt.Sprint("a", i))
	}
	x := b.NewDictionaryArray()
	got, err := Rows(dt, []arrow.Array{x, array.NewSlice(x, 10, 90)}, []Span{{1, 0, 2}, {0, 0, 2}})
	if err != nil {
		t.Fatal(err)
	}
	if got.(*array.Dictionary).Dictionary().Len() != 100 {
		t.Error("equal dictionaries were not shared")
	}
	c := array.NewDictionaryBuilder(memory.DefaultAllocator, dt).(*array.BinaryDictionaryBuilder)
	for i := range 100 {
		_ = c.AppendString(fmt.Sprint("a", 99-i))
	}
	y := c.NewDictionaryArray()
	got, err = Rows(dt, []arrow.Array{x, y}, []Span{{1, 0, 100}, {0, 0, 100}})
	if err != nil {
		t.Fatal(err)
	}
	if n := got.(*array.Dictionary).Dictionary().Len(); n != 100 {
		t.Errorf("unified to %d entries", n)
	}
	if render(got, 0) != "a99" || render(got, 199) != "a99" || render(got, 100) != "a0" {
		t.Error("wrong values", render(got, 0), render(got, 199), render(got, 100))
	}
	for i := range 100 {
		_ = c.AppendString(fmt.Sprint("b", i))
	}
	z := c.NewDictionaryArray()
	if _, err = Rows(dt, []arrow.Array{x, z}, []Span{{1, 0, 100}, {0, 0, 100}}); !errors.Is(err, ErrOverflow) {
		t.Errorf("got %v, want overflow", err)
	}
}

func TestOverflow(t *testing.T) {
	// Two rows whose offsets claim 1.5 GiB each: lengths are checked before anything is allocated.
	offs := []int32{0, 3 << 29}
	kid := array.NewData(arrow.Null, 3<<29, []*memory.Buffer{nil}, nil, 3<<29, 0)
	l := array.MakeFromData(array.NewData(arrow.ListOf(arrow.Null), 1, []*memory.Buffer{nil, bufferOf(offs)}, []arrow.ArrayData{kid}, 0, 0))
	if _, err := Rows(l.DataType(), []arrow.Array{l}, []Span{{0, 0, 1}, {0, 0, 1}}); !errors.Is(err, ErrOverflow) {
		t.Errorf("got %v, want overflow", err)
	}
	r := array.NewRunEndEncodedBuilder(memory.DefaultAllocator, arrow.PrimitiveTypes.Int16, arrow.PrimitiveTypes.Int64)
	r.Append(30000)
	r.ValueBuilder().(*array.Int64Builder).Append(1)
	e := r.NewArray()
	if _, err := Rows(e.DataType(), []arrow.Array{e}, []Span{{0, 0, 30000}, {0, 0, 30000}}); !errors.Is(err, ErrOverflow) {
		t.Errorf("got %v, want overflow", err)
	}
}

func TestBadSpansAndSources(t *testing.T) {
	b := array.NewInt64Builder(memory.DefaultAllocator)
	b.AppendValues([]int64{1, 2}, nil)
	a := b.NewArray()
	f := array.NewFloat32Builder(memory.DefaultAllocator)
	f.AppendNull()
	short := array.NewData(arrow.PrimitiveTypes.Int64, 5, []*memory.Buffer{nil, bufferOf([]int64{1})}, nil, 0, 0)
	for name, c := range map[string]struct {
		src   arrow.Array
		spans []Span
	}{
		"outside":      {a, []Span{{0, 1, 2}}},
		"negative":     {a, []Span{{0, -1, 1}}},
		"huge":         {a, []Span{{0, 1, int(^uint(0) >> 1)}}},
		"no source":    {a, []Span{{1, 0, 1}}},
		"length":       {a, []Span{{0, 0, -1}}},
		"other type":   {f.NewArray(), []Span{{0, 0, 1}}},
		"short buffer": {unchecked{a, short}, []Span{{0, 0, 5}}},
	} {
		if _, err := Rows(arrow.PrimitiveTypes.Int64, []arrow.Array{c.src}, c.spans); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// unchecked is an array whose data its constructor would not have taken.
type unchecked struct {
	arrow.Array
	data arrow.ArrayData
}

func (u unchecked) Data() arrow.ArrayData { return u.data }

func BenchmarkRows(b *testing.B) {
	const chunks, rowsEach = 20, 4096
	lists := make([]arrow.Array, chunks)
	for i := range lists {
		lb := array.NewListBuilder(memory.DefaultAllocator, arrow.PrimitiveTypes.Float64)
		for k := range rowsEach {
			lb.Append(true)
			lb.ValueBuilder().(*array.Float64Builder).Append(float64(k))
		}
		lists[i] = lb.NewArray()
	}
	single := make([]Span, 0, chunks*rowsEach)
	sparse := make([]Span, 0, chunks*rowsEach)
	for r := range rowsEach {
		for c := range chunks {
			single = append(single, Span{c, r, 1})
		}
		sparse = append(sparse, Span{0, r, 1}, Span{-1, 0, chunks - 1})
	}
	var runs []Span
	for c := range chunks {
		runs = append(runs, Span{c, 0, rowsEach})
	}
	for _, k := range []struct {
		name  string
		spans []Span
	}{{"single", single}, {"sparse", sparse}, {"runs", runs}} {
		b.Run(k.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Rows(lists[0].DataType(), lists, k.spans); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)*chunks*rowsEach/b.Elapsed().Seconds()/1e6, "Mrows/s")
		})
	}
}
