package inspect

import (
	"bytes"
	"os"
	"testing"

	"github.com/reelhouse/reelhouse/chunk"
)

func benchInput(b *testing.B) []byte {
	b.Helper()
	var chunks []*chunk.Chunk
	times := make([]int64, 4000)
	values := make([]float64, len(times))
	for i := range times {
		times[i], values[i] = int64(i), float64(i*7919%1000)
	}
	for range 100 {
		chunks = append(chunks, column(b, "/a", times, float64s(values...)))
	}
	in, err := os.ReadFile(write(b, storeA, chunks...))
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(in)))
	return in
}

func BenchmarkStats(b *testing.B) {
	for _, noDecode := range []bool{false, true} {
		name := "decode"
		if noDecode {
			name = "no-decode"
		}
		b.Run(name, func(b *testing.B) {
			in := benchInput(b)
			for b.Loop() {
				var s Stats
				if err := s.Add(b.Context(), "in", bytes.NewReader(in), StatsOptions{NoDecode: noDecode}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkVerify(b *testing.B) {
	in := benchInput(b)
	for b.Loop() {
		if _, err := Verify(b.Context(), "in", bytes.NewReader(in), VerifyOptions{}, func(err error) { b.Fatal(err) }); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCompare(b *testing.B) {
	in := benchInput(b)
	path := b.TempDir() + "/a.rrd"
	if err := os.WriteFile(path, in, 0o600); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := Compare(b.Context(), path, path, CompareOptions{Unordered: true}); err != nil {
			b.Fatal(err)
		}
	}
}
