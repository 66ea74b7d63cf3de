package chunk

import (
	"strings"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

// drawBox draws a box as wide as its content: some lines, a rule, more lines.
func drawBox(head, body []string) string {
	width := 0
	for _, l := range head {
		width = max(width, textWidth(l))
	}
	for _, l := range body {
		width = max(width, textWidth(l))
	}
	var b strings.Builder
	line := func(left, fill, right string) {
		b.WriteString(left)
		b.WriteString(strings.Repeat(fill, width+2))
		b.WriteString(right)
	}
	text := func(lines []string) {
		for _, l := range lines {
			b.WriteString("│ ")
			writePadded(&b, l, width)
			b.WriteString(" │\n")
		}
	}
	line("┌", "─", "┐\n")
	text(head)
	line("├", "╌", "┤\n")
	text(body)
	line("└", "─", "┘")
	return b.String()
}

// drawTable lays out cells, which may have several lines, within a width.
// Every column may take an equal share of it, in whole percents, borders and
// padding of the cells included; what is longer is wrapped. A negative width
// sets no limit. The header may be nil.
func drawTable(header []string, rows [][]string, width int) []string {
	n := len(header)
	if header == nil && len(rows) > 0 {
		n = len(rows[0])
	}
	widths := make([]int, n)
	for i := range widths {
		if header != nil {
			widths[i] = cellWidth(header[i])
		}
		for _, r := range rows {
			widths[i] = max(widths[i], cellWidth(r[i]))
		}
		if width >= 0 {
			share := max(0, width-n-1) * (100 / n) / 100
			widths[i] = min(widths[i], max(share-2, 1))
		}
	}
	t := table{widths: widths}
	t.rule("┌", "─", "┬", "┐")
	if header != nil {
		t.row(header)
		t.rule("╞", "═", "╪", "╡")
	}
	for i, r := range rows {
		if i > 0 {
			t.rule("├", "╌", "┼", "┤")
		}
		t.row(r)
	}
	t.rule("└", "─", "┴", "┘")
	return t.lines
}

type table struct {
	widths []int
	lines  []string
}

func (t *table) rule(left, fill, cross, right string) {
	var b strings.Builder
	for i, w := range t.widths {
		if i == 0 {
			b.WriteString(left)
		} else {
			b.WriteString(cross)
		}
		b.WriteString(strings.Repeat(fill, w+2))
	}
	b.WriteString(right)
	t.lines = append(t.lines, b.String())
}

func (t *table) row(cells []string) {
	wrapped := make([][]string, len(cells))
	height := 0
	for i, cell := range cells {
		wrapped[i] = wrapCell(cell, t.widths[i])
		height = max(height, len(wrapped[i]))
	}
	for l := range height {
		var b strings.Builder
		for i, lines := range wrapped {
			if i == 0 {
				b.WriteString("│ ")
			} else {
				b.WriteString(" ┆ ")
			}
			text := ""
			if l < len(lines) {
				text = lines[l]
			}
			writePadded(&b, text, t.widths[i])
		}
		b.WriteString(" │")
		t.lines = append(t.lines, b.String())
	}
}

func writePadded(b *strings.Builder, text string, width int) {
	b.WriteString(text)
	for w := textWidth(text); w < width; w++ {
		b.WriteByte(' ')
	}
}

func cellWidth(cell string) int {
	width := 0
	for line := range strings.SplitSeq(cell, "\n") {
		width = max(width, textWidth(line))
	}
	return width
}

func wrapCell(cell string, width int) []string {
	var lines []string
	for line := range strings.SplitSeq(cell, "\n") {
		if textWidth(line) <= width {
			lines = append(lines, line)
		} else {
			lines = wrapLine(lines, line, width)
		}
	}
	return lines
}

// slack is how much of a line may stay free: with less, no further word is begun on it.
const slack = 2

// wrapLine breaks a line at spaces. A word longer than the width is cut, and
// begins on the current line if more than slack is free there.
func wrapLine(lines []string, line string, width int) []string {
	cur := ""
	flush := func() {
		lines = append(lines, cur)
		cur = ""
	}
	closeIfFull := func() {
		if textWidth(cur) > max(0, width-slack) {
			flush()
		}
	}
	for word := range strings.SplitSeq(line, " ") {
		for {
			gap := ""
			if cur != "" {
				gap = " "
			}
			free := max(0, width-textWidth(cur)-len(gap))
			need := textWidth(word)
			if textWidth(cur)+len(gap)+need <= width {
				cur += gap + word
				closeIfFull()
				break
			}
			switch {
			case cur != "" && free <= slack:
				flush()
			case need > width:
				var part string
				part, word = cutText(word, free)
				if cur == "" && part == "" { // a character wider than the column
					_, n := utf8.DecodeRuneInString(word)
					part, word = word[:n], word[n:]
				}
				cur += gap + part
				flush()
			default:
				flush()
			}
		}
	}
	if cur != "" {
		flush()
	}
	return lines
}

// cutText splits text after as many characters as fit the width.
func cutText(text string, width int) (head, tail string) {
	used := 0
	for i, r := range text {
		used += textWidth(string(r))
		if used > width {
			return text[:i], text[i:]
		}
	}
	return text, ""
}

// textWidth is the number of terminal cells that text takes; a control character takes one.
func textWidth(s string) int {
	ascii := true
	for i := 0; i < len(s) && ascii; i++ {
		ascii = s[i] < utf8.RuneSelf
	}
	if ascii {
		return len(s)
	}
	width, state := 0, -1
	for len(s) > 0 {
		var cluster string
		var w int
		cluster, s, w, state = uniseg.FirstGraphemeClusterInString(s, state)
		if len(cluster) == 1 {
			w = 1
		}
		width += w
	}
	return width
}
