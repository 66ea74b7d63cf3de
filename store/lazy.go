package store

import (
	"context"
	"fmt"
	"runtime"

	"golang.org/x/sync/errgroup"

	"github.com/reelhouse/reelhouse/chunk"
	"github.com/reelhouse/reelhouse/rrd"
)

// Lazy is a view of one store by its manifests: the index is in memory, chunks
// are got when they are loaded. Static chunks that newer ones overwrite are part
// of it, other than in [Memory]; no answer shows them.
type Lazy struct {
	load    Loader
	schema  *Schema
	entries []rrd.Entry
	places  []place
}

// Loader gets the chunks of rows of a manifest, in this order. It may be called
// concurrently.
type Loader func(ctx context.Context, m *rrd.Manifest, rows []int) ([]*chunk.Chunk, error)

// place is where an entry comes from.
type place struct {
	manifest *rrd.Manifest
	row      int
}

// NewLazy makes the view of manifests of one store. Chunks without rows or
// components and repeated ones are left out.
func NewLazy(load Loader, manifests ...*rrd.Manifest) *Lazy {
	l := &Lazy{load: load}
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

// FromFile loads chunks of a recording file, which must stay open. They are
// read and decoded on all processors.
func FromFile(f *rrd.File) Loader {
	return func(ctx context.Context, m *rrd.Manifest, rows []int) ([]*chunk.Chunk, error) {
		out := make([]*chunk.Chunk, len(rows))
		g, loading := errgroup.WithContext(ctx)
		g.SetLimit(runtime.GOMAXPROCS(0))
		for i, row := range rows {
			if loading.Err() != nil {
				break
			}
			g.Go(func() error {
				c, err := f.ReadChunk(m, row)
				if err != nil {
					return fmt.Errorf("load chunk %s of %s: %w", m.ID(row), m.Entity(row), err)
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
		out = append(out, Recording{id, NewLazy(FromFile(f), byStore[id]...)})
	}
	return out, nil
}

// Schema implements [View].
func (l *Lazy) Schema() *Schema { return l.schema }

// Entries implements [View].
func (l *Lazy) Entries() []rrd.Entry { return l.entries }

// Resident implements [View].
func (l *Lazy) Resident() bool { return false }

// Load implements [View].
func (l *Lazy) Load(ctx context.Context, positions []int) ([]*chunk.Chunk, error) {
	out := make([]*chunk.Chunk, len(positions))
	for from := 0; from < len(positions); {
		m := l.places[positions[from]].manifest
		var rows []int
		for _, p := range positions[from:] {
			if l.places[p].manifest != m {
				break
			}
			rows = append(rows, l.places[p].row)
		}
		got, err := l.load(ctx, m, rows)
		if err != nil {
			return nil, err
		}
		from += copy(out[from:], got)
		if len(got) != len(rows) {
			return nil, fmt.Errorf("load %d chunks: got %d", len(rows), len(got))
		}
	}
	return out, nil
}

var _ View = (*Lazy)(nil)
