package catalog

import (
	"slices"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/reelhouse/reelhouse/chunk"
	"github.com/reelhouse/reelhouse/internal/gather"
)

// Names selects by name: those listed or, inverted, all others. The zero value
// selects all.
type Names struct {
	List   []string
	Invert bool // all but those in List
	Set    bool // else everything is selected
}

func (n Names) has() func(string) bool {
	if !n.Set {
		return func(string) bool { return true }
	}
	set := make(map[string]bool, len(n.List))
	for _, s := range n.List {
		set[s] = true
	}
	return func(s string) bool { return set[s] != n.Invert }
}

// tableColumn is a column of a table that is made only when it is asked for.
type tableColumn[R any] struct {
	field arrow.Field
	make  func(rows []R) (arrow.Array, error)
}

func tableSchema[R any](cols []tableColumn[R]) *arrow.Schema {
	fields := make([]arrow.Field, len(cols))
	for i, c := range cols {
		fields[i] = c.field
	}
	return arrow.NewSchema(fields, nil)
}

// scanTable makes the columns with the given names in that order; all without any.
func scanTable[R any](cols []tableColumn[R], names []string, rows []R) (arrow.RecordBatch, error) {
	if len(names) > 0 {
		var picked []tableColumn[R]
		seen := map[string]bool{}
		for _, n := range names {
			i := slices.IndexFunc(cols, func(c tableColumn[R]) bool { return c.field.Name == n })
			if i < 0 {
				return nil, refuse(ErrInvalid, "Unable to project columns: Invalid argument error: projected column '%s' not found in schema", n)
			}
			if seen[n] {
				return nil, refuse(ErrInvalid, "Unable to project columns: Invalid argument error: projected column '%s' was requested twice", n)
			}
			seen[n] = true
			picked = append(picked, cols[i])
		}
		cols = picked
	}
	f := newFrame(len(rows))
	for _, c := range cols {
		a, err := c.make(rows)
		if err != nil {
			return nil, err
		}
		f.add(c.field, a)
	}
	return f.batch(), nil
}

// perRow makes a column of one value a row by a method of frame.
func perRow[R, V any](add func(*frame, []V), value func(R) V) tableColumn[R] {
	build := func(rows []R) *frame {
		v := make([]V, len(rows))
		for i, r := range rows {
			v[i] = value(r)
		}
		f := newFrame(len(rows))
		add(f, v)
		return f
	}
	return tableColumn[R]{build(nil).fields[0], func(rows []R) (arrow.Array, error) { return build(rows).cols[0], nil }}
}

func stringColumn[R any](name string, value func(R) string) tableColumn[R] {
	return perRow(func(f *frame, v []string) { f.strings(name, v) }, value)
}

func listColumn[R any](name string, value func(R) []string) tableColumn[R] {
	return perRow(func(f *frame, v [][]string) { f.stringLists(name, v) }, value)
}

func timeColumn[R any](name string, value func(R) time.Time) tableColumn[R] {
	return perRow(func(f *frame, v []time.Time) { f.timestamps(name, v) }, value)
}

func uint64Column[R any](name string, nullable bool, value func(R) uint64) tableColumn[R] {
	return perRow(func(f *frame, v []uint64) { f.uint64s(name, v, nullable) }, value)
}

// propertyColumn is the column of a recording property.
func propertyColumn[R any](field arrow.Field, value func(R) arrow.Array) tableColumn[R] {
	md := field.Metadata
	get := func(k string) string { v, _ := md.GetValue(k); return v }
	out := arrow.Field{Name: field.Name, Type: field.Type, Nullable: true, Metadata: metadata(
		chunk.KeyArchetype, get(chunk.KeyArchetype), chunk.KeyComponent, get(chunk.KeyComponent),
		chunk.KeyComponentType, get(chunk.KeyComponentType), chunk.KeyEntityPath, get(chunk.KeyEntityPath), chunk.KeyKind, "data")}
	return tableColumn[R]{out, func(rows []R) (arrow.Array, error) {
		srcs := make([]arrow.Array, len(rows))
		spans := make([]gather.Span, len(rows))
		for i, r := range rows {
			spans[i] = gather.Span{Src: -1, Len: 1}
			if v := value(r); v != nil && arrow.TypeEqual(v.DataType(), field.Type) {
				srcs[i], spans[i] = v, gather.Span{Src: i, Len: 1}
			}
		}
		return gather.Rows(field.Type, srcs, spans)
	}}
}

