package rrd

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/reelhouse/reelhouse/chunk"
	"github.com/reelhouse/reelhouse/internal/arrowipc"
)

// Metadata keys of manifests and their schemas (spec/rrd.md 2.1, 2.2).
const (
	keyIndex     = "rerun:index"
	keyEmpty     = "rerun:is_semantically_empty"
	keyTombstone = "rerun:is_tombstone"

	staticIndex    = "rerun:static"
	clearArchetype = "rerun.archetypes.Clear"
)

// ManifestBuilder collects entries into the manifest of one store. Memory grows
// with the number of entries, not with the size of chunks.
type ManifestBuilder struct {
	store StoreID

	entities []string
	ids      []byte
	static   []bool
	rows     []uint64
	offsets  []uint64
	sizes    []uint64
	raw      []uint64

	hasStatic map[chunk.Descriptor][]int32 // rows
	times     map[chunk.Timeline]*rangeColumn
	parts     map[partKey]*rangeColumn

	fields map[fieldKey]*schemaField
}

type partKey struct {
	chunk.Timeline
	desc chunk.Descriptor
}

// rangeColumn is a sparse pair of start and end columns, and of row counts.
type rangeColumn struct {
	row    []int32
	lo, hi []int64
	ok     []bool
	n      []uint64
}

type fieldKey struct {
	entity    chunk.EntityPath
	component string
}

type schemaField struct {
	desc   chunk.Descriptor
	typ    arrow.DataType
	static bool
	empty  bool
}

// NewManifestBuilder starts the manifest of a store.
func NewManifestBuilder(store StoreID) *ManifestBuilder {
	return &ManifestBuilder{
		store:     store,
		hasStatic: map[chunk.Descriptor][]int32{},
		times:     map[chunk.Timeline]*rangeColumn{},
		parts:     map[partKey]*rangeColumn{},
		fields:    map[fieldKey]*schemaField{},
	}
}

// Len is the number of entries.
func (b *ManifestBuilder) Len() int { return len(b.rows) }

// Add appends an entry. Timelines of one name and several types get columns of
// their own for each type.
func (b *ManifestBuilder) Add(e *Entry) {
	row := int32(len(b.rows))
	b.entities = append(b.entities, string(e.Entity))
	b.ids = append(b.ids, e.ID[:]...)
	b.static = append(b.static, e.Static)
	b.rows = append(b.rows, e.NumRows)
	b.offsets = append(b.offsets, uint64(e.Offset))
	b.sizes = append(b.sizes, e.Size)
	b.raw = append(b.raw, e.UncompressedSize)
	for _, t := range e.Times {
		c := b.times[t.Timeline]
		if c == nil {
			c = &rangeColumn{}
			b.times[t.Timeline] = c
		}
		c.add(row, t.Lo, t.Hi, t.OK, 0)
	}
	for i := range e.Components {
		c := &e.Components[i]
		if _, ok := b.hasStatic[c.Descriptor]; !ok {
			b.hasStatic[c.Descriptor] = nil
		}
		if c.Static && e.Static {
			b.hasStatic[c.Descriptor] = append(b.hasStatic[c.Descriptor], row)
		}
		for j, r := range c.Times {
			key := partKey{e.Times[j].Timeline, c.Descriptor}
			p := b.parts[key]
			if p == nil {
				p = &rangeColumn{}
				b.parts[key] = p
			}
			p.add(row, r.Lo, r.Hi, r.OK, r.NumRows)
		}
		b.addField(e.Entity, c)
	}
}

func (b *ManifestBuilder) addField(entity chunk.EntityPath, c *EntryComponent) {
	key := fieldKey{entity, c.Component}
	f := b.fields[key]
	if f == nil {
		f = &schemaField{desc: c.Descriptor, typ: c.Type, empty: true}
		b.fields[key] = f
	}
	f.static = f.static || c.Static
	f.empty = f.empty && c.Empty
}

func (c *rangeColumn) add(row int32, lo, hi int64, ok bool, n uint64) {
	c.row = append(c.row, row)
	c.lo, c.hi, c.ok, c.n = append(c.lo, lo), append(c.hi, hi), append(c.ok, ok), append(c.n, n)
}

