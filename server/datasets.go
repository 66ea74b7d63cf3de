package server

import (
	"context"

	"connectrpc.com/connect"

	"github.com/reelhouse/reelhouse/catalog"
	"github.com/reelhouse/reelhouse/rpc/cloud"
	"github.com/reelhouse/reelhouse/rpc/common"
	"github.com/reelhouse/reelhouse/rpc/logmsg"
)

// RegisterWithDataset registers recordings as layers of segments.
func (s *cloudService) RegisterWithDataset(ctx context.Context, req *cloud.RegisterWithDatasetRequest) (*cloud.RegisterWithDatasetResponse, error) {
	d, err := s.dataset(ctx)
	if err != nil {
		return nil, err
	}
	sources := make([]catalog.Source, len(req.GetDataSources()))
	for i, src := range req.GetDataSources() {
		if src.StorageUrl == nil {
			return nil, missing("rerun.cloud.v1alpha1.DataSource.storage_url")
		}
		switch src.GetTyp() {
		case cloud.DataSourceKind_DATA_SOURCE_KIND_RRD:
		case cloud.DataSourceKind_DATA_SOURCE_KIND_UNSPECIFIED:
			return nil, invalid("invalid value for field 'rerun.cloud.v1alpha1.DataSource.typ': enum value unspecified")
		default:
			return nil, invalid("invalid value for field 'rerun.cloud.v1alpha1.DataSource.typ': unknown value %d", src.GetTyp())
		}
		sources[i] = catalog.Source{URL: src.GetStorageUrl(), Layer: src.GetLayer(), Folder: src.GetPrefix()}
	}
	policy := catalog.SkipDuplicates
	switch req.GetOnDuplicate() {
	case common.IfDuplicateBehavior_IF_DUPLICATE_BEHAVIOR_OVERWRITE:
		policy = catalog.OverwriteDuplicates
	case common.IfDuplicateBehavior_IF_DUPLICATE_BEHAVIOR_ERROR:
		policy = catalog.FailDuplicates
	}
	done, err := d.Register(ctx, sources, policy)
	if err != nil {
		return nil, err
	}
	s.log.InfoContext(ctx, "registered", "dataset", d.Entry().Name, "layers", len(done))
	p, err := encodeFrame(catalog.RegisteredBatch(done))
	return &cloud.RegisterWithDatasetResponse{Data: p}, err
}

// UnregisterFromDataset removes layers of segments.
func (s *cloudService) UnregisterFromDataset(ctx context.Context, req *cloud.UnregisterFromDatasetRequest, stream *connect.ServerStream[cloud.UnregisterFromDatasetResponse]) error {
	d, err := s.dataset(ctx)
	if err != nil {
		return err
	}
	n, err := d.Unregister(segmentIDs(req.GetSegmentsToDrop()), req.GetLayersToDrop())
	if err != nil {
		return err
	}
	s.log.InfoContext(ctx, "unregistered", "dataset", d.Entry().Name, "layers", n)
	b, err := d.NoLayers()
	return sendFrame(b, err, stream.Send, func(p *common.DataframePart) *cloud.UnregisterFromDatasetResponse {
		return &cloud.UnregisterFromDatasetResponse{Data: p, TaskId: &common.TaskId{Id: catalog.TaskDone}}
	})
}

func segmentIDs(ids []*common.SegmentId) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = id.GetId()
	}
	return out
}

func segmentFilter(f *cloud.SegmentIdFilter) catalog.Names {
	switch f := f.GetStrategy().(type) {
	case *cloud.SegmentIdFilter_ScanOnly:
		return catalog.Names{Set: true, List: f.ScanOnly.GetSegmentIds()}
	case *cloud.SegmentIdFilter_Skip:
		return catalog.Names{Set: true, List: f.Skip.GetSegmentIds(), Invert: true}
	}
	return catalog.Names{}
}

func layerFilter(f *cloud.LayerNameFilter) catalog.Names {
	switch f := f.GetStrategy().(type) {
	case *cloud.LayerNameFilter_ScanOnly:
		return catalog.Names{Set: true, List: f.ScanOnly.GetLayerNames()}
	case *cloud.LayerNameFilter_Skip:
		return catalog.Names{Set: true, List: f.Skip.GetLayerNames(), Invert: true}
	}
	return catalog.Names{}
}

// GetSegmentTableSchema is the schema of the table of segments.
func (s *cloudService) GetSegmentTableSchema(ctx context.Context, _ *cloud.GetSegmentTableSchemaRequest) (*cloud.GetSegmentTableSchemaResponse, error) {
	d, err := s.dataset(ctx)
	if err != nil {
		return nil, err
	}
	return &cloud.GetSegmentTableSchemaResponse{Schema: encodeSchema(d.SegmentSchema())}, nil
}

// ScanSegmentTable is the table of segments.
func (s *cloudService) ScanSegmentTable(ctx context.Context, req *cloud.ScanSegmentTableRequest, stream *connect.ServerStream[cloud.ScanSegmentTableResponse]) error {
	d, err := s.dataset(ctx)
	if err != nil {
		return err
	}
	b, err := d.Segments(req.GetColumns(), segmentFilter(req.GetSegmentIdFilter()))
	return sendFrame(b, err, stream.Send, func(p *common.DataframePart) *cloud.ScanSegmentTableResponse {
		return &cloud.ScanSegmentTableResponse{Data: p}
	})
}

