// Package mcapfile reads MCAP files: records, summary, chunks, and what can be
// saved of a damaged file.
//
// [Open] finds the parts of a file: from its summary, or, if that is missing
// or does not tell the whole, by reading it from front to back. Nothing else
// is read then; [Reader] loads one [Block] of messages after the other into
// buffers that it reuses.
//
// Every length in the file is checked against what is left of it before
// anything is allocated. Format facts are from the MCAP specification, version
// 0, and spec/readers.md sections 1.2 and 1.7.
package mcapfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"math"
	"slices"
)

// Magic is what an MCAP file begins and ends with.
const Magic = "\x89MCAP0\r\n"

// maxOffset bounds positions and lengths, so that their sums do not overflow.
const maxOffset = math.MaxInt64 / 4

// Errors that callers decide on.
var (
	ErrNotMCAP = errors.New("not an MCAP file: missing start magic")
	ErrSummary = errors.New("MCAP summary is missing or corrupt")
	ErrCRC     = errors.New("checksum mismatch")
	// ErrRead says that reading failed, which is not the file's fault.
	ErrRead = errors.New("read failed")
)

// Source says where a file's table of contents came from.
type Source uint8

// Sources of a table of contents.
const (
	Embedded      Source = iota // the summary at the end of the file
	Scanned                     // the whole file was read, as its summary does not list everything
	Reconstructed               // the file is damaged and was read up to the damage
)

func (s Source) String() string { return [...]string{"embedded", "scanned", "reconstructed"}[s] }

// Block is a part of the file that holds messages: a chunk, or a run of
// records outside chunks.
type Block struct {
	Chunk          bool
	Offset, Length int64 // of the chunk record with its prefix, or of the run

	// HasTimes says that the log times of all messages lie between StartTime and
	// EndTime, both inclusive.
	HasTimes           bool
	StartTime, EndTime uint64

	Channels    []uint16 // ids of channels with messages, nil if unknown
	Compression string
	// Sizes of the chunk data as stated in the file.
	CompressedSize, UncompressedSize uint64

	indexLength uint64
	hasIndex    bool // a message index record follows
}

// File is the table of contents of an MCAP file. It is not changed after Open
// and may be used concurrently.
type File struct {
	Header      Header
	Source      Source
	Channels    []*Channel // by id
	Schemas     []*Schema  // by id
	Statistics  *Statistics
	Blocks      []Block    // in the order of the file's own index
	Metadata    []Metadata // in file order
	Attachments int        // number of attachments
	Warnings    []string   // what was found wrong

	r           io.ReaderAt
	size        int64
	attachments []index
}

// Options for [Open].
type Options struct {
	// Recover reads a file whose summary is missing or damaged from front to
	// back, up to the damage. Without it such a file is an error.
	Recover bool
}

// Open reads the table of contents of a file of size bytes. r must allow
// concurrent reads and is used as long as the File.
func Open(r io.ReaderAt, size int64, o Options) (*File, error) {
	magic := make([]byte, len(Magic))
	if n, err := r.ReadAt(magic, 0); n < len(magic) && err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read start magic: %w", err)
	}
	if string(magic) != Magic {
		return nil, ErrNotMCAP
	}
	f := &File{r: r, size: size}
	complete, err := f.readSummary()
	if err != nil {
		if !o.Recover {
			return nil, fmt.Errorf("%w (opening it with recovery may help): %w", ErrSummary, err)
		}
		f = &File{r: r, size: size, Source: Reconstructed}
		f.warnf("%v: reading the file from front to back", err)
		return f, f.scan()
	}
	if !complete {
		scanned := &File{r: r, size: size, Source: Scanned, Warnings: f.Warnings}
		if err := scanned.scan(); err != nil {
			return nil, err
		}
		// What the file says about itself goes before what was counted.
		if f.Statistics != nil {
			scanned.Statistics = f.Statistics
		}
		return scanned, nil
	}
	if err := f.readHeader(); err != nil {
		f.warnf("header: %v", err)
	}
	return f, nil
}

func (f *File) warnf(format string, args ...any) {
	const most = 1000
	if len(f.Warnings) < most {
		f.Warnings = append(f.Warnings, fmt.Sprintf(format, args...))
	}
}

// readRecord reads the record at an offset, whose content must be of at most limit bytes.
func (f *File) readRecord(offset, limit int64) (Opcode, []byte, error) {
	op, n, err := f.readPrefix(offset)
	if err != nil {
		return 0, nil, err
	}
	if n > limit {
		return 0, nil, fmt.Errorf("record of %d bytes at offset %d is too long", n, offset)
	}
	b := make([]byte, n)
	if err := f.readAt(b, offset+prefixLen); err != nil {
		return 0, nil, err
	}
	return op, b, nil
}

