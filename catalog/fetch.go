package catalog

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"

	"github.com/reelhouse/reelhouse/chunk"
	"github.com/reelhouse/reelhouse/internal/arrowipc"
	"github.com/reelhouse/reelhouse/rrd"
)

const (
	// batchBytes is how much Fetch reads at once, unless a chunk is larger. It is
	// small since clients make dozens of calls at once.
	batchBytes = 256 << 10
	// batchGap is how many bytes between two chunks are read and thrown away
	// rather than read past.
	batchGap = 16 << 10
	// aheadBytes is how much all calls together read before they are asked for it.
	aheadBytes = 16 << 20
)

// Batch is a run of chunks as encoded ArrowMsg messages (spec/wire.md).
type Batch struct {
	Chunks [][]byte

	catalog *Catalog
	buf     *[]byte
}

// Release gives the memory of the chunks back. It may be called once, or not at all.
func (b *Batch) Release() {
	b.Chunks = nil
	b.catalog.buffers.Put(b.buf)
}

// Fetch reads the chunks with the given keys in that order: as they stand in
// their files where they have the current form, else migrated. It holds one
// small batch, and reads another one ahead while not too many do that.
func (c *Catalog) Fetch(ctx context.Context, keys [][]byte) iter.Seq2[*Batch, error] {
	return func(yield func(*Batch, error) bool) {
		runs, err := c.plan(keys)
		if err != nil {
			yield(nil, err)
			return
		}
		type result struct {
			batch *Batch
			err   error
		}
		var next chan result // the batch that is being read ahead
		weight := int64(0)
		defer func() {
			if next != nil {
				<-next
				c.ahead.Release(weight)
			}
		}()
		for i, r := range runs {
			if err := ctx.Err(); err != nil {
				yield(nil, err)
				return
			}
			var got result
			if next != nil {
				got = <-next
				next = nil
				c.ahead.Release(weight)
			} else {
				got.batch, got.err = c.readBatch(r)
			}
			if got.err == nil && i+1 < len(runs) {
				weight = int64(spanBytes(runs[i+1].chunks))
				if c.ahead.TryAcquire(weight) {
					next = make(chan result, 1)
					go func(done chan<- result) {
						b, err := c.readBatch(runs[i+1])
						done <- result{b, err}
					}(next)
				}
			}
			if !yield(got.batch, got.err) || got.err != nil {
				return
			}
		}
	}
}

func (c *Catalog) readBatch(r run) (*Batch, error) {
	buf, ok := c.buffers.Get().(*[]byte)
	if !ok {
		buf = new([]byte)
	}
	chunks, err := c.read(r, buf)
	return &Batch{chunks, c, buf}, err
}

// run is a number of chunks of one layer that are read together.
type run struct {
	layer  *layer
	chunks []chunkInfo
}

// plan looks keys up and groups them into runs.
func (c *Catalog) plan(keys [][]byte) ([]run, error) {
	var runs []run
	size := uint64(0)
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, k := range keys {
		id, n, err := parseKey(k)
		if err != nil {
			return nil, err
		}
		l := c.layers[id]
		if l == nil {
			return nil, refuse(ErrNotFound, "Invalid chunk key: layer %s not found", id)
		}
		if int64(n) >= int64(len(l.index.chunks)) {
			return nil, refuse(ErrNotFound, "Invalid chunk key: chunk %d of layer %s not found", n, id)
		}
		info := l.index.chunks[n]
		if len(runs) == 0 || runs[len(runs)-1].layer != l || size+info.size > batchBytes {
			runs = append(runs, run{layer: l})
			size = 0
		}
		r := &runs[len(runs)-1]
		r.chunks = append(r.chunks, info)
		size += info.size
	}
	return runs, nil
}

