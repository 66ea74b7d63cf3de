package chunk

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Errors that callers decide on; each is wrapped with the entity and column.
var (
	ErrLength      = errors.New("columns of different lengths")
	ErrDuplicate   = errors.New("column specified more than once")
	ErrNotList     = errors.New("component column is not a list")
	ErrNoComponent = errors.New("no component column")
)

// Component is one component column of a chunk.
type Component struct {
	Descriptor
	// Values has a list per row: null means not logged in that row, an empty
	// list means logged as empty.
	Values *array.List
}

// Chunk is a table of one entity. Its zero value is not usable.
type Chunk struct {
	id         TUID
	entity     EntityPath
	rows       int
	rowIDs     []byte // 16 bytes a row
	rowsSorted bool
	times      []TimeColumn // by name
	components []Component  // by descriptor
	segment    string       // segment id that a server stamped, if any

	sizeOnce sync.Once
	size     int64
}

// Assemble makes a chunk with given ids. rowIDs holds 16 bytes a row and may be
// in any order; columns are sorted as they are stored. The slices are kept.
func Assemble(id TUID, entity EntityPath, rowIDs []byte, times []TimeColumn, components []Component) (*Chunk, error) {
	c := &Chunk{id: id, entity: entity, rows: len(rowIDs) / 16, rowIDs: rowIDs, times: times, components: components}
	if len(rowIDs)%16 != 0 {
		return nil, fmt.Errorf("chunk of %s: %w: %d bytes of row ids", entity, ErrLength, len(rowIDs))
	}
	c.rowsSorted = rowIDsSorted(rowIDs)
	if err := c.arrange(); err != nil {
		return nil, fmt.Errorf("chunk of %s: %w", entity, err)
	}
	return c, nil
}

// arrange sorts the columns and checks what every chunk promises.
func (c *Chunk) arrange() error {
	byName := func(a, b TimeColumn) int { return strings.Compare(a.Name, b.Name) }
	byDescriptor := func(a, b Component) int { return a.Compare(b.Descriptor) }
	if !slices.IsSortedFunc(c.times, byName) {
		c.times = slices.Clone(c.times)
		slices.SortStableFunc(c.times, byName)
	}
	if !slices.IsSortedFunc(c.components, byDescriptor) {
		c.components = slices.Clone(c.components)
		slices.SortStableFunc(c.components, byDescriptor)
	}
	for i, t := range c.times {
		if len(t.Times) != c.rows {
			return fmt.Errorf("%w: timeline %q has %d rows instead of %d", ErrLength, t.Name, len(t.Times), c.rows)
		}
		if i > 0 && c.times[i-1].Name == t.Name {
			return fmt.Errorf("%w: timeline %q", ErrDuplicate, t.Name)
		}
	}
	for i, m := range c.components {
		if m.Values == nil {
			return fmt.Errorf("%w: %q", ErrNotList, m.Component)
		}
		if m.Values.Len() != c.rows {
			return fmt.Errorf("%w: component %q has %d rows instead of %d", ErrLength, m.Component, m.Values.Len(), c.rows)
		}
		for j, o := range c.components[:i] {
			// Equal ones of one archetype stand side by side.
			if (j == i-1 || o.Archetype != m.Archetype) && o.Component == m.Component {
				return fmt.Errorf("%w: component %q", ErrDuplicate, m.Component)
			}
		}
		if l := normalizeList(m.Values); l != m.Values {
			c.components[i].Values = l
		}
	}
	return nil
}

// normalizeList gives the outer list field its canonical form: "item", nullable.
func normalizeList(l *array.List) *array.List {
	lt := l.DataType().(*arrow.ListType)
	f := lt.ElemField()
	if f.Name == "item" && f.Nullable {
		return l
	}
	f.Name, f.Nullable = "item", true
	d := l.Data()
	return array.NewListData(array.NewData(arrow.ListOfField(f), d.Len(), d.Buffers(), d.Children(), d.NullN(), d.Offset()))
}

// ID is the chunk's own id.
func (c *Chunk) ID() TUID { return c.id }

// EntityPath is the entity that the chunk's rows belong to.
func (c *Chunk) EntityPath() EntityPath { return c.entity }

// NumRows is the number of rows.
func (c *Chunk) NumRows() int { return c.rows }

// IsStatic reports whether the chunk has no timeline.
func (c *Chunk) IsStatic() bool { return len(c.times) == 0 }

// SegmentID is the segment that a server stamped on the chunk, or empty.
func (c *Chunk) SegmentID() string { return c.segment }

// RowIDs are the row ids, 16 bytes a row; not to be written to.
func (c *Chunk) RowIDs() []byte { return c.rowIDs }

// RowID is the id of row i.
func (c *Chunk) RowID(i int) TUID { return TUID(c.rowIDs[i*16:]) }

// RowIDsSorted reports whether row ids ascend.
func (c *Chunk) RowIDsSorted() bool { return c.rowsSorted }

// Timelines are the index columns by name; not to be written to.
func (c *Chunk) Timelines() []TimeColumn { return c.times }

// Timeline is the index column of that name, or nil.
func (c *Chunk) Timeline(name string) *TimeColumn {
	for i := range c.times {
		if c.times[i].Name == name {
			return &c.times[i]
		}
	}
	return nil
}

