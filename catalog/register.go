package catalog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"golang.org/x/sync/errgroup"

	"github.com/reelhouse/reelhouse/chunk"
	"github.com/reelhouse/reelhouse/rrd"
)

// Source is a recording file, or a folder of them, to be registered.
type Source struct {
	URL    string // with scheme file
	Layer  string // "base" if empty
	Folder bool   // all files below it that end in .rrd
}

// BaseLayer is the name of layers that were not given one.
const BaseLayer = "base"

// OnDuplicate says what to do about a layer that a segment already has.
type OnDuplicate uint8

// The policies for duplicates.
const (
	SkipDuplicates OnDuplicate = iota
	OverwriteDuplicates
	FailDuplicates
)

// Registered is what became of one layer of one segment. The task tells
// whether it was registered: see [Catalog.Tasks].
type Registered struct {
	Segment, Layer, URL, Task string
}

// Limits of what companions of a data set may hold (spec/catalog.md 4).
const (
	maxAssetBytes     = 300 << 20 // a segment
	maxAssetLayers    = 12
	maxBlueprintBytes = 25 << 20 // a segment
)

// candidate is a layer that is to be registered.
type candidate struct {
	loaded
	layer, url string
}

// Register adds the recordings of the sources as layers of segments: one for
// each store of the right kind in each file. The error is about the request as
// a whole, and nothing is registered then. What keeps a single layer out is
// told by its task.
func (d *Dataset) Register(ctx context.Context, sources []Source, dup OnDuplicate) ([]Registered, error) {
	if len(sources) == 0 {
		return nil, refuse(ErrInvalid, "no data sources to register")
	}
	files, err := listFiles(sources)
	if err != nil {
		return nil, err
	}
	all, err := d.loadAll(ctx, files)
	if err != nil {
		return nil, err
	}
	if err := checkDoubles(all); err != nil {
		return nil, err
	}
	c := d.catalog
	c.mu.Lock()
	defer c.mu.Unlock()
	if d.gone || c.isClosed {
		return nil, unknownID(d.entry.ID)
	}
	done := make([]Registered, len(all))
	for i, cand := range all {
		done[i] = Registered{cand.segment, cand.layer, cand.url, TaskDone}
		if err := d.commit(cand, dup); err != nil {
			done[i].Task = c.tasks.fail(fmt.Sprintf("Registration failed for the segments/layers listed below.\n- Segment %q, layer %q: %v", cand.segment, cand.layer, err))
		}
	}
	c.touch(d)
	return done, nil
}

// sourceFile is a file of a source.
type sourceFile struct{ path, url, layer string }

// filePath is the path of a file URL.
func filePath(raw string) (string, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return "", refuse(ErrInvalid, "could not parse url: %w", err)
	case u.Scheme == "":
		return "", refuse(ErrInvalid, "could not parse url: relative URL without a base")
	case u.Scheme != "file":
		return "", refuse(ErrNotFound, "RRD file not found, could not load URI: %s", raw)
	case u.Host != "" && u.Host != "localhost":
		return "", refuse(ErrNotFound, "RRD file not found, file URI should not have a host: %s (this may be caused by invalid relative-path URI)", raw)
	case !filepath.IsAbs(filepath.FromSlash(u.Path)):
		return "", refuse(ErrInvalid, "could not parse url: %s has no absolute path", raw)
	}
	return filepath.Clean(filepath.FromSlash(u.Path)), nil
}

// FileURL is the URL of a file with an absolute path.
func FileURL(path string) string {
	return (&url.URL{Scheme: "file", Path: filepath.ToSlash(path)}).String()
}

func listFiles(sources []Source) ([]sourceFile, error) {
	var files []sourceFile
	for _, s := range sources {
		path, err := filePath(s.URL)
		if err != nil {
			return nil, err
		}
		layer := s.Layer
		if layer == "" {
			layer = BaseLayer
		}
		if !s.Folder {
			files = append(files, sourceFile{path, s.URL, layer})
			continue
		}
		below, err := recordingsBelow(path)
		if err != nil {
			return nil, err
		}
		for _, p := range below {
			files = append(files, sourceFile{p, FileURL(p), layer})
		}
	}
	return files, nil
}

// recordingsBelow lists the recordings of a folder and all folders in it.
func recordingsBelow(dir string) ([]string, error) {
	st, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, refuse(ErrInvalid, "Directory not found: %q", dir)
	case err != nil:
		return nil, refuse(ErrInvalid, "Directory not readable: %w", err)
	case !st.IsDir():
		return nil, refuse(ErrInvalid, "expected prefix / directory but got an object (%q)", dir)
	}
	var paths []string
	// The root may be a link to the folder.
	root, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, refuse(ErrInvalid, "Directory not readable: %w", err)
	}
	err = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return refuse(ErrInvalid, "Directory not readable: %w", err)
		}
		if e.IsDir() || strings.ToLower(filepath.Ext(path)) != ".rrd" {
			return nil
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if st, err := os.Stat(path); err == nil && st.Mode().IsRegular() {
			paths = append(paths, filepath.Join(dir, rel))
		}
		return nil
	})
	if err == nil && len(paths) == 0 {
		err = refuse(ErrInvalid, "no rrd files found in directory %q", dir)
	}
	return paths, err
}

// storeKind is the kind of stores that a data set takes.
func (d *Dataset) storeKind() rrd.StoreKind {
	if d.entry.Kind == KindBlueprint {
		return rrd.Blueprint
	}
	return rrd.Recording
}

