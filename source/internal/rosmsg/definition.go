// Package rosmsg reads ROS 2 message definitions and decodes messages by them
// into Arrow columns (spec/readers.md 1.5).
package rosmsg

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ErrWString says that a definition uses wstring, which has no portable encoding.
var ErrWString = errors.New("wstring is not supported")

// Kind is the kind of a single value.
type Kind uint8

// Kinds of values. Byte and char are unsigned bytes.
const (
	Bool Kind = iota + 1
	Int8
	Uint8
	Int16
	Uint16
	Int32
	Uint32
	Int64
	Uint64
	Float32
	Float64
	String
	Nested
)

var primitives = map[string]Kind{
	"bool": Bool, "byte": Uint8, "char": Uint8, "int8": Int8, "uint8": Uint8, "int16": Int16, "uint16": Uint16,
	"int32": Int32, "uint32": Uint32, "int64": Int64, "uint64": Uint64, "float32": Float32, "float64": Float64, "string": String,
}

// Shape says how many values a field has.
type Shape uint8

// Shapes of fields.
const (
	Single   Shape = iota
	Array          // Field.Len values
	Sequence       // any number
)

// Field is a member of a message.
type Field struct {
	Name    string
	Kind    Kind
	Shape   Shape
	Len     int      // of an Array
	Message *Message // of a Nested field
}

// Message is a resolved definition.
type Message struct {
	Name   string // as pkg/Type
	Fields []Field
}

// Field returns the field of a name, or nil.
func (m *Message) Field(name string) *Field {
	for i := range m.Fields {
		if m.Fields[i].Name == name {
			return &m.Fields[i]
		}
	}
	return nil
}

// Limits against definitions that are small as text and huge as a tree.
const (
	maxDepth  = 64
	maxFields = 1 << 16
)

// spec is a definition whose type names are not yet resolved.
type spec struct {
	fields []rawField
	// constants' type, if all have the same one
	constType string
	constants int
}

// isEnum tells definitions that stand for a number where they are used: they
// have only constants, of one small type.
func (s *spec) isEnum() bool {
	if len(s.fields) > 0 || s.constants == 0 {
		return false
	}
	switch s.constType {
	case "bool", "byte", "char", "int8", "uint8":
		return true
	}
	return false
}

type rawField struct {
	base, name string
	shape      Shape
	len        int
}

// Parse reads a definition of the message type called name, such as
// pkg/msg/Type, with the definitions it depends on after it.
func Parse(name, text string) (*Message, error) {
	p := parser{specs: map[string]*spec{}, pending: map[string]bool{}}
	short := shortName(name)
	current := short
	var body []string
	flush := func() error {
		if current == "" {
			return nil
		}
		s, err := parseSpec(body)
		if err != nil {
			return fmt.Errorf("definition of %s: %w", current, err)
		}
		p.specs[current] = s // of two with one name the last counts
		return nil
	}
	header := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if isRuler(line) {
			if err := flush(); err != nil {
				return nil, err
			}
			current, body, header = "", nil, true
			continue
		}
		if header {
			if line == "" {
				continue
			}
			rest, ok := strings.CutPrefix(line, "MSG:")
			if !ok {
				return nil, fmt.Errorf("expected a line with MSG: after the separator, not %q", line)
			}
			current, header = shortName(strings.TrimSpace(rest)), false
			continue
		}
		body = append(body, line)
	}
	if err := flush(); err != nil {
		return nil, err
	}
	for _, s := range p.specs {
		if slices.ContainsFunc(s.fields, func(f rawField) bool { return f.base == "wstring" }) {
			return nil, ErrWString
		}
	}
	return p.message(short, 0)
}

// isRuler tells separator lines of equals signs.
func isRuler(line string) bool { return len(line) >= 3 && strings.Trim(line, "=") == "" }

// shortName makes pkg/msg/Type and pkg/Type one name.
func shortName(name string) string {
	first, last := strings.IndexByte(name, '/'), strings.LastIndexByte(name, '/')
	if first < 0 || first == last {
		return name
	}
	return name[:first] + name[last:]
}

