package arrowipc

import (
	"bytes"
	"errors"
	"fmt"
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

func BenchmarkDecode(b *testing.B) {
	batch := chunkBatch(1000, "186A0")
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

func BenchmarkEncode(b *testing.B) {
	batch := chunkBatch(1000, "186A0")
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
