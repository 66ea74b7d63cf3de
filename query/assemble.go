package query

import (
	"math"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/reelhouse/reelhouse/internal/gather"
	"github.com/reelhouse/reelhouse/store"
)

const (
	// batchBytes is about how large a batch may be: cells of images or meshes
	// that repeat in every row would fill the memory otherwise.
	batchBytes = 32 << 20
	// sliceRows is the least length of a run of rows for which a batch is cut
	// so that the run can be sliced from its chunk instead of copied.
	sliceRows = 1024
)

// column assigns the cells of one column to the rows of a batch.
type column struct {
	*store.Column
	stream   *stream // nil if all rows have the same cell
	output   bool
	empty    arrow.Array // one empty list, the cell of clears
	static   ref         // the cell of all rows of a static column; no source: null
	constant arrow.Array // the static cell repeated

	last ref // the latest event, to fill with
	real ref // compat: the latest that is no clear

	// Of the batch at hand.
	number int // of the batch
	row    int // rows done
	spans  []gather.Span
	srcs   []arrow.Array
	at     gather.Span // of spans: Src is the next one, Start the rows of it that are used up
}

// begin starts a batch.
func (c *column) begin(number int) {
	c.number, c.row, c.at = number, 0, gather.Span{}
	c.spans = c.spans[:0]
	clear(c.srcs)
	c.srcs = c.srcs[:0]
}

// walk assigns cells to the rows with values up to limit. pull says that the
// stream may not have buffered all events up to there.
func (c *column) walk(vals []int64, limit, horizon int64, pull bool, fill, compat bool, latest [][]int64) error {
	end := c.row
	if n := len(vals); n > 0 && vals[n-1] <= limit {
		end = n
	} else {
		for end < n && vals[end] <= limit {
			end++
		}
	}
	st := c.stream
	if st == nil {
		c.row = end
		return nil
	}
	for c.row < end {
		if st.head == len(st.values) {
			if pull && !st.done {
				st.rewind()
				if st.pull(horizon, defaultBatchRows); st.err != nil {
					return st.err
				}
			}
			if st.head == len(st.values) {
				break
			}
		}
		var stop bool
		if fill {
			stop = c.fill(vals, end, compat, latest)
		} else {
			stop = c.match(vals, end, latest)
		}
		if stop {
			break
		}
	}
	// No event is left for the remaining rows.
	switch {
	case c.row == end:
	case fill:
		c.repeat(c.latest(compat), end-c.row, latest)
	default:
		c.nulls(end - c.row)
	}
	return nil
}

func (c *column) latest(compat bool) ref {
	if compat {
		return c.real
	}
	return c.last
}

// match gives buffered events to the rows before end that have their value. It
// reports whether the next event lies behind them.
func (c *column) match(vals []int64, end int, latest [][]int64) bool {
	st := c.stream
	for st.head < len(st.values) {
		v := st.values[st.head]
		if vals[end-1] < v {
			return true
		}
		i := c.row
		if vals[i] < v {
			// Gallop: columns are often far sparser than rows.
			step := 1
			for i+step < end && vals[i+step] < v {
				i += step
				step *= 2
			}
			hi := min(i+step, end-1)
			for i++; i < hi; {
				if m := (i + hi) / 2; vals[m] < v {
					i = m + 1
				} else {
					hi = m
				}
			}
		}
		if vals[i] != v {
			st.head++
			continue
		}
		for st.head+1 < len(st.values) && st.values[st.head+1] == v {
			st.head++
		}
		if i > c.row {
			c.nulls(i - c.row)
		}
		c.cell(st.refs[st.head], latest)
		st.head++
		if c.row == end {
			return true
		}
	}
	return false
}

// fill gives each row before end the latest event. It reports whether the next
// event lies behind them.
func (c *column) fill(vals []int64, end int, compat bool, latest [][]int64) bool {
	st := c.stream
	for st.head < len(st.values) {
		v := st.values[st.head]
		// Rows before the event keep what they have.
		i := c.row
		for i < end && vals[i] < v {
			i++
		}
		if i > c.row {
			c.repeat(c.latest(compat), i-c.row, latest)
		}
		if i == end {
			return true
		}
		for st.head < len(st.values) && st.values[st.head] == v {
			c.last = st.refs[st.head]
			if c.last.src.list != nil {
				c.real = c.last
			}
			st.head++
		}
		if compat && vals[i] == v {
			// A clear shows in its own row only.
			c.repeat(c.last, 1, latest)
		}
	}
	return c.row == end
}

