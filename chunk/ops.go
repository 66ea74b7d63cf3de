package chunk

import (
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/reelhouse/reelhouse/internal/gather"
)

// with returns a chunk of the same rows under a fresh id with other columns.
func (c *Chunk) with(entity EntityPath, times []TimeColumn, components []Component) *Chunk {
	return &Chunk{id: NewTUID(), entity: entity, rows: c.rows, rowIDs: c.rowIDs, rowsSorted: c.rowsSorted,
		times: times, components: components, segment: c.segment}
}

// WithEntityPath is the chunk moved to another entity: fresh id, rows unchanged.
func (c *Chunk) WithEntityPath(entity EntityPath) *Chunk {
	return c.with(entity, c.times, c.components)
}

// WithID is the same chunk under another id.
func (c *Chunk) WithID(id TUID) *Chunk {
	out := c.with(c.entity, c.times, c.components)
	out.id = id
	return out
}

// WithRowIDs is the chunk under a fresh id with the given row ids, 16 bytes a row.
func (c *Chunk) WithRowIDs(rowIDs []byte) (*Chunk, error) {
	return Assemble(NewTUID(), c.entity, rowIDs, c.times, c.components)
}

// SelectComponents keeps the component columns that keep accepts. The row ids
// stay; the id is fresh if a column goes.
func (c *Chunk) SelectComponents(keep func(Component) bool) *Chunk {
	kept := make([]Component, 0, len(c.components))
	for _, m := range c.components {
		if keep(m) {
			kept = append(kept, m)
		}
	}
	if len(kept) == len(c.components) {
		return c
	}
	return c.with(c.entity, c.times, kept)
}

// WithComponents is the chunk under a fresh id with other component columns.
func (c *Chunk) WithComponents(components []Component) (*Chunk, error) {
	return Assemble(NewTUID(), c.entity, c.rowIDs, c.times, components)
}

// DropTimelines removes timelines; a chunk left without any is static.
func (c *Chunk) DropTimelines(drop func(Timeline) bool) *Chunk {
	kept := make([]TimeColumn, 0, len(c.times))
	for _, t := range c.times {
		if !drop(t.Timeline) {
			kept = append(kept, t)
		}
	}
	if len(kept) == len(c.times) {
		return c
	}
	return c.with(c.entity, kept, c.components)
}

// Slice is rows [from, to) under a fresh id, without copying values.
func (c *Chunk) Slice(from, to int) *Chunk {
	if from < 0 || to < from || to > c.rows {
		panic(fmt.Sprintf("chunk: slice [%d:%d] of %d rows", from, to, c.rows))
	}
	if from == 0 && to == c.rows {
		return c
	}
	out := &Chunk{id: NewTUID(), entity: c.entity, rows: to - from, rowIDs: c.rowIDs[16*from : 16*to], segment: c.segment}
	out.rowsSorted = c.rowsSorted || rowIDsSorted(out.rowIDs)
	out.times = make([]TimeColumn, len(c.times))
	for i, t := range c.times {
		times := t.Times[from:to]
		out.times[i] = TimeColumn{t.Timeline, times, t.Sorted || slices.IsSorted(times)}
	}
	out.components = make([]Component, len(c.components))
	for i, m := range c.components {
		l := array.NewSlice(m.Values, int64(from), int64(to)).(*array.List)
		l.NullN() // counts once, which readers at the same time must not do
		out.components[i] = Component{m.Descriptor, l}
	}
	return out
}

// Take is the given rows in the given order under a fresh id. Row ids go with
// their rows, so that no row should be given twice.
func (c *Chunk) Take(rows []int) *Chunk {
	out := &Chunk{id: NewTUID(), entity: c.entity, rows: len(rows), rowIDs: pickRowIDs(c.rowIDs, rows), segment: c.segment}
	out.rowsSorted = rowIDsSorted(out.rowIDs)
	out.times = make([]TimeColumn, len(c.times))
	for i, t := range c.times {
		out.times[i] = NewTimeColumn(t.Name, t.Kind, pick(t.Times, rows))
	}
	out.components = make([]Component, len(c.components))
	for i, m := range c.components {
		out.components[i] = Component{m.Descriptor, take(m.Values, rows).(*array.List)}
	}
	return out
}