func (l *layer) property(column string) arrow.Array {
	for _, p := range l.props {
		if p.column == column {
			return p.value
		}
	}
	return nil
}

// segmentColumns are the columns of the segment table (spec/catalog.md 4.1).
// The caller holds the lock.
func (d *Dataset) segmentColumns() []tableColumn[*segment] {
	eachLayer := func(s *segment, value func(*layer) string) []string {
		out := make([]string, len(s.layers))
		for i, l := range s.layers {
			out[i] = value(l)
		}
		return out
	}
	sum := func(s *segment, value func(*layer) uint64) (n uint64) {
		for _, l := range s.layers {
			n += value(l)
		}
		return n
	}
	cols := []tableColumn[*segment]{
		stringColumn("rerun_segment_id", func(s *segment) string { return s.id }),
		listColumn("rerun_layer_names", func(s *segment) []string { return eachLayer(s, func(l *layer) string { return l.name }) }),
		listColumn("rerun_storage_urls", func(s *segment) []string { return eachLayer(s, func(l *layer) string { return l.url }) }),
		timeColumn("rerun_last_updated_at", func(s *segment) time.Time {
			var last time.Time
			for _, l := range s.layers {
				if l.changed().After(last) {
					last = l.changed()
				}
			}
			return last
		}),
		uint64Column("rerun_num_chunks", false, func(s *segment) uint64 {
			return sum(s, func(l *layer) uint64 { return uint64(len(l.index.chunks)) })
		}),
		uint64Column("rerun_size_bytes", false, func(s *segment) uint64 {
			return sum(s, func(l *layer) uint64 { return l.index.bytes() })
		}),
	}
	var indexes []tableColumn[*segment]
	for _, f := range d.currentSchema().Fields() {
		switch {
		case chunk.KindOf(f) == chunk.IndexColumn:
			kind, err := chunk.TimeKindOf(f.Type)
			if err != nil {
				continue
			}
			t := chunk.Timeline{Name: indexName(f), Kind: kind}
			indexes = append(indexes, rangeColumn(t, "end"), rangeColumn(t, "start"))
		case isProperty(f):
			cols = append(cols, propertyColumn(f, func(s *segment) arrow.Array {
				for _, l := range slices.Backward(s.layers) {
					if v := l.property(f.Name); v != nil {
						return v
					}
				}
				return nil
			}))
		}
	}
	return append(cols, indexes...)
}

func indexName(f arrow.Field) string {
	if n, ok := f.Metadata.GetValue(chunk.KeyIndexName); ok {
		return n
	}
	return f.Name
}

func isProperty(f arrow.Field) bool {
	return chunk.KindOf(f) == chunk.DataColumn && strings.HasPrefix(f.Name, "property:")
}

// rangeColumn is an end of the range of a segment on a timeline.
func rangeColumn(t chunk.Timeline, marker string) tableColumn[*segment] {
	field := arrow.Field{Name: t.Name + ":" + marker, Type: t.Kind.ArrowType(), Nullable: true, Metadata: metadata(
		"rerun:index", t.Name, "rerun:index_kind", t.Kind.String(), "rerun:index_marker", marker, chunk.KeyKind, "index")}
	return tableColumn[*segment]{field, func(rows []*segment) (arrow.Array, error) {
		v, valid := make([]int64, len(rows)), make([]bool, len(rows))
		for i, s := range rows {
			var all timeSpan
			for _, l := range s.layers {
				if n := l.index.timeline(t.Name); n >= 0 && l.index.spans[n].ok {
					all.include(l.index.spans[n].lo, l.index.spans[n].hi)
				}
			}
			v[i], valid[i] = all.lo, all.ok
			if marker == "end" {
				v[i] = all.hi
			}
		}
		f := newFrame(len(rows))
		f.times(field, t.Kind, v, valid)
		return f.cols[0], nil
	}}
}

// SegmentSchema is the schema of the table of segments.
func (d *Dataset) SegmentSchema() *arrow.Schema {
	d.catalog.mu.RLock()
	defer d.catalog.mu.RUnlock()
	return tableSchema(d.segmentColumns())
}

