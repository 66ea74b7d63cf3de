package rrd

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/reelhouse/reelhouse/chunk"
)

// sorbetVersion is the version of a chunk's Arrow form.
type sorbetVersion [3]int

func (v sorbetVersion) before(o sorbetVersion) bool { return slices.Compare(v[:], o[:]) < 0 }

var sorbetCurrent = sorbetVersion{0, 1, 4}

// versionOf reads or guesses the sorbet version of a schema (spec/rrd.md
// section 6). A text that is no version is taken for the current one.
func versionOf(md arrow.Metadata) sorbetVersion {
	text, ok := md.GetValue(chunk.KeyVersion)
	if !ok {
		if _, ok := md.GetValue("rerun:version"); ok {
			return sorbetVersion{0, 0, 2}
		}
		return sorbetVersion{0, 0, 1}
	}
	var v sorbetVersion
	parts := strings.Split(text, ".")
	if len(parts) != len(v) {
		return sorbetCurrent
	}
	for i, part := range parts {
		n, err := strconv.Atoi(part)
		if err != nil {
			return sorbetCurrent
		}
		v[i] = n
	}
	return v
}

// legacyBatch is a batch on its way to the current form.
type legacyBatch struct {
	rows   int64
	schema meta
	cols   []legacyColumn
}

type legacyColumn struct {
	name     string
	typ      arrow.DataType
	nullable bool
	meta     meta
	values   arrow.Array // nil in bare schemas
}

// meta is ordered metadata that can be edited.
type meta struct{ keys, vals []string }

func metaOf(md arrow.Metadata) meta {
	return meta{slices.Clone(md.Keys()), slices.Clone(md.Values())}
}

func (m *meta) get(key string) string {
	if i := slices.Index(m.keys, key); i >= 0 {
		return m.vals[i]
	}
	return ""
}

func (m *meta) has(key string) bool { return slices.Contains(m.keys, key) }

func (m *meta) set(key, val string) {
	if i := slices.Index(m.keys, key); i >= 0 {
		m.vals[i] = val
		return
	}
	m.keys, m.vals = append(m.keys, key), append(m.vals, val)
}

func (m *meta) drop(key string) {
	if i := slices.Index(m.keys, key); i >= 0 {
		m.keys, m.vals = slices.Delete(m.keys, i, i+1), slices.Delete(m.vals, i, i+1)
	}
}

// Migrate brings a chunk's batch of an older writer into the current form. A
// batch of the current version is returned as it is.
func Migrate(b arrow.RecordBatch) (arrow.RecordBatch, error) {
	v := versionOf(b.Schema().Metadata())
	if !v.before(sorbetCurrent) {
		return b, nil
	}
	l := legacyBatch{rows: b.NumRows(), schema: metaOf(b.Schema().Metadata())}
	for i, f := range b.Schema().Fields() {
		l.cols = append(l.cols, legacyColumn{f.Name, f.Type, f.Nullable, metaOf(f.Metadata), b.Column(i)})
	}
	for _, step := range []struct {
		to    sorbetVersion
		apply func(*legacyBatch) error
	}{
		{sorbetVersion{0, 0, 2}, (*legacyBatch).to002},
		{sorbetVersion{0, 1, 0}, (*legacyBatch).to010},
		{sorbetVersion{0, 1, 1}, (*legacyBatch).to011},
		{sorbetVersion{0, 1, 2}, each((*legacyColumn).to012)},
		{sorbetVersion{0, 1, 3}, each((*legacyColumn).to013)},
		{sorbetVersion{0, 1, 4}, each((*legacyColumn).to014)},
	} {
		if v.before(step.to) {
			if err := step.apply(&l); err != nil {
				return nil, fmt.Errorf("migrate chunk to %d.%d.%d: %w", step.to[0], step.to[1], step.to[2], err)
			}
		}
	}
	l.schema.set(chunk.KeyVersion, chunk.Version)
	fields := make([]arrow.Field, len(l.cols))
	cols := make([]arrow.Array, len(l.cols))
	for i := range l.cols {
		fields[i], cols[i] = l.cols[i].field(), l.cols[i].values
	}
	md := arrow.NewMetadata(l.schema.keys, l.schema.vals)
	return array.NewRecordBatch(arrow.NewSchema(fields, &md), cols, l.rows), nil
}

