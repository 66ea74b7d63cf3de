package rrd

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// Message is one frame of a recording. Only the header of its payload is
// parsed; the field that fits Kind is set.
type Message struct {
	Kind    Kind
	Offset  int64   // of the 16-byte message header, from the start of the input
	Base    int64   // of the stream that holds it, from the start of the input
	Version Version // of that stream's writer
	Payload []byte  // as stored; valid until the next call of Next unless detached

	Arrow      ArrowMsg   // KindArrow; its payload aliases Payload
	Info       StoreInfo  // KindStoreInfo
	Activation Activation // KindActivation

	owner *Scanner
}

// Size is the number of bytes of the whole frame.
func (m *Message) Size() int64 { return MessageHeaderSize + int64(len(m.Payload)) }

// Detach leaves the payload to the caller: it stays valid and is not written to again.
func (m *Message) Detach() { m.detach() }

// detach returns the whole buffer that the payload lies in.
func (m *Message) detach() (buf []byte) {
	if m.owner != nil {
		buf, m.owner.buf = m.owner.buf, nil
		m.owner = nil
	}
	return buf
}

// ParseFooter parses the payload of a KindEnd message.
func (m *Message) ParseFooter() ([]*RawManifest, error) { return ParseFooter(m.Payload, m.Base) }

// ScanOptions are the options of a [Scanner]. The zero value is what the
// format's own tools do: broken ends are ends.
type ScanOptions struct {
	Name   string       // of the input, for errors
	Strict bool         // whatever Report would be told is a fatal error
	Report func(*Error) // told of faults that are not errors: cut off input, trailing bytes, newer versions, dropped messages
}

// Scanner reads the messages of a recording one after the other from any
// reader, concatenated streams included, and holds one message at a time
// (spec/rrd.md section 5). It is not safe for concurrent use.
type Scanner struct {
	r      *bufio.Reader
	seek   io.Seeker // of the input, if payloads can be skipped by seeking
	size   int64     // of the input, -1 if unknown
	opt    ScanOptions
	pos    int64
	base   int64
	header StreamHeader
	state  scanState
	first  bool // the next stream header is the first one
	buf    []byte
	msg    Message
	stores storeCache
	apps   map[appKey]string
	err    error // sticky: io.EOF or a fatal *Error

	// onlyInfos passes over all payloads but those of store infos. Faults in the
	// first stream, up to ended, are then fatal.
	onlyInfos bool
	ended     bool
}

type appKey struct {
	kind      StoreKind
	recording string
}

type scanState uint8

const (
	wantHeader scanState = iota
	wantMessage
	wantFooter
)

const scanBuffer = 64 << 10

// NewScanner reads from r, from a stream header on.
func NewScanner(r io.Reader, opt ScanOptions) *Scanner {
	s := &Scanner{r: bufio.NewReaderSize(r, scanBuffer), size: -1, opt: opt, first: true,
		stores: storeCache{}, apps: map[appKey]string{}}
	return s
}

// newInfoScanner reads only store infos in full and seeks over all else.
func newInfoScanner(r io.ReaderAt, size int64, opt ScanOptions) *Scanner {
	section := io.NewSectionReader(r, 0, size)
	s := NewScanner(nil, opt)
	s.r = bufio.NewReaderSize(section, 4<<10)
	s.seek, s.size, s.onlyInfos = section, size, true
	return s
}

// Offset is the number of bytes consumed so far.
func (s *Scanner) Offset() int64 { return s.pos }

// Next returns the next message, which is overwritten by the call after.
// io.EOF is the end. Any other error is an [*Error]; after one that is not
// Fatal, Next can be called again and goes on behind the fault.
func (s *Scanner) Next() (*Message, error) {
	for s.err == nil {
		var ok bool
		var err error
		switch s.state {
		case wantHeader:
			err = s.readHeader()
		case wantFooter:
			err = s.readFooter()
		case wantMessage:
			ok, err = s.readMessage()
		}
		if err != nil {
			return nil, err
		}
		if ok {
			return &s.msg, nil
		}
	}
	return nil, s.err
}