// Segments is the table of segments: a row each in the order of registration.
// Columns are those named, in that order, or all.
func (d *Dataset) Segments(columns []string, segments Names) (arrow.RecordBatch, error) {
	d.catalog.mu.RLock()
	defer d.catalog.mu.RUnlock()
	has := segments.has()
	var rows []*segment
	for _, s := range d.order {
		if has(s.id) {
			rows = append(rows, s)
		}
	}
	return scanTable(d.segmentColumns(), columns, rows)
}

// layerColumns are the columns of the manifest (spec/catalog.md 4.2).
func (d *Dataset) layerColumns(properties bool) []tableColumn[*layer] {
	cols := []tableColumn[*layer]{
		stringColumn("rerun_layer_name", func(l *layer) string { return l.name }),
		stringColumn("rerun_segment_id", func(l *layer) string { return l.segment }),
		stringColumn("rerun_storage_url", func(l *layer) string { return l.url }),
		stringColumn("rerun_layer_type", func(*layer) string { return "rrd" }),
		timeColumn("rerun_registration_time", func(l *layer) time.Time { return l.registered }),
		timeColumn("rerun_last_updated_at", func(l *layer) time.Time { return l.changed() }),
		uint64Column("rerun_num_chunks", true, func(l *layer) uint64 { return uint64(len(l.index.chunks)) }),
		uint64Column("rerun_size_bytes", true, func(l *layer) uint64 { return l.index.bytes() }),
		perRow(func(f *frame, v []schemaHash) {
			b := make([]byte, 0, 32*len(v))
			for _, h := range v {
				b = append(b, h[:]...)
			}
			f.ids("rerun_schema_sha256", b, 32, true)
		}, func(l *layer) schemaHash { return l.schema.hash }),
		stringColumn("rerun_registration_status", func(*layer) string { return "done" }),
	}
	if !properties {
		return cols
	}
	for _, f := range d.currentSchema().Fields() {
		if isProperty(f) {
			cols = append(cols, propertyColumn(f, func(l *layer) arrow.Array { return l.property(f.Name) }))
		}
	}
	return cols
}

// ManifestSchema is the schema of the table of layers.
func (d *Dataset) ManifestSchema() *arrow.Schema {
	d.catalog.mu.RLock()
	defer d.catalog.mu.RUnlock()
	return tableSchema(d.layerColumns(true))
}

// Manifest is the table of layers: a row for each layer of each segment.
// Columns are those named, in that order, or all.
func (d *Dataset) Manifest(columns []string, segments, layers Names) (arrow.RecordBatch, error) {
	d.catalog.mu.RLock()
	defer d.catalog.mu.RUnlock()
	hasSegment, hasLayer := segments.has(), layers.has()
	var rows []*layer
	for _, s := range d.order {
		if !hasSegment(s.id) {
			continue
		}
		for _, l := range s.layers {
			if hasLayer(l.name) {
				rows = append(rows, l)
			}
		}
	}
	return scanTable(d.layerColumns(true), columns, rows)
}

// NoLayers is a table of layers without rows and without properties.
func (d *Dataset) NoLayers() (arrow.RecordBatch, error) {
	return scanTable(d.layerColumns(false), nil, nil)
}

// EntriesSchema is the schema of the system table of entries.
func EntriesSchema() *arrow.Schema { return tableSchema(entryColumns()) }

// EntriesBatch is the system table of entries.
func (c *Catalog) EntriesBatch() (arrow.RecordBatch, error) {
	all := c.Entries(Filter{Kinds: []Kind{KindDataset, KindTable, KindBlueprint, KindAsset}})
	return scanTable(entryColumns(), nil, all)
}

func entryColumns() []tableColumn[Entry] {
	return []tableColumn[Entry]{
		perRow(func(f *frame, v []EntryID) {
			b := make([]byte, 0, 16*len(v))
			for _, id := range v {
				b = append(b, id[:]...)
			}
			f.ids("id", b, 16, false)
		}, func(e Entry) EntryID { return e.ID }),
		stringColumn("name", func(e Entry) string { return e.Name }),
		perRow(func(f *frame, v []uint8) {
			f.uint8s("entry_kind", v, metadata(chunk.KeyComponentType, "rerun.components.EntryKind"))
		}, func(e Entry) uint8 { return uint8(e.Kind) }),
		timeColumn("created_at", func(e Entry) time.Time { return e.Created }),
		timeColumn("updated_at", func(e Entry) time.Time { return e.Updated }),
	}
}
