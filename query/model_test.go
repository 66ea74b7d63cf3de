package query_test

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/reelhouse/reelhouse/chunk"
	"github.com/reelhouse/reelhouse/query"
	"github.com/reelhouse/reelhouse/rrd"
	"github.com/reelhouse/reelhouse/store"
)

// The model keeps cells one by one and answers by looking at all of them for
// every cell of the result, straight from the rules of spec/chunks.md 7.

type modelChunk struct {
	entity string
	names  []string           // of components
	times  map[string][]int64 // by timeline
	ids    []uint64           // row ids, unique
	cells  map[string][]string
}

var timelineNames = []string{"t", "u", "w"}

func drawChunk(t *rapid.T, nextID func() uint64) *modelChunk {
	c := &modelChunk{
		entity: rapid.SampledFrom([]string{"/a", "/a/b", "/a/b/c", "/d", "/__properties/p"}).Draw(t, "entity"),
		times:  map[string][]int64{}, cells: map[string][]string{},
	}
	n := rapid.IntRange(1, 6).Draw(t, "rows")
	if rapid.IntRange(0, 5).Draw(t, "static") > 0 {
		for i, name := range timelineNames {
			if i == 0 && rapid.IntRange(0, 7).Draw(t, "has t") > 0 || i > 0 && rapid.Bool().Draw(t, "has "+name) {
				c.times[name] = rapid.SliceOfN(rapid.Int64Range(-2, 12), n, n).Draw(t, name)
				if rapid.Bool().Draw(t, "sorted") {
					slices.Sort(c.times[name])
				}
			}
		}
	}
	for range n {
		c.ids = append(c.ids, nextID())
	}
	if rapid.Bool().Draw(t, "ids sorted") {
		slices.Sort(c.ids)
	}
	for _, name := range []string{"x", "y", "Transform3D:translation", store.ClearComponent} {
		if rapid.IntRange(0, 2).Draw(t, "has "+name) == 0 {
			continue
		}
		c.names = append(c.names, name)
		values := []string{"null", "null", "[]", "[1]", "[2,3]", "[null]", "[4]"}
		if name == store.ClearComponent {
			values = []string{"null", "[]", "[true]", "[true]", "[false]", "[null]", "[true,false]"}
		}
		for range n {
			c.cells[name] = append(c.cells[name], rapid.SampledFrom(values).Draw(t, "cell"))
		}
	}
	return c
}

