package rrd

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"

	"github.com/reelhouse/reelhouse/chunk"
)

// FileOptions are the options of [Open] and [NewFile].
type FileOptions struct {
	Name   string       // for errors; Open takes the path
	Report func(*Error) // told of faults that are passed over in files without a footer

	// Partial takes a file that is damaged or cut off for what can be read of
	// it. Report is told of the fault, and files without a good footer are read
	// from front to back.
	Partial bool
}

// File is a recording with random access. Its methods may be used concurrently.
type File struct {
	r      io.ReaderAt
	size   int64
	opt    FileOptions
	closer io.Closer
	header StreamHeader

	// segments are what the file is concatenated of, by offset. Only the streams
	// of one without a footer are not told apart.
	segments []segment
	infos    []StoreInfo // of segments without a footer

	dec   Decoder
	once  sync.Once // for manifests
	mans  []*Manifest
	mnErr error
}

type segment struct {
	base, end int64
	footer    bool
	manifests []*RawManifest
}

// Open opens a recording and reads its footers, or, where there are none, the
// headers of its messages.
func Open(path string, opt FileOptions) (*File, error) {
	fd, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	st, err := fd.Stat()
	if err == nil && st.IsDir() {
		err = &os.PathError{Op: "open", Path: path, Err: errors.New("is a directory")}
	}
	if err != nil {
		return nil, errors.Join(err, fd.Close())
	}
	opt.Name = path
	f, err := NewFile(fd, st.Size(), opt)
	if err != nil {
		return nil, errors.Join(err, fd.Close())
	}
	f.closer = fd
	return f, nil
}

// NewFile is [Open] for anything with range reads. The reader must allow
// concurrent use, and outlive the File.
func NewFile(r io.ReaderAt, size int64, opt FileOptions) (*File, error) {
	f := &File{r: r, size: size, opt: opt}
	b, err := f.readAt(0, min(size, StreamHeaderSize), PartStreamHeader)
	if err != nil {
		return nil, err
	}
	if f.header, err = ParseStreamHeader(b); err != nil {
		return nil, f.fault(0, PartStreamHeader, err)
	}
	for end := size; end > 0; {
		seg, err := f.lastSegment(end)
		if f.passOver(err) {
			seg, err = segment{base: 0, end: end}, f.scanInfos(0, end)
		}
		if err != nil {
			return nil, err
		}
		f.segments = append(f.segments, seg)
		end = seg.base
	}
	slices.Reverse(f.segments)
	return f, nil
}

// Close closes what [Open] opened. Chunks stay valid.
func (f *File) Close() error {
	if f.closer == nil {
		return nil
	}
	return f.closer.Close()
}

// passOver reports a fault of the file if it is to be read all the same.
func (f *File) passOver(err error) bool {
	var fe *Error
	if !f.opt.Partial || !errors.As(err, &fe) {
		return false
	}
	if f.opt.Report != nil {
		f.opt.Report(fe)
	}
	return true
}

func (f *File) fault(at int64, part Part, err error) error {
	return &Error{File: f.opt.Name, Offset: at, Part: part, Err: err, Fatal: true}
}

func (f *File) readAt(at, n int64, part Part) ([]byte, error) {
	if at < 0 || n < 0 || n > f.size-at {
		return nil, f.fault(at, part, fmt.Errorf("%w: %d bytes at %d of a file of %d", ErrTruncated, n, at, f.size))
	}
	b := make([]byte, n)
	if err := f.readInto(b, at); err != nil {
		return nil, f.fault(at, part, err)
	}
	return b, nil
}

func (f *File) readInto(b []byte, at int64) error {
	n, err := f.r.ReadAt(b, at)
	switch {
	case n == len(b):
		return nil
	case err == nil || errors.Is(err, io.EOF):
		return fmt.Errorf("%w: the file got shorter", ErrTruncated)
	}
	return err
}

// lastSegment finds what ends at end: the stream of a footer there, or all
// that precedes if there is none.
func (f *File) lastSegment(end int64) (segment, error) {
	none := segment{base: 0, end: end}
	if end < StreamHeaderSize+StreamFooterSize {
		return none, f.scanInfos(0, end)
	}
	at := end - StreamFooterSize
	b, err := f.readAt(at, StreamFooterSize, PartStreamFooter)
	if err != nil {
		return none, err
	}
	foot, ok := parseStreamFooter(b)
	if !ok {
		return none, f.scanInfos(0, end)
	}
	seg, err := f.footed(foot, at)
	if err != nil && end < f.size {
		// Bytes that look like a footer, or a broken one, in front of a good stream.
		return none, f.scanInfos(0, end)
	}
	return seg, err
}

