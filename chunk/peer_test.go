package chunk_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		batch, err := arrowipc.Batch(data)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		c, err := chunk.FromRecordBatch(batch)
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
