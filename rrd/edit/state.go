package edit

import (
	"bytes"
	"cmp"
	"context"
	"slices"

	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/reelhouse/reelhouse/chunk"
	"github.com/reelhouse/reelhouse/rrd"
)

// Components of encoded video (spec/rrd.md 3): a sample can be decoded only
// with those before it, back to a keyframe.
const (
	videoSample   = "VideoStream:sample"
	videoKeyframe = "VideoStream:is_keyframe"
)

// column is a component column of a store.
type column struct {
	entity    chunk.EntityPath
	component string
}

// candidate is a chunk that may hold the state of a column at some time.
type candidate struct {
	*piece
	lo, hi int64 // of its rows with the component
}

// writeState writes the state at the start of a part.
func (s *splitter) writeState(ctx context.Context, w *rrd.Writer, to rrd.StoreID, st *splitStore, win window) error {
	columns := map[column][]candidate{}
	var order []column
	for _, p := range st.pieces {
		if p.Static || p.axis < 0 {
			continue
		}
		for _, m := range p.Components {
			r := m.Times[p.axis]
			if !r.OK || r.Lo > win.from {
				continue
			}
			key := column{p.Entity, m.Component}
			if columns[key] == nil {
				order = append(order, key)
			}
			columns[key] = append(columns[key], candidate{p, r.Lo, r.Hi})
		}
	}
	// Columns of the same chunks come one after the other, and meet the cache.
	for _, key := range order {
		if err := ctx.Err(); err != nil {
			return err
		}
		if key.component == videoKeyframe || key.component == videoSample {
			done, err := s.writeVideo(ctx, w, to, key, columns, win)
			if err != nil {
				return err
			}
			if done {
				continue
			}
		}
		at, err := s.latest(columns[key], key.component, win.from, nil)
		if err != nil {
			return err
		}
		// A value at the very start is in the part itself.
		if at == nil || at.time == win.from {
			continue
		}
		c := at.chunk.Slice(at.row, at.row+1).SelectComponents(func(m chunk.Component) bool { return m.Component == key.component })
		if err := s.writeChunk(ctx, w, to, c); err != nil {
			return err
		}
	}
	return nil
}

// row is a row of a decoded chunk.
type row struct {
	chunk *chunk.Chunk
	row   int
	time  int64
}

// latest finds the last row, by time and row id, that has the component at a
// time or before it and that accept, if not nil, accepts.
func (s *splitter) latest(all []candidate, component string, at int64, accept func(*array.List, int) bool) (*row, error) {
	slices.SortStableFunc(all, func(a, b candidate) int { return cmp.Compare(min(b.hi, at), min(a.hi, at)) })
	var best *row
	for _, x := range all {
		if best != nil && best.time > min(x.hi, at) {
			break // nor can any of the others be later
		}
		c, err := s.chunk(x.piece)
		if err != nil {
			return nil, err
		}
		times, m := c.Timeline(s.o.Timeline), c.Component(component)
		if times == nil || m == nil {
			continue
		}
		for i, t := range times.Times {
			if t > at || m.Values.IsNull(i) || accept != nil && !accept(m.Values, i) {
				continue
			}
			if best == nil || t > best.time || t == best.time && bytes.Compare(rowID(c, i), rowID(best.chunk, best.row)) > 0 {
				best = &row{c, i, t}
			}
		}
	}
	return best, nil
}

func rowID(c *chunk.Chunk, i int) []byte { return c.RowIDs()[16*i : 16*i+16] }

// writeVideo writes the samples from the last keyframe on. It reports whether
// the column needs no other state.
func (s *splitter) writeVideo(ctx context.Context, w *rrd.Writer, to rrd.StoreID, key column, columns map[column][]candidate, win window) (bool, error) {
	keyframes := columns[column{key.entity, videoKeyframe}]
	if len(keyframes) == 0 {
		return false, nil
	}
	start, err := s.latest(slices.Clone(keyframes), videoKeyframe, win.from, func(l *array.List, i int) bool {
		from, to := l.ValueOffsets(i)
		b, ok := l.ListValues().(*array.Boolean)
		return ok && from < to && b.IsValid(int(from)) && b.Value(int(from))
	})
	if err != nil || start == nil {
		return false, err
	}
	before := window{from: start.time, to: win.from}
	for _, x := range columns[key] {
		if x.hi < before.from || x.lo >= before.to {
			continue
		}
		c, err := s.chunk(x.piece)
		if err != nil {
			return false, err
		}
		times := c.Timeline(s.o.Timeline)
		if times == nil {
			continue
		}
		rows := rowsWithin(c, times, before)
		if m := rows.Component(key.component); m == nil || m.Values.NullN() == rows.NumRows() {
			continue
		}
		// A sample goes with the mark that says whether it is a keyframe.
		other := videoKeyframe
		if key.component == videoKeyframe {
			if c.Component(videoSample) != nil {
				continue
			}
			other = ""
		}
		rows = rows.SelectComponents(func(m chunk.Component) bool { return m.Component == key.component || m.Component == other })
		if rows.ID() == c.ID() {
			rows = rows.WithID(chunk.NewTUID())
		}
		if err := s.writeChunk(ctx, w, to, rows); err != nil {
			return false, err
		}
	}
	return true, nil
}
