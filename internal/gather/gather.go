// Package gather builds Arrow arrays out of runs of rows of other arrays. One
// function covers take, filter, concatenate and null padding for every Arrow
// type, by copying ranges of the physical buffers.
//
// It exists because the kernels of the Arrow library lack string views, list
// views, unions and run-end encoding, and ignore 32-bit offset overflow
// (spec/chunks.md 3.2, "Traps").
package gather

import (
	"errors"
	"fmt"
	"math"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Span selects Len rows from source Src starting at row Start. A negative Src
// means Len nulls.
type Span struct{ Src, Start, Len int }

// ErrOverflow is wrapped by the error of [Rows] when the result does not fit
// the offsets, run ends or dictionary indices of its type.
var ErrOverflow = errors.New("result too large for its type")

// Rows builds one array of type dt from the rows that spans select, in their
// order. All sources used must be of type dt. Slices of sources are respected.
//
// Spans that form one contiguous run of one source give a slice that shares its
// buffers (but for unions and list views); else only the selected rows are copied, except that the data of
// string views and equal dictionaries is shared. The result holds its own
// references; the sources are not written to and may be used concurrently.
//
// The error names a span outside its source, a source of another type or with
// buffers too short for its length, or wraps [ErrOverflow].
func Rows(dt arrow.DataType, srcs []arrow.Array, spans []Span) (arrow.Array, error) {
	data := make([]arrow.ArrayData, len(srcs))
	for i, s := range srcs {
		if s != nil {
			data[i] = s.Data()
		}
	}
	out, err := rows(dt, data, spans)
	if err != nil {
		return nil, fmt.Errorf("gather %s: %w", dt, err)
	}
	defer out.Release()
	return array.MakeFromData(out), nil
}

// job is the work of one level of nesting.
type job struct {
	dt    arrow.DataType // as wanted, extension types included
	srcs  []source
	spans []Span
	n     int // rows of the result
	tmp   []arrow.ArrayData
}

// source is one source at one level, with what the loops need taken out of its interface.
type source struct {
	data  arrow.ArrayData
	off   int
	n     int
	used  bool
	valid []byte // validity bits from bit 0 of the buffer; nil if all rows are valid
}

func rows(dt arrow.DataType, srcs []arrow.ArrayData, spans []Span) (arrow.ArrayData, error) {
	j := job{dt: dt, spans: spans, srcs: make([]source, len(srcs))}
	for i, d := range srcs {
		if d != nil {
			j.srcs[i] = source{data: d, off: d.Offset(), n: d.Len()}
		}
	}
	one := true // spans form one contiguous run so far
	src, start := -1, 0
	empty := false
	for i, s := range spans {
		if s.Len < 0 || s.Src >= len(srcs) {
			return nil, fmt.Errorf("span %d: %+v", i, s)
		}
		if s.Len == 0 {
			empty = true
			continue
		}
		if s.Src >= 0 {
			c := &j.srcs[s.Src]
			if s.Start < 0 || s.Len > c.n-s.Start {
				return nil, fmt.Errorf("span %d: %+v outside its source of %d rows", i, s, c.n)
			}
			c.used = true
		}
		switch {
		case !one:
		case j.n == 0:
			src, start = s.Src, s.Start
		default:
			one = s.Src == src && (src < 0 || s.Start == start+j.n)
		}
		j.n += s.Len
		if j.n < 0 {
			return nil, ErrOverflow
		}
	}
	want := storage(dt)
	for i := range j.srcs {
		c := &j.srcs[i]
		if !c.used {
			continue
		}
		if err := c.check(want); err != nil {
			return nil, fmt.Errorf("source %d: %w", i, err)
		}
	}
	if one && j.n > 0 && src >= 0 && (!hasUnsliceable(want) || j.n == j.srcs[src].n && j.srcs[src].off == 0) {
		return j.slice(src, start), nil
	}
	if empty { // so that every span of the loops has a used source, or none
		j.spans = nil
		for _, s := range spans {
			if s.Len > 0 {
				j.spans = append(j.spans, s)
			}
		}
	}
	out, err := j.build(want)
	for _, d := range j.tmp {
		d.Release()
	}
	return out, err
}

// slice shares the buffers of one source. The type is the wanted one, and the
// null count is worked out: the library would do so later, unsynchronised.
func (j *job) slice(src, start int) arrow.ArrayData {
	c := &j.srcs[src]
	nulls := 0
	if c.valid != nil {
		nulls = j.n - bitutil.CountSetBits(c.valid, c.off+start, j.n)
	} else if c.data.DataType().ID() == arrow.NULL {
		nulls = j.n
	}
	out := array.NewData(j.dt, j.n, c.data.Buffers(), c.data.Children(), nulls, c.off+start)
	if d := c.data.Dictionary(); !isNil(d) {
		out.SetDictionary(d)
	}
	return out
}

// hasUnsliceable reports whether a type is or holds a union or a list view. The
// library's IPC writer fails on slices of these, so they are always rebuilt.
func hasUnsliceable(dt arrow.DataType) bool {
	switch dt := storage(dt).(type) {
	case arrow.UnionType, *arrow.ListViewType, *arrow.LargeListViewType:
		return true
	case arrow.NestedType:
		for _, f := range dt.Fields() {
			if hasUnsliceable(f.Type) {
				return true
			}
		}
	}
	return false
}

func isNil(d arrow.ArrayData) bool {
	p, ok := d.(*array.Data)
	return d == nil || ok && p == nil
}

func storage(dt arrow.DataType) arrow.DataType {
	for {
		e, ok := dt.(arrow.ExtensionType)
		if !ok {
			return dt
		}
		dt = e.StorageType()
	}
}

// check verifies that the layout of a used source is that of the wanted type
// and that its buffers are long enough, so that the loops need not.
func (c *source) check(want arrow.DataType) error {
	have := storage(c.data.DataType())
	if have.ID() != want.ID() {
		return fmt.Errorf("type %s", c.data.DataType())
	}
	end := c.off + c.n
	if c.off < 0 || end < 0 {
		return fmt.Errorf("offset %d, length %d", c.off, c.n)
	}
	bufs, kids := 1, len(c.data.Children())
	wantKids := 0
	need := func(i, size int) error {
		if i >= len(c.data.Buffers()) {
			return fmt.Errorf("has %d buffers", len(c.data.Buffers()))
		}
		if b := c.buf(i); len(b) < size {
			return fmt.Errorf("buffer %d has %d bytes, needs %d", i, len(b), size)
		}
		return nil
	}
	var err error
	switch want := want.(type) {
	case *arrow.NullType:
		bufs = 0
	case *arrow.BooleanType:
		err = need(1, (end+7)/8)
	case *arrow.StringType, *arrow.BinaryType:
		err = c.checkOffsets(4)
	case *arrow.LargeStringType, *arrow.LargeBinaryType:
		err = c.checkOffsets(8)
	case *arrow.StringViewType, *arrow.BinaryViewType:
		err = need(1, end*arrow.ViewHeaderSizeBytes)
	case *arrow.ListType, *arrow.MapType:
		wantKids = 1
		err = c.checkOffsets(4)
	case *arrow.LargeListType:
		wantKids = 1
		err = c.checkOffsets(8)
	case *arrow.ListViewType:
		wantKids = 1
		err = errors.Join(need(1, end*4), need(2, end*4))
	case *arrow.LargeListViewType:
		wantKids = 1
		err = errors.Join(need(1, end*8), need(2, end*8))
	case *arrow.FixedSizeListType:
		wantKids = 1
		if f, ok := have.(*arrow.FixedSizeListType); !ok || f.Len() != want.Len() {
			err = fmt.Errorf("type %s", have)
		}
	case *arrow.StructType:
		wantKids = want.NumFields()
	case *arrow.SparseUnionType:
		bufs, wantKids = 0, want.NumFields()
		err = need(1, end)
	case *arrow.DenseUnionType:
		bufs, wantKids = 0, want.NumFields()
		err = errors.Join(need(1, end), need(2, end*4))
	case *arrow.RunEndEncodedType:
		bufs, wantKids = 0, 2
	case *arrow.DictionaryType:
		h := have.(*arrow.DictionaryType)
		if h.IndexType.ID() != want.IndexType.ID() {
			return fmt.Errorf("type %s", have)
		}
		if isNil(c.data.Dictionary()) {
			return errors.New("dictionary is missing")
		}
		err = need(1, end*want.IndexType.(arrow.FixedWidthDataType).Bytes())
	case arrow.FixedWidthDataType:
		w := want.Bytes()
		if h := have.(arrow.FixedWidthDataType); h.Bytes() != w {
			return fmt.Errorf("type %s", have)
		}
		err = need(1, end*w)
	default:
		err = fmt.Errorf("type %s is unknown", want)
	}
	if err != nil {
		return err
	}
	if kids != wantKids {
		return fmt.Errorf("has %d children, needs %d", kids, wantKids)
	}
	if bufs == 0 || len(c.data.Buffers()) == 0 || c.data.NullN() == 0 {
		return nil
	}
	if v := c.buf(0); len(v) > 0 {
		if len(v) < (end+7)/8 {
			return fmt.Errorf("validity has %d bytes for %d rows", len(v), end)
		}
		if c.data.NullN() > 0 || bitutil.CountSetBits(v, c.off, c.n) < c.n {
			c.valid = v
		}
	}
	return nil
}

// checkOffsets allows what the format does for no rows: no offsets at all.
func (c *source) checkOffsets(width int) error {
	if c.n == 0 {
		return nil
	}
	if len(c.data.Buffers()) < 2 {
		return fmt.Errorf("has %d buffers", len(c.data.Buffers()))
	}
	if b := c.buf(1); len(b) < (c.off+c.n+1)*width {
		return fmt.Errorf("offsets have %d bytes for %d rows", len(b), c.off+c.n)
	}
	return nil
}

func (c *source) buf(i int) []byte {
	if bufs := c.data.Buffers(); i < len(bufs) && bufs[i] != nil {
		return bufs[i].Bytes()
	}
	return nil
}

// isNull is for the few layouts where null rows must not be followed.
func (c *source) isNull(row int) bool { return c.valid != nil && !bitutil.BitIsSet(c.valid, c.off+row) }

// column is buffer i of every used source as values of type T, from the first row of its slice on.
func column[T any](j *job, i int) [][]T {
	out := make([][]T, len(j.srcs))
	for k := range j.srcs {
		if c := &j.srcs[k]; c.used {
			if v := cast[T](c.buf(i)); len(v) >= c.off {
				out[k] = v[c.off:]
			}
		}
	}
	return out
}

// cast reads bytes as values of T, a type without pointers. Buffers of foreign
// files may be misaligned, which the supported processors allow.
func cast[T any](b []byte) []T {
	var t T
	if len(b) == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(t)))
}

