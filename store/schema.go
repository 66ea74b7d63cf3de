package store

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/reelhouse/reelhouse/chunk"
	"github.com/reelhouse/reelhouse/rrd"
)

// ErrTypeConflict is wrapped by errors about a column that has different types
// in different chunks.
var ErrTypeConflict = errors.New("column has different types in different chunks")

// Schema is the columns of a store.
type Schema struct {
	Indexes    []chunk.Timeline // by name
	Components []Column         // by entity, archetype (none first), component, type
	conflicts  map[string]error // of timelines by name
}

// Column is a component column of a store: one component of one entity.
type Column struct {
	Entity chunk.EntityPath
	chunk.Descriptor
	Type      arrow.DataType // a list; that of the chunk inserted last
	Static    bool           // some chunk has it as static data
	Empty     bool           // no chunk has a value of it: all cells are null or empty lists
	Tombstone bool           // it marks clears and is not data

	conflict error
}

// Name is the column's name in data frames.
func (c *Column) Name() string { return chunk.ColumnName(c.Entity, c.Component) }

// Conflict is an [ErrTypeConflict] if chunks disagree on the column's type, else nil.
func (c *Column) Conflict() error { return c.conflict }

// Index is the timeline of that name; ok is false if the store has none.
func (s *Schema) Index(name string) (chunk.Timeline, bool) {
	i, ok := slices.BinarySearchFunc(s.Indexes, name, func(t chunk.Timeline, n string) int { return strings.Compare(t.Name, n) })
	if !ok {
		return chunk.Timeline{}, false
	}
	return s.Indexes[i], true
}

// IndexConflict is an [ErrTypeConflict] if chunks disagree on the kind of a timeline, else nil.
func (s *Schema) IndexConflict(name string) error { return s.conflicts[name] }

// ClearComponent is the component that clears, whatever its archetype
// (spec/chunks.md 7.1, 7.3).
const ClearComponent = "Clear:is_recursive"

// Union is the columns of all schemas. A column is static if it is in any, and
// empty if it is in all.
func Union(schemas ...*Schema) *Schema {
	b := newSchemaBuilder()
	for _, s := range schemas {
		for _, t := range s.Indexes {
			b.addIndex(t)
			if err := s.conflicts[t.Name]; err != nil {
				b.conflicts[t.Name] = err
			}
		}
		for i := range s.Components {
			b.addColumn(&s.Components[i])
		}
	}
	return b.build()
}

type columnKey struct {
	entity    chunk.EntityPath
	component string
}

// schemaBuilder collects the columns of entries.
type schemaBuilder struct {
	indexes   map[string]chunk.Timeline
	columns   map[columnKey]*Column
	conflicts map[string]error
}

func newSchemaBuilder() *schemaBuilder {
	return &schemaBuilder{map[string]chunk.Timeline{}, map[columnKey]*Column{}, map[string]error{}}
}

func (b *schemaBuilder) add(e *rrd.Entry) {
	for _, t := range e.Times {
		b.addIndex(t.Timeline)
	}
	for i := range e.Components {
		m := &e.Components[i]
		b.addColumn(&Column{Entity: e.Entity, Descriptor: m.Descriptor, Type: m.Type, Static: m.Static, Empty: m.Empty, Tombstone: m.Component == ClearComponent})
	}
}

// addIndex takes a timeline as another part of the store has it.
func (b *schemaBuilder) addIndex(t chunk.Timeline) {
	if old, ok := b.indexes[t.Name]; ok && old.Kind != t.Kind {
		b.conflicts[t.Name] = fmt.Errorf("index %q: %w: %s and %s", t.Name, ErrTypeConflict, old.Kind, t.Kind)
	}
	b.indexes[t.Name] = t
}

// addColumn takes a column as another part of the store has it; its
// descriptor and type win.
func (b *schemaBuilder) addColumn(c *Column) {
	k := columnKey{c.Entity, c.Component}
	old := b.columns[k]
	if old == nil {
		n := *c
		b.columns[k] = &n
		return
	}
	if old.conflict == nil {
		old.conflict = c.conflict
	}
	if old.conflict == nil && !arrow.TypeEqual(old.Type, c.Type) {
		old.conflict = fmt.Errorf("column %q: %w: %s and %s", c.Name(), ErrTypeConflict, elem(old.Type), elem(c.Type))
	}
	old.Descriptor, old.Type, old.Tombstone = c.Descriptor, c.Type, c.Tombstone
	old.Static = old.Static || c.Static
	old.Empty = old.Empty && c.Empty
}

func elem(dt arrow.DataType) arrow.DataType {
	if l, ok := dt.(*arrow.ListType); ok {
		return l.Elem()
	}
	return dt
}

func (b *schemaBuilder) build() *Schema {
	s := &Schema{conflicts: map[string]error{}}
	for name, t := range b.indexes {
		s.Indexes = append(s.Indexes, t)
		if err := b.conflicts[name]; err != nil {
			s.conflicts[name] = err
		}
	}
	slices.SortFunc(s.Indexes, func(a, b chunk.Timeline) int { return strings.Compare(a.Name, b.Name) })
	for _, c := range b.columns {
		s.Components = append(s.Components, *c)
	}
	slices.SortFunc(s.Components, func(a, b Column) int {
		return cmp.Or(a.Entity.Compare(b.Entity), a.Descriptor.Compare(b.Descriptor))
	})
	return s
}
