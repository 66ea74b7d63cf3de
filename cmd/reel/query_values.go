package main

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/reelhouse/reelhouse/chunk"
	"github.com/reelhouse/reelhouse/query"
	"github.com/reelhouse/reelhouse/rrd"
	"github.com/reelhouse/reelhouse/source/mcap"
	"github.com/reelhouse/reelhouse/store"
)

// indexValues reads --at and --range as values of the index's kind.
func (f *queryFlags) indexValues(q *query.Query, s *store.Schema) error {
	if f.at == "" && f.span == "" {
		return nil
	}
	if f.index == "" {
		return usageErrorf("--at and --range need --index")
	}
	t, ok := s.Index(f.index)
	if !ok {
		return fmt.Errorf("%w: %q; there are: %s", query.ErrUnknownIndex, f.index, indexNames(s))
	}
	if f.at != "" {
		q.At = []int64{}
		for text := range strings.SplitSeq(f.at, ",") {
			v, err := parseTime(t.Kind, strings.TrimSpace(text))
			if err != nil {
				return usageErrorf("--at: %w", err)
			}
			q.At = append(q.At, v)
		}
	}
	if f.span == "" {
		return nil
	}
	from, to, ok := strings.Cut(f.span, "..")
	if !ok {
		return usageErrorf("--range: %q is not of the form A..B", f.span)
	}
	q.Range = &query.Range{Start: math.MinInt64, End: math.MaxInt64}
	for _, end := range []struct {
		text string
		to   *int64
	}{{from, &q.Range.Start}, {to, &q.Range.End}} {
		if end.text == "" {
			continue
		}
		v, err := parseTime(t.Kind, strings.TrimSpace(end.text))
		if err != nil {
			return usageErrorf("--range: %w", err)
		}
		*end.to = v
	}
	return nil
}

// parseTime reads an index value: an integer (nanoseconds on timelines of
// time), and there also a date and time or a duration.
func parseTime(kind chunk.TimeKind, s string) (int64, error) {
	if v, err := strconv.ParseInt(s, 10, 64); err == nil {
		return v, nil
	}
	switch kind {
	case chunk.Timestamp:
		for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999", "2006-01-02T15:04", time.DateOnly} {
			if t, err := time.Parse(layout, s); err == nil {
				if y := t.Year(); y < 1678 || y > 2261 {
					return 0, fmt.Errorf("%q is beyond the range of nanosecond timestamps", s)
				}
				return t.UnixNano(), nil
			}
		}
		return 0, fmt.Errorf("%q is neither nanoseconds nor a time such as 2024-05-01T10:00:00Z", s)
	case chunk.Duration:
		if d, err := time.ParseDuration(s); err == nil {
			return int64(d), nil
		}
		return 0, fmt.Errorf("%q is neither nanoseconds nor a duration such as 1.5s", s)
	}
	return 0, fmt.Errorf("%q is not an integer", s)
}

// openMCAP converts an MCAP file to a temporary recording, so that queries
// need no more memory than the index of it.
func openMCAP(ctx context.Context, cmd *cobra.Command, path string, s *sources) ([]store.Recording, error) {
	in, err := mcap.Open(path, mcap.Options{Logger: slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))})
	if err != nil {
		return nil, err
	}
	defer in.Close()
	out, err := os.CreateTemp("", "reel-query-*.rrd")
	if err != nil {
		return nil, err
	}
	s.closers = append(s.closers, func() error { return os.Remove(out.Name()) })
	defer out.Close()
	name := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	id := rrd.NewStoreID(rrd.Recording, name, name)
	w := rrd.NewWriter(out, rrd.WriterOptions{NoCompression: true})
	defer w.Abort()
	for c, err := range in.Chunks(ctx) {
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if err := w.WriteChunk(ctx, id, c); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	f, err := rrd.Open(out.Name(), rrd.FileOptions{})
	if err != nil {
		return nil, err
	}
	s.closers = append(s.closers, f.Close)
	return store.Recordings(ctx, f)
}
