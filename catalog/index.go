package catalog

import (
	"math"
	"slices"

	"github.com/reelhouse/reelhouse/chunk"
	"github.com/reelhouse/reelhouse/rrd"
)

// index is what is known of the chunks of a layer without reading them: all
// that a manifest says (spec/rrd.md 2.1), in some 100 bytes a chunk.
type index struct {
	entities   []chunk.EntityPath
	timelines  []chunk.Timeline
	components []chunk.Descriptor
	shapes     [][]uint16 // sets of components that chunks have, by number
	chunks     []chunkInfo
	times      []timeRange
	parts      []partRange
	spans      []timeSpan // of all chunks, by timeline
	size       uint64     // of all chunks in the file, headers included

	entityNo    map[chunk.EntityPath]uint32
	timelineNo  map[string]uint16
	componentNo map[chunk.Descriptor]uint16
	shapeNo     map[string]uint32
}

// chunkInfo is one chunk. Offset and size are those of the encoded message,
// without the header in front of it.
type chunkInfo struct {
	id      chunk.TUID
	offset  int64
	size    uint64
	rawSize uint64
	rows    uint64
	entity  uint32
	shape   uint32
	times   [2]uint32 // range in times
	parts   [2]uint32 // range in parts
	static  bool
}

// timeRange is the range of all rows of a chunk on a timeline.
type timeRange struct {
	timeline uint16
	lo, hi   int64
}

// partRange is the range of the rows that have a component, where that is not
// that of all rows.
type partRange struct {
	timeline, component uint16
	ok                  bool
	lo, hi              int64
	rows                uint64
}

func newIndex() *index {
	return &index{entityNo: map[chunk.EntityPath]uint32{}, timelineNo: map[string]uint16{},
		componentNo: map[chunk.Descriptor]uint16{}, shapeNo: map[string]uint32{}}
}

// number gives a key its place in a list, adding it if it is new.
func number[K comparable, V any, N uint16 | uint32](m map[K]N, list *[]V, k K, v V) (N, bool) {
	n, ok := m[k]
	if !ok {
		if uint64(len(*list)) > uint64(^N(0)) {
			return 0, false
		}
		n = N(len(*list))
		*list = append(*list, v)
		m[k] = n
	}
	return n, true
}

var errTooMany = refuse(ErrInvalid, "recording has more than 65536 timelines or component types")

// add appends a chunk.
func (x *index) add(e *rrd.Entry) error {
	if uint64(len(x.chunks)) >= math.MaxUint32 || uint64(len(x.times)) > math.MaxUint32-1<<17 || uint64(len(x.parts)) > math.MaxUint32-1<<24 {
		return refuse(ErrInvalid, "recording has too many chunks")
	}
	info := chunkInfo{id: e.ID, offset: e.Offset, size: e.Size, rawSize: e.UncompressedSize, rows: e.NumRows, static: e.Static,
		times: [2]uint32{uint32(len(x.times))}, parts: [2]uint32{uint32(len(x.parts))}}
	var ok bool
	if info.entity, ok = number(x.entityNo, &x.entities, e.Entity, e.Entity); !ok {
		return errTooMany
	}
	timelines := make([]uint16, len(e.Times))
	for i, t := range e.Times {
		if timelines[i], ok = number(x.timelineNo, &x.timelines, t.Name, t.Timeline); !ok {
			return errTooMany
		}
		for len(x.spans) < len(x.timelines) {
			x.spans = append(x.spans, timeSpan{})
		}
		if t.OK {
			x.times = append(x.times, timeRange{timelines[i], t.Lo, t.Hi})
			x.spans[timelines[i]].include(t.Lo, t.Hi)
		}
	}
	info.times[1] = uint32(len(x.times))
	shape := make([]uint16, len(e.Components))
	for i := range e.Components {
		c := &e.Components[i]
		if shape[i], ok = number(x.componentNo, &x.components, c.Descriptor, c.Descriptor); !ok {
			return errTooMany
		}
		for j, r := range c.Times {
			t := &e.Times[j]
			if r.OK && t.OK && r.Lo == t.Lo && r.Hi == t.Hi && r.NumRows == e.NumRows {
				continue
			}
			x.parts = append(x.parts, partRange{timelines[j], shape[i], r.OK, r.Lo, r.Hi, r.NumRows})
		}
	}
	info.parts[1] = uint32(len(x.parts))
	key := make([]byte, 0, 2*len(shape))
	for _, n := range shape {
		key = append(key, byte(n), byte(n>>8))
	}
	if info.shape, ok = number(x.shapeNo, &x.shapes, string(key), shape); !ok {
		return errTooMany
	}
	x.chunks = append(x.chunks, info)
	x.size += info.size + rrd.MessageHeaderSize
	return nil
}

// freeze drops what only add needs.
func (x *index) freeze() {
	x.entityNo, x.timelineNo, x.componentNo, x.shapeNo = nil, nil, nil, nil
}

// timeline is the number of a timeline, or -1.
func (x *index) timeline(name string) int {
	return slices.IndexFunc(x.timelines, func(t chunk.Timeline) bool { return t.Name == name })
}

// span is the range of a chunk on a timeline.
func (x *index) span(c *chunkInfo, timeline int) (lo, hi int64, ok bool) {
	for _, t := range x.times[c.times[0]:c.times[1]] {
		if int(t.timeline) == timeline {
			return t.lo, t.hi, true
		}
	}
	return 0, 0, false
}

// part is the range of the rows of a chunk that have a component, of the shape
// of the chunk; lo and hi are the range of all rows.
func (x *index) part(c *chunkInfo, timeline, component uint16, lo, hi int64) partRange {
	for _, p := range x.parts[c.parts[0]:c.parts[1]] {
		if p.timeline == timeline && p.component == component {
			return p
		}
	}
	return partRange{timeline, component, true, lo, hi, c.rows}
}

// entry is what add was given, but for types.
func (x *index) entry(i int) rrd.Entry {
	c := &x.chunks[i]
	e := rrd.Entry{ID: c.id, Entity: x.entities[c.entity], Static: c.static, NumRows: c.rows,
		Offset: c.offset, Size: c.size, UncompressedSize: c.rawSize}
	for _, t := range x.times[c.times[0]:c.times[1]] {
		e.Times = append(e.Times, rrd.TimeRange{Timeline: x.timelines[t.timeline], Lo: t.lo, Hi: t.hi, OK: true})
	}
	for _, n := range x.shapes[c.shape] {
		m := rrd.EntryComponent{Descriptor: x.components[n], Static: c.static}
		for _, t := range x.times[c.times[0]:c.times[1]] {
			p := x.part(c, t.timeline, n, t.lo, t.hi)
			m.Times = append(m.Times, rrd.ComponentRange{Lo: p.lo, Hi: p.hi, OK: p.ok, NumRows: p.rows})
		}
		e.Components = append(e.Components, m)
	}
	return e
}

// timeSpan is a range of times, both ends inclusive.
type timeSpan struct {
	lo, hi int64
	ok     bool
}

func (s *timeSpan) include(lo, hi int64) {
	if !s.ok {
		*s = timeSpan{lo, hi, true}
		return
	}
	s.lo, s.hi = min(s.lo, lo), max(s.hi, hi)
}

// bytes is the size of all chunks in the file with their headers (spec/wire.md,
// "Fixed dataframes").
func (x *index) bytes() uint64 { return x.size }
