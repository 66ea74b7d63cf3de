package edit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/reelhouse/reelhouse/chunk"
	"github.com/reelhouse/reelhouse/rrd"
)

// Errors of [Split].
var (
	ErrNoTimeline = errors.New("no such timeline")
	ErrCutoffs    = errors.New("cannot split there")
)

// SplitOptions say where a split cuts. One of Times and Parts is set.
type SplitOptions struct {
	Timeline   string
	Times      []string // ascending: numbers, or dates and times for timestamps
	Parts      int      // number of equal spans, at least 2
	Recording  string   // id of the parts without their number; by default that of the input and a "-"
	DropOthers bool     // remove the other timelines
	Strict     bool     // any deviation in the input is an error
	Report     func(*rrd.Error)
	Progress   func(n int64)
}

// Part is a file that [Split] wrote. It covers [From, To) of the timeline, the
// first part also what lies before, the last what lies behind.
type Part struct {
	Path  string `json:"path"`
	From  int64  `json:"from"`
	To    int64  `json:"to"`
	Bytes int64  `json:"bytes"`
}

// Split cuts the recordings of a file by times of one timeline into files in
// dir, which must exist. Every part has all static chunks and blueprints, and
// the state at its start: for each component the last value before, and for
// video the samples since the last keyframe. Chunks without the timeline go to
// the first part. Chunks that lie within a part pass through undecoded. All
// parts appear, or none. Chunks without rows or components are left out.
func Split(ctx context.Context, path, dir string, o SplitOptions) ([]Part, error) {
	if st, err := os.Stat(dir); err != nil {
		return nil, err
	} else if !st.IsDir() {
		return nil, &os.PathError{Op: "split to", Path: dir, Err: errors.New("is not a directory")}
	}
	raw, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer raw.Close()
	st, err := raw.Stat()
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, &os.PathError{Op: "split", Path: path, Err: errors.New("is not a file")}
	}
	f, err := rrd.NewFile(raw, st.Size(), rrd.FileOptions{Name: path, Report: o.Report})
	if err != nil {
		return nil, err
	}
	s := splitter{o: o, f: f, raw: raw, cache: map[*piece]*chunk.Chunk{}}
	if o.Strict {
		if err := s.check(ctx, path); err != nil {
			return nil, err
		}
	}
	if err := s.load(ctx); err != nil {
		return nil, err
	}
	cutoffs, err := s.cutoffs()
	if err != nil {
		return nil, fmt.Errorf("split %s: %w", path, err)
	}
	stem := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	parts := make([]Part, len(cutoffs)-1)
	names := map[string]bool{}
	for i := range parts {
		from, to := timeLabel(s.kind, cutoffs[i]), timeLabel(s.kind, cutoffs[i+1])
		parts[i] = Part{Path: filepath.Join(dir, fmt.Sprintf("%s_%s__%s.rrd", stem, from, to)), From: cutoffs[i], To: cutoffs[i+1]}
		if names[parts[i].Path] {
			return nil, fmt.Errorf("split %s: %w: parts %s to %s are too small", path, ErrCutoffs, from, to)
		}
		names[parts[i].Path] = true
	}
	files := make([]*rrd.PendingFile, len(parts))
	for i := range parts {
		if files[i], err = rrd.Create(parts[i].Path); err != nil {
			return nil, err
		}
		defer files[i].Discard()
		w := window{index: i, first: i == 0, last: i == len(parts)-1, from: parts[i].From, to: parts[i].To}
		if parts[i].Bytes, err = s.write(ctx, files[i], w); err != nil {
			return nil, err
		}
	}
	for _, f := range files {
		if err := f.Commit(); err != nil {
			return nil, err
		}
	}
	return parts, nil
}

// window is the span of one part.
type window struct {
	index       int
	first, last bool
	from, to    int64
}

func (w window) has(t int64) bool { return (w.first || t >= w.from) && (w.last || t < w.to) }

type splitter struct {
	o           SplitOptions
	f           *rrd.File
	raw         *os.File
	kind        chunk.TimeKind
	lo, hi      int64
	stores      []*splitStore
	infos       []rrd.StoreInfo
	activations []rrd.Activation
	// cache holds what was decoded last, most recent at the end of recent.
	cache  map[*piece]*chunk.Chunk
	recent []*piece
}

type splitStore struct {
	id     rrd.StoreID
	pieces []*piece
}

// piece is a chunk of the input.
type piece struct {
	rrd.Entry
	manifest *rrd.Manifest
	row      int
	current  bool // needs no migration
	axis     int  // of the timeline in Times, or -1
}

