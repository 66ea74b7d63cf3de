package mcapfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// maxChunk bounds the uncompressed size of a chunk.
const maxChunk = 1 << 32

// Reader loads blocks. It owns buffers that it reuses and is not for
// concurrent use; each goroutine has its own.
type Reader struct {
	file  *File
	raw   []byte
	plain []byte
	zstd  *zstd.Decoder
}

// NewReader makes a reader of the file's blocks.
func (f *File) NewReader() *Reader { return &Reader{file: f} }

// Load returns the records of a block; see [Records]. The bytes are good until
// the next call. If a checksum does not match, the records come with an error
// that wraps [ErrCRC]; with other errors they are those before the damage.
func (r *Reader) Load(b *Block) ([]byte, error) {
	if b.Offset < 0 || b.Length < 0 || b.Length > r.file.size-b.Offset {
		return nil, fmt.Errorf("bytes %d+%d are beyond the end of the file at %d", b.Offset, b.Length, r.file.size)
	}
	r.raw = slices.Grow(r.raw[:0], int(b.Length))[:b.Length]
	if err := r.file.readAt(r.raw, b.Offset); err != nil {
		return nil, err
	}
	if !b.Chunk {
		return r.raw, nil
	}
	if Opcode(r.raw[0]) != OpChunk {
		return nil, fmt.Errorf("record 0x%02x instead of a chunk at offset %d", r.raw[0], b.Offset)
	}
	// The index tells the length too, so that in the record need not be right.
	content := r.raw[prefixLen:]
	data, err := r.unpack(content[:min(binary.LittleEndian.Uint64(r.raw[1:]), uint64(len(content)))])
	if err != nil {
		return data, fmt.Errorf("chunk at offset %d: %w", b.Offset, err)
	}
	return data, nil
}

// unpack returns the records of a chunk record's content.
func (r *Reader) unpack(content []byte) ([]byte, error) {
	h, err := parseChunkHead(content)
	if err != nil {
		return nil, err
	}
	packed := content[h.dataAt:]
	if h.dataLen > uint64(len(packed)) {
		return nil, fmt.Errorf("data of %d bytes, %d are left", h.dataLen, len(packed))
	}
	packed = packed[:h.dataLen]
	if h.uncompressedSize > maxChunk {
		return nil, fmt.Errorf("uncompressed size %d is above the limit of %d", h.uncompressedSize, int64(maxChunk))
	}
	var data []byte
	switch h.compression {
	case "":
		data = packed
	case "zstd":
		data, err = r.unzstd(packed, h.uncompressedSize)
	case "lz4":
		data, err = r.unlz4(packed, h.uncompressedSize)
	default:
		return nil, fmt.Errorf("unknown compression %q", h.compression)
	}
	if err != nil {
		return data, fmt.Errorf("decompress %s: %w", h.compression, err)
	}
	if uint64(len(data)) != h.uncompressedSize {
		return data, fmt.Errorf("%d bytes of data instead of %d", len(data), h.uncompressedSize)
	}
	if h.crc != 0 {
		if got := crc32.ChecksumIEEE(data); got != h.crc {
			return data, fmt.Errorf("%w: %08x instead of %08x", ErrCRC, got, h.crc)
		}
	}
	return data, nil
}

// room gives the buffer for unpacked data. A stated size is believed up to a
// ratio that real data may reach; beyond it the buffer grows as data comes.
func (r *Reader) room(size uint64, packed, ratio int) []byte {
	r.plain = slices.Grow(r.plain[:0], int(min(size, uint64(packed)*uint64(ratio)+1<<16)))
	return r.plain[:0]
}

func (r *Reader) unzstd(packed []byte, size uint64) ([]byte, error) {
	if r.zstd == nil {
		var err error
		r.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxChunk), zstd.IgnoreChecksum(true))
		if err != nil {
			return nil, err
		}
	}
	out, err := r.zstd.DecodeAll(packed, r.room(size, len(packed), 100))
	if cap(out) > cap(r.plain) {
		r.plain = out
	}
	return out, err
}

// Constants of the LZ4 frame format.
const (
	lz4Magic     = 0x184D2204
	lz4Skippable = 0x184D2A50 // and the 15 numbers after it
	lz4Window    = 1 << 16
	lz4Ratio     = 255 // most that a byte can become
)

// unlz4 decompresses LZ4 frames block by block right into the buffer.
func (r *Reader) unlz4(packed []byte, size uint64) ([]byte, error) {
	if size > uint64(len(packed))*lz4Ratio+lz4Window {
		return nil, fmt.Errorf("%d bytes cannot become %d", len(packed), size)
	}
	out := r.room(size, len(packed), lz4Ratio)
	c := cursor{b: packed}
	for len(c.b) > 0 {
		magic := c.u32()
		if c.err == nil && magic&^15 == lz4Skippable {
			c.take(uint64(c.u32()))
			continue
		}
		if c.err != nil || magic != lz4Magic {
			return out, errors.New("not an LZ4 frame")
		}
		var err error
		if out, err = lz4Frame(&c, out, int(size)); err != nil {
			return out, err
		}
	}
	return out, c.err
}

// lz4Frame appends what a frame holds, without checking the frame's own
// checksums: the chunk has one over all.
func lz4Frame(c *cursor, out []byte, limit int) ([]byte, error) {
	desc := c.take(2)
	if desc == nil {
		return out, c.err
	}
	flags := desc[0]
	if flags>>6 != 1 {
		return out, fmt.Errorf("LZ4 frame version %d", flags>>6)
	}
	linked, blockSums, hasSize, contentSum, dict := flags&0x20 == 0, flags&0x10 != 0, flags&8 != 0, flags&4 != 0, flags&1 != 0
	if dict {
		return out, errors.New("LZ4 frame needs a dictionary")
	}
	code := desc[1] >> 4 & 7
	if code < 4 {
		return out, fmt.Errorf("LZ4 block size code %d", code)
	}
	blockMax := 1 << (8 + 2*int(code))
	if hasSize {
		c.u64()
	}
	c.take(1) // checksum of the descriptor
	frameStart := len(out)
	for {
		n := c.u32()
		if c.err != nil {
			return out, c.err
		}
		if n == 0 {
			break
		}
		stored := n&(1<<31) != 0
		block := c.take(uint64(n &^ (1 << 31)))
		if blockSums {
			c.u32()
		}
		if c.err != nil {
			return out, c.err
		}
		if stored {
			if len(block) > limit-len(out) {
				return out, fmt.Errorf("more than %d bytes", limit)
			}
			out = append(out, block...)
			continue
		}
		at := len(out)
		dst := out[at:min(at+blockMax, limit)]
		if len(dst) == 0 {
			// The decoder writes to where dst points, even if it is empty.
			if len(block) == 1 && block[0] == 0 {
				continue
			}
			return out, fmt.Errorf("more than %d bytes", limit)
		}
		var window []byte
		if linked {
			window = out[max(frameStart, at-lz4Window):at]
		}
		m, err := lz4.UncompressBlockWithDict(block, dst, window)
		if err != nil {
			return out, err
		}
		out = out[:at+m]
	}
	if contentSum {
		c.u32()
	}
	return out, c.err
}
