package mcapfile

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// A run of messages outside chunks is cut into blocks of this many bytes, or
// after the first message that reaches it.
const runBytes = 4 << 20

// scanner reads a file from front to back.
type scanner struct {
	f      *File
	t      tables
	late   tables // of damaged chunks: used where nothing better is known
	reader *Reader
	in     *bufio.Reader
	at     int64

	run     *Block // the open run of messages outside chunks
	counts  []blockCount
	indexed bool // a message index record was seen
}

// blockCount is what a block of the same index holds.
type blockCount struct {
	messages   map[uint16]uint64
	start, end uint64
}

// scan fills the table of contents by reading the whole file, chunks included.
// Only a failing read is an error; what is wrong in the file ends the scan with
// a warning.
func (f *File) scan() error {
	s := &scanner{f: f, reader: f.NewReader(), at: int64(len(Magic))}
	s.in = bufio.NewReaderSize(io.NewSectionReader(f.r, s.at, f.size-s.at), 1<<20)
	for {
		more, err := s.record()
		if err != nil {
			return err
		}
		if !more {
			break
		}
	}
	s.closeRun()
	s.finish()
	return nil
}

// record reads one record. It returns false at the end of the data section.
func (s *scanner) record() (more bool, err error) {
	p, err := s.in.Peek(prefixLen)
	if err != nil {
		if !errors.Is(err, io.EOF) {
			return false, fmt.Errorf("read at offset %d: %w", s.at, err)
		}
		if len(p) > 0 && s.at != s.f.size-int64(len(Magic)) {
			s.f.warnf("the file ends inside a record at offset %d", s.at)
		} else if s.f.Source == Reconstructed {
			s.f.warnf("the file ends at offset %d without an end of data", s.at)
		}
		return false, nil
	}
	op := Opcode(p[0])
	length := binary.LittleEndian.Uint64(p[1:])
	if left := uint64(s.f.size - s.at - prefixLen); length > left {
		s.f.warnf("the file ends inside a record 0x%02x at offset %d: it has %d bytes, %d are left", byte(op), s.at, length, left)
		return false, nil
	}
	n := int64(length)
	switch op {
	case 0:
		s.f.warnf("record of kind 0 at offset %d: the rest of the file is not read", s.at)
		return false, nil
	case OpDataEnd, OpFooter:
		return false, nil
	case OpMessage:
		return true, s.message(n)
	case OpChunk:
		s.closeRun()
		return true, s.chunk(n)
	case OpMessageIndex:
		s.indexed = true
		if k := len(s.f.Blocks); k > 0 && s.f.Blocks[k-1].Chunk && s.run == nil {
			s.f.Blocks[k-1].hasIndex = true
		}
		return true, s.skip(n)
	case OpAttachment:
		s.closeRun()
		s.f.attachments = append(s.f.attachments, index{s.at, n + prefixLen})
		return true, s.skip(n)
	case OpHeader, OpSchema, OpChannel, OpMetadata:
		if n > maxRecord {
			s.f.warnf("record 0x%02x of %d bytes at offset %d is too long", byte(op), n, s.at)
			return true, s.skip(n)
		}
		b := make([]byte, n)
		at := s.at
		if err := s.read(b); err != nil {
			return false, err
		}
		if err := s.small(op, b); err != nil {
			s.f.warnf("record 0x%02x at offset %d: %v", byte(op), at, err)
		}
		if s.run != nil {
			s.run.Length = s.at - s.run.Offset
		}
		return true, nil
	}
	return true, s.skip(n)
}

// small takes in a record that stays in memory.
func (s *scanner) small(op Opcode, b []byte) (err error) {
	switch op {
	case OpHeader:
		s.f.Header, err = parseHeader(b)
	case OpSchema, OpChannel:
		err = s.t.add(op, b)
	case OpMetadata:
		var m Metadata
		if m, err = parseMetadata(b); err == nil {
			s.f.Metadata = append(s.f.Metadata, m)
		}
	}
	return err
}

// message notes a message outside chunks.
func (s *scanner) message(n int64) error {
	head := make([]byte, min(n, messageHeadLen))
	at := s.at
	if err := s.read(head); err != nil {
		return err
	}
	rest := n - int64(len(head))
	m, err := parseMessage(head)
	if err != nil {
		s.f.warnf("message at offset %d: %v", at, err)
	}
	if s.run == nil {
		s.run = &Block{Offset: at, HasTimes: true, StartTime: math.MaxUint64}
		s.counts = append(s.counts, newBlockCount())
	}
	if err == nil {
		s.counts[len(s.counts)-1].add(&m)
	}
	if err := s.discard(rest); err != nil {
		return err
	}
	s.run.Length = s.at - s.run.Offset
	if s.run.Length >= runBytes {
		s.closeRun()
	}
	return nil
}

func (s *scanner) closeRun() {
	if s.run == nil {
		return
	}
	b := *s.run
	s.run = nil
	count := &s.counts[len(s.counts)-1]
	b.StartTime, b.EndTime = count.start, count.end
	b.CompressedSize, b.UncompressedSize = uint64(b.Length), uint64(b.Length)
	b.Channels = count.channels()
	s.f.Blocks = append(s.f.Blocks, b)
}

