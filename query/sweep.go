package query

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sort"
	"sync"

	"github.com/reelhouse/reelhouse/chunk"
	"github.com/reelhouse/reelhouse/rrd"
	"github.com/reelhouse/reelhouse/store"
)

// loadAhead bounds the encoded size of the chunks of a lazy store that one step
// of the sweep loads.
const loadAhead = 8 << 20

// sweep runs over the index values of a plan: it loads chunks as it reaches
// them and finds the rows.
type sweep struct {
	plan       *plan
	streams    []*stream // of columns and clearsOnly
	clearsOnly []*stream // of entities whose columns are all static: these give rows and no cells
	loaded     []*residentChunk
	waiting    []waitingChunk // by start
	// Everything that starts up to horizon is loaded; beyond last nothing matters.
	horizon, last int64
	block         int // events a stream buffers at once

	rows []int64 // distinct values found, ascending, not yet handed out
	head int
	at   []int64 // given values not yet handed out
	over bool    // no more rows will be found
	open bool    // the first chunks have been loaded
}

// waitingChunk is a chunk that the sweep has not reached.
type waitingChunk struct {
	start int64
	entry int
	bytes int64
}

// newSweep assigns the entries of the view to streams, one for each column that
// has no static cell to show in all rows.
func newSweep(p *plan, columns []*column) *sweep {
	s := &sweep{plan: p, last: math.MaxInt64, at: p.At}
	first := int64(math.MinInt64)
	if p.Range != nil {
		first, s.last = p.Range.Start, p.Range.End
	}
	if p.At != nil {
		lo := sort.Search(len(s.at), func(i int) bool { return s.at[i] >= first })
		hi := sort.Search(len(s.at), func(i int) bool { return s.at[i] > s.last })
		s.at = s.at[min(lo, hi):hi]
		if len(s.at) == 0 {
			s.over = true
			return s
		}
		first, s.last = s.at[0], s.at[len(s.at)-1]
	}
	s.over = s.last < first
	entries := p.view.Entries()
	s.loaded = make([]*residentChunk, len(entries))
	newStream := func(name string) *stream {
		st := &stream{plan: p, loaded: s.loaded, name: name, first: first, keep: p.FillLatestAt}
		s.streams = append(s.streams, st)
		return st
	}

	byEntity := map[chunk.EntityPath]*entityStreams{}
	for i, c := range columns {
		if p.absent != nil && p.absent[i] {
			continue
		}
		e := byEntity[c.Entity]
		if e == nil {
			e = &entityStreams{byComponent: map[string]*stream{}}
			byEntity[c.Entity] = e
		}
		if c.static.src == nil {
			c.stream = newStream(c.Name())
			c.stream.typ = c.Type
			e.byComponent[c.Component] = c.stream
			e.all = append(e.all, c.stream)
		}
	}
	// Clears give rows even where all columns are static and show nothing of them.
	for entity, e := range byEntity {
		if len(e.all) == 0 {
			e.all = append(e.all, newStream(string(entity)))
			s.clearsOnly = append(s.clearsOnly, e.all[0])
		}
	}

	clears := map[chunk.EntityPath][]int{}
	hidden := map[chunk.EntityPath]bool{} // static clears hide those in time, as all static data does
	for i := range p.view.Schema().Components {
		if c := &p.view.Schema().Components[i]; c.Component == store.ClearComponent && c.Static {
			hidden[c.Entity] = true
		}
	}
	for i := range entries {
		e := &entries[i]
		k := slices.IndexFunc(e.Times, func(t rrd.TimeRange) bool { return t.Name == p.index.Name && t.OK })
		if k < 0 {
			continue
		}
		own := byEntity[e.Entity]
		for j := range e.Components {
			m := &e.Components[j]
			if m.Component == store.ClearComponent && !hidden[e.Entity] {
				clears[e.Entity] = append(clears[e.Entity], i)
			}
			if own == nil {
				continue
			}
			if st, r := own.byComponent[m.Component], m.Times[k]; st != nil && r.OK {
				st.pending = append(st.pending, part{i, m.Component, notClear, r.Lo, r.Hi})
			}
		}
	}
	for entity, e := range byEntity {
		for from, ok := entity, true; ok; from, ok = from.Parent() {
			for _, i := range clears[from] {
				mode := ancestorClear
				if from == entity {
					mode = ownClear
				}
				k := slices.IndexFunc(entries[i].Times, func(t rrd.TimeRange) bool { return t.Name == p.index.Name })
				m := &entries[i].Components[slices.IndexFunc(entries[i].Components, func(c rrd.EntryComponent) bool { return c.Component == store.ClearComponent })]
				if r := m.Times[k]; r.OK {
					for _, st := range e.all {
						st.pending = append(st.pending, part{i, m.Component, mode, r.Lo, r.Hi})
					}
				}
			}
		}
	}
	s.prune(first)
	return s
}

