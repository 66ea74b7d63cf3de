package chunk_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/google/go-cmp/cmp"

	"github.com/reelhouse/reelhouse/chunk"
	"github.com/reelhouse/reelhouse/internal/arrowipc"
	"github.com/reelhouse/reelhouse/internal/testkit"
)

// TestFormatLikePeer draws random chunks of all types as the peer does, character by character.
func TestFormatLikePeer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	testkit.RunPython(t, filepath.Join("testdata", "format_peer.py"), "5", "150", dir)
	files, err := filepath.Glob(filepath.Join(dir, "*.arrow"))
	if err != nil || len(files) != 150 {
		t.Fatalf("%d chunks from the peer: %v", len(files), err)
	}
	for _, file := range files {
		var drawings []struct {
			Args struct {
				Width  int  `json:"width"`
				Redact bool `json:"redact"`
				Trim   bool `json:"trim_metadata_keys"`
			} `json:"args"`
			Text string `json:"text"`
		}
		readJSON(t, strings.TrimSuffix(file, ".arrow")+".json", &drawings)
		c, err := chunk.FromRecordBatch(readStream(t, file))
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, d := range drawings {
			got := c.Format(chunk.FormatOptions{Width: d.Args.Width, Redact: d.Args.Redact, FullKeys: !d.Args.Trim})
			if got != d.Text {
				t.Fatalf("%s %+v (-want +got):\n%s", filepath.Base(file), d.Args, cmp.Diff(strings.Split(d.Text, "\n"), strings.Split(got, "\n")))
			}
		}
	}
}

func readJSON(t *testing.T, path string, into any) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

func openFile(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// TestFromDataFrameLikePeer reads random record batches with random options.
func TestFromDataFrameLikePeer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const count = 400
	testkit.RunPython(t, filepath.Join("testdata", "dataframe_peer.py"), "7", strconv.Itoa(count), dir)
	codes := map[string][]error{
		"column_order": {chunk.ErrColumnOrder},
		"row_id":       {chunk.ErrRowID},
		"kind":         {chunk.ErrKind},
		// Which fault of an index column comes first is no promise.
		"bad_index": {chunk.ErrNullTime, chunk.ErrTimeType},
	}
	maps.Copy(codes, errorCodes)
	for n := range count {
		base := filepath.Join(dir, fmt.Sprintf("%05d", n))
		var result struct {
			Args   map[string]json.RawMessage `json:"args"`
			Chunks int                        `json:"chunks"`
			Error  string                     `json:"error"`
		}
		readJSON(t, base+".json", &result)
		in := readStream(t, base+".arrow")
		c := goldenCase{Op: "from_record_batch", Args: result.Args}
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			got, err := c.fromBatch(t, in)
			switch {
			case result.Error != "":
				if !slices.ContainsFunc(codes[result.Error], func(e error) bool { return errors.Is(err, e) }) {
					t.Errorf("error %v instead of %s; %s %v", err, result.Error, result.Args, in.Schema())
				}
			case err != nil:
				t.Errorf("%v; %s %v", err, result.Args, in.Schema())
			case len(got) != result.Chunks:
				t.Errorf("%d chunks instead of %d; %s %v", len(got), result.Chunks, result.Args, in.Schema())
			default:
				for i, g := range got {
					want, err := chunk.FromRecordBatch(readStream(t, fmt.Sprintf("%s.%d.arrow", base, i)))
					if err != nil {
						t.Fatal(err)
					}
					if g.EntityPath() != want.EntityPath() {
						t.Errorf("entity %s instead of %s", g.EntityPath(), want.EntityPath())
					}
					kept := false
					for r := range want.NumRows() {
						kept = kept || containsRowID(g.RowIDs(), want.RowID(r))
					}
					compareBatches(t, want.RecordBatch(), g.RecordBatch(), kept)
				}
			}
		})
	}
}

func readStream(t *testing.T, path string) arrow.RecordBatch {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b, err := arrowipc.Batch(data)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return b
}

// TestEntityPathLikePeer parses random texts.
func TestEntityPathLikePeer(t *testing.T) {
	t.Parallel()
	var paths [][4]any
	if err := json.Unmarshal([]byte(testkit.RunPython(t, filepath.Join("testdata", "path_peer.py"), "3", "3000")), &paths); err != nil {
		t.Fatal(err)
	}
	for _, p := range paths {
		text, want := p[0].(string), p[1].(string)
		// An escaped backslash before a slash: the peer takes the slash as escaped
		// and so does not read back paths that it writes.
		if !strings.Contains(text, `\\/`) {
			if got := chunk.ParseEntityPath(text); string(got) != want {
				t.Errorf("%q: %s instead of %s", text, got, want)
			}
		}
		var parts []string
		for _, part := range p[2].([]any) {
			if part == "" { // the peer keeps empty parts, which no text can give
				parts = nil
				break
			}
			parts = append(parts, part.(string))
		}
		if parts != nil {
			if got := chunk.EntityPathFromParts(parts...); string(got) != p[3].(string) {
				t.Errorf("%q: %s instead of %s", parts, got, p[3])
			}
		}
	}
}
