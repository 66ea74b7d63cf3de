package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		args string
		code int
		out  string // must appear in standard output
		errs string // must appear in standard error
	}{
		{"--help", 0, "Usage:", ""},
		{"--version", 0, "reel ", ""},
		{"no-such-command", 2, "", "no-such-command"},
		{"--no-such-flag", 2, "", "no-such-flag"},
	} {
		t.Run(c.args, func(t *testing.T) {
			var out, errs bytes.Buffer
			code := run(t.Context(), strings.Fields(c.args), strings.NewReader(""), &out, &errs)
			if code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			if !strings.Contains(out.String(), c.out) || !strings.Contains(errs.String(), c.errs) {
				t.Errorf("output %q, errors %q", &out, &errs)
			}
		})
	}
}