func (c *legacyColumn) field() arrow.Field {
	return arrow.Field{Name: c.name, Type: c.typ, Nullable: c.nullable, Metadata: arrow.NewMetadata(c.meta.keys, c.meta.vals)}
}

func each(f func(*legacyColumn)) func(*legacyBatch) error {
	return func(l *legacyBatch) error {
		for i := range l.cols {
			f(&l.cols[i])
		}
		return nil
	}
}

// to002 orders columns by kind, makes row ids of structs, and renames
// archetypes that got plural names.
func (l *legacyBatch) to002() error {
	kind := func(c legacyColumn) chunk.ColumnKind {
		k := c.meta.get(chunk.KeyKind)
		if k == "" {
			k = c.meta.get("rerun.kind")
		}
		return chunk.KindOf(arrow.Field{Metadata: arrow.NewMetadata([]string{chunk.KeyKind}, []string{k})})
	}
	slices.SortStableFunc(l.cols, func(a, b legacyColumn) int { return int(kind(a)) - int(kind(b)) })
	for i := range l.cols {
		c := &l.cols[i]
		st, ok := c.values.(*array.Struct)
		if !ok || c.name != chunk.RowIDName && c.meta.get("ARROW:extension:name") != "rerun.datatypes.TUID" {
			continue
		}
		ids, err := rowIDsOfStruct(st)
		if err != nil {
			return fmt.Errorf("column %q: %w", c.name, err)
		}
		c.values, c.typ, c.nullable = ids, ids.DataType(), false
	}
	for i := range l.cols {
		c := &l.cols[i]
		if r, ok := pluralNames[c.meta.get("rerun.archetype")]; ok {
			c.meta.set("rerun.archetype", r.archetype)
			if plural, ok := r.fields[c.meta.get("rerun.archetype_field")]; ok {
				c.meta.set("rerun.archetype_field", plural)
			}
		}
	}
	return nil
}

var pluralNames = map[string]struct {
	archetype string
	fields    map[string]string
}{
	"rerun.archetypes.Scalar":     {"rerun.archetypes.Scalars", map[string]string{"scalar": "scalars"}},
	"rerun.archetypes.SeriesLine": {"rerun.archetypes.SeriesLines", map[string]string{"color": "colors", "width": "widths", "name": "names"}},
	"rerun.archetypes.SeriesPoint": {"rerun.archetypes.SeriesPoints", map[string]string{"color": "colors", "marker": "markers", "name": "names",
		"marker_size": "marker_sizes"}},
}

// rowIDsOfStruct makes 16-byte ids of two integers.
func rowIDsOfStruct(st *array.Struct) (arrow.Array, error) {
	var half [2]*array.Uint64
	for i, name := range []string{"time_ns", "inc"} {
		j, ok := st.DataType().(*arrow.StructType).FieldIdx(name)
		if !ok {
			return nil, fmt.Errorf("%w: no field %q", chunk.ErrRowID, name)
		}
		if half[i], ok = st.Field(j).(*array.Uint64); !ok {
			return nil, fmt.Errorf("%w: field %q is of type %v", chunk.ErrRowID, name, st.Field(j).DataType())
		}
	}
	if st.NullN() > 0 {
		return nil, fmt.Errorf("%w: nulls", chunk.ErrRowID)
	}
	ids := make([]byte, 0, 16*st.Len())
	for i := range st.Len() {
		ids = binary.BigEndian.AppendUint64(ids, half[0].Value(i))
		ids = binary.BigEndian.AppendUint64(ids, half[1].Value(i))
	}
	return chunk.RowIDArray(ids), nil
}

