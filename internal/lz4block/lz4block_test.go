package lz4block

import (
	"bytes"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/pierrec/lz4/v4"
)

func check(t *testing.T, c *Compressor, src []byte) {
	t.Helper()
	for _, room := range []int{Bound(len(src)), len(src), len(src) / 2, 1, 0} {
		dst := make([]byte, room)
		n := c.Compress(src, dst)
		if n == 0 {
			if room == Bound(len(src)) {
				t.Fatalf("%d bytes do not fit into %d", len(src), room)
			}
			continue
		}
		back := make([]byte, len(src))
		m, err := lz4.UncompressBlock(dst[:n], back)
		if err != nil || !bytes.Equal(back[:m], src) {
			t.Fatalf("%d bytes, compressed to %d, came back as %d, error %v", len(src), n, m, err)
		}
	}
}

func TestCompress(t *testing.T) {
	var c Compressor
	r := rand.New(rand.NewPCG(1, 2))
	for n := range 100 {
		for _, symbols := range []int{1, 2, 4, 256} {
			b := make([]byte, n)
			for i := range b {
				b[i] = byte(r.IntN(symbols))
			}
			check(t, &c, b)
		}
	}
	for range 10 {
		// Copies of earlier pieces at all distances, with noise between.
		b := make([]byte, 0, 300_000)
		for len(b) < cap(b)-70_000 {
			if len(b) > 0 && r.IntN(2) == 0 {
				from := r.IntN(len(b))
				b = append(b, b[from:min(len(b), from+r.IntN(1000))]...)
			} else {
				for range r.IntN(100) {
					b = append(b, byte(r.IntN(256)))
				}
			}
		}
		check(t, &c, b)
	}
}

func FuzzCompress(f *testing.F) {
	f.Add([]byte("abcabcabcabcabcabcabcabcabc"), 100)
	f.Add(bytes.Repeat([]byte{0}, 5000), 20)
	f.Fuzz(func(t *testing.T, src []byte, room int) {
		var c Compressor
		check(t, &c, src)
		dst := make([]byte, min(max(room, 0), 1<<16))
		c.Compress(src, dst)
	})
}

// cloud is like the points of a laser scanner.
func cloud() []byte {
	r := rand.New(rand.NewPCG(3, 4))
	b := make([]byte, 0, 1<<20)
	for i := 0; len(b) < 1<<20-32; i++ {
		for range 3 {
			b = append(b, byte(r.Uint32()), byte(r.Uint32()), byte(0x80+r.IntN(128)), 0x40+byte(r.IntN(2)))
		}
		b = append(b, byte(r.IntN(100)), 0, 0, 0x42, byte(i%32), 0, 0, 0)
	}
	return b
}

func BenchmarkCompress(b *testing.B) {
	src := cloud()
	if file := os.Getenv("LZ4_INPUT"); file != "" {
		var err error
		if src, err = os.ReadFile(file); err != nil {
			b.Fatal(err)
		}
	}
	dst := make([]byte, Bound(len(src)))
	b.Run("here", func(b *testing.B) {
		var c Compressor
		b.SetBytes(int64(len(src)))
		n := 0
		for b.Loop() {
			n = c.Compress(src, dst)
		}
		b.ReportMetric(float64(n)/float64(len(src)), "ratio")
	})
	b.Run("library", func(b *testing.B) {
		var c lz4.Compressor
		b.SetBytes(int64(len(src)))
		n := 0
		for b.Loop() {
			n, _ = c.CompressBlock(src, dst)
		}
		b.ReportMetric(float64(n)/float64(len(src)), "ratio")
	})
}
