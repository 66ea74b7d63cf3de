package server_test

import (
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/reelhouse/reelhouse/internal/testkit"
)

// tableFlows are the client flows that need tables, which come later.
const tableFlows = "test_sql or test_table_life or test_upsert_without_index or test_write_query_result or test_table_url or " +
	"test_register_table or test_table_types or test_table_qualified_name or test_delete_unknown"

// TestClientFlows runs the flows of the real client against reel serve.
func TestClientFlows(t *testing.T) {
	s := testkit.StartReel(t)
	t.Setenv("REEL_URL", s.URL)
	t.Setenv("REEL_DATA", filepath.Join(t.TempDir(), "data"))
	flows := filepath.Join(testkit.Golden(t, "catalog"), "client_flows.py")
	out := testkit.RunPython(t, "-m", "pytest", "-p", "no:cacheprovider", "-q", "--timeout=120", "-k", "not ("+tableFlows+")", flows)
	if !strings.Contains(out, " passed") {
		t.Error(out)
	}
	if code := s.Stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestLive logs to a server by the real SDK and queries what was logged. The
// recordings that are left behind must satisfy the reference.
func TestLive(t *testing.T) {
	dir := t.TempDir()
	s := testkit.StartReel(t, "--stage-dir", dir)
	file := strings.TrimSpace(testkit.RunPython(t, filepath.Join("testdata", "live.py"), s.URL))
	if code := s.Stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	u, err := url.Parse(file)
	if err != nil {
		t.Fatal(err)
	}
	if rel, err := filepath.Rel(dir, u.Path); err != nil || strings.HasPrefix(rel, "..") {
		t.Errorf("live recording is at %s, not below %s", u.Path, dir)
	}
	files, err := filepath.Glob(filepath.Join(filepath.Dir(u.Path), "*.rrd"))
	if err != nil || len(files) != 2 {
		t.Fatalf("live recordings: %v %v", files, err)
	}
	for _, f := range files {
		if out, errs, code := testkit.Run(t, "", testkit.RerunCLI(t), "rrd", "verify", f); code != 0 {
			t.Errorf("rrd verify %s: %d\n%s%s", f, code, out, errs)
		}
	}
}