func bytesOf[T any](v []T) []byte {
	var t T
	if len(v) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), len(v)*int(unsafe.Sizeof(t)))
}

func bufferOf[T any](v []T) *memory.Buffer { return memory.NewBufferBytes(bytesOf(v)) }

// children are child i of every used source, cut to the parent's slice scaled by per.
func (j *job) children(i, per int) ([]arrow.ArrayData, error) {
	out := make([]arrow.ArrayData, len(j.srcs))
	for k := range j.srcs {
		c := &j.srcs[k]
		if !c.used {
			continue
		}
		kid := c.data.Children()[i]
		if (c.off+c.n)*per > kid.Len() {
			return nil, fmt.Errorf("source %d: child has %d rows, needs %d", k, kid.Len(), (c.off+c.n)*per)
		}
		if c.off != 0 || c.n*per != kid.Len() {
			kid = array.NewSliceData(kid, int64(c.off*per), int64((c.off+c.n)*per))
			j.tmp = append(j.tmp, kid)
		}
		out[k] = kid
	}
	return out, nil
}

// wholeChildren are child i of every used source as they are.
func (j *job) wholeChildren(i int) []arrow.ArrayData {
	out := make([]arrow.ArrayData, len(j.srcs))
	for k := range j.srcs {
		if j.srcs[k].used {
			out[k] = j.srcs[k].data.Children()[i]
		}
	}
	return out
}

