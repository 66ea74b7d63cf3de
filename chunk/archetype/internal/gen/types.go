package main

import (
	"fmt"
	"log"
	"strconv"
	"strings"
)

// node is a type in the notation of the vocabulary.
type node struct {
	name string // of a primitive or named type; else a list:
	item *node
	size int // of a fixed-size list; 0 for a list
}

type member struct {
	node
	name     string
	nullable bool
}

func parse(text string) node {
	if !strings.HasSuffix(text, "]") {
		return node{name: text}
	}
	open := strings.LastIndexByte(text, '[')
	item := parse(text[:open])
	n := node{item: &item}
	if size := text[open+1 : len(text)-1]; size != "" {
		var err error
		if n.size, err = strconv.Atoi(size); err != nil || n.size < 1 {
			log.Fatalf("bad type %q", text)
		}
	}
	return n
}

func (n node) String() string {
	switch {
	case n.item == nil:
		return n.name
	case n.size > 0:
		return fmt.Sprintf("%s[%d]", n.item, n.size)
	}
	return n.item.String() + "[]"
}

// base is the innermost item.
func (n node) base() node {
	for n.item != nil {
		n = *n.item
	}
	return n
}

func members(text string) []member {
	text = strings.TrimSuffix(text[strings.IndexByte(text, '{')+1:], "}")
	var out []member
	for part := range strings.SplitSeq(text, ", ") {
		name, t, ok := strings.Cut(part, ": ")
		if !ok {
			log.Fatalf("bad member %q", part)
		}
		bare := strings.TrimSuffix(t, "?")
		out = append(out, member{parse(bare), name, bare != t})
	}
	return out
}

// primitives are the Go and the Arrow types of primitives.
var primitives = map[string][2]string{
	"null":    {"", "arrow.Null"},
	"bool":    {"bool", "arrow.FixedWidthTypes.Boolean"},
	"string":  {"string", "arrow.BinaryTypes.String"},
	"float16": {"float16.Num", "arrow.FixedWidthTypes.Float16"},
}

func init() {
	for _, t := range []string{"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64"} {
		primitives[t] = [2]string{t, "arrow.PrimitiveTypes." + strings.ToUpper(t[:1]) + t[1:]}
	}
}

// goType is the Go type of a value.
func goType(n node) string {
	switch {
	case n.String() == "uint8[]":
		return "[]byte"
	case n.size > 0:
		return fmt.Sprintf("[%d]%s", n.size, goType(*n.item))
	case n.item != nil:
		return "[]" + goType(*n.item)
	}
	if p, ok := primitives[n.name]; ok {
		return p[0]
	}
	return n.name
}

// goMember is the Go type of a struct member: what may be null has a nil or zero for it.
func goMember(m member) string {
	if _, primitive := primitives[m.node.name]; m.nullable && primitive {
		return "*" + goType(m.node)
	}
	return goType(m.node)
}

// encoder is the function that makes an Arrow array of Go values.
func encoder(m member) string {
	n := m.node
	inner := n.base()
	_, primitive := primitives[inner.name]
	switch {
	case n.item != nil && n.size == 0 && m.nullable:
		return "optionalLists(" + encoder(member{node: *n.item}) + ")"
	case n.item != nil && n.size == 0:
		return "lists(" + instance(*n.item) + ")"
	case m.nullable && primitive:
		return "optional(" + instance(n) + ")"
	case inner.name == "string":
		return "texts"
	case inner.name == "bool":
		return "bools"
	case primitive:
		return "plain"
	}
	return "encode" + inner.name
}

// instance is the encoder with its type argument, if it takes one.
func instance(n node) string {
	e := encoder(member{node: n})
	if e == "plain" {
		e += "[" + goType(n) + "]"
	}
	return e
}

// typeVar is the variable that holds an Arrow type.
func (g *generator) typeVar(n node) string {
	v := typeName(n)
	g.typeVars[v] = n.String()
	return v
}

func typeName(n node) string {
	switch {
	case n.size > 0:
		return fmt.Sprintf("%sx%d", typeName(*n.item), n.size)
	case n.item != nil:
		return typeName(*n.item) + "List"
	}
	return "type" + strings.ToUpper(n.name[:1]) + n.name[1:]
}

// typeExpr makes an Arrow type.
func (g *generator) typeExpr(n node) string {
	switch {
	case n.size > 0:
		return fmt.Sprintf("arrow.FixedSizeListOfNonNullable(%d, %s)", n.size, g.typeVar(*n.item))
	case n.item != nil:
		return fmt.Sprintf("arrow.ListOfNonNullable(%s)", g.typeVar(*n.item))
	}
	if p, ok := primitives[n.name]; ok {
		return p[1]
	}
	text, ok := g.Types[n.name]
	if !ok {
		log.Fatalf("unknown type %q", n.name)
	}
	var fields, codes []string
	for i, m := range members(text) {
		nullable := ""
		if m.nullable {
			nullable = ", Nullable: true"
		}
		fields = append(fields, fmt.Sprintf("arrow.Field{Name: %q, Type: %s%s},\n", m.name, g.typeVar(m.node), nullable))
		codes = append(codes, strconv.Itoa(i))
	}
	if strings.HasPrefix(text, "union") {
		return fmt.Sprintf("arrow.DenseUnionOf([]arrow.Field{\n%s}, []arrow.UnionTypeCode{%s})", strings.ReplaceAll(strings.Join(fields, ""), "arrow.Field{", "{"), strings.Join(codes, ", "))
	}
	return fmt.Sprintf("arrow.StructOf(\n%s)", strings.Join(fields, ""))
}
