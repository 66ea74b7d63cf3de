package server

import (
	"context"
	"fmt"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/reelhouse/reelhouse/rpc/cloud"
	"github.com/reelhouse/reelhouse/rpc/common"
)

const propertiesPerMessage = 100

// GetSegmentProperties gives the mutable properties of segments.
func (s *cloudService) GetSegmentProperties(ctx context.Context, req *cloud.GetSegmentPropertiesRequest, stream *connect.ServerStream[cloud.GetSegmentPropertiesResponse]) error {
	d, err := s.dataset(ctx)
	if err != nil {
		return err
	}
	all, err := d.Properties(segmentIDs(req.GetSegmentIds()))
	if err != nil {
		return err
	}
	for {
		n := min(len(all), propertiesPerMessage)
		res := &cloud.GetSegmentPropertiesResponse{}
		for _, p := range all[:n] {
			frame, err := encodeFrame(p.Values)
			if err != nil {
				return err
			}
			res.Segments = append(res.Segments, &cloud.SegmentProperties{SegmentId: &common.SegmentId{Id: &p.Segment}, Properties: frame, Revision: p.Revision})
		}
		if err := stream.Send(res); err != nil {
			return err
		}
		if all = all[n:]; len(all) == 0 {
			return nil
		}
	}
}

// SetSegmentProperties replaces the mutable properties of a segment.
func (s *cloudService) SetSegmentProperties(ctx context.Context, req *cloud.SetSegmentPropertiesRequest) (*cloud.SetSegmentPropertiesResponse, error) {
	d, err := s.dataset(ctx)
	if err != nil {
		return nil, err
	}
	if req.GetSegmentId() == nil || req.GetSegmentId().Id == nil {
		return nil, missing("rerun.cloud.v1alpha1.SetSegmentPropertiesRequest.segment_id")
	}
	if req.GetProperties() == nil {
		return nil, invalid("properties are required")
	}
	batches, err := decodeFrame(req.GetProperties())
	if err != nil {
		return nil, err
	}
	rows := int64(0)
	for _, b := range batches {
		rows += b.NumRows()
	}
	if rows != 1 || len(batches) != 1 {
		return nil, invalid("segment properties must be a single row, got %d rows", rows)
	}
	revision, err := d.SetProperties(req.GetSegmentId().GetId(), batches[0], req.ExpectedRevision)
	if err != nil {
		return nil, err
	}
	return &cloud.SetSegmentPropertiesResponse{Revision: revision}, nil
}

// DeleteSegmentProperties removes the mutable properties of segments.
func (s *cloudService) DeleteSegmentProperties(ctx context.Context, req *cloud.DeleteSegmentPropertiesRequest) (*cloud.DeleteSegmentPropertiesResponse, error) {
	d, err := s.dataset(ctx)
	if err != nil {
		return nil, err
	}
	for _, seg := range req.GetSegments() {
		if seg.GetSegmentId() == nil || seg.GetSegmentId().Id == nil {
			return nil, missing("rerun.cloud.v1alpha1.SegmentPropertiesDeletion.segment_id")
		}
	}
	for _, seg := range req.GetSegments() {
		d.DeleteProperties(seg.GetSegmentId().GetId(), seg.ExpectedRevision)
	}
	return &cloud.DeleteSegmentPropertiesResponse{}, nil
}

// GetWriteAccessGrant permits an upload by HTTP.
func (s *cloudService) GetWriteAccessGrant(_ context.Context, req *cloud.GetWriteAccessGrantRequest) (*cloud.GetWriteAccessGrantResponse, error) {
	if req.GetLocation() != nil {
		return nil, invalid("explicit storage locations are not supported")
	}
	if req.GetSigning() == cloud.UrlSigning_URL_SIGNING_UNSIGNED {
		return nil, unimplemented("unsigned upload requests are not implemented")
	}
	single := len(req.GetSupportedUploadMethods()) == 0
	for _, m := range req.GetSupportedUploadMethods() {
		single = single || m == cloud.UploadMethod_UPLOAD_METHOD_SINGLE_REQUEST
	}
	if !single {
		return nil, connect.NewError(connect.CodeFailedPrecondition, fmt.Errorf("this server only issues single-request grants"))
	}
	g, err := s.catalog.GrantUpload(req.GetKey(), req.SizeBytes)
	if err != nil {
		return nil, err
	}
	return &cloud.GetWriteAccessGrantResponse{StorageUrl: g.URL, Grant: &cloud.AccessGrant{
		ExpiresAt: timestamppb.New(g.Expires), Signing: cloud.UrlSigning_URL_SIGNING_SIGNED,
		Redemption: &cloud.AccessGrant_HttpRequest{HttpRequest: &cloud.HttpRequest{Method: "PUT", Url: uploadPath + g.Token, SameOrigin: true,
			Headers: []*cloud.HttpHeader{{Name: "if-none-match", Value: "*"}}}}}}, nil
}

// GetMultipartUploadPartGrants is not implemented.
func (s *cloudService) GetMultipartUploadPartGrants(context.Context, *cloud.GetMultipartUploadPartGrantsRequest) (*cloud.GetMultipartUploadPartGrantsResponse, error) {
	return nil, unimplemented("multipart uploads are not implemented")
}

// CompleteMultipartUpload is not implemented.
func (s *cloudService) CompleteMultipartUpload(context.Context, *cloud.CompleteMultipartUploadRequest) (*cloud.CompleteMultipartUploadResponse, error) {
	return nil, unimplemented("multipart uploads are not implemented")
}

// AbortMultipartUpload is not implemented.
func (s *cloudService) AbortMultipartUpload(context.Context, *cloud.AbortMultipartUploadRequest) (*cloud.AbortMultipartUploadResponse, error) {
	return nil, unimplemented("multipart uploads are not implemented")
}