// fault makes an error; a fatal one ends the scan.
func (s *Scanner) fault(at int64, part Part, err error, fatal bool) error {
	e := &Error{File: s.opt.Name, Offset: at, Part: part, Err: err, Fatal: fatal}
	if fatal {
		s.err = e
	}
	return e
}

// note reports what the format's own tools pass over. It is nil unless strict.
func (s *Scanner) note(at int64, part Part, err error) error {
	if s.opt.Strict {
		return s.fault(at, part, err, true)
	}
	if s.opt.Report != nil {
		s.opt.Report(&Error{File: s.opt.Name, Offset: at, Part: part, Err: err})
	}
	return nil
}

// peek returns the next n bytes without consuming them. At the end of the
// input, also in the middle of the n bytes, it ends the scan and ok is false.
func (s *Scanner) peek(n int, part Part) (b []byte, ok bool, err error) {
	b, err = s.r.Peek(n)
	switch {
	case err == nil:
		return b, true, nil
	case !errors.Is(err, io.EOF):
		return nil, false, s.fault(s.pos, part, err, true)
	}
	s.err = io.EOF
	if len(b) > 0 {
		return nil, false, s.note(s.pos, part, fmt.Errorf("%w after %d of %d bytes", ErrTruncated, len(b), n))
	}
	return nil, false, nil
}

func (s *Scanner) consume(n int) {
	s.pos += int64(n)
	_, _ = s.r.Discard(n) // the bytes were peeked
}

func (s *Scanner) readHeader() error {
	b, ok, err := s.peek(StreamHeaderSize, PartStreamHeader)
	if !ok {
		return err
	}
	at, first := s.pos, s.first
	s.first = false
	h, err := ParseStreamHeader(b)
	s.consume(StreamHeaderSize)
	if err != nil {
		if first {
			return s.fault(at, PartStreamHeader, err, s.opt.Strict)
		}
		s.err = io.EOF
		return s.note(at, PartStreamHeader, fmt.Errorf("%w: %w", ErrTrailing, err))
	}
	if s.onlyInfos {
		err = nil // random access does not ask for the version
	} else if err = h.CheckVersion(); errors.Is(err, ErrNewerVersion) {
		if err = s.note(at, PartStreamHeader, err); err != nil {
			return err
		}
	}
	if err != nil {
		return s.fault(at, PartStreamHeader, err, s.opt.Strict)
	}
	s.header, s.base, s.state = h, at, wantMessage
	return nil
}

func (s *Scanner) readFooter() error {
	b, ok, err := s.peek(StreamFooterSize, PartStreamFooter)
	if !ok {
		return err
	}
	f, ok := parseStreamFooter(b)
	if !ok {
		s.err = io.EOF
		return s.note(s.pos, PartStreamFooter, ErrCorruptFooter)
	}
	at := s.pos
	s.consume(StreamFooterSize)
	s.state = wantHeader
	if f.start > uint64(at) || f.len > uint64(at)-f.start {
		return s.note(at, PartStreamFooter, fmt.Errorf("%w: its payload ends beyond it", ErrCorruptFooter))
	}
	return nil
}

func (s *Scanner) readMessage() (ok bool, err error) {
	b, ok, err := s.peek(MessageHeaderSize, PartMessageHeader)
	if !ok {
		return false, err
	}
	h := parseMessageHeader(b)
	if h.kind > KindActivation {
		// Streams may be concatenated without an End between them.
		if s.onlyInfos && !s.ended && !bytes.HasPrefix(b, []byte(magic[:3])) {
			return false, s.fault(s.pos, PartMessageHeader, fmt.Errorf("%w %d", ErrUnknownKind, uint64(h.kind)), true)
		}
		s.state = wantHeader
		return false, nil
	}
	if s.ended && (h.len > MaxPayload || int64(h.len) > s.size-s.pos-MessageHeaderSize) {
		s.err = io.EOF
		return false, s.note(s.pos, PartMessageHeader, fmt.Errorf("%w: %d bytes", ErrTruncated, h.len))
	}
	if h.len > MaxPayload {
		return false, s.fault(s.pos, PartMessageHeader, fmt.Errorf("%w: %d bytes", ErrTooLarge, h.len), true)
	}
	at := s.pos
	s.consume(MessageHeaderSize)
	s.msg = Message{Kind: h.kind, Offset: at, Base: s.base, Version: s.header.Version, owner: s}
	if h.kind == KindEnd {
		s.state = wantFooter
	}
	s.ended = s.onlyInfos && (s.ended || h.kind == KindEnd && int64(h.len) <= s.size-s.pos)
	if s.onlyInfos && h.kind != KindStoreInfo {
		return false, s.skip(int64(h.len))
	}
	if ok, err = s.readPayload(int64(h.len)); !ok {
		return false, err
	}
	return s.parse()
}