type entityStreams struct {
	byComponent map[string]*stream
	all         []*stream
}

// prune drops parts that no row sees, orders the rest and lists the chunks to load.
func (s *sweep) prune(first int64) {
	starts := map[int]*waitingChunk{}
	users := map[int]int32{}
	for _, st := range s.streams {
		// With filling, the latest of the parts that end before the first row
		// hides all that end before it.
		hidden := int64(math.MinInt64)
		for _, pt := range st.pending {
			if pt.clear == notClear && pt.end <= first {
				hidden = max(hidden, pt.end)
			}
		}
		kept := st.pending[:0]
		for _, pt := range st.pending {
			switch {
			case pt.start > s.last, pt.end < first && (!st.keep || pt.end < hidden):
				continue
			case s.at != nil && !st.keep:
				if i := sort.Search(len(s.at), func(i int) bool { return s.at[i] >= pt.start }); i == len(s.at) || s.at[i] > pt.end {
					continue
				}
			}
			kept = append(kept, pt)
			users[pt.entry]++
			if w := starts[pt.entry]; w != nil {
				w.start = min(w.start, pt.start)
			} else {
				e := &s.plan.view.Entries()[pt.entry]
				starts[pt.entry] = &waitingChunk{pt.start, pt.entry, int64(e.Size)}
			}
		}
		st.pending = kept
		slices.SortStableFunc(st.pending, func(a, b part) int { return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.entry, b.entry)) })
	}
	s.waiting = make([]waitingChunk, 0, len(starts))
	for i, w := range starts {
		s.loaded[i] = &residentChunk{}
		s.loaded[i].users.Store(users[i])
		s.waiting = append(s.waiting, *w)
	}
	slices.SortFunc(s.waiting, func(a, b waitingChunk) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.entry, b.entry))
	})
	// Few columns may look far ahead, many share what is held.
	s.block = min(defaultBatchRows, max(256, 1<<18/max(1, len(s.streams))))
}

// extend loads the next chunks. It reports whether the horizon moved.
func (s *sweep) extend(ctx context.Context) (bool, error) {
	if s.open && s.horizon >= s.last {
		return false, nil
	}
	s.open = true
	n := len(s.waiting)
	if !s.plan.view.Resident() {
		var bytes int64
		for n = 0; n < len(s.waiting) && (n == 0 || bytes+s.waiting[n].bytes <= loadAhead); n++ {
			bytes += s.waiting[n].bytes
		}
		for n < len(s.waiting) && s.waiting[n].start == s.waiting[n-1].start {
			n++
		}
	}
	positions := make([]int, n)
	for i, w := range s.waiting[:n] {
		positions[i] = w.entry
	}
	chunks, err := s.plan.view.Load(ctx, positions)
	if err != nil {
		return false, err
	}
	for i, c := range chunks {
		s.loaded[positions[i]].chunk = c
	}
	s.waiting = s.waiting[n:]
	s.horizon = s.last
	if len(s.waiting) > 0 {
		s.horizon = s.waiting[0].start - 1
	}
	return true, nil
}

