package source_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/google/go-cmp/cmp"

	"github.com/reelhouse/reelhouse/chunk"
	"github.com/reelhouse/reelhouse/source/mcap"
)

func openMCAP(ctx context.Context, path string, options json.RawMessage) (*stream, error) {
	var in struct {
		TimelineType string   `json:"timeline_type"`
		Offset       int64    `json:"timestamp_offset_ns"`
		Decoders     []string `json:"decoders"`
		Include      []string `json:"include_topic_regex"`
		Exclude      []string `json:"exclude_topic_regex"`
		Start        *int64   `json:"start_time_ns"`
		End          *int64   `json:"end_time_ns"`
		Recover      bool     `json:"recover"`
	}
	d := json.NewDecoder(bytes.NewReader(options))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		return nil, fmt.Errorf("options of the case: %w", err)
	}
	o := mcap.Options{TimestampOffset: in.Offset, Decoders: in.Decoders, IncludeTopics: in.Include, ExcludeTopics: in.Exclude, Start: in.Start, End: in.End, Recover: in.Recover}
	switch strings.TrimSuffix(in.TimelineType, "_ns") {
	case "", "timestamp":
	case "duration":
		o.TimelineType = chunk.Duration
	default:
		o.TimelineType = chunk.TimeKind(99)
	}
	r, err := mcap.Open(path, o)
	if err != nil {
		return nil, err
	}
	return &stream{bounds: r.TimeBounds, chunks: r.Chunks(ctx), closeFunc: r.Close, warnings: func() []string { return r.Report().Warnings }}, nil
}

// betterThanPeer changes what is expected where the peer loses data, as the
// README of the golden data says.
var betterThanPeer = map[string]func(t *testing.T, g *golden){
	"mcap_unchunked":         likeNoStats,
	"mcap_unchunked_recover": likeNoStats,
	"mcap_no_index":          likeNoStats,
	"mcap_no_index_recover":  likeNoStats,
	"mcap_no_summary":        likeNoStats,
	"mcap_bad_chunk_crc":     withoutSecondChunk,
	"mcap_bad_chunk_payload": withoutSecondChunk,
	"mcap_clouds_tail":       cloudsTail,
	"mcap_clouds_change":     cloudsChange,
}

// likeNoStats adds the messages and the channel of mcap_no_stats.
func likeNoStats(t *testing.T, g *golden) {
	var like expected
	loadJSON(t, filepath.Join(g.dir, "expected", "mcap_no_stats.json"), &like)
	have := map[string]bool{}
	for _, c := range g.want.Columns {
		have[c.key()] = true
	}
	for _, c := range like.Columns {
		if c.Entity == "/n" && !have[c.key()] {
			g.want.Columns = append(g.want.Columns, c)
		}
	}
	g.columnsOnly = true
}

// withoutSecondChunk wants the messages of mcap_healthy without those of the
// second MCAP chunk, which are six of /n.
func withoutSecondChunk(t *testing.T, g *golden) {
	var healthy expected
	loadJSON(t, filepath.Join(g.dir, "expected", "mcap_healthy.json"), &healthy)
	n := 0
	g.want.Columns = nil
	g.want.Chunks = slices.DeleteFunc(healthy.Chunks, func(c chunkSummary) bool {
		if c.Static || c.Entity != "/n" {
			return false
		}
		n++
		return n == 2
	})
	g.wantWarning = true
}

func cloudsTail(_ *testing.T, g *golden) {
	g.wantWarning = true
	g.more = func(t *testing.T, got []*chunk.Chunk) {
		checkClouds(t, got, 1)
	}
}

func cloudsChange(_ *testing.T, g *golden) {
	g.more = func(t *testing.T, got []*chunk.Chunk) {
		checkClouds(t, got, 3)
		for name, want := range map[string]int{"Points3D:a": 2, "Points3D:b": 1} {
			if rows, _, _ := rowsOf(got, "/pc", name); rows != want {
				t.Errorf("%d rows of %s, want %d", rows, name, want)
			}
		}
	}
}

// checkClouds wants three clouds of two, two and one points.
func checkClouds(t *testing.T, got []*chunk.Chunk, layouts int) {
	t.Helper()
	rows, pieces, _ := rowsOf(got, "/pc", "sensor_msgs.msg.PointCloud2:data")
	if rows != 3 || pieces != layouts {
		t.Errorf("%d rows of data in %d chunks, want 3 in %d", rows, pieces, layouts)
	}
	rows, pieces, values := rowsOf(got, "/pc", "Points3D:positions")
	if rows != 3 || pieces != 3 {
		t.Errorf("%d rows of positions in %d chunks, want 3 in 3", rows, pieces)
	}
	var points []int
	for _, v := range values {
		points = append(points, v.ListValues().(*array.FixedSizeList).Len())
	}
	if diff := cmp.Diff([]int{2, 2, 1}, points); diff != "" {
		t.Errorf("points a cloud (-want +got):\n%s", diff)
	}
}
