package query

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/reelhouse/reelhouse/chunk"
	"github.com/reelhouse/reelhouse/internal/gather"
)

// reader is the answer to a query.
type reader struct {
	refs    atomic.Int64
	ctx     context.Context
	plan    *plan
	sweep   *sweep    // nil for static queries
	columns []*column // as in the plan

	number int // of the batch
	vals   []int64
	latest [][]int64   // of the other indexes; nil where the result does not have it
	spare  [][][]int64 // the same for each worker but the first
	pieces []int       // rows of the record batches to cut the batch into
	done   int         // rows of it that have been handed out

	batch arrow.RecordBatch
	over  bool
	err   error
}

func newReader(ctx context.Context, p *plan) (*reader, error) {
	r := &reader{ctx: ctx, plan: p, columns: make([]*column, len(p.columns))}
	r.refs.Store(1)
	for i, c := range p.columns {
		r.columns[i] = &column{Column: c}
		empty, err := emptyList(c.Type)
		if err != nil {
			return nil, fmt.Errorf("column %q: %w", c.Name(), err)
		}
		r.columns[i].empty = empty
	}
	if err := r.loadStatic(); err != nil {
		return nil, err
	}
	if p.index != nil {
		r.sweep = newSweep(p, r.columns)
	}
	r.latest = make([][]int64, len(p.others))
	for _, out := range p.output {
		switch {
		case out.column >= 0:
			r.columns[out.column].output = true
		case out.other >= 0 && p.index != nil:
			r.latest[out.other] = []int64{}
		}
	}
	return r, nil
}

func emptyList(dt arrow.DataType) (arrow.Array, error) {
	lt, ok := dt.(*arrow.ListType)
	if !ok {
		return nil, fmt.Errorf("type %s is not a list", dt)
	}
	items, err := gather.Rows(lt.Elem(), nil, nil)
	if err != nil {
		return nil, err
	}
	bufs := []*memory.Buffer{nil, memory.NewBufferBytes(make([]byte, 8))}
	return array.MakeFromData(array.NewData(dt, 1, bufs, []arrow.ArrayData{items.Data()}, 0, 0)), nil
}

