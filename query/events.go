package query

import (
	"fmt"
	"slices"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"

	"github.com/reelhouse/reelhouse/chunk"
	"github.com/reelhouse/reelhouse/store"
)

// source is where cells come from: a component of a chunk, or a clear.
type source struct {
	list  arrow.Array // nil for clears, whose cells are empty lists
	times [][]int64   // on the other indexes of the plan; nil where the chunk has none
	n     int         // rows

	// The number of the source in the batch at hand; only its column uses it.
	batch  int
	number int
}

// ref is one cell.
type ref struct {
	src *source
	row int32
}

// residentChunk is a loaded chunk, shared by the columns that read it.
type residentChunk struct {
	chunk *chunk.Chunk
	users atomic.Int32 // columns that have yet to open it

	once   sync.Once
	times  []int64 // on the queried index
	others [][]int64
	// strict: times strictly increase. order: rows by (time, row id), nil if
	// they are in that order already.
	strict bool
	order  []int32
}

func (l *residentChunk) prepare(p *plan) {
	l.once.Do(func() {
		for _, t := range l.chunk.Timelines() {
			if t.Name == p.index.Name {
				l.times = t.Times
			}
		}
		l.others = make([][]int64, len(p.others))
		for i, t := range p.others {
			if c := l.chunk.Timeline(t.Name); c != nil {
				l.others[i] = c.Times
			}
		}
		// Flags of foreign files are not trusted: a wrong one would break the sweep.
		sorted, strict := true, true
		for i := 1; i < len(l.times) && sorted; i++ {
			sorted = l.times[i] >= l.times[i-1]
			strict = strict && l.times[i] != l.times[i-1]
		}
		l.strict = sorted && strict
		if l.strict || sorted && rowIDsAscend(l.chunk.RowIDs()) {
			return
		}
		l.order = make([]int32, len(l.times))
		for i := range l.order {
			l.order[i] = int32(i)
		}
		ids := l.chunk.RowIDs()
		slices.SortStableFunc(l.order, func(a, b int32) int {
			switch x, y := l.times[a], l.times[b]; {
			case x < y:
				return -1
			case x > y:
				return 1
			}
			return compareIDs(ids, int(a), ids, int(b))
		})
	})
}

func rowIDsAscend(ids []byte) bool {
	for i := 1; i < len(ids)/16; i++ {
		if compareIDs(ids, i-1, ids, i) > 0 {
			return false
		}
	}
	return true
}

func compareIDs(a []byte, i int, b []byte, j int) int {
	x, y := string(a[i*16:i*16+16]), string(b[j*16:j*16+16])
	switch {
	case x < y:
		return -1
	case x > y:
		return 1
	}
	return 0
}

// clearMode says which cells of a source count.
type clearMode uint8

const (
	notClear      clearMode = iota
	ownClear                // a clear at the column's own entity: every cell
	ancestorClear           // a clear above it: cells whose first value is true
)

// part is a chunk that a stream has yet to open.
type part struct {
	entry      int // position in the view
	component  string
	clear      clearMode
	start, end int64 // of the component's cells on the queried index
}

// cursor runs over the non-null cells of one source by ascending index value.
type cursor struct {
	src   *source
	clear bool
	times []int64
	ids   []byte
	order []int32 // rows to visit; nil: all that valid says
	valid []byte  // with order nil; nil: all rows
	off   int     // of row 0 in valid
	// strict: no two rows have the same value
	strict bool
	i, n   int
	value  int64 // at i
}

// settle moves to the next cell at or after i; false at the end.
func (c *cursor) settle() bool {
	if c.order != nil {
		if c.i >= c.n {
			return false
		}
		c.value = c.times[c.order[c.i]]
		return true
	}
	if c.valid != nil {
		for c.i < c.n && !bitutil.BitIsSet(c.valid, c.off+c.i) {
			c.i++
		}
	}
	if c.i >= c.n {
		return false
	}
	c.value = c.times[c.i]
	return true
}

func (c *cursor) row() int32 {
	if c.order != nil {
		return c.order[c.i]
	}
	return int32(c.i)
}

// take steps over all cells at the current value and returns the row of the
// last, which has the greatest row id; more is false at the end.
func (c *cursor) take() (row int32, more bool) {
	v := c.value
	for {
		row = c.row()
		c.i++
		if more = c.settle(); !more || c.value != v {
			return row, more
		}
	}
}

