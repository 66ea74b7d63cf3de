package gather

import (
	"fmt"
	"math"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

type offset interface{ ~int32 | ~int64 }

// ranges copies offsets, rebased, and hands each source range to add.
func ranges[O offset](j *job, limit int64, add func(src int, from, to int64) error) ([]O, error) {
	offs := column[O](j, 1)
	out := make([]O, j.n+1)
	var base int64
	o := 0
	for _, s := range j.spans {
		if s.Src < 0 {
			for range s.Len {
				o++
				out[o] = O(base)
			}
			continue
		}
		of := offs[s.Src][s.Start : s.Start+s.Len+1]
		from, to := int64(of[0]), int64(of[s.Len])
		if from < 0 || to < from {
			return nil, fmt.Errorf("source %d: offsets run from %d to %d", s.Src, from, to)
		}
		if to-from > limit-base {
			return nil, ErrOverflow
		}
		shift := base - from
		for _, v := range of[1:] {
			o++
			out[o] = O(int64(v) + shift)
		}
		if to > from {
			if err := add(s.Src, from, to); err != nil {
				return nil, err
			}
		}
		base += to - from
	}
	return out, nil
}

func binaries[O offset](j *job, limit int64) (arrow.ArrayData, error) {
	valid, nulls := j.validity()
	vals := make([][]byte, len(j.srcs))
	for i := range j.srcs {
		if j.srcs[i].used {
			vals[i] = j.srcs[i].buf(2)
		}
	}
	type part struct{ b []byte }
	parts := make([]part, 0, len(j.spans))
	size := 0
	offs, err := ranges[O](j, limit, func(src int, from, to int64) error {
		if to > int64(len(vals[src])) {
			return fmt.Errorf("source %d: offset %d beyond %d bytes", src, to, len(vals[src]))
		}
		parts = append(parts, part{vals[src][from:to]})
		size += int(to - from)
		return nil
	})
	if err != nil {
		return nil, err
	}
	out := make([]byte, 0, size)
	for _, p := range parts {
		out = append(out, p.b...)
	}
	return j.finish([]*memory.Buffer{valid, bufferOf(offs), memory.NewBufferBytes(out)}, nil, nulls), nil
}

// spanPool recycles the spans of list children, which are as many as rows.
var spanPool = sync.Pool{New: func() any { return new(spanList) }}

// spanList collects the spans of a child, gluing those that continue each other.
type spanList []Span

func (l *spanList) add(src, start, n int) {
	if n == 0 {
		return
	}
	if k := len(*l) - 1; k >= 0 {
		if p := &(*l)[k]; p.Src == src && (src < 0 || p.Start+p.Len == start) {
			p.Len += n
			return
		}
	}
	*l = append(*l, Span{src, start, n})
}

func lists[O offset](j *job, elem arrow.DataType, limit int64) (arrow.ArrayData, error) {
	valid, nulls := j.validity()
	kids := spanPool.Get().(*spanList)
	defer spanPool.Put(kids)
	*kids = (*kids)[:0]
	offs, err := ranges[O](j, limit, func(src int, from, to int64) error {
		kids.add(src, int(from), int(to-from))
		return nil
	})
	if err != nil {
		return nil, err
	}
	kid, err := rows(elem, j.wholeChildren(0), *kids)
	if err != nil {
		return nil, err
	}
	return j.finish([]*memory.Buffer{valid, bufferOf(offs)}, []arrow.ArrayData{kid}, nulls), nil
}

// listViews copies the elements of each row, unless views overlap so much that
// copying the ranges they lie in is less.
func listViews[O offset](j *job, elem arrow.DataType, limit int64) (arrow.ArrayData, error) {
	valid, nulls := j.validity()
	inOffs, inSizes := column[O](j, 1), column[O](j, 2)
	type extent struct{ lo, hi, base int64 }
	ext := make([]extent, len(j.srcs))
	for i := range ext {
		ext[i] = extent{lo: math.MaxInt64, hi: -1}
	}
	var total int64
	for _, s := range j.spans {
		if s.Src < 0 {
			continue
		}
		c, e := &j.srcs[s.Src], &ext[s.Src]
		kid := int64(c.data.Children()[0].Len())
		for r := s.Start; r < s.Start+s.Len; r++ {
			from, n := int64(inOffs[s.Src][r]), int64(inSizes[s.Src][r])
			if n == 0 || c.isNull(r) {
				continue
			}
			if from < 0 || n < 0 || n > kid-from {
				return nil, fmt.Errorf("source %d: row %d: view of %d elements at %d outside %d", s.Src, r, n, from, kid)
			}
			e.lo, e.hi = min(e.lo, from), max(e.hi, from+n)
			if total += n; total < 0 {
				total = math.MaxInt64
			}
		}
	}
	var whole int64
	var kids spanList
	for i := range ext {
		if e := &ext[i]; e.hi >= 0 {
			e.base = whole
			whole += e.hi - e.lo
		}
	}
	shared := total > whole
	if shared {
		for i, e := range ext {
			if e.hi >= 0 {
				kids.add(i, int(e.lo), int(e.hi-e.lo))
			}
		}
	}
	if min(total, whole) > limit {
		return nil, ErrOverflow
	}
	offs, sizes := make([]O, j.n), make([]O, j.n)
	o := 0
	var base int64
	for _, s := range j.spans {
		if s.Src < 0 {
			o += s.Len
			continue
		}
		c, e := &j.srcs[s.Src], &ext[s.Src]
		for r := s.Start; r < s.Start+s.Len; r, o = r+1, o+1 {
			from, n := int64(inOffs[s.Src][r]), int64(inSizes[s.Src][r])
			switch {
			case n == 0 || c.isNull(r):
			case shared:
				offs[o], sizes[o] = O(e.base+from-e.lo), O(n)
			default:
				offs[o], sizes[o] = O(base), O(n)
				kids.add(s.Src, int(from), int(n))
				base += n
			}
		}
	}
	kid, err := rows(elem, j.wholeChildren(0), kids)
	if err != nil {
		return nil, err
	}
	return j.finish([]*memory.Buffer{valid, bufferOf(offs), bufferOf(sizes)}, []arrow.ArrayData{kid}, nulls), nil
}

func (j *job) fixedLists(want *arrow.FixedSizeListType) (arrow.ArrayData, error) {
	valid, nulls := j.validity()
	per := int(want.Len())
	if per > 0 && j.n > math.MaxInt/per {
		return nil, ErrOverflow
	}
	srcs, err := j.children(0, per)
	if err != nil {
		return nil, err
	}
	kids := make(spanList, 0, len(j.spans))
	for _, s := range j.spans {
		kids.add(s.Src, s.Start*per, s.Len*per)
	}
	kid, err := rows(want.Elem(), srcs, kids)
	if err != nil {
		return nil, err
	}
	return j.finish([]*memory.Buffer{valid}, []arrow.ArrayData{kid}, nulls), nil
}

func (j *job) structs(want *arrow.StructType) (arrow.ArrayData, error) {
	valid, nulls := j.validity()
	kids := make([]arrow.ArrayData, want.NumFields())
	for i, f := range want.Fields() {
		srcs, err := j.children(i, 1)
		if err != nil {
			return nil, fmt.Errorf("field %q: %w", f.Name, err)
		}
		if kids[i], err = rows(f.Type, srcs, j.spans); err != nil {
			return nil, fmt.Errorf("field %q: %w", f.Name, err)
		}
	}
	return j.finish([]*memory.Buffer{valid}, kids, nulls), nil
}

// unionCodes copies the type codes; a null is the first type's null, for unions have no validity of their own.
func (j *job) unionCodes(want arrow.UnionType) ([]int8, error) {
	codes := want.TypeCodes()
	out := make([]int8, j.n)
	if len(codes) == 0 {
		if j.n > 0 {
			return nil, fmt.Errorf("a union without fields has no rows")
		}
		return out, nil
	}
	in := column[int8](j, 1)
	o := 0
	for _, s := range j.spans {
		if s.Src < 0 {
			for i := range s.Len {
				out[o+i] = codes[0]
			}
		} else {
			copy(out[o:o+s.Len], in[s.Src][s.Start:])
		}
		o += s.Len
	}
	return out, nil
}

func (j *job) sparseUnions(want *arrow.SparseUnionType) (arrow.ArrayData, error) {
	codes, err := j.unionCodes(want)
	if err != nil {
		return nil, err
	}
	kids := make([]arrow.ArrayData, want.NumFields())
	for i, f := range want.Fields() {
		srcs, err := j.children(i, 1)
		if err != nil {
			return nil, fmt.Errorf("field %q: %w", f.Name, err)
		}
		if kids[i], err = rows(f.Type, srcs, j.spans); err != nil {
			return nil, fmt.Errorf("field %q: %w", f.Name, err)
		}
	}
	return j.finish([]*memory.Buffer{nil, bufferOf(codes)}, kids, 0), nil
}

func (j *job) denseUnions(want *arrow.DenseUnionType) (arrow.ArrayData, error) {
	codes, err := j.unionCodes(want)
	if err != nil {
		return nil, err
	}
	fields := want.NumFields()
	ids := want.ChildIDs() // child of each type code
	offs := column[int32](j, 2)
	out := make([]int32, j.n)
	spans, sizes := make([]spanList, fields), make([]int64, fields)
	o := 0
	for _, s := range j.spans {
		for i := range s.Len {
			code := codes[o]
			if code < 0 || int(code) >= len(ids) || ids[code] < 0 || ids[code] >= fields {
				return nil, fmt.Errorf("source %d: row %d: type code %d is unknown", s.Src, s.Start+i, code)
			}
			kid := ids[code]
			if sizes[kid] > math.MaxInt32 {
				return nil, ErrOverflow
			}
			out[o] = int32(sizes[kid])
			if s.Src < 0 {
				spans[kid].add(-1, 0, 1)
			} else {
				spans[kid].add(s.Src, int(offs[s.Src][s.Start+i]), 1)
			}
			sizes[kid]++
			o++
		}
	}
	kids := make([]arrow.ArrayData, fields)
	for i, f := range want.Fields() {
		if kids[i], err = rows(f.Type, j.wholeChildren(i), spans[i]); err != nil {
			return nil, fmt.Errorf("field %q: %w", f.Name, err)
		}
	}
	return j.finish([]*memory.Buffer{nil, bufferOf(codes), bufferOf(out)}, kids, 0), nil
}

func (j *job) runs(want *arrow.RunEndEncodedType) (arrow.ArrayData, error) {
	ends := make([]runEnds, len(j.srcs))
	for i := range j.srcs {
		if c := &j.srcs[i]; c.used {
			e, err := newRunEnds(c.data.Children()[0])
			if err != nil {
				return nil, fmt.Errorf("source %d: %w", i, err)
			}
			ends[i] = e
		}
	}
	var out []int64 // run ends of the result
	var kids spanList
	o := int64(0)
	for _, s := range j.spans {
		if s.Src < 0 {
			o += int64(s.Len)
			out = append(out, o)
			kids = append(kids, Span{-1, 0, 1})
			continue
		}
		from := int64(j.srcs[s.Src].off + s.Start)
		to := from + int64(s.Len)
		for p := ends[s.Src].find(from); from < to; p++ {
			if p >= ends[s.Src].n {
				return nil, fmt.Errorf("source %d: run ends stop before row %d", s.Src, from)
			}
			end := min(ends[s.Src].at(p), to)
			if end <= from {
				return nil, fmt.Errorf("source %d: run ends do not grow at %d", s.Src, p)
			}
			o += end - from
			from = end
			out = append(out, o)
			kids = append(kids, Span{s.Src, p, 1})
		}
	}
	endData, err := encodeRunEnds(want.RunEnds(), out)
	if err != nil {
		return nil, err
	}
	vals, err := rows(want.Encoded(), j.wholeChildren(1), kids)
	if err != nil {
		return nil, err
	}
	return j.finish([]*memory.Buffer{nil}, []arrow.ArrayData{endData, vals}, 0), nil
}

type runEnds struct {
	n   int
	i16 []int16
	i32 []int32
	i64 []int64
}

func newRunEnds(d arrow.ArrayData) (runEnds, error) {
	r := runEnds{n: d.Len()}
	c := source{data: d, off: d.Offset(), n: d.Len(), used: true}
	if err := c.check(d.DataType()); err != nil {
		return r, fmt.Errorf("run ends: %w", err)
	}
	b, o := c.buf(1), d.Offset()
	if r.n == 0 {
		return r, nil
	}
	switch d.DataType().ID() {
	case arrow.INT16:
		r.i16 = cast[int16](b)[o:]
	case arrow.INT32:
		r.i32 = cast[int32](b)[o:]
	case arrow.INT64:
		r.i64 = cast[int64](b)[o:]
	default:
		return r, fmt.Errorf("run ends of type %s", d.DataType())
	}
	return r, nil
}

func (r *runEnds) at(i int) int64 {
	switch {
	case r.i16 != nil:
		return int64(r.i16[i])
	case r.i32 != nil:
		return int64(r.i32[i])
	}
	return r.i64[i]
}

// find is the run that holds a logical row: the first that ends after it.
func (r *runEnds) find(row int64) int {
	lo, hi := 0, r.n
	for lo < hi {
		if m := (lo + hi) / 2; r.at(m) > row {
			hi = m
		} else {
			lo = m + 1
		}
	}
	return lo
}

func encodeRunEnds(dt arrow.DataType, ends []int64) (arrow.ArrayData, error) {
	last := int64(0)
	if len(ends) > 0 {
		last = ends[len(ends)-1]
	}
	var buf *memory.Buffer
	switch {
	case dt.ID() == arrow.INT16 && last <= math.MaxInt16:
		buf = bufferOf(narrow[int16](ends))
	case dt.ID() == arrow.INT32 && last <= math.MaxInt32:
		buf = bufferOf(narrow[int32](ends))
	case dt.ID() == arrow.INT64:
		buf = bufferOf(ends)
	default:
		return nil, fmt.Errorf("run ends up to %d: %w", last, ErrOverflow)
	}
	return array.NewData(dt, len(ends), []*memory.Buffer{nil, buf}, nil, 0, 0), nil
}

func narrow[T int16 | int32](in []int64) []T {
	out := make([]T, len(in))
	for i, v := range in {
		out[i] = T(v)
	}
	return out
}
