package gather

import (
	"fmt"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// view is the layout of a string view: length, then either up to 12 bytes of
// data, or 4 bytes of prefix, buffer number and offset.
type view struct {
	size int32
	_    [4]byte
	buf  int32
	off  int32
}

const inlineSize = 12

// views shares the data buffers of the sources, unless the selected values are
// so small a part of them that carrying them along (writers write whole
// buffers) costs more than a copy.
func (j *job) views() (arrow.ArrayData, error) {
	valid, nulls := j.validity()
	in := column[view](j, 1)
	out := make([]view, j.n)
	base := make([]int32, len(j.srcs))
	bufs := []*memory.Buffer{valid, nil}
	seen := map[*memory.Buffer]bool{}
	held := 0
	for i := range j.srcs {
		if c := &j.srcs[i]; c.used {
			base[i] = int32(len(bufs) - 2)
			data := c.data.Buffers()[2:]
			bufs = append(bufs, data...)
			for _, b := range data {
				if b != nil && !seen[b] {
					seen[b] = true
					held += b.Len()
				}
			}
		}
	}
	used := 0
	o := 0
	for _, s := range j.spans {
		if s.Src < 0 {
			o += s.Len
			continue
		}
		c := &j.srcs[s.Src]
		data := c.data.Buffers()[2:]
		for r := s.Start; r < s.Start+s.Len; r, o = r+1, o+1 {
			if c.isNull(r) {
				continue
			}
			v := in[s.Src][r]
			if v.size > inlineSize {
				if v.buf < 0 || int(v.buf) >= len(data) || data[v.buf] == nil || v.off < 0 || int(v.size) > data[v.buf].Len()-int(v.off) {
					return nil, fmt.Errorf("source %d: row %d: view outside its buffers", s.Src, r)
				}
				v.buf += base[s.Src]
				used += int(v.size)
			} else if v.size < 0 {
				return nil, fmt.Errorf("source %d: row %d: negative length", s.Src, r)
			}
			out[o] = v
		}
	}
	if used < held/2 {
		bufs = append(bufs[:2], copyViews(out, bufs[2:], used)...)
	}
	bufs[1] = bufferOf(out)
	return j.finish(bufs, nil, nulls), nil
}

// copyViews moves the data of views into new buffers of at most 1 GiB, for offsets have 31 bits.
func copyViews(views []view, data []*memory.Buffer, total int) []*memory.Buffer {
	const limit = 1 << 30
	var out []*memory.Buffer
	cur := make([]byte, 0, min(total, limit))
	for i := range views {
		v := &views[i]
		if v.size <= inlineSize {
			continue
		}
		if len(cur) > 0 && len(cur)+int(v.size) > limit {
			out = append(out, memory.NewBufferBytes(cur))
			cur = make([]byte, 0, min(total, limit))
		}
		from := data[v.buf].Bytes()[v.off:][:v.size]
		v.buf, v.off = int32(len(out)), int32(len(cur))
		cur = append(cur, from...)
		total -= int(v.size)
	}
	if len(cur) > 0 {
		out = append(out, memory.NewBufferBytes(cur))
	}
	return out
}

func (j *job) dictionaries(want *arrow.DictionaryType) (arrow.ArrayData, error) {
	dict, shift, err := j.joinDictionaries(want)
	if err != nil {
		return nil, err
	}
	valid, nulls := j.validity()
	var buf *memory.Buffer
	width := want.IndexType.(arrow.FixedWidthDataType).Bytes()
	switch width {
	case 1:
		buf, err = copyIndices[uint8](j, shift)
	case 2:
		buf, err = copyIndices[uint16](j, shift)
	case 4:
		buf, err = copyIndices[uint32](j, shift)
	default:
		buf, err = copyIndices[uint64](j, shift)
	}
	if err != nil {
		return nil, err
	}
	return array.NewDataWithDictionary(j.dt, j.n, []*memory.Buffer{valid, buf}, nulls, 0, dict), nil
}

// remap says how the dictionary entries of a source are numbered in the result:
// by table, or, without one, as they are plus an addend.
type remap struct {
	add   int
	table []int32
	size  int // entries of the source's dictionary
}

func copyIndices[T uint8 | uint16 | uint32 | uint64](j *job, shift []remap) (*memory.Buffer, error) {
	out := copyFixed(j, column[T](j, 1))
	o := 0
	for _, s := range j.spans {
		if s.Src < 0 {
			o += s.Len
			continue
		}
		c, m := &j.srcs[s.Src], &shift[s.Src]
		for r := s.Start; r < s.Start+s.Len; r, o = r+1, o+1 {
			i := uint64(out[o])
			switch {
			case c.isNull(r):
				out[o] = 0
			case i >= uint64(m.size):
				return nil, fmt.Errorf("source %d: row %d: index outside a dictionary of %d entries", s.Src, r, m.size)
			case m.table != nil:
				out[o] = T(m.table[i])
			default:
				out[o] = T(i + uint64(m.add))
			}
		}
	}
	return bufferOf(out), nil
}

// joinDictionaries makes one dictionary: the common one if all are equal, else
// all after each other, and if the indices can't reach that far, the distinct
// values of all that the selected rows use.
func (j *job) joinDictionaries(want *arrow.DictionaryType) (*array.Data, []remap, error) {
	shift := make([]remap, len(j.srcs))
	var dicts []arrow.ArrayData // the distinct ones
	var spans []Span
	var at []int // start of each in the result
	total := 0
	for i := range j.srcs {
		c := &j.srcs[i]
		if !c.used {
			continue
		}
		d := c.data.Dictionary()
		shift[i].size = d.Len()
		found := false
		for k, e := range dicts {
			if sameData(d, e) {
				shift[i].add, found = at[k], true
				break
			}
		}
		if !found {
			shift[i].add = total
			spans = append(spans, Span{len(dicts), 0, d.Len()})
			dicts, at = append(dicts, d), append(at, total)
			total += d.Len()
		}
	}
	switch {
	case len(dicts) == 0:
		d, err := rows(want.ValueType, nil, nil)
		if err != nil {
			return nil, nil, err
		}
		return d.(*array.Data), shift, nil
	case len(dicts) == 1:
		return dicts[0].(*array.Data), shift, nil
	case total-1 <= maxIndex(want.IndexType):
		d, err := rows(want.ValueType, dicts, spans)
		if err != nil {
			return nil, nil, fmt.Errorf("dictionary: %w", err)
		}
		return d.(*array.Data), shift, nil
	}
	return j.unifyDictionaries(want, shift)
}

func (j *job) unifyDictionaries(want *arrow.DictionaryType, shift []remap) (*array.Data, []remap, error) {
	all := make([]arrow.ArrayData, len(j.srcs))
	used := make([][]bool, len(j.srcs))
	for i := range j.srcs {
		if c := &j.srcs[i]; c.used {
			all[i] = c.data.Dictionary()
			used[i] = make([]bool, all[i].Len())
		}
	}
	width := want.IndexType.(arrow.FixedWidthDataType).Bytes()
	for _, s := range j.spans {
		if s.Src < 0 {
			continue
		}
		c := &j.srcs[s.Src]
		for r := s.Start; r < s.Start+s.Len; r++ {
			if i := indexAt(c.buf(1), c.off+r, width); !c.isNull(r) && i < uint64(len(used[s.Src])) {
				used[s.Src][i] = true
			}
		}
	}
	seen := map[string]int32{}
	var spans []Span
	for i := range j.srcs {
		if all[i] == nil {
			continue
		}
		vals := array.MakeFromData(all[i])
		shift[i].table = make([]int32, vals.Len())
		for k, u := range used[i] {
			if !u {
				continue
			}
			key := "n"
			if vals.IsValid(k) {
				key = "v" + vals.ValueStr(k)
			}
			n, ok := seen[key]
			if !ok {
				n = int32(len(spans))
				seen[key] = n
				spans = append(spans, Span{i, k, 1})
			}
			shift[i].table[k] = n
		}
		vals.Release()
	}
	if len(spans)-1 > maxIndex(want.IndexType) {
		return nil, nil, fmt.Errorf("dictionary of %d entries with %s indices: %w", len(spans), want.IndexType, ErrOverflow)
	}
	d, err := rows(want.ValueType, all, spans)
	if err != nil {
		return nil, nil, fmt.Errorf("dictionary: %w", err)
	}
	return d.(*array.Data), shift, nil
}

func indexAt(b []byte, i, width int) uint64 {
	switch width {
	case 1:
		return uint64(b[i])
	case 2:
		return uint64(cast[uint16](b)[i])
	case 4:
		return uint64(cast[uint32](b)[i])
	}
	return cast[uint64](b)[i]
}

func maxIndex(dt arrow.DataType) int {
	bits := dt.(arrow.FixedWidthDataType).BitWidth()
	switch dt.ID() {
	case arrow.UINT8, arrow.UINT16, arrow.UINT32:
		return 1<<bits - 1
	case arrow.UINT64:
		return 1<<63 - 1
	}
	return 1<<(bits-1) - 1
}

// sameData reports whether two arrays are the same: by identity of their
// buffers, or, for small ones, by content.
func sameData(a, b arrow.ArrayData) bool {
	if a == b {
		return true
	}
	if a.Len() != b.Len() {
		return false
	}
	if a.Offset() == b.Offset() && len(a.Children()) == 0 && len(a.Buffers()) == len(b.Buffers()) {
		same := true
		for i, x := range a.Buffers() {
			same = same && sameBuffer(x, b.Buffers()[i])
		}
		if same {
			return true
		}
	}
	x, y := array.MakeFromData(a), array.MakeFromData(b)
	defer x.Release()
	defer y.Release()
	return array.Equal(x, y)
}

func sameBuffer(a, b *memory.Buffer) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a == b || a.Len() == b.Len() && unsafe.SliceData(a.Bytes()) == unsafe.SliceData(b.Bytes())
}
