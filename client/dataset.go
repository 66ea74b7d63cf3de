package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/pierrec/lz4/v4"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/reelhouse/reelhouse/chunk"
	"github.com/reelhouse/reelhouse/internal/arrowipc"
	"github.com/reelhouse/reelhouse/rpc/cloud"
	"github.com/reelhouse/reelhouse/rpc/common"
)

// Dataset is a data set on a server.
type Dataset struct {
	client *Client
	entry  Entry
}

// Entry describes the data set.
func (d *Dataset) Entry() Entry { return d.entry }

func (d *Dataset) failed(what string, err error) error {
	return d.client.failed(fmt.Sprintf("data set %q: %s", d.entry.Name, what), err)
}

func idMessage(id chunk.TUID) *common.EntryId {
	hi, lo := id.TimeNS(), id.Inc()
	return &common.EntryId{Id: &common.Tuid{TimeNs: &hi, Inc: &lo}}
}

// Source is a recording, or a folder of them, that the server can reach.
type Source struct {
	URL    string
	Layer  string // the server's default if empty
	Folder bool
}

// OnDuplicate says what to do about a layer that a segment already has.
type OnDuplicate int32

// The policies for duplicates.
const (
	FailDuplicates      = OnDuplicate(common.IfDuplicateBehavior_IF_DUPLICATE_BEHAVIOR_ERROR)
	SkipDuplicates      = OnDuplicate(common.IfDuplicateBehavior_IF_DUPLICATE_BEHAVIOR_SKIP)
	OverwriteDuplicates = OnDuplicate(common.IfDuplicateBehavior_IF_DUPLICATE_BEHAVIOR_OVERWRITE)
)

// Registered is what became of a layer of a segment.
type Registered struct {
	Segment string `json:"segment"`
	Layer   string `json:"layer"`
	URL     string `json:"url"`
	Problem string `json:"problem,omitempty"` // why it was not registered; empty if it was

	task string
}

// Register adds recordings and waits for the end. The error is about the
// request as a whole; what kept a single layer out is its Problem.
func (d *Dataset) Register(ctx context.Context, sources []Source, dup OnDuplicate) ([]Registered, error) {
	req := &cloud.RegisterWithDatasetRequest{OnDuplicate: common.IfDuplicateBehavior(dup)}
	for _, s := range sources {
		src := &cloud.DataSource{StorageUrl: &s.URL, Typ: cloud.DataSourceKind_DATA_SOURCE_KIND_RRD, Prefix: s.Folder}
		if s.Layer != "" {
			src.Layer = &s.Layer
		}
		req.DataSources = append(req.DataSources, src)
	}
	res, err := d.client.cloud.RegisterWithDataset(about(ctx, d.entry.ID), req)
	if err != nil {
		return nil, d.failed("register", err)
	}
	batch, err := decodeFrame(res.GetData())
	if err != nil {
		return nil, d.failed("register", err)
	}
	all := make([]Registered, batch.NumRows())
	for name, set := range map[string]func(*Registered, string){
		"rerun_segment_id":    func(r *Registered, v string) { r.Segment = v },
		"rerun_segment_layer": func(r *Registered, v string) { r.Layer = v },
		"rerun_storage_url":   func(r *Registered, v string) { r.URL = v },
		"rerun_task_id":       func(r *Registered, v string) { r.task = v },
	} {
		col, err := textColumn(batch, name)
		if err != nil {
			return nil, d.failed("register", err)
		}
		for i := range all {
			set(&all[i], col.Value(i))
		}
	}
	return all, d.failed("wait for registration", d.await(ctx, all))
}

const (
	// taskPoll is how long a server may take to answer before it is asked again.
	taskPoll  = 30 * time.Second
	taskPause = 200 * time.Millisecond // at least, between two such calls
)

// await waits for the tasks of a registration and notes what failed.
func (d *Dataset) await(ctx context.Context, all []Registered) error {
	open := map[string]bool{}
	for _, r := range all {
		open[r.task] = true
	}
	for len(open) > 0 {
		asked := time.Now()
		req := &cloud.QueryTasksOnCompletionRequest{Timeout: durationpb.New(taskPoll)}
		for id := range open {
			req.Ids = append(req.Ids, &common.TaskId{Id: id})
		}
		stream, err := d.client.cloud.QueryTasksOnCompletion(ctx, req)
		if err != nil {
			return err
		}
		for stream.Receive() {
			if err := noteTasks(stream.Msg().GetData(), open, all); err != nil {
				return errors.Join(err, stream.Close())
			}
		}
		if err := errors.Join(stream.Err(), stream.Close()); err != nil {
			return err
		}
		if len(open) == 0 {
			break
		}
		// A server may answer before the tasks are done and the time is up.
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(taskPause - time.Since(asked)):
		}
	}
	return nil
}