// chunk looks into a chunk for channels and messages.
func (s *scanner) chunk(n int64) error {
	b := Block{Chunk: true, Offset: s.at, Length: n + prefixLen}
	if err := s.skip(n); err != nil {
		return err
	}
	data, err := s.reader.Load(&b)
	if err == nil || errors.Is(err, ErrCRC) {
		h, _ := parseChunkHead(s.reader.raw[prefixLen:])
		b.Compression, b.CompressedSize, b.UncompressedSize = h.compression, h.dataLen, h.uncompressedSize
	}
	damaged := err != nil
	count := newBlockCount()
	parse := Records(data, func(op Opcode, content []byte) bool {
		switch op {
		case OpSchema, OpChannel:
			t := &s.t
			if damaged {
				t = &s.late
			}
			if err := t.add(op, content); err != nil {
				s.f.warnf("chunk at offset %d: %v", b.Offset, err)
			}
		case OpMessage:
			if m, err := parseMessage(content); err == nil {
				count.add(&m)
			}
		}
		return true
	})
	b.Channels = count.channels()
	if err != nil || parse != nil {
		// Reading the block again will say what is wrong with it.
		b.Channels = nil
	} else {
		b.HasTimes, b.StartTime, b.EndTime = true, count.start, count.end
	}
	s.f.Blocks = append(s.f.Blocks, b)
	s.counts = append(s.counts, count)
	return nil
}

func (s *scanner) read(b []byte) error {
	if _, err := s.in.Discard(prefixLen); err != nil {
		return fmt.Errorf("read at offset %d: %w", s.at, err)
	}
	if _, err := io.ReadFull(s.in, b); err != nil {
		return fmt.Errorf("read at offset %d: %w", s.at, err)
	}
	s.at += prefixLen + int64(len(b))
	return nil
}

// skip goes over a record of n bytes and its prefix.
func (s *scanner) skip(n int64) error { return s.discard(n + prefixLen) }

func (s *scanner) discard(n int64) error {
	s.at += n
	if n <= int64(s.in.Buffered()) {
		_, err := s.in.Discard(int(n))
		return err
	}
	s.in.Reset(io.NewSectionReader(s.f.r, s.at, s.f.size-s.at))
	return nil
}

// finish makes the table of contents of what was seen.
func (s *scanner) finish() {
	f := s.f
	s.t.merge(&s.late)
	s.t.finish(f)
	if f.Source == Reconstructed {
		s.dropCutChunks()
		if n := len(f.attachments); n > 0 {
			// The peer's recovery has none either (spec/readers.md 1.7).
			f.warnf("%d attachments of the damaged file are not read", n)
			f.attachments = nil
		}
	}
	f.Attachments = len(f.attachments)
	st := &Statistics{ChannelMessageCounts: map[uint16]uint64{}, StartTime: math.MaxUint64,
		AttachmentCount: uint32(len(f.attachments)), MetadataCount: uint32(len(f.Metadata))}
	for i, b := range f.Blocks {
		c := &s.counts[i]
		for id, n := range c.messages {
			st.ChannelMessageCounts[id] += n
			st.MessageCount += n
		}
		if len(c.messages) > 0 {
			st.StartTime, st.EndTime = min(st.StartTime, c.start), max(st.EndTime, c.end)
		}
		if b.Chunk {
			st.ChunkCount++
		}
	}
	if st.MessageCount == 0 {
		st.StartTime = 0
	}
	schemas := map[uint16]bool{}
	for _, c := range f.Channels {
		if st.ChannelMessageCounts[c.ID] > 0 {
			st.ChannelCount++
			if c.Schema != nil {
				schemas[c.SchemaID] = true
			}
		}
	}
	st.SchemaCount = uint16(len(schemas))
	f.Statistics = st
}

// dropCutChunks removes chunks without a message index from a file whose other
// chunks have one: the writer did not come to the end of them (spec/readers.md 1.7).
func (s *scanner) dropCutChunks() {
	if !s.indexed {
		return
	}
	blocks, counts := s.f.Blocks[:0], s.counts[:0]
	for i, b := range s.f.Blocks {
		if b.Chunk && !b.hasIndex {
			s.f.warnf("chunk at offset %d is dropped: its message index is missing", b.Offset)
			continue
		}
		blocks, counts = append(blocks, b), append(counts, s.counts[i])
	}
	s.f.Blocks, s.counts = blocks, counts
}

func newBlockCount() blockCount {
	return blockCount{messages: map[uint16]uint64{}, start: math.MaxUint64}
}

func (c *blockCount) add(m *Message) {
	c.messages[m.ChannelID]++
	c.start, c.end = min(c.start, m.LogTime), max(c.end, m.LogTime)
}

func (c *blockCount) channels() []uint16 {
	out := make([]uint16, 0, len(c.messages))
	for id := range c.messages {
		out = append(out, id)
	}
	return out
}
