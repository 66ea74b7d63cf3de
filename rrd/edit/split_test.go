package edit

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/reelhouse/reelhouse/chunk"
	"github.com/reelhouse/reelhouse/rrd"
)

func split(t testing.TB, in []byte, o SplitOptions) ([]string, [][]string, error) {
	t.Helper()
	dir, err := os.MkdirTemp("", "split")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	}()
	path := filepath.Join(dir, "in.rrd")
	if err := os.WriteFile(path, in, 0o600); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "out")
	if err := os.Mkdir(out, 0o700); err != nil {
		t.Fatal(err)
	}
	parts, err := Split(t.Context(), path, out, o)
	entries, _ := os.ReadDir(out)
	if len(entries) != len(parts) {
		t.Errorf("%d files for %d parts", len(entries), len(parts))
	}
	var names []string
	var contents [][]string
	for _, p := range parts {
		b, err := os.ReadFile(p.Path)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, filepath.Base(p.Path))
		contents = append(contents, content(t, b))
	}
	return names, contents, err
}

func TestSplit(t *testing.T) {
	in := recording(t, storeA,
		floats(t, "/a", "x", []int64{0, 1, 2, 3, 4, 5}, 0, 1, 2, 3, 4, 5),
		floats(t, "/b", "x", []int64{1}, 10),
		floats(t, "/b", "y", []int64{0}, 11),
		floats(t, "/c", "x", []int64{3}, 30),
		floats(t, "/s", "x", nil, 7),
	)
	names, got, err := split(t, in, SplitOptions{Timeline: "t", Times: []string{"3", "5"}})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"in_0__3.rrd", "in_3__5.rrd", "in_5__6.rrd"}; !slices.Equal(names, want) {
		t.Errorf("files %q, want %q", names, want)
	}
	want := [][]string{
		{"info Recording:app:a-0", "a-0 /a t0 x[0.0] t1 x[1.0] t2 x[2.0]", "a-0 /b t1 x[10.0]", "a-0 /b t0 y[11.0]", "a-0 /s x[7.0]"},
		{"info Recording:app:a-1", "a-1 /a t3 x[3.0] t4 x[4.0]", "a-1 /c t3 x[30.0]", "a-1 /s x[7.0]", "a-1 /b t1 x[10.0]", "a-1 /b t0 y[11.0]"},
		{"info Recording:app:a-2", "a-2 /a t5 x[5.0]", "a-2 /s x[7.0]", "a-2 /b t1 x[10.0]", "a-2 /b t0 y[11.0]", "a-2 /c t3 x[30.0]"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("parts (-want +have):\n%s", diff)
	}
}

func TestSplitVideo(t *testing.T) {
	samples := array.NewStringBuilder(memory.DefaultAllocator)
	keys := array.NewBooleanBuilder(memory.DefaultAllocator)
	var times []int64
	for i := range 10 {
		samples.Append(fmt.Sprint("s", i))
		keys.Append(i%4 == 0)
		times = append(times, int64(i))
	}
	in := recording(t, storeA, columns(t, "/v", times,
		chunk.Component{Descriptor: chunk.Descriptor{Component: videoSample}, Values: ones(t, samples.NewArray())},
		chunk.Component{Descriptor: chunk.Descriptor{Component: videoKeyframe}, Values: ones(t, keys.NewArray())}))
	_, got, err := split(t, in, SplitOptions{Timeline: "t", Times: []string{"6", "8"}})
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, line := range got[1][1:] {
		all = append(all, strings.Fields(line)[2:]...)
	}
	text := strings.Join(all, " ")
	for _, s := range []string{"t4", "t5", "t6", "t7"} {
		if !strings.Contains(text, s) {
			t.Errorf("second part lacks %s: %s", s, text)
		}
	}
	if strings.Contains(text, "t3") {
		t.Errorf("second part reaches behind the keyframe: %s", text)
	}
	if len(got[2]) != 2 {
		t.Errorf("third part starts with a keyframe and needs no state: %q", got[2])
	}
}