// validity builds the validity bits; the buffer is nil if no row is null.
func (j *job) validity() (*memory.Buffer, int) {
	any := false
	for _, s := range j.spans {
		if s.Src < 0 || j.srcs[s.Src].valid != nil {
			any = true
			break
		}
	}
	if !any {
		return nil, 0
	}
	bits := make([]byte, (j.n+7)/8)
	o := 0
	for _, s := range j.spans {
		if s.Src >= 0 {
			c := &j.srcs[s.Src]
			switch {
			case s.Len == 1:
				if c.valid == nil || bitutil.BitIsSet(c.valid, c.off+s.Start) {
					bits[o>>3] |= 1 << (o & 7)
				}
			case c.valid == nil:
				bitutil.SetBitsTo(bits, int64(o), int64(s.Len), true)
			default:
				copyBits(bits, o, c.valid, c.off+s.Start, s.Len)
			}
		}
		o += s.Len
	}
	nulls := j.n - bitutil.CountSetBits(bits, 0, j.n)
	if nulls == 0 {
		return nil, 0
	}
	return memory.NewBufferBytes(bits), nulls
}

// copyBits copies n bits; the target bits must be 0.
func copyBits(dst []byte, d int, src []byte, s, n int) {
	for n > 0 && d&7 != 0 {
		if src[s>>3]>>(s&7)&1 != 0 {
			dst[d>>3] |= 1 << (d & 7)
		}
		d, s, n = d+1, s+1, n-1
	}
	if whole := n >> 3; whole > 0 {
		to, from, sh := dst[d>>3:], src[s>>3:], s&7
		if sh == 0 {
			copy(to[:whole], from[:whole])
		} else {
			for i := range whole {
				to[i] = from[i]>>sh | from[i+1]<<(8-sh)
			}
		}
		d, s, n = d+whole<<3, s+whole<<3, n&7
	}
	for ; n > 0; d, s, n = d+1, s+1, n-1 {
		if src[s>>3]>>(s&7)&1 != 0 {
			dst[d>>3] |= 1 << (d & 7)
		}
	}
}

