package chunk

import (
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
)

// FormatOptions choose how [Chunk.Format] draws. The zero value is the default.
type FormatOptions struct {
	Width    int  // of the table of rows in terminal cells; 0 means 240
	Redact   bool // hide ids and version, for comparisons of output
	FullKeys bool // keep the prefixes "rerun:" and "sorbet:" of metadata keys
}

const (
	defaultWidth = 240
	redacted     = "[**REDACTED**]"
)

// Format draws the chunk as a box with its metadata and a table of its rows:
// one column each for row id, timelines and components, headed by type and
// metadata (spec/chunks.md 1.3). A value takes at most 100 characters; a column
// takes an equal share of the width at most and is wrapped.
func (c *Chunk) Format(o FormatOptions) string {
	b := c.RecordBatch()
	fields := b.Schema().Fields()
	header := make([]string, len(fields))
	for i, f := range fields {
		header[i] = headerText(f, o)
	}
	rows := make([][]string, c.rows)
	for r := range rows {
		rows[r] = make([]string, len(fields))
		rows[r][0] = "row_" + redacted
		if !o.Redact {
			rows[r][0] = "row_" + c.RowID(r).String()
		}
	}
	for i := 1; i < len(fields); i++ {
		text := newValueText(b.Column(i).DataType())
		for r := range rows {
			rows[r][i] = text.value(b.Column(i), r)
		}
	}
	width := o.Width
	if width == 0 {
		width = defaultWidth
	}
	head := []string{"METADATA:"}
	for _, line := range metadataLines(b.Schema().Metadata(), o) {
		head = append(head, "* "+line)
	}
	return drawBox(head, drawTable(header, rows, width))
}

func headerText(f arrow.Field, o FormatOptions) string {
	lines := []string{trimName(f.Name), "---", "type: " + nullableText(f.Nullable) + TypeText(f.Type)}
	return strings.Join(append(lines, metadataLines(f.Metadata, o)...), "\n")
}

// metadataLines are the pairs of a field or schema in the order of their keys.
func metadataLines(md arrow.Metadata, o FormatOptions) []string {
	keys := slices.Clone(md.Keys())
	slices.Sort(keys)
	for i, k := range keys {
		v, _ := md.GetValue(k)
		if o.Redact && (k == KeyID || k == KeyVersion) {
			v = redacted
		}
		if !o.FullKeys {
			k = strings.TrimPrefix(strings.TrimPrefix(k, "rerun:"), "sorbet:")
		}
		keys[i] = k + ": " + trimName(v)
	}
	return keys
}

// namespaces are left out of names in headers, one after the other.
var namespaces = [...]string{
	"rerun.archetypes.", "rerun.blueprint.archetypes.", "rerun.components.", "rerun.blueprint.components.",
	"rerun.datatypes.", "rerun.blueprint.datatypes.", "rerun.controls.", "rerun.",
}

func trimName(name string) string {
	if !strings.HasPrefix(name, "rerun.") {
		return name
	}
	for _, ns := range namespaces {
		for strings.HasPrefix(name, ns) {
			name = name[len(ns):]
		}
	}
	return name
}
