package chunk

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// Errors of [FromDataFrame], besides [ErrTimeType], [ErrNullTime],
// [ErrNoComponent], [ErrDuplicate] and [ErrTUID].
var (
	// ErrAmbiguous: no column is marked as an index and the options do not say
	// whether the data is static.
	ErrAmbiguous = errors.New("neither an index column nor static")
	// ErrStaticIndex: static data was asked for, but columns are marked as indexes.
	ErrStaticIndex = errors.New("static data with an index column")
	// ErrNoIndex: a named index column is not in the batch.
	ErrNoIndex = errors.New("no such index column")
	// ErrEntities: a batch with chunk id and row ids has columns of several entities.
	ErrEntities = errors.New("columns of several entities in one identified chunk")
)

// DataFrameOptions say how [FromDataFrame] reads a record batch.
type DataFrameOptions struct {
	// Indexes are the names of the index columns. If nil, the columns that are
	// marked as indexes in their metadata are; an empty slice means that no
	// column is, whatever its metadata says.
	Indexes []string
	// Static refuses batches with columns that are marked as indexes and reads
	// the others as static data. It goes without Indexes.
	Static bool
	// Entity is the entity of columns for which neither metadata nor column
	// name gives one; the root if empty.
	Entity EntityPath
	// Override puts all columns on Entity, whatever metadata and names say.
	Override bool
}

// FromDataFrame makes chunks of any record batch, by the naming and metadata
// rules of spec/chunks.md 2.2: one for each entity, in the order in which the
// entities appear among the columns, with shared index columns. Rows keep their
// order.
//
// A batch with chunk id and row ids, read without options, keeps both and gives
// one chunk. Otherwise ids are fresh. Columns are shared, not copied, but for
// those with nulls that are no lists.
func FromDataFrame(b arrow.RecordBatch, o DataFrameOptions) ([]*Chunk, error) {
	if b.NumRows() > math.MaxInt32 {
		return nil, fmt.Errorf("%w: %d rows are too many for one chunk", ErrLength, b.NumRows())
	}
	f := frame{b: b, opts: o}
	if err := f.sortColumns(); err != nil {
		return nil, err
	}
	if text, ok := b.Schema().Metadata().GetValue(KeyID); ok {
		if _, err := parseChunkID(text); err != nil {
			return nil, err
		}
		f.hasID = true
	}
	if text, ok := b.Schema().Metadata().GetValue(KeyEntityPath); ok {
		f.entity = ParseEntityPath(text)
	}
	if f.hasID && f.hasRowID && o.Indexes == nil && !o.Static && o.Entity == "" && !o.Override {
		c, err := f.identified()
		if err != nil {
			return nil, err
		}
		return []*Chunk{c}, nil
	}
	return f.chunks()
}

// FromRecordReader makes chunks of each batch of a reader as [FromDataFrame]
// does, one batch at a time. The reader stays the caller's to release; it is
// spent by the first iteration. The first error ends the sequence.
func FromRecordReader(r array.RecordReader, o DataFrameOptions) iter.Seq2[*Chunk, error] {
	return func(yield func(*Chunk, error) bool) {
		for n := 0; r.Next(); n++ {
			cs, err := FromDataFrame(r.RecordBatch(), o)
			if err != nil {
				yield(nil, fmt.Errorf("record batch %d: %w", n, err))
				return
			}
			for _, c := range cs {
				if !yield(c, nil) {
					return
				}
			}
		}
		if err := r.Err(); err != nil {
			yield(nil, err)
		}
	}
}

// NewProperty builds the static chunk of a recording property: one row at
// /__properties/name (spec/chunks.md 2.4).
func NewProperty(name string, components ...Component) (*Chunk, error) {
	c, err := New(PropertiesPath.Join(name), nil, components)
	if err == nil && c.rows != 1 {
		return nil, fmt.Errorf("property %q: %w: %d rows instead of 1", name, ErrLength, c.rows)
	}
	return c, err
}

// Partition makes a list column of flat values: row i gets the next lengths[i]
// of them. The lengths must add up to the number of values. Values are shared.
func Partition(values arrow.Array, lengths []int) (*array.List, error) {
	offsets := make([]int32, len(lengths)+1)
	end := 0
	for i, n := range lengths {
		if n < 0 || n > values.Len()-end {
			return nil, fmt.Errorf("partition: %w: row %d of %d values goes beyond the %d there are", ErrLength, i, n, values.Len())
		}
		end += n
		if end > math.MaxInt32 {
			return nil, fmt.Errorf("partition: %w: more than %d values", ErrLength, math.MaxInt32)
		}
		offsets[i+1] = int32(end)
	}
	if end != values.Len() {
		return nil, fmt.Errorf("partition: %w: lengths add up to %d of %d values", ErrLength, end, values.Len())
	}
	return listOf(values, offsets, nil, 0), nil
}

func parseChunkID(text string) (TUID, error) {
	id, err := ParseTUID(strings.TrimPrefix(text, "chunk_"))
	if err != nil {
		return id, fmt.Errorf("chunk id: %w", err)
	}
	return id, nil
}

// frame is a batch on its way to chunks.
type frame struct {
	b        arrow.RecordBatch
	opts     DataFrameOptions
	hasID    bool
	hasRowID bool
	entity   EntityPath // of the batch metadata, or empty
	indexes  []int      // columns
	data     []int      // columns
}

func isRowID(f arrow.Field) bool {
	ext, _ := f.Metadata.GetValue(keyExtName)
	return ext == tuidExt || KindOf(f) == ControlColumn
}