// readPrefix reads a record's opcode and length, and checks that it ends in the file.
func (f *File) readPrefix(offset int64) (Opcode, int64, error) {
	var p [prefixLen]byte
	if offset < 0 || offset > f.size-prefixLen {
		return 0, 0, fmt.Errorf("no record at offset %d: the file has %d bytes", offset, f.size)
	}
	if err := f.readAt(p[:], offset); err != nil {
		return 0, 0, err
	}
	n := binary.LittleEndian.Uint64(p[1:])
	if left := f.size - offset - prefixLen; n > uint64(left) {
		return 0, 0, fmt.Errorf("record 0x%02x at offset %d claims %d bytes, %d are left", p[0], offset, n, left)
	}
	return Opcode(p[0]), int64(n), nil
}

func (f *File) readAt(b []byte, offset int64) error {
	n, err := f.r.ReadAt(b, offset)
	if n == len(b) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		return fmt.Errorf("read %d bytes at offset %d: %w", len(b), offset, io.ErrUnexpectedEOF)
	}
	return fmt.Errorf("%w: %d bytes at offset %d: %w", ErrRead, len(b), offset, err)
}

// maxRecord bounds records other than chunks and attachments.
const maxRecord = 1 << 30

func (f *File) readHeader() error {
	op, b, err := f.readRecord(int64(len(Magic)), maxRecord)
	if err != nil {
		return err
	}
	if op != OpHeader {
		return fmt.Errorf("first record is 0x%02x", byte(op))
	}
	f.Header, err = parseHeader(b)
	return err
}

// footerLen is the length of the footer record with its prefix.
const footerLen = prefixLen + 8 + 8 + 4

// readSummary reads the summary section. It reports whether the summary lists
// all that the file holds, as far as one can tell.
func (f *File) readSummary() (complete bool, err error) {
	if f.size < int64(2*len(Magic)+footerLen) {
		return false, fmt.Errorf("%d bytes hold no footer", f.size)
	}
	tail := make([]byte, footerLen+len(Magic))
	start := f.size - int64(len(tail))
	if err := f.readAt(tail, start); err != nil {
		return false, err
	}
	if string(tail[footerLen:]) != Magic {
		return false, errors.New("the file does not end with the expected magic bytes")
	}
	if Opcode(tail[0]) != OpFooter || binary.LittleEndian.Uint64(tail[1:]) != footerLen-prefixLen {
		return false, fmt.Errorf("no footer record at offset %d", start)
	}
	at := binary.LittleEndian.Uint64(tail[prefixLen:])
	crc := binary.LittleEndian.Uint32(tail[prefixLen+16:])
	if at == 0 {
		return false, nil
	}
	if at < uint64(len(Magic)) || at > uint64(start) {
		return false, fmt.Errorf("summary offset %d is outside the file", at)
	}
	if uint64(start)-at > maxRecord {
		return false, fmt.Errorf("summary of %d bytes is too long", uint64(start)-at)
	}
	b := make([]byte, uint64(start)-at)
	if err := f.readAt(b, int64(at)); err != nil {
		return false, err
	}
	damaged := false
	if crc != 0 {
		if got := crc32.Update(crc32.ChecksumIEEE(b), crc32.IEEETable, tail[:footerLen-4]); got != crc {
			// The data says what the summary cannot be trusted with.
			f.warnf("summary: %v: %08x instead of %08x: reading the whole file", ErrCRC, got, crc)
			damaged = true
		}
	}
	if err := f.parseSummary(b); err != nil {
		return false, fmt.Errorf("summary at offset %d: %w", at, err)
	}
	return !damaged && f.summaryComplete(), nil
}

func (f *File) parseSummary(b []byte) error {
	var t tables
	var metadata []index
	var failed error
	err := Records(b, func(op Opcode, content []byte) bool {
		var err error
		switch op {
		case OpSchema, OpChannel:
			err = t.add(op, content)
		case OpChunkIndex:
			var blk Block
			if blk, err = parseChunkIndex(content); err == nil {
				blk.hasIndex = len(blk.Channels) > 0
				f.Blocks = append(f.Blocks, blk)
			}
		case OpStatistics:
			f.Statistics, err = parseStatistics(content)
		case OpAttachmentIndex:
			var x index
			x, err = parseIndex(content)
			f.attachments = append(f.attachments, x)
		case OpMetadataIndex:
			var x index
			x, err = parseIndex(content)
			metadata = append(metadata, x)
		}
		if err != nil {
			failed = fmt.Errorf("record 0x%02x: %w", byte(op), err)
		}
		return err == nil
	})
	if err := errors.Join(err, failed); err != nil {
		return err
	}
	t.finish(f)
	f.Attachments = len(f.attachments)
	for _, x := range metadata {
		op, b, err := f.readRecord(x.offset, maxRecord)
		if err == nil && op != OpMetadata {
			err = fmt.Errorf("record 0x%02x instead of metadata at offset %d", byte(op), x.offset)
		}
		var m Metadata
		if err == nil {
			m, err = parseMetadata(b)
		}
		if err != nil {
			f.warnf("metadata: %v", err)
			continue
		}
		f.Metadata = append(f.Metadata, m)
	}
	return nil
}

