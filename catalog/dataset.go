package catalog

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/reelhouse/reelhouse/chunk"
)

// Dataset is a set of segments: recordings, or blueprints or assets of another
// data set. After it was deleted its methods fail or find nothing.
type Dataset struct {
	catalog *Catalog

	// Guarded by the lock of the catalog.
	entry    Entry
	details  Details
	owner    EntryID // of a blueprint or asset data set
	gone     bool
	segments map[string]*segment
	order    []*segment // as they came
	schemas  map[schemaHash]*layerSchema
	props    map[string]*properties

	cacheMu sync.Mutex
	merged  *arrow.Schema // of all layers; nil if not known
}

// segment is one recording in its layers.
type segment struct {
	id     string
	layers []*layer // by registration time, then name
}

type layerID = chunk.TUID

// layer is a part of a segment: what one file has of it.
type layer struct {
	id         layerID
	data       *Dataset
	segment    string
	name       string
	url        string
	registered time.Time
	updated    time.Time // of a live layer, when it last grew
	file       *recording
	index      *index
	schema     *layerSchema
	props      []property
}

// property is a value that a recording has logged about itself.
type property struct {
	column string
	value  arrow.Array // of one row
}

// Entry describes the data set.
func (d *Dataset) Entry() Entry {
	d.catalog.mu.RLock()
	defer d.catalog.mu.RUnlock()
	return d.entry
}

// Describe gives the entry with the companions and defaults of the data set.
func (d *Dataset) Describe() (Entry, Details) {
	d.catalog.mu.RLock()
	defer d.catalog.mu.RUnlock()
	return d.entry, d.details
}

// SetDetails replaces the details. Without an asset data set the old one is
// kept, or made anew if it is gone.
func (d *Dataset) SetDetails(n Details) (Entry, Details, error) {
	c := d.catalog
	c.mu.Lock()
	defer c.mu.Unlock()
	if d.gone {
		return Entry{}, Details{}, unknownID(d.entry.ID)
	}
	if n.Blueprints.IsZero() && (n.DefaultBlueprint != nil || n.DefaultTableBlueprint != nil) {
		return Entry{}, Details{}, refuse(ErrInvalid, "default dataset blueprint requires a blueprint dataset")
	}
	companion := func(id EntryID, kind Kind, what string) error {
		if id.IsZero() {
			return nil
		}
		o := c.byID[id]
		if o == nil {
			return refuse(ErrInvalid, "dataset %s dataset does not exist: %w", what, unknownID(id))
		}
		if o.entry.Kind != kind {
			article := "a"
			if kind == KindAsset {
				article = "an"
			}
			return refuse(ErrInvalid, "dataset %s dataset must be %s %s dataset", what, article, what)
		}
		return nil
	}
	if err := companion(n.Blueprints, KindBlueprint, "blueprint"); err != nil {
		return Entry{}, Details{}, err
	}
	if err := companion(n.Assets, KindAsset, "asset"); err != nil {
		return Entry{}, Details{}, err
	}
	if n.Assets.IsZero() {
		n.Assets = d.details.Assets
		if c.byID[n.Assets] == nil && d.entry.Kind == KindDataset {
			n.Assets = c.addCompanion(d, KindAsset).entry.ID
		}
	}
	d.details = n
	c.touch(d)
	return d.entry, d.details, nil
}

// Schema is the union of the schemas of all layers: row id, timelines and data
// columns by name. It has no fields without a segment.
func (d *Dataset) Schema() *arrow.Schema {
	d.catalog.mu.RLock()
	defer d.catalog.mu.RUnlock()
	return d.currentSchema()
}

// LayerSchema is the schema of a layer with that hash, or nil.
func (d *Dataset) LayerSchema(hash [32]byte) *arrow.Schema {
	d.catalog.mu.RLock()
	defer d.catalog.mu.RUnlock()
	if s := d.schemas[hash]; s != nil {
		return s.schema
	}
	return nil
}

// put adds a layer that was checked to fit, in place of one with the same name
// if there is one. The caller holds the lock.
func (d *Dataset) put(l *layer) {
	d.useSchema(l)
	s := d.segments[l.segment]
	if s == nil {
		s = &segment{id: l.segment}
		d.segments[l.segment] = s
		d.order = append(d.order, s)
	}
	if i := s.find(l.name); i >= 0 {
		old := s.layers[i]
		s.layers = slices.Delete(s.layers, i, i+1)
		d.catalog.dropLayer(old)
		d.dropSchema(old)
	}
	i, _ := slices.BinarySearchFunc(s.layers, l, func(a, b *layer) int {
		if c := a.registered.Compare(b.registered); c != 0 {
			return c
		}
		return strings.Compare(a.name, b.name)
	})
	s.layers = slices.Insert(s.layers, i, l)
	d.catalog.layers[l.id] = l
}

// drop removes the layers that match and the segments that have none left.
func (d *Dataset) drop(match func(*layer) bool) (dropped int) {
	for _, s := range d.order {
		s.layers = slices.DeleteFunc(s.layers, func(l *layer) bool {
			if !match(l) {
				return false
			}
			d.catalog.dropLayer(l)
			d.dropSchema(l)
			dropped++
			return true
		})
	}
	d.order = slices.DeleteFunc(d.order, func(s *segment) bool {
		if len(s.layers) > 0 {
			return false
		}
		delete(d.segments, s.id)
		return true
	})
	return dropped
}

func (d *Dataset) useSchema(l *layer) {
	if s := d.schemas[l.schema.hash]; s != nil {
		l.schema = s
	} else {
		d.schemas[l.schema.hash] = l.schema
		d.setMerged(nil)
	}
	l.schema.layers++
}

func (d *Dataset) dropSchema(l *layer) {
	l.schema.layers--
	if l.schema.layers == 0 {
		delete(d.schemas, l.schema.hash)
		d.setMerged(nil)
	}
}

func (d *Dataset) setMerged(s *arrow.Schema) {
	d.cacheMu.Lock()
	d.merged = s
	d.cacheMu.Unlock()
}

// changed is when the layer got its content.
func (l *layer) changed() time.Time {
	if l.updated.After(l.registered) {
		return l.updated
	}
	return l.registered
}

func (s *segment) find(name string) int {
	return slices.IndexFunc(s.layers, func(l *layer) bool { return l.name == name })
}

// dropLayer makes a layer unreachable by chunk keys.
func (c *Catalog) dropLayer(l *layer) {
	delete(c.layers, l.id)
	c.files.forget(l.file)
}
