package server

import (
	"testing"

	"github.com/reelhouse/reelhouse/catalog"
	"github.com/reelhouse/reelhouse/rpc/common"
)

func FuzzDecodeFrame(f *testing.F) {
	p, err := encodeFrame(catalog.RegisteredBatch([]catalog.Registered{{Segment: "a", Layer: "b", URL: "c", Task: "d"}}))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(p.Payload, int32(p.Compression), p.UncompressedSize)
	f.Add([]byte{}, int32(2), uint64(0))
	f.Add([]byte{0, 1, 2}, int32(2), uint64(1<<40))
	f.Fuzz(func(_ *testing.T, payload []byte, compression int32, size uint64) {
		_, _ = decodeFrame(&common.DataframePart{EncoderVersion: 1, Payload: payload, Compression: common.Compression(compression), UncompressedSize: min(size, 1<<20)})
	})
}
