package arrowipc

import (
	"encoding/binary"
	"fmt"
)

// Header types of a message.
const (
	headerSchema     = 1
	headerDictionary = 2
	headerBatch      = 3
)

// Metadata versions. Before V5 unions had a validity bitmap.
const (
	versionV4 = 3
	versionV5 = 4
)

const continuation = 0xFFFFFFFF

// message is one framed message of a stream.
type message struct {
	flat
	root    table
	header  table
	kind    uint8
	version int16
	off     int // of the metadata in the stream
	body    []byte
	bodyOff int // of the body in the stream
	end     int // first byte behind the message
}

// fail makes an Error for this message.
func (m *message) fail(part string, err error) error {
	return &Error{Part: part, Offset: int64(m.off), Err: err}
}

// readMessage reads the message at pos into m. It returns false at the end of
// the stream: an end marker, or no byte left.
func readMessage(stream []byte, pos int, m *message) (bool, error) {
	*m = message{off: pos}
	part := "batch"
	if pos == 0 {
		part = "schema"
	}
	rest := stream[pos:]
	if len(rest) == 0 {
		return false, nil
	}
	if len(rest) < 4 {
		return false, m.fail(part, errTruncated)
	}
	size := binary.LittleEndian.Uint32(rest)
	prefix := 4 // streams older than 0.15 have no continuation marker
	if size == continuation {
		if len(rest) < 8 {
			return false, m.fail(part, errTruncated)
		}
		size = binary.LittleEndian.Uint32(rest[4:])
		prefix = 8
	}
	if size == 0 {
		return false, nil
	}
	rest = rest[prefix:]
	if int64(size) > int64(len(rest)) {
		return false, m.fail(part, fmt.Errorf("metadata of %d bytes with %d left: %w", size, len(rest), errTruncated))
	}
	m.off = pos + prefix
	m.b = rest[:size:size]
	m.root = m.flat.root()
	m.version = m.root.i16(0, 0)
	m.kind = m.root.u8(1, 0)
	m.header, _ = m.root.table(2)
	bodyLen := m.root.i64(3, 0)
	if m.err != nil {
		return false, m.fail(part, m.err)
	}
	switch m.kind {
	case headerSchema:
		part = "schema"
	case headerDictionary:
		part = "dictionary"
	case headerBatch:
		part = "batch"
	default:
		return false, m.fail(part, fmt.Errorf("unexpected message type %d", m.kind))
	}
	if m.header.pos == 0 {
		return false, m.fail(part, fmt.Errorf("message without header"))
	}
	if m.version < versionV4 || m.version > versionV5 {
		return false, m.fail(part, fmt.Errorf("unsupported metadata version %d", m.version))
	}
	rest = rest[size:]
	if bodyLen < 0 || bodyLen > int64(len(rest)) {
		return false, m.fail(part, fmt.Errorf("body of %d bytes with %d left: %w", bodyLen, len(rest), errTruncated))
	}
	m.bodyOff = m.off + int(size)
	m.body = rest[:bodyLen:bodyLen]
	m.end = m.bodyOff + int(bodyLen)
	return true, nil
}
