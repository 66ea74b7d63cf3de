package protobuf

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// Errors that callers decide on.
var (
	ErrDescriptor  = errors.New("malformed protobuf descriptor set")
	ErrUnknownType = errors.New("protobuf message type is not in the descriptor set")
)

// Kind is the type of a field's values. The numbers are those of
// FieldDescriptorProto.Type.
type Kind uint8

// Kinds of fields.
const (
	Double   Kind = 1
	Float    Kind = 2
	Int64    Kind = 3
	Uint64   Kind = 4
	Int32    Kind = 5
	Fixed64  Kind = 6
	Fixed32  Kind = 7
	Bool     Kind = 8
	String   Kind = 9
	Group    Kind = 10 // a message between start and end tags
	Embedded Kind = 11 // a message with a length
	Bytes    Kind = 12
	Uint32   Kind = 13
	EnumKind Kind = 14
	Sfixed32 Kind = 15
	Sfixed64 Kind = 16
	Sint32   Kind = 17
	Sint64   Kind = 18
)

// isMessage reports whether values are messages.
func (k Kind) isMessage() bool { return k == Group || k == Embedded }

// Message is a linked message type. It is not written to once its set is linked.
type Message struct {
	Name   string   // full name without leading dot
	Fields []*Field // by ascending number, each number once
	Oneofs []*Oneof // as declared, without those that stand for optional fields

	mapEntry   bool
	extensions map[int32]*Field // nil if none

	dense  []*Field // by number, for small numbers
	sparse map[int32]*Field
	cyclic bool // some chain of fields leads back to the type itself
	mark   int  // depth-first number while cycles are sought
}

// Field is one field of a message type.
type Field struct {
	Name     string
	Number   int32
	Kind     Kind
	Repeated bool     // maps are repeated too
	Packed   bool     // how repeated scalars are written; both forms are read
	Presence bool     // absent differs from the default value
	Message  *Message // of messages; nil if the set lacks the type
	Enum     *Enum    // of enums; nil if the set lacks the type
	Oneof    *Oneof   // nil if in none
	Zero     int32    // number of an enum's default value

	order int // position of declaration
}

// IsMap reports whether the field is a map: repeated entries of key and value.
func (f *Field) IsMap() bool { return f.Repeated && f.Message != nil && f.Message.mapEntry }

// Key is the key field of a map field's entries.
func (f *Field) Key() *Field { return f.Message.Field(1) }

// Value is the value field of a map field's entries.
func (f *Field) Value() *Field { return f.Message.Field(2) }

// Oneof is a group of fields of which at most one is set.
type Oneof struct {
	Name   string
	Fields []*Field // as declared
}

// Enum is a linked enum type.
type Enum struct {
	Name  string
	names map[int32]string
	first int32
}

// ValueName is the name of a number; of aliases the first declared.
func (e *Enum) ValueName(number int32) (string, bool) {
	if e == nil {
		return "", false
	}
	s, ok := e.names[number]
	return s, ok
}

// Field is the field with a number, or nil.
func (m *Message) Field(number int32) *Field {
	if uint32(number) < uint32(len(m.dense)) {
		return m.dense[number]
	}
	return m.sparse[number]
}

// known is the field or the extension with a number, or nil.
func (m *Message) known(number int32) *Field {
	if f := m.Field(number); f != nil || m.extensions == nil {
		return f
	}
	return m.extensions[number]
}

// Set holds the linked types of a descriptor set. It may be used concurrently.
type Set struct {
	messages map[string]*Message
	enums    map[string]*Enum
}

// Message finds a type by its full name; a leading dot is allowed. The error
// wraps [ErrUnknownType].
func (s *Set) Message(name string) (*Message, error) {
	if m := s.messages[strings.TrimLeft(name, ".")]; m != nil && !m.mapEntry {
		return m, nil
	}
	return nil, fmt.Errorf("%w: %q", ErrUnknownType, name)
}

// maxDescriptorTypes bounds the types of one set; protoc's own output for large
// projects stays below a tenth of it.
const maxDescriptorTypes = 1 << 17