func parseSpec(lines []string) (*spec, error) {
	s := &spec{}
	for _, line := range lines {
		if i := strings.IndexByte(line, '#'); i >= 0 {
			line = line[:i]
		}
		tokens := strings.Fields(line)
		if len(tokens) == 0 {
			continue
		}
		if len(tokens) < 2 {
			return nil, fmt.Errorf("line %q has a type but no name", line)
		}
		name, _, isConst := strings.Cut(tokens[1], "=")
		isConst = isConst || len(tokens) > 2 && strings.HasPrefix(tokens[2], "=")
		if isConst {
			if s.constants > 0 && s.constType != tokens[0] {
				s.constType = ""
			} else {
				s.constType = tokens[0]
			}
			s.constants++
			continue
		}
		if strings.ContainsAny(name, "[]<>") {
			return nil, fmt.Errorf("field name %q", name)
		}
		f, err := parseType(tokens[0])
		if err != nil {
			return nil, fmt.Errorf("field %s: %w", name, err)
		}
		f.name = name
		s.fields = append(s.fields, f)
	}
	return s, nil
}

// parseType reads a type such as string<=5[<=3].
func parseType(t string) (rawField, error) {
	f := rawField{base: t}
	if i := strings.IndexByte(t, '['); i >= 0 {
		if t[len(t)-1] != ']' {
			return f, fmt.Errorf("array type %q is not closed", t)
		}
		f.base = t[:i]
		size := t[i+1 : len(t)-1]
		bound, bounded := strings.CutPrefix(size, "<=")
		switch {
		case size == "":
			f.shape = Sequence
		case bounded:
			if _, err := strconv.ParseUint(bound, 10, 32); err != nil {
				return f, fmt.Errorf("bound of type %q: %w", t, err)
			}
			f.shape = Sequence
		default:
			n, err := strconv.ParseUint(size, 10, 31)
			if err != nil {
				return f, fmt.Errorf("length of type %q: %w", t, err)
			}
			f.shape, f.len = Array, int(n)
		}
	}
	if base, bound, ok := strings.Cut(f.base, "<="); ok {
		if base != "string" && base != "wstring" {
			return f, fmt.Errorf("bounded type %q", t)
		}
		if _, err := strconv.ParseUint(bound, 10, 32); err != nil {
			return f, fmt.Errorf("bound of type %q: %w", t, err)
		}
		f.base = base
	}
	if f.base == "" {
		return f, fmt.Errorf("type %q has no name", t)
	}
	return f, nil
}

// parser resolves specs to messages.
type parser struct {
	specs   map[string]*spec
	pending map[string]bool
	fields  int
}

func (p *parser) message(name string, depth int) (*Message, error) {
	s := p.specs[name]
	if s == nil {
		return nil, fmt.Errorf("message type %s is not defined", name)
	}
	if p.pending[name] {
		return nil, fmt.Errorf("message type %s contains itself", name)
	}
	if depth > maxDepth {
		return nil, fmt.Errorf("message types are nested more than %d deep", maxDepth)
	}
	p.pending[name] = true
	defer delete(p.pending, name)
	m := &Message{Name: name, Fields: make([]Field, 0, len(s.fields))}
	for _, raw := range s.fields {
		if p.fields++; p.fields > maxFields {
			return nil, fmt.Errorf("definition has more than %d fields", maxFields)
		}
		f := Field{Name: raw.name, Shape: raw.shape, Len: raw.len, Kind: primitives[raw.base]}
		switch {
		case f.Kind != 0:
		default:
			if err := p.resolve(&f, raw.base, name, depth); err != nil {
				return nil, fmt.Errorf("%s.%s: %w", name, raw.name, err)
			}
		}
		m.Fields = append(m.Fields, f)
	}
	if len(m.Fields) == 0 && (depth > 0 || !s.isEnum()) {
		// As ROS fills messages without members.
		m.Fields = append(m.Fields, Field{Name: "structure_needs_at_least_one_member", Kind: Uint8})
	}
	return m, nil
}

// resolve finds a message type by the name that a field of the message called
// in uses for it.
func (p *parser) resolve(f *Field, name, in string, depth int) error {
	full := shortName(name)
	if !strings.Contains(full, "/") {
		if i := strings.IndexByte(in, '/'); i >= 0 {
			full = in[:i+1] + full
		}
	}
	if s := p.specs[full]; s != nil && s.isEnum() {
		f.Kind = primitives[s.constType]
		return nil
	}
	m, err := p.message(full, depth+1)
	if err != nil {
		return err
	}
	f.Kind, f.Message = Nested, m
	return nil
}
