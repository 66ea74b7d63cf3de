package server

import (
	"context"
	"errors"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/reelhouse/reelhouse/catalog"
	"github.com/reelhouse/reelhouse/chunk"
	"github.com/reelhouse/reelhouse/rpc/cloud"
	"github.com/reelhouse/reelhouse/rpc/common"
)

var errStopping = errors.New("the server is shutting down")

// dataset is the data set that the headers of a call name (spec/catalog.md 1.1).
func (s *cloudService) dataset(ctx context.Context) (*catalog.Dataset, error) {
	info, ok := connect.CallInfoForHandlerContext(ctx)
	if !ok {
		return nil, errors.New("no call information")
	}
	s.live.settle(ctx)
	id, ok, err := headerID(info)
	if err != nil {
		return nil, err
	}
	if ok {
		return s.catalog.Dataset(id)
	}
	if v := info.RequestHeader().Get(headerEntryName); v != "" {
		name, err := connect.DecodeBinaryHeader(v)
		if err != nil {
			return nil, invalid("'%s' is not valid base64: %w", headerEntryName, err)
		}
		return s.catalog.DatasetByName(string(name))
	}
	return nil, invalid(`missing mandatory ["x-rerun-entry-id", "x-rerun-entry-name-bin"] HTTP headers`)
}

func headerID(info connect.CallInfo) (id catalog.EntryID, ok bool, err error) {
	v := info.RequestHeader().Get(headerEntryID)
	if v == "" {
		return id, false, nil
	}
	if id, err = chunk.ParseTUID(v); err != nil {
		return id, false, invalid("'%q' is not a valid value for 'x-rerun-entry-id': expected exactly 32 hex characters, got %d bytes", v, len(v))
	}
	return id, true, nil
}

// entryID is the id of the entry that a call is about: that of the header, else
// that of the body.
func entryID(ctx context.Context, body *common.EntryId) (catalog.EntryID, error) {
	info, found := connect.CallInfoForHandlerContext(ctx)
	if !found {
		return catalog.EntryID{}, errors.New("no call information")
	}
	id, ok, err := headerID(info)
	if err != nil {
		return id, err
	}
	if body == nil {
		if !ok {
			return id, invalid("missing entry id in request header and body")
		}
		return id, nil
	}
	inBody, err := parseEntryID(body)
	if err != nil {
		return id, err
	}
	if ok && id != inBody {
		return id, invalid("mismatched entry ids: the 'x-rerun-entry-id' header says '%s', but the request body says '%s'", id, inBody)
	}
	return inBody, nil
}

func parseEntryID(m *common.EntryId) (catalog.EntryID, error) {
	t := m.GetId()
	switch {
	case t == nil:
		return catalog.EntryID{}, missing("rerun.common.v1alpha1.EntryId.id")
	case t.TimeNs == nil:
		return catalog.EntryID{}, missing("rerun.common.v1alpha1.Tuid.time_ns")
	case t.Inc == nil:
		return catalog.EntryID{}, missing("rerun.common.v1alpha1.Tuid.inc")
	}
	return chunk.MakeTUID(t.GetTimeNs(), t.GetInc()), nil
}

func entryIDMessage(id catalog.EntryID) *common.EntryId {
	hi, lo := id.TimeNS(), id.Inc()
	return &common.EntryId{Id: &common.Tuid{TimeNs: &hi, Inc: &lo}}
}

func optionalID(id catalog.EntryID) *common.EntryId {
	if id.IsZero() {
		return nil
	}
	return entryIDMessage(id)
}

func entryMessage(e catalog.Entry) *cloud.EntryDetails {
	return &cloud.EntryDetails{Id: entryIDMessage(e.ID), Name: &e.Name, EntryKind: cloud.EntryKind(e.Kind),
		CreatedAt: timestamppb.New(e.Created), UpdatedAt: timestamppb.New(e.Updated)}
}

func datasetMessage(e catalog.Entry, d catalog.Details) *cloud.DatasetEntry {
	url := "memory:///" + e.ID.String()
	h := &common.DatasetHandle{EntryId: entryIDMessage(e.ID), DatasetUrl: &url,
		StoreKind: common.StoreKind_STORE_KIND_RECORDING, DatasetKind: common.DatasetKind_DATASET_KIND_RECORDING}
	switch e.Kind {
	case catalog.KindBlueprint:
		h.StoreKind, h.DatasetKind = common.StoreKind_STORE_KIND_BLUEPRINT, common.DatasetKind_DATASET_KIND_BLUEPRINT
	case catalog.KindAsset:
		h.DatasetKind = common.DatasetKind_DATASET_KIND_ASSET
	}
	return &cloud.DatasetEntry{Details: entryMessage(e), DatasetHandle: h, DatasetDetails: &cloud.DatasetDetails{
		BlueprintDataset: optionalID(d.Blueprints), AssetDataset: optionalID(d.Assets),
		DefaultBlueprintSegment: segmentMessage(d.DefaultBlueprint), DefaultSegmentTableBlueprintSegment: segmentMessage(d.DefaultTableBlueprint)}}
}

