package rrd

import (
	"fmt"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/pierrec/lz4/v4"

	"github.com/reelhouse/reelhouse/chunk"
	"github.com/reelhouse/reelhouse/internal/arrowipc"
)

// decompress returns the bytes of a stored payload: payload itself if it is
// not compressed, else dst or a larger slice. What the block leaves of the
// declared size is zero (spec/rrd.md 1.4).
func decompress(dst, payload []byte, c Compression, size uint64) ([]byte, error) {
	switch c {
	case CompressionUnspecified, CompressionNone:
		return payload, nil
	case CompressionLZ4:
	default:
		return nil, fmt.Errorf("%w: %d", ErrCompression, c)
	}
	if size == 0 { // the library takes no empty destination
		if len(payload) > 1 || len(payload) == 1 && payload[0] != 0 {
			return nil, fmt.Errorf("%w: it holds more than the declared 0 bytes", ErrLZ4)
		}
		return nil, nil
	}
	if size > MaxPayload || size > 255*uint64(len(payload)) {
		return nil, fmt.Errorf("%w: %w: %d bytes from %d compressed ones", ErrLZ4, ErrTooLarge, size, len(payload))
	}
	if uint64(cap(dst)) < size {
		dst = make([]byte, size)
	}
	dst = dst[:size]
	n, err := lz4.UncompressBlock(payload, dst)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrLZ4, err)
	}
	clear(dst[n:])
	return dst, nil
}

// Buffer is memory that a [Decoder] may decompress into. It must outlive
// whatever was decoded with it, and is overwritten by the next use.
type Buffer struct{ b []byte }

// Release gives the memory back for others to use.
func (b *Buffer) Release() {
	payloads.put(b.b)
	b.b = nil
}

func (b *Buffer) grow(n int) {
	if n > cap(b.b) {
		payloads.put(b.b)
		b.b = payloads.get(n)
	}
}

// IPC is the Arrow IPC stream of the message: its payload if that is not
// compressed, else memory of buf, or fresh memory if buf is nil.
func (m *ArrowMsg) IPC(buf *Buffer) ([]byte, error) {
	if buf == nil || m.Compression != CompressionLZ4 {
		return decompress(nil, m.Payload, m.Compression, m.UncompressedSize)
	}
	if m.UncompressedSize <= 255*uint64(len(m.Payload)) && m.UncompressedSize <= MaxPayload {
		buf.grow(int(m.UncompressedSize))
	}
	return decompress(buf.b, m.Payload, m.Compression, m.UncompressedSize)
}

// Decoder decodes chunks of messages. It remembers schemas; the zero value is
// ready, and may be used by several goroutines.
type Decoder struct{ arrow arrowipc.Decoder }

// Chunk decodes the message, migrated to the current form of chunks. The chunk
// points into buf, or into fresh memory if buf is nil; if the payload is not
// compressed it may point into that.
func (d *Decoder) Chunk(m *ArrowMsg, buf *Buffer) (*chunk.Chunk, error) {
	batch, err := d.Batch(m, buf)
	if err != nil {
		return nil, err
	}
	if batch, err = Migrate(batch); err != nil {
		return nil, err
	}
	return chunk.FromRecordBatch(dropSegment(batch))
}

// dropSegment takes the stamp of a catalog off a chunk that was recorded with it.
func dropSegment(b arrow.RecordBatch) arrow.RecordBatch {
	md := b.Schema().Metadata()
	if md.FindKey(chunk.KeySegmentID) < 0 && md.FindKey(keyPartitionID) < 0 {
		return b
	}
	m := metaOf(md)
	m.drop(chunk.KeySegmentID)
	m.drop(keyPartitionID)
	md = arrow.NewMetadata(m.keys, m.vals)
	return array.NewRecordBatch(arrow.NewSchema(b.Schema().Fields(), &md), b.Columns(), b.NumRows())
}

const keyPartitionID = "rerun:partition_id" // the old name of a segment id

// Batch decodes the message as it was written, without migration.
func (d *Decoder) Batch(m *ArrowMsg, buf *Buffer) (arrow.RecordBatch, error) {
	stream, err := m.IPC(buf)
	if err != nil {
		return nil, err
	}
	batch, err := d.arrow.Batch(aligned(stream, buf))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrArrow, err)
	}
	return batch, nil
}

// aligned returns the stream, or a copy if it does not start where its arrays
// could be used in place: one copy is cheaper than one of each array.
func aligned(stream []byte, buf *Buffer) []byte {
	if uintptr(unsafe.Pointer(unsafe.SliceData(stream)))%16 == 0 {
		return stream
	}
	if buf == nil {
		return append(make([]byte, 0, len(stream)), stream...)
	}
	buf.grow(len(stream))
	return append(buf.b[:0], stream...)
}

// Schema decodes the message's schema as it was written.
func (d *Decoder) Schema(m *ArrowMsg, buf *Buffer) (*arrow.Schema, error) {
	stream, err := m.IPC(buf)
	if err != nil {
		return nil, err
	}
	schema, err := d.arrow.Schema(stream)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrArrow, err)
	}
	return schema, nil
}
