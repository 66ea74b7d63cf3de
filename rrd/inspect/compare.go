package inspect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/reelhouse/reelhouse/chunk"
	"github.com/reelhouse/reelhouse/rrd"
	"github.com/reelhouse/reelhouse/store"
)

// Errors of [Compare] about files that cannot be compared.
var (
	ErrNoRecording   = errors.New("holds no recording")
	ErrManyRecording = errors.New("holds more than one recording")
)

// CompareOptions say what counts as a difference.
type CompareOptions struct {
	Unordered       bool     // chunks may come in any order
	IgnoreTimelines []string // beside log_time, which never counts
	Strict          bool     // cut-off input is an error
	Report          func(*rrd.Error)
	// Dump is told of all chunks that count, of the first file and then of the
	// second, in file order.
	Dump func(*chunk.Chunk)
}

// Difference is the first thing in which two recordings differ. Its text says
// which entity, column and row.
type Difference struct{ Text string }

func (d *Difference) Error() string { return d.Text }

// Compare finds whether two files hold the same recording: the same application
// and the same chunks, not counting ids, blueprints, the timeline log_time and
// what a store would not take: repeated and empty chunks, and static ones that
// newer ones overwrite. Ordered means by chunk id, rows by row id. Floats are equal up to rounding: a relative
// difference of 1e-3 for single and 1e-8 for double precision. The error is a
// [*Difference] if both files could be read. Memory holds a digest per chunk.
func Compare(ctx context.Context, path1, path2 string, o CompareOptions) error {
	c := comparison{o: o}
	a, err := c.read(ctx, path1)
	if err != nil {
		return err
	}
	defer a.f.Close()
	b, err := c.read(ctx, path2)
	if err != nil {
		return err
	}
	defer b.f.Close()
	if a.application != b.application {
		return &Difference{fmt.Sprintf("application ids differ: %q and %q", a.application, b.application)}
	}
	if len(a.chunks) != len(b.chunks) {
		return &Difference{fmt.Sprintf("numbers of chunks differ: %d and %d", len(a.chunks), len(b.chunks))}
	}
	if o.Unordered {
		return c.unordered(a, b)
	}
	return c.ordered(a, b)
}

type comparison struct {
	o   CompareOptions
	dec rrd.Decoder
}

// digested is a recording as a digest per chunk.
type digested struct {
	f           *os.File
	path        string
	application string
	chunks      []digest
}

type digest struct {
	id     chunk.TUID
	entity chunk.EntityPath
	sum    xxh3.Uint128
	offset int64 // of the payload in the file
	size   int
}

func (c *comparison) read(ctx context.Context, path string) (_ *digested, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	d := &digested{f: f, path: path}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	var recording *rrd.StoreID
	see := func(id rrd.StoreID) error {
		switch {
		case id.Kind != rrd.Recording:
		case recording == nil:
			recording, d.application = &id, id.Application
		case *recording != id:
			return fmt.Errorf("%s: %w", path, ErrManyRecording)
		}
		return nil
	}
	var statics store.Statics
	static := map[chunk.TUID]bool{}
	seen := map[chunk.TUID]bool{}
	h := xxh3.New()
	opt := rrd.ReadOptions{
		ScanOptions: rrd.ScanOptions{Name: path, Strict: c.o.Strict, Report: c.o.Report},
		Want:        func(m *rrd.ArrowMsg) bool { return m.Store.Kind == rrd.Recording },
		Reuse:       true,
	}
	for item, err := range rrd.Read(ctx, f, opt) {
		if err != nil {
			return nil, err
		}
		switch item.Kind {
		case rrd.KindStoreInfo:
			err = see(item.Info.Store)
		case rrd.KindArrow:
			err = see(item.Arrow.Store)
		}
		if err != nil {
			return nil, err
		}
		ch := item.Chunk
		if ch == nil || seen[ch.ID()] || ch.NumRows() == 0 || len(ch.Components()) == 0 {
			continue
		}
		seen[ch.ID()] = true
		if ch.IsStatic() {
			statics.Add(ch)
			static[ch.ID()] = true
		}
		h.Reset()
		hashChunk(h, ch.SortByRowID(), c.counts)
		entity := chunk.EntityPath(strings.Clone(string(ch.EntityPath()))) // outlives the chunk's memory
		d.chunks = append(d.chunks, digest{ch.ID(), entity, h.Sum128(), item.Offset + rrd.MessageHeaderSize, len(item.Payload)})
		if c.o.Dump != nil {
			c.o.Dump(ch)
		}
	}
	if recording == nil {
		return nil, fmt.Errorf("%s: %w", path, ErrNoRecording)
	}
	d.chunks = slices.DeleteFunc(d.chunks, func(g digest) bool { return static[g.id] && !statics.Shows(g.id) })
	return d, ctx.Err()
}

