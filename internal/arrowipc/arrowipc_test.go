package arrowipc

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// chunkBatch looks like the chunks of a recording: row id, two timelines, two
// component columns.
func chunkBatch(rows int, id string) arrow.RecordBatch {
	mem := memory.DefaultAllocator
	meta := func(kv ...string) arrow.Metadata {
		var k, v []string
		for i := 0; i < len(kv); i += 2 {
			k, v = append(k, kv[i]), append(v, kv[i+1])
		}
		return arrow.NewMetadata(k, v)
	}
	ns := &arrow.TimestampType{Unit: arrow.Nanosecond}
	points := arrow.ListOf(arrow.FixedSizeListOf(3, arrow.PrimitiveTypes.Float32))
	labels := arrow.ListOf(arrow.BinaryTypes.String)
	md := meta("rerun:id", "chunk_"+id, "rerun:entity_path", "/world/points", "sorbet:version", "0.1.4")
	s := arrow.NewSchema([]arrow.Field{
		{Name: "rerun.controls.RowId", Type: &arrow.FixedSizeBinaryType{ByteWidth: 16},
			Metadata: meta("rerun:kind", "control", "ARROW:extension:name", "rerun.datatypes.TUID", "ARROW:extension:metadata", `{"namespace":"row"}`)},
		{Name: "frame", Type: arrow.PrimitiveTypes.Int64, Nullable: true, Metadata: meta("rerun:kind", "index", "rerun:index_name", "frame", "rerun:is_sorted", "true")},
		{Name: "log_time", Type: ns, Nullable: true, Metadata: meta("rerun:kind", "index", "rerun:index_name", "log_time")},
		{Name: "Points3D:positions", Type: points, Nullable: true, Metadata: meta("rerun:kind", "data", "rerun:component", "Points3D:positions", "rerun:archetype", "rerun.archetypes.Points3D", "rerun:component_type", "rerun.components.Position3D")},
		{Name: "Points3D:labels", Type: labels, Nullable: true, Metadata: meta("rerun:kind", "data", "rerun:component", "Points3D:labels", "rerun:archetype", "rerun.archetypes.Points3D")},
	}, &md)
	b := array.NewRecordBuilder(mem, s)
	for i := range rows {
		b.Field(0).(*array.FixedSizeBinaryBuilder).Append([]byte(fmt.Sprintf("%016d", i)))
		b.Field(1).(*array.Int64Builder).Append(int64(i))
		b.Field(2).(*array.TimestampBuilder).Append(arrow.Timestamp(i * 1000))
		p := b.Field(3).(*array.ListBuilder)
		p.Append(true)
		for k := range 2 {
			f := p.ValueBuilder().(*array.FixedSizeListBuilder)
			f.Append(true)
			for range 3 {
				f.ValueBuilder().(*array.Float32Builder).Append(float32(i + k))
			}
		}
		l := b.Field(4).(*array.ListBuilder)
		if i%3 == 0 {
			l.AppendNull()
			continue
		}
		l.Append(true)
		l.ValueBuilder().(*array.StringBuilder).Append(fmt.Sprintf("label %d", i))
	}
	return b.NewRecordBatch()
}

func encodeArrowGo(t tb, b arrow.RecordBatch, opts ...ipc.Option) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := ipc.NewWriter(&buf, append(opts, ipc.WithSchema(b.Schema()))...)
	if err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func decodeArrowGo(t tb, stream []byte) arrow.RecordBatch {
	t.Helper()
	r, err := ipc.NewReader(bytes.NewReader(stream))
	if err != nil {
		t.Fatal(err)
	}
	if !r.Next() {
		t.Fatal("no batch", r.Err())
	}
	b := r.RecordBatch()
	b.Retain()
	return b
}

