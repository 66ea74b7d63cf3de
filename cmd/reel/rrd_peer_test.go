package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reelhouse/reelhouse/internal/testkit"
)

// TestPeerRRDEdits runs the rewriting commands here and in the reference. What is written here must
// verify there, and hold what the reference wrote.
func TestPeerRRDEdits(t *testing.T) {
	rerun := testkit.RerunCLI(t)
	t.Setenv("RERUN_ANALYTICS", "off")
	dir := filepath.Join(testkit.Golden(t, "rrd"), "cases")
	in := func(names ...string) []string {
		for i, n := range names {
			names[i] = filepath.Join(dir, n+".rrd")
		}
		return names
	}
	same := func(t *testing.T, want, have string) {
		t.Helper()
		if _, errs, code := testkit.Run(t, "", rerun, "rrd", "verify", have); code != 0 {
			t.Errorf("the reference does not verify %s:\n%s", filepath.Base(have), errs)
		}
		if out, errs, code := testkit.Run(t, "", rerun, "rrd", "compare", "--unordered", want, have); code != 0 {
			t.Errorf("%s differs from the reference's:\n%.2000s\n%s", filepath.Base(have), out, errs)
		}
	}
	for _, c := range []struct {
		name   string
		inputs []string
		args   []string
	}{
		{"merge one", in("sparse"), []string{"merge"}},
		{"merge static", in("static"), []string{"merge"}},
		{"merge legacy", in("legacy_0.23.4"), []string{"merge"}},
		{"merge without footer", in("nofooter"), []string{"merge"}},
		{"merge twice the same", in("images", "images"), []string{"merge"}},
		{"merge several of one id", in("spatial", "textlog", "unsorted"), []string{"merge"}},
		{"merge truncated", in("trunc_mid_payload"), []string{"merge"}},
		{"filter timeline", in("sparse"), []string{"filter", "--drop-timeline", "frame"}},
		{"filter entity", in("spatial"), []string{"filter", "--drop-entity", "/__properties"}},
		{"filter legacy", in("legacy_0.26.2"), []string{"filter", "--drop-timeline", "stamp"}},
		{"route", in("unsorted"), []string{"route", "--application-id", "b c.d", "--recording-id", "r"}},
		{"route several", in("unsorted", "textlog"), []string{"route", "--recording-id", "r"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			tmp := t.TempDir()
			want, have := filepath.Join(tmp, "want.rrd"), filepath.Join(tmp, "have.rrd")
			args := slices.Concat([]string{"rrd"}, c.args, c.inputs)
			if _, errs, code := testkit.Run(t, "", rerun, append(args, "-o", want)...); code != 0 {
				t.Fatalf("the reference fails: %s", errs)
			}
			reel(t, 0, append(args, "-o", have)...)
			same(t, want, have)
		})
	}
	for _, c := range []struct {
		input string
		args  []string
		keeps string // a part with chunks that the reference drops
	}{
		{"scalars3", []string{"--timeline", "frame", "-n", "3"}, ""},
		{"textlog", []string{"--timeline", "frame", "-t", "2", "-t", "3"}, ""},
		{"spatial", []string{"--timeline", "frame", "-n", "2", "--drop-unused-timelines"}, ""},
		{"images", []string{"--timeline", "frame", "-n", "2", "--recording-id", "part"}, ""},
		{"nofooter", []string{"--timeline", "frame", "-n", "2"}, ""},
		{"unsorted", []string{"--timeline", "log_time", "-n", "2"}, "first"},
		{"unsorted", []string{"--timeline", "dur", "-t", "100000000"}, ""},
	} {
		t.Run("split "+c.input+" "+strings.Join(c.args, " "), func(t *testing.T) {
			want, have := t.TempDir(), t.TempDir()
			args := append([]string{"rrd", "split", filepath.Join(dir, c.input+".rrd")}, c.args...)
			if _, errs, code := testkit.Run(t, "", rerun, append(args, "-o", want)...); code != 0 {
				t.Fatalf("the reference fails: %s", errs)
			}
			reel(t, 0, append(args, "-o", have)...)
			if w, h := files(t, want), files(t, have); !slices.Equal(w, h) {
				t.Fatalf("files %q, want %q", h, w)
			}
			for i, name := range files(t, want) {
				if i == 0 && c.keeps == "first" {
					continue
				}
				same(t, filepath.Join(want, name), filepath.Join(have, name))
			}
		})
	}
	t.Run("migrate", func(t *testing.T) {
		want, have := filepath.Join(t.TempDir(), "a.rrd"), filepath.Join(t.TempDir(), "a.rrd")
		for _, path := range []string{want, have} {
			b, err := os.ReadFile(filepath.Join(dir, "legacy_0.23.4.rrd"))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, errs, code := testkit.Run(t, "", rerun, "rrd", "migrate", want); code != 0 {
			t.Fatalf("the reference fails: %s", errs)
		}
		reel(t, 0, "rrd", "migrate", have)
		same(t, want, have)
		if w, h := files(t, filepath.Dir(want)), files(t, filepath.Dir(have)); !slices.Equal(w, h) {
			t.Errorf("files %q, want %q", h, w)
		}
	})
}

// reel runs a command line in this process and returns its outputs.
func reel(t *testing.T, code int, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	if got := run(t.Context(), args, strings.NewReader(""), &out, &errs); got != code {
		t.Fatalf("reel %s: exit code %d, want %d\n%s", strings.Join(args, " "), got, code, &errs)
	}
	return out.String(), errs.String()
}

func files(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names
}

// TestPeerCompare gives pairs of recordings to both comparisons.
func TestPeerCompare(t *testing.T) {
	rerun := testkit.RerunCLI(t)
	t.Setenv("RERUN_ANALYTICS", "off")
	dir := filepath.Join(testkit.Golden(t, "rrd"), "cases")
	tmp := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name+".rrd") }
	merged := filepath.Join(tmp, "merged.rrd")
	reel(t, 0, "rrd", "merge", at("legacy_0.23.4"), "-o", merged)
	filtered := filepath.Join(tmp, "filtered.rrd")
	reel(t, 0, "rrd", "filter", at("legacy_0.23.4"), "-o", filtered)
	dropped := filepath.Join(tmp, "dropped.rrd")
	reel(t, 0, "rrd", "filter", "--drop-timeline", "frame", at("sparse"), "-o", dropped)
	for _, pair := range [][2]string{
		{at("sparse"), at("sparse")},
		{at("sparse"), dropped},
		{at("sparse"), at("images")},
		{at("nofooter"), at("noprops")},
		{at("legacy_0.23.4"), merged},
		{merged, filtered},
		{at("multi"), at("multi")},
		{at("blueprint"), at("blueprint")},
		{at("optimized"), at("scalars3")},
		{at("trunc_mid_payload"), at("trunc_mid_payload")},
		{at("bad_lz4"), at("sparse")},
		{at("empty"), at("empty")},
		{at("trunc_header"), at("empty")},
	} {
		for _, flags := range [][]string{nil, {"--unordered"}, {"--unordered", "--ignore-timeline", "frame"}} {
			args := slices.Concat([]string{"rrd", "compare"}, flags, pair[:])
			_, _, want := testkit.Run(t, "", rerun, args...)
			var out, errs bytes.Buffer
			if have := run(t.Context(), args, strings.NewReader(""), &out, &errs); have != want {
				t.Errorf("%s: exit code %d, want %d: %s", strings.Join(args, " "), have, want, &errs)
			}
		}
	}
}

