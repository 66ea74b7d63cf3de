package chunk

import (
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
)

// FormatOptions choose how [Chunk.Format] draws. The zero value is the default.
type FormatOptions struct {
	Width      int  // of the table of rows in terminal cells; 0 means 240, a negative one any
	Redact     bool // hide ids and version, for comparisons of output
	FullKeys   bool // keep the prefixes "rerun:" and "sorbet:" of metadata keys
	FullNames  bool // keep the namespaces of names, such as "rerun.archetypes."
	MaxChars   int  // of the text of a value; 0 means 100
	NoRows     bool // show the headers alone
	Transposed bool // a line for each column: its name and its values, without a header
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
	return FormatBatch(b, metadataLines(b.Schema().Metadata(), o), o)
}

// FormatBatch draws any batch as [Chunk.Format] draws a chunk, with the given
// lines in place of its metadata if they are not nil.
func FormatBatch(b arrow.RecordBatch, head []string, o FormatOptions) string {
	fields := b.Schema().Fields()
	if head == nil {
		head = metadataLines(b.Schema().Metadata(), o)
	}
	lines := []string{"METADATA:"}
	for _, line := range head {
		lines = append(lines, "* "+line)
	}
	header := make([]string, len(fields))
	for i, f := range fields {
		header[i] = headerText(f, o)
	}
	rows := make([][]string, b.NumRows())
	if o.NoRows {
		rows = nil
	}
	for r := range rows {
		rows[r] = make([]string, len(fields))
	}
	for i, f := range fields {
		ids, err := RowIDBytes(b.Column(i))
		isID := err == nil && trimName(f.Name) == trimName(RowIDName)
		text := newValueText(b.Column(i).DataType())
		if o.MaxChars > 0 {
			text.chars = o.MaxChars
		}
		for r := range rows {
			switch {
			case isID && o.Redact:
				rows[r][i] = "row_" + redacted
			case isID:
				rows[r][i] = "row_" + TUID(ids[16*r:]).String()
			default:
				rows[r][i] = text.value(b.Column(i), r)
			}
		}
	}
	width := o.Width
	if width == 0 {
		width = defaultWidth
	}
	if o.Transposed {
		columns := make([][]string, len(fields))
		for i, f := range fields {
			columns[i] = []string{o.name(f.Name)}
			for r := range rows {
				columns[i] = append(columns[i], rows[r][i])
			}
		}
		return drawBox(lines, drawTable(nil, columns, width))
	}
	return drawBox(lines, drawTable(header, rows, width))
}

func headerText(f arrow.Field, o FormatOptions) string {
	lines := []string{o.name(f.Name), "---", "type: " + nullableText(f.Nullable) + TypeText(f.Type)}
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
		keys[i] = k + ": " + o.name(v)
	}
	return keys
}

// namespaces are left out of names in headers, one after the other.
var namespaces = [...]string{
	"rerun.archetypes.", "rerun.blueprint.archetypes.", "rerun.components.", "rerun.blueprint.components.",
	"rerun.datatypes.", "rerun.blueprint.datatypes.", "rerun.controls.", "rerun.",
}

// name is a name as it is shown.
func (o FormatOptions) name(name string) string {
	if o.FullNames {
		return name
	}
	return trimName(name)
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