// Schema is the sorbet schema of what was added: the row id, timelines by
// name, data columns by name.
func (b *ManifestBuilder) Schema() *arrow.Schema {
	fields := make([]arrow.Field, 0, 1+len(b.times)+len(b.fields))
	fields = append(fields, chunk.RowIDField(false))
	for _, t := range slices.SortedFunc(maps.Keys(b.times), compareTimelines) {
		fields = append(fields, t.Field(false))
	}
	first := len(fields)
	for key, f := range b.fields {
		more := []string{chunk.KeyEntityPath, string(key.entity)}
		if f.static {
			more = append(more, chunk.KeyStatic, "true")
		}
		if f.empty {
			more = append(more, keyEmpty, "true")
		}
		if f.desc.Archetype == clearArchetype {
			more = append(more, keyTombstone, "true")
		}
		field := f.desc.Field(f.typ, more...)
		field.Name = chunk.ColumnName(key.entity, f.desc.Component)
		fields = append(fields, field)
	}
	slices.SortFunc(fields[first:], func(a, b arrow.Field) int { return strings.Compare(a.Name, b.Name) })
	return arrow.NewSchema(fields, nil)
}

// Batch is the index: a row per entry in the order of Add.
func (b *ManifestBuilder) Batch() arrow.RecordBatch {
	n := len(b.rows)
	var fields []arrow.Field
	var cols []arrow.Array
	add := func(f arrow.Field, a arrow.Array) { fields, cols = append(fields, f), append(cols, a) }

	paths := array.NewStringBuilder(memory.DefaultAllocator)
	paths.AppendValues(b.entities, nil)
	add(arrow.Field{Name: colEntityPath, Type: arrow.BinaryTypes.String}, paths.NewArray())
	add(arrow.Field{Name: colID, Type: tuidType}, chunk.RowIDArray(b.ids))
	add(arrow.Field{Name: colStatic, Type: arrow.FixedWidthTypes.Boolean}, boolArray(b.static))
	add(arrow.Field{Name: colRows, Type: arrow.PrimitiveTypes.Uint64}, uint64Array(b.rows))
	add(arrow.Field{Name: colOffset, Type: arrow.PrimitiveTypes.Uint64}, uint64Array(b.offsets))
	add(arrow.Field{Name: colSize, Type: arrow.PrimitiveTypes.Uint64}, uint64Array(b.sizes))
	add(arrow.Field{Name: colRawSize, Type: arrow.PrimitiveTypes.Uint64}, uint64Array(b.raw))

	descs := slices.SortedFunc(maps.Keys(b.hasStatic), chunk.Descriptor.Compare)
	for _, d := range descs {
		v := make([]bool, n)
		for _, row := range b.hasStatic[d] {
			v[row] = true
		}
		add(arrow.Field{Name: trimName(descriptorName(d) + suffixStatic), Type: arrow.FixedWidthTypes.Boolean,
			Metadata: indexMetadata(staticIndex, d)}, boolArray(v))
	}
	for _, t := range slices.SortedFunc(maps.Keys(b.times), compareTimelines) {
		prefix := trimName(cleanName(t.Name))
		md := indexMetadata(t.Name, chunk.Descriptor{})
		lo, hi := b.times[t].dense(t.Kind, n)
		add(arrow.Field{Name: prefix + suffixStart, Type: t.Kind.ArrowType(), Nullable: true, Metadata: md}, lo)
		add(arrow.Field{Name: prefix + suffixEnd, Type: t.Kind.ArrowType(), Nullable: true, Metadata: md}, hi)
	}
	keys := slices.SortedFunc(maps.Keys(b.parts), func(a, b partKey) int {
		return cmp.Or(compareTimelines(a.Timeline, b.Timeline), a.desc.Compare(b.desc))
	})
	for _, k := range keys {
		c := b.parts[k]
		prefix := trimName(cleanName(k.Name) + ":" + descriptorName(k.desc))
		md := indexMetadata(k.Name, k.desc)
		lo, hi := c.dense(k.Kind, n)
		counts := make([]uint64, n)
		for i, row := range c.row {
			counts[row] = c.n[i]
		}
		add(arrow.Field{Name: prefix + suffixStart, Type: k.Kind.ArrowType(), Nullable: true, Metadata: md}, lo)
		add(arrow.Field{Name: prefix + suffixEnd, Type: k.Kind.ArrowType(), Nullable: true, Metadata: md}, hi)
		add(arrow.Field{Name: prefix + suffixRows, Type: arrow.PrimitiveTypes.Uint64, Nullable: true, Metadata: md}, uint64Array(counts))
	}
	return array.NewRecordBatch(arrow.NewSchema(fields, nil), cols, int64(n))
}

