package chunk_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"pgregory.net/rapid"

	"github.com/reelhouse/reelhouse/chunk"
	"github.com/reelhouse/reelhouse/internal/testkit"
)

var drawTypes = []arrow.DataType{
	arrow.PrimitiveTypes.Int64,
	arrow.PrimitiveTypes.Float32,
	arrow.BinaryTypes.String,
	arrow.FixedWidthTypes.Boolean,
	arrow.FixedSizeListOfNonNullable(2, arrow.PrimitiveTypes.Float32),
	arrow.StructOf(arrow.Field{Name: "a", Type: arrow.PrimitiveTypes.Int32, Nullable: true}, arrow.Field{Name: "b", Type: arrow.ListOf(arrow.BinaryTypes.String), Nullable: true}),
}

func drawValue(t *rapid.T, dt arrow.DataType) any {
	switch dt := dt.(type) {
	case *arrow.FixedSizeListType:
		return []any{drawValue(t, dt.Elem()), drawValue(t, dt.Elem())}
	case *arrow.ListType:
		n := rapid.IntRange(0, 3).Draw(t, "items")
		out := make([]any, n)
		for i := range out {
			out[i] = drawValue(t, dt.Elem())
		}
		return out
	case *arrow.StructType:
		if rapid.IntRange(0, 4).Draw(t, "null") == 0 {
			return nil
		}
		out := map[string]any{}
		for _, f := range dt.Fields() {
			out[f.Name] = drawValue(t, f.Type)
		}
		return out
	case *arrow.StringType:
		return rapid.StringN(0, 5, 20).Draw(t, "text")
	case *arrow.BooleanType:
		return rapid.Bool().Draw(t, "bool")
	}
	return rapid.IntRange(-100, 100).Draw(t, "number")
}

