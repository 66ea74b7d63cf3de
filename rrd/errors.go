package rrd

import (
	"errors"
	"fmt"
)

// Causes that callers decide on. They are wrapped by [*Error].
var (
	ErrNotRRD        = errors.New("not an RRD: the magic number is missing")
	ErrOldMagic      = errors.New("written by an old, incompatible version")
	ErrOptions       = errors.New("unsupported stream options")
	ErrVersion       = errors.New("written by an incompatible version")
	ErrNewerVersion  = errors.New("written by a newer version")
	ErrTooShort      = errors.New("too short to be an RRD")
	ErrTruncated     = errors.New("cut off")
	ErrTooLarge      = errors.New("declares a length above the limit")
	ErrUnknownKind   = errors.New("unknown message kind")
	ErrTrailing      = errors.New("trailing bytes that are no stream")
	ErrCorruptFooter = errors.New("corrupt stream footer")
	ErrChecksum      = errors.New("checksum mismatch")
	ErrNoFooter      = errors.New("no footer")
	ErrProtobuf      = errors.New("malformed protobuf")
	ErrMissingField  = errors.New("missing field")
	ErrCompression   = errors.New("unknown compression")
	ErrLZ4           = errors.New("broken LZ4 block")
	ErrEncoding      = errors.New("unknown encoding")
	ErrArrow         = errors.New("malformed Arrow payload")
	ErrManifest      = errors.New("malformed manifest")
	ErrNoApplication = errors.New("no application id is known for the store")
	ErrClosed        = errors.New("closed")
)

// Part is the piece of a recording that an error is about.
type Part string

// The parts of a recording.
const (
	PartStreamHeader  Part = "stream header"
	PartMessageHeader Part = "message header"
	PartPayload       Part = "message payload"
	PartStoreInfo     Part = "store info"
	PartArrowMsg      Part = "chunk message"
	PartActivation    Part = "blueprint activation"
	PartChunk         Part = "chunk"
	PartFooter        Part = "footer"
	PartStreamFooter  Part = "stream footer"
	PartManifest      Part = "manifest"
)

// Error is a fault in a recording: where it is and what it is.
type Error struct {
	File   string // name given by the caller; may be empty
	Offset int64  // of the part, from the start of the file
	Part   Part
	Err    error

	// Fatal faults end a stream. After any other the reader goes on behind the message.
	Fatal bool
}

func (e *Error) Error() string {
	if e.File == "" {
		return fmt.Sprintf("offset %d: %s: %v", e.Offset, e.Part, e.Err)
	}
	return fmt.Sprintf("%s: offset %d: %s: %v", e.File, e.Offset, e.Part, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }
