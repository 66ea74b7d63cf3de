package columnar

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// List is a column of lists. A row is written by appending its items to Items
// and calling End.
type List struct {
	Items Column

	dt    *arrow.ListType
	ends  offsets
	valid validity
}

// Type implements [Column].
func (c *List) Type() arrow.DataType { return c.dt }

// Len implements [Column].
func (c *List) Len() int { return c.ends.len() }

// End completes a row of the items appended since the last one.
func (c *List) End() {
	c.ends.push(c.Items.Len())
	c.valid.valid(c.Len() - 1)
}

// Open is the number of items appended since the last complete row.
func (c *List) Open() int { return c.Items.Len() - c.ends.last() }

// AppendNull implements [Column].
func (c *List) AppendNull() {
	c.ends.push(c.Items.Len())
	c.valid.null(c.Len() - 1)
}

// AppendZero implements [Column].
func (c *List) AppendZero() { c.End() }

// Truncate implements [Column].
func (c *List) Truncate(n int) {
	if n < c.Len() {
		c.valid.truncate(n, c.Len())
		c.ends.truncate(n)
	}
	c.Items.Truncate(c.ends.last())
}

// Finish implements [Column].
func (c *List) Finish() arrow.ArrayData {
	n := c.Len()
	bits, nulls := c.valid.finish()
	return array.NewData(c.dt, n, []*memory.Buffer{bits, c.ends.finish()}, []arrow.ArrayData{c.Items.Finish()}, nulls, 0)
}

func (c *List) sizes(to []int) []int { return c.Items.sizes(append(to, c.Len())) }

func (c *List) reserve(sizes []int, e estimate) []int {
	c.ends.reserve(e.room(sizes[0], 4))
	return c.Items.reserve(sizes[1:], e)
}

// FixedList is a column of lists of one length. A row is written by appending
// exactly that many items to Items and calling End.
type FixedList struct {
	Items Column

	dt    *arrow.FixedSizeListType
	n     int
	valid validity
}

// Type implements [Column].
func (c *FixedList) Type() arrow.DataType { return c.dt }

// Len implements [Column].
func (c *FixedList) Len() int { return c.n }

// End completes a row.
func (c *FixedList) End() { c.EndRows(1) }

// EndRows completes n rows whose items were appended in one go.
func (c *FixedList) EndRows(n int) {
	if c.valid.bits != nil {
		for i := range n {
			c.valid.valid(c.n + i)
		}
	}
	c.n += n
}

// AppendNull implements [Column].
func (c *FixedList) AppendNull() {
	for range c.dt.Len() {
		c.Items.AppendZero()
	}
	c.valid.null(c.n)
	c.n++
}

// AppendZero implements [Column].
func (c *FixedList) AppendZero() {
	for range c.dt.Len() {
		c.Items.AppendZero()
	}
	c.End()
}

// Truncate implements [Column].
func (c *FixedList) Truncate(n int) {
	if n < c.n {
		c.valid.truncate(n, c.n)
		c.n = n
	}
	c.Items.Truncate(c.n * int(c.dt.Len()))
}

// Finish implements [Column].
func (c *FixedList) Finish() arrow.ArrayData {
	bits, nulls := c.valid.finish()
	d := array.NewData(c.dt, c.n, []*memory.Buffer{bits}, []arrow.ArrayData{c.Items.Finish()}, nulls, 0)
	c.n = 0
	return d
}

func (c *FixedList) sizes(to []int) []int { return c.Items.sizes(to) }

func (c *FixedList) reserve(sizes []int, e estimate) []int { return c.Items.reserve(sizes, e) }

// Map is a column of maps. A row is written by appending its entries to Keys
// and Values, in the order wanted, and calling End.
type Map struct {
	Keys, Values Column

	dt    *arrow.MapType
	ends  offsets
	valid validity
}

// Type implements [Column].
func (c *Map) Type() arrow.DataType { return c.dt }

// Len implements [Column].
func (c *Map) Len() int { return c.ends.len() }

// End completes a row of the entries appended since the last one.
func (c *Map) End() {
	c.ends.push(c.Keys.Len())
	c.valid.valid(c.Len() - 1)
}

// AppendNull implements [Column].
func (c *Map) AppendNull() {
	c.ends.push(c.Keys.Len())
	c.valid.null(c.Len() - 1)
}

// AppendZero implements [Column].
func (c *Map) AppendZero() { c.End() }

// Truncate implements [Column].
func (c *Map) Truncate(n int) {
	if n < c.Len() {
		c.valid.truncate(n, c.Len())
		c.ends.truncate(n)
	}
	c.Keys.Truncate(c.ends.last())
	c.Values.Truncate(c.ends.last())
}

// Finish implements [Column].
func (c *Map) Finish() arrow.ArrayData {
	n, entries := c.Len(), c.Keys.Len()
	bits, nulls := c.valid.finish()
	e := array.NewData(c.dt.Elem(), entries, []*memory.Buffer{nil}, []arrow.ArrayData{c.Keys.Finish(), c.Values.Finish()}, 0, 0)
	return array.NewData(c.dt, n, []*memory.Buffer{bits, c.ends.finish()}, []arrow.ArrayData{e}, nulls, 0)
}

func (c *Map) sizes(to []int) []int { return c.Values.sizes(c.Keys.sizes(append(to, c.Len()))) }

func (c *Map) reserve(sizes []int, e estimate) []int {
	c.ends.reserve(e.room(sizes[0], 4))
	return c.Values.reserve(c.Keys.reserve(sizes[1:], e), e)
}

// Struct is a column of structs. A row is written by appending one row to each
// of Fields and calling End.
type Struct struct {
	Fields []Column

	dt    *arrow.StructType
	n     int
	valid validity
}

// Type implements [Column].
func (c *Struct) Type() arrow.DataType { return c.dt }

// Len implements [Column].
func (c *Struct) Len() int { return c.n }

// End completes a row.
func (c *Struct) End() {
	c.valid.valid(c.n)
	c.n++
}

// AppendNull implements [Column].
func (c *Struct) AppendNull() {
	for i, f := range c.Fields {
		if c.dt.Field(i).Nullable {
			f.AppendNull()
		} else {
			f.AppendZero()
		}
	}
	c.valid.null(c.n)
	c.n++
}

// AppendZero implements [Column].
func (c *Struct) AppendZero() {
	for i, f := range c.Fields {
		if c.dt.Field(i).Nullable {
			f.AppendNull()
		} else {
			f.AppendZero()
		}
	}
	c.End()
}

// Truncate implements [Column].
func (c *Struct) Truncate(n int) {
	if n < c.n {
		c.valid.truncate(n, c.n)
		c.n = n
	}
	for _, f := range c.Fields {
		f.Truncate(c.n)
	}
}

// Finish implements [Column].
func (c *Struct) Finish() arrow.ArrayData {
	bits, nulls := c.valid.finish()
	children := make([]arrow.ArrayData, len(c.Fields))
	for i, f := range c.Fields {
		children[i] = f.Finish()
	}
	d := array.NewData(c.dt, c.n, []*memory.Buffer{bits}, children, nulls, 0)
	c.n = 0
	return d
}

func (c *Struct) sizes(to []int) []int {
	for _, f := range c.Fields {
		to = f.sizes(to)
	}
	return to
}

func (c *Struct) reserve(sizes []int, e estimate) []int {
	for _, f := range c.Fields {
		sizes = f.reserve(sizes, e)
	}
	return sizes
}
