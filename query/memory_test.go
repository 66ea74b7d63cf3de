package query_test

import (
	"testing"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/reelhouse/reelhouse/chunk"
	"github.com/reelhouse/reelhouse/query"
	"github.com/reelhouse/reelhouse/store"
)

// TestLargeCells: cells that repeat in every row must not fill the memory.
func TestLargeCells(t *testing.T) {
	const size, rows = 1 << 20, 400
	blob := func(times []int64) *chunk.Chunk {
		b := array.NewListBuilder(memory.DefaultAllocator, arrow.PrimitiveTypes.Uint8)
		b.Append(true)
		b.ValueBuilder().(*array.Uint8Builder).AppendValues(make([]uint8, size), nil)
		var cols []chunk.TimeColumn
		if times != nil {
			cols = append(cols, chunk.NewTimeColumn("t", chunk.Sequence, times))
		}
		c, err := chunk.New("/mesh", cols, []chunk.Component{{Descriptor: chunk.Descriptor{Component: "blob"}, Values: b.NewListArray()}})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	times, values := make([]int64, rows), make([]int64, rows)
	for i := range times {
		times[i] = int64(i)
	}
	ticks := oneColumn(t, "/a", "x", chunk.Sequence, times, values...)
	for name, tc := range map[string]struct {
		c    *chunk.Chunk
		fill bool
	}{"static": {blob(nil), false}, "filled": {blob([]int64{0}), true}} {
		rd, err := query.Run(t.Context(), store.NewMemory(ticks, blob(nil).WithEntityPath("/x"), tc.c).View(), query.Query{Index: "t", FillLatestAt: tc.fill})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for rd.Next() {
			n += int(rd.RecordBatch().NumRows())
			if rd.RecordBatch().NumRows()*2*size > 64<<20 {
				t.Fatalf("%s: batch of %d rows", name, rd.RecordBatch().NumRows())
			}
		}
		if n != rows || rd.Err() != nil {
			t.Errorf("%s: %d rows, %v", name, n, rd.Err())
		}
		rd.Release()
	}
}

// TestAlignedIsZeroCopy: runs of rows of one chunk are slices of it.
func TestAlignedIsZeroCopy(t *testing.T) {
	v := benchStore(t, 20_000, 5_000, true)
	all := make([]int, len(v.Entries()))
	for i := range all {
		all[i] = i
	}
	chunks, err := v.Load(t.Context(), all)
	if err != nil {
		t.Fatal(err)
	}
	own := map[*byte]bool{}
	for _, c := range chunks {
		own[buffer(c.Components()[0].Values)] = true
	}
	for _, fill := range []bool{false, true} {
		rd, err := query.Run(t.Context(), v, query.Query{Index: "frame", FillLatestAt: fill})
		if err != nil {
			t.Fatal(err)
		}
		for rd.Next() {
			for i, col := range rd.RecordBatch().Columns() {
				if l, ok := col.(*array.List); ok && !own[buffer(l)] {
					t.Fatalf("column %d was copied", i)
				}
			}
		}
		rd.Release()
	}
}

func buffer(l *array.List) *byte {
	return unsafe.SliceData(l.ListValues().Data().Buffers()[1].Bytes())
}
