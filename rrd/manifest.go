package rrd

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/reelhouse/reelhouse/chunk"
)

// Columns of a manifest (spec/rrd.md 2.1).
const (
	colEntityPath = "chunk_entity_path"
	colID         = "chunk_id"
	colStatic     = "chunk_is_static"
	colRows       = "chunk_num_rows"
	colOffset     = "chunk_byte_offset"
	colSize       = "chunk_byte_size"
	colRawSize    = "chunk_byte_size_uncompressed"

	suffixStatic = ":has_static_data"
	suffixStart  = ":start"
	suffixEnd    = ":end"
	suffixRows   = ":num_rows"
)

var tuidType = &arrow.FixedSizeBinaryType{ByteWidth: 16}

// Manifest is the index of the chunks of one store in one stream: a row per
// chunk in file order. It is immutable and may be used concurrently.
type Manifest struct {
	// Store is the store that the chunks belong to.
	Store StoreID
	// Base is where the stream starts in the file. Offsets of the batch count
	// from there, those of methods from the start of the file.
	Base int64
	// Hash is the SHA-256 of the sorbet schema as it was stored.
	Hash [sha256.Size]byte

	batch   arrow.RecordBatch
	schema  *arrow.Schema
	scanned bool // made by reading the chunks, not from a footer

	entities []chunk.EntityPath
	ids      []byte
	static   *array.Boolean
	rows     []uint64
	offsets  []uint64
	sizes    []uint64
	raw      []uint64

	timelines  []ManifestTimeline
	components []ManifestComponent
	byEntity   map[chunk.EntityPath]*entityFields
}

// ManifestTimeline is a timeline of a manifest.
type ManifestTimeline struct {
	chunk.Timeline
	timeColumns
}

// ManifestComponent is a component of a manifest, of any entity.
type ManifestComponent struct {
	chunk.Descriptor
	static *array.Boolean
	times  map[chunk.Timeline]*timeColumns
}

type timeColumns struct {
	start, end arrow.Array
	lo, hi     []int64
	rows       *array.Uint64 // only of components, and not in all manifests
}

// entityFields are the data columns of an entity as the sorbet schema has them.
type entityFields struct {
	first  int // row
	fields []entityField
}

type entityField struct {
	EntityComponentType
	component *ManifestComponent
	orphan    bool // no row shows it: its cells are null in all chunks
}

// EntityComponentType is a data column of a store: the component and its list type.
type EntityComponentType struct {
	chunk.Descriptor
	Type   arrow.DataType
	Static bool // some chunk has it as static data
	Empty  bool // no chunk has a value of it
}

// newManifest checks a decoded batch and schema and makes the typed view.
func newManifest(store StoreID, base int64, schema *arrow.Schema, batch arrow.RecordBatch) (*Manifest, error) {
	m := &Manifest{Store: store, Base: base, batch: batch, schema: schema}
	if err := m.globalColumns(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrManifest, err)
	}
	if err := m.indexColumns(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrManifest, err)
	}
	if err := m.checkSchema(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrManifest, err)
	}
	return m, nil
}

// column finds a global column of a type and without nulls.
func column[A arrow.Array](b arrow.RecordBatch, name string, dt arrow.DataType) (A, error) {
	var none A
	i := b.Schema().FieldIndices(name)
	if len(i) == 0 {
		return none, fmt.Errorf("no column %q", name)
	}
	col := b.Column(i[0])
	a, ok := col.(A)
	if !ok || !arrow.TypeEqual(col.DataType(), dt) {
		return none, fmt.Errorf("column %q is of type %v, not %v", name, col.DataType(), dt)
	}
	if col.NullN() > 0 {
		return none, fmt.Errorf("column %q has nulls", name)
	}
	return a, nil
}