// check reads the whole input once.
func (s *splitter) check(ctx context.Context, path string) error {
	opt := rrd.ReadOptions{ScanOptions: rrd.ScanOptions{Name: path, Strict: true}, Reuse: true}
	for _, err := range rrd.Read(ctx, s.f.Reader(), opt) {
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *splitter) load(ctx context.Context) error {
	manifests, err := s.f.Index(ctx)
	if err != nil {
		return err
	}
	byStore := map[rrd.StoreID]*splitStore{}
	seen := map[rrd.StoreID]map[chunk.TUID]bool{}
	for _, id := range s.f.Stores() {
		byStore[id] = &splitStore{id: id}
		s.stores = append(s.stores, byStore[id])
	}
	for _, m := range manifests {
		st := byStore[m.Store]
		if st == nil {
			st = &splitStore{id: m.Store}
			byStore[m.Store] = st
			s.stores = append(s.stores, st)
		}
		if seen[m.Store] == nil {
			seen[m.Store] = map[chunk.TUID]bool{}
		}
		current := streamVersion(s.f, m.Base).Compare(passable) >= 0
		for i := range m.Len() {
			p := &piece{Entry: m.Entry(i), manifest: m, row: i, current: current, axis: -1}
			if seen[m.Store][p.ID] || p.NumRows == 0 || len(p.Components) == 0 {
				continue
			}
			seen[m.Store][p.ID] = true
			p.axis = slices.IndexFunc(p.Times, func(t rrd.TimeRange) bool { return t.Name == s.o.Timeline && t.OK })
			st.pieces = append(st.pieces, p)
		}
	}
	if s.infos, err = s.f.StoreInfos(); err != nil {
		return err
	}
	if !slices.ContainsFunc(s.stores, func(st *splitStore) bool { return st.id.Kind == rrd.Blueprint }) {
		return nil
	}
	scan := rrd.NewScanner(s.f.Reader(), rrd.ScanOptions{})
	for {
		m, err := scan.Next()
		if err != nil {
			return ctx.Err() // what cannot be read was reported
		}
		if m.Kind == rrd.KindActivation {
			s.activations = append(s.activations, m.Activation)
		}
	}
}

// cutoffs finds the extent of the timeline and returns the bounds of all parts.
func (s *splitter) cutoffs() ([]int64, error) {
	found := false
	var known []string
	recordings := map[string]int{}
	for _, st := range s.stores {
		if st.id.Kind != rrd.Recording {
			continue
		}
		recordings[st.id.Application]++
		for _, p := range st.pieces {
			for _, t := range p.Times {
				if !slices.Contains(known, t.Name) {
					known = append(known, t.Name)
				}
			}
			if p.axis < 0 {
				continue
			}
			t := p.Times[p.axis]
			if !found {
				s.kind, s.lo, s.hi, found = t.Kind, t.Lo, t.Hi, true
			}
			if t.Kind != s.kind {
				return nil, fmt.Errorf("timeline %q is a %s and a %s", s.o.Timeline, s.kind, t.Kind)
			}
			s.lo, s.hi = min(s.lo, t.Lo), max(s.hi, t.Hi)
		}
	}
	if !found {
		slices.Sort(known)
		return nil, fmt.Errorf("%w: %q; there are: %s", ErrNoTimeline, s.o.Timeline, strings.Join(known, ", "))
	}
	for app, n := range recordings {
		if n > 1 && s.o.Recording != "" {
			return nil, fmt.Errorf("%d recordings of %q cannot share the recording id %q", n, app, s.o.Recording)
		}
	}
	end := s.hi
	if end < math.MaxInt64 {
		end++
	}
	cut := []int64{s.lo}
	for _, text := range s.o.Times {
		t, err := parseTime(s.kind, text)
		if err != nil {
			return nil, err
		}
		if len(cut) > 1 && t <= cut[len(cut)-1] {
			return nil, fmt.Errorf("%w: times must ascend: %s", ErrCutoffs, text)
		}
		cut = append(cut, t)
	}
	if len(s.o.Times) == 0 {
		if s.o.Parts < 2 {
			return nil, fmt.Errorf("%w: %d parts, at least 2 are needed", ErrCutoffs, s.o.Parts)
		}
		step := int64((uint64(end) - uint64(s.lo)) / uint64(s.o.Parts))
		for i := 1; i < s.o.Parts; i++ {
			cut = append(cut, s.lo+int64(i)*step)
		}
	}
	return append(cut, end), nil
}

func (s *splitter) write(ctx context.Context, out io.Writer, win window) (int64, error) {
	w := rrd.NewWriter(out, rrd.WriterOptions{})
	defer w.Abort()
	to := func(id rrd.StoreID) rrd.StoreID {
		if id.Kind == rrd.Recording {
			prefix := s.o.Recording
			if prefix == "" {
				prefix = id.Recording + "-"
			}
			id.Recording = fmt.Sprintf("%s%d", prefix, win.index)
		}
		return id
	}
	for _, info := range s.infos {
		info.Store = to(info.Store)
		if err := w.SetStoreInfo(info); err != nil {
			return 0, err
		}
	}
	for _, st := range s.stores {
		for _, p := range st.pieces {
			if err := ctx.Err(); err != nil {
				return 0, err
			}
			if err := s.writePiece(ctx, w, to(st.id), p, win); err != nil {
				return 0, err
			}
		}
		if st.id.Kind == rrd.Recording && !win.first {
			if err := s.writeState(ctx, w, to(st.id), st, win); err != nil {
				return 0, err
			}
		}
	}
	for _, a := range s.activations {
		if err := w.Activate(a); err != nil {
			return 0, err
		}
	}
	if err := w.Close(); err != nil {
		return 0, err
	}
	return w.Offset(), nil
}

// writePiece writes what a part has of a chunk.
func (s *splitter) writePiece(ctx context.Context, w *rrd.Writer, to rrd.StoreID, p *piece, win window) error {
	whole := to.Kind == rrd.Blueprint || p.Static
	if !whole && p.axis < 0 {
		if !win.first {
			return nil
		}
		whole = true
	}
	if !whole {
		t := p.Times[p.axis]
		if !win.last && t.Lo >= win.to || !win.first && t.Hi < win.from {
			return nil
		}
		whole = win.has(t.Lo) && win.has(t.Hi)
	}
	if s.o.Progress != nil {
		s.o.Progress(int64(p.Size))
	}
	drops := s.o.DropOthers && to.Kind == rrd.Recording && !p.Static && (p.axis < 0 || len(p.Times) > 1)
	if whole && p.current && !drops {
		return s.copyPiece(w, to, p)
	}
	c, err := s.chunk(p)
	if err != nil {
		return err
	}
	if !whole {
		times := c.Timeline(s.o.Timeline)
		if times == nil {
			return fmt.Errorf("%w: chunk %s has not the timeline that its manifest tells", rrd.ErrManifest, p.ID)
		}
		if c = rowsWithin(c, times, win); c.NumRows() == 0 {
			return nil
		}
	}
	return s.writeChunk(ctx, w, to, c)
}

// copyPiece writes a chunk as it is stored, where it can without its bytes
// passing through the program.
func (s *splitter) copyPiece(w *rrd.Writer, to rrd.StoreID, p *piece) error {
	frame := rrd.Frame{Kind: rrd.KindArrow, Offset: p.Offset - rrd.MessageHeaderSize, Size: int64(p.Size)}
	if m, at, n, err := s.f.Head(frame); err == nil && m.HasChunkID && m.ChunkID == p.ID {
		m.Store = to
		return w.CopyPayload(&m, s.raw, at, n, &p.Entry)
	}
	m, err := s.f.ReadEncoded(p.manifest, p.row)
	if err != nil {
		return err
	}
	m.Store = to
	return w.WriteEncoded(m, &p.Entry)
}

func (s *splitter) writeChunk(ctx context.Context, w *rrd.Writer, to rrd.StoreID, c *chunk.Chunk) error {
	if s.o.DropOthers && to.Kind == rrd.Recording && !c.IsStatic() {
		kept := c.DropTimelines(func(t chunk.Timeline) bool { return t.Name != s.o.Timeline })
		if kept.IsStatic() {
			return nil // static data would shadow what other chunks have
		}
		c = kept
	}
	return w.WriteChunk(ctx, to, c)
}

// rowsWithin are the rows of a chunk that lie in a window.
func rowsWithin(c *chunk.Chunk, times *chunk.TimeColumn, win window) *chunk.Chunk {
	if !times.Sorted {
		return c.Filter(func(row int) bool { return win.has(times.Times[row]) })
	}
	from, to := 0, len(times.Times)
	if !win.first {
		from, _ = slices.BinarySearch(times.Times, win.from)
	}
	if !win.last {
		to, _ = slices.BinarySearch(times.Times, win.to)
	}
	if from == 0 && to == len(times.Times) {
		return c
	}
	return c.Slice(from, max(from, to))
}

// cached is how many decoded chunks are kept for the state of the next parts.
const cached = 8

// chunk decodes a chunk, or finds it among those decoded last.
func (s *splitter) chunk(p *piece) (*chunk.Chunk, error) {
	if i := slices.Index(s.recent, p); i >= 0 {
		s.recent = append(slices.Delete(s.recent, i, i+1), p)
		return s.cache[p], nil
	}
	c, err := s.f.ReadChunk(p.manifest, p.row)
	if err != nil {
		return nil, err
	}
	if p.UncompressedSize > 4<<20 {
		return c, nil // would crowd out the memory that others need
	}
	if len(s.recent) == cached {
		delete(s.cache, s.recent[0])
		s.recent = slices.Delete(s.recent, 0, 1)
	}
	s.cache[p] = c
	s.recent = append(s.recent, p)
	return c, nil
}
