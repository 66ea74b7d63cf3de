package testkit_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/ipc"

	"github.com/reelhouse/reelhouse/internal/testkit"
)

func TestDigestsAgainstReference(t *testing.T) {
	dir := t.TempDir()
	golden := filepath.Dir(testkit.Golden(t, "rrd"))
	script := filepath.Join("testdata", "digests.py")
	out := testkit.RunPython(t, script, golden, dir)
	var cases map[string]struct{ Type, RRD, Readers string }
	if err := json.Unmarshal([]byte(out), &cases); err != nil {
		t.Fatalf("%v in %q", err, out)
	}
	if len(cases) < 30 {
		t.Fatalf("only %d cases", len(cases))
	}
	for name, want := range cases {
		t.Run(name, func(t *testing.T) {
			f, err := os.Open(filepath.Join(dir, name+".arrow"))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			r, err := ipc.NewFileReader(f)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			batch, err := r.RecordBatchAt(0)
			if err != nil {
				t.Fatal(err)
			}
			arr := batch.Column(0)
			if got := testkit.PyArrowType(arr.DataType()); got != want.Type {
				t.Errorf("type %q, want %q", got, want.Type)
			}
			if want.RRD != "" {
				if got := testkit.DigestRRD(arr); got != want.RRD {
					t.Errorf("rrd digest %s, want %s", got, want.RRD)
				}
			}
			if want.Readers != "" {
				if got := testkit.DigestReaders(arr); got != want.Readers {
					t.Errorf("readers digest %s, want %s", got, want.Readers)
				}
			}
		})
	}
}

func TestPeerServer(t *testing.T) {
	testkit.CheckLeaks(t)
	s := testkit.StartRerun(t)
	resp, err := http.Get("http://" + s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	script := "import sys, rerun as rr; print(rr.catalog.CatalogClient(sys.argv[1]).dataset_names())"
	if got := strings.TrimSpace(testkit.RunPython(t, "-c", script, s.URL)); got != "[]" {
		t.Errorf("data sets of an empty server: %s", got)
	}
	s.Stop()
}
