package store

import (
	"context"
	"fmt"
	"runtime"

	"golang.org/x/sync/errgroup"

	"github.com/reelhouse/reelhouse/chunk"
	"github.com/reelhouse/reelhouse/rrd"
)

// Lazy is the view of one store of a recording file: the index is in memory,
// chunks are read by range when they are loaded. Static chunks that newer ones
// overwrite are part of it, other than in [Memory]; no answer shows them.
type Lazy struct {
	file    *rrd.File
	schema  *Schema
	entries []rrd.Entry
	places  []place
}

// place is where an entry comes from.
type place struct {
	manifest *rrd.Manifest
	row      int
}

// NewLazy makes the view of manifests of a file, all of one store. Chunks
// without rows or components and repeated ones are left out. The file must
// stay open while the view is used.
func NewLazy(f *rrd.File, manifests ...*rrd.Manifest) *Lazy {
	l := &Lazy{file: f}
	b := newSchemaBuilder()
	seen := map[chunk.TUID]bool{}
	for _, m := range manifests {
		for i := range m.Len() {
			e := m.Entry(i)
			if seen[e.ID] {
				continue
			}
			seen[e.ID] = true
			b.add(&e)
			if e.NumRows > 0 && len(e.Components) > 0 {
				l.entries, l.places = append(l.entries, e), append(l.places, place{m, i})
			}
		}
	}
	l.schema = b.build()
	return l
}

// Recording is one store of a file.
type Recording struct {
	ID rrd.StoreID
	View
}

// Recordings are the lazy views of the stores of a file in the order of
// [rrd.File.Stores], blueprints included. Parts without a footer are read once
// in full to find what a footer would tell.
func Recordings(ctx context.Context, f *rrd.File) ([]Recording, error) {
	manifests, err := f.Index(ctx)
	if err != nil {
		return nil, err
	}
	byStore := map[rrd.StoreID][]*rrd.Manifest{}
	for _, m := range manifests {
		byStore[m.Store] = append(byStore[m.Store], m)
	}
	var out []Recording
	for _, id := range f.Stores() {
		out = append(out, Recording{id, NewLazy(f, byStore[id]...)})
	}
	return out, nil
}

// Schema implements [View].
func (l *Lazy) Schema() *Schema { return l.schema }

// Entries implements [View].
func (l *Lazy) Entries() []rrd.Entry { return l.entries }

// Resident implements [View].
func (l *Lazy) Resident() bool { return false }

// Load implements [View]. Chunks are read and decoded on all processors.
func (l *Lazy) Load(ctx context.Context, positions []int) ([]*chunk.Chunk, error) {
	out := make([]*chunk.Chunk, len(positions))
	g, loading := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, p := range positions {
		if loading.Err() != nil {
			break
		}
		g.Go(func() error {
			at := l.places[p]
			c, err := l.file.ReadChunk(at.manifest, at.row)
			if err != nil {
				return fmt.Errorf("load chunk %s of %s: %w", l.entries[p].ID, l.entries[p].Entity, err)
			}
			out[i] = c
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return out, ctx.Err()
}

var _ View = (*Lazy)(nil)