func TestChunk(t *testing.T) {
	want := chunkBatch(100, "186A0")
	for name, stream := range map[string][]byte{
		"arrow-go": encodeArrowGo(t, want),
		"lz4":      encodeArrowGo(t, want, ipc.WithLZ4()),
		"zstd":     encodeArrowGo(t, want, ipc.WithZstd()),
	} {
		got, err := Batch(stream)
		if err != nil {
			t.Fatal(name, err)
		}
		sameBatch(t, got, want)
	}
	stream, err := AppendBatch(nil, want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Batch(stream)
	if err != nil {
		t.Fatal(err)
	}
	sameBatch(t, got, want)
	sameBatch(t, decodeArrowGo(t, stream), want)
	var d Decoder
	for range 3 {
		got, err := d.Batch(stream)
		if err != nil {
			t.Fatal(err)
		}
		sameBatch(t, got, want)
	}
	other := chunkBatch(10, "FFFF0")
	stream, _ = AppendBatch(nil, other)
	if got, err = d.Batch(stream); err != nil {
		t.Fatal(err)
	}
	sameBatch(t, got, other)
}

func TestSchemaOnly(t *testing.T) {
	want := chunkBatch(0, "1").Schema()
	prefix := []byte("seven b")
	out := AppendSchema(prefix, want)
	stream := out[len(prefix):]
	got, err := Schema(stream)
	if err != nil {
		t.Fatal(err)
	}
	if !got.Equal(want) {
		t.Fatal(got)
	}
	if _, err := Batch(stream); !errors.Is(err, ErrNoBatch) {
		t.Fatal(err)
	}
	if _, bs, err := Batches(stream); err != nil || len(bs) != 0 {
		t.Fatal(bs, err)
	}
	r, err := ipc.NewReader(bytes.NewReader(stream))
	if err != nil || !r.Schema().Equal(want) || r.Next() || r.Err() != nil {
		t.Fatal(err, r)
	}
}

func dictBatch(t *testing.T, s *arrow.Schema, indices []int8, values ...string) arrow.RecordBatch {
	t.Helper()
	mem := memory.DefaultAllocator
	ib, vb := array.NewInt8Builder(mem), array.NewStringBuilder(mem)
	ib.AppendValues(indices, nil)
	vb.AppendValues(values, nil)
	d := array.NewDictionaryArray(s.Field(0).Type, ib.NewArray(), vb.NewArray())
	return array.NewRecordBatch(s, []arrow.Array{d}, int64(len(indices)))
}

// Dictionaries grow by deltas and are replaced; earlier batches keep theirs.
func TestDictionaryChanges(t *testing.T) {
	s := arrow.NewSchema([]arrow.Field{{Name: "d", Nullable: true, Type: &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}}}, nil)
	want := []arrow.RecordBatch{
		dictBatch(t, s, []int8{0, 1}, "a", "b"),
		dictBatch(t, s, []int8{2, 0}, "a", "b", "c"),
		dictBatch(t, s, []int8{0, 3}, "a", "b", "c", "d"),
		dictBatch(t, s, []int8{0}, "other"),
	}
	for _, deltas := range []bool{true, false} {
		var buf bytes.Buffer
		w := ipc.NewWriter(&buf, ipc.WithSchema(s), ipc.WithDictionaryDeltas(deltas))
		for _, b := range want {
			if err := w.Write(b); err != nil {
				t.Fatal(err)
			}
		}
		w.Close()
		_, got, err := Batches(buf.Bytes())
		if err != nil || len(got) != len(want) {
			t.Fatal(len(got), err)
		}
		for i := range want {
			for k := range int(want[i].NumRows()) {
				g, w := got[i].Column(0).ValueStr(k), want[i].Column(0).ValueStr(k)
				if g != w {
					t.Errorf("deltas %v, batch %d, row %d: got %q, want %q", deltas, i, k, g, w)
				}
			}
		}
	}
}

