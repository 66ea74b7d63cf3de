package query_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reelhouse/reelhouse/chunk"
	"github.com/reelhouse/reelhouse/query"
)

func TestContents(t *testing.T) {
	entities := []chunk.EntityPath{"/", "/a", "/a/b", "/a/b/c", "/ab", `/a\ b`, "/-x", "/__properties", "/__properties/p", "/__warnings"}
	for _, tc := range []struct{ rules, want string }{
		{"/**", `/ /a /a/b /a/b/c /ab /a\ b /-x /__warnings`},
		{"/a", "/a"},
		{"a/", "/a"},
		{"//a//b", "/a/b"},
		{"/a/**", "/a /a/b /a/b/c"},
		{"/a/** - /a/b/**", "/a"},
		{"- /a/b/** + /a/** /a/b/c", "/a /a/b/c"},
		{"/** -/a/b", `/ /a /a/b/c /ab /a\ b /-x /__warnings`},
		{"/a/b/** - /a/b", "/a/b/c"},
		{"- /a/b + /a/b/**", "/a/b/c"},
		{"/a - /a", ""},
		{"- /a /a", "/a"},
		{"- /a", ""},
		{"", ""},
		{" \n\t", ""},
		{`/a\ b`, `/a\ b`},
		{"/-x", "/-x"},
		{"+ -x", "/-x"},
		{"/", "/"},
		{"/__properties", "/__properties"},
		{"/__properties/**", "/__properties /__properties/p"},
		{"/a /__properties/p", "/a /__properties/p"},
		{"/** /__properties/** - /__properties/p", `/ /a /a/b /a/b/c /ab /a\ b /-x /__properties /__warnings`},
	} {
		strict, err := query.ParseContents(tc.rules)
		if err != nil {
			t.Errorf("%q: %v", tc.rules, err)
			continue
		}
		for _, c := range []*query.Contents{strict, query.ParseContentsLenient(strings.Fields(tc.rules)...), query.ParseContentsLenient(tc.rules)} {
			if strings.Contains(tc.rules, `\ `) && c != strict {
				continue
			}
			var got []string
			for _, e := range entities {
				if c.Match(e) {
					got = append(got, string(e))
				}
			}
			if d := cmp.Diff(tc.want, strings.Join(got, " ")); d != "" {
				t.Errorf("%q: %s", tc.rules, d)
			}
		}
	}
	for _, bad := range []string{"/a/*", "*", "/*/b", "/a/**/b", "$origin/**", "/a -", "+", "/a(b)"} {
		if _, err := query.ParseContents(bad); !errors.Is(err, query.ErrContents) {
			t.Errorf("%q: got %v", bad, err)
		}
		if c := query.ParseContentsLenient(bad); c.Match("/a/x") || c.Match("/origin") {
			t.Errorf("%q matches", bad)
		}
	}
	var all *query.Contents
	if !all.Match("/a") || all.Match("/__properties/p") {
		t.Error("no contents is all but properties")
	}
}

func FuzzContents(f *testing.F) {
	f.Add("/a/** - /a/b +c")
	f.Add(`- \ \- $x/** /a\`)
	f.Fuzz(func(t *testing.T, text string) {
		query.ParseContentsLenient(text).Match("/a/b")
		if c, err := query.ParseContents(text); err == nil {
			lenient := query.ParseContentsLenient(text)
			for _, e := range []chunk.EntityPath{"/", "/a", "/a/b", "/__properties"} {
				if c.Match(e) != lenient.Match(e) {
					t.Errorf("%q: strict and lenient disagree on %s", text, e)
				}
			}
		}
	})
}
