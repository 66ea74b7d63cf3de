package source_test

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/reelhouse/reelhouse/internal/testkit"
)

// A real robot's run, which the golden data names but does not hold.
const (
	realPackage = "evo==1.38.1"
	realArchive = "evo-1.38.1.tar.gz"
	realFile    = "evo-1.38.1/test/data/nav2_turtlebot.mcap"
)

func TestRealRecording(t *testing.T) {
	path := filepath.Join(testkit.Root(t), "build", "demo", filepath.Base(realFile))
	if _, err := os.Stat(path); err != nil {
		path = fetchRecording(t)
	}
	dir := testkit.Golden(t, "readers")
	var want expected
	loadJSON(t, filepath.Join(dir, "expected", "ext_nav2_turtlebot.json"), &want)
	g := &golden{dir: filepath.Dir(path), c: goldenCase{File: filepath.Base(path), Options: []byte("{}")}, want: &want}
	g.check(t, openMCAP)
}

// fetchRecording gets the recording from the package registry; the test is
// skipped without a network.
func fetchRecording(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), testkit.Python(t), "-m", "pip", "download", "--quiet", "--retries", "0",
		"--timeout", "15", "--no-deps", "--no-binary", "evo", "--dest", dir, realPackage)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("the recording cannot be fetched: %v\n%s", err, out)
	}
	f, err := os.Open(filepath.Join(dir, realArchive))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			t.Fatalf("%s holds no %s", realArchive, realFile)
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Name != realFile {
			continue
		}
		path := filepath.Join(dir, filepath.Base(realFile))
		out, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(out, r); err != nil {
			t.Fatal(err)
		}
		if err := out.Close(); err != nil {
			t.Fatal(err)
		}
		return path
	}
}
