package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/reelhouse/reelhouse/internal/testkit"
)

// The demonstration compares our answer with that of the real SDK.
func TestDemo(t *testing.T) {
	var out, errs bytes.Buffer
	args := []string{"demo", "--check", "--dir", t.TempDir(), "--python", testkit.Python(t), "--port", "0"}
	if code := run(t.Context(), args, strings.NewReader(""), &out, &errs); code != 0 {
		t.Fatalf("exit code %d\n%s%s", code, &out, &errs)
	}
	if !strings.Contains(out.String(), "The answers are the same: 200 rows.") {
		t.Errorf("output:\n%s", &out)
	}
}
