package server

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/reelhouse/reelhouse/catalog"
)

// codec is the binary protobuf codec, which can also send chunks as they stand
// in files.
type codec struct{}

// fetched is a FetchChunksResponse of encoded chunks. It can be marshaled once:
// then their memory is given back, before the client takes the message.
type fetched struct{ batch *catalog.Batch }

func (codec) Name() string { return "proto" }

func (c codec) Marshal(message any) ([]byte, error) { return c.MarshalAppend(nil, message) }

// MarshalAppend lets connect reuse the memory of messages that were sent.
func (codec) MarshalAppend(b []byte, message any) ([]byte, error) {
	switch m := message.(type) {
	case *fetched:
		return m.append(b), nil
	case proto.Message:
		return proto.MarshalOptions{}.MarshalAppend(b, m)
	}
	return b, fmt.Errorf("%T is not a protobuf message", message)
}

func (codec) Unmarshal(b []byte, message any) error {
	m, ok := message.(proto.Message)
	if !ok {
		return fmt.Errorf("%T is not a protobuf message", message)
	}
	return proto.Unmarshal(b, m)
}

const fieldChunks = 1 // of FetchChunksResponse

func (m *fetched) append(b []byte) []byte {
	n := 0
	for _, c := range m.batch.Chunks {
		n += protowire.SizeTag(fieldChunks) + protowire.SizeBytes(len(c))
	}
	b = slices.Grow(b, n)
	for _, c := range m.batch.Chunks {
		b = protowire.AppendTag(b, fieldChunks, protowire.BytesType)
		b = protowire.AppendBytes(b, c)
	}
	m.batch.Release()
	return b
}
