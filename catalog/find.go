package catalog

import (
	"cmp"
	"slices"
	"sort"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/reelhouse/reelhouse/chunk"
)

// Query says which chunks an answer needs (spec/catalog.md 5.1, 5.2). What is
// set adds chunks; the zero value needs none. Entities and Segments narrow all of it.
type Query struct {
	Entities []chunk.EntityPath // nil means all
	Segments []string           // nil means all; unknown ones have no chunks

	Static     bool // static chunks
	Everything bool // temporal chunks, whatever their timelines

	// Timeline is what the rest is about. It must exist if there is any data.
	Timeline string
	// Overlaps are chunks that overlap a range, both ends inclusive.
	Overlaps *[2]int64
	// LatestAt are chunks that give the state at that time: the latest value of
	// each component of each entity.
	LatestAt *int64
	// At narrows to segments that have values here, and adds the chunks that
	// overlap one of them or, with Latest, that give the state at one of them.
	At     map[string][]int64
	Latest bool
}

// StartColumn is where a batch of candidates has the start of each chunk on a timeline.
type StartColumn struct {
	// Name of the column. It is appended, unless Inside is set: then it is an
	// Int64 column before those of direct URLs.
	Name     string
	Timeline string // no chunk has a start if it is empty
	Inside   bool
}

// KeyColumn is the name of the column of keys that [Catalog.Fetch] takes.
const KeyColumn = "chunk_key"

// Find lists the chunks that a query needs, and perhaps a few more, as a batch
// of a row a chunk: in the order of segments, layers and the file.
func (d *Dataset) Find(q Query, starts []StartColumn) (arrow.RecordBatch, error) {
	d.catalog.mu.RLock()
	defer d.catalog.mu.RUnlock()
	if d.gone {
		return nil, unknownID(d.entry.ID)
	}
	if q.Timeline != "" {
		if err := d.checkTimeline(q.Timeline); err != nil {
			return nil, err
		}
	}
	s := search{query: &q}
	if q.Entities != nil {
		s.entities = make(map[chunk.EntityPath]bool, len(q.Entities))
		for _, e := range q.Entities {
			s.entities[e] = true
		}
	}
	if q.Segments == nil {
		for _, seg := range d.order {
			s.segment(seg)
		}
	} else {
		seen := map[string]bool{}
		for _, id := range q.Segments {
			if seg := d.segments[id]; seg != nil && !seen[id] {
				seen[id] = true
				s.segment(seg)
			}
		}
	}
	return d.candidates(s.found, starts)
}

func (d *Dataset) checkTimeline(name string) error {
	if len(d.order) == 0 {
		return nil
	}
	for _, f := range d.currentSchema().Fields() {
		if chunk.KindOf(f) == chunk.IndexColumn && indexName(f) == name {
			return nil
		}
	}
	return refuse(ErrInvalid, "unknown timeline `%s`", name)
}

// found is a chunk of a layer.
type found struct {
	layer *layer
	chunk uint32
}

// search collects what a query needs.
type search struct {
	query    *Query
	entities map[chunk.EntityPath]bool // nil means all
	found    []found
	marks    [][]bool // by layer of the segment, by chunk
}

func (s *search) segment(seg *segment) {
	q := s.query
	var values []int64
	if q.At != nil {
		values = q.At[seg.id]
		if len(values) == 0 {
			return
		}
		values = slices.Clone(values)
		slices.Sort(values)
		values = slices.Compact(values)
	}
	s.marks = s.marks[:0]
	timelines := make([]int, len(seg.layers))
	for i, l := range seg.layers {
		timelines[i] = l.index.timeline(q.Timeline)
		s.marks = append(s.marks, s.layer(l.index, timelines[i], values))
	}
	if q.Latest {
		s.latest(seg, timelines, values)
	}
	if q.LatestAt != nil {
		s.latest(seg, timelines, []int64{*q.LatestAt})
	}
	for i, l := range seg.layers {
		for j, ok := range s.marks[i] {
			if ok {
				s.found = append(s.found, found{l, uint32(j)})
			}
		}
	}
}

