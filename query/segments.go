package query

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/reelhouse/reelhouse/store"
)

// SegmentColumn is the first column of answers about several segments.
const SegmentColumn = "rerun_segment_id"

// Segment is one of several recordings that are asked together.
type Segment struct {
	ID   string
	View store.View
}

// SegmentsSchema is the schema that the answer of [RunSegments] will have.
func SegmentsSchema(segments []Segment, q Query) (*arrow.Schema, error) {
	r, err := newSegmentsReader(context.Background(), segments, q)
	if err != nil {
		return nil, err
	}
	return r.schema, nil
}

// RunSegments asks several recordings, one after the other. The answer has the
// columns of all and [SegmentColumn] in front of them, unless [Query.Select]
// says otherwise. A segment without the index has no rows; given index values
// apply to segments whose own values span them (spec/catalog.md, reader). Else
// it is as [Run].
func RunSegments(ctx context.Context, segments []Segment, q Query) (array.RecordReader, error) {
	return newSegmentsReader(ctx, segments, q)
}

type segmentsReader struct {
	refs   atomic.Int64
	ctx    context.Context
	plan   *plan // against the columns of all segments
	rest   []Segment
	schema *arrow.Schema
	idAt   int // position of the segment column, or -1

	id    string
	cur   *reader
	batch arrow.RecordBatch
	err   error
}

func newSegmentsReader(ctx context.Context, segments []Segment, q Query) (*segmentsReader, error) {
	r := &segmentsReader{ctx: ctx, rest: segments}
	r.refs.Store(1)
	if q.Select != nil {
		if r.idAt = slices.Index(q.Select, SegmentColumn); r.idAt >= 0 {
			q.Select = slices.Delete(slices.Clone(q.Select), r.idAt, r.idAt+1)
		}
	}
	schemas := make([]*store.Schema, len(segments))
	for i, s := range segments {
		schemas[i] = s.View.Schema()
	}
	var err error
	if r.plan, err = newPlan(store.Union(schemas...), q); err != nil {
		return nil, err
	}
	fields := r.plan.schema.Fields()
	if r.idAt >= 0 {
		fields = slices.Insert(slices.Clone(fields), r.idAt, arrow.Field{Name: SegmentColumn, Type: arrow.BinaryTypes.String})
	}
	r.schema = arrow.NewSchema(fields, nil)
	return r, nil
}

// open starts the query of one segment; nil if it has no rows.
func (r *segmentsReader) open(s Segment) (*reader, error) {
	p := *r.plan
	p.view = s.View
	have := s.View.Schema()
	if p.index != nil {
		if _, ok := have.Index(p.index.Name); !ok {
			return nil, nil
		}
		if p.At != nil {
			lo, hi, ok := indexRange(s.View, p.index.Name)
			from := sort.Search(len(p.At), func(i int) bool { return p.At[i] >= lo })
			to := sort.Search(len(p.At), func(i int) bool { return p.At[i] > hi })
			if !ok || from >= to {
				return nil, nil
			}
			p.At = p.At[from:to]
		}
	}
	p.columns, p.absent = make([]*store.Column, len(r.plan.columns)), make([]bool, len(r.plan.columns))
	for i, c := range r.plan.columns {
		k := slices.IndexFunc(have.Components, func(o store.Column) bool { return o.Entity == c.Entity && o.Component == c.Component })
		if k >= 0 {
			p.columns[i] = &have.Components[k]
			continue
		}
		none := *c
		none.Static = false
		p.columns[i], p.absent[i] = &none, true
	}
	return newReader(r.ctx, &p)
}

// indexRange is the range of all values of an index in a view.
func indexRange(v store.View, index string) (lo, hi int64, ok bool) {
	for i := range v.Entries() {
		for _, t := range v.Entries()[i].Times {
			if t.Name != index || !t.OK {
				continue
			}
			if !ok {
				lo, hi, ok = t.Lo, t.Hi, true
				continue
			}
			lo, hi = min(lo, t.Lo), max(hi, t.Hi)
		}
	}
	return lo, hi, ok
}

func (r *segmentsReader) Retain() { r.refs.Add(1) }

func (r *segmentsReader) Release() {
	if r.refs.Add(-1) == 0 {
		r.drop()
		if r.cur != nil {
			r.cur.Release()
		}
		r.cur, r.rest = nil, nil
	}
}

func (r *segmentsReader) drop() {
	if r.batch != nil {
		r.batch.Release()
		r.batch = nil
	}
}

func (r *segmentsReader) Schema() *arrow.Schema          { return r.schema }
func (r *segmentsReader) RecordBatch() arrow.RecordBatch { return r.batch }
func (r *segmentsReader) Record() arrow.RecordBatch      { return r.batch }
func (r *segmentsReader) Err() error                     { return r.err }

// Next makes the next record batch.
func (r *segmentsReader) Next() bool {
	r.drop()
	for r.err == nil {
		if r.cur == nil {
			if len(r.rest) == 0 {
				return false
			}
			s := r.rest[0]
			r.rest, r.id = r.rest[1:], s.ID
			if r.cur, r.err = r.open(s); r.err != nil {
				r.err = fmt.Errorf("segment %q: %w", s.ID, r.err)
				return false
			}
			if r.cur == nil {
				continue
			}
		}
		if r.cur.Next() {
			r.batch = r.stamp(r.cur.RecordBatch())
			return true
		}
		if err := r.cur.Err(); err != nil {
			r.err = fmt.Errorf("segment %q: %w", r.id, err)
		}
		r.cur.Release()
		r.cur = nil
	}
	return false
}

// stamp adds the segment column.
func (r *segmentsReader) stamp(b arrow.RecordBatch) arrow.RecordBatch {
	cols := b.Columns()
	if r.idAt >= 0 {
		ids := repeatText(r.id, int(b.NumRows()))
		defer ids.Release()
		cols = slices.Insert(slices.Clone(cols), r.idAt, ids)
	}
	return array.NewRecordBatch(r.schema, cols, b.NumRows())
}

func repeatText(s string, n int) arrow.Array {
	b := array.NewStringBuilder(memory.DefaultAllocator)
	defer b.Release()
	b.Reserve(n)
	b.ReserveData(n * len(s))
	for range n {
		b.Append(s)
	}
	return b.NewArray()
}

var _ array.RecordReader = (*segmentsReader)(nil)