// drawList is a component column of so many rows, as a slice of a longer one.
func drawList(t *rapid.T, dt arrow.DataType, rows int) *array.List {
	cells := make([]any, rows+2)
	for i := range cells {
		if rapid.IntRange(0, 4).Draw(t, "null") > 0 {
			cells[i] = drawValue(t, arrow.ListOf(dt))
		}
	}
	raw, err := json.Marshal(cells)
	if err != nil {
		t.Fatal(err)
	}
	a, _, err := array.FromJSON(memory.DefaultAllocator, arrow.ListOf(dt), bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	return array.NewSlice(a, 1, int64(rows)+1).(*array.List)
}

func drawColumns(t *rapid.T) ([]chunk.TimeColumn, []chunk.Component) {
	rows := rapid.IntRange(0, 8).Draw(t, "rows")
	var times []chunk.TimeColumn
	for i := range rapid.IntRange(0, 3).Draw(t, "timelines") {
		kind := rapid.SampledFrom([]chunk.TimeKind{chunk.Sequence, chunk.Duration, chunk.Timestamp}).Draw(t, "kind")
		values := rapid.SliceOfN(rapid.Int64Range(-3, 3), rows, rows).Draw(t, "times")
		times = append(times, chunk.NewTimeColumn(fmt.Sprintf("t%d", 2-i), kind, values))
	}
	var components []chunk.Component
	for i := range rapid.IntRange(1, 3).Draw(t, "components") {
		d := chunk.Descriptor{Component: fmt.Sprintf("c%d", 2-i)}
		if rapid.Bool().Draw(t, "archetype") {
			d = chunk.ArchetypeDescriptor("my.Arch", d.Component, "my.Type")
		}
		components = append(components, chunk.Component{Descriptor: d, Values: drawList(t, rapid.SampledFrom(drawTypes).Draw(t, "type"), rows)})
	}
	return times, components
}

// drawChunk is a chunk whose row ids are in any order.
func drawChunk(t *rapid.T) *chunk.Chunk {
	times, components := drawColumns(t)
	rows := components[0].Values.Len()
	order := rapid.Permutation(indexes(rows)).Draw(t, "row ids")
	var ids []byte
	for _, n := range order {
		id := chunk.MakeTUID(uint64(n), 7)
		ids = append(ids, id[:]...)
	}
	c, err := chunk.Assemble(chunk.NewTUID(), "/a", ids, times, components)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func indexes(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// digests tell the rows of a chunk: a digest each of row id, times and cells.
func digests(c *chunk.Chunk) []string {
	out := make([]string, c.NumRows())
	for i := range out {
		row := []string{c.RowID(i).String()}
		for _, tc := range c.Timelines() {
			row = append(row, fmt.Sprint(tc.Name, tc.Kind, tc.Times[i]))
		}
		for _, m := range c.Components() {
			row = append(row, m.Component, testkit.DigestRRD(array.NewSlice(m.Values, int64(i), int64(i)+1)))
		}
		out[i] = strings.Join(row, " ")
	}
	return out
}

func wantRows(t *rapid.T, what string, got *chunk.Chunk, want []string) {
	t.Helper()
	if g := digests(got); !slices.Equal(g, want) {
		t.Fatalf("%s: rows\n%s\ninstead of\n%s", what, strings.Join(g, "\n"), strings.Join(want, "\n"))
	}
	for _, tc := range got.Timelines() {
		if tc.Sorted != slices.IsSorted(tc.Times) {
			t.Fatalf("%s: timeline %s sorted: %v", what, tc.Name, tc.Sorted)
		}
	}
	if sorted := slices.IsSortedFunc(indexes(got.NumRows()), func(a, b int) int { return got.RowID(a).Compare(got.RowID(b)) }); sorted != got.RowIDsSorted() {
		t.Fatalf("%s: row ids sorted: %v", what, got.RowIDsSorted())
	}
}

func TestSliceConcatTake(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawChunk(t)
		rows := digests(c)
		n := c.NumRows()
		from := rapid.IntRange(0, n).Draw(t, "from")
		to := rapid.IntRange(from, n).Draw(t, "to")
		middle := c.Slice(from, to)
		wantRows(t, "slice", middle, rows[from:to])

		whole, err := chunk.Concat(c.Slice(0, from), middle, c.Slice(to, n))
		if err != nil {
			t.Fatal(err)
		}
		wantRows(t, "concat of slices", whole, rows)

		order := rapid.Permutation(indexes(n)).Draw(t, "order")
		taken := c.Take(order)
		for i, j := range order {
			if digests(taken)[i] != rows[j] {
				t.Fatalf("take: row %d is not row %d", i, j)
			}
		}
		kept := c.Filter(func(i int) bool { return i%2 == 0 })
		var even []string
		for i := 0; i < n; i += 2 {
			even = append(even, rows[i])
		}
		wantRows(t, "filter", kept, append([]string{}, even...))

		back, err := chunk.FromRecordBatch(c.RecordBatch())
		if err != nil {
			t.Fatal(err)
		}
		wantRows(t, "record batch and back", back, rows)
		if back.ID() != c.ID() || back.EntityPath() != c.EntityPath() {
			t.Fatal("record batch and back: other identity")
		}
	})
}

func TestSort(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawChunk(t)
		rows := digests(c)
		slices.Sort(rows) // they begin with the row id
		wantRows(t, "by row id", c.SortByRowID(), rows)
		for _, tc := range c.Timelines() {
			order := indexes(c.NumRows())
			slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(tc.Times[a], tc.Times[b]) })
			wantRows(t, "by "+tc.Name, c.SortByTime(tc.Name), digests(c.Take(order)))
		}
	})
}

