package columnar

import (
	"math"
	"slices"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Number is the type of a value in a [Fixed] column.
type Number interface {
	int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64 | float32 | float64
}

// Fixed is a column of numbers, timestamps or durations.
type Fixed[T Number] struct {
	dt     arrow.DataType
	values []T
	valid  validity
}

// Type implements [Column].
func (c *Fixed[T]) Type() arrow.DataType { return c.dt }

// Len implements [Column].
func (c *Fixed[T]) Len() int { return len(c.values) }

// Append adds a value.
func (c *Fixed[T]) Append(v T) {
	c.valid.valid(len(c.values))
	c.values = append(c.values, v)
}

// Extend adds n values, which are zero, and returns them to be filled in. The
// slice is good until the next call on the column.
func (c *Fixed[T]) Extend(n int) []T {
	if n > math.MaxInt32-len(c.values) {
		panic(ErrFull)
	}
	from := len(c.values)
	if c.valid.bits != nil {
		for i := range n {
			c.valid.valid(from + i)
		}
	}
	c.values = slices.Grow(c.values, n)[:from+n]
	tail := c.values[from:]
	clear(tail)
	return tail
}

// AppendLE adds the values of a run of little-endian memory, whose length must
// be a multiple of the value size.
func (c *Fixed[T]) AppendLE(b []byte) {
	var zero T
	size := int(unsafe.Sizeof(zero))
	n := len(b) / size
	if n == 0 {
		return
	}
	if n > math.MaxInt32-len(c.values) {
		panic(ErrFull)
	}
	from := len(c.values)
	if c.valid.bits != nil {
		for i := range n {
			c.valid.valid(from + i)
		}
	}
	c.values = slices.Grow(c.values, n)[:from+n]
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&c.values[from])), n*size), b)
	if bigEndianHost && size > 1 {
		swap(c.values[from:])
	}
}

// Grow makes room for n more values.
func (c *Fixed[T]) Grow(n int) { c.values = slices.Grow(c.values, n) }

// Values are the values so far, zero where null; not to be kept.
func (c *Fixed[T]) Values() []T { return c.values }

// AppendNull implements [Column].
func (c *Fixed[T]) AppendNull() {
	var zero T
	c.valid.null(len(c.values))
	c.values = append(c.values, zero)
}

// AppendZero implements [Column].
func (c *Fixed[T]) AppendZero() {
	var zero T
	c.Append(zero)
}

// Truncate implements [Column].
func (c *Fixed[T]) Truncate(n int) {
	if n < len(c.values) {
		c.valid.truncate(n, len(c.values))
		c.values = c.values[:n]
	}
}

// Finish implements [Column].
func (c *Fixed[T]) Finish() arrow.ArrayData {
	n := len(c.values)
	bits, nulls := c.valid.finish()
	d := array.NewData(c.dt, n, []*memory.Buffer{bits, numberBuffer(c.values)}, nil, nulls, 0)
	c.values = nil
	return d
}

func (c *Fixed[T]) sizes(to []int) []int { return append(to, len(c.values)) }

func (c *Fixed[T]) reserve(sizes []int, e estimate) []int {
	var zero T
	c.values = slices.Grow(c.values, e.room(sizes[0], int(unsafe.Sizeof(zero))))
	return sizes[1:]
}

// numberBuffer is an Arrow buffer over the memory of v, with its spare capacity.
func numberBuffer[T Number | int32](v []T) *memory.Buffer {
	if len(v) == 0 {
		return memory.NewBufferBytes([]byte{})
	}
	var zero T
	return memory.NewBufferBytes(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), len(v)*int(unsafe.Sizeof(zero))))
}

var bigEndianHost = func() bool {
	one := uint16(1)
	return *(*byte)(unsafe.Pointer(&one)) == 0
}()

// swap reverses the bytes of each value.
func swap[T Number](v []T) {
	if len(v) == 0 {
		return
	}
	size := int(unsafe.Sizeof(v[0]))
	b := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), len(v)*size)
	for i := 0; i < len(b); i += size {
		slices.Reverse(b[i : i+size])
	}
}

// Bool is a column of booleans.
type Bool struct {
	bits  []byte
	n     int
	valid validity
}

// Type implements [Column].
func (c *Bool) Type() arrow.DataType { return arrow.FixedWidthTypes.Boolean }

// Len implements [Column].
func (c *Bool) Len() int { return c.n }

// Append adds a value.
func (c *Bool) Append(v bool) {
	c.valid.valid(c.n)
	c.push(v)
}

