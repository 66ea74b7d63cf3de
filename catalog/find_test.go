package catalog

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/reelhouse/reelhouse/chunk"
	"github.com/reelhouse/reelhouse/rrd"
)

// modelChunk is a chunk of one entity with a component of which each row has or
// lacks a value.
type modelChunk struct {
	entity  string
	times   []int64
	present []bool
}

// TestLatestAgainstModel checks that the chunks that are found for a point in
// time contain the latest value of each component, and that those which cannot
// are left out when chunks do not overlap.
func TestLatestAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		chunks := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) modelChunk {
			n := rapid.IntRange(1, 4).Draw(t, "rows")
			m := modelChunk{entity: rapid.SampledFrom([]string{"/a", "/b"}).Draw(t, "entity")}
			for range n {
				m.times = append(m.times, rapid.Int64Range(0, 30).Draw(t, "time"))
				m.present = append(m.present, rapid.IntRange(0, 3).Draw(t, "present") > 0)
			}
			return m
		}), 0, 12).Draw(t, "chunks")
		seg := &segment{id: "s"}
		// The chunks are dealt to two layers.
		for i := range 2 {
			seg.layers = append(seg.layers, &layer{segment: "s", name: fmt.Sprint(i), index: newIndex()})
		}
		where := make([]found, len(chunks))
		for i, m := range chunks {
			l := seg.layers[i%2]
			e := modelEntry(m)
			if err := l.index.add(&e); err != nil {
				t.Fatal(err)
			}
			where[i] = found{l, uint32(len(l.index.chunks) - 1)}
		}
		at := rapid.Int64Range(-1, 31).Draw(t, "at")
		s := search{query: &Query{Timeline: "frame", LatestAt: &at}}
		s.segment(seg)
		marked := map[found]bool{}
		for _, f := range s.found {
			marked[f] = true
		}
		for _, entity := range []string{"/a", "/b"} {
			best := int64(math.MinInt64)
			for _, m := range chunks {
				for j, v := range m.times {
					if m.entity == entity && m.present[j] && v <= at {
						best = max(best, v)
					}
				}
			}
			for i, m := range chunks {
				if m.entity != entity {
					continue
				}
				holds, last := false, int64(math.MinInt64)
				for j, v := range m.times {
					if m.present[j] && v <= at {
						holds = holds || v == best
						last = max(last, v)
					}
				}
				if holds && !marked[where[i]] {
					t.Fatalf("chunk %d has the latest value at %d (%d) but was not found", i, at, best)
				}
				// A chunk that ends before the best time holds nothing of use.
				lo, hi := int64(math.MaxInt64), int64(math.MinInt64)
				for j, v := range m.times {
					if m.present[j] {
						lo, hi = min(lo, v), max(hi, v)
					}
				}
				if marked[where[i]] && (lo > at || hi <= at && last < best && onlyEnds(chunks, entity, at, best)) {
					t.Fatalf("chunk %d cannot have the latest value at %d (%d) but was found", i, at, best)
				}
			}
		}
	})
}

// onlyEnds reports whether the best time is an end of the values of some chunk,
// so that an index of ranges knows it.
func onlyEnds(chunks []modelChunk, entity string, at, best int64) bool {
	for _, m := range chunks {
		lo, hi := int64(math.MaxInt64), int64(math.MinInt64)
		for j, v := range m.times {
			if m.entity == entity && m.present[j] {
				lo, hi = min(lo, v), max(hi, v)
			}
		}
		if hi == best || lo == best && lo <= at {
			return true
		}
	}
	return false
}

func modelEntry(m modelChunk) rrd.Entry {
	e := rrd.Entry{ID: chunk.NewTUID(), Entity: chunk.EntityPath(m.entity), NumRows: uint64(len(m.times))}
	all := rrd.TimeRange{Timeline: chunk.Timeline{Name: "frame", Kind: chunk.Sequence}, Lo: math.MaxInt64, Hi: math.MinInt64, OK: true}
	part := rrd.ComponentRange{Lo: math.MaxInt64, Hi: math.MinInt64}
	for i, v := range m.times {
		all.Lo, all.Hi = min(all.Lo, v), max(all.Hi, v)
		if m.present[i] {
			part.Lo, part.Hi, part.OK = min(part.Lo, v), max(part.Hi, v), true
			part.NumRows++
		}
	}
	if !part.OK {
		part.Lo, part.Hi = 0, 0
	}
	e.Times = []rrd.TimeRange{all}
	e.Components = []rrd.EntryComponent{{Descriptor: chunk.Descriptor{Component: "v"}, Times: []rrd.ComponentRange{part}}}
	return e
}

// TestIndexKeepsEntries checks that an index gives back what it was given.
func TestIndexKeepsEntries(t *testing.T) {
	x := newIndex()
	in := []modelChunk{{"/a", []int64{1, 2}, []bool{true, true}}, {"/a", []int64{5, 3}, []bool{true, false}}, {"/b", []int64{9}, []bool{false}}}
	var want []rrd.Entry
	for _, m := range in {
		e := modelEntry(m)
		want = append(want, e)
		if err := x.add(&e); err != nil {
			t.Fatal(err)
		}
	}
	for i := range want {
		if got := x.entry(i); fmt.Sprint(got) != fmt.Sprint(want[i]) {
			t.Errorf("entry %d:\n%v\n%v", i, got, want[i])
		}
	}
}
