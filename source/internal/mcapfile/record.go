package mcapfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Opcode is the kind of a record.
type Opcode byte

// Opcodes of the MCAP format, version 0.
const (
	OpHeader          Opcode = 0x01
	OpFooter          Opcode = 0x02
	OpSchema          Opcode = 0x03
	OpChannel         Opcode = 0x04
	OpMessage         Opcode = 0x05
	OpChunk           Opcode = 0x06
	OpMessageIndex    Opcode = 0x07
	OpChunkIndex      Opcode = 0x08
	OpAttachment      Opcode = 0x09
	OpAttachmentIndex Opcode = 0x0A
	OpStatistics      Opcode = 0x0B
	OpMetadata        Opcode = 0x0C
	OpMetadataIndex   Opcode = 0x0D
	OpSummaryOffset   Opcode = 0x0E
	OpDataEnd         Opcode = 0x0F
)

// prefixLen is the length of a record's opcode and length.
const prefixLen = 9

// messageHeadLen is the length of a message before its data.
const messageHeadLen = 2 + 4 + 8 + 8

var errShort = errors.New("record ends early")

// Header is the first record of a file.
type Header struct {
	Profile, Library string
}

// Schema describes the messages of channels.
type Schema struct {
	ID             uint16
	Name, Encoding string
	Data           []byte
}

// Pair is an entry of a string map.
type Pair struct{ Key, Value string }

// Channel is a stream of messages of one topic.
type Channel struct {
	ID              uint16
	Topic           string
	MessageEncoding string
	Metadata        []Pair  // by key
	SchemaID        uint16  // 0 for none
	Schema          *Schema // nil for none, or if the file lacks it
}

// Message is one message; Data points into the buffer it was parsed from.
type Message struct {
	ChannelID            uint16
	Sequence             uint32
	LogTime, PublishTime uint64 // nanoseconds
	Data                 []byte
}

// Statistics are counts over a file.
type Statistics struct {
	MessageCount         uint64
	SchemaCount          uint16
	ChannelCount         uint32
	AttachmentCount      uint32
	MetadataCount        uint32
	ChunkCount           uint32
	StartTime, EndTime   uint64 // log times, zero without messages
	ChannelMessageCounts map[uint16]uint64
}

// Metadata is a named map of strings.
type Metadata struct {
	Name  string
	Pairs []Pair // by key
}

// Attachment is a file inside the file.
type Attachment struct {
	Offset              int64 // of the record
	LogTime, CreateTime uint64
	Name, MediaType     string
	Data                []byte
}

// cursor reads the fields of a record. Once a read fails all later ones give
// zero values, so callers check err once.
type cursor struct {
	b   []byte
	err error
}

func (c *cursor) take(n uint64) []byte {
	if c.err != nil || n > uint64(len(c.b)) {
		c.err = errShort
		return nil
	}
	out := c.b[:n:n]
	c.b = c.b[n:]
	return out
}

func (c *cursor) u16() uint16 {
	if b := c.take(2); b != nil {
		return binary.LittleEndian.Uint16(b)
	}
	return 0
}