// nulls adds rows without a cell.
func (c *column) nulls(n int) {
	c.row += n
	if k := len(c.spans) - 1; k >= 0 && c.spans[k].Src < 0 {
		c.spans[k].Len += n
		return
	}
	c.spans = append(c.spans, gather.Span{Src: -1, Len: n})
}

// cell adds one row.
func (c *column) cell(r ref, latest [][]int64) {
	if len(latest) > 0 {
		for k, times := range r.src.times {
			if times != nil && latest[k] != nil {
				latest[k][c.row] = max(latest[k][c.row], times[r.row])
			}
		}
	}
	c.row++
	if !c.output {
		return
	}
	src, row := c.source(r), int(r.row)
	if r.src.list == nil {
		row = 0
	} else if k := len(c.spans) - 1; k >= 0 {
		if p := &c.spans[k]; p.Src == src && p.Start+p.Len == row {
			p.Len++
			return
		}
	}
	c.spans = append(c.spans, gather.Span{Src: src, Start: row, Len: 1})
}

// repeat adds n rows with the same cell.
func (c *column) repeat(r ref, n int, latest [][]int64) {
	if r.src == nil {
		c.nulls(n)
		return
	}
	c.cell(r, latest)
	if n--; n == 0 {
		return
	}
	if len(latest) > 0 {
		for k, times := range r.src.times {
			if times == nil || latest[k] == nil {
				continue
			}
			t := times[r.row]
			for i, old := range latest[k][c.row : c.row+n] {
				if t > old {
					latest[k][c.row+i] = t
				}
			}
		}
	}
	c.row += n
	if !c.output {
		return
	}
	s := gather.Span{Src: c.source(r), Start: int(r.row), Len: 1}
	if r.src.list == nil {
		s.Start = 0
	}
	for range n {
		c.spans = append(c.spans, s)
	}
}

// source numbers a source among those of the batch.
func (c *column) source(r ref) int {
	s := r.src
	if s.batch != c.number {
		s.batch, s.number = c.number, len(c.srcs)
		list := s.list
		if list == nil {
			list = c.empty
		}
		c.srcs = append(c.srcs, list)
	}
	return s.number
}

// array builds the next n rows of the batch.
func (c *column) array(n int) (arrow.Array, error) {
	if c.stream == nil {
		return c.constants(n)
	}
	from := c.at
	spans := c.take(n)
	a, err := gather.Rows(c.Type, c.srcs, spans)
	if err != nil {
		c.at = from // so that fewer rows can be tried
	}
	return a, err
}

// take is the spans of the next n rows.
func (c *column) take(n int) []gather.Span {
	if c.at == (gather.Span{}) && n == c.row {
		c.at.Src = len(c.spans)
		return c.spans
	}
	var out []gather.Span
	for n > 0 {
		s := c.spans[c.at.Src]
		s.Start += c.at.Start
		s.Len -= c.at.Start
		if s.Len > n {
			s.Len = n
			c.at.Start += n
		} else {
			c.at = gather.Span{Src: c.at.Src + 1}
		}
		n -= s.Len
		out = append(out, s)
	}
	return out
}

// constants is n rows of the static cell.
func (c *column) constants(n int) (arrow.Array, error) {
	if c.constant == nil || c.constant.Len() < n {
		spans := []gather.Span{{Src: -1, Len: n}}
		var srcs []arrow.Array
		if c.static.src != nil {
			srcs = []arrow.Array{c.static.src.list}
			spans = make([]gather.Span, n)
			for i := range spans {
				spans[i] = gather.Span{Start: int(c.static.row), Len: 1}
			}
		}
		a, err := gather.Rows(c.Type, srcs, spans)
		if err != nil {
			return nil, err
		}
		c.constant = a
	}
	return gather.Rows(c.Type, []arrow.Array{c.constant}, []gather.Span{{Len: n}})
}

