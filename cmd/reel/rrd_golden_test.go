package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reelhouse/reelhouse/internal/testkit"
)

// TestGoldenRRDCommands runs the looking commands on every golden recording. Exit codes and standard
// output are those of the reference, but for what normal removes and the cases in ours.
func TestGoldenRRDCommands(t *testing.T) {
	dir := filepath.Join(testkit.Golden(t, "rrd"), "cases")
	cases, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(cases) == 0 {
		t.Fatalf("no golden cases in %s: %v", dir, err)
	}
	type result struct {
		Code   int `json:"rc"`
		Stdout string
	}
	for _, path := range cases {
		name := strings.TrimSuffix(filepath.Base(path), ".json")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var golden struct {
				CLI    map[string]result       `json:"cli"`
				Frames []struct{ Kind string } `json:"frames"`
			}
			if err := json.Unmarshal(b, &golden); err != nil {
				t.Fatal(err)
			}
			kinds := map[string]int{}
			for _, f := range golden.Frames {
				kinds[f.Kind]++
			}
			concatenated := kinds["StreamHeader"] > 1 && kinds["StreamHeader"] == kinds["StreamFooter"]
			for command, want := range golden.CLI {
				args := append([]string{"rrd"}, strings.Fields(command)...)
				args = append(args, filepath.Join(dir, name+".rrd"))
				var out, errs bytes.Buffer
				code := run(t.Context(), args, strings.NewReader(""), &out, &errs)
				if concatenated && command == "verify" {
					// Each stream of a concatenation has its own footer, which the
					// reference does not look for.
					want.Code = 0
				}
				if code != want.Code {
					t.Errorf("%s: exit code %d, want %d\n%s", command, code, want.Code, &errs)
				}
				have := out.String()
				if len([]rune(want.Stdout)) == goldenOutput {
					have = string([]rune(have)[:min(goldenOutput, len([]rune(have)))])
				}
				wanted, had := normal(want.Stdout), normal(have)
				if name == "mut_time_nulls" {
					// A chunk with nulls among its times cannot be read. The reference does
					// not notice when it prints and counts; here it is a fault.
					if command == "stats" {
						wanted, had = "", ""
					}
					wanted = regexp.MustCompile(`(?m)^.* - /m - .*\n?`).ReplaceAllString(wanted, "")
					if !strings.Contains(errs.String(), "null") && !strings.Contains(command, "no-decode") && command != "verify" {
						t.Errorf("%s: no word about nulls: %q", command, &errs)
					}
				}
				if diff := cmp.Diff(spaceAtEnd.ReplaceAllString(wanted, ""), had); diff != "" {
					t.Errorf("%s: output differs (-want +have):\n%s", command, diff)
				}
			}
		})
	}
}

// goldenOutput is how many characters of an output golden files hold at most.
const goldenOutput = 6000

var (
	spaceAtEnd = regexp.MustCompile(`\s+$`)
	columns    = regexp.MustCompile(`(?m) - data columns: \[(.*)\]$`)
	heapSizes  = regexp.MustCompile(`(?m)^(Chunk\(\w+\) with \S+ rows) \([^)]*\)`)
)

// normal makes outputs comparable: the name of the program that migrates is our own, golden files do
// not keep the end of an output to the byte, the size of a chunk in memory is that of the reference's
// own structures, which we only come near, and columns of old recordings are shown sorted here, as
// they are stored after migration.
func normal(out string) string {
	out = strings.ReplaceAll(out, "`rerun rrd migrate`", "`reel rrd migrate`")
	out = heapSizes.ReplaceAllString(out, "$1")
	out = columns.ReplaceAllStringFunc(out, func(s string) string {
		names := strings.Fields(columns.FindStringSubmatch(s)[1])
		slices.Sort(names)
		return " - data columns: " + strings.Join(names, " ")
	})
	return spaceAtEnd.ReplaceAllString(out, "")
}