func (c *cursor) u32() uint32 {
	if b := c.take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (c *cursor) u64() uint64 {
	if b := c.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (c *cursor) str() string { return string(c.take(uint64(c.u32()))) }

// pairs reads a map of strings. Of equal keys the last counts.
func (c *cursor) pairs() []Pair {
	in := cursor{b: c.take(uint64(c.u32()))}
	m := map[string]string{}
	for len(in.b) > 0 && in.err == nil {
		k, v := in.str(), in.str()
		if in.err == nil {
			m[k] = v
		}
	}
	if in.err != nil {
		c.err = in.err
	}
	out := make([]Pair, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, Pair{k, m[k]})
	}
	return out
}

func parseHeader(b []byte) (Header, error) {
	c := cursor{b: b}
	h := Header{c.str(), c.str()}
	return h, c.err
}

func parseSchema(b []byte) (*Schema, error) {
	c := cursor{b: b}
	s := &Schema{ID: c.u16(), Name: c.str(), Encoding: c.str()}
	s.Data = slices.Clone(c.take(uint64(c.u32())))
	if c.err == nil && s.ID == 0 {
		c.err = errors.New("schema id 0")
	}
	return s, c.err
}

func parseChannel(b []byte) (*Channel, error) {
	c := cursor{b: b}
	ch := &Channel{ID: c.u16(), SchemaID: c.u16(), Topic: c.str(), MessageEncoding: c.str(), Metadata: c.pairs()}
	return ch, c.err
}

func parseMessage(b []byte) (Message, error) {
	if len(b) < messageHeadLen {
		return Message{}, errShort
	}
	return Message{
		ChannelID:   binary.LittleEndian.Uint16(b),
		Sequence:    binary.LittleEndian.Uint32(b[2:]),
		LogTime:     binary.LittleEndian.Uint64(b[6:]),
		PublishTime: binary.LittleEndian.Uint64(b[14:]),
		Data:        b[messageHeadLen:],
	}, nil
}

func parseStatistics(b []byte) (*Statistics, error) {
	c := cursor{b: b}
	s := &Statistics{MessageCount: c.u64(), SchemaCount: c.u16(), ChannelCount: c.u32(), AttachmentCount: c.u32(),
		MetadataCount: c.u32(), ChunkCount: c.u32(), StartTime: c.u64(), EndTime: c.u64()}
	in := cursor{b: c.take(uint64(c.u32()))}
	s.ChannelMessageCounts = make(map[uint16]uint64, len(in.b)/10)
	for len(in.b) > 0 && in.err == nil {
		id, n := in.u16(), in.u64()
		s.ChannelMessageCounts[id] = n
	}
	return s, errors.Join(c.err, in.err)
}

// chunkHead is what stands in a chunk record before its data.
type chunkHead struct {
	start, end       uint64
	uncompressedSize uint64
	crc              uint32
	compression      string
	dataAt           int    // where the data begins in the record
	dataLen          uint64 // its length as stated
}

func parseChunkHead(b []byte) (chunkHead, error) {
	c := cursor{b: b}
	h := chunkHead{start: c.u64(), end: c.u64(), uncompressedSize: c.u64(), crc: c.u32(), compression: c.str(), dataLen: c.u64()}
	h.dataAt = len(b) - len(c.b)
	return h, c.err
}

func parseChunkIndex(b []byte) (Block, error) {
	c := cursor{b: b}
	blk := Block{Chunk: true, HasTimes: true, StartTime: c.u64(), EndTime: c.u64()}
	offset, length := c.u64(), c.u64()
	in := cursor{b: c.take(uint64(c.u32()))}
	blk.Channels = make([]uint16, 0, len(in.b)/10)
	for len(in.b) > 0 && in.err == nil {
		id := in.u16()
		in.u64()
		blk.Channels = append(blk.Channels, id)
	}
	blk.indexLength = c.u64()
	blk.Compression = c.str()
	blk.CompressedSize, blk.UncompressedSize = c.u64(), c.u64()
	if err := errors.Join(c.err, in.err); err != nil {
		return blk, err
	}
	if offset > maxOffset || length > maxOffset || length < prefixLen {
		return blk, fmt.Errorf("chunk index points to offset %d, length %d", offset, length)
	}
	blk.Offset, blk.Length = int64(offset), int64(length)
	return blk, nil
}

// index is an attachment or metadata index record.
type index struct {
	offset, length int64
}

func parseIndex(b []byte) (index, error) {
	c := cursor{b: b}
	offset, length := c.u64(), c.u64()
	if c.err == nil && (offset > maxOffset || length > maxOffset || length < prefixLen) {
		c.err = fmt.Errorf("index points to offset %d, length %d", offset, length)
	}
	return index{int64(offset), int64(length)}, c.err
}

func parseMetadata(b []byte) (Metadata, error) {
	c := cursor{b: b}
	m := Metadata{Name: c.str(), Pairs: c.pairs()}
	return m, c.err
}

// Records calls f for each record in data, a sequence of records such as the
// content of a chunk, until f returns false. An incomplete record at the end
// gives an error that says where it is.
func Records(data []byte, f func(op Opcode, content []byte) bool) error {
	at := 0
	for at < len(data) {
		if len(data)-at < prefixLen {
			return fmt.Errorf("%d stray bytes at offset %d of the chunk data", len(data)-at, at)
		}
		n := binary.LittleEndian.Uint64(data[at+1:])
		if n > uint64(len(data)-at-prefixLen) {
			return fmt.Errorf("record at offset %d of the chunk data claims %d bytes, %d are left", at, n, len(data)-at-prefixLen)
		}
		from := at + prefixLen
		at = from + int(n)
		if !f(Opcode(data[from-prefixLen]), data[from:at:at]) {
			return nil
		}
	}
	return nil
}

// ParseMessage reads the content of a message record without copying.
func ParseMessage(content []byte) (Message, error) { return parseMessage(content) }