// settle ends a batch: what is needed later keeps no more than itself alive.
func (c *column) settle(resident bool) error {
	st := c.stream
	if st == nil {
		return nil
	}
	if !resident {
		clear(st.refs[:st.head])
		for _, r := range []*ref{&c.last, &c.real} {
			if err := c.detach(r); err != nil {
				return err
			}
		}
	}
	st.rewind()
	return nil
}

// detach copies a cell out of its chunk.
func (c *column) detach(r *ref) error {
	if r.src == nil || r.src.n == 1 {
		return nil
	}
	s := &source{n: 1, batch: -1, times: make([][]int64, len(r.src.times))}
	for i, t := range r.src.times {
		if t != nil {
			s.times[i] = []int64{t[r.row]}
		}
	}
	if r.src.list != nil {
		// A second row keeps gather from sharing the buffers.
		a, err := gather.Rows(r.src.list.DataType(), []arrow.Array{r.src.list}, []gather.Span{{Start: int(r.row), Len: 1}, {Src: -1, Len: 1}})
		if err != nil {
			return err
		}
		s.list = a
	}
	*r = ref{s, 0}
	return nil
}

// rowBytes guesses the bytes that a row of the column takes in the next batch.
func (c *column) rowBytes(fill bool) int64 {
	switch {
	case !c.output:
		return 0
	case c.stream == nil:
		return cellBytes(c.static)
	}
	var n int64
	if fill {
		n = cellBytes(c.last)
	}
	if st := c.stream; st.head < len(st.refs) {
		n = max(n, cellBytes(st.refs[st.head]))
	}
	return n
}

func cellBytes(r ref) int64 {
	if r.src == nil || r.src.list == nil {
		return 0
	}
	return rangeBytes(r.src.list.Data(), int64(r.row), int64(r.row)+1)
}

// rangeBytes is about how many bytes of values the rows from..to of an array have.
func rangeBytes(d arrow.ArrayData, from, to int64) int64 {
	off := int64(d.Offset())
	from, to = from+off, to+off
	bufs, kids := d.Buffers(), d.Children()
	if to <= from {
		return 0
	}
	switch dt := d.DataType().(type) {
	case *arrow.ListType, *arrow.MapType, *arrow.StringType, *arrow.BinaryType:
		if bufs[1] == nil || int64(bufs[1].Len()) < (to+1)*4 {
			return 0
		}
		o := arrow.Int32Traits.CastFromBytes(bufs[1].Bytes())
		if len(kids) == 0 {
			return int64(o[to] - o[from])
		}
		return rangeBytes(kids[0], int64(o[from]), int64(o[to]))
	case *arrow.LargeListType, *arrow.LargeStringType, *arrow.LargeBinaryType:
		if bufs[1] == nil || int64(bufs[1].Len()) < (to+1)*8 {
			return 0
		}
		o := arrow.Int64Traits.CastFromBytes(bufs[1].Bytes())
		if len(kids) == 0 {
			return o[to] - o[from]
		}
		return rangeBytes(kids[0], o[from], o[to])
	case *arrow.FixedSizeListType:
		return rangeBytes(kids[0], from*int64(dt.Len()), to*int64(dt.Len()))
	case *arrow.StructType:
		var n int64
		for _, k := range kids {
			n += rangeBytes(k, from, to)
		}
		return n
	case *arrow.DictionaryType:
		return (to - from) * int64(dt.Bytes())
	case arrow.FixedWidthDataType:
		return (to - from) * int64(max(1, dt.Bytes()))
	}
	return (to - from) * 16
}

// cuts splits a batch of n rows where runs of rows that can be sliced begin or end.
func cuts(cols []*column, n int) []int {
	edge := make(map[int]bool)
	for _, c := range cols {
		if c.stream == nil || !c.output || len(c.spans) > 2+n/sliceRows*2 {
			continue
		}
		at := 0
		for _, s := range c.spans {
			if s.Len >= sliceRows && s.Src >= 0 {
				edge[at], edge[at+s.Len] = true, true
			}
			at += s.Len
		}
	}
	var out []int
	if len(edge) > 0 {
		for at, next := 0, sliceRows; next <= n-sliceRows; next++ {
			if edge[next] {
				out = append(out, next-at)
				at = next
				next += sliceRows - 1
			}
		}
	}
	done := 0
	for _, k := range out {
		done += k
	}
	return append(out, n-done)
}

const noTime = math.MinInt64 // in latest: no cell of the row has a time