// footed is the segment of a footer at offset at.
func (f *File) footed(foot streamFooter, at int64) (segment, error) {
	base, err := f.footerBase(foot, at)
	if err != nil {
		return segment{}, err
	}
	start := base + int64(foot.start)
	payload, err := f.readAt(start, int64(foot.len), PartFooter)
	if err != nil {
		return segment{}, err
	}
	if sum := footerChecksum(payload); sum != foot.crc {
		return segment{}, f.fault(start, PartFooter, fmt.Errorf("%w: %08x instead of %08x", ErrChecksum, sum, foot.crc))
	}
	manifests, err := ParseFooter(payload, base)
	if err != nil {
		return segment{}, f.fault(start, PartFooter, err)
	}
	return segment{base: base, end: at + StreamFooterSize, footer: true, manifests: manifests}, nil
}

// footerBase finds where the stream of a footer at offset at begins. Footers
// count from there, so behind another stream that is not the start of the file.
func (f *File) footerBase(foot streamFooter, at int64) (int64, error) {
	if foot.len > MaxPayload {
		return 0, f.fault(at, PartStreamFooter, fmt.Errorf("%w: %d bytes", ErrTooLarge, foot.len))
	}
	if foot.start > uint64(f.size) || foot.len > uint64(f.size)-foot.start {
		return 0, f.fault(at, PartStreamFooter, fmt.Errorf("%w: its payload ends beyond the file", ErrCorruptFooter))
	}
	base := at - int64(foot.len) - int64(foot.start)
	if base > 0 && base+StreamHeaderSize <= at {
		b, err := f.readAt(base, StreamHeaderSize, PartStreamHeader)
		if err != nil {
			return 0, err
		}
		if _, err := ParseStreamHeader(b); err == nil {
			return base, nil
		}
	}
	return 0, nil
}

// scanInfos walks the message headers of a part of the file for its store infos.
func (f *File) scanInfos(from, to int64) error {
	opt := ScanOptions{Name: f.opt.Name, Report: f.opt.Report}
	s := newInfoScanner(io.NewSectionReader(f.r, from, to-from), to-from, opt)
	for {
		m, err := s.Next()
		var fe *Error
		switch {
		case err == nil:
			f.infos = append(f.infos, m.Info)
		case errors.Is(err, io.EOF):
			return nil
		case errors.As(err, &fe) && !fe.Fatal:
			if f.opt.Report != nil {
				f.opt.Report(fe)
			}
		case f.opt.Partial && errors.As(err, &fe):
			return nil // [File.Index] comes to the same place and reports it
		default:
			return err
		}
	}
}

// Size is the size of the file.
func (f *File) Size() int64 { return f.size }

// Header is the header of the first stream.
func (f *File) Header() StreamHeader { return f.header }

// Reader reads the file from the start, independent of all other use.
func (f *File) Reader() io.Reader { return io.NewSectionReader(f.r, 0, f.size) }

// HasFooter reports whether every stream of the file has a footer.
func (f *File) HasFooter() bool {
	for _, s := range f.segments {
		if !s.footer {
			return false
		}
	}
	return true
}

// Stores are the stores of the file, recordings first, in file order: those of
// the footers, and those announced where there is none.
func (f *File) Stores() []StoreID {
	var all []StoreID
	add := func(id StoreID) {
		if !slices.Contains(all, id) {
			all = append(all, id)
		}
	}
	for _, m := range f.RawManifests() {
		add(m.Store)
	}
	for _, info := range f.infos {
		add(info.Store)
	}
	slices.SortStableFunc(all, func(a, b StoreID) int { return int(a.Kind) - int(b.Kind) })
	return all
}

// StoreInfos walks the headers of the whole file and returns its store infos
// in file order.
func (f *File) StoreInfos() ([]StoreInfo, error) {
	g := &File{r: f.r, size: f.size, opt: f.opt}
	err := g.scanInfos(0, f.size)
	return g.infos, err
}

// RawManifests are the manifests of all footers, in file order.
func (f *File) RawManifests() []*RawManifest {
	var all []*RawManifest
	for _, s := range f.segments {
		all = append(all, s.manifests...)
	}
	return all
}

// Manifests are the manifests of the footers, in file order; a store of several
// concatenated streams has several. A stream without a footer gives
// [ErrNoFooter]: see [File.Index].
func (f *File) Manifests() ([]*Manifest, error) {
	f.once.Do(func() {
		if !f.HasFooter() {
			f.mnErr = f.fault(f.size, PartStreamFooter, ErrNoFooter)
			return
		}
		f.mans, f.mnErr = f.decodeAll(f.RawManifests())
	})
	return f.mans, f.mnErr
}

