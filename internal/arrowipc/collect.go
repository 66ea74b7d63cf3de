package arrowipc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
)

// collector gathers what the body of a record batch will hold, without copying
// any values: field nodes, and for each buffer where its bytes come from.
type collector struct {
	nodes   []fieldNode
	parts   []part
	counts  []int // data buffers per view array
	bodyLen int

	nodeSpace [24]fieldNode
	partSpace [48]part
}

type fieldNode struct{ length, nulls int }

// part is one buffer of the body.
type part struct {
	kind partKind
	size int    // bytes it takes
	src  []byte // bytes it comes from
	from int    // first bit or element of src
	n    int    // bits or elements
	base int64  // subtracted from offsets
	last int64  // run ends are cut here
	ids  []byte // type ids of a dense union
	low  *[int(arrow.MaxUnionTypeCode) + 1]int32
}

type partKind uint8

const (
	partBytes partKind = iota
	partBits
	partOffsets32
	partOffsets64
	partRuns16
	partRuns32
	partRuns64
	partUnion // offsets of a dense union
)

var errArray = errors.New("array does not hold what its type promises")

// size is how many bytes the message takes at most.
func (c *collector) size() int {
	return 256 + 16*len(c.nodes) + 16*len(c.parts) + 8*len(c.counts) + alignTo + c.bodyLen
}

func (c *collector) put(p part) {
	c.parts = append(c.parts, p)
	c.bodyLen += padded(p.size)
}

func (c *collector) putBytes(b []byte) { c.put(part{size: len(b), src: b}) }

// buffer returns the bytes of buffer i, nil if there is none.
func buffer(d arrow.ArrayData, i int) []byte {
	bufs := d.Buffers()
	if i >= len(bufs) || bufs[i] == nil {
		return nil
	}
	return bufs[i].Bytes()
}

// slots returns the bytes of n elements of a buffer.
func slots(d arrow.ArrayData, i, off, n, width int) ([]byte, error) {
	if n == 0 {
		return nil, nil
	}
	b := buffer(d, i)
	if len(b) < (off+n)*width {
		return nil, errArray
	}
	return b[off*width : (off+n)*width], nil
}

func (c *collector) putSlots(d arrow.ArrayData, i, off, n, width int) error {
	b, err := slots(d, i, off, n, width)
	if err == nil {
		c.putBytes(b)
	}
	return err
}

func (c *collector) putBits(b []byte, off, n int) error {
	if len(b) < (off+n+7)/8 {
		return errArray
	}
	c.put(part{kind: partBits, size: (n + 7) / 8, src: b, from: off, n: n})
	return nil
}

// add collects n elements of an array from position off, which counts from the
// start of its buffers, not from the array's own offset.
func (c *collector) add(dt arrow.DataType, d arrow.ArrayData, off, n int) error {
	if ext, ok := dt.(arrow.ExtensionType); ok {
		dt = ext.StorageType()
	}
	id := dt.ID()
	switch id {
	case arrow.NULL:
		c.nodes = append(c.nodes, fieldNode{n, n})
		return nil
	case arrow.SPARSE_UNION, arrow.DENSE_UNION:
		return c.union(dt.(arrow.UnionType), d, off, n)
	case arrow.RUN_END_ENCODED:
		return c.runEnds(dt.(*arrow.RunEndEncodedType), d, off, n)
	}
	if err := c.validity(d, off, n); err != nil {
		return err
	}
	switch id {
	case arrow.BOOL:
		return c.putBits(buffer(d, 1), off, n)
	case arrow.STRING, arrow.BINARY:
		return collectBinary[int32](c, d, off, n)
	case arrow.LARGE_STRING, arrow.LARGE_BINARY:
		return collectBinary[int64](c, d, off, n)
	case arrow.STRING_VIEW, arrow.BINARY_VIEW:
		return c.views(d, off, n)
	case arrow.LIST, arrow.MAP:
		return collectList[int32](c, dt.(arrow.ListLikeType).Elem(), d, off, n)
	case arrow.LARGE_LIST:
		return collectList[int64](c, dt.(arrow.ListLikeType).Elem(), d, off, n)
	case arrow.LIST_VIEW:
		return collectListView[int32](c, dt.(arrow.ListLikeType).Elem(), d, off, n)
	case arrow.LARGE_LIST_VIEW:
		return collectListView[int64](c, dt.(arrow.ListLikeType).Elem(), d, off, n)
	case arrow.FIXED_SIZE_LIST:
		list := dt.(*arrow.FixedSizeListType)
		size := int(list.Len())
		return c.child(list.Elem(), d, 0, off*size, n*size)
	case arrow.STRUCT:
		s := dt.(*arrow.StructType)
		for i := range s.NumFields() {
			if err := c.child(s.Field(i).Type, d, i, off, n); err != nil {
				return err
			}
		}
		return nil
	case arrow.DICTIONARY:
		dt = dt.(*arrow.DictionaryType).IndexType
	}
	fixed, ok := dt.(arrow.FixedWidthDataType)
	if !ok {
		return fmt.Errorf("arrow type %s cannot be encoded", dt)
	}
	return c.putSlots(d, 1, off, n, fixed.BitWidth()/8)
}

