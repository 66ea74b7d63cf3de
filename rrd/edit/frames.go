package edit

import (
	"context"

	"github.com/reelhouse/reelhouse/rrd"
)

// placed is a message by its place; a chunk with what a footer says of it.
type placed struct {
	rrd.Frame
	*indexed
}

// frames lists the messages of a file whose footers describe every chunk; ok is
// false if it is none such, and then has to be read from front to back. current
// tells that no chunk needs migration.
func (s *Source) frames() (frames []placed, current, ok bool) {
	if s.file == nil || !s.file.HasFooter() {
		return nil, false, false
	}
	manifests, err := s.file.Manifests()
	if err != nil {
		return nil, false, false
	}
	current = true
	byOffset := map[int64]*indexed{}
	for _, m := range manifests {
		current = current && streamVersion(s.file, m.Base).Compare(passable) >= 0
		for i := range m.Len() {
			byOffset[m.Offset(i)] = &indexed{m, i}
		}
	}
	list, err := s.file.Frames()
	if err != nil {
		return nil, false, false
	}
	for _, f := range list {
		p := placed{Frame: f}
		if f.Kind == rrd.KindArrow {
			if p.indexed = byOffset[f.Offset+rrd.MessageHeaderSize]; p.indexed == nil || p.manifest.Size(p.row) != f.Size {
				return nil, false, false
			}
		}
		frames = append(frames, p)
	}
	return frames, current, true
}

// run collects chunks that stand one behind the other, to be copied in one go.
type run struct {
	w       *rrd.Writer
	src     *Source
	store   rrd.StoreID
	entries []rrd.Entry
}

// add takes a chunk, after what does not adjoin it is written.
func (r *run) add(p placed, e rrd.Entry) error {
	if n := len(r.entries); n > 0 {
		last := &r.entries[n-1]
		if r.store != p.manifest.Store || last.Offset+int64(last.Size)+rrd.MessageHeaderSize != e.Offset {
			if err := r.flush(); err != nil {
				return err
			}
		}
	}
	r.store = p.manifest.Store
	r.entries = append(r.entries, e)
	return nil
}

func (r *run) flush() error {
	err := r.w.CopyFrames(r.src.raw, r.store, r.entries)
	r.entries = r.entries[:0]
	return err
}

// copyFrames writes the chunks that take accepts, as they are stored, and calls
// other with all other messages in their places.
func (s *Source) copyFrames(ctx context.Context, o Options, frames []placed, w *rrd.Writer, take func(rrd.StoreID, *rrd.Entry) bool, other func(rrd.Frame) error) error {
	r := run{w: w, src: s}
	for _, p := range frames {
		if err := ctx.Err(); err != nil {
			return err
		}
		if p.Kind == rrd.KindArrow {
			if e := p.manifest.Entry(p.row); take(p.manifest.Store, &e) {
				if err := r.add(p, e); err != nil {
					return err
				}
			}
		} else {
			if err := r.flush(); err != nil {
				return err
			}
			if err := other(p.Frame); err != nil {
				return err
			}
		}
		if o.Progress != nil {
			o.Progress(p.Size)
		}
	}
	return r.flush()
}
