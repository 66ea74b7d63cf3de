// Package archetype is the built-in vocabulary: which components belong to
// which archetype, the Arrow types of components, and a builder for every
// archetype.
//
//	points := archetype.NewPoints3D([3]float32{0, 0, 1}).WithColors(archetype.RGBA(255, 0, 0, 255))
//	c, err := chunk.New("/world/points", times, points.Components())
//
// A builder is a value: setters return a changed copy. Slices that setters take
// are kept where the Arrow form has the same memory layout, so they must not be
// written to afterwards. Setting a component without values logs it as empty,
// which clears it. See [Builder] for the ways to get rows out of a builder.
//
// The generated files come from vocabulary.json. Format facts: spec/archetypes.json.
package archetype

//go:generate go run ./internal/gen

import (
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/reelhouse/reelhouse/chunk"
)

// Builder is what all archetypes of this package do.
type Builder interface {
	// Components is one row: each component with all its values.
	Components() []chunk.Component
	// Columns is a row for every value. Components with different numbers of
	// values make columns of different lengths, which [chunk.New] refuses.
	Columns() []chunk.Component
	// Partition is len(lengths) rows: in row i each component has lengths[i] of
	// its values, which must add up to the number of them ([chunk.ErrLength]).
	Partition(lengths ...int) ([]chunk.Component, error)
}

// Descriptor is the field of an archetype with an identifier such as
// Points3D:positions; ok is false for identifiers of no built-in archetype.
func Descriptor(identifier string) (d chunk.Descriptor, ok bool) {
	short, _, _ := strings.Cut(identifier, ":")
	for _, space := range []string{"rerun.archetypes.", "rerun.blueprint.archetypes."} {
		for _, d := range Descriptors(space + short) {
			if d.Component == identifier {
				return d, true
			}
		}
	}
	return chunk.Descriptor{}, false
}

// RGBA is a color as color components hold it. Alpha is not premultiplied.
func RGBA(r, g, b, a uint8) uint32 {
	return uint32(r)<<24 | uint32(g)<<16 | uint32(b)<<8 | uint32(a)
}

// values are the components set so far.
type values struct{ set []value }

type value struct {
	chunk.Descriptor
	array arrow.Array // nil if err is set
	err   error
}

// set is v with one component set, in memory of its own.
func set[T any](v values, d chunk.Descriptor, enc encoder[T], dt arrow.DataType, items []T) (out values) {
	next := value{Descriptor: d}
	next.array, next.err = encode(enc, dt, items)
	out.set = slices.Clone(v.set)
	if i := slices.IndexFunc(out.set, func(o value) bool { return o.Component == d.Component }); i >= 0 {
		out.set[i] = next
	} else {
		out.set = append(out.set, next)
	}
	return out
}

func (v values) Components() []chunk.Component {
	return v.rows(func(a arrow.Array) []int { return []int{a.Len()} })
}

func (v values) Columns() []chunk.Component {
	return v.rows(func(a arrow.Array) []int {
		return slices.Repeat([]int{1}, a.Len())
	})
}

// rows makes lists of lengths that fit. A component that is too long for a list
// column has nil values in the result, which every chunk refuses.
func (v values) rows(lengths func(arrow.Array) []int) []chunk.Component {
	out := make([]chunk.Component, len(v.set))
	for i, s := range v.set {
		out[i].Descriptor = s.Descriptor
		if s.err != nil {
			continue
		}
		if l, err := chunk.Partition(s.array, lengths(s.array)); err == nil {
			out[i].Values = l
		}
	}
	return out
}

func (v values) Partition(lengths ...int) ([]chunk.Component, error) {
	out := make([]chunk.Component, len(v.set))
	for i, s := range v.set {
		l, err := (*array.List)(nil), s.err
		if err == nil {
			l, err = chunk.Partition(s.array, lengths)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.Component, err)
		}
		out[i] = chunk.Component{Descriptor: s.Descriptor, Values: l}
	}
	return out, nil
}