// summaryComplete tells whether chunk index, channels and statistics agree. A
// file without messages in chunks, with chunks that are not indexed, or with
// channels that the summary does not repeat, has to be scanned.
func (f *File) summaryComplete() bool {
	known := make(map[uint16]bool, len(f.Channels))
	for _, c := range f.Channels {
		known[c.ID] = true
	}
	var messages uint64
	for _, b := range f.Blocks {
		if len(b.Channels) == 0 {
			return false
		}
		for _, id := range b.Channels {
			if !known[id] {
				return false
			}
		}
		// A message index record is 15 bytes and 16 a message.
		records := uint64(len(b.Channels)) * (prefixLen + 2 + 4)
		messages += (b.indexLength - min(records, b.indexLength)) / 16
	}
	if f.Statistics == nil {
		// Without statistics a file without chunks may have messages outside.
		return len(f.Blocks) > 0
	}
	return int(f.Statistics.ChunkCount) == len(f.Blocks) && f.Statistics.MessageCount == messages
}

// tables collects schemas and channels by id; of equal ids the first counts.
type tables struct {
	schemas  map[uint16]*Schema
	channels map[uint16]*Channel
}

// add takes in a schema or channel record.
func (t *tables) add(op Opcode, content []byte) error {
	t.init()
	if len(content) < 2 {
		return errShort
	}
	// Chunks repeat what was seen before.
	id := binary.LittleEndian.Uint16(content)
	switch op {
	case OpSchema:
		if t.schemas[id] != nil {
			return nil
		}
		s, err := parseSchema(content)
		if err != nil {
			return fmt.Errorf("schema: %w", err)
		}
		t.schemas[id] = s
	case OpChannel:
		if t.channels[id] != nil {
			return nil
		}
		c, err := parseChannel(content)
		if err != nil {
			return fmt.Errorf("channel: %w", err)
		}
		t.channels[id] = c
	}
	return nil
}

func (t *tables) init() {
	if t.schemas == nil {
		t.schemas, t.channels = map[uint16]*Schema{}, map[uint16]*Channel{}
	}
}

// merge adds what others have and t lacks.
func (t *tables) merge(others *tables) {
	t.init()
	for id, s := range others.schemas {
		if t.schemas[id] == nil {
			t.schemas[id] = s
		}
	}
	for id, c := range others.channels {
		if t.channels[id] == nil {
			t.channels[id] = c
		}
	}
}

func (t *tables) finish(f *File) {
	for _, id := range slices.Sorted(maps.Keys(t.schemas)) {
		f.Schemas = append(f.Schemas, t.schemas[id])
	}
	for _, id := range slices.Sorted(maps.Keys(t.channels)) {
		c := t.channels[id]
		c.Schema = t.schemas[c.SchemaID]
		f.Channels = append(f.Channels, c)
	}
}

// EachAttachment reads one attachment after the other. One that cannot be read
// or fails its checksum is passed to skipped; f gets its name if that is known.
func (f *File) EachAttachment(yield func(*Attachment), skipped func(error)) {
	for _, x := range f.attachments {
		a, err := f.readAttachment(x)
		if err != nil {
			skipped(fmt.Errorf("attachment %q at offset %d: %w", a.Name, x.offset, err))
			continue
		}
		yield(a)
	}
}

func (f *File) readAttachment(x index) (*Attachment, error) {
	a := &Attachment{Offset: x.offset}
	op, b, err := f.readRecord(x.offset, maxAttachment)
	if err != nil {
		return a, err
	}
	if op != OpAttachment {
		return a, fmt.Errorf("record 0x%02x instead of an attachment", byte(op))
	}
	c := cursor{b: b}
	a.LogTime, a.CreateTime = c.u64(), c.u64()
	a.Name, a.MediaType = c.str(), c.str()
	a.Data = c.take(c.u64())
	whole := b[:len(b)-len(c.b)]
	crc := c.u32()
	if c.err != nil {
		return a, c.err
	}
	if crc != 0 {
		if got := crc32.ChecksumIEEE(whole); got != crc {
			return a, fmt.Errorf("%w: %08x instead of %08x", ErrCRC, got, crc)
		}
	}
	return a, nil
}

// maxAttachment is the most that fits into one Arrow list.
const maxAttachment = math.MaxInt32 - 1024
