package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reelhouse/reelhouse/internal/testkit"
)

// TestQueryServer asks a server and the folder that it serves the same.
func TestQueryServer(t *testing.T) {
	golden, dir := testkit.Golden(t, "rrd"), t.TempDir()
	for _, name := range []string{"multi.rrd", "props.rrd", "spatial.rrd"} {
		b, err := os.ReadFile(filepath.Join(golden, "cases", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s := testkit.StartReel(t, "-d", "runs="+dir)
	query := func(args ...string) string {
		var out, errs bytes.Buffer
		if code := run(t.Context(), append([]string{"query"}, args...), strings.NewReader(""), &out, &errs); code != 0 {
			t.Fatalf("%v: exit code %d: %s", args, code, errs.String())
		}
		return out.String()
	}
	for _, args := range [][]string{
		{"--index", "frame", "--json"},
		{"--index", "log_time", "--json", "--fill-latest-at"},
		{"--json", "--contents", "/** /__properties/**"},
		{"--index", "frame", "--json", "--segment", "a1"},
		{"--schema", "--json"},
	} {
		want := query(append([]string{dir}, args...)...)
		for _, more := range [][]string{{s.URL}, {s.URL, "--dataset", "runs"}} {
			if d := cmp.Diff(want, query(append(more, args...)...)); d != "" || strings.Count(want, "\n") < 1 {
				t.Errorf("%v: %s", args, d)
			}
		}
	}
	var errs bytes.Buffer
	if code := run(t.Context(), []string{"query", s.URL, "--dataset", "nope"}, nil, &bytes.Buffer{}, &errs); code != 1 || !strings.Contains(errs.String(), "nope") {
		t.Errorf("exit code %d: %s", code, errs.String())
	}
}