// GetDatasetManifestSchema is the schema of the table of layers.
func (s *cloudService) GetDatasetManifestSchema(ctx context.Context, _ *cloud.GetDatasetManifestSchemaRequest) (*cloud.GetDatasetManifestSchemaResponse, error) {
	d, err := s.dataset(ctx)
	if err != nil {
		return nil, err
	}
	return &cloud.GetDatasetManifestSchemaResponse{Schema: encodeSchema(d.ManifestSchema())}, nil
}

// ScanDatasetManifest is the table of layers.
func (s *cloudService) ScanDatasetManifest(ctx context.Context, req *cloud.ScanDatasetManifestRequest, stream *connect.ServerStream[cloud.ScanDatasetManifestResponse]) error {
	d, err := s.dataset(ctx)
	if err != nil {
		return err
	}
	b, err := d.Manifest(req.GetColumns(), segmentFilter(req.GetSegmentIdFilter()), layerFilter(req.GetLayerNameFilter()))
	return sendFrame(b, err, stream.Send, func(p *common.DataframePart) *cloud.ScanDatasetManifestResponse {
		return &cloud.ScanDatasetManifestResponse{Data: p}
	})
}

// GetDatasetSchema is the union of the schemas of all layers.
func (s *cloudService) GetDatasetSchema(ctx context.Context, _ *cloud.GetDatasetSchemaRequest) (*cloud.GetDatasetSchemaResponse, error) {
	d, err := s.dataset(ctx)
	if err != nil {
		return nil, err
	}
	return &cloud.GetDatasetSchemaResponse{Schema: encodeSchema(d.Schema())}, nil
}

const maxSchemaIDs = 1024

// GetSchemas gives schemas of layers by their hashes.
func (s *cloudService) GetSchemas(ctx context.Context, req *cloud.GetSchemasRequest, stream *connect.ServerStream[cloud.GetSchemasResponse]) error {
	d, err := s.dataset(ctx)
	if err != nil {
		return err
	}
	if n := len(req.GetSchemaIds()); n > maxSchemaIDs {
		return invalid("invalid value for field 'rerun.cloud.v1alpha1.GetSchemasRequest.schema_ids: got %d identifiers, but at most %d are allowed'", n, maxSchemaIDs)
	}
	var hashes [][32]byte
	seen := map[[32]byte]bool{}
	for _, id := range req.GetSchemaIds() {
		b := id.GetSha256()
		if len(b) != 32 {
			return invalid("invalid value for field 'rerun.common.v1alpha1.SchemaId.sha256: expected 32 bytes, got %d'", len(b))
		}
		if h := [32]byte(b); !seen[h] {
			seen[h] = true
			hashes = append(hashes, h)
		}
	}
	for _, h := range hashes {
		schema := d.LayerSchema(h)
		if schema == nil {
			continue
		}
		if err := stream.Send(&cloud.GetSchemasResponse{SchemaId: &common.SchemaId{Sha256: h[:]}, Schema: encodeSchema(schema)}); err != nil {
			return err
		}
	}
	return nil
}

// GetRrdManifest is the manifest of a segment.
func (s *cloudService) GetRrdManifest(ctx context.Context, req *cloud.GetRrdManifestRequest, stream *connect.ServerStream[cloud.GetRrdManifestResponse]) error {
	d, err := s.dataset(ctx)
	if err != nil {
		return err
	}
	if req.GetSegmentId() == nil {
		return missing("rerun.cloud.v1alpha1.GetRrdManifestRequest.segment_id")
	}
	x, err := d.Index(req.GetSegmentId().GetId())
	if err != nil {
		return err
	}
	p, err := encodeFrame(x.Chunks)
	if err != nil {
		return err
	}
	return stream.Send(&cloud.GetRrdManifestResponse{RrdManifest: &logmsg.RrdManifest{
		StoreId: &common.StoreId{Kind: common.StoreKind(x.Store.Kind), RecordingId: x.Store.Recording,
			ApplicationId: &common.ApplicationId{Id: x.Store.Application}},
		SorbetSchema: encodeSchema(x.Schema), SorbetSchemaSha256: x.Hash[:], Data: p}})
}

// GetAssetsForSegment lists the assets that apply to a segment.
func (s *cloudService) GetAssetsForSegment(ctx context.Context, req *cloud.GetAssetsForSegmentRequest, stream *connect.ServerStream[cloud.GetAssetsForSegmentResponse]) error {
	d, err := s.dataset(ctx)
	if err != nil {
		return err
	}
	entry, ids, err := d.Assets(req.GetSegmentId().GetId())
	if err != nil {
		return err
	}
	res := &cloud.GetAssetsForSegmentResponse{AssetsEntry: entryIDMessage(entry)}
	for _, id := range ids {
		res.AssetSegmentIds = append(res.AssetSegmentIds, &common.SegmentId{Id: &id})
	}
	return stream.Send(res)
}