// skip passes over a payload.
func (s *Scanner) skip(n int64) error {
	if n > s.size-s.pos {
		return s.fault(s.pos, PartPayload, fmt.Errorf("%w: %d bytes of %d", ErrTruncated, s.size-s.pos, n), true)
	}
	s.pos += n
	if buffered := int64(s.r.Buffered()); n > buffered {
		if _, err := s.seek.Seek(n-buffered, io.SeekCurrent); err != nil {
			return s.fault(s.pos, PartPayload, err, true)
		}
		s.r.Reset(s.seek.(io.Reader))
		return nil
	}
	_, _ = s.r.Discard(int(n))
	return nil
}

// readPayload fills the buffer. It grows only as bytes arrive, so a bogus
// length costs nothing.
func (s *Scanner) readPayload(n int64) (ok bool, err error) {
	if s.size >= 0 && n > s.size-s.pos {
		return false, s.fault(s.pos, PartPayload, fmt.Errorf("%w: %d bytes of %d", ErrTruncated, s.size-s.pos, n), true)
	}
	const step = 1 << 20
	if s.buf == nil {
		s.buf = payloads.get(int(min(n, step)))
	}
	s.buf = s.buf[:0]
	for int64(len(s.buf)) < n {
		have := len(s.buf)
		want := int(min(n, int64(max(cap(s.buf), 2*have, step))))
		if want > cap(s.buf) {
			grown := payloads.get(want)[:have]
			copy(grown, s.buf)
			payloads.put(s.buf)
			s.buf = grown
		}
		m, err := io.ReadFull(s.r, s.buf[have:want])
		s.buf = s.buf[:have+m]
		if err == nil {
			continue
		}
		if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return false, s.fault(s.pos+int64(len(s.buf)), PartPayload, err, true)
		}
		got := len(s.buf)
		at := s.pos
		s.pos += int64(got)
		s.err = io.EOF
		return false, s.note(at, PartPayload, fmt.Errorf("%w after %d of %d bytes", ErrTruncated, got, n))
	}
	s.pos += n
	s.msg.Payload = s.buf[:n:n]
	return true, nil
}

// parse reads the header of the payload. A store id without an application id
// gets the one that a store info gave before.
func (s *Scanner) parse() (ok bool, err error) {
	m := &s.msg
	var store *StoreID
	switch m.Kind {
	case KindEnd:
		return true, nil
	case KindStoreInfo:
		m.Info, err = ParseStoreInfo(m.Payload)
		m.Info.Version = m.Version
		store = &m.Info.Store
	case KindArrow:
		err = m.Arrow.parse(m.Payload, s.stores)
		store = &m.Arrow.Store
	case KindActivation:
		m.Activation, err = ParseActivation(m.Payload)
		store = &m.Activation.Blueprint
	}
	if err != nil {
		return false, s.fault(m.Offset, m.Kind.part(), err, s.opt.Strict)
	}
	key := appKey{store.Kind, store.Recording}
	if m.Kind == KindStoreInfo && store.Application != "" {
		s.apps[key] = store.Application
	}
	if store.Application == "" {
		if store.Application = s.apps[key]; store.Application == "" {
			return false, s.note(m.Offset, m.Kind.part(), ErrNoApplication)
		}
	}
	return true, nil
}
