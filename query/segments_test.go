package query_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"

	"github.com/reelhouse/reelhouse/chunk"
	"github.com/reelhouse/reelhouse/query"
	"github.com/reelhouse/reelhouse/store"
)

// column is a chunk with one component of one-item lists. No times: static.
func oneColumn(t *testing.T, entity chunk.EntityPath, name string, kind chunk.TimeKind, times []int64, values ...int64) *chunk.Chunk {
	t.Helper()
	b := array.NewListBuilder(memory.DefaultAllocator, arrow.PrimitiveTypes.Int64)
	for _, v := range values {
		b.Append(true)
		b.ValueBuilder().(*array.Int64Builder).Append(v)
	}
	var cols []chunk.TimeColumn
	if times != nil {
		cols = append(cols, chunk.NewTimeColumn("t", kind, times))
	}
	c, err := chunk.New(entity, cols, []chunk.Component{{Descriptor: chunk.Descriptor{Component: name}, Values: b.NewListArray()}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func table(t *testing.T, rd array.RecordReader, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer rd.Release()
	var out strings.Builder
	for i, f := range rd.Schema().Fields() {
		if i > 0 {
			out.WriteString(" ")
		}
		out.WriteString(f.Name)
	}
	for rd.Next() {
		b := rd.RecordBatch()
		for i := range int(b.NumRows()) {
			out.WriteString("\n")
			for k, col := range b.Columns() {
				if k > 0 {
					out.WriteString(" ")
				}
				out.WriteString(render(col, i))
			}
		}
	}
	if rd.Err() != nil {
		t.Fatal(rd.Err())
	}
	return out.String()
}

func TestSegments(t *testing.T) {
	segments := []query.Segment{
		{ID: "one", View: store.NewMemory(
			oneColumn(t, "/a", "x", chunk.Sequence, []int64{1, 2}, 10, 20),
			oneColumn(t, "/cfg", "k", 0, nil, 5)).View()},
		{ID: "two", View: store.NewMemory(oneColumn(t, "/b", "y", chunk.Sequence, []int64{7, 9}, 70, 90)).View()},
		{ID: "still", View: store.NewMemory(oneColumn(t, "/cfg", "k", 0, nil, 6)).View()},
	}
	for name, tc := range map[string]struct {
		q    query.Query
		want string
	}{
		"rows":   {query.Query{Index: "t"}, "rerun_segment_id t /a:x /b:y /cfg:k\none 1 [10] null [5]\none 2 [20] null [5]\ntwo 7 null [70] null\ntwo 9 null [90] null"},
		"static": {query.Query{}, "rerun_segment_id t /cfg:k\none null [5]\ntwo null null\nstill null [6]"},
		"at":     {query.Query{Index: "t", At: []int64{8, 2}, FillLatestAt: true}, "rerun_segment_id t /a:x /b:y /cfg:k\none 2 [20] null [5]\ntwo 8 null [70] null"},
		"select": {query.Query{Index: "t", Select: []string{"/b:y", "rerun_segment_id"}}, "/b:y rerun_segment_id\nnull one\nnull one\n[70] two\n[90] two"},
		"no id":  {query.Query{Index: "t", Select: []string{"t"}, Range: &query.Range{Start: 2, End: 7}}, "t\n2\n7"},
	} {
		rd, err := query.RunSegments(t.Context(), segments, tc.q)
		if d := cmp.Diff(tc.want, table(t, rd, err)); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
	if _, err := query.RunSegments(t.Context(), segments, query.Query{Index: "u"}); !errors.Is(err, query.ErrUnknownIndex) {
		t.Error(err)
	}
	odd := query.Segment{ID: "odd", View: store.NewMemory(oneColumn(t, "/z", "z", chunk.Timestamp, []int64{1}, 1)).View()}
	if _, err := query.RunSegments(t.Context(), append(segments, odd), query.Query{Index: "t"}); !errors.Is(err, store.ErrTypeConflict) {
		t.Error(err)
	}
}

func TestSelect(t *testing.T) {
	v := store.NewMemory(oneColumn(t, "/a", "x", chunk.Sequence, []int64{1, 2}, 10, 20), oneColumn(t, "/b", "y", chunk.Sequence, []int64{2, 3}, 70, 90)).View()
	rd, err := query.Run(t.Context(), v, query.Query{Index: "t", Select: []string{"/b:y", "t"}})
	if d := cmp.Diff("/b:y t\nnull 1\n[70] 2\n[90] 3", table(t, rd, err)); d != "" {
		t.Error(d)
	}
	if _, err := query.Run(t.Context(), v, query.Query{Index: "t", Select: []string{"/c:y"}}); !errors.Is(err, query.ErrUnknownColumn) {
		t.Error(err)
	}
	if _, err := query.Run(t.Context(), v, query.Query{Index: "t", Select: []string{"t", "t"}}); err == nil {
		t.Error("a column selected twice is no error")
	}
}

func TestIndexValues(t *testing.T) {
	b := array.NewTimestampBuilder(memory.DefaultAllocator, &arrow.TimestampType{Unit: arrow.Microsecond})
	b.Append(3)
	b.AppendNull()
	b.Append(-5)
	micros := b.NewArray()
	b = array.NewTimestampBuilder(memory.DefaultAllocator, &arrow.TimestampType{Unit: arrow.Second})
	b.Append(1 << 40)
	far := b.NewArray()
	s := array.NewStringBuilder(memory.DefaultAllocator)
	s.Append("1")
	for _, tc := range []struct {
		kind   chunk.TimeKind
		compat bool
		in     arrow.Array
		want   []int64
		err    error
	}{
		{chunk.Timestamp, false, micros, []int64{3000, -5000}, nil},
		{chunk.Timestamp, true, micros, []int64{3, -5}, nil},
		{chunk.Sequence, false, micros, []int64{3, -5}, nil},
		{chunk.Timestamp, false, chunk.TimesArray(chunk.Sequence, []int64{7}), []int64{7}, nil},
		{chunk.Timestamp, false, far, nil, query.ErrIndexValues},
		{chunk.Timestamp, false, s.NewArray(), nil, query.ErrIndexValues},
	} {
		got, err := query.IndexValues(tc.kind, tc.compat, tc.in)
		if !errors.Is(err, tc.err) || !cmp.Equal(got, tc.want) {
			t.Errorf("%s %v: got %v, %v", tc.in.DataType(), tc.kind, got, err)
		}
	}
}

func TestCancel(t *testing.T) {
	v := benchStore(t, 20_000, 1000, true)
	ctx, cancel := context.WithCancel(t.Context())
	rd, err := query.Run(ctx, v, query.Query{Index: "frame"})
	if err != nil || !rd.Next() {
		t.Fatal(err)
	}
	cancel()
	if rd.Next() || !errors.Is(rd.Err(), ctx.Err()) {
		t.Error("goes on", rd.Err())
	}
	rd.Release()
}
