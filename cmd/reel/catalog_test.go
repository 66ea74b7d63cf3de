package main

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/reelhouse/reelhouse/chunk"
	"github.com/reelhouse/reelhouse/internal/testkit"
	"github.com/reelhouse/reelhouse/rrd"
)

// writeEpisode writes a small recording.
func writeEpisode(t *testing.T, path, recording string) {
	t.Helper()
	b := array.NewListBuilder(memory.DefaultAllocator, arrow.PrimitiveTypes.Float64)
	for i := range 10 {
		b.Append(true)
		b.ValueBuilder().(*array.Float64Builder).Append(float64(i))
	}
	times := []chunk.TimeColumn{chunk.NewTimeColumn("frame", chunk.Sequence, []int64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9})}
	c, err := chunk.New("/joint", times, []chunk.Component{{Descriptor: chunk.Descriptor{Component: "v"}, Values: b.NewListArray()}})
	if err != nil {
		t.Fatal(err)
	}
	f, err := rrd.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Discard()
	w := rrd.NewWriter(f, rrd.WriterOptions{})
	if err := w.WriteChunk(t.Context(), rrd.NewStoreID(rrd.Recording, "app", recording), c); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Commit(); err != nil {
		t.Fatal(err)
	}
}

func TestCatalogCommands(t *testing.T) {
	dir := t.TempDir()
	writeEpisode(t, filepath.Join(dir, "a.rrd"), "run a")
	if err := os.Mkdir(filepath.Join(dir, "more"), 0o755); err != nil {
		t.Fatal(err)
	}
	writeEpisode(t, filepath.Join(dir, "more", "b.rrd"), "run b")
	if err := os.WriteFile(filepath.Join(dir, "broken.rrd"), []byte("no recording at all"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := testkit.StartReel(t, "-d", "lab="+dir)
	for _, c := range []struct {
		args string
		code int
		out  string
		errs string
	}{
		{"ls", 0, "lab", ""},
		{"ls --all", 0, "__entries", ""},
		{"segments lab --format csv --select rerun_segment_id,rerun_num_chunks", 0, "run b,1", ""},
		{"schema lab", 0, "/joint:v", ""},
		{"schema lab --json", 0, `"entity": "/joint"`, ""},
		{"create other", 0, "", ""},
		{"create other", 1, "", "already exists"},
		{"register other " + dir + "/a.rrd " + dir + "/more", 0, "2 of 2 layers", ""},
		{"register other " + dir + "/a.rrd", 1, "0 of 1 layers", "already exists"},
		{"register other " + dir + "/a.rrd --on-duplicate skip", 0, "1 of 1", ""},
		{"register other " + dir + "/missing.rrd", 1, "", "missing.rrd"},
		{"register other " + dir + "/broken.rrd", 1, "", "Not an RRD file"},
		{"register other file:///nowhere/x.rrd", 1, "", "not found"},
		{"unregister other --segment nope", 0, "", ""},
		{"unregister other", 2, "", "--segment"},
		{"unregister other --layer base", 0, "", ""},
		{"segments other --format jsonl", 0, "", ""},
		{"segments nope", 1, "", "not found"},
		{"rename other another", 0, "", ""},
		{"rename other another", 1, "", "not found"},
		{"create other", 0, "", ""}, // the old name is free
		{"rename other another", 1, "", "already exists"},
		{"rm other another", 0, "", ""},
		{"rm other", 1, "", "not found"},
		{"ls --url http://x", 2, "", "rerun+http"},
	} {
		t.Run(c.args, func(t *testing.T) {
			args := append([]string{"catalog"}, strings.Fields(c.args)...)
			if !strings.Contains(c.args, "--url") {
				args = append(args, "--url", s.URL)
			}
			var out, errs bytes.Buffer
			code := run(t.Context(), args, strings.NewReader(""), &out, &errs)
			if code != c.code || !strings.Contains(out.String(), c.out) || !strings.Contains(errs.String(), c.errs) {
				t.Errorf("exit code %d, want %d\noutput %q\nerrors %q", code, c.code, &out, &errs)
			}
		})
	}
	if log := s.Log(); !strings.Contains(log, "broken.rrd") || !strings.Contains(log, "2 segments") {
		t.Errorf("log of the server: %s", log)
	}
}

func TestServeMistakes(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, c := range []struct {
		args, errs string
		code       int
	}{
		{"--port " + port, "in use", 1},
		{"--port 0 " + filepath.Join(dir, "missing"), "missing", 1},
		{"--port 0 -d =x", "want [NAME=]DIR", 2},
		{"--port 0 -d a/b=" + dir, "invalid character", 1},
		{"--port 0 " + dir + " " + dir, "two data sets", 2},
		{"--port 0 --log-level nope", "unknown level", 2},
	} {
		t.Run(c.args, func(t *testing.T) {
			var out, errs bytes.Buffer
			code := run(t.Context(), append([]string{"serve", "--host", "127.0.0.1"}, strings.Fields(c.args)...), strings.NewReader(""), &out, &errs)
			if code != c.code || !strings.Contains(errs.String(), c.errs) {
				t.Errorf("exit code %d, want %d; errors %q", code, c.code, &errs)
			}
		})
	}
}