// seek skips what no row of the answer sees: cells below start, but with keep
// the last at or before it.
func (c *cursor) seek(start int64, keep bool) bool {
	timeAt := func(i int) int64 {
		if c.order != nil {
			return c.times[c.order[i]]
		}
		return c.times[i]
	}
	if c.n == 0 || timeAt(0) >= start {
		return c.settle()
	}
	at := sort.Search(c.n, func(i int) bool { return timeAt(i) >= start })
	if keep {
		for at--; at > 0 && c.order == nil && c.valid != nil && !bitutil.BitIsSet(c.valid, c.off+at); at-- {
		}
	}
	c.i = at
	return c.settle()
}

// stream merges the parts of one column into ascending events, at most one a
// value (two in compat mode: a cell and the clear that hides it).
type stream struct {
	plan    *plan
	loaded  []*residentChunk // by position in the view
	pending []part           // by start
	heap    []*cursor        // by value
	name    string           // of the column, for errors
	typ     arrow.DataType   // of its lists
	first   int64            // least index value of interest
	keep    bool             // the last event before first is of interest

	values []int64 // buffered events, from head on
	refs   []ref
	head   int
	mark   int  // events before it have been made rows
	done   bool // no more events up to the horizon of the last pull
	err    error
}

// rewind drops consumed events from the buffer when they are most of it.
func (s *stream) rewind() {
	if 2*s.head < len(s.values) || s.head == 0 {
		return
	}
	n := copy(s.values, s.values[s.head:])
	copy(s.refs, s.refs[s.head:])
	clear(s.refs[n:]) // let go of their chunks
	s.values, s.refs = s.values[:n], s.refs[:n]
	s.mark = max(0, s.mark-s.head)
	s.head = 0
}

// pull buffers at least one and about n events with values up to horizon, or
// sets done. All chunks that start up to there must be loaded.
func (s *stream) pull(horizon int64, n int) {
	s.done = false
	target := len(s.values) + n
	for len(s.values) < target {
		for len(s.pending) > 0 && s.pending[0].start <= horizon && (len(s.heap) == 0 || s.pending[0].start <= s.heap[0].value) {
			if s.err = s.open(&s.pending[0]); s.err != nil {
				s.done = true
				return
			}
			s.pending = s.pending[1:]
		}
		if len(s.heap) == 0 || s.heap[0].value > horizon {
			s.done = true
			return
		}
		c := s.heap[0]
		last := horizon
		if len(s.pending) > 0 {
			last = min(last, s.pending[0].start-1)
		}
		tie := false
		for _, o := range s.heap[1:min(3, len(s.heap))] {
			if o.value == c.value {
				tie = true
			} else {
				last = min(last, o.value-1)
			}
		}
		if tie {
			s.contest(c.value)
			continue
		}
		if s.run(c, last, target) {
			s.sink()
		} else {
			s.pop()
		}
	}
}

// run emits the cells of the only cursor up to a value. It reports whether the cursor has more.
func (s *stream) run(c *cursor, last int64, target int) bool {
	if c.strict && c.order == nil && c.valid == nil {
		from, end := c.i, min(c.n, c.i+target-len(s.values))
		if c.times[end-1] > last {
			end = from + sort.Search(end-from, func(i int) bool { return c.times[from+i] > last })
		}
		s.values = append(s.values, c.times[from:end]...)
		s.refs = slices.Grow(s.refs, end-from)
		for i := from; i < end; i++ {
			s.refs = append(s.refs, ref{c.src, int32(i)})
		}
		c.i = end
		return c.settle()
	}
	for more := true; more; {
		if c.value > last || len(s.values) >= target {
			return true
		}
		v := c.value
		var row int32
		row, more = c.take()
		s.values, s.refs = append(s.values, v), append(s.refs, ref{c.src, row})
	}
	return false
}

