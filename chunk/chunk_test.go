package chunk_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"

	"github.com/reelhouse/reelhouse/chunk"
	"github.com/reelhouse/reelhouse/chunk/archetype"
)

// fromJSON is an array of values written as JSON.
func fromJSON(t testing.TB, dt arrow.DataType, values string) arrow.Array {
	t.Helper()
	a, _, err := array.FromJSON(memory.DefaultAllocator, dt, strings.NewReader(values))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func ints(t testing.TB, values string) arrow.Array {
	return fromJSON(t, arrow.PrimitiveTypes.Int64, values)
}

func lists(t testing.TB, values string) *array.List {
	return fromJSON(t, arrow.ListOf(arrow.PrimitiveTypes.Int64), values).(*array.List)
}

// column is a column of a batch with metadata given as pairs.
type column struct {
	name   string
	values arrow.Array
	pairs  []string
}

func batch(md map[string]string, columns ...column) arrow.RecordBatch {
	fields := make([]arrow.Field, len(columns))
	arrays := make([]arrow.Array, len(columns))
	for i, c := range columns {
		pairs := map[string]string{}
		for j := 0; j < len(c.pairs); j += 2 {
			pairs[c.pairs[j]] = c.pairs[j+1]
		}
		fields[i] = arrow.Field{Name: c.name, Type: c.values.DataType(), Nullable: true, Metadata: arrow.MetadataFrom(pairs)}
		arrays[i] = c.values
	}
	meta := arrow.MetadataFrom(md)
	return array.NewRecordBatch(arrow.NewSchema(fields, &meta), arrays, -1)
}

var (
	identity = map[string]string{"rerun:id": "chunk_00000000000000010000000000000002", "rerun:entity_path": "/e"}
	two      = chunk.RowIDArray(append(idBytes(5), idBytes(4)...))
	rowIDs   = column{"id", two, []string{"rerun:kind", "control"}}
)

func idBytes(n uint64) []byte {
	id := chunk.MakeTUID(n, n)
	return id[:]
}

func index(name string, a arrow.Array, more ...string) column {
	return column{name, a, append([]string{"rerun:kind", "index"}, more...)}
}

// TestFromRecordBatch goes through what readers tolerate and what not (spec/rrd.md 3).
func TestFromRecordBatch(t *testing.T) {
	frame := index("frame", ints(t, "[2, 1]"))
	data := column{"v", lists(t, "[[1], null]"), nil}
	without := func(key string) map[string]string {
		out := map[string]string{"rerun:id": identity["rerun:id"], "rerun:entity_path": "/e"}
		delete(out, key)
		return out
	}
	for name, c := range map[string]struct {
		b    arrow.RecordBatch
		want error
	}{
		"no id":             {batch(without("rerun:id"), rowIDs, frame, data), chunk.ErrMissingID},
		"no entity":         {batch(without("rerun:entity_path"), rowIDs, frame, data), chunk.ErrMissingEntity},
		"odd id":            {batch(map[string]string{"rerun:id": "row_1", "rerun:entity_path": "/"}, rowIDs, data), chunk.ErrTUID},
		"null time":         {batch(identity, rowIDs, index("t", ints(t, "[1, null]")), data), chunk.ErrNullTime},
		"short time":        {batch(identity, rowIDs, index("t", fromJSON(t, arrow.PrimitiveTypes.Int32, "[1, 2]")), data), chunk.ErrTimeType},
		"microseconds":      {batch(identity, rowIDs, index("t", fromJSON(t, arrow.FixedWidthTypes.Timestamp_us, "[1, 2]")), data), chunk.ErrTimeType},
		"timeline twice":    {batch(identity, rowIDs, frame, index("x", ints(t, "[1, 2]"), "rerun:index_name", "frame"), data), chunk.ErrDuplicate},
		"component twice":   {batch(identity, rowIDs, data, column{"w", data.values, []string{"rerun:component", "v", "rerun:archetype", "a"}}), chunk.ErrDuplicate},
		"data before index": {batch(identity, rowIDs, data, frame), chunk.ErrColumnOrder},
		"row id last":       {batch(identity, frame, data, rowIDs), chunk.ErrColumnOrder},
		"no row id":         {batch(identity, column{"id", two, nil}, data), chunk.ErrColumnOrder},
		"two row ids":       {batch(identity, rowIDs, rowIDs, data), chunk.ErrRowID},
		"row id numbers":    {batch(identity, column{"id", ints(t, "[1, 2]"), rowIDs.pairs}, data), chunk.ErrRowID},
		"odd kind":          {batch(identity, rowIDs, column{"v", data.values, []string{"rerun:kind", "odd"}}), chunk.ErrKind},
	} {
		if _, err := chunk.FromRecordBatch(c.b); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}

	odd := arrow.ListOfField(arrow.Field{Name: "element", Type: arrow.PrimitiveTypes.Int64})
	c, err := chunk.FromRecordBatch(batch(map[string]string{"rerun:id": "0000000000000001000000000000000A", "rerun:entity_path": "a b//c", "foo": "bar"},
		column{"whatever", two, []string{"rerun:kind", "row_id", "foo", "bar"}},
		index("zeit", fromJSON(t, &arrow.TimestampType{Unit: arrow.Nanosecond, TimeZone: "UTC"}, "[1, 2]"), "rerun:index_name", "time"),
		column{"frame", ints(t, "[2, 1]"), []string{"rerun:kind", "time", "rerun:is_sorted", "yes"}},
		column{"plain", ints(t, "[7, null]"), nil},
		column{"odd", fromJSON(t, odd, "[[1], [2, 3]]"), []string{"rerun:component", "B:x", "rerun:archetype", "b.B", "foo", "bar"}},
		column{"large", fromJSON(t, arrow.LargeListOf(arrow.PrimitiveTypes.Int8), "[[1], []]"), []string{"rerun:kind", "component", "rerun:component", "A:x", "rerun:archetype", "a.A", "rerun:component_type", "T"}},
	))
	if err != nil {
		t.Fatal(err)
	}
	if c.ID() != chunk.MakeTUID(1, 10) || c.EntityPath() != `/a\ b/c` || c.RowIDsSorted() {
		t.Errorf("%s of %s, row ids sorted: %v", c.ID(), c.EntityPath(), c.RowIDsSorted())
	}
	want := []string{
		"rerun.controls.RowId: fixed_size_binary[16] nullable=false map[ARROW:extension:metadata:{\"namespace\":\"row\"} ARROW:extension:name:rerun.datatypes.TUID rerun:kind:control]",
		"frame: int64 nullable=true map[rerun:index_name:frame rerun:is_sorted:true rerun:kind:index]",
		"time: timestamp[ns] nullable=true map[rerun:index_name:time rerun:is_sorted:true rerun:kind:index]",
		"plain: list<item: int64> nullable=true map[rerun:component:plain rerun:kind:data]",
		"A:x: list<item: large_list<item: int8>> nullable=true map[rerun:archetype:a.A rerun:component:A:x rerun:component_type:T rerun:kind:data]",
		"B:x: list<item: int64> nullable=true map[rerun:archetype:b.B rerun:component:B:x rerun:kind:data]",
	}
	if diff := cmp.Diff(want, describe(c.Schema())); diff != "" {
		t.Error(diff)
	}
	if got := c.Component("plain").Values.String(); got != "[[7] (null)]" {
		t.Errorf("wrapped values: %s", got)
	}
}

// TestChunkOutlivesBatch releases the batch that a chunk was made of.
func TestChunkOutlivesBatch(t *testing.T) {
	for range 2 {
		b := batch(identity, rowIDs, index("frame", ints(t, "[2, 1]")), column{"v", lists(t, "[[1], null]"), nil}, column{"w", ints(t, "[1, 2]"), nil})
		one, err := chunk.FromRecordBatch(b)
		if err != nil {
			t.Fatal(err)
		}
		many, err := chunk.FromDataFrame(b, chunk.DataFrameOptions{Indexes: []string{"frame"}})
		if err != nil {
			t.Fatal(err)
		}
		b.Release()
		for _, c := range append(many, one) {
			r := c.RecordBatch()
			if got := c.Component("v").Values.String() + c.Component("w").Values.String(); got != "[[1] (null)][[1] [2]]" {
				t.Error(got)
			}
			r.Release()
			if got := c.Component("v").Values.String(); got != "[[1] (null)]" {
				t.Error(got)
			}
		}
	}
}

func TestFromDataFrameOverride(t *testing.T) {
	b := batch(map[string]string{"rerun:entity_path": "/b"}, index("frame", ints(t, "[1, 2]")),
		column{"/c:v", ints(t, "[1, 2]"), nil}, column{"w", ints(t, "[1, 2]"), []string{"rerun:entity_path", "/d"}})
	for _, o := range []chunk.DataFrameOptions{{Entity: "/x"}, {Entity: "/x", Override: true}} {
		cs, err := chunk.FromDataFrame(b, o)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, c := range cs {
			for _, m := range c.Components() {
				got = append(got, string(c.EntityPath())+" "+m.Component)
			}
		}
		want := []string{"/b /c:v", "/d w"}
		if o.Override {
			want = []string{"/x /c:v", "/x w"}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
}

func TestFromRecordReader(t *testing.T) {
	good := batch(nil, index("frame", ints(t, "[1, 2]")), column{"v", ints(t, "[1, 2]"), nil})
	bad := batch(nil, index("frame", ints(t, "[1, null]")), column{"v", ints(t, "[1, 2]"), nil})
	r, err := array.NewRecordReader(good.Schema(), []arrow.RecordBatch{good, bad, good})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	n := 0
	for c, err := range chunk.FromRecordReader(r, chunk.DataFrameOptions{}) {
		switch {
		case n == 0 && err == nil && c.NumRows() == 2:
		case n == 1 && errors.Is(err, chunk.ErrNullTime) && strings.Contains(err.Error(), "record batch 1"):
		default:
			t.Errorf("%d: %v, %v", n, c, err)
		}
		n++
	}
	if n != 2 {
		t.Errorf("%d items", n)
	}
}

func TestNewErrors(t *testing.T) {
	v := chunk.Component{Descriptor: chunk.Descriptor{Component: "v"}, Values: lists(t, "[[1], [2]]")}
	for name, c := range map[string]struct {
		times      []chunk.TimeColumn
		components []chunk.Component
		want       error
	}{
		"none":      {nil, nil, chunk.ErrNoComponent},
		"nil":       {nil, []chunk.Component{{Descriptor: v.Descriptor}}, chunk.ErrNotList},
		"time":      {[]chunk.TimeColumn{chunk.NewTimeColumn("t", chunk.Sequence, []int64{1})}, []chunk.Component{v}, chunk.ErrLength},
		"component": {nil, []chunk.Component{v, {Descriptor: chunk.Descriptor{Component: "w"}, Values: lists(t, "[[1]]")}}, chunk.ErrLength},
	} {
		if _, err := chunk.New("/a", c.times, c.components); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := chunk.Partition(ints(t, "[1, 2]"), []int{1}); !errors.Is(err, chunk.ErrLength) {
		t.Errorf("too short: %v", err)
	}
	if _, err := chunk.Partition(ints(t, "[1, 2]"), []int{1, 2}); !errors.Is(err, chunk.ErrLength) {
		t.Errorf("too long: %v", err)
	}
	if _, err := chunk.Partition(ints(t, "[1, 2]"), []int{3, -1}); !errors.Is(err, chunk.ErrLength) {
		t.Errorf("negative: %v", err)
	}
}

func TestNewProperty(t *testing.T) {
	c, err := chunk.NewProperty("my run", archetype.NewTextDocument("hello").Components()...)
	if err != nil {
		t.Fatal(err)
	}
	if c.EntityPath() != `/__properties/my\ run` || !c.IsStatic() || c.NumRows() != 1 {
		t.Errorf("%s, static %v, %d rows", c.EntityPath(), c.IsStatic(), c.NumRows())
	}
	if _, err := chunk.NewProperty("x", archetype.NewTextDocument("a", "b").Columns()...); !errors.Is(err, chunk.ErrLength) {
		t.Error(err)
	}
}

func TestParseTUID(t *testing.T) {
	for _, text := range []string{"", "0", "0000000000000001000000000000000", "000000000000000100000000000000011", "0000000000000001000000000000000g", "chunk_0000000000000001000000000000000"} {
		if id, err := chunk.ParseTUID(text); !errors.Is(err, chunk.ErrTUID) {
			t.Errorf("%q: %s, %v", text, id, err)
		}
	}
	if got := chunk.MakeTUID(0xABCDEF, 0xABCDEF).String(); got != "0000000000ABCDEF0000000000abcdef" {
		t.Error(got)
	}
}

func TestNewTUIDsIncrease(t *testing.T) {
	var wg sync.WaitGroup
	ids := make([][]chunk.TUID, 4)
	for w := range ids {
		wg.Go(func() {
			for range 1000 {
				ids[w] = append(ids[w], chunk.NewTUID(), chunk.NewTUIDs(3).Add(2))
			}
		})
	}
	wg.Wait()
	for _, l := range ids {
		if !slices.IsSortedFunc(l, chunk.TUID.Compare) {
			t.Error("ids do not increase")
		}
	}
	all := slices.Concat(ids...)
	slices.SortFunc(all, chunk.TUID.Compare)
	if n := len(slices.Compact(all)); n != 8000 {
		t.Errorf("%d different ids", n)
	}
}

// TestConcurrentUse is for the race detector.
func TestConcurrentUse(t *testing.T) {
	odd := arrow.ListOfField(arrow.Field{Name: "element", Type: arrow.PrimitiveTypes.Int64})
	c, err := chunk.FromRecordBatch(batch(identity, rowIDs, index("frame", ints(t, "[2, 1]")), column{"v", lists(t, "[[1], null]"), nil},
		column{"w", fromJSON(t, odd, "[null, [2, 3]]"), nil}))
	if err != nil {
		t.Fatal(err)
	}
	half := c.Slice(0, 1)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for _, c := range []*chunk.Chunk{c, half} {
				c.SizeBytes()
				c.Format(chunk.FormatOptions{})
				c.SortByRowID()
				c.SortByTime("frame")
				c.WithEntityPath("/x").Slice(0, 1).RecordBatch().Release()
				for _, m := range c.Components() {
					m.Values.NullN()
				}
				if _, err := c.WithRowIDs(c.RowIDs()); err != nil {
					t.Error(err)
				}
				if _, err := chunk.Concat(half, c); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}
