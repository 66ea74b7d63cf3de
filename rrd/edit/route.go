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
	for _, s := range sources {
		err := s.each(ctx, o.Options, nil, nil, func(p part) error {
			n.Messages++
			switch p.Kind {
			case rrd.KindStoreInfo:
				p.Info.Store = to(p.Info.Store)
				return w.SetStoreInfo(p.Info)
			case rrd.KindActivation:
				if o.Recording != "" && len(sources) > 1 {
					n.DroppedActivations++
					return nil
				}
				p.Activation.Blueprint = to(p.Activation.Blueprint)
				return w.Activate(p.Activation)
			case rrd.KindArrow:
				if p.entry == nil {
					return nil
				}
				m := p.Arrow
				m.Store = to(m.Store)
				return w.WriteEncoded(&m, p.entry)
			}
			n.Messages--
			return nil
		})
		if err != nil {
			return n, err
		}
	}
	return n, w.Close()
}