func (f *File) decodeAll(raw []*RawManifest) ([]*Manifest, error) {
	var all []*Manifest
	for _, r := range raw {
		m, err := r.Decode()
		if err != nil {
			return nil, f.fault(r.Base, PartManifest, fmt.Errorf("%v: %w", r.Store, err))
		}
		all = append(all, m)
	}
	return all, nil
}

// Index is [File.Manifests], and makes manifests by one pass over the streams
// that have no footer. Chunks that do not decode are reported and left out.
func (f *File) Index(ctx context.Context) ([]*Manifest, error) {
	if f.HasFooter() {
		return f.Manifests()
	}
	var all []*Manifest
	for _, s := range f.segments {
		var ms []*Manifest
		var err error
		if s.footer {
			ms, err = f.decodeAll(s.manifests)
		} else {
			ms, err = f.scanManifests(ctx, s)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, ms...)
	}
	return all, nil
}

func (f *File) scanManifests(ctx context.Context, s segment) ([]*Manifest, error) {
	opt := ReadOptions{ScanOptions: ScanOptions{Name: f.opt.Name, Report: f.opt.Report}, Reuse: true}
	builders := map[StoreID]*ManifestBuilder{}
	var order []*ManifestBuilder
	for item, err := range Read(ctx, io.NewSectionReader(f.r, s.base, s.end-s.base), opt) {
		var fe *Error
		if errors.As(err, &fe) && !fe.Fatal {
			if f.opt.Report != nil {
				f.opt.Report(fe)
			}
			continue
		}
		if f.passOver(err) {
			break
		}
		if err != nil {
			return nil, err
		}
		if item.Chunk == nil {
			continue
		}
		b := builders[item.Arrow.Store]
		if b == nil {
			b = NewManifestBuilder(item.Arrow.Store)
			builders[item.Arrow.Store] = b
			order = append(order, b)
		}
		e := NewEntry(item.Chunk)
		e.Offset = item.Offset + MessageHeaderSize
		e.Size = uint64(len(item.Payload))
		e.UncompressedSize = item.Arrow.UncompressedSize
		b.Add(&e)
	}
	var all []*Manifest
	for _, b := range order {
		m, err := b.Manifest()
		if err != nil {
			return nil, f.fault(s.base, PartManifest, err)
		}
		m.Base, m.scanned = s.base, true
		all = append(all, m)
	}
	return all, nil
}

// ReadEncoded reads the message of chunk i of a manifest of this file, still encoded.
func (f *File) ReadEncoded(m *Manifest, i int) (*ArrowMsg, error) {
	at := m.Offset(i)
	b, err := f.readAt(at, m.Size(i), PartArrowMsg)
	if err != nil {
		return nil, err
	}
	msg, err := ParseArrowMsg(b)
	if err != nil {
		return nil, f.fault(at, PartArrowMsg, err)
	}
	if !m.scanned && msg.HasChunkID && msg.ChunkID != m.ID(i) {
		return nil, f.fault(at, PartArrowMsg, fmt.Errorf("%w: chunk %v is not where it should be, %v is", ErrManifest, m.ID(i), msg.ChunkID))
	}
	msg.Store = m.Store
	return &msg, nil
}

// ReadChunk reads and decodes chunk i of a manifest of this file.
func (f *File) ReadChunk(m *Manifest, i int) (*chunk.Chunk, error) {
	msg, err := f.ReadEncoded(m, i)
	if err != nil {
		return nil, err
	}
	c, err := f.dec.Chunk(msg, nil)
	if err != nil {
		return nil, f.fault(m.Offset(i), PartChunk, err)
	}
	if c.ID() != m.ID(i) {
		return nil, f.fault(m.Offset(i), PartChunk, fmt.Errorf("%w: chunk %v is not where it should be, %v is", ErrManifest, m.ID(i), c.ID()))
	}
	return c, nil
}

// Fingerprint identifies the content: the SHA-256 of the last footer's payload,
// or of the whole file if it has none (spec/rrd.md 2.4).
func (f *File) Fingerprint() ([sha256.Size]byte, error) {
	h := sha256.New()
	var src io.Reader = f.Reader()
	if n := len(f.segments); n > 0 && f.segments[n-1].footer {
		b, err := f.readAt(f.size-StreamFooterSize, StreamFooterSize, PartStreamFooter)
		if err != nil {
			return [sha256.Size]byte{}, err
		}
		foot, _ := parseStreamFooter(b)
		src = io.NewSectionReader(f.r, f.segments[n-1].base+int64(foot.start), int64(foot.len))
	}
	if _, err := io.Copy(h, src); err != nil {
		return [sha256.Size]byte{}, f.fault(0, PartFooter, err)
	}
	return [sha256.Size]byte(h.Sum(nil)), nil
}
