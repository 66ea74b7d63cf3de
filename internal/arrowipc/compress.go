package arrowipc

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// codec is the compression of a message body.
type codec int8

const (
	codecLZ4  codec = 0
	codecZSTD codec = 1
	codecNone codec = -1
)

// decompressBudget bounds what the buffers of one stream may decompress to in
// all. The size a buffer declares is not to be trusted. LZ4 expands 255 times at
// most; ZSTD may do so without bound on constant data, which gets an allowance.
func decompressBudget(stream int) int64 {
	return min(255*int64(stream)+256<<20, 16<<30)
}

// codecs are reusable decompressors, made on first use.
type codecs struct {
	lz4  *lz4.Reader
	zstd *zstd.Decoder
}

// decompress unpacks one buffer of the body: its size, then a frame. Size -1
// marks bytes that are stored as they are.
func (l *loader) decompress(b []byte) (out []byte, err error) {
	if len(b) < 8 {
		return nil, errors.New("compressed buffer without its size")
	}
	size := int64(binary.LittleEndian.Uint64(b))
	b = b[8:]
	switch {
	case size == -1:
		return b, nil
	case size == 0:
		return nil, nil
	case size < 0 || size > decompressBudget(len(l.r.stream))-l.r.expanded || l.codec == codecLZ4 && size > 255*int64(len(b)):
		return nil, fmt.Errorf("compressed buffer of %d bytes declares %d", len(b), size)
	}
	l.r.expanded += size
	// The decoders are foreign code fed with foreign bytes.
	defer func() {
		if p := recover(); p != nil {
			l.r.codecs = nil
			out, err = nil, fmt.Errorf("decompressing: %v", p)
		}
	}()
	c := l.r.borrow()
	if l.codec == codecLZ4 {
		if c.lz4 == nil {
			c.lz4 = lz4.NewReader(nil)
		}
		out = make([]byte, size)
		c.lz4.Reset(bytes.NewReader(b))
		if _, err := io.ReadFull(c.lz4, out); err != nil {
			return nil, fmt.Errorf("decompressing LZ4: %w", err)
		}
		// The end of the frame holds its checksum.
		var more [1]byte
		if n, err := c.lz4.Read(more[:]); n != 0 || err == nil {
			return nil, fmt.Errorf("decompressing LZ4: data behind the declared %d bytes", size)
		} else if err != io.EOF {
			return nil, fmt.Errorf("decompressing LZ4: behind the declared %d bytes: %w", size, err)
		}
		return out, nil
	}
	if c.zstd == nil {
		c.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecodeAllCapLimit(true))
		if err != nil {
			return nil, err
		}
	}
	out, err = c.zstd.DecodeAll(b, make([]byte, 0, size))
	if err != nil {
		return nil, fmt.Errorf("decompressing ZSTD: %w", err)
	}
	if int64(len(out)) != size {
		return nil, fmt.Errorf("decompressing ZSTD: %d bytes where %d are declared", len(out), size)
	}
	return out[:size:size], nil
}

// borrow takes decompressors from the decoder's pool for the life of the reader.
func (r *reader) borrow() *codecs {
	if r.codecs == nil && r.dec != nil {
		r.codecs, _ = r.dec.codec.Get().(*codecs)
	}
	if r.codecs == nil {
		r.codecs = new(codecs)
	}
	return r.codecs
}

func (r *reader) close() {
	if r.codecs != nil && r.dec != nil {
		r.dec.codec.Put(r.codecs)
	}
	r.codecs = nil
}
