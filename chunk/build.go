package chunk

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/reelhouse/reelhouse/internal/gather"
)

// New builds a chunk of whole columns with a fresh id and fresh row ids. Rows
// are first sorted stably by their times, timeline after timeline by name, so
// that row ids ascend in time (spec/chunks.md 2.0). Without times the chunk is
// static and its rows keep their order. All columns must have the same number
// of rows; of two timelines, or two components, of one name the last counts.
func New(entity EntityPath, times []TimeColumn, components []Component) (*Chunk, error) {
	times = lastOf(times, func(t TimeColumn) string { return t.Name })
	components = lastOf(components, func(m Component) string { return m.Component })
	if len(components) == 0 {
		return nil, fmt.Errorf("chunk of %s: %w", entity, ErrNoComponent)
	}
	for _, m := range components {
		if m.Values == nil {
			return nil, fmt.Errorf("chunk of %s: %w: %q", entity, ErrNotList, m.Component)
		}
	}
	rows := components[0].Values.Len()
	for _, t := range times {
		if len(t.Times) != rows {
			return nil, fmt.Errorf("chunk of %s: %w: timeline %q has %d rows instead of %d", entity, ErrLength, t.Name, len(t.Times), rows)
		}
	}
	for _, m := range components {
		if m.Values.Len() != rows {
			return nil, fmt.Errorf("chunk of %s: %w: component %q has %d rows instead of %d", entity, ErrLength, m.Component, m.Values.Len(), rows)
		}
	}
	slices.SortStableFunc(times, func(a, b TimeColumn) int { return strings.Compare(a.Name, b.Name) })
	if order := timeOrder(times, rows); order != nil {
		for i, t := range times {
			times[i] = NewTimeColumn(t.Name, t.Kind, pick(t.Times, order))
		}
		for i, m := range components {
			components[i].Values = take(m.Values, order).(*array.List)
		}
	}
	return Assemble(NewTUID(), entity, mintRowIDs(rows), times, components)
}

// lastOf keeps the last of items with equal keys, in a slice of its own.
func lastOf[T any](items []T, key func(T) string) []T {
	out := make([]T, 0, len(items))
	for _, it := range items {
		if i := slices.IndexFunc(out, func(o T) bool { return key(o) == key(it) }); i >= 0 {
			out = slices.Delete(out, i, i+1)
		}
		out = append(out, it)
	}
	return out
}

// timeOrder is the stable order of rows by their times, or nil if they are in it.
func timeOrder(times []TimeColumn, rows int) []int {
	if len(times) == 0 {
		return nil
	}
	byTime := func(a, b int) int {
		for i := range times {
			if c := cmp.Compare(times[i].Times[a], times[i].Times[b]); c != 0 {
				return c
			}
		}
		return 0
	}
	sorted := true
	for i := 1; i < rows && sorted; i++ {
		sorted = byTime(i-1, i) <= 0
	}
	if sorted {
		return nil
	}
	order := make([]int, rows)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, byTime)
	return order
}

func pick[T any](v []T, order []int) []T {
	out := make([]T, len(order))
	for i, j := range order {
		out[i] = v[j]
	}
	return out
}

func pickRowIDs(b []byte, order []int) []byte {
	out := make([]byte, 0, 16*len(order))
	for _, j := range order {
		out = append(out, b[16*j:16*j+16]...)
	}
	return out
}

// take picks rows of an array in the given order.
func take(a arrow.Array, order []int) arrow.Array {
	spans := make([]gather.Span, 0, len(order))
	for _, j := range order {
		if n := len(spans); n > 0 && spans[n-1].Start+spans[n-1].Len == j {
			spans[n-1].Len++
			continue
		}
		spans = append(spans, gather.Span{Start: j, Len: 1})
	}
	out, err := gather.Rows(a.DataType(), []arrow.Array{a}, spans)
	if err != nil {
		// Picking rows of one array at most permutes it, so offsets cannot overflow.
		panic(err)
	}
	return out
}