// One decoder serves several goroutines; releasing one batch leaves others whole.
func TestConcurrentDecoder(t *testing.T) {
	var d Decoder
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 1))
			for i := range 60 {
				want := chunkBatch(r.IntN(5), fmt.Sprintf("%032X", i))
				if i%3 == 0 {
					want = genBatch(r, false)
				}
				stream := encodeArrowGo(t, want, ipc.WithZstd())
				got, err := d.Batch(stream)
				if err != nil {
					t.Error(err)
					return
				}
				again, _ := d.Batch(stream)
				got.Release()
				sameBatch(t, again, want)
			}
		})
	}
	wg.Wait()
}

// Undefined values under null slots are neither refused nor let through.
func TestGarbageUnderNulls(t *testing.T) {
	s := arrow.NewSchema([]arrow.Field{{Name: "d", Nullable: true, Type: &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}}}, nil)
	b := dictBatch(t, s, []int8{0, -1, 1}, "a", "b")
	in := b.Column(0).Data()
	data := array.NewDataWithDictionary(in.DataType(), 3, []*memory.Buffer{memory.NewBufferBytes([]byte{0b101}), in.Buffers()[1]}, 1, 0, in.Dictionary().(*array.Data))
	b = array.NewRecordBatch(s, []arrow.Array{array.MakeFromData(data)}, 3)
	stream, err := AppendBatch(nil, b)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Batch(stream)
	if err != nil {
		t.Fatal(err)
	}
	d := got.Column(0).(*array.Dictionary)
	for i := range 3 {
		if k := d.GetValueIndex(i); k >= d.Dictionary().Len() {
			t.Errorf("index %d of row %d is out of range", k, i)
		}
	}
	// The same value in a valid slot is an error that names the column.
	bad := dictBatch(t, s, []int8{0, -1, 1}, "a", "b")
	if stream, err = AppendBatch(nil, bad); err != nil {
		t.Fatal(err)
	}
	var e *Error
	if _, err = Batch(stream); !errors.As(err, &e) || e.Part != "d" || e.Offset == 0 {
		t.Fatal(err)
	}
}

