// Package inspect looks into recordings without changing them: it verifies,
// compares, counts and prints them. All of it streams: memory does not grow with
// the size of chunks, at most with their number.
package inspect

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/reelhouse/reelhouse/chunk"
	"github.com/reelhouse/reelhouse/chunk/archetype"
	"github.com/reelhouse/reelhouse/rrd"
)

// Faults that [Verify] finds beside those of reading.
var (
	ErrNoManifest    = errors.New("missing footer: no manifests")
	ErrManyManifests = errors.New("more than one manifest for a store")
	ErrAlignment     = errors.New("manifest names a chunk where there is none or another one")
	ErrComponentType = errors.New("component has not the type that its name stands for")
)

// VerifyOptions are the options of [Verify].
type VerifyOptions struct {
	SkipFooters bool // do not ask for footers or check them
	Strict      bool // cut-off input, trailing bytes and newer versions are faults
	Report      func(*rrd.Error)
	Progress    func(n int64)
}

// Verify decodes every chunk of a recording, checks that components with a
// built-in type have it, and, for each stream of it, that the footer has one
// manifest for each store, all whose chunks are where it says. It calls fault
// with what is wrong, goes on where it can, and reports whether there was
// anything to verify. The error is that of reading.
func Verify(ctx context.Context, name string, r io.Reader, o VerifyOptions, fault func(error)) (any bool, err error) {
	v := verifier{name: name, fault: fault, at: map[int64]chunk.TUID{}}
	opt := rrd.ReadOptions{ScanOptions: rrd.ScanOptions{Name: name, Strict: o.Strict, Report: o.Report}, Reuse: true}
	for item, err := range rrd.Read(ctx, r, opt) {
		if err != nil {
			var e *rrd.Error
			if !errors.As(err, &e) {
				return any, err
			}
			any = true
			fault(err)
			if e.Fatal {
				v.broken = true
				break
			}
			v.broken = v.broken || item == nil || item.Chunk == nil
			continue
		}
		any = true
		if o.Progress != nil {
			o.Progress(item.Size())
		}
		switch item.Kind {
		case rrd.KindArrow:
			if item.Chunk == nil {
				continue
			}
			v.at[item.Offset+rrd.MessageHeaderSize] = item.Chunk.ID()
			v.checkTypes(item.Chunk)
		case rrd.KindEnd:
			if !o.SkipFooters {
				v.checkFooter(&item.Message)
			}
		}
	}
	if any && !o.SkipFooters && v.manifests == 0 && !v.broken {
		fault(fmt.Errorf("%s: %w", name, ErrNoManifest))
	}
	return any, ctx.Err()
}

type verifier struct {
	name      string
	fault     func(error)
	at        map[int64]chunk.TUID // of each chunk, by the place of its payload
	manifests int
	broken    bool // something could not be read, and was told
}

func (v *verifier) checkTypes(c *chunk.Chunk) {
	for _, m := range c.Components() {
		want, ok := archetype.ComponentType(m.Type)
		if !ok {
			continue
		}
		have := m.Values.DataType().(*arrow.ListType).Elem()
		if !arrow.TypeEqual(want, have) {
			v.fault(fmt.Errorf("%s: chunk %s of %s: column %q: %w: %v instead of %v", v.name, c.ID(), c.EntityPath(), m.Component, ErrComponentType, have, want))
		}
	}
}

func (v *verifier) checkFooter(m *rrd.Message) {
	raw, err := m.ParseFooter()
	if err != nil {
		v.broken = true
		v.fault(fmt.Errorf("%s: footer at %d: %w", v.name, m.Offset, err))
		return
	}
	stores := map[rrd.StoreID]bool{}
	for _, r := range raw {
		v.manifests++
		man, err := r.Decode()
		if err != nil {
			v.fault(fmt.Errorf("%s: footer at %d: manifest of %s: %w", v.name, m.Offset, r.Store, err))
			continue
		}
		if stores[man.Store] {
			v.fault(fmt.Errorf("%s: footer at %d: %w: %s", v.name, m.Offset, ErrManyManifests, man.Store))
		}
		stores[man.Store] = true
		for _, f := range man.Schema().Fields() {
			if _, ok := f.Metadata.GetValue(chunk.KeyComponent); !ok && chunk.KindOf(f) == chunk.DataColumn {
				v.fault(fmt.Errorf("%s: manifest of %s: %w: column %q of the schema has no component", v.name, man.Store, rrd.ErrManifest, f.Name))
			}
		}
		for i := range man.Len() {
			if id, ok := v.at[man.Offset(i)]; !ok || id != man.ID(i) {
				v.fault(fmt.Errorf("%s: manifest of %s: %w: chunk %s at %d", v.name, man.Store, ErrAlignment, man.ID(i), man.Offset(i)))
			}
		}
	}
}