func TestSplitErrors(t *testing.T) {
	in := recording(t, storeA, floats(t, "/a", "x", []int64{0, 9}, 0, 9))
	for _, c := range []struct {
		o    SplitOptions
		want error
	}{
		{SplitOptions{Timeline: "u", Parts: 2}, ErrNoTimeline},
		{SplitOptions{Timeline: "t", Parts: 1}, ErrCutoffs},
		{SplitOptions{Timeline: "t", Parts: 100}, ErrCutoffs},
		{SplitOptions{Timeline: "t", Times: []string{"5", "5"}}, ErrCutoffs},
		{SplitOptions{Timeline: "t", Times: []string{"5.5"}}, ErrCutoffs},
		{SplitOptions{Timeline: "t", Times: []string{"2024-01-01"}}, ErrCutoffs},
	} {
		if _, _, err := split(t, in, c.o); !errors.Is(err, c.want) {
			t.Errorf("%+v: %v, want %v", c.o, err, c.want)
		}
	}
	if _, err := Split(t.Context(), "missing.rrd", t.TempDir(), SplitOptions{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
	if _, err := Split(t.Context(), "missing.rrd", "no-folder", SplitOptions{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing folder: %v", err)
	}
}

// TestSplitKeepsRows proves that each row is in exactly one part as a row of its own span.
func TestSplitKeepsRows(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		var chunks []*chunk.Chunk
		want := map[string]int{}
		for k := range rapid.IntRange(1, 4).Draw(r, "chunks") {
			times := rapid.SliceOfN(rapid.Int64Range(-20, 20), 1, 8).Draw(r, "times")
			values := make([]float64, len(times))
			for i := range values {
				values[i] = float64(100*k + i)
			}
			c := floats(t, "/e", "x", times, values...)
			for i, at := range c.Timeline("t").Times {
				want[fmt.Sprintf("t%d x%s", at, chunk.ValueText(c.Component("x").Values, i))]++
			}
			chunks = append(chunks, c)
		}
		cuts := rapid.SliceOfNDistinct(rapid.Int64Range(-25, 25), 1, 4, rapid.ID[int64]).Draw(r, "cuts")
		slices.Sort(cuts)
		var times []string
		for _, c := range cuts {
			times = append(times, fmt.Sprint(c))
		}
		_, got, err := split(t, recording(t, storeA, chunks...), SplitOptions{Timeline: "t", Times: times})
		if errors.Is(err, ErrCutoffs) {
			return // two parts of one name
		}
		if err != nil {
			r.Fatal(err)
		}
		have := map[string]int{}
		for i, lines := range got {
			for _, line := range lines[1:] {
				f := strings.Fields(line)[2:]
				for k := 0; k < len(f); k += 2 {
					at, err := strconv.ParseInt(f[k][1:], 10, 64)
					if err != nil {
						r.Fatal(err)
					}
					if i > 0 && at < cuts[i-1] {
						continue // state
					}
					if i < len(cuts) && at >= cuts[i] {
						r.Fatalf("part %d has t%d", i, at)
					}
					have[f[k]+" "+f[k+1]]++
				}
			}
		}
		if diff := cmp.Diff(want, have); diff != "" {
			r.Fatalf("rows (-want +have):\n%s", diff)
		}
	})
}

func TestTimeLabel(t *testing.T) {
	for _, c := range []struct {
		kind chunk.TimeKind
		t    int64
		want string
	}{
		{chunk.Sequence, -3, "-3"},
		{chunk.Timestamp, 1700000001900000000, "2023-11-14T22_13_21_9Z"},
		{chunk.Timestamp, 0, "1970-01-01T00_00_00Z"},
		{chunk.Duration, 0, "0ns"},
		{chunk.Duration, 999, "999ns"},
		{chunk.Duration, 100_000, "100µs"},
		{chunk.Duration, 50_000_000, "50ms"},
		{chunk.Duration, 4_750_000_001, "4_750000001s"},
		{chunk.Duration, 90_000_000_000_001, "90000_000000001s"},
		{chunk.Duration, -1_500_000_000, "-1_5s"},
		{chunk.Duration, math.MinInt64, "-9223372036_854775808s"},
	} {
		if got := timeLabel(c.kind, c.t); got != c.want {
			t.Errorf("%s %d: %q, want %q", c.kind, c.t, got, c.want)
		}
	}
}

func TestParseTime(t *testing.T) {
	const at = 1700000002
	for text, want := range map[string]int64{
		"1700000002000000000":       at * 1e9,
		"2023-11-14T22:13:22Z":      at * 1e9,
		"2023-11-14T23:13:22+01:00": at * 1e9,
		"2023-11-14 22:13:22":       at * 1e9,
		"2023-11-14T22:13:22.5":     at*1e9 + 5e8,
		"2023-11-14":                1699920000 * 1e9,
	} {
		if got, err := parseTime(chunk.Timestamp, text); err != nil || got != want {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "22:13:22", "1700000001.5", "2023-11-14T22:13"} {
		if _, err := parseTime(chunk.Timestamp, text); !errors.Is(err, ErrCutoffs) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := parseTime(chunk.Duration, "1s"); !errors.Is(err, ErrCutoffs) {
		t.Errorf("a duration with a unit: %v", err)
	}
}

func TestSplitDropsTimelines(t *testing.T) {
	both, err := chunk.New("/a", []chunk.TimeColumn{
		chunk.NewTimeColumn("t", chunk.Sequence, []int64{0, 1}),
		chunk.NewTimeColumn("u", chunk.Sequence, []int64{5, 6}),
	}, floats(t, "/a", "x", []int64{0, 1}, 0, 1).Components())
	if err != nil {
		t.Fatal(err)
	}
	other, err := chunk.New("/o", []chunk.TimeColumn{chunk.NewTimeColumn("u", chunk.Sequence, []int64{5})}, floats(t, "/o", "x", []int64{0}, 0).Components())
	if err != nil {
		t.Fatal(err)
	}
	in := recording(t, storeA, both, other)
	_, got, err := split(t, in, SplitOptions{Timeline: "t", Parts: 2})
	if err != nil || len(got) != 2 || len(got[0]) != 3 {
		t.Errorf("chunks without the timeline go first: %q, %v", got, err)
	}
	_, got, err = split(t, in, SplitOptions{Timeline: "t", Parts: 2, DropOthers: true})
	if err != nil || len(got) != 2 || len(got[0]) != 2 {
		t.Errorf("chunks of other timelines alone are dropped with them: %q, %v", got, err)
	}
	if _, _, err := split(t, in, SplitOptions{Timeline: "t", Parts: 2, Recording: "p"}); err != nil {
		t.Error(err)
	}
	two := append(slices.Clone(in), recording(t, rrd.NewStoreID(rrd.Recording, "app", "b"), both.WithID(chunk.NewTUID()))...)
	if _, _, err := split(t, two, SplitOptions{Timeline: "t", Parts: 2, Recording: "p"}); err == nil {
		t.Error("two recordings get one id")
	}
}
