package store_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"

	"github.com/reelhouse/reelhouse/chunk"
	"github.com/reelhouse/reelhouse/internal/testkit"
	"github.com/reelhouse/reelhouse/rrd"
	"github.com/reelhouse/reelhouse/store"
)

// comp is a component of lists of one int64; -1 is null and -2 an empty list.
func comp(d chunk.Descriptor, values ...int64) chunk.Component {
	b := array.NewListBuilder(memory.DefaultAllocator, arrow.PrimitiveTypes.Int64)
	for _, v := range values {
		switch v {
		case -1:
			b.AppendNull()
		case -2:
			b.Append(true)
		default:
			b.Append(true)
			b.ValueBuilder().(*array.Int64Builder).Append(v)
		}
	}
	return chunk.Component{Descriptor: d, Values: b.NewListArray()}
}

func named(name string) chunk.Descriptor { return chunk.Descriptor{Component: name} }

func make1(t *testing.T, entity chunk.EntityPath, ids []uint64, times []int64, comps ...chunk.Component) *chunk.Chunk {
	t.Helper()
	raw := make([]byte, 16*len(ids))
	for i, id := range ids {
		binary.BigEndian.PutUint64(raw[16*i+8:], id)
	}
	var cols []chunk.TimeColumn
	if times != nil {
		cols = append(cols, chunk.NewTimeColumn("t", chunk.Sequence, times))
	}
	c, err := chunk.Assemble(chunk.NewTUID(), entity, raw, cols, comps)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestInsert(t *testing.T) {
	m := store.NewMemory()
	c := make1(t, "/a", []uint64{3, 1, 2}, []int64{1, 2, 3}, comp(named("x"), 1, 2, -1))
	if !m.Insert(c) || m.Insert(c) {
		t.Error("a chunk is taken once")
	}
	if m.Insert(make1(t, "/a", nil, []int64{}, comp(named("x")))) || m.Insert(make1(t, "/a", []uint64{1}, []int64{1})) {
		t.Error("chunks without rows or components are ignored")
	}
	got := m.Chunks()[0]
	if !got.RowIDsSorted() || got.ID() != c.ID() || got.Timeline("t").Times[0] != 2 {
		t.Error("rows are not sorted by id")
	}
}

func TestStaticOverwrite(t *testing.T) {
	x, y := named("x"), named("y")
	tr := chunk.ArchetypeDescriptor("rerun.archetypes.Transform3D", "translation", "")
	for name, tc := range map[string]struct {
		chunks []*chunk.Chunk
		left   int
	}{
		"newer":         {[]*chunk.Chunk{make1(t, "/a", []uint64{1}, nil, comp(x, 1)), make1(t, "/a", []uint64{2}, nil, comp(x, 2))}, 1},
		"older comes":   {[]*chunk.Chunk{make1(t, "/a", []uint64{2}, nil, comp(x, 1)), make1(t, "/a", []uint64{1}, nil, comp(x, 2))}, 2},
		"one each":      {[]*chunk.Chunk{make1(t, "/a", []uint64{2}, nil, comp(x, 1)), make1(t, "/a", []uint64{1}, nil, comp(x, 2), comp(y, 2)), make1(t, "/a", []uint64{3}, nil, comp(y, 3))}, 2},
		"null is owned": {[]*chunk.Chunk{make1(t, "/a", []uint64{1}, nil, comp(x, 1), comp(y, -1)), make1(t, "/a", []uint64{2}, nil, comp(x, 3))}, 1},
		"other entity":  {[]*chunk.Chunk{make1(t, "/a", []uint64{1}, nil, comp(x, 1)), make1(t, "/b", []uint64{2}, nil, comp(x, 2))}, 2},
		"part":          {[]*chunk.Chunk{make1(t, "/a", []uint64{1}, nil, comp(x, 1), comp(y, 1)), make1(t, "/a", []uint64{2}, nil, comp(x, 2))}, 2},
		"both parts":    {[]*chunk.Chunk{make1(t, "/a", []uint64{1}, nil, comp(x, 1), comp(y, 1)), make1(t, "/a", []uint64{2}, nil, comp(x, 2)), make1(t, "/a", []uint64{3}, nil, comp(y, 2))}, 2},
		"null is newer": {[]*chunk.Chunk{make1(t, "/a", []uint64{1}, nil, comp(x, 1)), make1(t, "/a", []uint64{2}, nil, comp(x, -1))}, 2},
		"transform":     {[]*chunk.Chunk{make1(t, "/a", []uint64{1}, nil, comp(tr, 1)), make1(t, "/a", []uint64{2}, nil, comp(tr, 2))}, 2},
		"temporal":      {[]*chunk.Chunk{make1(t, "/a", []uint64{1}, []int64{1}, comp(x, 1)), make1(t, "/a", []uint64{2}, nil, comp(x, 2))}, 2},
	} {
		if got := store.NewMemory(tc.chunks...).View().Entries(); len(got) != tc.left {
			t.Errorf("%s: %d chunks left, want %d", name, len(got), tc.left)
		}
	}
	// The columns are those of the chunks left.
	v := store.NewMemory(make1(t, "/a", []uint64{1}, nil, comp(x, 1)), make1(t, "/a", []uint64{2}, nil, comp(x, -2))).View()
	if s := v.Schema(); len(s.Components) != 1 || !s.Components[0].Empty || !s.Components[0].Static {
		t.Errorf("%+v", s.Components)
	}
}

func TestViewsAreSnapshots(t *testing.T) {
	m := store.NewMemory(make1(t, "/a", []uint64{1}, nil, comp(named("x"), 1)))
	before := m.View()
	if m.View() != before {
		t.Error("an unchanged store gives another view")
	}
	m.Insert(make1(t, "/a", []uint64{2}, nil, comp(named("x"), 2)))
	m.Insert(make1(t, "/a", []uint64{3}, nil, comp(named("y"), 2)))
	c, err := before.Load(t.Context(), []int{0})
	if err != nil || c[0] == nil || c[0].RowID(0).Inc() != 1 || len(before.Entries()) != 1 || len(before.Schema().Components) != 1 {
		t.Error("an earlier view has changed", c, err)
	}
	if len(m.View().Entries()) != 2 {
		t.Error("a later view has not")
	}
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for k := range 50 {
				m.Insert(make1(t, "/a", []uint64{uint64(10 + 50*i + k)}, nil, comp(named("x"), 1)))
				v := m.View()
				got, err := v.Load(context.Background(), []int{len(v.Entries()) - 1})
				if err != nil || got[0] == nil {
					t.Error("no chunk", err)
				}
				store.Summary(v)
			}
		})
	}
	wg.Wait()
}