// Filter keeps the rows that keep accepts; the chunk itself if that is all of them.
func (c *Chunk) Filter(keep func(row int) bool) *Chunk {
	rows := make([]int, 0, c.rows)
	for i := range c.rows {
		if keep(i) {
			rows = append(rows, i)
		}
	}
	if len(rows) == c.rows {
		return c
	}
	return c.Take(rows)
}

// SortByRowID is the chunk with ascending row ids; the chunk itself if they are.
func (c *Chunk) SortByRowID() *Chunk {
	if c.rowsSorted {
		return c
	}
	order := make([]int, c.rows)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return c.RowID(a).Compare(c.RowID(b)) })
	return c.Take(order)
}

// SortByTime is the chunk sorted stably by the timeline of that name; the chunk
// itself if it is sorted or has no such timeline.
func (c *Chunk) SortByTime(timeline string) *Chunk {
	t := c.Timeline(timeline)
	if t == nil || t.Sorted {
		return c
	}
	return c.Take(timeOrder([]TimeColumn{*t}, c.rows))
}

// Concat joins chunks of one entity and one set of timelines into one under a
// fresh id. Rows keep their order and ids; components that a chunk lacks are
// null in its rows. Components of one identifier must agree in type.
func Concat(chunks ...*Chunk) (*Chunk, error) {
	if len(chunks) == 0 {
		return nil, fmt.Errorf("concatenate chunks: %w", ErrNoComponent)
	}
	first := chunks[0]
	if len(chunks) == 1 {
		return first, nil
	}
	rows := 0
	for _, c := range chunks {
		rows += c.rows
	}
	rowIDs := make([]byte, 0, 16*rows)
	times := slices.Clone(first.times)
	for i := range times {
		times[i].Times = make([]int64, 0, rows)
	}
	var components []Component // of each identifier, the first descriptor seen
	for _, c := range chunks {
		if c.entity != first.entity || len(c.times) != len(times) {
			return nil, fmt.Errorf("concatenate %s and %s: different entities or timelines", first.entity, c.entity)
		}
		rowIDs = append(rowIDs, c.rowIDs...)
		for i, t := range c.times {
			if t.Timeline != times[i].Timeline {
				return nil, fmt.Errorf("concatenate chunks of %s: timeline %q is not in all of them", c.entity, t.Name)
			}
			times[i].Times = append(times[i].Times, t.Times...)
		}
		for _, m := range c.components {
			if !slices.ContainsFunc(components, func(o Component) bool { return o.Component == m.Component }) {
				components = append(components, m)
			}
		}
	}
	for i := range times {
		times[i].Sorted = slices.IsSorted(times[i].Times)
	}
	for i, m := range components {
		values, err := concatComponent(m, chunks)
		if err != nil {
			return nil, fmt.Errorf("concatenate chunks of %s: component %q: %w", first.entity, m.Component, err)
		}
		components[i].Values = values
	}
	return Assemble(NewTUID(), first.entity, rowIDs, times, components)
}

func concatComponent(m Component, chunks []*Chunk) (*array.List, error) {
	var srcs []arrow.Array
	var spans []gather.Span
	dt := m.Values.DataType()
	for _, c := range chunks {
		col := c.Component(m.Component)
		if col == nil {
			spans = append(spans, gather.Span{Src: -1, Len: c.rows})
			continue
		}
		if !arrow.TypeEqual(dt, col.Values.DataType()) {
			return nil, fmt.Errorf("types %v and %v", dt, col.Values.DataType())
		}
		spans = append(spans, gather.Span{Src: len(srcs), Len: c.rows})
		srcs = append(srcs, col.Values)
	}
	out, err := gather.Rows(dt, srcs, spans)
	if err != nil {
		return nil, err
	}
	return out.(*array.List), nil
}