// Components are the component columns in the order of [Descriptor.Compare]; not to be written to.
func (c *Chunk) Components() []Component { return c.components }

// Component is the column with that identifier, or nil.
func (c *Chunk) Component(identifier string) *Component {
	for i := range c.components {
		if c.components[i].Component == identifier {
			return &c.components[i]
		}
	}
	return nil
}

// Schema is the schema of [Chunk.RecordBatch].
func (c *Chunk) Schema() *arrow.Schema {
	fields := make([]arrow.Field, 0, 1+len(c.times)+len(c.components))
	fields = append(fields, RowIDField(c.rowsSorted))
	for _, t := range c.times {
		fields = append(fields, t.Field(t.Sorted))
	}
	for _, m := range c.components {
		fields = append(fields, m.Field(m.Values.DataType()))
	}
	keys := []string{KeyEntityPath, KeyID, KeyVersion}
	vals := []string{string(c.entity), "chunk_" + c.id.String(), Version}
	if c.segment != "" {
		keys, vals = append(keys, KeySegmentID), append(vals, c.segment)
	}
	md := arrow.NewMetadata(keys, vals)
	return arrow.NewSchema(fields, &md)
}

// RecordBatch is the chunk as a batch (spec/chunks.md 1.2) that shares its memory.
func (c *Chunk) RecordBatch() arrow.RecordBatch {
	cols := make([]arrow.Array, 0, 1+len(c.times)+len(c.components))
	cols = append(cols, RowIDArray(c.rowIDs))
	for _, t := range c.times {
		cols = append(cols, t.Array())
	}
	for _, m := range c.components {
		cols = append(cols, m.Values)
	}
	return array.NewRecordBatch(c.Schema(), cols, int64(c.rows))
}

// RowIDArray is an Arrow array over 16 bytes a row, without copying.
func RowIDArray(rowIDs []byte) arrow.Array {
	return array.MakeFromData(array.NewData(rowIDType, len(rowIDs)/16, []*memory.Buffer{nil, memory.NewBufferBytes(rowIDs)}, nil, 0, 0))
}

// SizeBytes is the size of the Arrow buffers that the rows occupy: row ids,
// times, offsets, validity and values, visible ranges only. A list or text
// counts one offset (spec/chunks.md 8).
func (c *Chunk) SizeBytes() int64 {
	c.sizeOnce.Do(func() {
		c.size = int64(len(c.rowIDs)) + int64(8*c.rows*len(c.times))
		for _, m := range c.components {
			c.size += arraySize(m.Values.Data())
		}
	})
	return c.size
}

func rowIDsSorted(b []byte) bool {
	for i := 16; i < len(b); i += 16 {
		if string(b[i-16:i]) > string(b[i:i+16]) {
			return false
		}
	}
	return true
}

func mintRowIDs(n int) []byte {
	b := make([]byte, 16*n)
	first := ids.next(n)
	for i := range n {
		id := first.Add(uint64(i))
		copy(b[i*16:], id[:])
	}
	return b
}

// arraySize counts the bytes that the visible range of an array occupies.
func arraySize(d arrow.ArrayData) int64 {
	n := int64(d.Len())
	if n == 0 {
		return 0
	}
	var size int64
	if d.NullN() != 0 && len(d.Buffers()) > 0 && d.Buffers()[0] != nil {
		size += (n + 7) / 8
	}
	childRange := func(off, end int64) {
		for _, ch := range d.Children() {
			s := array.NewSliceData(ch, off, end)
			size += arraySize(s)
			s.Release()
		}
	}
	off := int64(d.Offset())
	switch t := d.DataType().(type) {
	case *arrow.BooleanType:
		size += (n + 7) / 8
	case *arrow.FixedSizeListType:
		w := int64(t.Len())
		childRange(off*w, (off+n)*w)
	case arrow.FixedWidthDataType:
		if _, ok := t.(*arrow.DictionaryType); ok {
			size += n * int64(t.BitWidth()/8)
			size += arraySize(d.Dictionary())
			break
		}
		size += n * int64(t.Bytes())
	case *arrow.StructType:
		childRange(off, off+n)
	case *arrow.ListType, *arrow.MapType, *arrow.StringType, *arrow.BinaryType:
		o := arrow.Int32Traits.CastFromBytes(d.Buffers()[1].Bytes())
		size += 4 * n
		if len(d.Children()) > 0 {
			childRange(int64(o[off]), int64(o[off+n]))
		} else {
			size += int64(o[off+n] - o[off])
		}
	case *arrow.LargeListType, *arrow.LargeStringType, *arrow.LargeBinaryType:
		o := arrow.Int64Traits.CastFromBytes(d.Buffers()[1].Bytes())
		size += 8 * n
		if len(d.Children()) > 0 {
			childRange(o[off], o[off+n])
		} else {
			size += o[off+n] - o[off]
		}
	default: // unions, views, run-end encoded: whole buffers
		for _, b := range d.Buffers() {
			if b != nil {
				size += int64(b.Len())
			}
		}
		for _, ch := range d.Children() {
			size += arraySize(ch)
		}
	}
	return size
}