// read reads the chunks of a run and checks that each is the one it should be.
// It reads into buf, which it makes larger if it has to.
func (c *Catalog) read(r run, buf *[]byte) ([][]byte, error) {
	rec := r.layer.file
	f, err := c.files.use(rec)
	if err != nil {
		return nil, err
	}
	defer c.files.done(rec)
	batch := make([][]byte, 0, len(r.chunks))
	var scratch []byte
	space := (*buf)[:0]
	if need := spanBytes(r.chunks); cap(space) < need {
		space = make([]byte, 0, need)
		*buf = space
	}
	for rest := r.chunks; len(rest) > 0; {
		n := adjacent(rest)
		from := rest[0].offset
		at := len(space)
		space = space[:at+int(rest[n-1].offset+int64(rest[n-1].size)-from)]
		b := space[at:]
		if err := readSpan(f, b, from); err != nil {
			return nil, c.explain(rec, f, from, err)
		}
		for _, info := range rest[:n] {
			at := info.offset - from
			m, err := c.current(b[at:at+int64(info.size):at+int64(info.size)], &info, &scratch)
			if err != nil {
				return nil, c.explain(rec, f, info.offset, fmt.Errorf("chunk %v: %w", info.id, err))
			}
			batch = append(batch, m)
		}
		rest = rest[n:]
	}
	return batch, rec.unchanged(f)
}

// spanBytes is how many bytes are read for a list of chunks.
func spanBytes(list []chunkInfo) int {
	total := 0
	for len(list) > 0 {
		n := adjacent(list)
		total += int(list[n-1].offset + int64(list[n-1].size) - list[0].offset)
		list = list[n:]
	}
	return total
}

// adjacent is the number of chunks at the start of a list that lie in a row.
func adjacent(list []chunkInfo) int {
	n := 1
	for n < len(list) {
		end := list[n-1].offset + int64(list[n-1].size)
		if gap := list[n].offset - end; gap < 0 || gap > batchGap {
			break
		}
		n++
	}
	return n
}

func readSpan(f io.ReaderAt, b []byte, from int64) error {
	n, err := f.ReadAt(b, from)
	if n == len(b) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = fmt.Errorf("%w: it ends at byte %d", rrd.ErrTruncated, from+int64(n))
	}
	return err
}

// explain tells a file that somebody wrote to from one that was broken before.
func (c *Catalog) explain(rec *recording, f *os.File, at int64, err error) error {
	if changed := rec.unchanged(f); changed != nil {
		return changed
	}
	return fmt.Errorf("%s: offset %d: %w", rec.path, at, err)
}

// current gives an encoded chunk in the form that clients take. The bytes are
// kept if they are in it.
func (c *Catalog) current(b []byte, info *chunkInfo, scratch *[]byte) ([]byte, error) {
	m, err := rrd.ParseArrowMsg(b)
	if err != nil {
		return nil, err
	}
	if m.HasChunkID && m.ChunkID != info.id {
		return nil, fmt.Errorf("%w: chunk %v lies there", rrd.ErrManifest, m.ChunkID)
	}
	if m.HasChunkID && m.Compression != rrd.CompressionUnspecified && isCurrent(&m, scratch) {
		return b, nil
	}
	ch, err := c.decoder.Chunk(&m, nil)
	if err != nil {
		return nil, err
	}
	if ch.ID() != info.id {
		return nil, fmt.Errorf("%w: chunk %v lies there", rrd.ErrManifest, ch.ID())
	}
	m, err = rrd.EncodeChunk(m.Store, ch, false)
	if err != nil {
		return nil, err
	}
	return m.Append(nil), nil
}

const (
	usualSchema = 2 << 10
	maxSchema   = 1 << 20
)

// isCurrent tells whether a chunk was written in the current form. Only the
// start of the payload, its schema, is looked at; scratch is memory for that.
func isCurrent(m *rrd.ArrowMsg, scratch *[]byte) bool {
	if m.Compression != rrd.CompressionLZ4 {
		return hasVersion(m.Payload)
	}
	for size := usualSchema; size <= maxSchema; {
		if len(*scratch) < size {
			*scratch = make([]byte, size)
		}
		head := (*scratch)[:size]
		n, ok := lz4Prefix(head, m.Payload)
		if !ok || n < 8 || binary.LittleEndian.Uint32(head) != 0xffffffff {
			return false
		}
		need := uint64(binary.LittleEndian.Uint32(head[4:])) + 8
		if need <= uint64(n) {
			return hasVersion(head[:n])
		}
		if n < size || need > maxSchema {
			return false
		}
		size = int(need)
	}
	return false
}

func hasVersion(stream []byte) bool {
	v, err := arrowipc.SchemaValue(stream, chunk.KeyVersion)
	return err == nil && string(v) == chunk.Version
}