// Children may have offsets of their own beneath the offset of their parent.
func TestSlicedChildren(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for range 300 {
		var fields []arrow.Field
		var kids []arrow.Array
		for i := range 3 {
			f := genField(r, fmt.Sprint("f", i), 2)
			fields = append(fields, f)
			kids = append(kids, array.NewSlice(genArray(r, f.Type, 40), int64(i), 30+int64(i)))
		}
		st, err := array.NewStructArrayWithFields(kids, fields)
		if err != nil {
			t.Fatal(err)
		}
		offsets := array.NewInt32Builder(memory.DefaultAllocator)
		offsets.AppendValues([]int32{2, 5, 5, 9, 20, 28}, nil)
		list := array.NewData(arrow.ListOf(st.DataType()), 5, []*memory.Buffer{nil, offsets.NewArray().Data().Buffers()[1]}, []arrow.ArrayData{st.Data()}, 0, 0)
		col := array.NewSlice(array.MakeFromData(list), 1, 4)
		want := array.NewRecordBatch(arrow.NewSchema([]arrow.Field{{Name: "l", Type: col.DataType(), Nullable: true}}, nil), []arrow.Array{col}, 3)
		stream, err := AppendBatch(nil, want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Batch(stream)
		if err != nil {
			t.Fatal(err)
		}
		sameBatch(t, got, want)
		if n := got.Column(0).(*array.List).ListValues().Len(); n != 15 {
			t.Fatalf("%d child values written, want 15", n)
		}
	}
}

func TestMessageMetadata(t *testing.T) {
	md := arrow.NewMetadata([]string{"k"}, []string{"v"})
	s := arrow.NewSchema([]arrow.Field{{Name: "n", Type: arrow.Null}}, nil)
	want := array.NewRecordBatchWithMetadata(s, []arrow.Array{array.NewNull(3)}, 3, md)
	stream, err := AppendBatch(nil, want)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range []func() (arrow.RecordBatch, error){
		func() (arrow.RecordBatch, error) { return Batch(stream) },
		func() (arrow.RecordBatch, error) { return decodeArrowGo(t, stream), nil },
	} {
		got, err := b()
		if err != nil {
			t.Fatal(err)
		}
		if m := got.(arrow.RecordBatchWithMetadata).Metadata(); !m.Equal(md) {
			t.Fatal(m)
		}
	}
}

// A message that refers to one table over and over must not make it explode.
func TestOverlappingTables(t *testing.T) {
	var w schemaWriter
	m := w.beginMessage(headerSchema, 0)
	m.absent(4)
	st := w.table(m.place(2), &schemaLayout)
	st.absent(2)
	at := w.refs(st.place(1), 1)
	for range maxDepth - 4 {
		// A struct of two children that are one and the same.
		f := w.table(at, &fieldLayout)
		w.str(f.place(0), "f")
		f.absent(4)
		f.absent(6)
		f.u8(2, typeStruct)
		w.table(f.place(3), &emptyLayout)
		at = w.refs(f.place(5), 2)
		w.pad(4)
		vlen := 4 + 2*len(fieldLayout.slots)
		w.linkTo(at+4, (len(w.b)-w.base+vlen+3)&^3+w.base)
	}
	f := w.table(at, &fieldLayout)
	w.str(f.place(0), "leaf")
	f.absent(4)
	f.absent(6)
	w.dataType(f, arrow.Null)
	w.endMessage(0)
	_, err := Schema(appendEnd(w.b))
	if err == nil || !strings.Contains(err.Error(), "overlapping") {
		t.Fatal(err)
	}
}

func TestTruncated(t *testing.T) {
	stream, err := AppendBatch(nil, chunkBatch(3, "1"))
	if err != nil {
		t.Fatal(err)
	}
	body := len(stream) - 8
	for n := range len(stream) {
		_, err := Batch(stream[:n])
		if n < body && err == nil {
			t.Fatalf("cut at %d of %d: no error", n, len(stream))
		}
		if n >= body && err != nil {
			t.Fatalf("cut at %d of %d: %v", n, len(stream), err)
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, rows := range []int{1, 1000} {
		b.Run(fmt.Sprintf("rows=%d", rows), func(b *testing.B) { benchDecode(b, chunkBatch(rows, "186A0")) })
	}
}

func BenchmarkEncode(b *testing.B) {
	for _, rows := range []int{1, 1000} {
		b.Run(fmt.Sprintf("rows=%d", rows), func(b *testing.B) { benchEncode(b, chunkBatch(rows, "186A0")) })
	}
}

func benchDecode(b *testing.B, batch arrow.RecordBatch) {
	stream, err := AppendBatch(nil, batch)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("batch", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := Batch(stream); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("decoder", func(b *testing.B) {
		b.ReportAllocs()
		var d Decoder
		for b.Loop() {
			if _, err := d.Batch(stream); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("arrow-go", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			r, err := ipc.NewReader(bytes.NewReader(stream))
			if err != nil {
				b.Fatal(err)
			}
			if !r.Next() {
				b.Fatal(r.Err())
			}
			r.Release()
		}
	})
}

func benchEncode(b *testing.B, batch arrow.RecordBatch) {
	b.Run("append", func(b *testing.B) {
		b.ReportAllocs()
		var buf []byte
		var err error
		for b.Loop() {
			if buf, err = AppendBatch(buf[:0], batch); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("fresh", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := AppendBatch(nil, batch); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("arrow-go", func(b *testing.B) {
		b.ReportAllocs()
		var buf bytes.Buffer
		for b.Loop() {
			buf.Reset()
			w := ipc.NewWriter(&buf, ipc.WithSchema(batch.Schema()))
			if err := w.Write(batch); err != nil {
				b.Fatal(err)
			}
			w.Close()
		}
	})
}