func (m *Manifest) globalColumns() error {
	paths, err := column[*array.String](m.batch, colEntityPath, arrow.BinaryTypes.String)
	if err != nil {
		return err
	}
	m.entities = make([]chunk.EntityPath, paths.Len())
	for i := range m.entities {
		m.entities[i] = chunk.ParseEntityPath(paths.Value(i))
	}
	ids, err := column[*array.FixedSizeBinary](m.batch, colID, tuidType)
	if err != nil {
		return err
	}
	if m.ids, err = chunk.RowIDBytes(ids); err != nil {
		return err
	}
	if m.static, err = column[*array.Boolean](m.batch, colStatic, arrow.FixedWidthTypes.Boolean); err != nil {
		return err
	}
	for _, c := range []struct {
		name string
		into *[]uint64
	}{{colRows, &m.rows}, {colOffset, &m.offsets}, {colSize, &m.sizes}, {colRawSize, &m.raw}} {
		a, err := column[*array.Uint64](m.batch, c.name, arrow.PrimitiveTypes.Uint64)
		if err != nil {
			return err
		}
		*c.into = a.Uint64Values()
	}
	for i := range m.offsets {
		if m.offsets[i] >= 1<<62 || m.sizes[i] > MaxPayload {
			return fmt.Errorf("chunk %v: offset %d, size %d", m.ID(i), m.offsets[i], m.sizes[i])
		}
	}
	return nil
}

// extraColumn tells the columns that catalogs add.
func extraColumn(name string) bool {
	switch name {
	case "chunk_key",
		"chunk_partition_id", "chunk_partition_layer", "chunk_segment_id", "chunk_segment_layer",
		"rerun_partition_id", "rerun_partition_layer", "rerun_segment_id", "rerun_segment_layer":
		return true
	}
	return false
}

func globalColumn(name string) bool {
	switch name {
	case colEntityPath, colID, colStatic, colRows, colOffset, colSize, colRawSize:
		return true
	}
	return false
}

func (m *Manifest) indexColumns() error {
	components := map[chunk.Descriptor]int{}
	component := func(d chunk.Descriptor) *ManifestComponent {
		i, ok := components[d]
		if !ok {
			i = len(m.components)
			components[d] = i
			m.components = append(m.components, ManifestComponent{Descriptor: d, times: map[chunk.Timeline]*timeColumns{}})
		}
		return &m.components[i]
	}
	timelines := map[chunk.Timeline]int{}
	// Column pairs are matched by metadata and type, since names can collide.
	pair := func(f arrow.Field) (*timeColumns, error) {
		name, ok := f.Metadata.GetValue(keyIndex)
		if !ok {
			return nil, fmt.Errorf("column %q has no %s", f.Name, keyIndex)
		}
		kind, err := chunk.TimeKindOf(f.Type)
		if err != nil {
			return nil, fmt.Errorf("column %q: %w", f.Name, err)
		}
		index := chunk.Timeline{Name: name, Kind: kind}
		if f.Metadata.FindKey(chunk.KeyComponent) >= 0 {
			c := component(chunk.DescriptorOf(f))
			t := c.times[index]
			if t == nil {
				t = &timeColumns{}
				c.times[index] = t
			}
			return t, nil
		}
		i, ok := timelines[index]
		if !ok {
			i = len(m.timelines)
			timelines[index] = i
			m.timelines = append(m.timelines, ManifestTimeline{Timeline: index})
		}
		return &m.timelines[i].timeColumns, nil
	}
	type count struct {
		field arrow.Field
		n     *array.Uint64
	}
	var counts []count
	for i, f := range m.batch.Schema().Fields() {
		col := m.batch.Column(i)
		switch {
		case globalColumn(f.Name), extraColumn(f.Name):
		case strings.HasSuffix(f.Name, suffixStatic):
			b, ok := col.(*array.Boolean)
			if !ok {
				return fmt.Errorf("column %q is of type %v", f.Name, col.DataType())
			}
			component(chunk.DescriptorOf(f)).static = b
		case strings.HasSuffix(f.Name, suffixRows):
			n, ok := col.(*array.Uint64)
			if !ok {
				return fmt.Errorf("column %q is of type %v", f.Name, col.DataType())
			}
			counts = append(counts, count{f, n})
		case strings.HasSuffix(f.Name, suffixStart), strings.HasSuffix(f.Name, suffixEnd):
			v, err := rawTimes(col)
			if err != nil {
				return fmt.Errorf("column %q: %w", f.Name, err)
			}
			t, err := pair(f)
			if err != nil {
				return err
			}
			if strings.HasSuffix(f.Name, suffixStart) {
				t.start, t.lo = col, v
			} else {
				t.end, t.hi = col, v
			}
		default:
			return fmt.Errorf("unexpected column %q", f.Name)
		}
	}
	for i := range m.timelines {
		if t := &m.timelines[i]; t.start == nil || t.end == nil {
			return fmt.Errorf("timeline %q has no pair of start and end columns", t.Name)
		}
	}
	for _, c := range m.components {
		for t, cols := range c.times {
			if cols.start == nil || cols.end == nil {
				return fmt.Errorf("component %q has no pair of start and end columns on %q", c.Component, t.Name)
			}
		}
	}
	for _, n := range counts {
		name, _ := n.field.Metadata.GetValue(keyIndex)
		for t, cols := range component(chunk.DescriptorOf(n.field)).times {
			if t.Name == name {
				cols.rows = n.n
			}
		}
	}
	return nil
}

