package store

import (
	"context"
	"slices"
	"sync"

	"github.com/reelhouse/reelhouse/chunk"
	"github.com/reelhouse/reelhouse/rrd"
)

// Memory is a store of chunks in memory. Its methods may be called
// concurrently; a view taken before an insert does not see it.
type Memory struct {
	mu      sync.Mutex
	chunks  []*chunk.Chunk // in order of insertion; nil once removed
	entries []rrd.Entry
	removed int  // nil chunks
	shared  bool // views see the two slices
	byID    map[chunk.TUID]bool
	static  map[chunk.TUID]*chunk.Chunk
	owners  map[chunk.EntityPath]map[string]owner // of static components
	schema  *schemaBuilder                        // of all entries; nil after a removal
	view    *memoryView                           // of the current state; nil after an insert
}

// NewMemory makes a store with the given chunks inserted.
func NewMemory(chunks ...*chunk.Chunk) *Memory {
	m := &Memory{byID: map[chunk.TUID]bool{}, static: map[chunk.TUID]*chunk.Chunk{}, owners: map[chunk.EntityPath]map[string]owner{}, schema: newSchemaBuilder()}
	for _, c := range chunks {
		m.Insert(c)
	}
	return m
}

// Insert adds a chunk and reports whether the store took it. A chunk without
// rows or components or with an id that the store has seen is ignored. Rows of
// unsorted row ids are sorted. Static chunks that others overwrite in every
// component are removed (spec/chunks.md 7.4).
func (m *Memory) Insert(c *chunk.Chunk) bool {
	if c.NumRows() == 0 || len(c.Components()) == 0 {
		return false
	}
	if !c.RowIDsSorted() {
		c = c.SortByRowID().WithID(c.ID())
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.byID[c.ID()] {
		return false
	}
	m.byID[c.ID()] = true
	e := rrd.NewEntry(c)
	at := len(m.chunks)
	m.chunks, m.entries, m.view = append(m.chunks, c), append(m.entries, e), nil
	if m.schema != nil {
		m.schema.add(&e)
	}
	if c.IsStatic() {
		m.static[c.ID()] = c
		m.own(at)
	}
	return true
}

// own makes a static chunk the owner of those of its components that no newer
// row has. A chunk that loses the last one to it shows in no answer any more
// and is removed; one that never owned any stays, as it does in the reference.
func (m *Memory) own(at int) {
	c := m.chunks[at]
	owners := m.owners[c.EntityPath()]
	if owners == nil {
		owners = map[string]owner{}
		m.owners[c.EntityPath()] = owners
	}
	for _, comp := range c.Components() {
		id, ok := lastRowID(c, &comp)
		if !ok {
			continue
		}
		old, taken := owners[comp.Component]
		if taken && id.Compare(old.row) <= 0 {
			continue
		}
		owners[comp.Component] = owner{c.ID(), id}
		if taken && !keptForever(m.static[old.chunk]) && !owns(owners, old.chunk) {
			m.remove(old.chunk)
		}
	}
}

// owner is the static chunk that answers show for a component.
type owner struct{ chunk, row chunk.TUID }

func owns(owners map[string]owner, id chunk.TUID) bool {
	for _, o := range owners {
		if o.chunk == id {
			return true
		}
	}
	return false
}

// keptForever: transforms and pinholes stay though they are overwritten
// (spec/chunks.md 7.4).
func keptForever(c *chunk.Chunk) bool {
	for _, comp := range c.Components() {
		if comp.Archetype == "rerun.archetypes.Transform3D" || comp.Archetype == "rerun.archetypes.Pinhole" {
			return true
		}
	}
	return false
}

func (m *Memory) remove(id chunk.TUID) {
	if m.shared {
		m.chunks, m.entries, m.shared = slices.Clone(m.chunks), slices.Clone(m.entries), false
	}
	at := slices.Index(m.chunks, m.static[id])
	m.chunks[at], m.schema = nil, nil
	delete(m.static, id)
	m.removed++
}

// lastRowID is the greatest id of a row that has the component.
func lastRowID(c *chunk.Chunk, comp *chunk.Component) (chunk.TUID, bool) {
	for i := c.NumRows() - 1; i >= 0; i-- {
		if comp.Values.IsValid(i) {
			return c.RowID(i), true
		}
	}
	return chunk.TUID{}, false
}

// compact closes the gaps that removals left.
func (m *Memory) compact() {
	if m.removed == 0 {
		return
	}
	n := 0
	for i, c := range m.chunks {
		if c == nil {
			continue
		}
		m.chunks[n], m.entries[n] = c, m.entries[i]
		n++
	}
	clear(m.chunks[n:])
	clear(m.entries[n:])
	m.chunks, m.entries, m.removed = m.chunks[:n], m.entries[:n], 0
}

// View is the current content. It costs nothing while nothing is inserted.
func (m *Memory) View() View {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.view == nil {
		m.compact()
		if m.schema == nil {
			m.schema = newSchemaBuilder()
			for i := range m.entries {
				m.schema.add(&m.entries[i])
			}
		}
		n := len(m.chunks)
		m.view = &memoryView{m.schema.build(), m.entries[:n:n], m.chunks[:n:n]}
		m.shared = true
	}
	return m.view
}

// Chunks are the chunks by ascending id.
func (m *Memory) Chunks() []*chunk.Chunk {
	out := slices.Clone(m.View().(*memoryView).chunks)
	slices.SortStableFunc(out, func(a, b *chunk.Chunk) int { return a.ID().Compare(b.ID()) })
	return out
}

type memoryView struct {
	schema  *Schema
	entries []rrd.Entry
	chunks  []*chunk.Chunk
}

func (v *memoryView) Schema() *Schema      { return v.schema }
func (v *memoryView) Entries() []rrd.Entry { return v.entries }
func (v *memoryView) Resident() bool       { return true }

func (v *memoryView) Load(_ context.Context, positions []int) ([]*chunk.Chunk, error) {
	out := make([]*chunk.Chunk, len(positions))
	for i, p := range positions {
		out[i] = v.chunks[p]
	}
	return out, nil
}
