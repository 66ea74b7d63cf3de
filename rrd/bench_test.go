package rrd_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"testing"

	"github.com/reelhouse/reelhouse/rrd"
)

// benchFile is a recording of some 30 MB, half of which compresses.
var benchFile = sync.OnceValue(func() []byte {
	var out bytes.Buffer
	if err := writeChunks(rrd.NewWriter(&out, rrd.WriterOptions{}), bigChunks(&testing.B{}, 64, 32<<10)); err != nil {
		panic(err)
	}
	return out.Bytes()
})

func BenchmarkScan(b *testing.B) {
	data := benchFile()
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		s := rrd.NewScanner(bytes.NewReader(data), rrd.ScanOptions{})
		for {
			if _, err := s.Next(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				b.Fatal(err)
			}
		}
	}
}

func BenchmarkChunks(b *testing.B) {
	for name, opt := range map[string]rrd.ReadOptions{"kept": {}, "reused": {Reuse: true}, "reused-1": {Reuse: true, Workers: 1}} {
		b.Run(name, func(b *testing.B) {
			data := benchFile()
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				for _, err := range rrd.Chunks(context.Background(), bytes.NewReader(data), opt) {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

func BenchmarkPassThrough(b *testing.B) {
	data := benchFile()
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		f, err := rrd.NewFile(bytes.NewReader(data), int64(len(data)), rrd.FileOptions{})
		if err != nil {
			b.Fatal(err)
		}
		ms, err := f.Manifests()
		if err != nil {
			b.Fatal(err)
		}
		w := rrd.NewWriter(io.Discard, rrd.WriterOptions{})
		s := rrd.NewScanner(f.Reader(), rrd.ScanOptions{})
		for row := 0; ; {
			m, err := s.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				b.Fatal(err)
			}
			if m.Kind == rrd.KindArrow {
				e := ms[0].Entry(row)
				row++
				if err := w.WriteEncoded(&m.Arrow, &e); err != nil {
					b.Fatal(err)
				}
			}
		}
		if err := w.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkWrite(b *testing.B) {
	chunks := bigChunks(b, 64, 32<<10)
	b.SetBytes(int64(len(benchFile())))
	b.ReportAllocs()
	for b.Loop() {
		if err := writeChunks(rrd.NewWriter(io.Discard, rrd.WriterOptions{}), chunks); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkOpen(b *testing.B) {
	data := benchFile()
	b.ReportAllocs()
	for b.Loop() {
		f, err := rrd.NewFile(bytes.NewReader(data), int64(len(data)), rrd.FileOptions{})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := f.Manifests(); err != nil {
			b.Fatal(err)
		}
	}
}