// counts reports whether a timeline is compared.
func (c *comparison) counts(t chunk.Timeline) bool {
	return t.Name != "log_time" && !slices.Contains(c.o.IgnoreTimelines, t.Name)
}

// load reads a chunk again.
func (c *comparison) load(d *digested, g digest) (*chunk.Chunk, error) {
	b := make([]byte, g.size)
	if _, err := io.ReadFull(io.NewSectionReader(d.f, g.offset, int64(g.size)), b); err != nil {
		return nil, fmt.Errorf("read %s again: %w", d.path, err)
	}
	m, err := rrd.ParseArrowMsg(b)
	if err != nil {
		return nil, fmt.Errorf("read %s again: %w", d.path, err)
	}
	ch, err := c.dec.Chunk(&m, nil)
	if err != nil {
		return nil, fmt.Errorf("read %s again: %w", d.path, err)
	}
	return ch.SortByRowID(), nil
}

func (c *comparison) ordered(a, b *digested) error {
	byID := func(x, y digest) int { return x.id.Compare(y.id) }
	slices.SortFunc(a.chunks, byID)
	slices.SortFunc(b.chunks, byID)
	for i, x := range a.chunks {
		if err := c.alike(a, x, b, b.chunks[i]); err != nil {
			return err
		}
	}
	return nil
}

// alike compares two chunks, exactly by their digests or else value by value.
func (c *comparison) alike(a *digested, x digest, b *digested, y digest) error {
	if x.sum == y.sum {
		return nil
	}
	if x.entity != y.entity {
		return &Difference{fmt.Sprintf("entities differ: %s in chunk %s and %s in chunk %s", x.entity, x.id, y.entity, y.id)}
	}
	left, err := c.load(a, x)
	if err != nil {
		return err
	}
	right, err := c.load(b, y)
	if err != nil {
		return err
	}
	return diffChunks(left, right, c.counts)
}

func (c *comparison) unordered(a, b *digested) error {
	type key struct {
		entity chunk.EntityPath
		sum    xxh3.Uint128
	}
	exact := map[key]int{}
	for _, y := range b.chunks {
		exact[key{y.entity, y.sum}]++
	}
	var rest []digest
	for _, x := range a.chunks {
		if k := (key{x.entity, x.sum}); exact[k] > 0 {
			exact[k]--
		} else {
			rest = append(rest, x)
		}
	}
	others := map[chunk.EntityPath][]digest{}
	for _, y := range b.chunks {
		if k := (key{y.entity, y.sum}); exact[k] > 0 {
			exact[k]--
			others[y.entity] = append(others[y.entity], y)
		}
	}
	for _, x := range rest {
		var why error
		at := slices.IndexFunc(others[x.entity], func(y digest) bool {
			err := c.alike(a, x, b, y)
			if err != nil && why == nil {
				why = err
			}
			return err == nil
		})
		if at < 0 {
			if why != nil {
				return why
			}
			return &Difference{fmt.Sprintf("chunk %s of %s is only in %s", x.id, x.entity, a.path)}
		}
		others[x.entity] = slices.Delete(others[x.entity], at, at+1)
	}
	return nil
}