// ParseFileDescriptorSet links an encoded google.protobuf.FileDescriptorSet.
// Imports that the set lacks are taken from the well-known types if they are
// among them; a field whose type is found nowhere is read as bytes. The error
// wraps [ErrDescriptor].
func ParseFileDescriptorSet(b []byte) (*Set, error) {
	var fds descriptorpb.FileDescriptorSet
	if err := (proto.UnmarshalOptions{AllowPartial: true, RecursionLimit: 200}).Unmarshal(b, &fds); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDescriptor, err)
	}
	l := linker{set: &Set{messages: map[string]*Message{}, enums: map[string]*Enum{}}}
	for _, f := range fds.File {
		l.file(f)
	}
	l.wellKnown()
	if err := l.link(); err != nil {
		return nil, err
	}
	return l.set, nil
}

// linker collects declarations, then resolves the names in them.
type linker struct {
	set        *Set
	todo       []declaration
	extensions []extensionDeclaration
}

type extensionDeclaration struct {
	scope    string
	proto    *descriptorpb.FieldDescriptorProto
	features features
}

type declaration struct {
	message  *Message
	proto    *descriptorpb.DescriptorProto
	features features
}

func (l *linker) file(f *descriptorpb.FileDescriptorProto) {
	feat := fileFeatures(f)
	for _, e := range f.EnumType {
		l.enum(f.GetPackage(), e)
	}
	for _, m := range f.MessageType {
		l.message(f.GetPackage(), m, feat)
	}
	l.extend(f.GetPackage(), f.Extension, feat)
}

func (l *linker) extend(scope string, fields []*descriptorpb.FieldDescriptorProto, feat features) {
	for _, f := range fields {
		l.extensions = append(l.extensions, extensionDeclaration{scope, f, feat})
	}
}

func qualify(scope, name string) string {
	if scope == "" {
		return name
	}
	return scope + "." + name
}

func (l *linker) enum(scope string, e *descriptorpb.EnumDescriptorProto) {
	name := qualify(scope, e.GetName())
	if l.set.enums[name] != nil {
		return
	}
	out := &Enum{Name: name, names: make(map[int32]string, len(e.Value))}
	for i, v := range e.Value {
		if i == 0 {
			out.first = v.GetNumber()
		}
		if _, ok := out.names[v.GetNumber()]; !ok {
			out.names[v.GetNumber()] = strings.ToValidUTF8(v.GetName(), "\ufffd")
		}
	}
	l.set.enums[name] = out
}

func (l *linker) message(scope string, m *descriptorpb.DescriptorProto, feat features) {
	name := qualify(scope, m.GetName())
	if l.set.messages[name] != nil {
		return
	}
	feat = feat.with(m.GetOptions().GetFeatures())
	out := &Message{Name: name, mapEntry: m.GetOptions().GetMapEntry()}
	l.set.messages[name] = out
	l.todo = append(l.todo, declaration{out, m, feat})
	for _, e := range m.EnumType {
		l.enum(name, e)
	}
	for _, n := range m.NestedType {
		l.message(name, n, feat)
	}
	l.extend(name, m.Extension, feat)
}

// wellKnown adds the types of google.protobuf that the set lacks.
func (l *linker) wellKnown() {
	for _, f := range []protoreflect.FileDescriptor{
		anypb.File_google_protobuf_any_proto, durationpb.File_google_protobuf_duration_proto,
		emptypb.File_google_protobuf_empty_proto, fieldmaskpb.File_google_protobuf_field_mask_proto,
		structpb.File_google_protobuf_struct_proto, timestamppb.File_google_protobuf_timestamp_proto,
		wrapperspb.File_google_protobuf_wrappers_proto,
	} {
		l.file(protodesc.ToFileDescriptorProto(f))
	}
}

func (l *linker) link() error {
	if len(l.todo)+len(l.set.enums) > maxDescriptorTypes {
		return fmt.Errorf("%w: more than %d types", ErrDescriptor, maxDescriptorTypes)
	}
	for _, d := range l.todo {
		if err := l.fields(d); err != nil {
			return err
		}
	}
	for _, d := range l.todo {
		// A map entry that is not one of key and value is an ordinary message.
		if m := d.message; m.mapEntry && !m.isEntry() {
			m.mapEntry = false
		}
	}
	l.findCycles()
	l.linkExtensions()
	return nil
}

