package catalog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/reelhouse/reelhouse/chunk"
	"github.com/reelhouse/reelhouse/rrd"
)

// live is what is being received. Each store is spooled to a recording file as
// it comes and is a layer of a segment from its first message on.
type live struct {
	catalog *Catalog

	mu       sync.Mutex
	stores   map[rrd.StoreID]*liveStore
	messages []liveMessage // in the order of arrival
	changed  chan struct{} // closed when there are more
	closed   bool
}

// liveMessage is a message for those who follow: as bytes, or as a chunk of a layer.
type liveMessage struct {
	kind    rrd.Kind
	encoded []byte
	layer   *layer
	chunk   chunkInfo
}

// liveStore is one store. Its lock is taken before that of the catalog.
type liveStore struct {
	id rrd.StoreID

	mu      sync.Mutex
	layer   *layer
	writers int // ingests that have written to it and have not ended

	// Of the file while it is written to. end is where its footer starts once
	// it has one: a store that is written to again loses it for a while.
	file   *os.File
	writer *rrd.Writer
	end    int64

	fields map[liveField]arrow.DataType
	schema *rrd.ManifestBuilder // of what made a difference to the schema
	props  propertySet
}

type liveField struct {
	entity    chunk.EntityPath
	component string
	static    bool
	empty     bool
}

func (l *live) init(c *Catalog) {
	l.catalog = c
	l.stores = map[rrd.StoreID]*liveStore{}
	l.changed = make(chan struct{})
}

// close ends the files of all stores.
func (l *live) close() error {
	l.mu.Lock()
	stores := l.stores
	l.stores = map[rrd.StoreID]*liveStore{}
	l.closed = true
	close(l.changed)
	l.mu.Unlock()
	var errs []error
	for _, s := range stores {
		s.mu.Lock()
		errs = append(errs, s.finish())
		s.mu.Unlock()
	}
	return errors.Join(errs...)
}

// post appends a message for those who follow. Nothing is posted after close.
func (l *live) post(m liveMessage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.messages = append(l.messages, m)
	close(l.changed)
	l.changed = make(chan struct{})
}

// Ingest takes the messages of one live stream. It is not safe for concurrent
// use; several may be open at once.
type Ingest struct {
	live *live
	used map[*liveStore]bool
}

// Ingest starts to take a live stream. The caller closes it at its end.
func (c *Catalog) Ingest() *Ingest { return &Ingest{&c.live, map[*liveStore]bool{}} }

// Write takes one message as it is encoded in recordings. What it holds can be
// queried when Write returns. Chunks that do not fit the data set are logged
// and left out; the error is about messages that cannot be read, and about
// files that cannot be written.
func (in *Ingest) Write(ctx context.Context, kind rrd.Kind, encoded []byte) error {
	switch kind {
	case rrd.KindStoreInfo:
		info, err := rrd.ParseStoreInfo(encoded)
		if err != nil {
			return refuse(ErrInvalid, "store info: %w", err)
		}
		s, err := in.store(info.Store)
		if err != nil {
			return err
		}
		defer s.mu.Unlock()
		if err := s.writer.SetStoreInfo(info); err != nil {
			return err
		}
		in.live.post(liveMessage{kind: kind, encoded: encoded})
		return nil
	case rrd.KindArrow:
		return in.chunk(ctx, encoded)
	case rrd.KindActivation:
		a, err := rrd.ParseActivation(encoded)
		if err != nil {
			return refuse(ErrInvalid, "blueprint activation: %w", err)
		}
		if err := in.live.activate(a); err != nil {
			return err
		}
		in.live.post(liveMessage{kind: kind, encoded: encoded})
		return nil
	}
	return refuse(ErrInvalid, "unexpected message of kind %d", kind)
}

// Close ends the stream. Files that nobody else writes to get their footers.
func (in *Ingest) Close() error {
	var errs []error
	for s := range in.used {
		s.mu.Lock()
		if s.writers--; s.writers == 0 {
			errs = append(errs, s.finish())
		}
		s.mu.Unlock()
	}
	clear(in.used)
	return errors.Join(errs...)
}

// store finds or makes a store and returns it locked and open for writing.
func (in *Ingest) store(id rrd.StoreID) (*liveStore, error) {
	l := in.live
	id.Application = rrd.CleanApplicationID(id.Application)
	if id.Application == "" || id.Recording == "" {
		return nil, refuse(ErrInvalid, "store id %v lacks an application or recording id", id)
	}
	for {
		l.mu.Lock()
		if l.closed {
			l.mu.Unlock()
			return nil, refuse(ErrPrecondition, "the catalog is closed")
		}
		s := l.stores[id]
		if s == nil {
			s = &liveStore{id: id}
			l.stores[id] = s
		}
		l.mu.Unlock()
		s.mu.Lock()
		if s.layer != nil && !l.catalog.hasLayer(s.layer) {
			// The segment was removed: what comes from now on starts another one.
			err := s.finish()
			l.mu.Lock()
			if l.stores[id] == s {
				delete(l.stores, id)
			}
			l.mu.Unlock()
			s.mu.Unlock()
			if err != nil {
				return nil, err
			}
			continue
		}
		if err := in.open(s); err != nil {
			s.mu.Unlock()
			return nil, err
		}
		return s, nil
	}
}

