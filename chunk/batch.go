package chunk

import (
	"errors"
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Errors of [FromRecordBatch].
var (
	ErrMissingID     = errors.New("missing chunk id")
	ErrMissingEntity = errors.New("missing entity path")
	ErrColumnOrder   = errors.New("invalid column order")
	ErrRowID         = errors.New("invalid row id column")
	ErrKind          = errors.New("unknown column kind")
)

// ColumnKind says what a column of a chunk batch holds.
type ColumnKind uint8

// Column kinds in the order in which they stand in a chunk.
const (
	ControlColumn ColumnKind = iota
	IndexColumn
	DataColumn
)

// KindOf reads a field's column kind; data is the default.
func KindOf(f arrow.Field) ColumnKind {
	switch kind, _ := f.Metadata.GetValue(KeyKind); kind {
	case "control", "row_id":
		return ControlColumn
	case "index", "time":
		return IndexColumn
	}
	return DataColumn
}

// FromRecordBatch reads a batch that is a chunk in the current form (spec/rrd.md
// section 3): ids are kept, deviations that the format tolerates are put right,
// columns are shared and not copied, and stay valid when the batch is released.
// Older forms are migrated before (package rrd).
func FromRecordBatch(b arrow.RecordBatch) (*Chunk, error) {
	c := &Chunk{rows: int(b.NumRows())}
	md := b.Schema().Metadata()
	idText, ok := md.GetValue(KeyID)
	if !ok {
		return nil, ErrMissingID
	}
	var err error
	if c.id, err = parseChunkID(idText); err != nil {
		return nil, err
	}
	path, ok := md.GetValue(KeyEntityPath)
	if !ok {
		return nil, fmt.Errorf("chunk %s: %w", c.id, ErrMissingEntity)
	}
	c.entity = ParseEntityPath(path)
	c.segment, _ = md.GetValue(KeySegmentID)
	if c.segment == "" {
		c.segment, _ = md.GetValue("rerun:partition_id")
	}
	if err := c.readColumns(b); err != nil {
		return nil, fmt.Errorf("chunk %s of %s: %w", c.id, c.entity, err)
	}
	if err := c.arrange(); err != nil {
		return nil, fmt.Errorf("chunk %s of %s: %w", c.id, c.entity, err)
	}
	return c, nil
}

func (c *Chunk) readColumns(b arrow.RecordBatch) error {
	last := ControlColumn
	hasRowID := false
	misplaced := -1
	s := b.Schema()
	c.components = make([]Component, 0, s.NumFields())
	for i := range s.NumFields() {
		f := s.Field(i)
		kind := KindOf(f)
		if kind < last && misplaced < 0 {
			misplaced = i
		}
		last = kind
		col := b.Column(i)
		switch kind {
		case ControlColumn:
			if hasRowID {
				return fmt.Errorf("%w: two of them", ErrRowID)
			}
			hasRowID = true
			ids, err := RowIDBytes(col)
			if err != nil {
				return err
			}
			col.Retain()
			// A claim to be sorted is trusted, one of the opposite is not.
			c.rowIDs, c.rowsSorted = ids, isTrue(f.Metadata, KeySorted) || rowIDsSorted(ids)
		case IndexColumn:
			t, err := timeColumn(f, col)
			if err != nil {
				return err
			}
			c.times = append(c.times, t)
		case DataColumn:
			if name, _ := f.Metadata.GetValue(KeyKind); name != "" && name != "data" && name != "component" {
				return fmt.Errorf("%w: %q of column %q", ErrKind, name, f.Name)
			}
			l, ok := col.(*array.List)
			if !ok {
				l = WrapValues(col)
			}
			l.Retain()
			c.components = append(c.components, Component{DescriptorOf(f), l})
		}
	}
	if misplaced >= 0 {
		return fmt.Errorf("%w: column %q", ErrColumnOrder, s.Field(misplaced).Name)
	}
	if !hasRowID {
		return fmt.Errorf("%w: no row id", ErrColumnOrder)
	}
	if len(c.rowIDs) != 16*c.rows {
		return fmt.Errorf("%w: %d row ids for %d rows", ErrLength, len(c.rowIDs)/16, c.rows)
	}
	return nil
}

// RowIDBytes are the 16 bytes a row of a row id column, without copying.
func RowIDBytes(col arrow.Array) ([]byte, error) {
	fsb, ok := col.(*array.FixedSizeBinary)
	if !ok || fsb.DataType().(*arrow.FixedSizeBinaryType).ByteWidth != 16 {
		return nil, fmt.Errorf("%w: type %v", ErrRowID, col.DataType())
	}
	if fsb.NullN() > 0 {
		return nil, fmt.Errorf("%w: nulls", ErrRowID)
	}
	if fsb.Len() == 0 {
		return nil, nil
	}
	d := fsb.Data()
	return d.Buffers()[1].Bytes()[d.Offset()*16 : (d.Offset()+d.Len())*16], nil
}

func hasKey(md arrow.Metadata, key string) bool { return md.FindKey(key) >= 0 }

// isTrue reads a boolean metadata key: present and neither false nor no.
func isTrue(md arrow.Metadata, key string) bool {
	v, ok := md.GetValue(key)
	return ok && !strings.EqualFold(v, "false") && !strings.EqualFold(v, "no")
}

// wrapEach makes each value of a column a list of one. The values are shared.
func wrapEach(col arrow.Array) *array.List {
	offsets := make([]int32, col.Len()+1)
	for i := range offsets {
		offsets[i] = int32(i)
	}
	return listOf(col, offsets, nil, 0)
}

// WrapValues makes each value of a column a list of one and each null a null
// list (spec/chunks.md 2.2 step 8). The values are shared.
func WrapValues(col arrow.Array) *array.List {
	if col.NullN() == 0 || col.DataType().ID() == arrow.NULL {
		return wrapEach(col)
	}
	offsets := make([]int32, col.Len()+1)
	valid := make([]byte, (col.Len()+7)/8)
	spans := make([]int, 0, col.Len()-col.NullN())
	for i := range col.Len() {
		offsets[i] = int32(len(spans))
		if col.IsValid(i) {
			valid[i/8] |= 1 << (i % 8)
			spans = append(spans, i)
		}
	}
	offsets[col.Len()] = int32(len(spans))
	values := take(col, spans)
	return listOf(values, offsets, valid, col.NullN())
}

// listOf builds a list column with canonical item field over values.
func listOf(values arrow.Array, offsets []int32, valid []byte, nulls int) *array.List {
	var vb *memory.Buffer
	if valid != nil {
		vb = memory.NewBufferBytes(valid)
	}
	dt := arrow.ListOfField(arrow.Field{Name: "item", Type: values.DataType(), Nullable: true})
	return array.NewListData(array.NewData(dt, len(offsets)-1, []*memory.Buffer{vb, memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(offsets))}, []arrow.ArrayData{values.Data()}, nulls, 0))
}
