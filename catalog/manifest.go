package catalog

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/reelhouse/reelhouse/chunk"
	"github.com/reelhouse/reelhouse/rrd"
)

// Index is the manifest of a segment: what the footers of its files say, put
// together, with a column of keys for [Catalog.Fetch].
type Index struct {
	Store  rrd.StoreID
	Schema *arrow.Schema // of all chunks
	Hash   [32]byte      // of the schema of one layer
	Chunks arrow.RecordBatch
}

// Index is the manifest of a segment, merged over its layers (spec/catalog.md
// 4.3).
func (d *Dataset) Index(segmentID string) (*Index, error) {
	c := d.catalog
	c.mu.RLock()
	defer c.mu.RUnlock()
	s := d.segments[segmentID]
	if s == nil {
		return nil, refuse(ErrNotFound, "Segment '%s' not found in dataset '%s'", segmentID, d.entry.ID)
	}
	store := rrd.StoreID{Kind: d.storeKind(), Application: "none", Recording: segmentID}
	b := rrd.NewManifestBuilder(store)
	var keys []byte
	var schemas []*arrow.Schema
	for _, l := range s.layers {
		schemas = append(schemas, l.schema.schema)
		for i := range l.index.chunks {
			e := l.index.entry(i)
			b.Add(&e)
			keys = appendKey(keys, l.id, uint32(i))
		}
	}
	schema, err := union(schemas...)
	if err != nil {
		return nil, err
	}
	version := metadata(chunk.KeyVersion, chunk.Version)
	schema = arrow.NewSchema(schema.Fields(), &version)
	batch := b.Batch()
	f := newFrame(int(batch.NumRows()))
	for i, field := range batch.Schema().Fields() {
		field.Nullable = true
		f.add(field, batch.Column(i))
	}
	f.keys(keys, true)
	return &Index{store, schema, s.layers[0].schema.hash, array.NewRecordBatch(arrow.NewSchema(f.fields, nil), f.cols, int64(f.rows))}, nil
}