// child collects n elements of a child array from position off within it.
func (c *collector) child(dt arrow.DataType, d arrow.ArrayData, i, off, n int) error {
	kids := d.Children()
	if i >= len(kids) || off < 0 || n < 0 || off+n > kids[i].Len() {
		return errArray
	}
	return c.add(dt, kids[i], kids[i].Offset()+off, n)
}

// validity adds the field node and the validity bitmap, which is empty when
// nothing is null.
func (c *collector) validity(d arrow.ArrayData, off, n int) error {
	b := buffer(d, 0)
	nulls := 0
	if len(b) > 0 && n > 0 {
		if len(b) < (off+n+7)/8 {
			return errArray
		}
		nulls = d.NullN()
		if nulls < 0 || nulls > 0 && (off != d.Offset() || n != d.Len()) {
			nulls = n - bitutil.CountSetBits(b, off, n)
		}
	}
	c.nodes = append(c.nodes, fieldNode{n, nulls})
	if nulls == 0 {
		c.putBytes(nil)
		return nil
	}
	return c.putBits(b, off, n)
}

// isNull reports whether the element at position i of the buffers is null.
func isNull(validity []byte, i int) bool {
	return len(validity) > 0 && !bitutil.BitIsSet(validity, i)
}

// collectOffsets adds the offsets of n elements, counted from the first, and
// returns the range of values they cover.
func collectOffsets[T int32 | int64](c *collector, d arrow.ArrayData, off, n int) (first, last int, err error) {
	width := int(unsafe.Sizeof(T(0)))
	if n == 0 {
		c.putBytes(zeroOffsets[:width])
		return 0, 0, nil
	}
	b, err := slots(d, 1, off, n+1, width)
	if err != nil {
		return 0, 0, err
	}
	offsets := view[T](b)
	base, end := offsets[0], offsets[n]
	if base < 0 || end < base {
		return 0, 0, errArray
	}
	p := part{size: len(b), src: b, base: int64(base)}
	if base != 0 {
		p.kind = partOffsets32
		if width == 8 {
			p.kind = partOffsets64
		}
	}
	c.put(p)
	return int(base), int(end), nil
}

func collectBinary[T int32 | int64](c *collector, d arrow.ArrayData, off, n int) error {
	first, last, err := collectOffsets[T](c, d, off, n)
	if err != nil {
		return err
	}
	values := buffer(d, 2)
	if last > len(values) {
		return errArray
	}
	c.putBytes(values[first:last])
	return nil
}

func collectList[T int32 | int64](c *collector, elem arrow.DataType, d arrow.ArrayData, off, n int) error {
	first, last, err := collectOffsets[T](c, d, off, n)
	if err != nil {
		return err
	}
	return c.child(elem, d, 0, first, last-first)
}