// rawTimes are the values of a start or end column, undefined where null.
func rawTimes(a arrow.Array) ([]int64, error) {
	switch a := a.(type) {
	case *array.Int64:
		return a.Int64Values(), nil
	case *array.Timestamp:
		return arrow.Int64Traits.CastFromBytes(arrow.TimestampTraits.CastToBytes(a.TimestampValues())), nil
	case *array.Duration:
		return arrow.Int64Traits.CastFromBytes(arrow.DurationTraits.CastToBytes(a.DurationValues())), nil
	}
	return nil, fmt.Errorf("no times are of type %v", a.DataType())
}

// at is the range of a row.
func (t *timeColumns) at(row int) (lo, hi int64, ok bool) {
	if t == nil || t.start.IsNull(row) || t.end.IsNull(row) {
		return 0, 0, false
	}
	return t.lo[row], t.hi[row], true
}

// checkSchema makes sure that what the schema names has its columns, and
// arranges its data columns by entity.
func (m *Manifest) checkSchema() error {
	byDescriptor := make(map[chunk.Descriptor]*ManifestComponent, len(m.components))
	for i := range m.components {
		byDescriptor[m.components[i].Descriptor] = &m.components[i]
	}
	m.byEntity = map[chunk.EntityPath]*entityFields{}
	for row, e := range m.entities {
		if m.byEntity[e] == nil {
			m.byEntity[e] = &entityFields{first: row}
		}
	}
	anyStatic := false
	for i := range m.Len() {
		anyStatic = anyStatic || m.static.Value(i)
	}
	for _, f := range m.schema.Fields() {
		switch chunk.KindOf(f) {
		case chunk.IndexColumn:
			name, ok := f.Metadata.GetValue(chunk.KeyIndexName)
			if !ok {
				name = f.Name
			}
			kind, err := chunk.TimeKindOf(f.Type)
			if err != nil {
				return fmt.Errorf("timeline %q: %w", name, err)
			}
			want := chunk.Timeline{Name: name, Kind: kind}
			if !slices.ContainsFunc(m.timelines, func(t ManifestTimeline) bool { return t.Timeline == want }) {
				return fmt.Errorf("no start and end columns of type %v for timeline %q", f.Type, name)
			}
		case chunk.DataColumn:
			d := chunk.DescriptorOf(f)
			c := byDescriptor[d]
			if anyStatic && (c == nil || c.static == nil) {
				return fmt.Errorf("no column of static data for %q", f.Name)
			}
			path, _ := f.Metadata.GetValue(chunk.KeyEntityPath)
			if e := m.byEntity[chunk.ParseEntityPath(path)]; e != nil {
				e.fields = append(e.fields, entityField{EntityComponentType{d, f.Type, isTrue(f, chunk.KeyStatic), isTrue(f, keyEmpty)}, c, true})
			}
		}
	}
	for row, entity := range m.entities {
		e := m.byEntity[entity]
		for i := range e.fields {
			if f := &e.fields[i]; f.orphan && f.component.in(row) {
				f.orphan = false
			}
		}
	}
	return nil
}

// in reports whether a row shows the component.
func (c *ManifestComponent) in(row int) bool {
	if c == nil {
		return false
	}
	if c.Static(row) {
		return true
	}
	for _, t := range c.times {
		if t.start.IsValid(row) {
			return true
		}
	}
	return false
}

// isTrue reads a boolean metadata key.
func isTrue(f arrow.Field, key string) bool {
	v, ok := f.Metadata.GetValue(key)
	return ok && !strings.EqualFold(v, "false") && !strings.EqualFold(v, "no")
}

// Len is the number of chunks.
func (m *Manifest) Len() int { return len(m.entities) }

