package catalog

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/reelhouse/reelhouse/chunk"
	"github.com/reelhouse/reelhouse/rrd"
)

// Options are the options of [New].
type Options struct {
	// Dir is where staged uploads and live recordings are kept. Without it they
	// lie in a temporary folder that Close removes.
	Dir string
	// OpenFiles is how many recordings are kept open for reading; 0 means 256.
	OpenFiles int
	Log       *slog.Logger     // nothing is logged if nil
	Now       func() time.Time // time.Now if nil
}

// Catalog is a set of entries in memory.
type Catalog struct {
	now  func() time.Time
	log  *slog.Logger
	dir  string
	temp bool // dir is removed by Close

	files   *fileCache
	decoder rrd.Decoder // remembers schemas
	buffers sync.Pool   // of *[]byte that Fetch reads into
	ahead   *semaphore.Weighted
	events  events
	stage   stage
	live    live

	mu       sync.RWMutex
	byID     map[EntryID]*Dataset // the system table is not among them
	byName   map[string]EntryID
	layers   map[layerID]*layer
	tasks    taskLog
	system   Entry // of the table of entries
	isClosed bool
}

// New makes a catalog that has only the system table.
func New(opt Options) (*Catalog, error) {
	c := &Catalog{
		now: opt.Now, log: opt.Log, dir: opt.Dir,
		files:  newFileCache(opt.OpenFiles),
		ahead:  semaphore.NewWeighted(aheadBytes),
		byID:   map[EntryID]*Dataset{},
		byName: map[string]EntryID{},
		layers: map[layerID]*layer{},
	}
	if c.now == nil {
		c.now = time.Now
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	if c.dir == "" {
		dir, err := os.MkdirTemp("", "reel-*")
		if err != nil {
			return nil, fmt.Errorf("folder for uploads and live recordings: %w", err)
		}
		c.dir, c.temp = dir, true
	}
	c.live.init(c)
	now := c.now()
	c.system = Entry{ID: chunk.NewTUID(), Name: EntriesTable, Kind: KindTable, Created: now, Updated: now}
	c.byName[EntriesTable] = c.system.ID
	return c, nil
}

// Close ends live recordings and closes files. Calls that still run fail.
func (c *Catalog) Close() error {
	c.mu.Lock()
	if c.isClosed {
		c.mu.Unlock()
		return nil
	}
	c.isClosed = true
	c.mu.Unlock()
	c.events.close()
	err := errors.Join(c.live.close(), c.files.close())
	if c.temp {
		err = errors.Join(err, os.RemoveAll(c.dir))
	}
	return err
}

// Entries lists the entries that a filter selects, by name.
func (c *Catalog) Entries(f Filter) []Entry {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var all []Entry
	if f.matches(&c.system) {
		all = append(all, c.system)
	}
	for _, d := range c.byID {
		if f.matches(&d.entry) {
			all = append(all, d.entry)
		}
	}
	slices.SortFunc(all, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	return all
}

func unknownID(id EntryID) error { return refuse(ErrNotFound, "Entry id '%s' not found", id) }

// Dataset is the data set with that id.
func (c *Catalog) Dataset(id EntryID) (*Dataset, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if d := c.byID[id]; d != nil {
		return d, nil
	}
	if id == c.system.ID {
		return nil, refuse(ErrInvalid, "Entry '%s' is a table, not a dataset", c.system.Name)
	}
	return nil, unknownID(id)
}

// DatasetByName is the data set with that name.
func (c *Catalog) DatasetByName(name string) (*Dataset, error) {
	c.mu.RLock()
	id, ok := c.byName[name]
	c.mu.RUnlock()
	if !ok {
		return nil, refuse(ErrNotFound, "Entry name '%s' not found", name)
	}
	return c.Dataset(id)
}

// IsEntriesTable tells whether an id is that of the system table of entries. If
// it is, entry describes it.
func (c *Catalog) IsEntriesTable(id EntryID) (entry Entry, ok bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.system, id == c.system.ID
}

func alreadyExists(name string) error {
	return refuse(ErrExists, "Entry name '%s' already exists", name)
}

// CreateDataset makes an empty data set with a blueprint and an asset data set
// of its own. The id is chosen if none is given.
func (c *Catalog) CreateDataset(name string, id *EntryID) (*Dataset, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.createDataset(name, id)
}

func (c *Catalog) createDataset(name string, id *EntryID) (*Dataset, error) {
	if c.isClosed {
		return nil, refuse(ErrPrecondition, "the catalog is closed")
	}
	if _, ok := c.byName[name]; ok {
		return nil, alreadyExists(name)
	}
	if id != nil && (c.byID[*id] != nil || *id == c.system.ID) {
		return nil, refuse(ErrExists, "Entry id '%s' already exists", *id)
	}
	if id == nil || id.IsZero() {
		fresh := chunk.NewTUID()
		id = &fresh
	}
	for _, n := range []string{"__bp_" + id.String(), "__as_" + id.String()} {
		if _, ok := c.byName[n]; ok {
			return nil, alreadyExists(n)
		}
	}
	d := c.add(*id, name, KindDataset)
	d.details.Blueprints = c.addCompanion(d, KindBlueprint).entry.ID
	d.details.Assets = c.addCompanion(d, KindAsset).entry.ID
	c.events.send(Event{Created: true, ID: d.entry.ID, Kind: KindDataset})
	return d, nil
}

// addCompanion makes the blueprint or asset data set that d owns.
func (c *Catalog) addCompanion(d *Dataset, kind Kind) *Dataset {
	prefix := "__bp_"
	if kind == KindAsset {
		prefix = "__as_"
	}
	k := c.add(chunk.NewTUID(), prefix+d.entry.ID.String(), kind)
	k.owner = d.entry.ID
	return k
}

func (c *Catalog) add(id EntryID, name string, kind Kind) *Dataset {
	now := c.now()
	d := &Dataset{catalog: c, entry: Entry{ID: id, Name: name, Kind: kind, Created: now, Updated: now},
		segments: map[string]*segment{}, schemas: map[schemaHash]*layerSchema{}, props: map[string]*properties{}}
	c.byID[id] = d
	c.byName[name] = id
	c.system.Updated = now
	return d
}

// touch notes that an entry has changed.
func (c *Catalog) touch(d *Dataset) {
	d.entry.Updated = c.now()
	c.system.Updated = d.entry.Updated
}

// Rename gives an entry another name; the old one becomes free.
func (c *Catalog) Rename(id EntryID, name string) (Entry, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := c.byID[id]
	switch {
	case d == nil && id == c.system.ID && name == c.system.Name:
		return c.system, nil
	case d == nil && id == c.system.ID:
		return Entry{}, refuse(ErrInvalid, "system table '%s' cannot be renamed", c.system.Name)
	case d == nil:
		return Entry{}, unknownID(id)
	case d.entry.Name == name:
		return d.entry, nil
	}
	if err := checkName(name); err != nil {
		return Entry{}, err
	}
	if _, ok := c.byName[name]; ok {
		return Entry{}, alreadyExists(name)
	}
	delete(c.byName, d.entry.Name)
	c.byName[name] = id
	d.entry.Name = name
	c.touch(d)
	return d.entry, nil
}

// Entry is the entry with that id, of any kind.
func (c *Catalog) Entry(id EntryID) (Entry, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if d := c.byID[id]; d != nil {
		return d.entry, nil
	}
	if id == c.system.ID {
		return c.system, nil
	}
	return Entry{}, unknownID(id)
}

// Delete removes an entry, and with a data set the blueprints and assets that
// it owns. Data files stay.
func (c *Catalog) Delete(id EntryID) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := c.byID[id]
	switch {
	case d == nil && id == c.system.ID:
		return refuse(ErrInvalid, "system table '%s' cannot be deleted", c.system.Name)
	case d == nil:
		return unknownID(id)
	}
	c.remove(d)
	for _, o := range c.byID {
		switch {
		case o.owner == id:
			c.remove(o)
		case o.details.Blueprints == id:
			o.details.Blueprints, o.details.DefaultBlueprint, o.details.DefaultTableBlueprint = EntryID{}, nil, nil
		}
	}
	if d.entry.Kind == KindDataset {
		c.events.send(Event{ID: id, Kind: KindDataset})
	}
	return nil
}

func (c *Catalog) remove(d *Dataset) {
	for _, s := range d.order {
		for _, l := range s.layers {
			c.dropLayer(l)
		}
	}
	delete(c.byID, d.entry.ID)
	delete(c.byName, d.entry.Name)
	d.gone = true
	c.system.Updated = c.now()
}

// randomID makes an unguessable text of hex digits.
func randomID(bytes int) string {
	b := make([]byte, bytes)
	// crypto/rand never fails on the systems that Go supports.
	_, _ = io.ReadFull(rand.Reader, b)
	return hex.EncodeToString(b)
}

// Stats are numbers about a catalog.
type Stats struct {
	Datasets  int // without those of blueprints and assets
	Layers    int
	OpenFiles int
}

// Stats counts what the catalog holds.
func (c *Catalog) Stats() Stats {
	c.mu.RLock()
	defer c.mu.RUnlock()
	s := Stats{Layers: len(c.layers), OpenFiles: c.files.count()}
	for _, d := range c.byID {
		if d.entry.Kind == KindDataset {
			s.Datasets++
		}
	}
	return s
}