func segmentMessage(id *string) *common.SegmentId {
	if id == nil {
		return nil
	}
	return &common.SegmentId{Id: id}
}

// FindEntries lists entries.
func (s *cloudService) FindEntries(ctx context.Context, req *cloud.FindEntriesRequest) (*cloud.FindEntriesResponse, error) {
	s.live.settle(ctx)
	var f catalog.Filter
	in := req.GetFilter()
	if in.GetId() != nil {
		id, err := parseEntryID(in.GetId())
		if err != nil {
			return nil, err
		}
		f.ID = &id
	}
	if in != nil {
		f.Name = in.Name
	}
	kinds := in.GetEntryKinds()
	if len(kinds) == 0 && in != nil && in.EntryKind != nil {
		kinds = []cloud.EntryKind{in.GetEntryKind()}
	}
	for _, k := range kinds {
		if k == cloud.EntryKind_ENTRY_KIND_UNSPECIFIED {
			return nil, invalid("find_entries: entry_kinds must not contain ENTRY_KIND_UNSPECIFIED")
		}
		if k < 0 || k > 255 {
			k = 255 // matches nothing
		}
		f.Kinds = append(f.Kinds, catalog.Kind(k))
	}
	res := &cloud.FindEntriesResponse{}
	for _, e := range s.catalog.Entries(f) {
		res.Entries = append(res.Entries, entryMessage(e))
	}
	return res, nil
}

// DeleteEntry removes an entry.
func (s *cloudService) DeleteEntry(ctx context.Context, req *cloud.DeleteEntryRequest) (*cloud.DeleteEntryResponse, error) {
	id, err := entryID(ctx, req.GetId())
	if err != nil {
		return nil, err
	}
	return &cloud.DeleteEntryResponse{}, s.catalog.Delete(id)
}

// UpdateEntry renames an entry.
func (s *cloudService) UpdateEntry(ctx context.Context, req *cloud.UpdateEntryRequest) (*cloud.UpdateEntryResponse, error) {
	id, err := entryID(ctx, req.GetId())
	if err != nil {
		return nil, err
	}
	up := req.GetEntryDetailsUpdate()
	if up == nil {
		return nil, missing("rerun.cloud.v1alpha1.UpdateEntryRequest.entry_details_update")
	}
	var e catalog.Entry
	if up.Name == nil {
		e, err = s.catalog.Entry(id)
	} else {
		e, err = s.catalog.Rename(id, up.GetName())
	}
	if err != nil {
		return nil, err
	}
	return &cloud.UpdateEntryResponse{EntryDetails: entryMessage(e)}, nil
}

// CreateDatasetEntry makes a data set.
func (s *cloudService) CreateDatasetEntry(_ context.Context, req *cloud.CreateDatasetEntryRequest) (*cloud.CreateDatasetEntryResponse, error) {
	if req.Name == nil {
		return nil, missing("rerun.cloud.v1alpha1.CreateDatasetEntryRequest.name")
	}
	var id *catalog.EntryID
	if req.GetId() != nil {
		v, err := parseEntryID(req.GetId())
		if err != nil {
			return nil, err
		}
		id = &v
	}
	d, err := s.catalog.CreateDataset(req.GetName(), id)
	if err != nil {
		return nil, err
	}
	return &cloud.CreateDatasetEntryResponse{Dataset: datasetMessage(d.Describe())}, nil
}

// ReadDatasetEntry describes a data set.
func (s *cloudService) ReadDatasetEntry(ctx context.Context, _ *cloud.ReadDatasetEntryRequest) (*cloud.ReadDatasetEntryResponse, error) {
	d, err := s.dataset(ctx)
	if err != nil {
		return nil, err
	}
	return &cloud.ReadDatasetEntryResponse{Dataset: datasetMessage(d.Describe())}, nil
}

// UpdateDatasetEntry replaces the details of a data set.
func (s *cloudService) UpdateDatasetEntry(ctx context.Context, req *cloud.UpdateDatasetEntryRequest) (*cloud.UpdateDatasetEntryResponse, error) {
	id, err := entryID(ctx, req.GetId())
	if err != nil {
		return nil, err
	}
	in := req.GetDatasetDetails()
	if in == nil {
		return nil, missing("rerun.cloud.v1alpha1.UpdateDatasetEntryRequest.dataset_details")
	}
	var details catalog.Details
	if in.BlueprintDataset != nil {
		if details.Blueprints, err = parseEntryID(in.BlueprintDataset); err != nil {
			return nil, err
		}
	}
	if in.AssetDataset != nil {
		if details.Assets, err = parseEntryID(in.AssetDataset); err != nil {
			return nil, err
		}
	}
	if v := in.DefaultBlueprintSegment; v != nil {
		details.DefaultBlueprint = v.Id
	}
	if v := in.DefaultSegmentTableBlueprintSegment; v != nil {
		details.DefaultTableBlueprint = v.Id
	}
	d, err := s.catalog.Dataset(id)
	if err != nil {
		return nil, err
	}
	entry, details, err := d.SetDetails(details)
	if err != nil {
		return nil, err
	}
	return &cloud.UpdateDatasetEntryResponse{Dataset: datasetMessage(entry, details)}, nil
}
