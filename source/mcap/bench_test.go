package mcap_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/reelhouse/reelhouse/bench/robot"
	"github.com/reelhouse/reelhouse/source/mcap"
)

// BenchmarkChunks decodes a made-up robot's run of some seconds: point clouds,
// images, inertia, transforms, joints.
func BenchmarkChunks(b *testing.B) {
	var file bytes.Buffer
	if err := robot.Write(&file, robot.Options{Seconds: 5, Points: 20_000, ImageWidth: 640, ImageHeight: 480}); err != nil {
		b.Fatal(err)
	}
	for name, o := range map[string]mcap.Options{
		"all":        {Workers: 1},
		"raw":        {Workers: 1, Decoders: []string{"raw"}},
		"reflection": {Workers: 1, Decoders: []string{"ros2_reflection"}},
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(file.Len()))
			b.ReportAllocs()
			for b.Loop() {
				r, err := mcap.New(bytes.NewReader(file.Bytes()), int64(file.Len()), o)
				if err != nil {
					b.Fatal(err)
				}
				rows := 0
				for c, err := range r.Chunks(context.Background()) {
					if err != nil {
						b.Fatal(err)
					}
					rows += c.NumRows()
				}
				if rows == 0 {
					b.Fatal("no rows")
				}
			}
		})
	}
}
