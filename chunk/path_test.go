package chunk_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reelhouse/reelhouse/chunk"
)

func TestParseEntityPath(t *testing.T) {
	for text, want := range map[string]chunk.EntityPath{
		"":                 "/",
		"/":                "/",
		"//x//y/":          "/x/y",
		"x/../y":           "/x/../y",
		"/a b/c":           `/a\ b/c`,
		`/a\ b`:            `/a\ b`,
		`w:\temp\file`:     "/w\\:\\tempfile",
		`\u{41}\n`:         `/A\n`,
		`\u{0000041}`:      `/\\u\{0000041\}`,
		`a\`:               `/a\\`,
		"größe/数":          "/größe/数",
		"\u0301\U0001f600": `/\u{0301}\u{1F600}`,
		`a\/b`:             `/a\/b`,
		`a\\/b`:            `/a\\/b`,
	} {
		if got := chunk.ParseEntityPath(text); got != want {
			t.Errorf("%q: %s instead of %s", text, got, want)
		}
	}
}

func TestParseEntityPathStrict(t *testing.T) {
	for text, want := range map[string]chunk.EntityPath{
		"/":         "/",
		"a/b":       "/a/b",
		"/größe":    "/größe",
		`/a\ b\!`:   `/a\ b\!`,
		`/a\n\u{e}`: `/a\n\u{000E}`,
		"/a/../b":   "/a/../b",
		`/a\:b`:     `/a\:b`,
	} {
		if got, err := chunk.ParseEntityPathStrict(text); err != nil || got != want {
			t.Errorf("%q: %s, %v instead of %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "//", "//a", "/a//b", "/a/", "/a b", "a!", `a\q`, `a\é`, `a\`, `a\u41`, `a\u{}`, `a\u{110000}`, "a[#1]", "a:b", "a\tb", "\U0001f600"} {
		if got, err := chunk.ParseEntityPathStrict(text); !errors.Is(err, chunk.ErrEntityPath) {
			t.Errorf("%q: %s, %v", text, got, err)
		}
	}
}

func TestEntityPathCompare(t *testing.T) {
	want := []chunk.EntityPath{
		"/", "/01a", "/1", "/1-", "/2", "/10", "/_", "/A", "/A/z", "/Ab", "/a", "/a001", "/a01", "/a010", "/a02", "/a1", "/a2", "/a2/x", "/a2/__x", "/a10",
		"/aB", "/B", "/b", "/é", "/___", "/__a", "/__a/b", "/__b",
	}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, chunk.EntityPath.Compare)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestEntityPathReserved(t *testing.T) {
	for path, want := range map[chunk.EntityPath][2]bool{ // reserved, property
		"/":                 {},
		"/a/__b":            {},
		"/_a":               {},
		"/__a":              {true, false},
		"/__properties":     {true, true},
		"/__properties/x":   {true, true},
		"/__propertiesx":    {true, false},
		"/a/__properties/x": {},
	} {
		if got := [2]bool{path.IsReserved(), path.IsProperty()}; got != want {
			t.Errorf("%s: %v instead of %v", path, got, want)
		}
	}
	if got := chunk.ColumnName("/__properties/x", "RecordingInfo:name"); got != "property:x:RecordingInfo:name" {
		t.Error(got)
	}
}
