package edit

import (
	"context"
	"io"
	"slices"

	"github.com/reelhouse/reelhouse/chunk"
	"github.com/reelhouse/reelhouse/rrd"
)

// FilterOptions say what a filter drops.
type FilterOptions struct {
	Options
	Timelines []string           // index columns to remove; a chunk left without any becomes static
	Entities  []chunk.EntityPath // entities whose chunks are dropped; not those below them
}

// Filter copies the sources one after the other without some timelines and
// entities. The chunks stay as they are cut and keep their ids.
func Filter(ctx context.Context, sources []*Source, out io.Writer, o FilterOptions) error {
	w := rrd.NewWriter(out, rrd.WriterOptions{})
	defer w.Abort()
	changes := func(e *rrd.Entry) bool {
		return !slices.Contains(o.Entities, e.Entity) &&
			slices.ContainsFunc(e.Times, func(t rrd.TimeRange) bool { return slices.Contains(o.Timelines, t.Name) })
	}
	decode := changes
	if len(o.Timelines) == 0 {
		decode = nil
	}
	for _, s := range sources {
		if frames, current, ok := s.frames(); ok && current && decode == nil && !o.Strict {
			take := func(_ rrd.StoreID, e *rrd.Entry) bool { return !slices.Contains(o.Entities, e.Entity) }
			err := s.copyFrames(ctx, o.Options, frames, w, take, func(f rrd.Frame) error {
				switch f.Kind {
				case rrd.KindStoreInfo:
					return w.SetStoreInfo(*f.Info)
				case rrd.KindActivation:
					return w.Activate(*f.Activation)
				}
				return nil
			})
			if err != nil {
				return err
			}
			continue
		}
		err := s.each(ctx, o.Options, nil, decode, func(p part) error {
			switch p.Kind {
			case rrd.KindStoreInfo:
				return w.SetStoreInfo(p.Info)
			case rrd.KindActivation:
				return w.Activate(p.Activation)
			case rrd.KindArrow:
				switch {
				case p.entry == nil || slices.Contains(o.Entities, p.entry.Entity):
					return nil
				case changes(p.entry):
					c := p.Chunk.DropTimelines(func(t chunk.Timeline) bool { return slices.Contains(o.Timelines, t.Name) })
					return w.WriteChunk(ctx, p.Arrow.Store, c.WithID(p.Chunk.ID()))
				}
				return p.copyTo(ctx, w, p.Arrow.Store)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return w.Close()
}