// to010 changes the keys of metadata, describes components by identifier,
// and moves the properties of the recording itself.
func (l *legacyBatch) to010() error {
	l.schema.colonKeys()
	const recording = chunk.PropertiesPath + "/recording"
	if p := l.schema.get(chunk.KeyEntityPath); p != "" && chunk.ParseEntityPath(p) == recording {
		l.schema.set(chunk.KeyEntityPath, string(chunk.PropertiesPath))
	}
	for i := range l.cols {
		c := &l.cols[i]
		c.describe()
		c.meta.colonKeys()
		rename := func(s string) string {
			s = strings.ReplaceAll(s, "RecordingProperties", "RecordingInfo")
			return strings.ReplaceAll(s, "property:recording:RecordingInfo:", "property:RecordingInfo:")
		}
		c.name = rename(c.name)
		for j, v := range c.meta.vals {
			c.meta.vals[j] = rename(v)
		}
		if p := c.meta.get(chunk.KeyEntityPath); p != "" && chunk.ParseEntityPath(p) == recording {
			c.meta.set(chunk.KeyEntityPath, string(chunk.PropertiesPath))
		}
	}
	return nil
}

func (m *meta) colonKeys() {
	m.drop("rerun.version")
	for i, k := range m.keys {
		if rest, ok := strings.CutPrefix(k, "rerun."); ok {
			if to := "rerun:" + rest; !m.has(to) {
				m.keys[i] = to
			}
		}
	}
}

// describe turns the old triple of archetype, field and component type into
// archetype, identifier and type.
func (c *legacyColumn) describe() {
	typ := c.meta.get("rerun.component")
	if typ == "" {
		return
	}
	archetype, field := c.meta.get("rerun.archetype"), c.meta.get("rerun.archetype_field")
	for _, key := range []string{"rerun.component", "rerun.archetype", "rerun.archetype_field"} {
		c.meta.drop(key)
	}
	identifier := typ
	switch {
	case strings.HasSuffix(typ, "Indicator"):
		archetype, typ = "", ""
	case archetype != "" && field != "":
		short := strings.TrimPrefix(strings.TrimPrefix(archetype, "rerun.archetypes."), "rerun.blueprint.archetypes.")
		identifier = short + ":" + field
	case field != "":
		identifier = field
	case archetype == "":
		typ = ""
	}
	c.meta.set(chunk.KeyComponent, identifier)
	if archetype != "" {
		c.meta.set(chunk.KeyArchetype, archetype)
	}
	if typ != "" {
		c.meta.set(chunk.KeyComponentType, typ)
	}
}

// to011 drops indicators, which said that an archetype had been logged.
func (l *legacyBatch) to011() error {
	l.cols = slices.DeleteFunc(l.cols, func(c legacyColumn) bool {
		component := c.meta.get(chunk.KeyComponent)
		return isTrue(c.field(), "rerun:is_indicator") ||
			strings.HasPrefix(component, "rerun.components.") && strings.HasSuffix(component, "Indicator")
	})
	return nil
}

var poseTypes = map[string]string{
	"rerun.components.PoseTranslation3D":     "rerun.components.Translation3D",
	"rerun.components.PoseRotationAxisAngle": "rerun.components.RotationAxisAngle",
	"rerun.components.PoseRotationQuat":      "rerun.components.RotationQuat",
	"rerun.components.PoseScale3D":           "rerun.components.Scale3D",
	"rerun.components.PoseTransformMat3x3":   "rerun.components.TransformMat3x3",
}

func (c *legacyColumn) retype(names map[string]string) {
	if to, ok := names[c.meta.get(chunk.KeyComponentType)]; ok {
		c.meta.set(chunk.KeyComponentType, to)
	}
}

// component is the identifier by which the column goes.
func (c *legacyColumn) component() string {
	if id := c.meta.get(chunk.KeyComponent); id != "" {
		return id
	}
	return c.name
}

func (c *legacyColumn) to012() {
	c.retype(poseTypes)
	switch c.component() {
	case "Transform3D:axis_length":
		c.meta.set(chunk.KeyComponent, "TransformAxes3D:axis_length")
		c.meta.set(chunk.KeyArchetype, "rerun.archetypes.TransformAxes3D")
	case "CoordinateFrame:frame_id":
		c.meta.set(chunk.KeyComponent, "CoordinateFrame:frame")
	}
}

var visibleTypes = map[string]string{
	"rerun.components.SeriesVisible":           "rerun.components.Visible",
	"rerun.blueprint.components.SeriesVisible": "rerun.blueprint.components.Visible",
}

