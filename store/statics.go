package store

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/reelhouse/reelhouse/chunk"
)

// Statics finds the static chunks of one recording that still show, by the rule
// of [Memory.Insert] but without keeping any values. It is not safe for
// concurrent use.
type Statics struct {
	m       *Memory
	visible map[chunk.TUID]bool
}

// Add tells of a static chunk.
func (s *Statics) Add(c *chunk.Chunk) {
	if s.m == nil {
		s.m = NewMemory()
	}
	s.m.Insert(withoutValues(c))
	s.visible = nil
}

// Shows reports whether a chunk that was added is not overwritten by others.
func (s *Statics) Shows(id chunk.TUID) bool {
	if s.visible == nil && s.m != nil {
		s.visible = map[chunk.TUID]bool{}
		for _, c := range s.m.Chunks() {
			s.visible[c.ID()] = true
		}
	}
	return s.visible[id]
}

// withoutValues is a chunk that is null where the given one is, and weighs
// nothing: which rows there are decides which static data shows.
func withoutValues(c *chunk.Chunk) *chunk.Chunk {
	components := make([]chunk.Component, len(c.Components()))
	for i, m := range c.Components() {
		offsets := memory.NewBufferBytes(make([]byte, 4*(c.NumRows()+1)))
		valid := make([]byte, (c.NumRows()+7)/8)
		for row := range c.NumRows() {
			if m.Values.IsValid(row) {
				valid[row/8] |= 1 << (row % 8)
			}
		}
		data := array.NewData(arrow.ListOf(arrow.Null), c.NumRows(), []*memory.Buffer{memory.NewBufferBytes(valid), offsets},
			[]arrow.ArrayData{array.NewNull(0).Data()}, array.UnknownNullCount, 0)
		components[i] = chunk.Component{Descriptor: m.Descriptor, Values: array.NewListData(data)}
	}
	light, err := chunk.Assemble(c.ID(), c.EntityPath(), append([]byte(nil), c.RowIDs()...), nil, components)
	if err != nil {
		// The columns are those of a chunk.
		panic(err)
	}
	return light
}
