package server_test

import (
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"google.golang.org/protobuf/proto"

	"github.com/reelhouse/reelhouse/catalog"
	"github.com/reelhouse/reelhouse/chunk"
	"github.com/reelhouse/reelhouse/rpc/common"
	"github.com/reelhouse/reelhouse/rpc/logmsg"
	"github.com/reelhouse/reelhouse/rpc/sdkcomms"
	"github.com/reelhouse/reelhouse/rpc/sdkcomms/sdkcommsconnect"
	"github.com/reelhouse/reelhouse/rrd"
)

// liveMessage is a message with a chunk of one row of a component of a type.
func liveMessage(t *testing.T, recording string, frame int64, values arrow.DataType) *sdkcomms.WriteMessagesRequest {
	t.Helper()
	b := array.NewListBuilder(memory.DefaultAllocator, values)
	b.Append(true)
	b.ValueBuilder().AppendEmptyValue()
	c, err := chunk.New("/e", []chunk.TimeColumn{chunk.NewTimeColumn("frame", chunk.Sequence, []int64{frame})},
		[]chunk.Component{{Descriptor: chunk.Descriptor{Component: "v"}, Values: b.NewListArray()}})
	if err != nil {
		t.Fatal(err)
	}
	m, err := rrd.EncodeChunk(rrd.NewStoreID(rrd.Recording, "app", recording), c, true)
	if err != nil {
		t.Fatal(err)
	}
	out := &logmsg.ArrowMsg{}
	if err := proto.Unmarshal(m.Append(nil), out); err != nil {
		t.Fatal(err)
	}
	return &sdkcomms.WriteMessagesRequest{LogMsg: &logmsg.LogMsg{Msg: &logmsg.LogMsg_ArrowMsg{ArrowMsg: out}}}
}

func (r *running) proxy() sdkcommsconnect.MessageProxyServiceClient {
	return sdkcommsconnect.NewMessageProxyServiceClient(r.client, r.base, connect.WithGRPC())
}

// rows counts the chunks of the data set "app".
func (r *running) chunks(t *testing.T) int64 {
	t.Helper()
	d, err := r.catalog.DatasetByName("app")
	if err != nil {
		return -1
	}
	b, err := d.Find(catalog.Query{Static: true, Everything: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return b.NumRows()
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for range 200 {
		if done() {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatalf("%s: not within 4 s", what)
}

func TestProxy(t *testing.T) {
	r := start(t)
	p := r.proxy()
	w, err := p.WriteMessages(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range int64(3) {
		if err := w.Send(liveMessage(t, "run", i, arrow.PrimitiveTypes.Float64)); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "three chunks", func() bool { return r.chunks(t) == 3 })

	// What came before is read first, then what comes.
	read, err := p.ReadMessages(t.Context(), &sdkcomms.ReadMessagesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	if err := w.Send(liveMessage(t, "run", 3, arrow.PrimitiveTypes.Float64)); err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		if !read.Receive() || read.Msg().GetLogMsg().GetArrowMsg() == nil {
			t.Fatalf("message %d: %v %v", i, read.Msg(), read.Err())
		}
	}

	// A chunk of another type does not fit, and is no reason to end the stream.
	for _, m := range []*sdkcomms.WriteMessagesRequest{liveMessage(t, "run", 4, arrow.BinaryTypes.String), liveMessage(t, "run", 5, arrow.PrimitiveTypes.Float64)} {
		if err := w.Send(m); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "five chunks", func() bool { return r.chunks(t) == 5 })

	// A data set that is deleted meanwhile comes back with what follows.
	d, err := r.catalog.DatasetByName("app")
	if err != nil {
		t.Fatal(err)
	}
	if err := r.catalog.Delete(d.Entry().ID); err != nil {
		t.Fatal(err)
	}
	if err := w.Send(liveMessage(t, "run", 6, arrow.BinaryTypes.String)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "one chunk", func() bool { return r.chunks(t) == 1 })
	if _, err := w.CloseAndReceive(); err != nil {
		t.Error(err)
	}
}

func TestProxyRefuses(t *testing.T) {
	r := start(t)
	good := liveMessage(t, "run", 0, arrow.PrimitiveTypes.Float64)
	noID := proto.Clone(good).(*sdkcomms.WriteMessagesRequest)
	noID.LogMsg.GetArrowMsg().StoreId.ApplicationId = nil
	garbage := proto.Clone(good).(*sdkcomms.WriteMessagesRequest)
	garbage.LogMsg.GetArrowMsg().Payload = []byte("garbage")
	for name, m := range map[string]*sdkcomms.WriteMessagesRequest{"empty": {}, "no application": noID, "garbage": garbage} {
		w, err := r.proxy().WriteMessages(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_ = w.Send(m) // the answer tells
		if _, err := w.CloseAndReceive(); connect.CodeOf(err) != connect.CodeInvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestProxyTables(t *testing.T) {
	r := start(t)
	p := r.proxy()
	write := func(id string) {
		_, err := p.WriteTable(t.Context(), &sdkcomms.WriteTableRequest{Id: &common.TableId{Id: id}, Data: &common.DataframePart{Payload: []byte(id)}})
		if err != nil {
			t.Fatal(err)
		}
	}
	write("first")
	read, err := p.ReadTables(t.Context(), &sdkcomms.ReadTablesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	write("second")
	for _, want := range []string{"first", "second"} {
		if !read.Receive() || read.Msg().GetId().GetId() != want {
			t.Errorf("%v %v, want %s", read.Msg(), read.Err(), want)
		}
	}
	if _, err := p.WriteTable(t.Context(), &sdkcomms.WriteTableRequest{}); connect.CodeOf(err) != connect.CodeInvalidArgument {
		t.Errorf("table without id: %v", err)
	}
}

// TestStopWithLiveStream checks that an SDK that stays connected does not keep
// the server from ending.
func TestStopWithLiveStream(t *testing.T) {
	r := start(t)
	w, err := r.proxy().WriteMessages(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Send(liveMessage(t, "run", 0, arrow.PrimitiveTypes.Float64)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a chunk", func() bool { return r.chunks(t) == 1 })
	begun := time.Now()
	r.stop()
	if err := <-r.ended; err != nil {
		t.Error(err)
	}
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
	r.ended <- nil
	_, _ = w.CloseAndReceive() // the stream was cut off
}
