package server

import (
	"context"
	"math"
	"strings"

	"connectrpc.com/connect"
	"github.com/apache/arrow-go/v18/arrow"

	"github.com/reelhouse/reelhouse/catalog"
	"github.com/reelhouse/reelhouse/chunk"
	"github.com/reelhouse/reelhouse/rpc/cloud"
	"github.com/reelhouse/reelhouse/rpc/common"
)

// FindChunks lists the chunks that a query needs.
func (s *cloudService) FindChunks(ctx context.Context, req *cloud.FindChunksRequest, stream *connect.ServerStream[cloud.FindChunksResponse]) error {
	d, err := s.dataset(ctx)
	if err != nil {
		return err
	}
	q, err := findQuery(req)
	if err != nil {
		return err
	}
	b, err := d.Find(q, []catalog.StartColumn{{Name: "chunk_timeline_start", Timeline: q.Timeline, Inside: true}})
	return sendFrame(b, err, stream.Send, func(p *common.DataframePart) *cloud.FindChunksResponse {
		return &cloud.FindChunksResponse{Data: p}
	})
}

// findQuery reads the request of FindChunks (spec/catalog.md 5.1).
func findQuery(req *cloud.FindChunksRequest) (catalog.Query, error) {
	var q catalog.Query
	var err error
	if q.Entities, err = contents(req.GetContents()); err != nil {
		return q, err
	}
	switch mode := req.GetMode().(type) {
	case *cloud.FindChunksRequest_Static:
		q.Static = true
		q.Segments, err = selected(mode.Static.GetSegments(), "static")
	case *cloud.FindChunksRequest_Range:
		err = rangeQuery(mode.Range, &q)
	case *cloud.FindChunksRequest_Samples:
		err = samplesQuery(mode.Samples, &q)
	default:
		err = invalid("`mode` is required")
	}
	return q, err
}

// contents are the entities of a selection; nil means all.
func contents(c *cloud.ContentSelection) ([]chunk.EntityPath, error) {
	switch sel := c.GetSelection().(type) {
	case *cloud.ContentSelection_All:
		return nil, nil
	case *cloud.ContentSelection_Explicit:
		paths := []chunk.EntityPath{}
		seen := map[chunk.EntityPath]bool{}
		for _, e := range sel.Explicit.GetEntities() {
			if e.GetEntityPath() == nil {
				return nil, invalid("`contents.entities.entity_path` is required")
			}
			path := chunk.ParseEntityPath(e.GetEntityPath().GetPath())
			if seen[path] {
				return nil, invalid("duplicate entity path in `contents`: %s", path)
			}
			seen[path] = true
			switch comp := e.GetComponents().(type) {
			case *cloud.EntitySelection_All:
			case *cloud.EntitySelection_Explicit:
				for _, id := range comp.Explicit.GetIds() {
					if id == "" {
						return nil, invalid("`contents.components.explicit.ids` entries must be non-empty")
					}
				}
			default:
				return nil, invalid("`contents.components` is required")
			}
			paths = append(paths, path)
		}
		return paths, nil
	}
	return nil, invalid("`contents` is required")
}

// selected are the segments of a selection; nil means all.
func selected(sel *cloud.SegmentSelection, mode string) ([]string, error) {
	switch sel := sel.GetSelection().(type) {
	case *cloud.SegmentSelection_All:
		return nil, nil
	case *cloud.SegmentSelection_Explicit:
		return segmentIDs(sel.Explicit.GetIds()), nil
	}
	return nil, invalid("`%s.segments` is required", mode)
}

func timelineName(name string) (string, error) {
	if name == "" {
		return "", invalid("Invalid `TimelineName`: must not be empty")
	}
	return name, nil
}

// fillMode reports whether latest values are wanted.
func fillMode(m cloud.FillMode, mode string) (latest bool, err error) {
	switch m {
	case cloud.FillMode_FILL_MODE_UNSPECIFIED, cloud.FillMode_FILL_MODE_NONE:
		return false, nil
	case cloud.FillMode_FILL_MODE_LATEST_AT:
		return true, nil
	case cloud.FillMode_FILL_MODE_EARLIEST_AT:
		return false, unimplemented("`%s.fill_mode` `FILL_MODE_EARLIEST_AT` is not implemented", mode)
	}
	return false, invalid("`%s.fill_mode` has the unknown value %d", mode, m)
}

