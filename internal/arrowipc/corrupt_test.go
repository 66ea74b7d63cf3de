package arrowipc

import (
	"encoding/binary"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"
)

// damage changes a few bytes of a stream: bits, whole fields, its end.
func damage(r *rand.Rand, stream []byte) []byte {
	s := append([]byte(nil), stream...)
	for range r.IntN(4) + 1 {
		at := r.IntN(len(s))
		switch r.IntN(6) {
		case 0:
			s[at] ^= 1 << r.IntN(8)
		case 1:
			s[at] = byte(r.Uint32())
		case 2:
			at &^= 3
			if at+4 <= len(s) {
				v := []uint32{0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, uint32(len(s)), uint32(r.IntN(64))}[r.IntN(7)]
				binary.LittleEndian.PutUint32(s[at:], v)
			}
		case 3:
			at &^= 7
			if at+8 <= len(s) {
				v := []uint64{0, 1, 1 << 31, 1 << 40, 1<<63 - 1, 1<<64 - 1, uint64(len(s)), uint64(r.IntN(64))}[r.IntN(8)]
				binary.LittleEndian.PutUint64(s[at:], v)
			}
		case 4:
			from := r.IntN(len(s))
			copy(s[at:], s[from:min(len(s), from+r.IntN(32))])
		case 5:
			if r.IntN(8) == 0 {
				s = s[:at+1]
			}
		}
	}
	return s
}

// checkHostile decodes a stream and visits whatever is accepted.
func checkHostile(t tb, d *Decoder, stream []byte) (accepted bool) {
	t.Helper()
	schema, batches, err := Batches(stream)
	if isInternal(err) {
		t.Fatal(err)
	}
	if _, err := d.Batch(stream); isInternal(err) || (err == nil) != (len(batches) > 0) {
		t.Fatal("decoder differs:", err, len(batches))
	}
	if s, err := Schema(stream); (err == nil) != (schema != nil) || err == nil && !s.Equal(schema) {
		t.Fatal("schema differs:", err)
	}
	for _, b := range batches {
		work := 0.0
		for _, c := range b.Columns() {
			work += cost(c.Data())
		}
		if work > 1e6 {
			continue
		}
		for _, c := range b.Columns() {
			touch(c)
		}
		again, err := AppendBatch(nil, b)
		if err != nil {
			t.Fatal("encoding what was decoded:", err)
		}
		got, err := Batch(again)
		if err != nil {
			t.Fatal("decoding what was encoded:", err)
		}
		if got.NumRows() != b.NumRows() {
			t.Fatal("rows differ")
		}
	}
	return err == nil
}

// cost estimates from above how many values printing an array visits. Arrays
// may be long without taking bytes, and list views, unions, runs and
// dictionaries may show one value many times; that is legal, but slow to print.
func cost(d arrow.ArrayData) float64 {
	n, inner := float64(d.Len()), 0.0
	for _, k := range d.Children() {
		inner += cost(k)
	}
	switch d.DataType().ID() {
	case arrow.LIST_VIEW, arrow.LARGE_LIST_VIEW, arrow.DENSE_UNION, arrow.RUN_END_ENCODED:
		return n * (1 + inner)
	case arrow.DICTIONARY:
		return n + cost(d.Dictionary())
	default:
		return n + inner
	}
}

func TestCorruption(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	rounds := 150
	if testing.Short() {
		rounds = 50
	}
	var d Decoder
	accepted, total := 0, 0
	var before, after runtime.MemStats
	for range rounds {
		b := genBatch(r, r.IntN(2) == 0)
		var streams [][]byte
		own, err := AppendBatch(nil, b)
		if err != nil {
			t.Fatal(err)
		}
		streams = append(streams, own)
		// arrow-go does not manage all slices; what was decoded has none.
		if b, err = Batch(own); err != nil {
			t.Fatal(err)
		}
		switch r.IntN(4) {
		case 0:
			streams = append(streams, encodeArrowGo(t, b, ipc.WithLZ4()))
		case 1:
			streams = append(streams, encodeArrowGo(t, b, ipc.WithZstd()))
		}
		for _, s := range streams {
			for range 60 {
				bad := damage(r, s)
				runtime.ReadMemStats(&before)
				_, _, _ = Batches(bad)
				runtime.ReadMemStats(&after)
				if grown := after.TotalAlloc - before.TotalAlloc; grown > 512<<20 {
					t.Fatalf("%d bytes allocated for a stream of %d", grown, len(bad))
				}
				if checkHostile(t, &d, bad) {
					accepted++
				}
				total++
			}
		}
	}
	t.Logf("%d of %d damaged streams accepted", accepted, total)
}

func FuzzBatch(f *testing.F) {
	r := rand.New(rand.NewPCG(5, 6))
	for i := range 24 {
		b := genBatch(r, i%2 == 0)
		s, err := AppendBatch(nil, b)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(s)
	}
	chunk := chunkBatch(5, "1")
	f.Add(encodeArrowGo(f, chunk))
	f.Add(encodeArrowGo(f, chunk, ipc.WithLZ4()))
	f.Add(encodeArrowGo(f, chunk, ipc.WithZstd()))
	f.Add(AppendSchema(nil, chunk.Schema()))
	f.Fuzz(func(t *testing.T, stream []byte) {
		var d Decoder
		checkHostile(t, &d, stream)
	})
}
