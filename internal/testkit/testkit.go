// Package testkit holds what tests of several packages share: where golden data lies, value digests
// as golden files write them, and the processes of peers and of our own binary.
//
// Its functions take a testing.TB, report failures through it and never return an error. They may be
// called by parallel tests.
package testkit

import (
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

// Root returns the directory of the go.mod that the running test belongs to.
func Root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("no go.mod above the working directory")
		}
		dir = parent
	}
}

// Golden returns the folder of an area of the golden data, such as "rrd" or "chunks". Golden data is
// not part of the repository: it lies in $REEL_GOLDEN, or in shared/golden beside the module. The
// test fails when the folder is missing.
func Golden(t testing.TB, area string) string {
	t.Helper()
	base := os.Getenv("REEL_GOLDEN")
	if base == "" {
		base = filepath.Join(Root(t), "..", "shared", "golden")
	}
	dir := filepath.Join(base, area)
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		t.Fatalf("golden data is missing: %s (set REEL_GOLDEN to the folder that holds it)", dir)
	}
	return dir
}

// CheckLeaks fails the test when goroutines started during it are still alive at its end. Not for
// tests that run in parallel with others.
func CheckLeaks(t testing.TB) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		if !t.Failed() {
			goleak.VerifyNone(t, before)
		}
	})
}