func rangeQuery(r *cloud.RangeSelection, q *catalog.Query) (err error) {
	if q.Timeline, err = timelineName(r.GetTimeline()); err != nil {
		return err
	}
	if q.Segments, err = selected(r.GetSegments(), "range"); err != nil {
		return err
	}
	latest, err := fillMode(r.GetFillMode(), "range")
	if err != nil {
		return err
	}
	if latest {
		if r.StartInclusive == nil {
			return invalid("`range.fill_mode` `FILL_MODE_LATEST_AT` requires `range.start_inclusive` to be set")
		}
		q.LatestAt = r.StartInclusive
	}
	q.Static = true
	if r.StartInclusive == nil && r.EndInclusive == nil {
		q.Everything = true
		return nil
	}
	span := [2]int64{math.MinInt64, math.MaxInt64}
	if r.StartInclusive != nil {
		span[0] = r.GetStartInclusive()
	}
	if r.EndInclusive != nil {
		span[1] = r.GetEndInclusive()
	}
	if span[0] > span[1] {
		return invalid("`range.end_inclusive` must not be before `range.start_inclusive`")
	}
	q.Overlaps = &span
	return nil
}

func samplesQuery(r *cloud.SegmentSamplesSelection, q *catalog.Query) (err error) {
	if q.Timeline, err = timelineName(r.GetTimeline()); err != nil {
		return err
	}
	if q.Latest, err = fillMode(r.GetFillMode(), "samples"); err != nil {
		return err
	}
	q.Static = true
	q.Segments = []string{}
	q.At = map[string][]int64{}
	for _, seg := range r.GetSegments() {
		if seg.GetSegmentId() == nil {
			return invalid("`samples.segments.segment_id` is required")
		}
		id := seg.GetSegmentId().GetId()
		q.Segments = append(q.Segments, id)
		q.At[id] = append(q.At[id], seg.GetValues()...)
	}
	return nil
}

// QueryDataset is FindChunks as older clients call it.
func (s *cloudService) QueryDataset(ctx context.Context, req *cloud.QueryDatasetRequest, stream *connect.ServerStream[cloud.QueryDatasetResponse]) error {
	d, err := s.dataset(ctx)
	if err != nil {
		return err
	}
	q, starts, err := oldQuery(req)
	if err != nil {
		return err
	}
	b, err := d.Find(q, starts)
	return sendFrame(b, err, stream.Send, func(p *common.DataframePart) *cloud.QueryDatasetResponse {
		return &cloud.QueryDatasetResponse{Data: p}
	})
}

// oldQuery reads the request of QueryDataset (spec/catalog.md 5.2).
func oldQuery(req *cloud.QueryDatasetRequest) (q catalog.Query, starts []catalog.StartColumn, err error) {
	scan := req.GetScanParameters()
	for _, refused := range []struct {
		set  bool
		name string
	}{
		{len(req.GetChunkIds()) > 0, "chunk_ids"},
		{req.GetExcludeStaticData(), "exclude_static_data"},
		{req.GetExcludeTemporalData(), "exclude_temporal_data"},
		{scan.GetFilter() != "", "scan_parameters.filter"},
		{scan != nil && scan.LimitOffset != nil, "scan_parameters.limit_offset"},
		{scan != nil && scan.LimitLen != nil, "scan_parameters.limit_len"},
		{len(scan.GetOrderBy()) > 0, "scan_parameters.order_by"},
	} {
		if refused.set {
			return q, nil, invalid("`%s` has no equivalent in `FindChunks`", refused.name)
		}
	}
	q.Entities = []chunk.EntityPath{}
	for _, e := range req.GetEntityPaths() {
		q.Entities = append(q.Entities, chunk.ParseEntityPath(e.GetPath()))
	}
	if req.GetSelectAllEntityPaths() {
		if len(q.Entities) > 0 {
			return q, nil, invalid("`select_all_entity_paths` is true, but `entity_paths` is not empty")
		}
		q.Entities = nil
	}
	if len(req.GetSegmentIds()) > 0 {
		q.Segments = segmentIDs(req.GetSegmentIds())
	}
	if err := oldTimes(req, &q); err != nil {
		return q, nil, err
	}
	column := func(timeline string) {
		for _, c := range starts {
			if c.Timeline == timeline {
				return
			}
		}
		starts = append(starts, catalog.StartColumn{Name: timeline + ":start", Timeline: timeline})
	}
	for _, c := range scan.GetColumns() {
		if t, ok := strings.CutSuffix(c, ":start"); ok && t != "" {
			column(t)
		}
	}
	if q.Timeline != "" {
		column(q.Timeline)
	}
	return q, starts, nil
}

