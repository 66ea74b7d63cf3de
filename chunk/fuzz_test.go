package chunk_test

import (
	"testing"

	"github.com/reelhouse/reelhouse/chunk"
	"github.com/reelhouse/reelhouse/chunk/archetype"
	"github.com/reelhouse/reelhouse/internal/arrowipc"
)

func FuzzEntityPath(f *testing.F) {
	for _, s := range []string{"", "/", "a/b", "//x//y/", `/a\ b`, `w:\temp\file`, `\u{1F600}`, `\u{zz}`, `a\`, `a\\/b`, "é\xff", "/__properties/x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p := chunk.ParseEntityPath(s)
		if again := chunk.ParseEntityPath(string(p)); again != p {
			t.Errorf("%q is read as %q, and that as %q", s, p, again)
		}
		if again := chunk.EntityPathFromParts(p.Parts()...); again != p {
			t.Errorf("%q: parts make %q", p, again)
		}
		if strict, err := chunk.ParseEntityPathStrict(s); err == nil && strict != p {
			t.Errorf("%q is read as %q, strictly as %q", s, p, strict)
		}
		if strict, err := chunk.ParseEntityPathStrict(string(p)); err != nil || strict != p {
			t.Errorf("%q is strictly read as %q: %v", p, strict, err)
		}
	})
}

func FuzzFromRecordBatch(f *testing.F) {
	points, err := archetype.NewPoints3D([3]float32{1, 2, 3}, [3]float32{4, 5, 6}).WithLabels("a", "b").Partition(2, 0)
	if err != nil {
		f.Fatal(err)
	}
	times := []chunk.TimeColumn{chunk.NewTimeColumn("frame", chunk.Sequence, []int64{2, 1}), chunk.NewTimeColumn("t", chunk.Timestamp, []int64{5, 7})}
	for _, times := range [][]chunk.TimeColumn{nil, times} {
		c, err := chunk.New("/a/b", times, points)
		if err != nil {
			f.Fatal(err)
		}
		stream, err := arrowipc.AppendBatch(nil, c.RecordBatch())
		if err != nil {
			f.Fatal(err)
		}
		f.Add(stream)
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		b, err := arrowipc.Batch(stream)
		if err != nil {
			return
		}
		for _, o := range []chunk.DataFrameOptions{{}, {Indexes: []string{}}} {
			if cs, err := chunk.FromDataFrame(b, o); err == nil {
				for _, c := range cs {
					exercise(t, c)
				}
			}
		}
		if c, err := chunk.FromRecordBatch(b); err == nil {
			exercise(t, c)
		}
	})
}

// exercise calls what looks into all columns.
func exercise(t *testing.T, c *chunk.Chunk) {
	if _, err := chunk.FromRecordBatch(c.RecordBatch()); err != nil {
		t.Errorf("chunk and back: %v", err)
	}
	c.SizeBytes()
	half := c.Slice(0, c.NumRows()/2)
	if half.NumRows() < 50 {
		half.Format(chunk.FormatOptions{})
	}
	c.SortByRowID()
	for _, tc := range c.Timelines() {
		c.SortByTime(tc.Name)
	}
	if _, err := chunk.Concat(half, c); err != nil {
		t.Errorf("concat: %v", err)
	}
}