// selected tells which entities of an index the query is about.
func (s *search) selected(x *index) []bool {
	ok := make([]bool, len(x.entities))
	for i, e := range x.entities {
		ok[i] = s.entities == nil || s.entities[e]
	}
	return ok
}

// layer marks the chunks that are needed for themselves.
func (s *search) layer(x *index, timeline int, values []int64) []bool {
	q := s.query
	marks := make([]bool, len(x.chunks))
	selected := s.selected(x)
	for i := range x.chunks {
		c := &x.chunks[i]
		if !selected[c.entity] {
			continue
		}
		if c.static {
			marks[i] = q.Static
			continue
		}
		if q.Everything {
			marks[i] = true
			continue
		}
		if q.Overlaps == nil && len(values) == 0 || timeline < 0 {
			continue
		}
		lo, hi, ok := x.span(c, timeline)
		if !ok {
			continue
		}
		if q.Overlaps != nil && lo <= q.Overlaps[1] && hi >= q.Overlaps[0] {
			marks[i] = true
			continue
		}
		if n := sort.Search(len(values), func(i int) bool { return values[i] >= lo }); n < len(values) && values[n] <= hi {
			marks[i] = true
		}
	}
	return marks
}

// holder is a chunk that has values of a component.
type holder struct {
	layer, chunk int
	lo, hi       int64
	maxHi        int64 // of this one and all before it
}

// latest marks the chunks that may hold the latest value at one of the times,
// which ascend, for each component of each entity.
func (s *search) latest(seg *segment, timelines []int, at []int64) {
	type key struct{ entity, component string }
	holders := map[key][]holder{}
	for i, l := range seg.layers {
		x := l.index
		if timelines[i] < 0 {
			continue
		}
		selected := s.selected(x)
		for j := range x.chunks {
			c := &x.chunks[j]
			if c.static || !selected[c.entity] {
				continue
			}
			lo, hi, ok := x.span(c, timelines[i])
			if !ok || lo > at[len(at)-1] {
				continue
			}
			for _, n := range x.shapes[c.shape] {
				if p := x.part(c, uint16(timelines[i]), n, lo, hi); p.ok {
					k := key{string(x.entities[c.entity]), x.components[n].Component}
					holders[k] = append(holders[k], holder{layer: i, chunk: j, lo: p.lo, hi: p.hi})
				}
			}
		}
	}
	for _, h := range holders {
		slices.SortFunc(h, func(a, b holder) int { return cmp.Compare(a.lo, b.lo) })
		for i := range h {
			h[i].maxHi = h[i].hi
			if i > 0 {
				h[i].maxHi = max(h[i].maxHi, h[i-1].maxHi)
			}
		}
		for _, t := range at {
			s.mark(h, t)
		}
	}
}

// mark marks the holders that may have the latest value at a time. The start of
// a chunk is the time of a row, and so is its end: the latest value is at least
// as late as any of them that is not after t.
func (s *search) mark(h []holder, t int64) {
	last := sort.Search(len(h), func(i int) bool { return h[i].lo > t }) - 1
	if last < 0 {
		return
	}
	latest := h[last].lo
	for i := last; i >= 0 && h[i].maxHi >= h[last].lo; i-- {
		if h[i].hi <= t {
			latest = max(latest, h[i].hi)
		}
	}
	for i := last; i >= 0 && h[i].maxHi >= latest; i-- {
		if min(h[i].hi, t) >= latest {
			s.marks[h[i].layer][h[i].chunk] = true
		}
	}
}

