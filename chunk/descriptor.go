package chunk

import (
	"cmp"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
)

// Descriptor names a component column. Component, the identifier, is unique in
// its entity; Archetype and Type are attributes and may be empty.
type Descriptor struct {
	Archetype string // full name, such as rerun.archetypes.Points3D
	Component string // identifier, such as Points3D:positions
	Type      string // full name, such as rerun.components.Position3D
}

// ArchetypeDescriptor describes the field of an archetype with a full name:
// the identifier is the short archetype name, a colon and the field.
func ArchetypeDescriptor(archetype, field, componentType string) Descriptor {
	return Descriptor{archetype, ShortName(archetype) + ":" + field, componentType}
}

// ShortName is the part of a full archetype or component name after its last dot.
func ShortName(full string) string { return full[strings.LastIndexByte(full, '.')+1:] }

// Compare orders descriptors as columns are: archetype, none first, then
// component, then type; all by bytes.
func (d Descriptor) Compare(o Descriptor) int {
	return cmp.Or(strings.Compare(d.Archetype, o.Archetype), strings.Compare(d.Component, o.Component), strings.Compare(d.Type, o.Type))
}

func (d Descriptor) String() string { return d.Component }

// Metadata keys of schemas and fields (spec/rrd.md section 3).
const (
	KeyID            = "rerun:id"
	KeyEntityPath    = "rerun:entity_path"
	KeySegmentID     = "rerun:segment_id"
	KeyVersion       = "sorbet:version"
	KeyKind          = "rerun:kind"
	KeyIndexName     = "rerun:index_name"
	KeyComponent     = "rerun:component"
	KeyArchetype     = "rerun:archetype"
	KeyComponentType = "rerun:component_type"
	KeySorted        = "rerun:is_sorted"
	KeyStatic        = "rerun:is_static"
)

// Version is the sorbet version that chunks are written with.
const Version = "0.1.4"

// RowIDName is the name of the row id column.
const RowIDName = "rerun.controls.RowId"

const (
	keyExtName = "ARROW:extension:name"
	keyExtMeta = "ARROW:extension:metadata"
	tuidExt    = "rerun.datatypes.TUID"
)

var (
	rowIDType   = &arrow.FixedSizeBinaryType{ByteWidth: 16}
	rowIDFields = [2]arrow.Field{rowIDField(), rowIDField(KeySorted, "true")}
)

func rowIDField(more ...string) arrow.Field {
	keys := []string{keyExtMeta, keyExtName, KeyKind}
	vals := []string{`{"namespace":"row"}`, tuidExt, "control"}
	if len(more) > 0 {
		keys, vals = append(keys, more[0]), append(vals, more[1])
	}
	return arrow.Field{Name: RowIDName, Type: rowIDType, Metadata: arrow.NewMetadata(keys, vals)}
}

// RowIDField is the field of the row id column.
func RowIDField(sorted bool) arrow.Field {
	if sorted {
		return rowIDFields[1]
	}
	return rowIDFields[0]
}

// Field is the field of an index column.
func (t Timeline) Field(sorted bool) arrow.Field {
	keys, vals := []string{KeyIndexName, KeyKind}, []string{t.Name, "index"}
	if sorted {
		keys, vals = append(keys, KeySorted), append(vals, "true")
	}
	return arrow.Field{Name: t.Name, Type: t.Kind.ArrowType(), Nullable: true, Metadata: arrow.NewMetadata(keys, vals)}
}

// Field is the field of a data column with lists of type dt, named by the
// component identifier. The more metadata pairs are added to its own.
func (d Descriptor) Field(dt arrow.DataType, more ...string) arrow.Field {
	keys, vals := make([]string, 0, 8), make([]string, 0, 8)
	add := func(k, v string) {
		if v != "" {
			keys, vals = append(keys, k), append(vals, v)
		}
	}
	add(KeyArchetype, d.Archetype)
	add(KeyComponent, d.Component)
	add(KeyComponentType, d.Type)
	add(KeyKind, "data")
	for i := 0; i+1 < len(more); i += 2 {
		add(more[i], more[i+1])
	}
	return arrow.Field{Name: d.Component, Type: dt, Nullable: true, Metadata: arrow.NewMetadata(keys, vals)}
}

// DescriptorOf reads the descriptor from a field's metadata; a field without
// component metadata is a component of its own name.
func DescriptorOf(f arrow.Field) Descriptor {
	d := Descriptor{}
	md := f.Metadata
	for i, k := range md.Keys() {
		switch k {
		case KeyArchetype:
			d.Archetype = md.Values()[i]
		case KeyComponent:
			d.Component = md.Values()[i]
		case KeyComponentType:
			d.Type = md.Values()[i]
		}
	}
	if d.Component == "" {
		d.Component = f.Name
	}
	return d
}

// ColumnName is the name of a component's column in data frames (spec/chunks.md 7.1, spec/rrd.md 2.2).
func ColumnName(entity EntityPath, component string) string {
	switch {
	case entity == PropertiesPath:
		return "property:" + component
	case entity.IsDescendantOf(PropertiesPath):
		return "property:" + string(entity[len(PropertiesPath)+1:]) + ":" + component
	}
	return string(entity) + ":" + component
}