// sortColumns tells index from data columns and leaves out row ids.
func (f *frame) sortColumns() error {
	fields := f.b.Schema().Fields()
	named := make([]bool, len(f.opts.Indexes))
	for i, fd := range fields {
		if isRowID(fd) {
			f.hasRowID = true
			continue
		}
		isIndex := KindOf(fd) == IndexColumn || hasKey(fd.Metadata, KeyIndexName)
		switch {
		case f.opts.Static && isIndex:
			return fmt.Errorf("%w: %q", ErrStaticIndex, fd.Name)
		case f.opts.Indexes != nil:
			isIndex = false
			for j, name := range f.opts.Indexes {
				if name == fd.Name {
					named[j], isIndex = true, true
				}
			}
		}
		if isIndex {
			f.indexes = append(f.indexes, i)
		} else {
			f.data = append(f.data, i)
		}
	}
	if j := slices.Index(named, false); j >= 0 {
		return fmt.Errorf("%w: %q", ErrNoIndex, f.opts.Indexes[j])
	}
	return nil
}

// identified reads a batch that is a chunk already.
func (f *frame) identified() (*Chunk, error) {
	var entity EntityPath
	fields := slices.Clone(f.b.Schema().Fields())
	cols := slices.Clone(f.b.Columns())
	for _, i := range f.data {
		e := Root
		if text, ok := fields[i].Metadata.GetValue(KeyEntityPath); ok {
			e = ParseEntityPath(text)
		} else if named, _, ok := splitName(fields[i].Name); ok {
			e = named
		}
		if entity != "" && entity != e {
			return nil, fmt.Errorf("%w: %s and %s", ErrEntities, entity, e)
		}
		entity = e
		cols[i] = listColumn(cols[i])
		fields[i].Type = cols[i].DataType()
	}
	for i := range fields {
		if isRowID(fields[i]) && KindOf(fields[i]) != ControlColumn {
			fields[i].Metadata = arrow.NewMetadata([]string{KeyKind}, []string{"control"})
		}
	}
	md := f.b.Schema().Metadata()
	if f.entity == "" {
		if entity == "" {
			entity = Root
		}
		md = arrow.NewMetadata(append(slices.Clone(md.Keys()), KeyEntityPath), append(slices.Clone(md.Values()), string(entity)))
	}
	return FromRecordBatch(array.NewRecordBatch(arrow.NewSchema(fields, &md), cols, f.b.NumRows()))
}

// chunks gives the columns to entities and mints ids.
func (f *frame) chunks() ([]*Chunk, error) {
	if len(f.indexes) == 0 && f.opts.Indexes == nil && !f.opts.Static {
		return nil, ErrAmbiguous
	}
	fields := f.b.Schema().Fields()
	for _, i := range f.indexes {
		if _, err := TimeKindOf(fields[i].Type); err != nil {
			return nil, fmt.Errorf("column %q: %w", fields[i].Name, err)
		}
	}
	if len(f.data) == 0 {
		return nil, ErrNoComponent
	}
	times := make([]TimeColumn, len(f.indexes))
	for k, i := range f.indexes {
		var err error
		if times[k], err = timeColumn(fields[i], f.b.Column(i)); err != nil {
			return nil, err
		}
	}
	type part struct {
		entity     EntityPath
		components []Component
	}
	var parts []part
	for _, i := range f.data {
		entity, d := f.resolve(fields[i])
		p := slices.IndexFunc(parts, func(p part) bool { return p.entity == entity })
		if p < 0 {
			p = len(parts)
			parts = append(parts, part{entity: entity})
		}
		parts[p].components = append(parts[p].components, Component{d, listColumn(f.b.Column(i))})
	}
	out := make([]*Chunk, len(parts))
	for i, p := range parts {
		c, err := Assemble(NewTUID(), p.entity, mintRowIDs(int(f.b.NumRows())), times, p.components)
		if err != nil {
			return nil, err
		}
		out[i] = c
	}
	return out, nil
}

// resolve finds entity and descriptor of a data column: metadata of the field,
// of the batch, the column's name, then the option.
func (f *frame) resolve(fd arrow.Field) (EntityPath, Descriptor) {
	d := DescriptorOf(fd)
	byName, component, named := splitName(fd.Name)
	entity := f.opts.Entity
	if entity == "" {
		entity = Root
	}
	switch text, ok := fd.Metadata.GetValue(KeyEntityPath); {
	case ok && !f.opts.Override:
		return ParseEntityPath(text), d
	case f.entity != "" && !f.opts.Override:
		return f.entity, d
	case named && !ok && f.entity == "":
		if given, _ := fd.Metadata.GetValue(KeyComponent); given == "" {
			d.Component = component
		}
		if !f.opts.Override {
			entity = byName
		}
	}
	return entity, d
}

// splitName reads a column name of the form /entity:component. With nothing
// after the colon the component is called like the column.
func splitName(name string) (entity EntityPath, component string, ok bool) {
	path, component, ok := strings.Cut(name, ":")
	if !ok || !strings.HasPrefix(name, "/") {
		return "", "", false
	}
	if component == "" {
		component = name
	}
	return ParseEntityPath(path), component, true
}

// listColumn is a column as lists, one a row, that outlives its batch.
func listColumn(col arrow.Array) *array.List {
	l, ok := col.(*array.List)
	if !ok {
		return WrapValues(col)
	}
	l.Retain()
	return l
}

func timeColumn(f arrow.Field, col arrow.Array) (TimeColumn, error) {
	name, ok := f.Metadata.GetValue(KeyIndexName)
	if !ok {
		name = f.Name
	}
	kind, times, err := Times(col)
	if err != nil {
		return TimeColumn{}, fmt.Errorf("timeline %q: %w", name, err)
	}
	col.Retain()
	if isTrue(f.Metadata, KeySorted) {
		return TimeColumn{Timeline{name, kind}, times, true}, nil
	}
	return NewTimeColumn(name, kind, times), nil
}