// candidates is the batch of found chunks.
func (d *Dataset) candidates(all []found, starts []StartColumn) (arrow.RecordBatch, error) {
	n := len(all)
	ids := make([]byte, 0, 16*n)
	keys := make([]byte, 0, keySize*n)
	segments, layers, entities := make([]string, n), make([]string, n), make([]string, n)
	static := make([]bool, n)
	sizes := make([]uint64, n)
	for i, f := range all {
		c := &f.layer.index.chunks[f.chunk]
		ids = append(ids, c.id[:]...)
		keys = appendKey(keys, f.layer.id, f.chunk)
		segments[i], layers[i], entities[i] = f.layer.segment, f.layer.name, string(f.layer.index.entities[c.entity])
		static[i], sizes[i] = c.static, c.rawSize
	}
	f := newFrame(n)
	f.ids("chunk_id", ids, 16, false, chunk.KeyKind, "control")
	f.strings("chunk_segment_id", segments, chunk.KeyKind, "control")
	f.strings("rerun_segment_layer", layers)
	f.keys(keys, false)
	f.strings("chunk_entity_path", entities, chunk.KeyKind, "control")
	f.bools("chunk_is_static", static, chunk.KeyKind, "control")
	f.uint64s("chunk_byte_len", sizes, false)
	f.uint64s("chunk_byte_size_uncompressed", sizes, true)
	for _, s := range starts {
		if s.Inside {
			v, valid := chunkStarts(all, s.Timeline)
			f.times(arrow.Field{Name: s.Name, Metadata: metadata(chunk.KeyKind, "index")}, chunk.Sequence, v, valid)
		}
	}
	f.nullDictionary("rerun_layer_direct_url", arrow.BinaryTypes.String)
	f.nullDictionary("rerun_layer_direct_url_expires_at", arrow.PrimitiveTypes.Int64)
	for _, s := range starts {
		if s.Inside {
			continue
		}
		v, valid := chunkStarts(all, s.Timeline)
		f.times(arrow.Field{Name: s.Name, Metadata: metadata("rerun:index", s.Timeline, "rerun:index_marker", "start", chunk.KeyKind, "index")},
			d.timeKind(s.Timeline), v, valid)
	}
	return f.batch(), nil
}

// timeKind is the kind of a timeline of the data set.
func (d *Dataset) timeKind(timeline string) chunk.TimeKind {
	for _, f := range d.currentSchema().Fields() {
		if chunk.KindOf(f) == chunk.IndexColumn && indexName(f) == timeline {
			if kind, err := chunk.TimeKindOf(f.Type); err == nil {
				return kind
			}
		}
	}
	return chunk.Sequence
}

func chunkStarts(all []found, timeline string) (v []int64, valid []bool) {
	v, valid = make([]int64, len(all)), make([]bool, len(all))
	if timeline == "" {
		return v, valid
	}
	var last *layer
	n := -1
	for i, f := range all {
		if f.layer != last {
			last, n = f.layer, f.layer.index.timeline(timeline)
		}
		if n >= 0 {
			v[i], _, valid[i] = f.layer.index.span(&f.layer.index.chunks[f.chunk], n)
		}
	}
	return v, valid
}

// keys adds the column of chunk keys, given one behind the other.
func (f *frame) keys(v []byte, nullable bool) {
	offsets := make([]int32, f.rows+1)
	for i := range offsets {
		offsets[i] = int32(i * keySize)
	}
	buffers := []*memory.Buffer{nil, memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(offsets)), memory.NewBufferBytes(v)}
	col := array.MakeFromData(array.NewData(arrow.BinaryTypes.Binary, f.rows, buffers, nil, 0, 0))
	f.add(arrow.Field{Name: KeyColumn, Type: arrow.BinaryTypes.Binary, Nullable: nullable}, col)
}

func (f *frame) nullDictionary(name string, values arrow.DataType) {
	dt := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: values}
	indices := array.MakeArrayOfNull(memory.DefaultAllocator, arrow.PrimitiveTypes.Int32, f.rows)
	empty := array.NewBuilder(memory.DefaultAllocator, values).NewArray()
	f.add(arrow.Field{Name: name, Type: dt, Nullable: true}, array.NewDictionaryArray(dt, indices, empty))
}
