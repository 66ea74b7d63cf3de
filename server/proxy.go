package server

import (
	"context"
	"errors"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/reelhouse/reelhouse/rpc/logmsg"
	"github.com/reelhouse/reelhouse/rpc/sdkcomms"
	"github.com/reelhouse/reelhouse/rrd"
)

// proxyService answers the calls of MessageProxyService: SDKs write live
// streams to it, which become segments of the catalog, and viewers follow them.
type proxyService struct {
	server *Server
	tables tableLog
}

// WriteMessages takes a live stream.
func (p *proxyService) WriteMessages(ctx context.Context, stream *connect.ClientStream[sdkcomms.WriteMessagesRequest]) (_ *sdkcomms.WriteMessagesResponse, err error) {
	live := &p.server.live
	live.open.Add(1)
	defer live.open.Add(-1)
	in := p.server.catalog.Ingest()
	defer func() { err = errors.Join(err, in.Close()) }()
	for stream.Receive() {
		kind, encoded, err := encodeLogMsg(stream.Msg().GetLogMsg())
		if err != nil {
			return nil, err
		}
		if err := in.Write(ctx, kind, encoded); err != nil {
			return nil, err
		}
		live.last.Store(time.Now().UnixNano())
		p.server.metrics.received.Inc()
	}
	if err := stream.Err(); err != nil {
		if p.server.stopping.Err() != nil {
			err = connect.NewError(connect.CodeUnavailable, errStopping)
		}
		return nil, err
	}
	return &sdkcomms.WriteMessagesResponse{}, nil
}

// encodeLogMsg gives a message the form that it has in recordings.
func encodeLogMsg(m *logmsg.LogMsg) (kind rrd.Kind, encoded []byte, err error) {
	var inner proto.Message
	switch v := m.GetMsg().(type) {
	case *logmsg.LogMsg_SetStoreInfo:
		kind, inner = rrd.KindStoreInfo, v.SetStoreInfo
	case *logmsg.LogMsg_ArrowMsg:
		kind, inner = rrd.KindArrow, v.ArrowMsg
	case *logmsg.LogMsg_BlueprintActivationCommand:
		kind, inner = rrd.KindActivation, v.BlueprintActivationCommand
	default:
		return 0, nil, missing("rerun.sdk_comms.v1alpha1.WriteMessagesRequest.log_msg")
	}
	encoded, err = proto.Marshal(inner)
	return kind, encoded, err
}

func decodeLogMsg(kind rrd.Kind, encoded []byte) (*logmsg.LogMsg, error) {
	m := &logmsg.LogMsg{}
	var inner proto.Message
	switch kind {
	case rrd.KindStoreInfo:
		v := &logmsg.LogMsg_SetStoreInfo{SetStoreInfo: &logmsg.SetStoreInfo{}}
		m.Msg, inner = v, v.SetStoreInfo
	case rrd.KindActivation:
		v := &logmsg.LogMsg_BlueprintActivationCommand{BlueprintActivationCommand: &logmsg.BlueprintActivationCommand{}}
		m.Msg, inner = v, v.BlueprintActivationCommand
	default:
		v := &logmsg.LogMsg_ArrowMsg{ArrowMsg: &logmsg.ArrowMsg{}}
		m.Msg, inner = v, v.ArrowMsg
	}
	return m, proto.Unmarshal(encoded, inner)
}

// ReadMessages sends what was received so far, and then what comes.
func (p *proxyService) ReadMessages(ctx context.Context, _ *sdkcomms.ReadMessagesRequest, stream *connect.ServerStream[sdkcomms.ReadMessagesResponse]) error {
	follow, cancel := p.server.untilStop(ctx)
	defer cancel()
	err := p.server.catalog.Follow(follow, func() error { return stream.Send(nil) }, func(kind rrd.Kind, encoded []byte) error {
		m, err := decodeLogMsg(kind, encoded)
		if err != nil {
			return err
		}
		return stream.Send(&sdkcomms.ReadMessagesResponse{LogMsg: m})
	})
	return p.server.stopped(ctx, err)
}

// WriteTable hands a table to those who read tables.
func (p *proxyService) WriteTable(_ context.Context, req *sdkcomms.WriteTableRequest) (*sdkcomms.WriteTableResponse, error) {
	if req.GetId() == nil {
		return nil, missing("rerun.sdk_comms.v1alpha1.WriteTableRequest.id")
	}
	if req.GetData() == nil {
		return nil, missing("rerun.sdk_comms.v1alpha1.WriteTableRequest.data")
	}
	p.tables.add(&sdkcomms.ReadTablesResponse{Id: req.GetId(), Data: req.GetData()})
	return &sdkcomms.WriteTableResponse{}, nil
}

// ReadTables sends the tables that were received so far, and then those that come.
func (p *proxyService) ReadTables(ctx context.Context, _ *sdkcomms.ReadTablesRequest, stream *connect.ServerStream[sdkcomms.ReadTablesResponse]) error {
	follow, cancel := p.server.untilStop(ctx)
	defer cancel()
	if err := stream.Send(nil); err != nil {
		return err
	}
	for next := 0; ; {
		tables, after, changed := p.tables.since(next)
		for _, t := range tables {
			if err := stream.Send(t); err != nil {
				return err
			}
		}
		next = after
		select {
		case <-follow.Done():
			return p.server.stopped(ctx, follow.Err())
		case <-changed:
		}
	}
}

// maxTableBytes is how much of the tables that were sent is kept for readers
// that come later; the oldest go first.
const maxTableBytes = 64 << 20

// tableLog is a bounded list of tables. Its zero value is empty.
type tableLog struct {
	mu      sync.Mutex
	first   int // number of tables[0]
	tables  []*sdkcomms.ReadTablesResponse
	size    int
	changed chan struct{}
}

func (l *tableLog) add(t *sdkcomms.ReadTablesResponse) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tables = append(l.tables, t)
	l.size += len(t.GetData().GetPayload())
	for l.size > maxTableBytes && len(l.tables) > 1 {
		l.size -= len(l.tables[0].GetData().GetPayload())
		l.tables[0] = nil
		l.tables = l.tables[1:]
		l.first++
	}
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}

// since are the tables from number n on, the number after them, and a channel
// that is closed when there are more.
func (l *tableLog) since(n int) (tables []*sdkcomms.ReadTablesResponse, after int, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.changed == nil {
		l.changed = make(chan struct{})
	}
	n = max(n, l.first)
	return append(tables, l.tables[n-l.first:]...), l.first + len(l.tables), l.changed
}