func (j *job) build(want arrow.DataType) (arrow.ArrayData, error) {
	switch want := want.(type) {
	case *arrow.NullType:
		return array.NewData(j.dt, j.n, []*memory.Buffer{nil}, nil, j.n, 0), nil
	case *arrow.BooleanType:
		return j.bools(), nil
	case *arrow.StringType, *arrow.BinaryType:
		return binaries[int32](j, math.MaxInt32)
	case *arrow.LargeStringType, *arrow.LargeBinaryType:
		return binaries[int64](j, math.MaxInt64)
	case *arrow.StringViewType, *arrow.BinaryViewType:
		return j.views()
	case *arrow.ListType:
		return lists[int32](j, want.Elem(), math.MaxInt32)
	case *arrow.MapType:
		return lists[int32](j, want.Elem(), math.MaxInt32)
	case *arrow.LargeListType:
		return lists[int64](j, want.Elem(), math.MaxInt64)
	case *arrow.ListViewType:
		return listViews[int32](j, want.Elem(), math.MaxInt32)
	case *arrow.LargeListViewType:
		return listViews[int64](j, want.Elem(), math.MaxInt64)
	case *arrow.FixedSizeListType:
		return j.fixedLists(want)
	case *arrow.StructType:
		return j.structs(want)
	case *arrow.SparseUnionType:
		return j.sparseUnions(want)
	case *arrow.DenseUnionType:
		return j.denseUnions(want)
	case *arrow.RunEndEncodedType:
		return j.runs(want)
	case *arrow.DictionaryType:
		return j.dictionaries(want)
	case arrow.FixedWidthDataType:
		return j.fixed(want.Bytes()), nil
	}
	return nil, errors.New("type is unknown")
}

func (j *job) finish(bufs []*memory.Buffer, kids []arrow.ArrayData, nulls int) arrow.ArrayData {
	out := array.NewData(j.dt, j.n, bufs, kids, nulls, 0)
	for _, k := range kids {
		k.Release() // NewData holds it now
	}
	return out
}

func (j *job) bools() arrow.ArrayData {
	valid, nulls := j.validity()
	bits := make([]byte, (j.n+7)/8)
	vals := make([][]byte, len(j.srcs))
	for i := range j.srcs {
		if j.srcs[i].used {
			vals[i] = j.srcs[i].buf(1)
		}
	}
	o := 0
	for _, s := range j.spans {
		if s.Src >= 0 {
			copyBits(bits, o, vals[s.Src], j.srcs[s.Src].off+s.Start, s.Len)
		}
		o += s.Len
	}
	return j.finish([]*memory.Buffer{valid, memory.NewBufferBytes(bits)}, nil, nulls)
}

func (j *job) fixed(width int) arrow.ArrayData {
	valid, nulls := j.validity()
	var vals *memory.Buffer
	switch width {
	case 1:
		vals = bufferOf(copyFixed(j, column[uint8](j, 1)))
	case 2:
		vals = bufferOf(copyFixed(j, column[uint16](j, 1)))
	case 4:
		vals = bufferOf(copyFixed(j, column[uint32](j, 1)))
	case 8:
		vals = bufferOf(copyFixed(j, column[uint64](j, 1)))
	case 16:
		vals = bufferOf(copyFixed(j, column[[16]byte](j, 1)))
	default:
		out := make([]byte, j.n*width)
		o := 0
		for _, s := range j.spans {
			if s.Src >= 0 {
				c := &j.srcs[s.Src]
				copy(out[o*width:], c.buf(1)[(c.off+s.Start)*width:(c.off+s.Start+s.Len)*width])
			}
			o += s.Len
		}
		vals = memory.NewBufferBytes(out)
	}
	return j.finish([]*memory.Buffer{valid, vals}, nil, nulls)
}

func copyFixed[T any](j *job, vals [][]T) []T {
	out := make([]T, j.n)
	o := 0
	for _, s := range j.spans {
		switch {
		case s.Src < 0:
		case s.Len == 1:
			out[o] = vals[s.Src][s.Start]
		default:
			copy(out[o:o+s.Len], vals[s.Src][s.Start:])
		}
		o += s.Len
	}
	return out
}
