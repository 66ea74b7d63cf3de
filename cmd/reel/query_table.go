package main

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/rivo/uniseg"
)

const (
	minCell = 12 // characters that a column of a table is not narrowed below
	sample  = 1000
)

// textTable is a table with borders. Columns are as wide as their first rows
// want and the width allows; what does not fit is cut off with an ellipsis, and
// columns at the right that have no room at all are counted.
type textTable struct {
	heads  [][]string // lines of the header, by column
	right  []bool     // align to the right
	rows   [][]string
	widths []int
}

func newTextTable(heads []string) *textTable {
	t := &textTable{right: make([]bool, len(heads))}
	for _, h := range heads {
		t.heads = append(t.heads, []string{h})
	}
	return t
}

func (t *textTable) add(row []string) { t.rows = append(t.rows, row) }

// layout decides the widths; shown is the number of columns that have room.
func (t *textTable) layout(width int) (shown int) {
	t.widths = make([]int, len(t.heads))
	for i, h := range t.heads {
		for _, line := range h {
			t.widths[i] = max(t.widths[i], uniseg.StringWidth(line))
		}
		for _, r := range t.rows {
			t.widths[i] = max(t.widths[i], uniseg.StringWidth(r[i]))
		}
	}
	if width <= 0 {
		return len(t.heads)
	}
	room := width - 1
	for shown = range t.heads {
		if room -= min(t.widths[shown], minCell) + 3; room < 0 && shown > 0 {
			break
		}
	}
	if room >= 0 {
		shown = len(t.heads)
	}
	// Narrow the widest columns until all that are shown fit.
	for {
		total, widest := 1, 0
		for i := range shown {
			total += t.widths[i] + 3
			if t.widths[i] > t.widths[widest] {
				widest = i
			}
		}
		if total <= width || t.widths[widest] <= minCell {
			return shown
		}
		next := 0
		for i := range shown {
			if w := t.widths[i]; w < t.widths[widest] {
				next = max(next, w)
			}
		}
		t.widths[widest] = max(minCell, next, t.widths[widest]-(total-width))
	}
}

func (t *textTable) write(w io.Writer, width int) error {
	out := bufio.NewWriter(w)
	shown := t.begin(out, width)
	for _, r := range t.rows {
		t.row(out, r, shown)
	}
	t.end(out, shown)
	return out.Flush()
}

func (t *textTable) begin(out *bufio.Writer, width int) int {
	shown := t.layout(width)
	t.rule(out, "┌┬┐", shown)
	lines := 0
	for _, h := range t.heads {
		lines = max(lines, len(h))
	}
	for l := range lines {
		row := make([]string, len(t.heads))
		for i, h := range t.heads {
			if l < len(h) {
				row[i] = fitEnd(h[l], t.widths[i])
			}
		}
		t.row(out, row, shown)
	}
	t.rule(out, "├┼┤", shown)
	return shown
}

func (t *textTable) end(out *bufio.Writer, shown int) {
	t.rule(out, "└┴┘", shown)
	if n := len(t.heads) - shown; n > 0 {
		fmt.Fprintf(out, "%d more columns do not fit; choose with --select or --contents\n", n)
	}
}

func (t *textTable) rule(out *bufio.Writer, corners string, shown int) {
	c := []rune(corners)
	out.WriteRune(c[0])
	for i := range shown {
		if i > 0 {
			out.WriteRune(c[1])
		}
		out.WriteString(strings.Repeat("─", t.widths[i]+2))
	}
	out.WriteRune(c[2])
	out.WriteByte('\n')
}

func (t *textTable) row(out *bufio.Writer, cells []string, shown int) {
	for i := range shown {
		text, n := fit(cells[i], t.widths[i])
		pad := strings.Repeat(" ", t.widths[i]-n)
		out.WriteString("│ ")
		if t.right[i] {
			out.WriteString(pad + text)
		} else {
			out.WriteString(text + pad)
		}
		out.WriteByte(' ')
	}
	out.WriteString("│\n")
}

// fit cuts a text to a width on screen and returns the width it has then.
func fit(s string, width int) (string, int) {
	n := uniseg.StringWidth(s)
	if n <= width {
		return s, n
	}
	kept, at, state := 0, 0, -1
	for rest := s; rest != ""; {
		var cluster string
		var w int
		cluster, rest, w, state = uniseg.FirstGraphemeClusterInString(rest, state)
		if kept+w > width-1 {
			break
		}
		kept += w
		at += len(cluster)
	}
	return s[:at] + "…", kept + 1
}

// fitEnd cuts a name at the front: paths differ at their end.
func fitEnd(s string, width int) string {
	if n := uniseg.StringWidth(s); n > width {
		for n >= width && s != "" {
			var w int
			_, s, w, _ = uniseg.FirstGraphemeClusterInString(s, -1)
			n -= w
		}
		return "…" + s
	}
	return s
}

// writeTable prints rows as a table laid out by the first of them. It reports
// whether rows were left out.
func writeTable(w io.Writer, rd array.RecordReader, limit int64, width int) (bool, error) {
	t := &textTable{}
	for _, f := range rd.Schema().Fields() {
		t.heads = append(t.heads, []string{f.Name, typeText(f.Type)})
		t.right = append(t.right, arrow.IsPrimitive(f.Type.ID()))
	}
	out := bufio.NewWriterSize(w, 1<<16)
	shown, begun := 0, false
	flush := func() {
		if !begun {
			shown, begun = t.begin(out, width), true
		}
		for _, r := range t.rows {
			t.row(out, r, shown)
		}
		t.rows = t.rows[:0]
	}
	var buf []byte
	count := int64(0)
	more, err := batches(rd, limit, func(b arrow.RecordBatch) error {
		for i := range int(b.NumRows()) {
			row := make([]string, b.NumCols())
			for k, col := range b.Columns() {
				buf = appendShort(buf[:0], col, i)
				row[k] = string(buf)
			}
			t.add(row)
			if count++; count >= sample {
				flush()
			}
		}
		return nil
	})
	if err != nil {
		return false, err
	}
	flush()
	t.end(out, shown)
	switch {
	case count == 1:
		fmt.Fprintln(out, "1 row")
	case !more:
		fmt.Fprintf(out, "%d rows\n", count)
	}
	return more, out.Flush()
}

// typeText is a type in few words: list of what, without the words that all columns share.
func typeText(dt arrow.DataType) string {
	switch dt := dt.(type) {
	case *arrow.ListType:
		return "[" + typeText(dt.Elem()) + "]"
	case *arrow.LargeListType:
		return "[" + typeText(dt.Elem()) + "]"
	case *arrow.FixedSizeListType:
		return fmt.Sprintf("[%s; %d]", typeText(dt.Elem()), dt.Len())
	case *arrow.StructType:
		return fmt.Sprintf("{%d fields}", dt.NumFields())
	case *arrow.MapType:
		return "map " + typeText(dt.KeyType()) + " → " + typeText(dt.ItemType())
	case arrow.UnionType:
		return "union"
	case *arrow.DictionaryType:
		return typeText(dt.ValueType)
	case *arrow.TimestampType, *arrow.DurationType, *arrow.Int64Type:
		return dt.Name()
	}
	return dt.Name()
}

// printable replaces what would break a table's lines.
func printable(buf []byte, s string) []byte {
	for _, r := range s {
		switch {
		case r == '\n':
			buf = append(buf, "↵"...)
		case r < ' ' || r == 0x7f:
			buf = append(buf, ' ')
		default:
			buf = utf8.AppendRune(buf, r)
		}
	}
	return buf
}