func (c *modelChunk) build(t *rapid.T) *chunk.Chunk {
	ids := make([]byte, 16*len(c.ids))
	for i, id := range c.ids {
		binary.BigEndian.PutUint64(ids[16*i+8:], id)
	}
	var times []chunk.TimeColumn
	for name, v := range c.times {
		times = append(times, chunk.NewTimeColumn(name, chunk.Sequence, v))
	}
	var comps []chunk.Component
	for _, name := range c.names {
		var dt arrow.DataType = arrow.PrimitiveTypes.Int64
		if name == store.ClearComponent {
			dt = arrow.FixedWidthTypes.Boolean
		}
		b := array.NewBuilder(memory.DefaultAllocator, arrow.ListOf(dt)).(*array.ListBuilder)
		for _, cell := range c.cells[name] {
			if cell == "null" {
				b.AppendNull()
				continue
			}
			b.Append(true)
			for _, v := range strings.FieldsFunc(cell, func(r rune) bool { return strings.ContainsRune("[],", r) }) {
				if v == "null" {
					b.ValueBuilder().AppendNull()
				} else if err := b.ValueBuilder().AppendValueFromString(v); err != nil {
					t.Fatal(err)
				}
			}
		}
		d := chunk.Descriptor{Component: name}
		if arch, _, ok := strings.Cut(name, ":"); ok {
			d.Archetype = "rerun.archetypes." + arch
		}
		comps = append(comps, chunk.Component{Descriptor: d, Values: b.NewListArray()})
	}
	out, err := chunk.Assemble(chunk.NewTUID(), chunk.EntityPath(c.entity), ids, times, comps)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

type modelKey struct{ entity, name string }

type modelCell struct {
	modelKey
	value string
	id    uint64
	times map[string]int64
	fixed bool // static
}

type model struct {
	cells   []modelCell
	keys    []modelKey // in schema order
	static  map[modelKey]bool
	full    map[modelKey]bool // not semantically empty
	indexes []string
}

func newModel(chunks []*modelChunk) *model {
	m := &model{static: map[modelKey]bool{}, full: map[modelKey]bool{}}
	last := func(c *modelChunk, name string) (id uint64) {
		for i, v := range c.cells[name] {
			if v != "null" {
				id = max(id, c.ids[i])
			}
		}
		return id
	}
	// Static chunks that lose all they owned to newer ones are gone.
	owner, gone := map[modelKey]*modelChunk{}, map[*modelChunk]bool{}
	for _, c := range chunks {
		for _, n := range c.names {
			k := modelKey{c.entity, n}
			old := owner[k]
			if len(c.times) > 0 || last(c, n) == 0 || old != nil && last(old, n) > last(c, n) {
				continue
			}
			owner[k] = c
			if old == nil || slices.Contains(old.names, "Transform3D:translation") {
				continue
			}
			gone[old] = true
			for _, o := range owner {
				if o == old {
					delete(gone, old)
				}
			}
		}
	}
	for _, c := range chunks {
		if len(c.names) == 0 || gone[c] {
			continue
		}
		for name := range c.times {
			if !slices.Contains(m.indexes, name) {
				m.indexes = append(m.indexes, name)
			}
		}
		for _, n := range c.names {
			k := modelKey{c.entity, n}
			if !slices.Contains(m.keys, k) {
				m.keys = append(m.keys, k)
			}
			m.static[k] = m.static[k] || len(c.times) == 0
			for i, v := range c.cells[n] {
				m.full[k] = m.full[k] || v != "null" && v != "[]"
				cell := modelCell{k, v, c.ids[i], map[string]int64{}, len(c.times) == 0}
				for name, times := range c.times {
					cell.times[name] = times[i]
				}
				if v != "null" {
					m.cells = append(m.cells, cell)
				}
			}
		}
	}
	slices.Sort(m.indexes)
	arch := func(n string) string {
		a, _, ok := strings.Cut(n, ":")
		if !ok {
			return ""
		}
		return a
	}
	slices.SortFunc(m.keys, func(a, b modelKey) int {
		return cmp.Or(chunk.EntityPath(a.entity).Compare(chunk.EntityPath(b.entity)), cmp.Compare(arch(a.name), arch(b.name)), cmp.Compare(a.name, b.name))
	})
	return m
}

// clears reports whether a cell clears the entity.
func (m *model) clears(c *modelCell, entity string) bool {
	if c.name != store.ClearComponent || m.static[c.modelKey] {
		return false
	}
	return c.entity == entity || strings.HasPrefix(entity, c.entity+"/") && strings.HasPrefix(c.value, "[true")
}

func (m *model) answer(q query.Query) (names []string, columns map[string][]string) {
	var keys []modelKey
	for _, k := range m.keys {
		switch {
		case !q.Contents.Match(chunk.EntityPath(k.entity)), k.name == store.ClearComponent && !q.IncludeTombstones,
			!m.full[k] && !q.IncludeEmpty, q.Index == "" && !m.static[k]:
			continue
		}
		keys = append(keys, k)
	}
	columns = map[string][]string{}
	for _, n := range m.indexes {
		names = append(names, n)
		columns[n] = []string{}
	}
	for _, k := range keys {
		n := chunk.ColumnName(chunk.EntityPath(k.entity), k.name)
		names = append(names, n)
		columns[n] = []string{}
	}
	best := func(match func(*modelCell) bool, less func(a, b *modelCell) bool) *modelCell {
		var out *modelCell
		for i := range m.cells {
			if c := &m.cells[i]; match(c) && (out == nil || less(out, c)) {
				out = c
			}
		}
		return out
	}
	byID := func(a, b *modelCell) bool { return a.id < b.id }
	staticCell := func(k modelKey) *modelCell {
		return best(func(c *modelCell) bool { return c.fixed && c.modelKey == k }, byID)
	}
	add := func(name, value string) { columns[name] = append(columns[name], value) }
	if q.Index == "" {
		if len(names) > 0 {
			for _, n := range m.indexes {
				add(n, "null")
			}
			for _, k := range keys {
				if c := staticCell(k); c != nil {
					add(chunk.ColumnName(chunk.EntityPath(k.entity), k.name), c.value)
				} else {
					add(chunk.ColumnName(chunk.EntityPath(k.entity), k.name), "null")
				}
			}
		}
		return names, columns
	}

	var rows []int64
	if q.At != nil {
		rows = slices.Sorted(slices.Values(q.At))
	} else {
		for i := range m.cells {
			c := &m.cells[i]
			v, ok := c.times[q.Index]
			if !ok || slices.Contains(rows, v) {
				continue
			}
			if slices.ContainsFunc(keys, func(k modelKey) bool { return c.modelKey == k && staticCell(k) == nil || m.clears(c, k.entity) }) {
				rows = append(rows, v)
			}
		}
		slices.Sort(rows)
	}
	for _, v := range rows {
		if q.Range != nil && (v < q.Range.Start || v > q.Range.End) {
			continue
		}
		latest := map[string]int64{}
		for _, k := range keys {
			name := chunk.ColumnName(chunk.EntityPath(k.entity), k.name)
			if c := staticCell(k); c != nil {
				add(name, c.value)
				continue
			}
			here := func(c *modelCell) bool { at, ok := c.times[q.Index]; return ok && at == v }
			before := func(c *modelCell) bool { at, ok := c.times[q.Index]; return ok && at <= v }
			newer := func(a, b *modelCell) bool {
				return cmp.Or(cmp.Compare(a.times[q.Index], b.times[q.Index]), cmp.Compare(a.id, b.id)) < 0
			}
			pick := func(when func(*modelCell) bool, withClears bool) (*modelCell, string) {
				cell := best(func(c *modelCell) bool { return when(c) && c.modelKey == k }, newer)
				if withClears {
					wipe := best(func(c *modelCell) bool { return when(c) && m.clears(c, k.entity) }, newer)
					if wipe != nil && (cell == nil || newer(cell, wipe)) {
						return wipe, "[]"
					}
				}
				if cell == nil {
					return nil, "null"
				}
				return cell, cell.value
			}
			cell, text := pick(here, true)
			if cell == nil && q.FillLatestAt {
				cell, text = pick(before, !q.Compat)
			}
			add(name, text)
			if cell != nil {
				for n, at := range cell.times {
					if old, ok := latest[n]; !ok || at > old {
						latest[n] = at
					}
				}
			}
		}
		for _, n := range m.indexes {
			if at, ok := latest[n]; n == q.Index {
				add(n, fmt.Sprint(v))
			} else if ok {
				add(n, fmt.Sprint(at))
			} else {
				add(n, "null")
			}
		}
	}
	return names, columns
}

// lazyView makes a memory view look like a large file: chunks are to be loaded, few at a time.
type lazyView struct {
	store.View
	entries []rrd.Entry
	loads   map[int]int
}

func newLazyView(v store.View, size uint64) *lazyView {
	l := &lazyView{v, slices.Clone(v.Entries()), map[int]int{}}
	for i := range l.entries {
		l.entries[i].Size = size
	}
	return l
}

func (l *lazyView) Entries() []rrd.Entry { return l.entries }
func (l *lazyView) Resident() bool       { return false }
func (l *lazyView) Load(ctx context.Context, positions []int) ([]*chunk.Chunk, error) {
	for _, p := range positions {
		l.loads[p]++
	}
	return l.View.Load(ctx, positions)
}

func TestAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := uint64(0)
		var order []uint64
		for range 200 {
			order = append(order, uint64(len(order)+1))
		}
		order = rapid.Permutation(order).Draw(t, "row ids")
		nextID := func() uint64 { id++; return order[(id-1)%200] + id/200*200 }
		var chunks []*modelChunk
		m := store.NewMemory()
		for range rapid.IntRange(0, 8).Draw(t, "chunks") {
			c := drawChunk(t, nextID)
			chunks = append(chunks, c)
			m.Insert(c.build(t))
		}
		mod := newModel(chunks)
		q := query.Query{
			IncludeEmpty: rapid.Bool().Draw(t, "empty"), IncludeTombstones: rapid.Bool().Draw(t, "tombstones"),
			FillLatestAt: rapid.Bool().Draw(t, "fill"), Compat: rapid.Bool().Draw(t, "compat"),
			BatchRows: rapid.IntRange(1, 5).Draw(t, "batch"), Workers: rapid.IntRange(1, 3).Draw(t, "workers"),
		}
		if len(mod.indexes) > 0 && rapid.IntRange(0, 5).Draw(t, "index") > 0 {
			q.Index = rapid.SampledFrom(mod.indexes).Draw(t, "index name")
		}
		if rapid.Bool().Draw(t, "contents") {
			q.Contents, _ = query.ParseContents(rapid.SampledFrom([]string{"/a/**", "/a/b /d", "/** /__properties/**", "/a/** - /a/b", "/d"}).Draw(t, "rules"))
		}
		if rapid.IntRange(0, 2).Draw(t, "at") == 0 {
			q.At = rapid.SliceOfDistinct(rapid.Int64Range(-4, 14), func(v int64) int64 { return v }).Draw(t, "values")
		}
		if rapid.IntRange(0, 3).Draw(t, "range") == 0 {
			q.Range = &query.Range{Start: rapid.Int64Range(-3, 13).Draw(t, "from"), End: rapid.Int64Range(-3, 13).Draw(t, "to")}
		}
		var view store.View = m.View()
		if rapid.Bool().Draw(t, "lazy") {
			view = newLazyView(view, rapid.SampledFrom([]uint64{1 << 30, 3 << 20}).Draw(t, "size"))
		}
		names, want := mod.answer(q)
		got, err := run(view, q)
		if err != nil {
			t.Fatal(err)
		}
		var gotNames []string
		for i, f := range got.schema.Fields() {
			gotNames = append(gotNames, f.Name)
			if d := gocmp.Diff(want[f.Name], got.column(i)); d != "" {
				t.Errorf("%+v: column %q: %s", q, f.Name, d)
			}
		}
		if d := gocmp.Diff(names, gotNames); d != "" {
			t.Error(d)
		}
		if got.largest > q.BatchRows {
			t.Errorf("batch of %d rows", got.largest)
		}
		if l, ok := view.(*lazyView); ok {
			for p, n := range l.loads {
				if n > 1 {
					t.Errorf("chunk %d was loaded %d times", p, n)
				}
			}
		}
	})
}

