// Package edit rewrites recordings as wholes: it merges, filters, routes and
// migrates them. Chunks that an operation does not change pass through as they
// are stored, undecoded where the input has a footer that describes them.
//
// Memory is bounded by the number of chunks, not by their size.
package edit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/reelhouse/reelhouse/chunk"
	"github.com/reelhouse/reelhouse/rrd"
)

// passable is the first version whose chunks need no migration.
var passable = rrd.Version{Minor: 41}

// Options are what all operations share. The zero value stops at the first
// message that cannot be read and takes cut-off input for complete.
type Options struct {
	ContinueOnError bool             // report messages that cannot be read and go on
	Strict          bool             // any deviation is an error, and every chunk is decoded to check it
	Report          func(*rrd.Error) // told of what is passed over; may be nil
	Progress        func(n int64)    // told of payload bytes done; may be nil
}

func (o Options) report(e *rrd.Error) {
	if o.Report != nil {
		o.Report(e)
	}
}

// Source is an input recording: a file, or any stream.
type Source struct {
	name   string
	stream io.Reader
	file   *rrd.File
	raw    *os.File
	index  map[chunk.TUID]*indexed
	temp   bool
}

// indexed is where a footer describes a chunk.
type indexed struct {
	manifest *rrd.Manifest
	row      int
}

// Open opens a file. Its footer, if it has a good one, saves decoding.
func Open(path string) (*Source, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return fromFile(path, f)
}

func fromFile(name string, f *os.File) (*Source, error) {
	st, err := f.Stat()
	if err == nil && st.IsDir() {
		err = &os.PathError{Op: "read", Path: name, Err: errors.New("is a directory")}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	s := &Source{name: name, raw: f}
	if !st.Mode().IsRegular() {
		s.stream = f
		return s, nil
	}
	// A file whose footer is damaged can still be read from front to back.
	if file, err := rrd.NewFile(f, st.Size(), rrd.FileOptions{Name: name}); err == nil {
		s.file = file
		s.index = indexOf(file)
	}
	return s, nil
}

// FromReader takes a recording that can be read once.
func FromReader(name string, r io.Reader) *Source { return &Source{name: name, stream: r} }

// Close closes the file. Of a reader it closes nothing.
func (s *Source) Close() error {
	if s.raw == nil {
		return nil
	}
	err := s.raw.Close()
	if s.temp {
		err = errors.Join(err, os.Remove(s.raw.Name()))
	}
	return err
}

// rewindable makes sure that the source can be read several times.
func (s *Source) rewindable(ctx context.Context) error {
	if s.stream == nil {
		return nil
	}
	f, err := os.CreateTemp("", "reel-*.rrd")
	if err != nil {
		return err
	}
	if _, err = io.Copy(f, contextReader{ctx, s.stream}); err != nil {
		return errors.Join(fmt.Errorf("read %s: %w", s.name, err), f.Close(), os.Remove(f.Name()))
	}
	t, err := fromFile(s.name, f)
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	*s = *t
	s.temp = true
	return nil
}

type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}

// indexOf maps the chunks of all streams that need no migration to their
// description. A chunk that several places describe differently is left out.
func indexOf(f *rrd.File) map[chunk.TUID]*indexed {
	manifests, err := f.Manifests()
	if err != nil {
		return nil
	}
	index := map[chunk.TUID]*indexed{}
	for _, m := range manifests {
		if streamVersion(f, m.Base).Compare(passable) < 0 {
			continue
		}
		for i := range m.Len() {
			if have, ok := index[m.ID(i)]; ok && have != nil && have.manifest.UncompressedSize(have.row) != m.UncompressedSize(i) {
				index[m.ID(i)] = nil
				continue
			}
			index[m.ID(i)] = &indexed{m, i}
		}
	}
	return index
}

func streamVersion(f *rrd.File, base int64) rrd.Version {
	if base == 0 {
		return f.Header().Version
	}
	b := make([]byte, rrd.StreamHeaderSize)
	if _, err := f.Reader().(io.ReaderAt).ReadAt(b, base); err != nil {
		return rrd.Version{}
	}
	h, err := rrd.ParseStreamHeader(b)
	if err != nil {
		return rrd.Version{}
	}
	return h.Version
}

// described is the place in a footer that describes a message, or nil.
func (s *Source) described(m *rrd.ArrowMsg) *indexed {
	if !m.HasChunkID {
		return nil
	}
	at := s.index[m.ChunkID]
	if at == nil || at.manifest.UncompressedSize(at.row) != m.UncompressedSize || at.manifest.Store != m.Store {
		return nil
	}
	return at
}

// part is one message of a source. A chunk has an entry, and is decoded if no
// footer describes it or the reader asked for it.
type part struct {
	*rrd.Item
	entry   *rrd.Entry
	current bool // the encoded chunk needs no migration
}

// each calls fn with the messages of a source in order. decode chooses, beside
// what must be, the described chunks that are decoded; it may be nil. What skip
// accepts is passed over undecoded.
func (s *Source) each(ctx context.Context, o Options, skip func(*rrd.ArrowMsg) bool, decode func(*rrd.Entry) bool, fn func(part) error) error {
	var r io.Reader = s.stream
	if s.raw != nil && s.stream == nil {
		st, err := s.raw.Stat()
		if err != nil {
			return err
		}
		r = io.NewSectionReader(s.raw, 0, st.Size())
	}
	opt := rrd.ReadOptions{ScanOptions: rrd.ScanOptions{Name: s.name, Strict: o.Strict, Report: o.report}}
	opt.Want = func(m *rrd.ArrowMsg) bool {
		if skip != nil && skip(m) {
			return false
		}
		at := s.described(m)
		if at == nil {
			return true
		}
		if decode == nil {
			return o.Strict
		}
		e := at.manifest.Entry(at.row)
		return decode(&e) || o.Strict
	}
	if decode == nil && s.index != nil {
		// Chunks are at most looked at, never kept.
		opt.Reuse = true
	}
	for item, err := range rrd.Read(ctx, r, opt) {
		if err != nil {
			var fault *rrd.Error
			if !errors.As(err, &fault) || !o.ContinueOnError {
				return err
			}
			o.report(fault)
			if fault.Fatal {
				return nil
			}
			continue
		}
		p := part{Item: item, current: item.Version.Compare(passable) >= 0}
		if item.Kind == rrd.KindArrow {
			if skip != nil && skip(&item.Arrow) {
				continue
			}
			if at := s.described(&item.Arrow); at != nil {
				e := at.manifest.Entry(at.row)
				p.entry = &e
			} else if item.Chunk != nil {
				e := rrd.NewEntry(item.Chunk)
				e.UncompressedSize = item.Arrow.UncompressedSize
				p.entry = &e
			}
		}
		if err := fn(p); err != nil {
			return err
		}
		if o.Progress != nil {
			o.Progress(item.Size())
		}
	}
	return ctx.Err()
}

// copyTo writes a chunk for a store: as it is stored if it can be, else encoded anew.
func (p *part) copyTo(ctx context.Context, w *rrd.Writer, store rrd.StoreID) error {
	if !p.current && p.Chunk != nil {
		return w.WriteChunk(ctx, store, p.Chunk)
	}
	m := p.Arrow
	m.Store = store
	return w.WriteEncoded(&m, p.entry)
}
