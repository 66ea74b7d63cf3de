package server

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/reelhouse/reelhouse/catalog"
)

// codec is the binary protobuf codec, which can also send chunks as they stand
// in files.
type codec struct{}

// fetched is a FetchChunksResponse of encoded chunks.
type fetched struct{ chunks catalog.Batch }

func (codec) Name() string { return "proto" }

func (codec) Marshal(message any) ([]byte, error) {
	switch m := message.(type) {
	case *fetched:
		return m.marshal(), nil
	case proto.Message:
		return proto.Marshal(m)
	}
	return nil, fmt.Errorf("%T is not a protobuf message", message)
}

func (codec) Unmarshal(b []byte, message any) error {
	m, ok := message.(proto.Message)
	if !ok {
		return fmt.Errorf("%T is not a protobuf message", message)
	}
	return proto.Unmarshal(b, m)
}

const fieldChunks = 1 // of FetchChunksResponse

func (m *fetched) marshal() []byte {
	n := 0
	for _, c := range m.chunks {
		n += protowire.SizeTag(fieldChunks) + protowire.SizeBytes(len(c))
	}
	b := make([]byte, 0, n)
	for _, c := range m.chunks {
		b = protowire.AppendTag(b, fieldChunks, protowire.BytesType)
		b = protowire.AppendBytes(b, c)
	}
	return b
}