func TestSmallestTime(t *testing.T) {
	at, err := query.IndexValues(chunk.Sequence, false, chunk.TimesArray(chunk.Sequence, []int64{math.MinInt64, 5}))
	if err != nil {
		t.Fatal(err)
	}
	c := &modelChunk{entity: "/a", names: []string{"x"}, times: map[string][]int64{"t": {math.MinInt64 + 1, 3, math.MaxInt64}}, ids: []uint64{1, 2, 3}, cells: map[string][]string{"x": {"[1]", "[2]", "[3]"}}}
	var v store.View
	rapid.Check(t, func(t *rapid.T) { v = store.NewMemory(c.build(t)).View() })
	for _, tc := range []struct {
		q    query.Query
		want []string
	}{
		{query.Query{Index: "t", At: at}, []string{"[1]", "null"}},
		{query.Query{Index: "t", At: at, FillLatestAt: true}, []string{"[1]", "[2]"}},
		{query.Query{Index: "t"}, []string{"[1]", "[2]", "[3]"}},
		{query.Query{Index: "t", FillLatestAt: true, Range: &query.Range{Start: 4, End: math.MaxInt64}}, []string{"[3]"}},
	} {
		got, err := run(v, tc.q)
		if err != nil {
			t.Fatal(err)
		}
		if d := gocmp.Diff(tc.want, got.column(1)); d != "" {
			t.Errorf("%+v: %s", tc.q, d)
		}
	}
}