// collectListView adds a list view with the part of the child that its lists
// cover. Null slots become empty lists.
func collectListView[T int32 | int64](c *collector, elem arrow.DataType, d arrow.ArrayData, off, n int) error {
	width := int(unsafe.Sizeof(T(0)))
	ob, err := slots(d, 1, off, n, width)
	if err != nil {
		return err
	}
	sb, err := slots(d, 2, off, n, width)
	if err != nil {
		return err
	}
	valid := buffer(d, 0)
	offsets, sizes := slices.Clone(view[T](ob)), slices.Clone(view[T](sb))
	low, high := T(0), T(0)
	some := false
	for i := range offsets {
		if sizes[i] == 0 || isNull(valid, off+i) {
			sizes[i] = 0
			continue
		}
		if offsets[i] < 0 || sizes[i] < 0 || offsets[i] > math.MaxInt32<<(8*width-32)-sizes[i] {
			return errArray
		}
		if !some {
			low, some = offsets[i], true
		}
		low, high = min(low, offsets[i]), max(high, offsets[i]+sizes[i])
	}
	for i := range offsets {
		if sizes[i] == 0 {
			offsets[i] = 0
		} else {
			offsets[i] -= low
		}
	}
	c.putBytes(asBytes(offsets))
	c.putBytes(asBytes(sizes))
	return c.child(elem, d, 0, int(low), int(high-low))
}

// asBytes is the memory of a slice of numbers.
func asBytes[T any](s []T) []byte {
	var t T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(t)))
}

// views adds a string or binary view. When less than half of its data is in
// use, as in a small slice, the data is written anew.
func (c *collector) views(d arrow.ArrayData, off, n int) error {
	b, err := slots(d, 1, off, n, viewSize)
	if err != nil {
		return err
	}
	data := d.Buffers()[2:]
	total, used := 0, 0
	for i := range data {
		total += len(buffer(d, 2+i))
	}
	valid := buffer(d, 0)
	for i := range n {
		v := b[i*viewSize:]
		if size := int(int32(binary.LittleEndian.Uint32(v))); size > viewSize-4 && !isNull(valid, off+i) {
			buf, at := int(binary.LittleEndian.Uint32(v[8:])), int(binary.LittleEndian.Uint32(v[12:]))
			if buf >= len(data) || at+size > len(buffer(d, 2+buf)) {
				return errArray
			}
			used += size
		}
	}
	if used >= total/2 || used > math.MaxInt32 {
		c.putBytes(b)
		c.counts = append(c.counts, len(data))
		for i := range data {
			c.putBytes(buffer(d, 2+i))
		}
		return nil
	}
	fresh := make([]byte, 0, used)
	b = slices.Clone(b)
	for i := range n {
		v := b[i*viewSize : (i+1)*viewSize]
		size := int(int32(binary.LittleEndian.Uint32(v)))
		switch {
		case isNull(valid, off+i):
			clear(v)
		case size > viewSize-4:
			buf, at := int(binary.LittleEndian.Uint32(v[8:])), int(binary.LittleEndian.Uint32(v[12:]))
			binary.LittleEndian.PutUint32(v[8:], 0)
			binary.LittleEndian.PutUint32(v[12:], uint32(len(fresh)))
			fresh = append(fresh, buffer(d, 2+buf)[at:at+size]...)
		}
	}
	c.putBytes(b)
	if len(fresh) == 0 {
		c.counts = append(c.counts, 0)
		return nil
	}
	c.counts = append(c.counts, 1)
	c.putBytes(fresh)
	return nil
}

func (c *collector) union(dt arrow.UnionType, d arrow.ArrayData, off, n int) error {
	c.nodes = append(c.nodes, fieldNode{n, 0})
	ids, err := slots(d, 1, off, n, 1)
	if err != nil {
		return err
	}
	c.putBytes(ids)
	fields, codes := dt.Fields(), dt.TypeCodes()
	if dt.Mode() == arrow.SparseMode {
		for i := range fields {
			if err := c.child(fields[i].Type, d, i, off, n); err != nil {
				return err
			}
		}
		return nil
	}
	ob, err := slots(d, 2, off, n, 4)
	if err != nil {
		return err
	}
	offsets := view[int32](ob)
	low := new([int(arrow.MaxUnionTypeCode) + 1]int32)
	var high [int(arrow.MaxUnionTypeCode) + 1]int32
	for i, id := range ids {
		o := offsets[i]
		if int8(id) < 0 || o < 0 || o == math.MaxInt32 {
			return errArray
		}
		if high[id] == 0 { // first of this type
			low[id] = o
		}
		low[id], high[id] = min(low[id], o), max(high[id], o+1)
	}
	c.put(part{kind: partUnion, size: len(ob), src: ob, ids: ids, low: low})
	for i := range fields {
		code := codes[i]
		if err := c.child(fields[i].Type, d, i, int(low[code]), int(high[code]-low[code])); err != nil {
			return err
		}
	}
	return nil
}