// Batch is the index as it is stored.
func (m *Manifest) Batch() arrow.RecordBatch { return m.batch }

// Schema is the sorbet schema: the columns of all chunks of the store.
func (m *Manifest) Schema() *arrow.Schema { return m.schema }

// ID is the id of chunk i.
func (m *Manifest) ID(i int) chunk.TUID { return chunk.TUID(m.ids[i*16:]) }

// Entity is the entity of chunk i.
func (m *Manifest) Entity(i int) chunk.EntityPath { return m.entities[i] }

// IsStatic reports whether chunk i has no timeline.
func (m *Manifest) IsStatic(i int) bool { return m.static.Value(i) }

// NumRows is the number of rows of chunk i.
func (m *Manifest) NumRows(i int) uint64 { return m.rows[i] }

// Offset is where the encoded ArrowMsg of chunk i starts in the file, behind
// its message header.
func (m *Manifest) Offset(i int) int64 { return m.Base + int64(m.offsets[i]) }

// Size is the length of the encoded ArrowMsg of chunk i.
func (m *Manifest) Size(i int) int64 { return int64(m.sizes[i]) }

// UncompressedSize is the length of the Arrow payload of chunk i.
func (m *Manifest) UncompressedSize(i int) uint64 { return m.raw[i] }

// Timelines are the timelines of the store.
func (m *Manifest) Timelines() []ManifestTimeline { return m.timelines }

// Timeline is the timeline of that name, or nil. Where there are several, of
// different types, it is the first.
func (m *Manifest) Timeline(name string) *ManifestTimeline {
	for i := range m.timelines {
		if m.timelines[i].Name == name {
			return &m.timelines[i]
		}
	}
	return nil
}

// Range is the range of chunk i on the timeline, both ends inclusive; ok is
// false if the chunk has none.
func (t *ManifestTimeline) Range(i int) (lo, hi int64, ok bool) { return t.at(i) }

// Components are the components of the store, each once for all entities.
func (m *Manifest) Components() []ManifestComponent { return m.components }

// Static reports whether chunk i has the component as static data.
func (c *ManifestComponent) Static(i int) bool {
	return c.static != nil && c.static.IsValid(i) && c.static.Value(i)
}

// Range is the range of the rows of chunk i that have the component, and their
// number, on a timeline; ok is false if there are none.
func (c *ManifestComponent) Range(timeline chunk.Timeline, i int) (lo, hi int64, rows uint64, ok bool) {
	t := c.times[timeline]
	lo, hi, ok = t.at(i)
	if ok && t.rows != nil && t.rows.IsValid(i) {
		rows = t.rows.Value(i)
	}
	return lo, hi, rows, ok
}

// EntityComponents are the data columns of an entity as the schema has them.
func (m *Manifest) EntityComponents(entity chunk.EntityPath) []EntityComponentType {
	e := m.byEntity[entity]
	if e == nil {
		return nil
	}
	out := make([]EntityComponentType, len(e.fields))
	for i := range e.fields {
		out[i] = e.fields[i].EntityComponentType
	}
	return out
}

// Entry is the row of chunk i, as a writer wants it. Columns whose cells are
// all null in every chunk are told by the first chunk of their entity.
func (m *Manifest) Entry(i int) Entry {
	e := Entry{ID: m.ID(i), Entity: m.Entity(i), Static: m.IsStatic(i), NumRows: m.NumRows(i),
		Offset: m.Offset(i), Size: m.sizes[i], UncompressedSize: m.raw[i]}
	for j := range m.timelines {
		t := &m.timelines[j]
		if lo, hi, ok := t.at(i); ok {
			e.Times = append(e.Times, TimeRange{t.Timeline, lo, hi, true})
		}
	}
	entity := m.byEntity[e.Entity]
	for j := range entity.fields {
		f := &entity.fields[j]
		if !f.component.in(i) && (!f.orphan || entity.first != i) {
			continue
		}
		c := EntryComponent{Descriptor: f.Descriptor, Type: f.Type, Static: f.Static, Empty: f.Empty, Times: make([]ComponentRange, len(e.Times))}
		for k := range c.Times {
			if f.component != nil {
				r := &c.Times[k]
				r.Lo, r.Hi, r.NumRows, r.OK = f.component.Range(e.Times[k].Timeline, i)
			}
		}
		e.Components = append(e.Components, c)
	}
	return e
}