func compareTimelines(a, b chunk.Timeline) int {
	return cmp.Or(strings.Compare(a.Name, b.Name), int(a.Kind)-int(b.Kind))
}

// dense spreads the ranges over n rows.
func (c *rangeColumn) dense(kind chunk.TimeKind, n int) (lo, hi arrow.Array) {
	los, his := make([]int64, n), make([]int64, n)
	valid := make([]byte, (n+7)/8)
	nulls := n
	for i, row := range c.row {
		if c.ok[i] {
			los[row], his[row] = c.lo[i], c.hi[i]
			valid[row/8] |= 1 << (row % 8)
			nulls--
		}
	}
	return nullableTimes(kind, los, valid, nulls), nullableTimes(kind, his, valid, nulls)
}

func nullableTimes(kind chunk.TimeKind, v []int64, valid []byte, nulls int) arrow.Array {
	buffers := []*memory.Buffer{nil, memory.NewBufferBytes(arrow.Int64Traits.CastToBytes(v))}
	if nulls > 0 {
		buffers[0] = memory.NewBufferBytes(valid)
	}
	return array.MakeFromData(array.NewData(kind.ArrowType(), len(v), buffers, nil, nulls, 0))
}

func indexMetadata(index string, d chunk.Descriptor) arrow.Metadata {
	keys, vals := make([]string, 0, 4), make([]string, 0, 4)
	add := func(k, v string) {
		if v != "" {
			keys, vals = append(keys, k), append(vals, v)
		}
	}
	add(chunk.KeyArchetype, d.Archetype)
	add(chunk.KeyComponent, d.Component)
	add(chunk.KeyComponentType, d.Type)
	add(keyIndex, index)
	return arrow.NewMetadata(keys, vals)
}

func uint64Array(v []uint64) arrow.Array {
	return array.MakeFromData(array.NewData(arrow.PrimitiveTypes.Uint64, len(v),
		[]*memory.Buffer{nil, memory.NewBufferBytes(arrow.Uint64Traits.CastToBytes(v))}, nil, 0, 0))
}

func boolArray(v []bool) arrow.Array {
	bits := make([]byte, (len(v)+7)/8)
	for i, x := range v {
		if x {
			bits[i/8] |= 1 << (i % 8)
		}
	}
	return array.MakeFromData(array.NewData(arrow.FixedWidthTypes.Boolean, len(v),
		[]*memory.Buffer{nil, memory.NewBufferBytes(bits)}, nil, 0, 0))
}

// Manifest is the typed manifest of what was added.
func (b *ManifestBuilder) Manifest() (*Manifest, error) {
	schema := b.Schema()
	m, err := newManifest(b.store, 0, schema, b.Batch())
	if err != nil {
		return nil, err
	}
	m.Hash, err = SchemaHash(schema)
	return m, err
}

// appendProto appends the encoded RrdManifest as field 1 of a footer.
func (b *ManifestBuilder) appendProto(dst []byte, compress bool) ([]byte, error) {
	schema := b.Schema()
	hash, err := SchemaHash(schema)
	if err != nil {
		return dst, err
	}
	stream, err := arrowipc.AppendBatch(nil, b.Batch())
	if err != nil {
		return dst, fmt.Errorf("%w: %w", ErrManifest, err)
	}
	msg := appendStoreID(nil, 1, b.store)
	msg = appendBytes(msg, 2, appendBytes([]byte(nil), 1, arrowipc.AppendSchema(nil, schema)))
	msg = appendBytes(msg, 3, hash[:])
	msg = appendBytes(msg, 4, appendDataframePart(nil, stream, compress))
	return appendBytes(dst, 1, msg), nil
}
