package edit

import (
	"context"
	"io"

	"github.com/reelhouse/reelhouse/chunk"
	"github.com/reelhouse/reelhouse/rrd"
	"github.com/reelhouse/reelhouse/store"
)

// Merge writes the stores of all sources as one recording: blueprints first,
// each chunk once, without chunks that show in no answer (empty ones and static
// ones that newer ones overwrite), migrated to the current version. Within a
// store chunks keep their order. Sources that are streams are spooled to disk.
func Merge(ctx context.Context, sources []*Source, out io.Writer, o Options) error {
	for _, s := range sources {
		if err := s.rewindable(ctx); err != nil {
			return err
		}
	}
	m := merger{o: o, seen: map[rrd.StoreID]map[chunk.TUID]bool{}, kinds: map[rrd.StoreKind]bool{}}
	if err := m.findStatic(ctx, sources); err != nil {
		return err
	}
	w := rrd.NewWriter(out, rrd.WriterOptions{})
	defer w.Abort()
	for _, kind := range []rrd.StoreKind{rrd.Blueprint, rrd.Recording} {
		if !m.kinds[kind] {
			continue
		}
		for _, s := range sources {
			if err := m.copyKind(ctx, s, kind, w); err != nil {
				return err
			}
		}
	}
	return w.Close()
}

type merger struct {
	o       Options
	kinds   map[rrd.StoreKind]bool
	seen    map[rrd.StoreID]map[chunk.TUID]bool
	statics map[rrd.StoreID]*store.Statics
}

// findStatic reads the static chunks of all sources and finds those that are kept.
func (m *merger) findStatic(ctx context.Context, sources []*Source) error {
	m.statics = map[rrd.StoreID]*store.Statics{}
	quiet := m.o
	quiet.Progress = nil
	add := func(id rrd.StoreID, c *chunk.Chunk) {
		if m.statics[id] == nil {
			m.statics[id] = &store.Statics{}
		}
		m.statics[id].Add(c)
	}
	for _, s := range sources {
		if len(s.index) > 0 && s.complete() {
			for _, at := range s.index {
				m.kinds[at.manifest.Store.Kind] = true
				if !at.manifest.IsStatic(at.row) {
					continue
				}
				c, err := s.file.ReadChunk(at.manifest, at.row)
				if err != nil {
					if m.o.ContinueOnError {
						continue // reported when it is copied
					}
					return err
				}
				add(at.manifest.Store, c)
			}
			continue
		}
		quiet.Report = nil
		temporal := func(a *rrd.ArrowMsg) bool {
			m.kinds[a.Store.Kind] = true
			return a.HasStatic && !a.Static
		}
		err := s.each(ctx, quiet, temporal, func(e *rrd.Entry) bool { return e.Static }, func(p part) error {
			switch {
			case p.Kind == rrd.KindStoreInfo:
				m.kinds[p.Info.Store.Kind] = true
			case p.Chunk != nil && p.Chunk.IsStatic():
				add(p.Arrow.Store, p.Chunk)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	for _, s := range sources {
		if s.file != nil {
			for _, id := range s.file.Stores() {
				m.kinds[id.Kind] = true
			}
		}
	}
	return nil
}

// complete reports whether the index tells all that the source holds and no
// chunk of it is left out for being ambiguous.
func (s *Source) complete() bool {
	if s.file == nil || !s.file.HasFooter() {
		return false
	}
	manifests, err := s.file.Manifests()
	if err != nil {
		return false
	}
	n := 0
	for _, m := range manifests {
		n += m.Len()
	}
	for _, at := range s.index {
		if at == nil {
			return false
		}
	}
	return n == len(s.index)
}

func (m *merger) copyKind(ctx context.Context, s *Source, kind rrd.StoreKind, w *rrd.Writer) error {
	info := func(i rrd.StoreInfo) error {
		if i.Store.Kind != kind {
			return nil
		}
		return w.SetStoreInfo(i)
	}
	activate := func(a rrd.Activation) error {
		if a.Blueprint.Kind != kind {
			return nil
		}
		a.MakeActive = true
		return w.Activate(a)
	}
	if frames, current, ok := s.frames(); ok && current && !m.o.Strict {
		take := func(id rrd.StoreID, e *rrd.Entry) bool { return id.Kind == kind && m.take(id, e) }
		return s.copyFrames(ctx, m.o, frames, w, take, func(f rrd.Frame) error {
			switch f.Kind {
			case rrd.KindStoreInfo:
				return info(*f.Info)
			case rrd.KindActivation:
				return activate(*f.Activation)
			}
			return nil
		})
	}
	skip := func(a *rrd.ArrowMsg) bool {
		return a.Store.Kind != kind
	}
	return s.each(ctx, m.o, skip, nil, func(p part) error {
		switch p.Kind {
		case rrd.KindStoreInfo:
			return info(p.Info)
		case rrd.KindActivation:
			return activate(p.Activation)
		case rrd.KindArrow:
			if p.entry == nil || !m.take(p.Arrow.Store, p.entry) {
				return nil
			}
			return p.copyTo(ctx, w, p.Arrow.Store)
		}
		return nil
	})
}

// take reports whether a chunk is written.
func (m *merger) take(id rrd.StoreID, e *rrd.Entry) bool {
	seen := m.seen[id]
	if seen == nil {
		seen = map[chunk.TUID]bool{}
		m.seen[id] = seen
	}
	if seen[e.ID] || e.NumRows == 0 || len(e.Components) == 0 || e.Static && !(m.statics[id] != nil && m.statics[id].Shows(e.ID)) {
		return false
	}
	seen[e.ID] = true
	return true
}
