package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/spf13/cobra"

	"github.com/reelhouse/reelhouse/client"
	"github.com/reelhouse/reelhouse/query"
	"github.com/reelhouse/reelhouse/rrd"
	"github.com/reelhouse/reelhouse/store"
)

type queryFlags struct {
	index      string
	contents   []string
	columns    []string
	fill       bool
	at         string
	span       string
	empty      bool
	tombstones bool
	compat     bool
	segments   []string
	dataset    string
	token      string
	out        string
	format     string
	limit      int64
	json       bool
	schema     bool
}

func newQueryCommand() *cobra.Command {
	var f queryFlags
	cmd := &cobra.Command{
		Use:   "query SRC...",
		Short: "Print the data of recordings as a table",
		Long: `Print the data of recordings as a table: a row per value of an index, a column per component.

SRC is a recording (.rrd), an MCAP file, a folder of both, "-" for a recording on standard input, or
the URL of a catalog server (rerun+http://host:port). Several recordings give one table with a
rerun_segment_id column; files of one recording are its layers.

Without --index the table has one row: what was logged as static.`,
		Example: `  reel query run.rrd --index frame --contents '/robot/**' --limit 20
  reel query run.rrd --schema
  reel query recordings/ --index log_time --fill-latest-at -o out.parquet
  reel query run.rrd --index log_time --range 2024-05-01T10:00:00Z..2024-05-01T10:05:00Z --format csv
  reel query run.rrd --index frame --at 0,100,200 --fill-latest-at --format jsonl
  reel query rerun+http://127.0.0.1:51234 --dataset runs --index log_time --segment run-7`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return runQuery(cmd, &f, args) },
	}
	fl := cmd.Flags()
	fl.StringVar(&f.index, "index", "", "index whose values are the rows; none prints static data")
	fl.StringArrayVar(&f.contents, "contents", nil, "entities, such as '/robot/** - /robot/debug/**' (repeatable; default all but properties)")
	fl.StringSliceVar(&f.columns, "select", nil, "columns to print, in this order")
	fl.BoolVar(&f.fill, "fill-latest-at", false, "fill cells without a value with the latest earlier one")
	fl.StringVar(&f.at, "at", "", "index values to print rows for, separated by commas")
	fl.StringVar(&f.span, "range", "", "index values A..B to print, both included; either may be left out")
	fl.BoolVar(&f.empty, "include-semantically-empty-columns", false, "print columns without any value, too")
	fl.BoolVar(&f.tombstones, "include-tombstone-columns", false, "print columns that mark clears, too")
	fl.BoolVar(&f.compat, "compat", false, "answer as Rerun does where Reelhouse knows better")
	fl.StringArrayVar(&f.segments, "segment", nil, "ids of the segments to ask (repeatable; default all)")
	fl.StringVar(&f.dataset, "dataset", "", "data set of a catalog server, by name or id (default its only one)")
	fl.StringVar(&f.token, "token", "", "token that lets you in to a catalog server (default: $REDAP_TOKEN)")
	fl.StringVarP(&f.out, "output", "o", "", "file to write instead of printing")
	fl.StringVar(&f.format, "format", "", "table, csv, jsonl, parquet or arrow (default by the ending of the output file, else table)")
	fl.Int64Var(&f.limit, "limit", -1, "greatest number of rows; 0 for all (default 100 for tables, else all)")
	fl.BoolVar(&f.schema, "schema", false, "print the columns instead of data")
	addJSONFlag(cmd, &f.json)
	return cmd
}

func runQuery(cmd *cobra.Command, f *queryFlags, args []string) error {
	format, err := f.outputFormat()
	if err != nil {
		return err
	}
	q := query.Query{
		Index: f.index, Select: f.columns, FillLatestAt: f.fill, Compat: f.compat,
		IncludeEmpty: f.empty, IncludeTombstones: f.tombstones,
	}
	if cmd.Flags().Changed("contents") {
		if f.compat {
			q.Contents = query.ParseContentsLenient(f.contents...)
		} else if q.Contents, err = query.ParseContents(f.contents...); err != nil {
			return usageErrorf("--contents: %w", err)
		}
	}
	ctx := cmd.Context()
	src, err := openSources(ctx, cmd, args, f)
	if err != nil {
		return err
	}
	defer src.Close()
	schemas := make([]*store.Schema, len(src.segments))
	for i, s := range src.segments {
		schemas[i] = s.View.Schema()
	}
	all := store.Union(schemas...)
	if f.schema {
		return printColumns(cmd.OutOrStdout(), all, format == formatJSONLines)
	}
	if err := f.indexValues(&q, all); err != nil {
		return err
	}
	if q.Index == "" && len(all.Indexes) > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "reel: showing static data; for rows over time add --index with one of: %s\n", indexNames(all))
	}
	var rd array.RecordReader
	if src.single {
		rd, err = query.Run(ctx, src.segments[0].View, q)
	} else {
		rd, err = query.RunSegments(ctx, src.segments, q)
	}
	switch {
	case errors.Is(err, query.ErrUnknownIndex):
		return fmt.Errorf("%w; there are: %s", err, indexNames(all))
	case err != nil:
		return err
	}
	defer rd.Release()
	limit := f.limit
	if limit < 0 {
		limit = 0
		if format == formatTable && f.out == "" {
			limit = tableRows
		}
	}
	if f.out == "" || f.out == "-" {
		return writeRows(cmd.OutOrStdout(), rd, format, limit, outputWidth(cmd.OutOrStdout()), cmd.ErrOrStderr())
	}
	return rrd.WriteFile(f.out, func(w io.Writer) error {
		if format == formatArrow {
			format = formatArrowFile
		}
		return writeRows(w, rd, format, limit, 0, io.Discard)
	})
}

