package catalog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/reelhouse/reelhouse/chunk"
	"github.com/reelhouse/reelhouse/internal/gather"
	"github.com/reelhouse/reelhouse/rrd"
)

// loaded is one store of a file, ready to become a layer.
type loaded struct {
	segment string
	file    *recording
	index   *index
	schema  *layerSchema
	props   []property
	fault   error // why it cannot be a layer
}

// load opens a recording and indexes its stores of one kind. Only the footer
// and the chunks of properties are read, or, without a footer, the whole file once.
func (c *Catalog) load(ctx context.Context, path string, kind rrd.StoreKind) ([]loaded, error) {
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, refuse(ErrNotFound, "RRD file not found, file does not exist: %q", path)
	case err != nil:
		return nil, refuse(ErrNotFound, "RRD file not found, %w", err)
	case !st.Mode().IsRegular():
		return nil, refuse(ErrNotFound, "RRD file not found, path is not a file: %q", path)
	}
	fd, err := os.Open(path)
	if err != nil {
		return nil, refuse(ErrNotFound, "RRD file not found, %w", err)
	}
	// It was only read from.
	defer func() { _ = fd.Close() }()
	stores, err := c.loadStores(ctx, fd, path, st.Size(), kind)
	switch {
	case err == nil:
		return stores, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, rrd.ErrNotRRD), errors.Is(err, rrd.ErrOldMagic):
		var magic [4]byte
		n, _ := fd.ReadAt(magic[:], 0)
		return nil, refuse(ErrInvalid, "Failed to enumerate RRD stores: Not an RRD file: expected FourCC header \"RRF2\", got %q (%s)", magic[:n], path)
	case errors.Is(err, rrd.ErrTruncated):
		return nil, refuse(ErrInvalid, "Failed to enumerate RRD stores: %w: exceeds file size (%d)", err, st.Size())
	default:
		return nil, refuse(ErrInvalid, "Failed to enumerate RRD stores: %w", err)
	}
}

func (c *Catalog) loadStores(ctx context.Context, fd *os.File, path string, size int64, kind rrd.StoreKind) ([]loaded, error) {
	f, err := rrd.NewFile(fd, size, rrd.FileOptions{Name: path, Report: func(e *rrd.Error) {
		c.log.WarnContext(ctx, "fault in a recording without footer", "file", path, "error", e)
	}})
	if err != nil {
		return nil, err
	}
	manifests, err := f.Index(ctx)
	if err != nil {
		return nil, err
	}
	file, err := newRecording(fd, path, f.HasFooter())
	if err != nil {
		return nil, err
	}
	if file.size != size {
		return nil, refuse(ErrChanged, "%s changed while it was being registered", path)
	}
	var all []loaded
	for _, id := range f.Stores() {
		if id.Kind != kind {
			continue
		}
		var own []*rrd.Manifest
		for _, m := range manifests {
			if m.Store == id {
				own = append(own, m)
			}
		}
		one, err := indexStore(f, own)
		if err != nil {
			return nil, err
		}
		one.segment, one.file = id.Recording, file
		all = append(all, one)
	}
	return all, nil
}

// indexStore makes the index of a store out of its manifests: several if the
// file is concatenated.
func indexStore(f *rrd.File, manifests []*rrd.Manifest) (loaded, error) {
	one := loaded{index: newIndex()}
	var schemas []*arrow.Schema
	seen := map[chunk.TUID]bool{}
	props := propertySet{}
	for _, m := range manifests {
		schemas = append(schemas, m.Schema())
		for i := range m.Len() {
			if seen[m.ID(i)] {
				continue
			}
			seen[m.ID(i)] = true
			e := m.Entry(i)
			if !f.HasFooter() && (e.NumRows == 0 || len(e.Components) == 0) {
				continue // left by migration, and of no use
			}
			if err := one.index.add(&e); err != nil {
				return one, err
			}
			if !m.IsStatic(i) || !m.Entity(i).IsProperty() {
				continue
			}
			c, err := f.ReadChunk(m, i)
			if err != nil {
				return one, err
			}
			props.add(c)
		}
	}
	one.index.freeze()
	one.props = props.list()
	one.schema, one.fault = newLayerSchema(schemas)
	return one, nil
}

func newLayerSchema(schemas []*arrow.Schema) (*layerSchema, error) {
	if len(schemas) == 0 {
		schemas = append(schemas, arrow.NewSchema(nil, nil))
	}
	s, err := union(schemas...)
	if err != nil {
		return nil, fmt.Errorf("schema of the recording: %w", err)
	}
	hash, err := rrd.SchemaHash(s)
	if err != nil {
		return nil, fmt.Errorf("schema of the recording: %w", err)
	}
	return &layerSchema{hash: hash, schema: s}, nil
}

// propertySet collects the values of recording properties: those with the
// greatest row id.
type propertySet map[string]propertyValue

type propertyValue struct {
	rowID chunk.TUID
	value arrow.Array
}

func (p propertySet) add(c *chunk.Chunk) {
	for _, m := range c.Components() {
		name := chunk.ColumnName(c.EntityPath(), m.Component)
		for i := range c.NumRows() {
			if m.Values.IsNull(i) {
				continue
			}
			if have, ok := p[name]; ok && have.rowID.Compare(c.RowID(i)) > 0 {
				continue
			}
			p[name] = propertyValue{c.RowID(i), ownRow(m.Values, i)}
		}
	}
}

// ownRow copies a row, so that it does not keep the chunk in memory.
func ownRow(a arrow.Array, i int) arrow.Array {
	// The null keeps gather from slicing.
	out, err := gather.Rows(a.DataType(), []arrow.Array{a}, []gather.Span{{Src: 0, Start: i, Len: 1}, {Src: -1, Len: 1}})
	if err != nil {
		return array.NewSlice(a, int64(i), int64(i)+1)
	}
	return array.NewSlice(out, 0, 1)
}

func (p propertySet) list() []property {
	all := make([]property, 0, len(p))
	for name, v := range p {
		all = append(all, property{name, v.value})
	}
	return all
}