func (c *Bool) push(v bool) {
	if c.n&7 == 0 {
		c.bits = append(c.bits, 0)
	}
	if v {
		c.bits[c.n>>3] |= 1 << (c.n & 7)
	}
	c.n++
}

// AppendNull implements [Column].
func (c *Bool) AppendNull() {
	c.valid.null(c.n)
	c.push(false)
}

// AppendZero implements [Column].
func (c *Bool) AppendZero() { c.Append(false) }

// Truncate implements [Column].
func (c *Bool) Truncate(n int) {
	if n >= c.n {
		return
	}
	c.valid.truncate(n, c.n)
	c.bits, c.n = c.bits[:(n+7)/8], n
	if n&7 != 0 {
		c.bits[n>>3] &= 1<<(n&7) - 1
	}
}

// Finish implements [Column].
func (c *Bool) Finish() arrow.ArrayData {
	bits, nulls := c.valid.finish()
	d := array.NewData(c.Type(), c.n, []*memory.Buffer{bits, numberBuffer(c.bits)}, nil, nulls, 0)
	c.bits, c.n = nil, 0
	return d
}

func (c *Bool) sizes(to []int) []int { return append(to, len(c.bits)) }

func (c *Bool) reserve(sizes []int, e estimate) []int {
	c.bits = slices.Grow(c.bits, e.room(sizes[0], 1))
	return sizes[1:]
}

// Bytes is a column of Utf8 or Binary values. It does not check UTF-8.
type Bytes struct {
	dt    arrow.DataType
	ends  offsets
	data  []byte
	valid validity
}

// Type implements [Column].
func (c *Bytes) Type() arrow.DataType { return c.dt }

// Len implements [Column].
func (c *Bytes) Len() int { return c.ends.len() }

// Append adds a copy of v.
func (c *Bytes) Append(v []byte) {
	c.data = append(c.data, v...)
	c.End()
}

// AppendString adds v.
func (c *Bytes) AppendString(v string) {
	c.data = append(c.data, v...)
	c.End()
}

// Write adds bytes to the value that End completes. It never fails.
func (c *Bytes) Write(p []byte) (int, error) {
	c.data = append(c.data, p...)
	return len(p), nil
}

// End completes the value whose bytes were written.
func (c *Bytes) End() {
	c.ends.push(len(c.data))
	c.valid.valid(c.Len() - 1)
}

// AppendNull implements [Column].
func (c *Bytes) AppendNull() {
	c.ends.push(len(c.data))
	c.valid.null(c.Len() - 1)
}

// AppendZero implements [Column].
func (c *Bytes) AppendZero() { c.End() }

// Truncate implements [Column].
func (c *Bytes) Truncate(n int) {
	if n < c.Len() {
		c.valid.truncate(n, c.Len())
		c.ends.truncate(n)
	}
	c.data = c.data[:c.ends.last()]
}

// Finish implements [Column].
func (c *Bytes) Finish() arrow.ArrayData {
	n := c.Len()
	bits, nulls := c.valid.finish()
	d := array.NewData(c.dt, n, []*memory.Buffer{bits, c.ends.finish(), numberBuffer(c.data)}, nil, nulls, 0)
	c.data = nil
	return d
}

func (c *Bytes) sizes(to []int) []int { return append(to, c.Len(), len(c.data)) }

func (c *Bytes) reserve(sizes []int, e estimate) []int {
	c.ends.reserve(e.room(sizes[0], 4))
	c.data = slices.Grow(c.data, e.room(sizes[1], 1))
	return sizes[2:]
}

// offsets are the ends of variable-length rows, with the leading zero of Arrow.
type offsets struct{ v []int32 }

func (o *offsets) len() int { return max(len(o.v)-1, 0) }

func (o *offsets) last() int {
	if len(o.v) == 0 {
		return 0
	}
	return int(o.v[len(o.v)-1])
}

func (o *offsets) push(end int) {
	if end > math.MaxInt32 {
		panic(ErrFull)
	}
	if len(o.v) == 0 {
		o.v = append(o.v, 0)
	}
	o.v = append(o.v, int32(end))
}

func (o *offsets) truncate(n int) {
	if n < o.len() {
		o.v = o.v[:n+1]
	}
}

func (o *offsets) reserve(n int) { o.v = slices.Grow(o.v, n+1) }

func (o *offsets) finish() *memory.Buffer {
	v := o.v
	if len(v) == 0 {
		v = []int32{0}
	}
	o.v = nil
	return numberBuffer(v)
}
