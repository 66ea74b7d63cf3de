package store

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/reelhouse/reelhouse/rrd"
)

// Summary is a text with a line per chunk: entity, rows, whether it is static,
// its timelines and its columns (spec/chunks.md 6.1). It has no final newline.
func Summary(v View) string {
	entries := make([]*rrd.Entry, len(v.Entries()))
	for i := range entries {
		entries[i] = &v.Entries()[i]
	}
	slices.SortStableFunc(entries, func(a, b *rrd.Entry) int {
		return cmp.Or(strings.Compare(string(a.Entity), string(b.Entity)), -boolCompare(a.Static, b.Static), a.ID.Compare(b.ID))
	})
	var out strings.Builder
	for i, e := range entries {
		if i > 0 {
			out.WriteByte('\n')
		}
		var times, cols []string
		for _, t := range e.Times {
			times = append(times, t.Name)
		}
		for _, c := range e.Components {
			cols = append(cols, c.Component)
		}
		cols = append(cols, times...)
		static := "False"
		if e.Static {
			static = "True"
		}
		fmt.Fprintf(&out, "%s rows=%d static=%s timelines=%s cols=%s", e.Entity, e.NumRows, static, list(times), list(cols))
	}
	return out.String()
}

func boolCompare(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// list writes sorted names the way the format wants it: single quotes, unless
// a name has some and no double ones.
func list(names []string) string {
	slices.Sort(names)
	var b strings.Builder
	b.WriteByte('[')
	for i, n := range names {
		if i > 0 {
			b.WriteString(", ")
		}
		q := "'"
		if strings.Contains(n, "'") && !strings.Contains(n, `"`) {
			q = `"`
		}
		b.WriteString(q + strings.NewReplacer(`\`, `\\`, q, `\`+q, "\n", `\n`, "\t", `\t`, "\r", `\r`).Replace(n) + q)
	}
	b.WriteByte(']')
	return b.String()
}
