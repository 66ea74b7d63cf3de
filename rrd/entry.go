package rrd

import (
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/reelhouse/reelhouse/chunk"
)

// Entry is what a manifest knows of one chunk.
type Entry struct {
	ID      chunk.TUID
	Entity  chunk.EntityPath
	Static  bool
	NumRows uint64

	// Offset is where the encoded ArrowMsg starts in the file, behind the message
	// header, and Size its length. UncompressedSize is that of its payload.
	Offset           int64
	Size             uint64
	UncompressedSize uint64

	Times      []TimeRange // of all rows, by timeline name
	Components []EntryComponent
}

// TimeRange is the range of times on one timeline, both ends inclusive. OK is
// false if there is none: no row, or none with the component.
type TimeRange struct {
	chunk.Timeline
	Lo, Hi int64
	OK     bool
}

// EntryComponent is a component column of a chunk.
type EntryComponent struct {
	chunk.Descriptor
	Type   arrow.DataType // of the column, a list
	Static bool           // the column is static data
	Empty  bool           // no list of the column has a value

	// Times has the range and number of rows with a non-null cell for each
	// timeline of the entry.
	Times []ComponentRange
}

// ComponentRange is the range of times of the rows that have a component.
type ComponentRange struct {
	Lo, Hi  int64
	OK      bool
	NumRows uint64
}

// NewEntry describes a chunk. Its place in a file is left zero.
func NewEntry(c *chunk.Chunk) Entry {
	e := Entry{ID: c.ID(), Entity: c.EntityPath(), Static: c.IsStatic(), NumRows: uint64(c.NumRows())}
	times := c.Timelines()
	e.Times = make([]TimeRange, len(times))
	for i := range times {
		lo, hi, ok := times[i].Range()
		e.Times[i] = TimeRange{times[i].Timeline, lo, hi, ok}
	}
	components := c.Components()
	e.Components = make([]EntryComponent, len(components))
	ranges := make([]ComponentRange, len(components)*len(times))
	for i, comp := range components {
		rs := ranges[i*len(times) : (i+1)*len(times) : (i+1)*len(times)]
		nulls := comp.Values.NullN()
		for j := range times {
			r := &rs[j]
			r.NumRows = e.NumRows - uint64(nulls)
			switch {
			case nulls == 0:
				r.Lo, r.Hi, r.OK = e.Times[j].Lo, e.Times[j].Hi, e.Times[j].OK
			case r.NumRows > 0:
				r.Lo, r.Hi = validRange(comp.Values, &times[j])
				r.OK = true
			}
		}
		e.Components[i] = EntryComponent{comp.Descriptor, comp.Values.DataType(), e.Static, noValues(comp.Values), rs}
	}
	return e
}

// validRange is the range of times of the non-null rows, of which there is one.
func validRange(l *array.List, t *chunk.TimeColumn) (lo, hi int64) {
	n := l.Len()
	if t.Sorted {
		first, last := 0, n-1
		for l.IsNull(first) {
			first++
		}
		for l.IsNull(last) {
			last--
		}
		return t.Times[first], t.Times[last]
	}
	found := false
	for i, v := range t.Times {
		if l.IsNull(i) {
			continue
		}
		if !found {
			lo, hi, found = v, v, true
			continue
		}
		lo, hi = min(lo, v), max(hi, v)
	}
	return lo, hi
}

// noValues reports whether all lists are empty or null.
func noValues(l *array.List) bool {
	if l.Len() == 0 {
		return true
	}
	offsets := l.Offsets()[l.Data().Offset():][:l.Len()+1]
	if offsets[0] == offsets[l.Len()] {
		return true
	}
	for i := range l.Len() {
		if l.IsValid(i) && offsets[i] != offsets[i+1] {
			return false
		}
	}
	return true
}

// cleanName makes one part of a manifest column name.
func cleanName(s string) string {
	b := []byte(s)
	for i, c := range b {
		switch c {
		case ',', ' ', '-', '.', '\\':
			b[i] = '_'
		}
	}
	return string(b)
}

func trimName(s string) string {
	for len(s) > 0 && s[0] == '_' {
		s = s[1:]
	}
	return s
}

// descriptorName is the part of a manifest column name for a descriptor. Only
// built-in archetypes are shortened in it.
func descriptorName(d chunk.Descriptor) string {
	short := d.Archetype
	if strings.HasPrefix(short, "rerun.") {
		short = chunk.ShortName(short)
	}
	if short != "" && !hasPrefixColon(d.Component, short) {
		return cleanName(short) + ":" + cleanName(d.Component)
	}
	// A field without a name leaves no colon either.
	return strings.TrimSuffix(cleanName(d.Component), ":")
}

func hasPrefixColon(s, prefix string) bool {
	return len(s) > len(prefix) && s[:len(prefix)] == prefix && s[len(prefix)] == ':'
}
