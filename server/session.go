package server

import (
	"context"
	"crypto/rand"
	"runtime"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/reelhouse/reelhouse/catalog"
	"github.com/reelhouse/reelhouse/rpc/cloud"
	"github.com/reelhouse/reelhouse/rpc/common"
)

// longAgo is a deadline that has passed.
var longAgo = time.Unix(1, 0)

// cloudService answers the calls of RerunCloudService.
type cloudService struct{ *Server }

// Version describes the build and the optional parts of the protocol that it knows.
func (s *cloudService) Version(context.Context, *cloud.VersionRequest) (*cloud.VersionResponse, error) {
	return &cloud.VersionResponse{
		BuildInfo: &common.BuildInfo{
			CrateName:    proto.String("reelhouse"),
			Version:      &common.SemanticVersion{Major: proto.Uint32(0), Minor: proto.Uint32(41), Patch: proto.Uint32(0)},
			TargetTriple: proto.String(runtime.GOOS + "/" + runtime.GOARCH),
			IsDebugBuild: proto.Bool(false),
		},
		Version:  s.opt.Version,
		Features: []string{"per_segment_index_values"},
	}, nil
}

// WhoAmI says what the caller may do, and so which calls it will make.
func (s *cloudService) WhoAmI(context.Context, *cloud.WhoAmIRequest) (*cloud.WhoAmIResponse, error) {
	return &cloud.WhoAmIResponse{CanRead: true, CanWrite: true, Capabilities: &cloud.ServerCapabilities{Capabilities: []string{
		"catalog:write:register:file", "catalog:write:staging", "dataset:find_chunks"}}}, nil
}

const (
	maxBandwidthTest = 32 << 20
	bandwidthMessage = 1 << 20
)

// DoBandwidthTest sends random bytes.
func (s *cloudService) DoBandwidthTest(_ context.Context, req *cloud.DoBandwidthTestRequest, stream *connect.ServerStream[cloud.DoBandwidthTestResponse]) error {
	n := req.GetNumBytes()
	if n > maxBandwidthTest {
		return invalid("num_bytes (%d) exceeds the maximum of %d", n, maxBandwidthTest)
	}
	for n > 0 {
		b := make([]byte, min(n, bandwidthMessage))
		_, _ = rand.Read(b) // never fails
		if err := stream.Send(&cloud.DoBandwidthTestResponse{Payload: b}); err != nil {
			return err
		}
		n -= uint64(len(b))
	}
	return nil
}

// WatchEvents tells of data sets that come and go.
func (s *cloudService) WatchEvents(ctx context.Context, req *cloud.WatchEventsRequest, stream *connect.ServerStream[cloud.WatchEventsResponse]) error {
	wanted := len(req.GetKinds()) == 0
	for _, k := range req.GetKinds() {
		wanted = wanted || k.GetEntry() != nil
	}
	watch, cancel := s.untilStop(ctx)
	defer cancel()
	err := s.catalog.Watch(watch, func() error { return stream.Send(nil) }, func(ev catalog.Event) error {
		if !wanted {
			return nil
		}
		id := entryIDMessage(ev.ID)
		if ev.Created {
			return stream.Send(&cloud.WatchEventsResponse{Kind: &cloud.WatchEventsResponse_EntryCreated{EntryCreated: &cloud.EntryCreatedEvent{Id: id}}})
		}
		return stream.Send(&cloud.WatchEventsResponse{Kind: &cloud.WatchEventsResponse_EntryDeleted{EntryDeleted: &cloud.EntryDeletedEvent{Id: id}}})
	})
	return s.stopped(ctx, err)
}

// stopped is the error of a call that ended because the server stops.
func (s *Server) stopped(ctx context.Context, err error) error {
	if err != nil && ctx.Err() == nil && s.stopping.Err() != nil {
		return connect.NewError(connect.CodeUnavailable, errStopping)
	}
	return err
}

// DoMaintenance succeeds: there is nothing to maintain.
func (s *cloudService) DoMaintenance(ctx context.Context, _ *cloud.DoMaintenanceRequest) (*cloud.DoMaintenanceResponse, error) {
	if _, err := s.dataset(ctx); err != nil {
		return nil, err
	}
	return &cloud.DoMaintenanceResponse{Report: "nothing to do"}, nil
}

// DoGlobalMaintenance succeeds: there is nothing to maintain.
func (s *cloudService) DoGlobalMaintenance(context.Context, *cloud.DoGlobalMaintenanceRequest) (*cloud.DoGlobalMaintenanceResponse, error) {
	return &cloud.DoGlobalMaintenanceResponse{}, nil
}

// QueryTasks tells the state of tasks.
func (s *cloudService) QueryTasks(_ context.Context, req *cloud.QueryTasksRequest) (*cloud.QueryTasksResponse, error) {
	p, err := encodeFrame(s.catalog.Tasks(taskIDs(req.GetIds())))
	return &cloud.QueryTasksResponse{Data: p}, err
}

// QueryTasksOnCompletion tells the state of tasks, which have all ended.
func (s *cloudService) QueryTasksOnCompletion(_ context.Context, req *cloud.QueryTasksOnCompletionRequest, stream *connect.ServerStream[cloud.QueryTasksOnCompletionResponse]) error {
	return sendFrame(s.catalog.Tasks(taskIDs(req.GetIds())), nil, stream.Send, func(p *common.DataframePart) *cloud.QueryTasksOnCompletionResponse {
		return &cloud.QueryTasksOnCompletionResponse{Data: p}
	})
}

// CancelTasks does nothing: tasks have ended when their ids are known.
func (s *cloudService) CancelTasks(context.Context, *cloud.CancelTasksRequest) (*cloud.CancelTasksResponse, error) {
	return &cloud.CancelTasksResponse{}, nil
}

func taskIDs(ids []*common.TaskId) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = id.GetId()
	}
	return out
}