// TestNewSorts checks that row ids are given in the order of all times.
func TestNewSorts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		times, components := drawColumns(t)
		n := components[0].Values.Len()
		c, err := chunk.New("/a", times, components)
		if err != nil {
			t.Fatal(err)
		}
		slices.SortFunc(times, func(a, b chunk.TimeColumn) int { return cmp.Compare(a.Name, b.Name) })
		order := indexes(n)
		slices.SortStableFunc(order, func(a, b int) int {
			for _, tc := range times {
				if d := cmp.Compare(tc.Times[a], tc.Times[b]); d != 0 {
					return d
				}
			}
			return 0
		})
		for i, j := range order {
			for _, tc := range times {
				if got := c.Timeline(tc.Name).Times[i]; got != tc.Times[j] {
					t.Fatalf("%s of row %d: %d instead of %d", tc.Name, i, got, tc.Times[j])
				}
			}
			for _, m := range components {
				got := array.NewSlice(c.Component(m.Component).Values, int64(i), int64(i)+1)
				if testkit.DigestRRD(got) != testkit.DigestRRD(array.NewSlice(m.Values, int64(j), int64(j)+1)) {
					t.Fatalf("%s of row %d: not that of row %d", m.Component, i, j)
				}
			}
			if i > 0 && c.RowID(i) != c.RowID(i-1).Add(1) {
				t.Fatalf("row ids %s and %s", c.RowID(i-1), c.RowID(i))
			}
		}
	})
}

func TestTUIDText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := chunk.MakeTUID(rapid.Uint64().Draw(t, "time"), rapid.Uint64().Draw(t, "counter"))
		for _, text := range []string{id.String(), strings.ToLower(id.String()), strings.ToUpper(id.String())} {
			if got, err := chunk.ParseTUID(text); err != nil || got != id {
				t.Fatalf("%s: %s, %v", text, got, err)
			}
		}
		other := chunk.MakeTUID(rapid.Uint64().Draw(t, "time"), rapid.Uint64().Draw(t, "counter"))
		want := cmp.Or(cmp.Compare(id.TimeNS(), other.TimeNS()), cmp.Compare(id.Inc(), other.Inc()))
		if got := id.Compare(other); got != want {
			t.Fatalf("%s and %s: %d", id, other, got)
		}
	})
}

// pathParts are texts that make trouble in paths.
var pathParts = rapid.SliceOfN(rapid.OneOf(
	rapid.SampledFrom([]string{"a", "A", "b", "a1", "a01", "a10", "__x", "_", `\`, "/", " ", "é", ".", "1", "01"}),
	rapid.StringN(1, 4, 8),
), 0, 4)

func drawPath(t *rapid.T) chunk.EntityPath {
	return chunk.EntityPathFromParts(pathParts.Draw(t, "parts")...)
}

func TestEntityPathText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := pathParts.Draw(t, "parts")
		p := chunk.EntityPathFromParts(parts...)
		if !slices.Equal(p.Parts(), parts) {
			t.Fatalf("%q: parts %q", parts, p.Parts())
		}
		if got := chunk.ParseEntityPath(string(p)); got != p {
			t.Fatalf("%s is read as %s", p, got)
		}
		if got, err := chunk.ParseEntityPathStrict(string(p)); err != nil || got != p {
			t.Fatalf("%s is strictly read as %s: %v", p, got, err)
		}
		parent, ok := p.Parent()
		if ok != (len(parts) > 0) || ok && parent.Join(parts[len(parts)-1]) != p {
			t.Fatalf("parent of %s: %s, %v", p, parent, ok)
		}
		if ok && (!p.IsDescendantOf(parent) || parent.IsDescendantOf(p)) || p.IsDescendantOf(p) {
			t.Fatalf("%s below %s", p, parent)
		}
	})
}

func TestEntityPathOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := drawPath(t), drawPath(t), drawPath(t)
		if (a.Compare(b) == 0) != (a == b) || cmp.Compare(a.Compare(b), 0) != -cmp.Compare(b.Compare(a), 0) {
			t.Fatalf("%s and %s: %d and %d", a, b, a.Compare(b), b.Compare(a))
		}
		if a.Compare(b) <= 0 && b.Compare(c) <= 0 && a.Compare(c) > 0 {
			t.Fatalf("%s, %s, %s: no order", a, b, c)
		}
	})
}
