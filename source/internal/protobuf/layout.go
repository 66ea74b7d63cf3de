package protobuf

import (
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/reelhouse/reelhouse/source/internal/columnar"
)

// Extension names that mark what Arrow types cannot say (spec/readers.md 1.6).
const (
	ExtEnum          = "rerun.datatypes.ProtobufEnum"
	ExtOneOf         = "rerun.datatypes.ProtobufOneOf"
	ExtSelfReference = "rerun.datatypes.ProtobufSelfReferential"
	ExtJSON          = structName
)

const (
	// maxColumns bounds the leaf columns of one type: types can nest so that
	// they unfold exponentially.
	maxColumns = 1 << 14
	// maxNesting bounds nested structs and lists, which readers of Arrow schemas
	// limit to 64.
	maxNesting = 56
)

// EncodedReason says why a message type is kept encoded instead of as a struct.
type EncodedReason uint8

// Reasons why messages stay encoded.
const (
	SelfReferential EncodedReason = iota + 1 // the type can contain itself
	Dynamic                                  // a JSON value, kept as JSON text
	Unresolved                               // the descriptor set lacks the type
	TooLarge                                 // nested too deeply or into too many columns
)

// Encoded tells of a field whose messages a [Layout] keeps encoded.
type Encoded struct {
	Type   string // full name of the type; the field's if Unresolved
	Reason EncodedReason
}

// Layout says how messages of one type become columns. It is not written to
// once made and may be used concurrently.
type Layout struct {
	Message *Message
	Type    *arrow.StructType
	Encoded []Encoded // once per type and reason, in the order of fields

	root *shape
}

// form is how a field's values are stored.
type form uint8

const (
	asNumber form = iota
	asBytes       // String and Bytes
	asEnum
	asStruct
	asBinary // canonical encoding of a message
	asJSON
)

// shape is a message type at one place of the layout.
type shape struct {
	message *Message
	typ     *arrow.StructType
	entries []entryShape // one per column
	columns int          // leaf columns, with those below
}

// entryShape is one column: a field, or a oneof with its members.
type entryShape struct {
	field   fieldShape
	oneof   *Oneof
	members []fieldShape
}

type fieldShape struct {
	field *Field
	form  form
	sub   *shape // of messages that become structs
	key   *Field // of maps; the form is that of the values
}

// NewLayout lays out a message type. The error, which wraps [ErrDescriptor],
// says that it has too many fields for columns.
func NewLayout(m *Message) (*Layout, error) {
	if len(m.Fields) > maxColumns {
		return nil, fmt.Errorf("%w: %s has more than %d fields", ErrDescriptor, m.Name, maxColumns)
	}
	l := &Layout{Message: m}
	b := layoutBuilder{layout: l, left: maxColumns}
	l.root = b.shape(m, 2)
	l.Type = l.root.typ
	return l, nil
}

type layoutBuilder struct {
	layout *Layout
	left   int // columns
}

func (b *layoutBuilder) note(name string, why EncodedReason) {
	e := Encoded{name, why}
	if !slices.Contains(b.layout.Encoded, e) {
		b.layout.Encoded = append(b.layout.Encoded, e)
	}
}

func extension(name string) arrow.Metadata {
	return arrow.NewMetadata([]string{"ARROW:extension:name"}, []string{name})
}

var enumType = arrow.StructOf(
	arrow.Field{Name: "name", Type: arrow.BinaryTypes.String, Nullable: true},
	arrow.Field{Name: "value", Type: arrow.PrimitiveTypes.Int32, Nullable: true})

// shape lays out a message whose struct stands at the given depth.
func (b *layoutBuilder) shape(m *Message, depth int) *shape {
	s := &shape{message: m}
	fields := newColumnFields(len(m.Fields))
	done := map[*Oneof]bool{}
	before := b.left
	for _, f := range m.Fields {
		o := f.Oneof
		if o == nil || len(o.Fields) < 2 {
			fs, af := b.field(m, f, depth+1)
			s.entries = append(s.entries, entryShape{field: fs})
			fields.add(af, f.Number)
			continue
		}
		if done[o] {
			continue
		}
		done[o] = true
		e := entryShape{oneof: o}
		members := newColumnFields(len(o.Fields))
		for _, member := range o.Fields {
			fs, af := b.field(m, member, depth+2)
			e.members = append(e.members, fs)
			members.add(af, member.Number)
		}
		s.entries = append(s.entries, e)
		fields.add(arrow.Field{Name: o.Name, Type: arrow.StructOf(members.list...), Nullable: true, Metadata: extension(ExtOneOf)}, f.Number)
	}
	s.typ = arrow.StructOf(fields.list...)
	s.columns = before - b.left + 1
	return s
}