// loadStatic finds the cells of static columns: of each the one with the
// greatest row id.
func (r *reader) loadStatic() error {
	type target struct {
		column *column
		id     chunk.TUID
	}
	targets := map[chunk.EntityPath][]*target{}
	for _, c := range r.columns {
		if c.Static {
			targets[c.Entity] = append(targets[c.Entity], &target{column: c})
		}
	}
	if len(targets) == 0 {
		return nil
	}
	var want []int
	entries := r.plan.view.Entries()
	for i := range entries {
		e := &entries[i]
		if !e.Static {
			continue
		}
		for _, m := range e.Components {
			if slices.ContainsFunc(targets[e.Entity], func(t *target) bool { return t.column.Component == m.Component }) {
				want = append(want, i)
				break
			}
		}
	}
	resident := r.plan.view.Resident()
	for len(want) > 0 {
		n, bytes := len(want), uint64(0)
		if !resident {
			for n = 0; n < len(want) && (n == 0 || bytes+entries[want[n]].Size <= loadAhead); n++ {
				bytes += entries[want[n]].Size
			}
		}
		chunks, err := r.plan.view.Load(r.ctx, want[:n])
		if err != nil {
			return err
		}
		want = want[n:]
		for _, c := range chunks {
			if !c.IsStatic() {
				return fmt.Errorf("chunk %s of %s: has timelines, against its index entry", c.ID(), c.EntityPath())
			}
			for _, t := range targets[c.EntityPath()] {
				comp := c.Component(t.column.Component)
				if comp == nil {
					continue
				}
				if !arrow.TypeEqual(comp.Values.DataType(), t.column.Type) {
					return fmt.Errorf("column %q: chunk %s: type %s instead of %s", t.column.Name(), c.ID(), comp.Values.DataType(), t.column.Type)
				}
				for i := range c.NumRows() {
					if comp.Values.IsValid(i) && (t.column.static.src == nil || c.RowID(i).Compare(t.id) >= 0) {
						t.id, t.column.static = c.RowID(i), ref{&source{list: comp.Values, n: c.NumRows(), batch: -1}, int32(i)}
					}
				}
				if !resident {
					if err := t.column.detach(&t.column.static); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

func (r *reader) Retain() { r.refs.Add(1) }

func (r *reader) Release() {
	if r.refs.Add(-1) == 0 {
		r.drop()
		r.over, r.columns, r.sweep = true, nil, nil
	}
}

func (r *reader) drop() {
	if r.batch != nil {
		r.batch.Release()
		r.batch = nil
	}
}

func (r *reader) Schema() *arrow.Schema          { return r.plan.schema }
func (r *reader) RecordBatch() arrow.RecordBatch { return r.batch }
func (r *reader) Record() arrow.RecordBatch      { return r.batch }
func (r *reader) Err() error                     { return r.err }

// Next makes the next record batch.
func (r *reader) Next() bool {
	r.drop()
	if r.over {
		return false
	}
	err := r.ctx.Err()
	if err == nil {
		err = r.next()
	}
	if err != nil {
		r.err, r.over = err, true
	}
	return !r.over
}

func (r *reader) next() error {
	if r.sweep == nil {
		return r.staticRow()
	}
	if len(r.pieces) == 0 {
		if err := r.begin(); err != nil || r.over {
			return err
		}
	}
	for {
		n := r.pieces[0]
		cols, err := r.assemble(n)
		if errors.Is(err, gather.ErrOverflow) && n > 1 {
			r.pieces = append([]int{n / 2, n - n/2}, r.pieces[1:]...)
			continue
		}
		if err != nil {
			return err
		}
		r.emit(cols, n)
		r.pieces = r.pieces[1:]
		r.done += n
		return nil
	}
}

func (r *reader) emit(cols []arrow.Array, rows int) {
	r.batch = array.NewRecordBatch(r.plan.schema, cols, int64(rows))
	for _, c := range cols {
		c.Release()
	}
}

// staticRow is the one row of a query without index.
func (r *reader) staticRow() error {
	p := r.plan
	if r.number++; r.number > 1 || len(p.others) == 0 && len(p.columns) == 0 {
		r.over = true
		return nil
	}
	cols := make([]arrow.Array, len(p.output))
	for i, out := range p.output {
		var err error
		if out.column >= 0 {
			cols[i], err = r.columns[out.column].constants(1)
		} else {
			cols[i], err = gather.Rows(p.others[out.other].Kind.ArrowType(), nil, []gather.Span{{Src: -1, Len: 1}})
		}
		if err != nil {
			return err
		}
	}
	r.emit(cols, 1)
	return nil
}

// begin finds the rows of the next batch and assigns cells to them.
func (r *reader) begin() error {
	p, s := r.plan, r.sweep
	limit := p.BatchRows
	var bytes int64
	for _, c := range r.columns {
		bytes += c.rowBytes(p.FillLatestAt)
	}
	if bytes > 0 {
		limit = int(max(1, min(int64(limit), batchBytes/bytes)))
	}
	vals, err := s.next(r.ctx, limit)
	if err != nil {
		return err
	}
	if len(vals) == 0 {
		r.over = true
		return nil
	}
	r.vals = slices.Clone(vals) // the batch keeps them
	n := len(vals)
	r.number++
	r.done = 0
	workers := max(1, min(p.Workers, len(r.columns)))
	for k, l := range r.latest {
		if l != nil {
			r.latest[k] = fresh(nil, n) // the batch keeps them
		}
	}
	for len(r.spare) < workers-1 {
		r.spare = append(r.spare, make([][]int64, len(r.latest)))
	}
	for _, spare := range r.spare {
		for k, l := range r.latest {
			if l != nil {
				spare[k] = fresh(spare[k], n)
			}
		}
	}
	for _, c := range r.columns {
		c.begin(r.number)
	}
	if !s.open {
		if _, err := s.extend(r.ctx); err != nil {
			return err
		}
	}
	errs := make([]error, len(r.columns))
	for {
		upTo := min(s.horizon, r.vals[n-1])
		parallel(workers, len(r.columns), func(w, i int) {
			latest := r.latest
			if w > 0 {
				latest = r.spare[w-1]
			}
			errs[i] = r.columns[i].walk(r.vals, upTo, s.horizon, p.At != nil, p.FillLatestAt, p.Compat, latest)
		})
		if err := errors.Join(errs...); err != nil {
			return err
		}
		if upTo == r.vals[n-1] {
			break
		}
		if err := r.ctx.Err(); err != nil {
			return err
		}
		if _, err := s.extend(r.ctx); err != nil {
			return err
		}
		for _, st := range s.streams {
			st.done = false
		}
	}
	for k, l := range r.latest {
		for _, spare := range r.spare[:workers-1] {
			for i, v := range spare[k] {
				l[i] = max(l[i], v)
			}
		}
	}
	resident := p.view.Resident()
	for _, c := range r.columns {
		if err := c.settle(resident); err != nil {
			return err
		}
	}
	r.sweep.settle()
	r.pieces = cuts(r.columns, n)
	return nil
}

func fresh(l []int64, n int) []int64 {
	l = slices.Grow(l[:0], n)[:n]
	for i := range l {
		l[i] = noTime
	}
	return l
}

// assemble builds the columns of the next n rows of the batch.
func (r *reader) assemble(n int) ([]arrow.Array, error) {
	p := r.plan
	cols := make([]arrow.Array, len(p.output))
	errs := make([]error, len(p.output))
	from := make([]gather.Span, len(r.columns))
	for i, c := range r.columns {
		from[i] = c.at
	}
	parallel(p.Workers, len(cols), func(_, i int) {
		switch out := p.output[i]; {
		case out.index:
			cols[i] = chunk.TimesArray(p.index.Kind, r.vals[r.done:r.done+n])
		case out.other >= 0:
			cols[i] = timesWithGaps(p.others[out.other].Kind, r.latest[out.other][r.done:r.done+n])
		default:
			c := r.columns[out.column]
			if cols[i], errs[i] = c.array(n); errs[i] != nil {
				errs[i] = fmt.Errorf("column %q: %w", c.Name(), errs[i])
			}
		}
	})
	if err := errors.Join(errs...); err != nil {
		for i, c := range r.columns {
			c.at = from[i]
		}
		return nil, err
	}
	return cols, nil
}

// timesWithGaps is an index column that is null where no cell had a time.
func timesWithGaps(kind chunk.TimeKind, times []int64) arrow.Array {
	nulls := 0
	for _, t := range times {
		if t == noTime {
			nulls++
		}
	}
	if nulls == 0 {
		return chunk.TimesArray(kind, times)
	}
	valid := make([]byte, (len(times)+7)/8)
	vals := make([]int64, len(times))
	for i, t := range times {
		if t != noTime {
			valid[i>>3] |= 1 << (i & 7)
			vals[i] = t
		}
	}
	bufs := []*memory.Buffer{memory.NewBufferBytes(valid), memory.NewBufferBytes(arrow.Int64Traits.CastToBytes(vals))}
	return array.MakeFromData(array.NewData(kind.ArrowType(), len(times), bufs, nil, nulls, 0))
}

var _ array.RecordReader = (*reader)(nil)