func TestConflicts(t *testing.T) {
	f := array.NewListBuilder(memory.DefaultAllocator, arrow.PrimitiveTypes.Float64)
	f.AppendNull()
	other := chunk.Component{Descriptor: named("x"), Values: f.NewListArray()}
	s := store.NewMemory(make1(t, "/a", []uint64{1}, []int64{1}, comp(named("x"), 1)), make1(t, "/a", []uint64{2}, []int64{1}, other)).View().Schema()
	if err := s.Components[0].Conflict(); err == nil || !strings.Contains(err.Error(), `"/a:x"`) || !strings.Contains(err.Error(), "int64 and float64") {
		t.Error(err)
	}
}

// TestLazyAgainstMemory reads every golden recording both ways.
func TestLazyAgainstMemory(t *testing.T) {
	dir := testkit.Golden(t, "rrd")
	files := 0
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".rrd" {
			return err
		}
		f, err := rrd.Open(path, rrd.FileOptions{})
		if err != nil {
			return nil // damaged on purpose
		}
		defer f.Close()
		recs, err := store.Recordings(t.Context(), f)
		if err != nil {
			return nil
		}
		memories := map[rrd.StoreID]*store.Memory{}
		faulty := false
		opt := rrd.ReadOptions{ScanOptions: rrd.ScanOptions{Report: func(*rrd.Error) { faulty = true }}}
		for item, err := range rrd.Read(t.Context(), f.Reader(), opt) {
			if err != nil {
				return nil
			}
			if item.Chunk != nil {
				if memories[item.Arrow.Store] == nil {
					memories[item.Arrow.Store] = store.NewMemory()
				}
				memories[item.Arrow.Store].Insert(item.Chunk)
			}
		}
		if faulty {
			return nil
		}
		files++
		for _, r := range recs {
			m := memories[r.ID]
			if m == nil {
				if len(r.Entries()) > 0 {
					t.Errorf("%s: %s is not in the stream", path, r.ID)
				}
				continue
			}
			want := m.View().Schema()
			if d := cmp.Diff(names(want), names(r.Schema())); d != "" {
				t.Errorf("%s: %s: %s", path, r.ID, d)
			}
			all := make([]int, len(r.Entries()))
			for i := range all {
				all[i] = len(all) - 1 - i
			}
			chunks, err := r.Load(t.Context(), all)
			if err != nil {
				t.Errorf("%s: %s: %v", path, r.ID, err)
				continue
			}
			again := store.NewMemory()
			for i, c := range slices.Backward(chunks) { // in file order
				if e := r.Entries()[all[i]]; c.ID() != e.ID || c.NumRows() != int(e.NumRows) {
					t.Errorf("%s: chunk %s is not the one of its entry", path, c.ID())
				}
				again.Insert(c)
			}
			if d := cmp.Diff(store.Summary(m.View()), store.Summary(again.View())); d != "" {
				t.Errorf("%s: %s: %s", path, r.ID, d)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 10 {
		t.Errorf("only %d files", files)
	}
}

func names(s *store.Schema) []string {
	var out []string
	for _, i := range s.Indexes {
		out = append(out, i.Name+" "+i.Kind.String())
	}
	for _, c := range s.Components {
		var flags bytes.Buffer
		for _, f := range []bool{c.Static, c.Empty, c.Tombstone} {
			if f {
				flags.WriteString(" true")
			} else {
				flags.WriteString(" false")
			}
		}
		out = append(out, c.Name()+" "+c.Archetype+" "+c.Type.String()+flags.String())
	}
	return out
}