// TestPeerPrint compares tables and footers with the reference's, to the byte but for sizes in memory.
func TestPeerPrint(t *testing.T) {
	rerun := testkit.RerunCLI(t)
	t.Setenv("RERUN_ANALYTICS", "off")
	dir := filepath.Join(testkit.Golden(t, "rrd"), "cases")
	for name, flags := range map[string][]string{
		"images":    {"-v"},
		"blueprint": {"-vv"},
		"spatial":   {"-vvv"},
		"props":     {"-vvv", "--transposed=true"},
		"static":    {"-vvv", "--full-metadata=true"},
		"paths":     {"--footers", "true"},
		"sparse":    {"--footers=true", "--footers-lod", "1"},
		"unsorted":  {"--footers=true", "--footers-lod=2", "--full-metadata=true"},
		"multi":     {"--entity", "/a", "-vv", "--transposed=true"},
	} {
		args := slices.Concat([]string{"rrd", "print", filepath.Join(dir, name+".rrd")}, flags)
		want, errs, code := testkit.Run(t, "", rerun, args...)
		if code != 0 {
			t.Fatalf("the reference fails: %s", errs)
		}
		have, _ := reel(t, 0, args...)
		for _, s := range []*string{&want, &have} {
			*s = heapSizes.ReplaceAllString(*s, "$1")
		}
		if diff := cmp.Diff(want, have); diff != "" {
			t.Errorf("%s (-want +have):\n%.3000s", strings.Join(args, " "), diff)
		}
	}
}