func (c *Catalog) hasLayer(l *layer) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.layers[l.id] == l
}

// open makes the layer of a store, and its file ready for writing.
func (in *Ingest) open(s *liveStore) error {
	c := in.live.catalog
	if s.layer == nil {
		dir := filepath.Join(c.dir, "live")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("live recording: %w", err)
		}
		id := chunk.NewTUID()
		path := filepath.Join(dir, spoolName(s.id, id))
		s.fields, s.schema, s.props = map[liveField]arrow.DataType{}, rrd.NewManifestBuilder(s.id), propertySet{}
		if err := c.addLive(s, id, path); err != nil {
			return err
		}
	}
	if s.writer == nil {
		if err := s.open(); err != nil {
			return fmt.Errorf("live recording: %w", err)
		}
	}
	if !in.used[s] {
		in.used[s] = true
		s.writers++
	}
	return nil
}

// open opens the file for writing, behind what is there already.
func (s *liveStore) open() error {
	path := s.layer.file.path
	opt := rrd.WriterOptions{Workers: 1}
	if s.end == 0 {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			return err
		}
		s.file, s.writer = f, rrd.NewWriter(f, opt)
		return nil
	}
	old, err := rrd.Open(path, rrd.FileOptions{})
	if err != nil {
		return err
	}
	manifests, err := old.Manifests()
	if err := errors.Join(err, old.Close()); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Seek(s.end, io.SeekStart)
	if err := errors.Join(err, f.Truncate(s.end)); err != nil {
		return errors.Join(err, f.Close())
	}
	s.file, s.writer = f, rrd.ResumeWriter(f, opt, s.end, manifests)
	return nil
}

func spoolName(id rrd.StoreID, unique chunk.TUID) string {
	name := url.PathEscape(id.Application) + "-" + url.PathEscape(id.Recording)
	if len(name) > 180 {
		name = name[:180]
	}
	return name + "-" + unique.String() + ".rrd"
}

// finish writes the footer of the file. It can be opened again.
func (s *liveStore) finish() error {
	if s.writer == nil {
		return nil
	}
	err := s.writer.Flush()
	s.end = s.writer.Offset()
	err = errors.Join(err, s.writer.Close(), s.file.Close())
	s.writer, s.file = nil, nil
	if err != nil {
		return fmt.Errorf("live recording %s: %w", s.layer.file.path, err)
	}
	return nil
}

// addLive makes the layer of a store in the data set of its application, which
// is made if there is none.
func (c *Catalog) addLive(s *liveStore, id layerID, path string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	d, err := c.liveDataset(s.id)
	if err != nil {
		return err
	}
	name := BaseLayer
	if seg := d.segments[s.id.Recording]; seg != nil {
		for n := 0; seg.find(name) >= 0; n++ {
			name = "live"
			if n > 0 {
				name = fmt.Sprintf("live-%d", n)
			}
		}
	}
	schema, err := newLayerSchema(nil)
	if err != nil {
		return err
	}
	now := c.now()
	s.layer = &layer{id: id, data: d, segment: s.id.Recording, name: name, url: FileURL(path), registered: now, updated: now,
		file: &recording{path: path, live: true}, index: newIndex(), schema: schema}
	d.put(s.layer)
	c.touch(d)
	return nil
}

// liveDataset is the data set for a store.
func (c *Catalog) liveDataset(id rrd.StoreID) (*Dataset, error) {
	d := c.byID[c.byName[id.Application]]
	if d == nil || d.entry.Kind != KindDataset {
		if err := checkName(id.Application); err != nil {
			return nil, err
		}
		var err error
		if d, err = c.createDataset(id.Application, nil); err != nil {
			return nil, err
		}
	}
	if id.Kind != rrd.Blueprint {
		return d, nil
	}
	b := c.byID[d.details.Blueprints]
	if b == nil {
		b = c.byID[c.byName["__bp_"+d.entry.ID.String()]]
		if b == nil {
			b = c.addCompanion(d, KindBlueprint)
		}
		d.details.Blueprints = b.entry.ID
	}
	return b, nil
}

// activate makes a live blueprint the default one of its application.
func (l *live) activate(a rrd.Activation) error {
	if !a.MakeActive && !a.MakeDefault {
		return nil
	}
	c := l.catalog
	a.Blueprint.Application = rrd.CleanApplicationID(a.Blueprint.Application)
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, err := c.liveDataset(a.Blueprint); err != nil {
		return err
	}
	d := c.byID[c.byName[a.Blueprint.Application]]
	d.details.DefaultBlueprint = &a.Blueprint.Recording
	c.touch(d)
	return nil
}