func indexNames(s *store.Schema) string {
	if len(s.Indexes) == 0 {
		return "none"
	}
	var names []string
	for _, t := range s.Indexes {
		names = append(names, t.Name)
	}
	return strings.Join(names, ", ")
}

func (f *queryFlags) outputFormat() (outputFormat, error) {
	name := f.format
	switch {
	case f.json && name != "" && name != "jsonl":
		return 0, usageErrorf("--json and --format %s exclude each other", name)
	case f.json:
		name = "jsonl"
	case name == "" && f.out != "" && f.out != "-":
		name = strings.TrimPrefix(filepath.Ext(f.out), ".")
	case name == "":
		name = "table"
	}
	switch strings.ToLower(name) {
	case "table", "txt":
		return formatTable, nil
	case "csv":
		return formatCSV, nil
	case "jsonl", "ndjson", "json":
		return formatJSONLines, nil
	case "parquet":
		return formatParquet, nil
	case "arrow", "arrows", "ipc", "feather":
		return formatArrow, nil
	}
	if f.format == "" {
		return 0, usageErrorf("the ending of %q tells no format: add --format", f.out)
	}
	return 0, usageErrorf("--format: unknown format %q", name)
}

// sources are the segments a command reads, and what is to be closed after.
type sources struct {
	segments []query.Segment
	single   bool // one recording was asked for by name: no segment column
	closers  []func() error
}

func (s *sources) Close() {
	for _, c := range slices.Backward(s.closers) {
		_ = c() // files that were only read
	}
}

// openSources opens recordings, MCAP files and folders.
func openSources(ctx context.Context, cmd *cobra.Command, args []string, f *queryFlags) (_ *sources, err error) {
	s := &sources{}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	if client.IsURL(args[0]) {
		if len(args) > 1 {
			return nil, usageErrorf("one URL at a time")
		}
		return s, openRemote(ctx, args[0], f, s)
	}
	if f.dataset != "" {
		return nil, usageErrorf("--dataset is for catalog servers")
	}
	folders := false
	layers := map[string][]store.View{}
	for _, arg := range args {
		files := []string{arg}
		if info, err := os.Stat(arg); arg != "-" && err == nil && info.IsDir() {
			folders = true
			if files, err = recordingsIn(arg); err != nil {
				return nil, err
			}
			if len(files) == 0 {
				return nil, fmt.Errorf("%s: no .rrd or .mcap file in it", arg)
			}
		}
		for _, file := range files {
			recs, err := openViews(ctx, cmd, file, s)
			if err != nil {
				return nil, err
			}
			for _, r := range recs {
				if r.ID.Kind == rrd.Recording && (len(f.segments) == 0 || slices.Contains(f.segments, r.ID.Recording)) {
					layers[r.ID.Recording] = append(layers[r.ID.Recording], r.View)
				}
			}
		}
	}
	for id, views := range layers {
		s.segments = append(s.segments, query.Segment{ID: id, View: store.Layers(views...)})
	}
	slices.SortFunc(s.segments, func(a, b query.Segment) int { return strings.Compare(a.ID, b.ID) })
	for _, want := range f.segments {
		if layers[want] == nil {
			return nil, fmt.Errorf("no segment %q in %s", want, strings.Join(args, ", "))
		}
	}
	if len(s.segments) == 0 {
		return nil, fmt.Errorf("no recording in %s", strings.Join(args, ", "))
	}
	s.single = !folders && len(s.segments) == 1 && len(f.segments) == 0
	return s, nil
}

// recordingsIn finds recordings and MCAP files below a folder, by name.
func recordingsIn(dir string) ([]string, error) {
	var files []string
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && isRecording(path) {
			files = append(files, path)
		}
		return err
	})
	return files, err
}

func isRecording(path string) bool {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".rrd", ".mcap":
		return true
	}
	return false
}

// openViews opens one file. Recordings are indexed and read on demand;
// those without a footer are read once to index them.
func openViews(ctx context.Context, cmd *cobra.Command, path string, s *sources) ([]store.Recording, error) {
	if path == "-" {
		return readRecordings(ctx, cmd.InOrStdin())
	}
	if strings.EqualFold(filepath.Ext(path), ".mcap") {
		return openMCAP(ctx, cmd, path, s)
	}
	f, err := rrd.Open(path, rrd.FileOptions{Report: reportTo(cmd), Partial: true})
	if err != nil {
		return nil, err
	}
	s.closers = append(s.closers, f.Close)
	return store.Recordings(ctx, f)
}

// reportTo prints faults that reading passes over.
func reportTo(cmd *cobra.Command) func(*rrd.Error) {
	return func(e *rrd.Error) { fmt.Fprintf(cmd.ErrOrStderr(), "reel: %v\n", e) }
}

// readRecordings reads a stream of recordings into memory.
func readRecordings(ctx context.Context, r io.Reader) ([]store.Recording, error) {
	var order []rrd.StoreID
	stores := map[rrd.StoreID]*store.Memory{}
	for item, err := range rrd.Read(ctx, r, rrd.ReadOptions{ScanOptions: rrd.ScanOptions{Name: "standard input"}}) {
		if err != nil {
			return nil, err
		}
		if item.Chunk == nil {
			continue
		}
		id := item.Arrow.Store
		if stores[id] == nil {
			stores[id] = store.NewMemory()
			order = append(order, id)
		}
		stores[id].Insert(item.Chunk)
	}
	var out []store.Recording
	for _, id := range order {
		out = append(out, store.Recording{ID: id, View: stores[id].View()})
	}
	return out, nil
}
