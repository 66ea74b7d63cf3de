// Package store holds indexed sets of chunks of one recording: [Memory] keeps
// them in memory and takes inserts while it is read, [Lazy] knows a recording
// by its manifests and gets chunks when they are asked for.
//
// Both are read through a [View], an unchanging list of chunk entries with a
// way to get the chunks themselves. Semantics are those of spec/chunks.md 6.1 and 7.4.
package store

import (
	"context"

	"github.com/reelhouse/reelhouse/chunk"
	"github.com/reelhouse/reelhouse/rrd"
)

// View is an unchanging set of chunks. Its methods may be called concurrently.
type View interface {
	// Schema is the columns of all chunks; not to be written to.
	Schema() *Schema
	// Entries describe the chunks; not to be written to.
	Entries() []rrd.Entry
	// Load gets the chunks with these positions in Entries, in this order. It
	// may read ahead nothing and keeps nothing: callers own the memory.
	Load(ctx context.Context, positions []int) ([]*chunk.Chunk, error)
	// Resident reports whether all chunks are in memory anyway, so that
	// loading costs nothing and dropping saves nothing.
	Resident() bool
}