func (c *legacyColumn) to013() { c.retype(visibleTypes) }

// cellKinds are the component types that the kinds of table cells stood for.
var cellKinds = map[uint8]string{2: "rerun.components.Url", 3: "rerun.components.Thumbnail", 4: "rerun.components.Flag", 6: "rerun.components.EntryKind"}

var columnType = arrow.StructOf(
	arrow.Field{Name: "component", Type: arrow.BinaryTypes.String, Nullable: true},
	arrow.Field{Name: "component_type_name", Type: arrow.BinaryTypes.String, Nullable: true},
)

const cellKindType = "rerun.blueprint.components.TableCellKind"

// to014 replaces the kind of a table cell, a number, by a component type.
func (c *legacyColumn) to014() {
	if c.component() == "TableColumn:cell_kind" {
		c.meta.set(chunk.KeyComponent, "TableColumn:column_type")
	}
	if c.meta.get(chunk.KeyComponentType) != cellKindType {
		return
	}
	c.meta.set(chunk.KeyComponentType, "rerun.blueprint.components.ColumnType")
	lt, ok := c.typ.(*arrow.ListType)
	if !ok || lt.Elem().ID() != arrow.UINT8 {
		return
	}
	c.typ = arrow.ListOf(columnType)
	list, ok := c.values.(*array.List)
	if !ok {
		return
	}
	kinds := list.ListValues().(*array.Uint8)
	b := array.NewStructBuilder(memory.DefaultAllocator, columnType)
	none, names := b.FieldBuilder(0).(*array.StringBuilder), b.FieldBuilder(1).(*array.StringBuilder)
	for i := range kinds.Len() {
		b.Append(true)
		none.AppendNull()
		if name, ok := cellKinds[kinds.Value(i)]; ok && kinds.IsValid(i) {
			names.Append(name)
		} else {
			names.AppendNull()
		}
	}
	d := list.Data()
	child := b.NewArray().Data()
	c.values = array.MakeFromData(array.NewData(c.typ, d.Len(), d.Buffers(), []arrow.ArrayData{child}, d.NullN(), d.Offset()))
}

// late applies the steps that came after footers did.
func (c *legacyColumn) late() (changed bool) {
	before := meta{slices.Clone(c.meta.keys), slices.Clone(c.meta.vals)}
	c.to012()
	c.to013()
	c.to014()
	return !slices.Equal(before.keys, c.meta.keys) || !slices.Equal(before.vals, c.meta.vals)
}

// migrateManifestSchema migrates the sorbet schema of a manifest.
func migrateManifestSchema(s *arrow.Schema) (*arrow.Schema, bool) {
	any := false
	fields := slices.Clone(s.Fields())
	for i, f := range fields {
		if chunk.KindOf(f) != chunk.DataColumn {
			continue
		}
		c := legacyColumn{name: f.Name, typ: f.Type, nullable: f.Nullable, meta: metaOf(f.Metadata)}
		if c.late() {
			any = true
			c.name = chunk.ColumnName(chunk.ParseEntityPath(c.meta.get(chunk.KeyEntityPath)), c.component())
			fields[i] = c.field()
		}
	}
	if !any {
		return s, false
	}
	md := s.Metadata()
	return arrow.NewSchema(fields, &md), true
}

// migrateManifestBatch renames the columns of a manifest whose components have
// other names by now.
func migrateManifestBatch(b arrow.RecordBatch) arrow.RecordBatch {
	any := false
	fields := slices.Clone(b.Schema().Fields())
	for i, f := range fields {
		if f.Metadata.FindKey(chunk.KeyComponent) < 0 {
			continue
		}
		before := descriptorName(chunk.DescriptorOf(f))
		c := legacyColumn{name: f.Name, typ: f.Type, nullable: f.Nullable, meta: metaOf(f.Metadata)}
		if c.late() {
			any = true
			fields[i] = c.field()
			fields[i].Name = strings.Replace(f.Name, before, descriptorName(chunk.DescriptorOf(fields[i])), 1)
		}
	}
	if !any {
		return b
	}
	md := b.Schema().Metadata()
	return array.NewRecordBatch(arrow.NewSchema(fields, &md), b.Columns(), b.NumRows())
}