// linkExtensions adds extensions to the types they extend. They have no
// columns, but count when messages are checked and encoded. Those that do not
// resolve stay unknown fields.
func (l *linker) linkExtensions() {
	for _, e := range l.extensions {
		scope := &Message{Name: e.scope}
		var to Field
		extendee := &descriptorpb.FieldDescriptorProto{TypeName: e.proto.Extendee}
		l.resolve(declaration{message: scope}, extendee, &to)
		m := to.Message
		if m == nil || m.mapEntry || m.Field(e.proto.GetNumber()) != nil {
			continue
		}
		f, err := l.field(declaration{message: scope, features: e.features}, e.proto)
		if err != nil || f.IsMap() || f.Kind.isMessage() && f.Message == nil {
			continue
		}
		if m.extensions == nil {
			m.extensions = map[int32]*Field{}
		}
		m.extensions[f.Number] = f
	}
}

func (m *Message) isEntry() bool {
	k, v := m.Field(1), m.Field(2)
	if k == nil || v == nil || k.Repeated || v.Repeated {
		return false
	}
	switch k.Kind {
	case Double, Float, Bytes, Group, Embedded, EnumKind:
		return false
	}
	return true
}

func (l *linker) fields(d declaration) error {
	oneofs := make([]*Oneof, len(d.proto.OneofDecl))
	for i, o := range d.proto.OneofDecl {
		oneofs[i] = &Oneof{Name: strings.ToValidUTF8(o.GetName(), "\ufffd")}
	}
	m := d.message
	m.Fields = make([]*Field, 0, len(d.proto.Field))
	for i, p := range d.proto.Field {
		f, err := l.field(d, p)
		if err != nil {
			return err
		}
		f.order = i
		if p.OneofIndex != nil && !f.Repeated {
			at := int(p.GetOneofIndex())
			if at < 0 || at >= len(oneofs) {
				return fmt.Errorf("%w: %s.%s: no oneof %d", ErrDescriptor, m.Name, f.Name, at)
			}
			f.Presence = true
			if !p.GetProto3Optional() {
				f.Oneof = oneofs[at]
			}
		}
		m.Fields = append(m.Fields, f)
	}
	slices.SortStableFunc(m.Fields, func(a, b *Field) int { return cmp.Compare(a.Number, b.Number) })
	// Of two fields of one number the first declared counts.
	m.Fields = slices.CompactFunc(m.Fields, func(a, b *Field) bool { return a.Number == b.Number })
	m.index()
	declared := slices.SortedFunc(slices.Values(m.Fields), func(a, b *Field) int { return cmp.Compare(a.order, b.order) })
	for _, f := range declared {
		if f.Oneof != nil {
			f.Oneof.Fields = append(f.Oneof.Fields, f)
		}
	}
	for _, o := range oneofs {
		if len(o.Fields) > 0 {
			m.Oneofs = append(m.Oneofs, o)
		}
	}
	return nil
}

const denseNumbers = 256

func (m *Message) index() {
	for _, f := range m.Fields {
		if f.Number < denseNumbers {
			for len(m.dense) <= int(f.Number) {
				m.dense = append(m.dense, nil)
			}
			m.dense[f.Number] = f
			continue
		}
		if m.sparse == nil {
			m.sparse = map[int32]*Field{}
		}
		m.sparse[f.Number] = f
	}
}

func (l *linker) field(d declaration, p *descriptorpb.FieldDescriptorProto) (*Field, error) {
	f := &Field{Name: strings.ToValidUTF8(p.GetName(), "\ufffd"), Number: p.GetNumber(), Kind: Kind(p.GetType())}
	if f.Number < 1 || f.Number > maxFieldNumber {
		return nil, fmt.Errorf("%w: %s.%s: field number %d", ErrDescriptor, d.message.Name, f.Name, f.Number)
	}
	f.Repeated = p.GetLabel() == descriptorpb.FieldDescriptorProto_LABEL_REPEATED
	feat := d.features.with(p.GetOptions().GetFeatures())
	if p.Type == nil || f.Kind.isMessage() || f.Kind == EnumKind {
		l.resolve(d, p, f)
	}
	switch {
	case f.Kind < Double || f.Kind > Sint64:
		return nil, fmt.Errorf("%w: %s.%s: type %d", ErrDescriptor, d.message.Name, f.Name, f.Kind)
	case f.Kind == Embedded && feat.delimited && !d.message.mapEntry && !f.IsMap():
		f.Kind = Group
	}
	f.Presence = !f.Repeated && (feat.explicit || f.Kind.isMessage() || p.GetProto3Optional())
	f.Packed = feat.packed
	if o := p.GetOptions(); o != nil && o.Packed != nil {
		f.Packed = o.GetPacked()
	}
	return f, nil
}