func noteTasks(p *common.DataframePart, open map[string]bool, all []Registered) error {
	batch, err := decodeFrame(p)
	if err != nil {
		return err
	}
	ids, err := textColumn(batch, "task_id")
	if err != nil {
		return err
	}
	states, err := textColumn(batch, "exec_status")
	if err != nil {
		return err
	}
	messages, err := textColumn(batch, "msgs")
	if err != nil {
		return err
	}
	for i := range ids.Len() {
		state := states.Value(i)
		if state == "pending" {
			continue
		}
		delete(open, ids.Value(i))
		if state == "success" {
			continue
		}
		problem := state
		if messages.IsValid(i) {
			problem = messages.Value(i)
		}
		for j := range all {
			if all[j].task == ids.Value(i) {
				all[j].Problem = problem
			}
		}
	}
	return nil
}

// Unregister removes layers of segments: those named, an empty list meaning all.
func (d *Dataset) Unregister(ctx context.Context, segments, layers []string) error {
	req := &cloud.UnregisterFromDatasetRequest{SegmentsToDrop: segmentMessages(segments), LayersToDrop: layers}
	stream, err := d.client.cloud.UnregisterFromDataset(about(ctx, d.entry.ID), req)
	if err != nil {
		return d.failed("unregister", err)
	}
	for stream.Receive() {
	}
	return d.failed("unregister", errors.Join(stream.Err(), stream.Close()))
}

func segmentMessages(ids []string) []*common.SegmentId {
	out := make([]*common.SegmentId, len(ids))
	for i, id := range ids {
		out[i] = &common.SegmentId{Id: &id}
	}
	return out
}

// Schema is the schema of the data set: row id, timelines and data columns.
func (d *Dataset) Schema(ctx context.Context) (*arrow.Schema, error) {
	res, err := d.client.cloud.GetDatasetSchema(about(ctx, d.entry.ID), &cloud.GetDatasetSchemaRequest{})
	if err != nil {
		return nil, d.failed("schema", err)
	}
	s, err := arrowipc.Schema(res.GetSchema().GetArrowSchema())
	return s, d.failed("schema", err)
}

// Segments is the table of segments: batches with the columns named, in that
// order, or all.
func (d *Dataset) Segments(ctx context.Context, columns ...string) ([]arrow.RecordBatch, error) {
	stream, err := d.client.cloud.ScanSegmentTable(about(ctx, d.entry.ID), &cloud.ScanSegmentTableRequest{Columns: columns})
	if err != nil {
		return nil, d.failed("segments", err)
	}
	var all []arrow.RecordBatch
	for stream.Receive() {
		b, err := decodeFrame(stream.Msg().GetData())
		if err != nil {
			return nil, d.failed("segments", errors.Join(err, stream.Close()))
		}
		all = append(all, b)
	}
	return all, d.failed("segments", errors.Join(stream.Err(), stream.Close()))
}

// SegmentIDs are the ids of all segments in the server's order.
func (d *Dataset) SegmentIDs(ctx context.Context) ([]string, error) {
	batches, err := d.Segments(ctx, "rerun_segment_id")
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, b := range batches {
		col, err := textColumn(b, "rerun_segment_id")
		if err != nil {
			return nil, d.failed("segments", err)
		}
		for i := range col.Len() {
			ids = append(ids, col.Value(i))
		}
	}
	return ids, nil
}

func textColumn(b arrow.RecordBatch, name string) (*array.String, error) {
	i := b.Schema().FieldIndices(name)
	if len(i) == 0 {
		return nil, fmt.Errorf("the reply has no column %q", name)
	}
	col, ok := b.Column(i[0]).(*array.String)
	if !ok {
		return nil, fmt.Errorf("column %q of the reply is of type %v", name, b.Column(i[0]).DataType())
	}
	return col, nil
}

// decodeFrame reads the record batch of a message.
func decodeFrame(p *common.DataframePart) (arrow.RecordBatch, error) {
	stream := p.GetPayload()
	if p.GetCompression() == common.Compression_COMPRESSION_LZ4 {
		n := p.GetUncompressedSize()
		if n == 0 || n > 255*uint64(len(stream)) {
			return nil, fmt.Errorf("data frame of %d compressed bytes cannot have %d bytes", len(stream), n)
		}
		plain := make([]byte, n)
		got, err := lz4.UncompressBlock(stream, plain)
		if err != nil {
			return nil, fmt.Errorf("data frame: %w", err)
		}
		stream = plain[:got]
	}
	b, err := arrowipc.Batch(stream)
	if err != nil {
		return nil, fmt.Errorf("data frame: %w", err)
	}
	return b, nil
}

func encodeFrame(b arrow.RecordBatch) (*common.DataframePart, error) {
	stream, err := arrowipc.AppendBatch(nil, b)
	return &common.DataframePart{EncoderVersion: common.EncoderVersion_ENCODER_VERSION_V0, Payload: stream,
		Compression: common.Compression_COMPRESSION_NONE, UncompressedSize: uint64(len(stream))}, err
}