// chunk takes an encoded chunk.
func (in *Ingest) chunk(ctx context.Context, encoded []byte) error {
	m, err := rrd.ParseArrowMsg(encoded)
	if err != nil {
		return refuse(ErrInvalid, "chunk message: %w", err)
	}
	ch, err := in.live.catalog.decoder.Chunk(&m, nil)
	if err != nil {
		return refuse(ErrInvalid, "chunk: %w", err)
	}
	if m.Compression == rrd.CompressionUnspecified || !isCurrent(&m, new([]byte)) {
		store := m.Store
		if m, err = rrd.EncodeChunk(store, ch, true); err != nil {
			return err
		}
	}
	s, err := in.store(m.Store)
	if err != nil {
		return err
	}
	defer s.mu.Unlock()
	m.Store = s.id
	e := rrd.NewEntry(ch)
	fresh, err := s.fit(&e)
	if err != nil {
		in.live.catalog.log.WarnContext(ctx, "live chunk does not fit its data set and is left out", "store", s.id.String(), "entity", e.Entity, "error", err)
		return nil
	}
	if err := s.write(&m, &e); err != nil {
		return err
	}
	if e.Static && e.Entity.IsProperty() {
		s.props.add(ch)
	}
	if err := in.live.catalog.addLiveChunk(s, &e, fresh); err != nil {
		return err
	}
	x := s.layer.index
	in.live.post(liveMessage{kind: rrd.KindArrow, layer: s.layer, chunk: x.chunks[len(x.chunks)-1]})
	return nil
}

// write appends a chunk to the file and notes in the entry where it lies.
func (s *liveStore) write(m *rrd.ArrowMsg, e *rrd.Entry) error {
	if err := s.writer.SetStoreInfo(rrd.StoreInfo{Store: s.id}); err != nil {
		return err
	}
	before := s.writer.Offset()
	if err := s.writer.WriteEncoded(m, e); err != nil {
		return err
	}
	if err := s.writer.Flush(); err != nil {
		return err
	}
	e.Offset = before + rrd.MessageHeaderSize
	e.Size = uint64(s.writer.Offset() - before - rrd.MessageHeaderSize)
	e.UncompressedSize = m.UncompressedSize
	return nil
}

// fit notes what a chunk adds to the schema of the store. fresh is the new
// schema, or nil if it is the same. The error says what does not fit.
func (s *liveStore) fit(e *rrd.Entry) (fresh *layerSchema, err error) {
	news := false
	for _, t := range e.Times {
		n := s.layer.index.timeline(t.Name)
		news = news || n < 0
		if n >= 0 && s.layer.index.timelines[n].Kind != t.Kind {
			return nil, fmt.Errorf("timeline %q is %v, not %v", t.Name, s.layer.index.timelines[n].Kind, t.Kind)
		}
	}
	for i := range e.Components {
		c := &e.Components[i]
		have, ok := s.fields[liveField{e.Entity, c.Component, c.Static, c.Empty}]
		news = news || !ok
		if ok && !arrow.TypeEqual(have, c.Type) {
			return nil, fmt.Errorf("component %q of %s is of type %v, not %v", c.Component, e.Entity, c.Type, have)
		}
	}
	if !news {
		return nil, nil
	}
	// A new builder would forget what came before; a chunk that does not fit is
	// tried on its own first.
	one := rrd.NewManifestBuilder(s.id)
	one.Add(e)
	d := s.layer.data
	d.catalog.mu.RLock()
	_, err = d.mergedWith(one.Schema(), nil)
	d.catalog.mu.RUnlock()
	if err != nil {
		return nil, err
	}
	s.schema.Add(e)
	for i := range e.Components {
		c := &e.Components[i]
		s.fields[liveField{e.Entity, c.Component, c.Static, c.Empty}] = c.Type
	}
	return newLayerSchema([]*arrow.Schema{s.schema.Schema()})
}

// addLiveChunk makes a chunk visible.
func (c *Catalog) addLiveChunk(s *liveStore, e *rrd.Entry, fresh *layerSchema) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := s.layer.index.add(e); err != nil {
		return err
	}
	d := s.layer.data
	s.layer.updated = c.now()
	if fresh != nil {
		d.dropSchema(s.layer)
		s.layer.schema = fresh
		d.useSchema(s.layer)
	}
	if len(s.props) > len(s.layer.props) || e.Entity.IsProperty() {
		s.layer.props = s.props.list()
	}
	return nil
}

// Follow calls f with all live messages since the catalog was made, and then
// with each that comes, in the order of arrival and encoded as in recordings,
// until the context ends, f fails or the catalog is closed. started is called
// first. Chunks of segments that are gone are left out.
func (c *Catalog) Follow(ctx context.Context, started func() error, f func(rrd.Kind, []byte) error) error {
	if err := started(); err != nil {
		return err
	}
	l := &c.live
	for n := 0; ; {
		l.mu.Lock()
		todo, changed, closed := l.messages[n:], l.changed, l.closed
		l.mu.Unlock()
		for _, m := range todo {
			if err := ctx.Err(); err != nil {
				return err
			}
			encoded := m.encoded
			if m.layer != nil {
				if !c.hasLayer(m.layer) {
					continue
				}
				b, err := c.read(run{m.layer, []chunkInfo{m.chunk}}, new([]byte))
				if err != nil {
					return err
				}
				encoded = b[0]
			}
			if err := f(m.kind, encoded); err != nil {
				return err
			}
		}
		n += len(todo)
		if closed {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}