func (c *collector) runEnds(dt *arrow.RunEndEncodedType, d arrow.ArrayData, off, n int) error {
	c.nodes = append(c.nodes, fieldNode{n, 0})
	kids := d.Children()
	if len(kids) != 2 {
		return errArray
	}
	width := dt.RunEnds().(arrow.FixedWidthDataType).BitWidth() / 8
	b, err := slots(kids[0], 1, kids[0].Offset(), kids[0].Len(), width)
	if err != nil {
		return err
	}
	var first, last int
	kind := partRuns64
	switch width {
	case 2:
		kind = partRuns16
		first, last = findRuns(view[int16](b), off, n)
	case 4:
		kind = partRuns32
		first, last = findRuns(view[int32](b), off, n)
	default:
		first, last = findRuns(view[int64](b), off, n)
	}
	if last < first {
		return errArray
	}
	runs := last - first
	c.nodes = append(c.nodes, fieldNode{runs, 0})
	c.putBytes(nil)
	b = b[first*width : last*width]
	c.put(part{kind: kind, size: len(b), src: b, base: int64(off), last: int64(n)})
	return c.child(dt.Encoded(), d, 1, first, runs)
}

// findRuns returns the runs that cover n values from off.
func findRuns[T int16 | int32 | int64](ends []T, off, n int) (first, last int) {
	if n == 0 {
		return 0, 0
	}
	first = sort.Search(len(ends), func(i int) bool { return int64(ends[i]) > int64(off) })
	last = sort.Search(len(ends), func(i int) bool { return int64(ends[i]) >= int64(off+n) }) + 1
	if last > len(ends) {
		return 0, -1 // the runs end too early
	}
	return first, last
}

// appendBody appends the buffers, each padded.
func (c *collector) appendBody(dst []byte) []byte {
	dst = slices.Grow(dst, c.bodyLen)
	for i := range c.parts {
		p := &c.parts[i]
		at := len(dst)
		end := at + padded(p.size)
		dst = dst[:end]
		out := dst[at : at+p.size]
		clear(dst[at+p.size : end])
		switch p.kind {
		case partBytes:
			copy(out, p.src)
		case partBits:
			copyBits(out, p.src, p.from, p.n)
		case partOffsets32:
			for k, v := range view[int32](p.src) {
				binary.LittleEndian.PutUint32(out[4*k:], uint32(v-int32(p.base)))
			}
		case partOffsets64:
			for k, v := range view[int64](p.src) {
				binary.LittleEndian.PutUint64(out[8*k:], uint64(v-p.base))
			}
		case partRuns16:
			for k, v := range view[int16](p.src) {
				binary.LittleEndian.PutUint16(out[2*k:], uint16(min(int64(v)-p.base, p.last)))
			}
		case partRuns32:
			for k, v := range view[int32](p.src) {
				binary.LittleEndian.PutUint32(out[4*k:], uint32(min(int64(v)-p.base, p.last)))
			}
		case partRuns64:
			for k, v := range view[int64](p.src) {
				binary.LittleEndian.PutUint64(out[8*k:], uint64(min(v-p.base, p.last)))
			}
		case partUnion:
			for k, v := range view[int32](p.src) {
				binary.LittleEndian.PutUint32(out[4*k:], uint32(v-p.low[p.ids[k]]))
			}
		}
	}
	return dst
}

// copyBits copies n bits that start at bit from of src to the start of dst and
// clears the rest of the last byte.
func copyBits(dst, src []byte, from, n int) {
	if n == 0 {
		return
	}
	src = src[from/8:]
	shift := from % 8
	if shift == 0 {
		copy(dst, src[:len(dst)])
	} else {
		for i := range dst {
			b := src[i] >> shift
			if i+1 < len(src) {
				b |= src[i+1] << (8 - shift)
			}
			dst[i] = b
		}
	}
	if rest := n % 8; rest != 0 {
		dst[len(dst)-1] &= 1<<rest - 1
	}
}
