package rrd_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/reelhouse/reelhouse/rrd"
)

// addSeeds adds small recordings: our own, and golden ones where they are.
func addSeeds(f *testing.F) {
	for _, opt := range []rrd.WriterOptions{{}, {NoCompression: true}, {NoFooter: true}} {
		var out bytes.Buffer
		if err := writeChunks(rrd.NewWriter(&out, opt), bigChunks(f, 2, 3)); err != nil {
			f.Fatal(err)
		}
		f.Add(out.Bytes())
		f.Add(append(bytes.Clone(out.Bytes()), out.Bytes()...))
		f.Add(out.Bytes()[:out.Len()/2])
	}
	root := os.Getenv("REEL_GOLDEN")
	if root == "" {
		root = filepath.Join("..", "..", "shared", "golden")
	}
	paths, _ := filepath.Glob(filepath.Join(root, "rrd", "cases", "*.rrd"))
	for _, p := range paths {
		if b, err := os.ReadFile(p); err == nil && len(b) < 16<<10 {
			f.Add(b)
		}
	}
}

// Any bytes give chunks and errors, never a panic, and parallel decoding gives
// what decoding one by one does.
func FuzzRRD(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		var counts [2]int
		for i, opt := range []rrd.ReadOptions{{Workers: 1}, {Workers: 2, Reuse: true}} {
			for item, err := range rrd.Read(context.Background(), bytes.NewReader(data), opt) {
				counts[i]++
				if err != nil {
					var fe *rrd.Error
					if !errors.As(err, &fe) {
						t.Fatalf("%T: %v", err, err)
					}
					continue
				}
				if item.Chunk != nil {
					e := rrd.NewEntry(item.Chunk)
					_ = item.Chunk.RecordBatch().NumRows()
					_ = e
				}
				if item.Kind == rrd.KindEnd {
					_, _ = item.ParseFooter()
				}
			}
		}
		if counts[0] != counts[1] {
			t.Fatalf("%d items one by one, %d in parallel", counts[0], counts[1])
		}
	})
}

// Random access to any bytes gives errors, never a panic; what it reads can be
// written again.
func FuzzFile(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := rrd.NewFile(bytes.NewReader(data), int64(len(data)), rrd.FileOptions{})
		if err != nil {
			return
		}
		_ = file.Stores()
		_, _ = file.StoreInfos()
		_, _ = file.Fingerprint()
		manifests, err := file.Index(context.Background())
		if err != nil {
			return
		}
		var out bytes.Buffer
		w := rrd.NewWriter(&out, rrd.WriterOptions{Workers: 1})
		n := 0
		for _, m := range manifests {
			for i := range min(m.Len(), 100) {
				e := m.Entry(i)
				msg, err := file.ReadEncoded(m, i)
				if err != nil {
					continue
				}
				if _, err := file.ReadChunk(m, i); err != nil {
					continue
				}
				if err := w.WriteEncoded(msg, &e); err != nil {
					t.Fatal(err)
				}
				n++
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		back, err := rrd.NewFile(bytes.NewReader(out.Bytes()), int64(out.Len()), rrd.FileOptions{})
		if err != nil {
			t.Fatal(err)
		}
		ms, err := back.Manifests()
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range ms {
			n -= m.Len()
		}
		if n != 0 {
			t.Fatalf("%d chunks lost", n)
		}
	})
}
