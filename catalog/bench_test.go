package catalog_test

import (
	"fmt"
	"testing"

	"github.com/reelhouse/reelhouse/catalog"
	"github.com/reelhouse/reelhouse/rrd"
)

// benchDataset is a data set of 50 segments with 201 chunks each.
func benchDataset(b *testing.B) (*catalog.Catalog, *catalog.Dataset) {
	c, err := catalog.New(catalog.Options{Dir: b.TempDir()})
	must(b, err)
	b.Cleanup(func() { must(b, c.Close()) })
	d, err := c.CreateDataset("d", nil)
	must(b, err)
	dir := b.TempDir()
	for i := range 50 {
		episode(b, dir, fmt.Sprint("r", i), 200, rrd.WriterOptions{})
	}
	if n, problems := d.RegisterFolder(b.Context(), dir); n != 50 {
		b.Fatal(n, problems)
	}
	return c, d
}

func BenchmarkFind(b *testing.B) {
	_, d := benchDataset(b)
	at := int64(1000)
	for name, q := range map[string]catalog.Query{
		"all":    {Static: true, Everything: true, Timeline: "frame"},
		"range":  {Static: true, Timeline: "frame", Overlaps: &[2]int64{500, 600}},
		"latest": {Static: true, Timeline: "frame", LatestAt: &at},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, err := d.Find(q, []catalog.StartColumn{{Name: "start", Timeline: "frame", Inside: true}})
				must(b, err)
			}
		})
	}
}

func BenchmarkFetch(b *testing.B) {
	c, d := benchDataset(b)
	keys := allKeys(b, d)
	b.ReportAllocs()
	for b.Loop() {
		n := int64(0)
		for batch, err := range c.Fetch(b.Context(), keys) {
			must(b, err)
			for _, m := range batch.Chunks {
				n += int64(len(m))
			}
			batch.Release()
		}
		b.SetBytes(n)
	}
}

func BenchmarkRegister(b *testing.B) {
	c, _ := benchDataset(b)
	dir := b.TempDir()
	for i := range 50 {
		episode(b, dir, fmt.Sprint("s", i), 200, rrd.WriterOptions{})
	}
	b.ReportAllocs()
	for b.Loop() {
		fresh, err := c.CreateDataset("fresh", nil)
		must(b, err)
		if n, problems := fresh.RegisterFolder(b.Context(), dir); n != 50 {
			b.Fatal(n, problems)
		}
		must(b, c.Delete(fresh.Entry().ID))
	}
}
