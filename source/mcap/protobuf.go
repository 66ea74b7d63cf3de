package mcap

import (
	"sync"

	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/reelhouse/reelhouse/source/internal/mcapfile"
	"github.com/reelhouse/reelhouse/source/internal/protobuf"
)

// newProtobuf decodes messages by the descriptors in their schema
// (spec/readers.md 1.6). A schema that cannot be read fails the file.
func newProtobuf(s *scan, c *mcapfile.Channel) (channelDecoder, error) {
	if c.Schema == nil || c.Schema.Encoding != "protobuf" {
		return nil, nil
	}
	set, err := protobuf.ParseFileDescriptorSet(c.Schema.Data)
	if err != nil {
		return nil, err
	}
	m, err := set.Message(c.Schema.Name)
	if err != nil {
		return nil, err
	}
	layout, err := protobuf.NewLayout(m)
	if err != nil {
		s.warnOnce("topic %s: %v: kept raw", c.Topic, err)
		return nil, nil
	}
	for _, e := range layout.Encoded {
		switch e.Reason {
		case protobuf.SelfReferential:
			s.warnOnce("protobuf type %s can contain itself: fields of it are kept as encoded bytes", e.Type)
		case protobuf.Dynamic:
			s.warnOnce("protobuf type %s has no fixed structure: fields of it are kept as JSON text", e.Type)
		case protobuf.Unresolved:
			s.warnOnce("protobuf field %s is of a type that the schema lacks: it is kept as encoded bytes", e.Type)
		case protobuf.TooLarge:
			s.warnOnce("protobuf type %s nests too deeply or widely: fields of it are kept as encoded bytes", e.Type)
		}
	}
	return &protobufDecoder{layout: layout}, nil
}

type protobufDecoder struct {
	layout *protobuf.Layout
	free   sync.Pool // of *protobuf.Decoder, which are costly for large types
}

func (d *protobufDecoder) begin(messages, size int) batch {
	b := &protobufBatch{of: d}
	if free, ok := d.free.Get().(*protobuf.Decoder); ok {
		b.rows = free
	} else {
		b.rows = d.layout.NewDecoder()
	}
	b.rows.Reserve(messages, size)
	return b
}

type protobufBatch struct {
	of   *protobufDecoder
	rows *protobuf.Decoder
}

func (b *protobufBatch) add(m *mcapfile.Message) error { return b.rows.Append(m.Data) }

func (b *protobufBatch) undo(rows int) { b.rows.Truncate(rows) }

func (b *protobufBatch) finish(o *output) {
	rows := array.NewStructData(b.rows.Finish())
	b.of.free.Put(b.rows)
	o.message(b.of.layout.Message.Name, rows)
}
