package server

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/pierrec/lz4/v4"

	"github.com/reelhouse/reelhouse/internal/arrowipc"
	"github.com/reelhouse/reelhouse/internal/lz4block"
	"github.com/reelhouse/reelhouse/rpc/common"
)

// encodeFrame makes the message of a record batch, compressed if that shrinks it.
func encodeFrame(b arrow.RecordBatch) (*common.DataframePart, error) {
	stream, err := arrowipc.AppendBatch(nil, b)
	if err != nil {
		return nil, err
	}
	p := &common.DataframePart{EncoderVersion: common.EncoderVersion_ENCODER_VERSION_V0, Payload: stream,
		Compression: common.Compression_COMPRESSION_NONE, UncompressedSize: uint64(len(stream))}
	block := make([]byte, len(stream))
	if n := lz4block.Compress(stream, block); n > 0 && n < len(stream) {
		p.Payload, p.Compression = block[:n:n], common.Compression_COMPRESSION_LZ4
	}
	return p, nil
}

// decodeFrame reads the record batches of a message.
func decodeFrame(p *common.DataframePart) ([]arrow.RecordBatch, error) {
	if v := p.GetEncoderVersion(); v != common.EncoderVersion_ENCODER_VERSION_V0 {
		return nil, invalid("unknown encoder version %d", v)
	}
	stream := p.GetPayload()
	switch c := p.GetCompression(); c {
	case common.Compression_COMPRESSION_UNSPECIFIED, common.Compression_COMPRESSION_NONE:
	case common.Compression_COMPRESSION_LZ4:
		n := p.GetUncompressedSize()
		if n == 0 || n > 255*uint64(len(stream)) || n > maxMessage {
			return nil, invalid("data frame of %d compressed bytes cannot have %d bytes", len(stream), n)
		}
		plain := make([]byte, n)
		got, err := lz4.UncompressBlock(stream, plain)
		if err != nil {
			return nil, invalid("data frame: %w", err)
		}
		stream = plain[:got]
	default:
		return nil, invalid("unknown compression %d", c)
	}
	_, batches, err := arrowipc.Batches(stream)
	if err != nil {
		return nil, invalid("data frame: %w", err)
	}
	return batches, nil
}

func encodeSchema(s *arrow.Schema) *common.Schema {
	return &common.Schema{ArrowSchema: arrowipc.AppendSchema(nil, s)}
}

// sendFrame sends a record batch in a message that make puts it in.
func sendFrame[M any](b arrow.RecordBatch, err error, send func(*M) error, wrap func(*common.DataframePart) *M) error {
	if err != nil {
		return err
	}
	p, err := encodeFrame(b)
	if err != nil {
		return fmt.Errorf("encode reply: %w", err)
	}
	return send(wrap(p))
}