// columnFields are the fields of a struct. Names are told apart, as readers of
// Arrow data expect them to be.
type columnFields struct {
	list []arrow.Field
	used map[string]bool
}

func newColumnFields(n int) *columnFields {
	return &columnFields{list: make([]arrow.Field, 0, n), used: make(map[string]bool, n)}
}

func (c *columnFields) add(f arrow.Field, number int32) {
	for c.used[f.Name] {
		f.Name = fmt.Sprintf("%s_%d", f.Name, number)
	}
	c.used[f.Name] = true
	c.list = append(c.list, f)
}

// field lays out one field whose own type stands at the given depth.
func (b *layoutBuilder) field(m *Message, f *Field, depth int) (fieldShape, arrow.Field) {
	out := arrow.Field{Name: f.Name, Nullable: f.Presence || f.Repeated}
	if f.IsMap() {
		value, item := b.value(m, f.Value(), depth+2)
		_, key := b.value(m, f.Key(), depth+2)
		key.Nullable, item.Nullable = false, false
		out.Type = arrow.MapOfFields(key, item)
		value.field, value.key = f, f.Key()
		return value, out
	}
	if f.Repeated {
		depth++
	}
	fs, item := b.value(m, f, depth)
	out.Type, out.Metadata = item.Type, item.Metadata
	if f.Repeated {
		out.Type = arrow.ListOfField(arrow.Field{Name: "item", Type: item.Type})
	}
	return fs, out
}

// value lays out single values of a field.
func (b *layoutBuilder) value(m *Message, f *Field, depth int) (fieldShape, arrow.Field) {
	fs := fieldShape{field: f}
	out := arrow.Field{Name: f.Name}
	b.left--
	switch f.Kind {
	case String:
		fs.form, out.Type = asBytes, arrow.BinaryTypes.String
	case Bytes:
		fs.form, out.Type = asBytes, arrow.BinaryTypes.Binary
	case EnumKind:
		b.left--
		fs.form, out.Type, out.Metadata = asEnum, enumType, extension(ExtEnum)
	case Embedded, Group:
		why := EncodedReason(0)
		fs.form, out.Type = asBinary, arrow.BinaryTypes.Binary
		switch t := f.Message; {
		case t == nil:
			b.note(m.Name+"."+f.Name, Unresolved)
			return fs, out
		case t.isJSON():
			why = Dynamic
			fs.form, out.Type, out.Metadata = asJSON, arrow.BinaryTypes.String, extension(ExtJSON)
		case t.cyclic:
			why = SelfReferential
			out.Metadata = extension(ExtSelfReference)
		case depth >= maxNesting || b.left < len(t.Fields):
			why = TooLarge
		default:
			b.left++
			fs.form, fs.sub = asStruct, b.shape(t, depth)
			out.Type = fs.sub.typ
			return fs, out
		}
		b.note(f.Message.Name, why)
	default:
		fs.form, out.Type = asNumber, f.Kind.arrowType()
	}
	return fs, out
}

func (k Kind) arrowType() arrow.DataType {
	switch k {
	case Double:
		return arrow.PrimitiveTypes.Float64
	case Float:
		return arrow.PrimitiveTypes.Float32
	case Int64, Sint64, Sfixed64:
		return arrow.PrimitiveTypes.Int64
	case Uint64, Fixed64:
		return arrow.PrimitiveTypes.Uint64
	case Uint32, Fixed32:
		return arrow.PrimitiveTypes.Uint32
	case Bool:
		return arrow.FixedWidthTypes.Boolean
	}
	return arrow.PrimitiveTypes.Int32
}

// newColumn makes an empty column for the layout.
func (l *Layout) newColumn() *columnar.Struct { return columnar.MustNew[*columnar.Struct](l.Type) }
