package store

import (
	"context"

	"github.com/reelhouse/reelhouse/chunk"
	"github.com/reelhouse/reelhouse/rrd"
)

// Layers joins views that hold parts of one recording. Chunks that several
// have count once.
func Layers(views ...View) View {
	if len(views) == 1 {
		return views[0]
	}
	l := &layers{views: views, resident: true}
	seen := map[chunk.TUID]bool{}
	schemas := make([]*Schema, len(views))
	for i, v := range views {
		schemas[i] = v.Schema()
		l.resident = l.resident && v.Resident()
		for k := range v.Entries() {
			if e := &v.Entries()[k]; !seen[e.ID] {
				seen[e.ID] = true
				l.entries, l.places = append(l.entries, *e), append(l.places, layerPlace{i, k})
			}
		}
	}
	l.schema = Union(schemas...)
	return l
}

type layers struct {
	views    []View
	schema   *Schema
	entries  []rrd.Entry
	places   []layerPlace
	resident bool
}

type layerPlace struct{ view, entry int }

func (l *layers) Schema() *Schema      { return l.schema }
func (l *layers) Entries() []rrd.Entry { return l.entries }
func (l *layers) Resident() bool       { return l.resident }

func (l *layers) Load(ctx context.Context, positions []int) ([]*chunk.Chunk, error) {
	out := make([]*chunk.Chunk, len(positions))
	for v := range l.views {
		var want, at []int
		for i, p := range positions {
			if l.places[p].view == v {
				want, at = append(want, l.places[p].entry), append(at, i)
			}
		}
		if len(want) == 0 {
			continue
		}
		got, err := l.views[v].Load(ctx, want)
		if err != nil {
			return nil, err
		}
		for i, c := range got {
			out[at[i]] = c
		}
	}
	return out, nil
}