// oldTimes reads what a request of QueryDataset says about times.
func oldTimes(req *cloud.QueryDatasetRequest, q *catalog.Query) error {
	latest, span := req.GetQuery().GetLatestAt(), req.GetQuery().GetRange()
	q.Static = true
	if latest == nil && span == nil {
		q.Everything = true
		return nil
	}
	timeline := func(index *common.IndexColumnSelector) error {
		name := index.GetTimeline().GetName()
		if name == "" {
			return invalid("Invalid `TimelineName`: must not be empty")
		}
		if q.Timeline != "" && q.Timeline != name {
			return invalid("`latest_at` and `range` must be about the same timeline")
		}
		q.Timeline = name
		return nil
	}
	if span != nil {
		if err := timeline(span.GetIndex()); err != nil {
			return err
		}
		r := [2]int64{math.MinInt64, math.MaxInt64}
		if v := span.GetIndexRange(); v != nil {
			r = [2]int64{v.GetStart(), v.GetEnd()}
		}
		q.Overlaps = &r
	}
	if latest == nil || latest.GetIndex() == nil {
		return nil
	}
	if err := timeline(latest.GetIndex()); err != nil {
		return err
	}
	values := latest.GetPerSegmentValues()
	if len(values) == 0 {
		q.LatestAt = latest.At
		return nil
	}
	switch {
	case latest.At != nil:
		return invalid("`per_segment_values` excludes `at`")
	case span != nil:
		return invalid("`per_segment_values` excludes `range`")
	case len(values) != len(q.Segments):
		return invalid("`per_segment_values.len()` (%d) must equal `segment_ids.len()` (%d)", len(values), len(q.Segments))
	}
	q.Latest = true
	q.At = map[string][]int64{}
	for i, id := range q.Segments {
		if _, ok := q.At[id]; ok {
			return invalid("`segment_ids` must not have duplicates with `per_segment_values`: %s", id)
		}
		q.At[id] = values[i].GetValues()
	}
	return nil
}

// FetchChunks sends the chunks with the given keys.
func (s *cloudService) FetchChunks(ctx context.Context, req *cloud.FetchChunksRequest, stream *connect.ServerStream[cloud.FetchChunksResponse]) error {
	var keys [][]byte
	for _, p := range req.GetChunkInfos() {
		batches, err := decodeFrame(p)
		if err != nil {
			return err
		}
		for _, b := range batches {
			i := b.Schema().FieldIndices(catalog.KeyColumn)
			if len(i) == 0 {
				return invalid("Missing required column %q", catalog.KeyColumn)
			}
			col, ok := b.Column(i[0]).(interface {
				arrow.Array
				Value(int) []byte
			})
			if !ok {
				return invalid("column %q is of type %v, not binary", catalog.KeyColumn, b.Column(i[0]).DataType())
			}
			if col.NullN() > 0 {
				return invalid("column %q has nulls", catalog.KeyColumn)
			}
			for j := range col.Len() {
				keys = append(keys, col.Value(j))
			}
		}
	}
	for batch, err := range s.catalog.Fetch(ctx, keys) {
		if err != nil {
			return err
		}
		n := 0
		for _, c := range batch.Chunks {
			n += len(c)
		}
		s.metrics.chunks.Add(float64(len(batch.Chunks)))
		s.metrics.bytes.Add(float64(n))
		if err := stream.Conn().Send(&fetched{batch}); err != nil {
			return err
		}
	}
	return nil
}
