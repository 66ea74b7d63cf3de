package client

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"google.golang.org/protobuf/proto"

	"github.com/reelhouse/reelhouse/chunk"
	"github.com/reelhouse/reelhouse/rpc/cloud"
	"github.com/reelhouse/reelhouse/rpc/common"
	"github.com/reelhouse/reelhouse/rpc/logmsg"
	"github.com/reelhouse/reelhouse/rrd"
)

// Segment is the index of a segment, from which its chunks can be fetched.
type Segment struct {
	// Manifest has a row a chunk. Offsets and sizes are the server's own.
	Manifest *rrd.Manifest

	data *Dataset
	id   string
	keys arrow.Array // binary or the like, a row a chunk
	dec  rrd.Decoder
}

// Segment gets the index of a segment.
func (d *Dataset) Segment(ctx context.Context, id string) (*Segment, error) {
	what := fmt.Sprintf("segment %q", id)
	stream, err := d.client.cloud.GetRrdManifest(about(ctx, d.entry.ID), &cloud.GetRrdManifestRequest{SegmentId: &common.SegmentId{Id: &id}})
	if err != nil {
		return nil, d.failed(what, err)
	}
	var m *logmsg.RrdManifest
	for stream.Receive() {
		if part := stream.Msg().GetRrdManifest(); part != nil && m == nil {
			m = part
		} else {
			return nil, d.failed(what, errors.Join(errors.New("the server sent an index in several parts, which is not supported"), stream.Close()))
		}
	}
	if err := errors.Join(stream.Err(), stream.Close()); err != nil {
		return nil, d.failed(what, err)
	}
	s, err := newSegment(d, id, m)
	return s, d.failed(what, err)
}

func newSegment(d *Dataset, id string, m *logmsg.RrdManifest) (*Segment, error) {
	if m == nil {
		return nil, errors.New("the server sent no index")
	}
	b, err := proto.Marshal(m)
	if err != nil {
		return nil, err
	}
	raw, err := rrd.ParseManifest(b)
	if err != nil {
		return nil, err
	}
	manifest, err := raw.Decode()
	if err != nil {
		return nil, err
	}
	i := manifest.Batch().Schema().FieldIndices("chunk_key")
	if len(i) == 0 {
		return nil, errors.New("the index has no keys of chunks")
	}
	keys := manifest.Batch().Column(i[0])
	if _, ok := keys.(binaryArray); !ok {
		return nil, fmt.Errorf("keys of chunks are of type %v", keys.DataType())
	}
	return &Segment{Manifest: manifest, data: d, id: id, keys: keys}, nil
}

type binaryArray interface {
	arrow.Array
	Value(int) []byte
}

// ID is the id of the segment.
func (s *Segment) ID() string { return s.id }

// Fetch gets the chunks of the given rows of the manifest. They may come in any
// order.
func (s *Segment) Fetch(ctx context.Context, rows []int) iter.Seq2[*chunk.Chunk, error] {
	return func(yield func(*chunk.Chunk, error) bool) {
		fail := func(err error) { yield(nil, s.data.failed(fmt.Sprintf("segment %q: fetch chunks", s.id), err)) }
		if len(rows) == 0 {
			return
		}
		keys := array.NewBinaryBuilder(memory.DefaultAllocator, arrow.BinaryTypes.Binary)
		for _, r := range rows {
			keys.Append(s.keys.(binaryArray).Value(r))
		}
		schema := arrow.NewSchema([]arrow.Field{{Name: "chunk_key", Type: arrow.BinaryTypes.Binary}}, nil)
		part, err := encodeFrame(array.NewRecordBatch(schema, []arrow.Array{keys.NewArray()}, int64(len(rows))))
		if err != nil {
			fail(err)
			return
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stream, err := s.data.client.cloud.FetchChunks(ctx, &cloud.FetchChunksRequest{ChunkInfos: []*common.DataframePart{part}})
		if err != nil {
			fail(err)
			return
		}
		// An early end cancels the call; what Close says then is of no use.
		defer func() { _ = stream.Close() }()
		for stream.Receive() {
			for _, m := range stream.Msg().GetChunks() {
				c, err := s.decode(m)
				if err != nil {
					fail(err)
					return
				}
				if !yield(c, nil) {
					return
				}
			}
		}
		if err := stream.Err(); err != nil {
			fail(err)
		}
	}
}

func (s *Segment) decode(m *logmsg.ArrowMsg) (*chunk.Chunk, error) {
	kind := rrd.Recording
	if m.GetStoreId().GetKind() == common.StoreKind_STORE_KIND_BLUEPRINT {
		kind = rrd.Blueprint
	}
	return s.dec.Chunk(&rrd.ArrowMsg{
		Store:       rrd.NewStoreID(kind, m.GetStoreId().GetApplicationId().GetId(), m.GetStoreId().GetRecordingId()),
		Compression: rrd.Compression(m.GetCompression()), UncompressedSize: m.GetUncompressedSize(), Payload: m.GetPayload()}, nil)
}

// Load gets the chunks of the given rows of the manifest in that order.
func (s *Segment) Load(ctx context.Context, rows []int) ([]*chunk.Chunk, error) {
	byID := make(map[chunk.TUID]*chunk.Chunk, len(rows))
	for c, err := range s.Fetch(ctx, rows) {
		if err != nil {
			return nil, err
		}
		byID[c.ID()] = c
	}
	out := make([]*chunk.Chunk, len(rows))
	for i, r := range rows {
		if out[i] = byID[s.Manifest.ID(r)]; out[i] == nil {
			return nil, fmt.Errorf("segment %q: the server did not send chunk %v", s.id, s.Manifest.ID(r))
		}
	}
	return out, nil
}