// loadAll loads files, several at once, and keeps their order. The first error
// in that order is the one returned.
func (d *Dataset) loadAll(ctx context.Context, files []sourceFile) ([]candidate, error) {
	stores := make([][]loaded, len(files))
	errs := make([]error, len(files))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(2 * runtime.GOMAXPROCS(0))
	for i, f := range files {
		g.Go(func() error {
			stores[i], errs[i] = d.catalog.load(gctx, f.path, d.storeKind())
			return errs[i]
		})
	}
	err := g.Wait()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		for _, e := range errs {
			if e != nil && !errors.Is(e, context.Canceled) {
				return nil, e
			}
		}
		return nil, err
	}
	var all []candidate
	for i, f := range files {
		for _, s := range stores[i] {
			all = append(all, candidate{s, f.layer, f.url})
		}
	}
	return all, nil
}

// checkDoubles refuses a request that names a layer of a segment twice.
func checkDoubles(all []candidate) error {
	type key struct{ segment, layer string }
	urls := map[key][]string{}
	var order []key
	double := false
	for _, c := range all {
		k := key{c.segment, c.layer}
		if urls[k] == nil {
			order = append(order, k)
		} else {
			double = true
		}
		urls[k] = append(urls[k], c.url)
	}
	if !double {
		return nil
	}
	var b strings.Builder
	b.WriteString("duplicate segment layers in request:")
	for _, k := range order {
		if len(urls[k]) < 2 {
			continue
		}
		fmt.Fprintf(&b, "\n  segment id: %s, layer name: %s", k.segment, k.layer)
		for _, u := range urls[k] {
			b.WriteString("\n    " + u)
		}
	}
	return refuse(ErrInvalid, "%s", b.String())
}

// commit makes a candidate a layer. The caller holds the lock.
func (d *Dataset) commit(cand candidate, dup OnDuplicate) error {
	var old *layer
	if s := d.segments[cand.segment]; s != nil {
		if i := s.find(cand.layer); i >= 0 {
			old = s.layers[i]
		}
	}
	if old != nil {
		switch dup {
		case SkipDuplicates:
			return nil
		case FailDuplicates:
			return errors.New("already exists")
		}
	}
	if cand.fault != nil {
		return cand.fault
	}
	if err := d.checkLimits(cand, old); err != nil {
		return err
	}
	var merged *arrow.Schema // if it is not the same as before
	if d.schemas[cand.schema.hash] == nil {
		var err error
		if merged, err = d.mergedWith(cand.schema.schema, old); err != nil {
			return fmt.Errorf("schema incompatibility on segment '%s', layer '%s': Schema error: %w", cand.segment, cand.layer, err)
		}
	}
	l := &layer{id: chunk.NewTUID(), data: d, segment: cand.segment, name: cand.layer, url: cand.url, registered: d.catalog.now(),
		file: cand.file, index: cand.index, schema: cand.schema, props: cand.props}
	d.put(l)
	if merged != nil {
		d.setMerged(merged)
	}
	return nil
}

// checkLimits applies the rules for assets and blueprints. The layer that is
// to be replaced does not count.
func (d *Dataset) checkLimits(cand candidate, old *layer) error {
	if d.entry.Kind == KindDataset {
		return nil
	}
	size := cand.index.bytes()
	layers := 1
	for _, s := range d.order {
		for _, l := range s.layers {
			if l == old {
				continue
			}
			layers++
			if s.id == cand.segment {
				size += l.index.bytes()
			}
		}
	}
	if d.entry.Kind == KindBlueprint {
		if size > maxBlueprintBytes {
			return fmt.Errorf("blueprint '%s' has %d bytes, more than the limit of %d", cand.segment, size, maxBlueprintBytes)
		}
		return nil
	}
	for i := range cand.index.chunks {
		if !cand.index.chunks[i].static {
			return fmt.Errorf("asset datasets only accept static chunks, but asset '%s' contains temporal data", cand.segment)
		}
	}
	switch {
	case size > maxAssetBytes:
		return fmt.Errorf("asset '%s' has %d bytes, more than the limit of %d", cand.segment, size, maxAssetBytes)
	case layers > maxAssetLayers:
		return fmt.Errorf("an asset dataset holds at most %d segment layers", maxAssetLayers)
	}
	return nil
}

// Unregister removes the layers with the given names from the given segments;
// nil means all of them. It tells how many there were.
func (d *Dataset) Unregister(segments, layers []string) (int, error) {
	if len(segments) == 0 && len(layers) == 0 {
		return 0, refuse(ErrInvalid, "must specify at least 1 segment ID or layer for removal")
	}
	c := d.catalog
	c.mu.Lock()
	defer c.mu.Unlock()
	if d.gone {
		return 0, unknownID(d.entry.ID)
	}
	inSegments, inLayers := allow(segments), allow(layers)
	n := d.drop(func(l *layer) bool { return inSegments(l.segment) && inLayers(l.name) })
	c.touch(d)
	return n, nil
}

// allow is a test for membership; an empty list has all.
func allow(names []string) func(string) bool {
	if len(names) == 0 {
		return func(string) bool { return true }
	}
	set := make(map[string]bool, len(names))
	for _, n := range names {
		set[n] = true
	}
	return func(n string) bool { return set[n] }
}

// RegisteredBatch is a table of what was registered.
func RegisteredBatch(all []Registered) arrow.RecordBatch {
	column := func(value func(Registered) string) []string {
		v := make([]string, len(all))
		for i, r := range all {
			v[i] = value(r)
		}
		return v
	}
	f := newFrame(len(all))
	f.strings("rerun_segment_id", column(func(r Registered) string { return r.Segment }))
	f.strings("rerun_segment_layer", column(func(r Registered) string { return r.Layer }))
	f.strings("rerun_segment_type", column(func(Registered) string { return "rrd" }))
	f.strings("rerun_storage_url", column(func(r Registered) string { return r.URL }))
	f.strings("rerun_task_id", column(func(r Registered) string { return r.Task }))
	return f.batch()
}