// next returns the index values of the next batch, at most n, ascending; none
// at the end. They are valid until the next call.
func (s *sweep) next(ctx context.Context, n int) ([]int64, error) {
	if s.plan.At != nil {
		n = min(n, len(s.at))
		vals := s.at[:n]
		s.at = s.at[n:]
		return vals, nil
	}
	if s.head > 0 {
		s.rows = s.rows[:copy(s.rows, s.rows[s.head:])]
		s.head = 0
	}
	for len(s.rows) < n && !s.over {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := s.round(ctx); err != nil {
			return nil, err
		}
	}
	s.head = min(n, len(s.rows))
	return s.rows[:s.head], nil
}

// round finds more rows: every stream buffers events, and the distinct values
// up to where all streams are known are rows.
func (s *sweep) round(ctx context.Context) error {
	if !s.open {
		if _, err := s.extend(ctx); err != nil {
			return err
		}
	}
	parallel(s.plan.Workers, len(s.streams), func(_, i int) {
		if st := s.streams[i]; st.mark == len(st.values) && !st.done {
			st.pull(s.horizon, s.block)
		}
	})
	limit := s.horizon
	all := true
	for _, st := range s.streams {
		if st.err != nil {
			return st.err
		}
		if !st.done {
			all = false
			limit = min(limit, st.values[len(st.values)-1])
		}
	}
	lists := make([][]int64, 0, len(s.streams))
	for _, st := range s.streams {
		v := st.values[st.mark:]
		if len(v) > 0 && v[len(v)-1] > limit {
			v = v[:sort.Search(len(v), func(i int) bool { return v[i] > limit })]
		}
		st.mark += len(v)
		if s.plan.FillLatestAt {
			// What precedes the first row is there to fill.
			v = v[sort.Search(len(v), func(i int) bool { return v[i] >= st.first }):]
		}
		if len(v) > 0 {
			lists = append(lists, v)
		}
	}
	found := union(lists)
	if s.plan.Compat {
		found = slices.Compact(slices.Clone(found)) // a cell and the clear that hides it are two events
	}
	s.rows = append(s.rows, found...)
	if all {
		more, err := s.extend(ctx)
		if err != nil {
			return err
		}
		s.over = !more
		for _, st := range s.streams {
			st.done = false
		}
	}
	return nil
}

// union merges ascending lists into one without duplicates. The result may be
// one of the lists.
func union(lists [][]int64) []int64 {
	switch len(lists) {
	case 0:
		return nil
	case 1:
		return lists[0]
	}
	half := len(lists) / 2
	return union2(union(lists[:half]), union(lists[half:]))
}

func union2(a, b []int64) []int64 {
	switch {
	case len(a) == len(b) && slices.Equal(a, b):
		return a // columns that are logged together
	case a[len(a)-1] < b[0]:
		return append(slices.Clip(a), b...)
	}
	out := make([]int64, 0, len(a)+len(b))
	i, j := 0, 0
	for i < len(a) && j < len(b) {
		x, y := a[i], b[j]
		out = append(out, min(x, y))
		if x <= y {
			i++
		}
		if y <= x {
			j++
		}
	}
	return append(append(out, a[i:]...), b[j:]...)
}

// settle drops what the streams that only give rows have buffered for the rows handed out.
func (s *sweep) settle() {
	for _, st := range s.clearsOnly {
		st.head = st.mark
		st.rewind()
	}
}

// parallel calls f for 0..n-1 on up to workers goroutines and waits for them.
// worker is below workers; calls with the same worker follow each other.
func parallel(workers, n int, f func(worker, i int)) {
	workers = min(workers, n)
	if workers <= 1 {
		for i := range n {
			f(0, i)
		}
		return
	}
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := w; i < n; i += workers {
				f(w, i)
			}
		})
	}
	wg.Wait()
}