// contest finds the winner among the cursors that stand at one value.
func (s *stream) contest(v int64) {
	var cell, wipe ref
	var cellIDs, wipeIDs []byte
	for len(s.heap) > 0 && s.heap[0].value == v {
		c := s.heap[0]
		row, more := c.take()
		best, ids := &cell, &cellIDs
		if c.clear {
			best, ids = &wipe, &wipeIDs
		}
		if best.src == nil || compareIDs(c.ids, int(row), *ids, int(best.row)) >= 0 {
			*best, *ids = ref{c.src, row}, c.ids
		}
		if more {
			s.sink()
		} else {
			s.pop()
		}
	}
	wiped := wipe.src != nil && (cell.src == nil || compareIDs(wipeIDs, int(wipe.row), cellIDs, int(cell.row)) > 0)
	if cell.src != nil && (!wiped || s.plan.Compat) {
		s.values, s.refs = append(s.values, v), append(s.refs, cell)
	}
	if wiped {
		s.values, s.refs = append(s.values, v), append(s.refs, wipe)
	}
}

// open makes a cursor of a part.
func (s *stream) open(pt *part) error {
	l := s.loaded[pt.entry]
	if l == nil || l.chunk == nil {
		return fmt.Errorf("column %q: a chunk was not loaded", s.name)
	}
	if l.users.Add(-1) == 0 {
		s.loaded[pt.entry] = nil
	}
	fail := func(format string, args ...any) error {
		return fmt.Errorf("column %q: chunk %s: %w", s.name, l.chunk.ID(), fmt.Errorf(format, args...))
	}
	comp := l.chunk.Component(pt.component)
	if comp == nil {
		return fail("has no component %q, against its index entry", pt.component)
	}
	l.prepare(s.plan)
	if l.times == nil {
		return fail("is not on index %q, against its index entry", s.plan.index.Name)
	}
	c := &cursor{
		src:   &source{times: l.others, n: l.chunk.NumRows(), batch: -1},
		clear: pt.clear != notClear, times: l.times, ids: l.chunk.RowIDs(), order: l.order, strict: l.strict, n: len(l.times),
	}
	if pt.clear == notClear {
		if s.typ != nil && !arrow.TypeEqual(comp.Values.DataType(), s.typ) {
			return fail("%w: %s and %s", store.ErrTypeConflict, s.typ, comp.Values.DataType())
		}
		c.src.list = comp.Values
	}
	if pt.clear == ancestorClear {
		c.order = trueRows(c, comp.Values)
		c.n = len(c.order)
	} else if comp.Values.NullN() > 0 {
		valid, off := comp.Values.NullBitmapBytes(), comp.Values.Data().Offset()
		if c.order == nil {
			c.valid, c.off = valid, off
		} else {
			order := make([]int32, 0, len(c.order))
			for _, r := range c.order {
				if bitutil.BitIsSet(valid, off+int(r)) {
					order = append(order, r)
				}
			}
			c.order, c.n = order, len(order)
		}
	}
	if !c.settle() {
		return nil
	}
	if c.value < pt.start {
		return fail("has data at %d, before the %d of its index entry", c.value, pt.start)
	}
	if !c.seek(s.first, s.keep) {
		return nil
	}
	s.heap = append(s.heap, c)
	for i := len(s.heap) - 1; i > 0; {
		up := (i - 1) / 2
		if s.heap[up].value <= s.heap[i].value {
			break
		}
		s.heap[up], s.heap[i] = s.heap[i], s.heap[up]
		i = up
	}
	return nil
}

// trueRows are the rows of a clear that reach below its entity, in order of time and row id.
func trueRows(c *cursor, l *array.List) []int32 {
	rows := []int32{}
	vals, ok := l.ListValues().(*array.Boolean)
	if !ok {
		return rows
	}
	for i := range c.n {
		r := i
		if c.order != nil {
			r = int(c.order[i])
		}
		if l.IsNull(r) {
			continue
		}
		if from, to := l.ValueOffsets(r); to > from && vals.IsValid(int(from)) && vals.Value(int(from)) {
			rows = append(rows, int32(r))
		}
	}
	return rows
}

// pop removes the first cursor from the heap.
func (s *stream) pop() {
	n := len(s.heap) - 1
	s.heap[0], s.heap[n] = s.heap[n], nil
	s.heap = s.heap[:n]
	s.sink()
}

// sink restores the order of the heap after its first cursor has moved.
func (s *stream) sink() {
	h := s.heap
	for i := 0; ; {
		k := 2*i + 1
		if k >= len(h) {
			return
		}
		if k+1 < len(h) && h[k+1].value < h[k].value {
			k++
		}
		if h[i].value <= h[k].value {
			return
		}
		h[i], h[k] = h[k], h[i]
		i = k
	}
}
