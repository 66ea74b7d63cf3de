package catalog

import (
	"bytes"
	"testing"

	"github.com/pierrec/lz4/v4"
)

func FuzzLZ4Prefix(f *testing.F) {
	for _, plain := range [][]byte{nil, []byte("abc"), bytes.Repeat([]byte("ab"), 1000), bytes.Repeat([]byte("the quick brown fox "), 40)} {
		block := make([]byte, lz4.CompressBlockBound(len(plain)))
		n, err := lz4.CompressBlock(plain, block, nil)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(block[:n], uint16(100))
		f.Add(block[:n], uint16(5000))
	}
	f.Add([]byte{0xf0, 0xff, 0xff}, uint16(10))
	f.Fuzz(func(t *testing.T, block []byte, size uint16) {
		prefix := make([]byte, size)
		n, ok := lz4Prefix(prefix, block)
		if !ok {
			return
		}
		whole := make([]byte, 255*len(block)+16)
		m, err := lz4.UncompressBlock(block, whole)
		if err != nil {
			return // the prefix may end before what is wrong
		}
		if want := whole[:min(m, int(size))]; !bytes.Equal(prefix[:n], want) {
			t.Errorf("%d bytes differ from %d of the library", n, len(want))
		}
	})
}

func FuzzKey(f *testing.F) {
	f.Add(appendKey(nil, layerID{1, 2, 3}, 7))
	f.Add([]byte("garbage"))
	f.Fuzz(func(t *testing.T, b []byte) {
		id, n, err := parseKey(b)
		if err == nil && !bytes.Equal(appendKey(nil, id, n), b) {
			t.Errorf("%x is not the key of %v %d", b, id, n)
		}
	})
}