// resolve finds the type that a field names.
func (l *linker) resolve(d declaration, p *descriptorpb.FieldDescriptorProto, f *Field) {
	found := func(name string) bool {
		if m := l.set.messages[name]; m != nil && (p.Type == nil || f.Kind.isMessage()) {
			f.Message = m
			if p.Type == nil {
				f.Kind = Embedded
			}
			return true
		}
		if e := l.set.enums[name]; e != nil && (p.Type == nil || f.Kind == EnumKind) {
			f.Enum, f.Kind, f.Zero = e, EnumKind, e.first
			return true
		}
		return false
	}
	name := p.GetTypeName()
	if rest, ok := strings.CutPrefix(name, "."); ok {
		found(rest)
		return
	}
	// A relative name is sought from the innermost scope outwards.
	for scope := d.message.Name; ; {
		if found(qualify(scope, name)) || scope == "" {
			return
		}
		scope = scope[:max(strings.LastIndexByte(scope, '.'), 0)]
	}
}

// features are the edition features that decide how messages are read.
type features struct{ explicit, packed, delimited bool }

func fileFeatures(f *descriptorpb.FileDescriptorProto) features {
	var feat features
	switch {
	case f.GetSyntax() == "proto3":
		feat = features{packed: true}
	case f.GetSyntax() == "editions" || f.Edition != nil && f.GetEdition() >= descriptorpb.Edition_EDITION_2023:
		feat = features{explicit: true, packed: true}
	default:
		feat = features{explicit: true}
	}
	return feat.with(f.GetOptions().GetFeatures())
}

func (f features) with(s *descriptorpb.FeatureSet) features {
	if s == nil {
		return f
	}
	if s.FieldPresence != nil {
		f.explicit = s.GetFieldPresence() != descriptorpb.FeatureSet_IMPLICIT
	}
	if s.RepeatedFieldEncoding != nil {
		f.packed = s.GetRepeatedFieldEncoding() == descriptorpb.FeatureSet_PACKED
	}
	if s.MessageEncoding != nil {
		f.delimited = s.GetMessageEncoding() == descriptorpb.FeatureSet_DELIMITED
	}
	return f
}

// findCycles marks the types that can contain themselves: strongly connected
// components of the graph of fields (Tarjan), without recursion, as chains of
// types may be long.
func (l *linker) findCycles() {
	type frame struct {
		m    *Message
		next int // field to look at
		low  int
	}
	count := 0
	var path []frame
	var open []*Message // in no finished component yet
	enter := func(m *Message) {
		count++
		m.mark = count
		open = append(open, m)
		path = append(path, frame{m: m, low: count})
	}
	done := map[*Message]bool{}
	for _, d := range l.todo {
		if d.message.mark != 0 {
			continue
		}
		enter(d.message)
		for len(path) > 0 {
			top := &path[len(path)-1]
			if top.next < len(top.m.Fields) {
				to := top.m.Fields[top.next].Message
				top.next++
				switch {
				case to == nil || done[to]:
				case to.mark == 0:
					enter(to)
				default:
					top.low = min(top.low, to.mark)
					if to == top.m {
						to.cyclic = true
					}
				}
				continue
			}
			m, low := top.m, top.low
			path = path[:len(path)-1]
			if len(path) > 0 {
				path[len(path)-1].low = min(path[len(path)-1].low, low)
			}
			if low != m.mark {
				continue
			}
			at := len(open) - 1
			for open[at] != m {
				at--
			}
			for _, o := range open[at:] {
				o.cyclic = o.cyclic || len(open)-at > 1
				done[o] = true
			}
			open = open[:at]
		}
	}
}
