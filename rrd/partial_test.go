package rrd_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/reelhouse/reelhouse/internal/testkit"
	"github.com/reelhouse/reelhouse/rrd"
)

// A file that is cut off anywhere gives the chunks before the cut.
func TestPartial(t *testing.T) {
	whole, err := os.ReadFile(filepath.Join(testkit.Golden(t, "rrd"), "cases", "spatial.rrd"))
	if err != nil {
		t.Fatal(err)
	}
	file, err := rrd.NewFile(bytes.NewReader(whole), int64(len(whole)), rrd.FileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	frames, err := file.Frames()
	if err != nil {
		t.Fatal(err)
	}
	for cut := rrd.StreamHeaderSize; cut < len(whole); cut += 7 {
		want := 0
		for _, f := range frames {
			if f.Kind == rrd.KindArrow && f.Offset+rrd.MessageHeaderSize+f.Size <= int64(cut) {
				want++
			}
		}
		reported := 0
		opt := rrd.FileOptions{Partial: true, Report: func(e *rrd.Error) {
			if e == nil || errors.Unwrap(e) == nil {
				t.Errorf("cut at %d: report without a cause", cut)
			}
			reported++
		}}
		f, err := rrd.NewFile(bytes.NewReader(whole[:cut]), int64(cut), opt)
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		manifests, err := f.Index(context.Background())
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		have := 0
		for _, m := range manifests {
			have += m.Len()
		}
		if have != want {
			t.Errorf("cut at %d: %d chunks, want %d", cut, have, want)
		}
	}
}
