package inspect

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/reelhouse/reelhouse/chunk"
	"github.com/reelhouse/reelhouse/rrd"
)

// WriteText writes the summary for people to read.
func (s *Summary) WriteText(w io.Writer) error {
	var b strings.Builder
	section := func(title string) {
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(title + "\n" + strings.Repeat("-", max(len(title), 10)) + "\n")
	}
	section("Overview")
	fmt.Fprintf(&b, "num_chunks = %s\n", formatCount(s.Chunks))
	if d := s.Decoded; d != nil {
		fmt.Fprintf(&b, "num_entity_paths = %s\n", formatCount(len(d.Entities)))
		share := 100 * float64(d.WithoutComponents) / float64(s.Chunks)
		fmt.Fprintf(&b, "num_chunks_without_components = %s (%s%%)\n", formatCount(d.WithoutComponents), formatMean(share))
		fmt.Fprintf(&b, "num_rows = %s\n", formatCount(d.Rows.Sum))
		writeRange(&b, "rows", d.Rows, s.Chunks)
		fmt.Fprintf(&b, "num_static = %s\n", formatCount(d.Static))
		writeRange(&b, "indexes", d.NumIndexes, s.Chunks)
		writeRange(&b, "components", d.NumComponents, s.Chunks)
		section("Num chunks per entity")
		for _, e := range slices.Sorted(maps.Keys(d.Entities)) {
			fmt.Fprintf(&b, "%s: %s\n", e, formatCount(d.Entities[e]))
		}
		section("Num chunks per index")
		writeCounts(&b, d.Timelines)
		section("Num chunks per component")
		writeCounts(&b, d.Components)
	}
	for _, part := range []struct {
		title string
		sizes Sizes
	}{
		{"Size (schema + data, compressed)", s.Stored},
		{"Size (schema + data, uncompressed)", s.Uncompressed},
		{"Size (schema only, uncompressed)", s.Schema},
		{"Size (data only, uncompressed)", s.Data},
	} {
		section(part.title)
		writeSizes(&b, part.sizes, s.Chunks)
	}
	if d := s.Decoded; d != nil {
		section("Unsorted timelines")
		writeUnsorted(&b, d.Unsorted)
	}
	section("Chunk index")
	if !s.indexed {
		b.WriteString("(none — no chunk index was found)\n")
	} else {
		fmt.Fprintf(&b, "num_chunk_indexes = %d (one per recording)\n", len(s.Indexes))
	}
	analysed := false
	for _, x := range s.Indexes {
		writeIndex(&b, x)
		analysed = analysed || x.Store.Kind == rrd.Recording
	}
	section("Chunk index analysis")
	if !analysed {
		b.WriteString("(not available — the input stream did not contain any chunk index; run `reel rrd migrate` to migrate older files)\n")
	}
	for _, x := range s.Indexes {
		if x.Store.Kind == rrd.Recording {
			writeAnalysis(&b, x)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func writeRange(b *strings.Builder, what string, r Range, n int) {
	fmt.Fprintf(b, "num_%s_min = %s\nnum_%s_max = %s\nnum_%s_avg = %s\n",
		what, formatCount(r.Min), what, formatCount(r.Max), what, formatMean(float64(r.Sum)/float64(n)))
}

func writeCounts(b *strings.Builder, counts map[string]int) {
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(b, "%s: %s\n", name, formatCount(counts[name]))
	}
}

func writeSizes(b *strings.Builder, s Sizes, n int) {
	line := func(what, size string) { fmt.Fprintf(b, "ipc_size_bytes_%s = %s\n", what, size) }
	line("total", formatBytes(float64(s.Total)))
	line("min", formatBytes(float64(s.Min)))
	line("max", formatBytes(float64(s.Max)))
	line("avg", formatBytes(float64(s.Total)/float64(n)))
	line("p50", formatBytes(float64(s.P50)))
	line("p90", formatBytes(float64(s.P90)))
	line("p95", formatBytes(float64(s.P95)))
	line("p99", formatBytes(float64(s.P99)))
	line("p999", formatBytes(float64(s.P999)))
}

func writeUnsorted(b *strings.Builder, unsorted map[chunk.EntityPath]map[string]bool) {
	if len(unsorted) == 0 {
		b.WriteString("(none — every timeline on every chunk is sorted)\n")
		return
	}
	fmt.Fprintf(b, "%s entity(ies) had at least one chunk with an unsorted timeline. For each such entity, all of its timelines are listed below:\n", formatCount(len(unsorted)))
	for _, e := range slices.Sorted(maps.Keys(unsorted)) {
		fmt.Fprintf(b, "  %s\n", e)
		for _, t := range slices.Sorted(maps.Keys(unsorted[e])) {
			state := "sorted"
			if unsorted[e][t] {
				state = "UNSORTED"
			}
			fmt.Fprintf(b, "    %s: %s\n", t, state)
		}
	}
}

func writeIndex(b *strings.Builder, x ChunkIndex) {
	fmt.Fprintf(b, "\nChunk index for %s\n", debugStore(x.Store))
	fmt.Fprintf(b, "  num_chunks_indexed = %s\n", formatCount(x.Chunks))
	fmt.Fprintf(b, "  num_static_chunks = %s\n", formatCount(x.Static))
	fmt.Fprintf(b, "  num_entity_paths = %s\n", formatCount(x.Entities))
	fmt.Fprintf(b, "  num_columns = %s\n", formatCount(x.Columns))
	fmt.Fprintf(b, "  sorbet_schema_num_fields = %s\n", formatCount(x.SchemaFields))
	fmt.Fprintf(b, "  sorbet_schema_sha256 = %s\n", x.SchemaHash)
	fmt.Fprintf(b, "  chunk_byte_size_total (native) = %s\n", formatBytes(float64(x.Stored)))
	fmt.Fprintf(b, "  chunk_byte_size_uncompressed_total = %s\n", formatBytes(float64(x.Uncompressed)))
}

func writeAnalysis(b *strings.Builder, x ChunkIndex) {
	fmt.Fprintf(b, "\nStore %s\nchunk index columns: %s\n", debugStore(x.Store), formatCount(x.Columns))
	fmt.Fprintf(b, "\nOptimization check based on a %s chunk size target (`--profile object-store`)\n", formatBytes(TargetSize))
	if x.Temporal == 0 {
		b.WriteString("(nothing to check — this recording has no temporal chunks)\n\n")
		return
	}
	least, have, more := formatCount(x.LeastTemporal), formatCount(x.Temporal), formatCount(x.Temporal-x.LeastTemporal)
	width := max(len([]rune(least)), len([]rune(have)), len([]rune(more)))
	fmt.Fprintf(b, "  - theoretical lower bound: %*s chunks\n", width, least)
	fmt.Fprintf(b, "  - effective:               %*s chunks (%.1f×)\n", width, have, float64(x.Temporal)/float64(x.LeastTemporal))
	fmt.Fprintf(b, "  - excess:                  %*s chunks\n\n", width, more)
}

// formatCount groups digits by thin spaces.
func formatCount(n int) string {
	s := strconv.Itoa(n)
	for at := len(s) - 3; at > 0; at -= 3 {
		s = s[:at] + "\u2009" + s[at:]
	}
	return s
}

func formatMean(v float64) string {
	if math.IsNaN(v) {
		return "NaN"
	}
	return strconv.FormatFloat(v, 'f', 3, 64)
}

// formatBytes writes a size with three digits or so in binary units.
func formatBytes(n float64) string {
	if n < 1<<10 {
		return strconv.FormatFloat(n, 'f', 0, 64) + " B"
	}
	unit := "GiB"
	switch {
	case n < 1<<20:
		n, unit = n/(1<<10), "KiB"
	case n < 1<<30:
		n, unit = n/(1<<20), "MiB"
	default:
		n /= 1 << 30
	}
	digits := 1
	if n >= 100 {
		digits = 0
	}
	return strconv.FormatFloat(n, 'f', digits, 64) + " " + unit
}

// debugStore is the form of a store id in which kind and ids stand apart.
func debugStore(id rrd.StoreID) string {
	return fmt.Sprintf("StoreId(%s, %s, %s)", id.Kind, quoted(id.Application), quoted(id.Recording))
}
