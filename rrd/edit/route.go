package edit

import (
	"context"
	"io"

	"github.com/reelhouse/reelhouse/rrd"
)

// RouteOptions are the ids that all stores of the output get; empty ones stay.
type RouteOptions struct {
	Options
	Application string
	Recording   string
}

// Routed counts what [Route] did.
type Routed struct {
	Messages           int
	DroppedActivations int
}

// Route copies the sources one after the other under other store ids and
// migrates nothing. With a recording id and several sources blueprint
// activations are dropped, because they would name one blueprint for all.
func Route(ctx context.Context, sources []*Source, out io.Writer, o RouteOptions) (Routed, error) {
	var n Routed
	w := rrd.NewWriter(out, rrd.WriterOptions{})
	defer w.Abort()
	to := func(id rrd.StoreID) rrd.StoreID {
		if o.Application != "" {
			id.Application = rrd.CleanApplicationID(o.Application)
		}
		if o.Recording != "" {
			id.Recording = o.Recording
		}
		return id
	}
	info := func(i rrd.StoreInfo) error {
		n.Messages++
		i.Store = to(i.Store)
		return w.SetStoreInfo(i)
	}
	activate := func(a rrd.Activation) error {
		n.Messages++
		if o.Recording != "" && len(sources) > 1 {
			n.DroppedActivations++
			return nil
		}
		a.Blueprint = to(a.Blueprint)
		return w.Activate(a)
	}
	for _, s := range sources {
		if frames, _, ok := s.frames(); ok && !o.Strict {
			if err := s.routeFrames(ctx, o.Options, frames, w, to, info, activate); err != nil {
				return n, err
			}
			n.Messages += count(frames, rrd.KindArrow)
			continue
		}
		err := s.each(ctx, o.Options, nil, nil, func(p part) error {
			switch p.Kind {
			case rrd.KindStoreInfo:
				return info(p.Info)
			case rrd.KindActivation:
				return activate(p.Activation)
			case rrd.KindArrow:
				if p.entry == nil {
					return nil
				}
				n.Messages++
				m := p.Arrow
				m.Store = to(m.Store)
				return w.WriteEncoded(&m, p.entry)
			}
			return nil
		})
		if err != nil {
			return n, err
		}
	}
	return n, w.Close()
}

// routeFrames rewrites the head of every chunk's message and copies the rest.
func (s *Source) routeFrames(ctx context.Context, o Options, frames []placed, w *rrd.Writer, to func(rrd.StoreID) rrd.StoreID,
	info func(rrd.StoreInfo) error, activate func(rrd.Activation) error) error {
	for _, f := range frames {
		err := ctx.Err()
		switch {
		case err != nil:
		case f.Kind == rrd.KindStoreInfo:
			err = info(*f.Info)
		case f.Kind == rrd.KindActivation:
			err = activate(*f.Activation)
		case f.Kind == rrd.KindArrow:
			var m rrd.ArrowMsg
			var at, n int64
			if m, at, n, err = s.file.Head(f.Frame); err == nil {
				e := f.manifest.Entry(f.row)
				m.Store = to(f.manifest.Store)
				err = w.CopyPayload(&m, s.raw, at, n, &e)
			}
		}
		if err != nil {
			return err
		}
		if o.Progress != nil {
			o.Progress(f.Size)
		}
	}
	return nil
}

func count(frames []placed, kind rrd.Kind) int {
	n := 0
	for _, f := range frames {
		if f.Kind == kind {
			n++
		}
	}
	return n
}
