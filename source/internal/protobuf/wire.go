package protobuf

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrMessage is wrapped by all errors about the bytes of a message.
var ErrMessage = errors.New("malformed protobuf message")

// Faults of a message's bytes.
var (
	errVarint    = fmt.Errorf("%w: bad varint", ErrMessage)
	errTruncated = fmt.Errorf("%w: truncated", ErrMessage)
	errTag       = fmt.Errorf("%w: bad tag", ErrMessage)
	errWireType  = fmt.Errorf("%w: wire type does not fit the field", ErrMessage)
	errGroup     = fmt.Errorf("%w: unbalanced group", ErrMessage)
	errUTF8      = fmt.Errorf("%w: string is not UTF-8", ErrMessage)
	errDepth     = fmt.Errorf("%w: nested too deeply", ErrMessage)
)

const (
	maxFieldNumber = 1<<29 - 1
	// maxDepth is the number of messages and groups below the outermost.
	maxDepth = 100
)

type wireType uint8

const (
	wireVarint  wireType = 0
	wireFixed64 wireType = 1
	wireBytes   wireType = 2
	wireStart   wireType = 3
	wireEnd     wireType = 4
	wireFixed32 wireType = 5
)

// wire is how single values of a kind are written.
func (k Kind) wire() wireType {
	switch k {
	case Double, Fixed64, Sfixed64:
		return wireFixed64
	case Float, Fixed32, Sfixed32:
		return wireFixed32
	case String, Bytes, Embedded:
		return wireBytes
	case Group:
		return wireStart
	}
	return wireVarint
}

// varint reads a varint at b[i:] and returns the index after it, or -1.
func varint(b []byte, i int) (uint64, int) {
	if i < len(b) && b[i] < 0x80 {
		return uint64(b[i]), i + 1
	}
	return longVarint(b, i)
}

func longVarint(b []byte, i int) (uint64, int) {
	var v uint64
	for shift := uint(0); shift < 64; shift += 7 {
		if i >= len(b) {
			return 0, -1
		}
		c := b[i]
		i++
		v |= uint64(c&0x7f) << shift
		if c < 0x80 {
			if shift == 63 && c > 1 {
				return 0, -1
			}
			return v, i
		}
	}
	return 0, -1
}

// tagAt reads a field's tag and returns the index after it.
func tagAt(b []byte, i int) (number int32, wt wireType, next int, err error) {
	v, next := varint(b, i)
	if next < 0 {
		return 0, 0, 0, errVarint
	}
	number, wt = int32(v>>3), wireType(v&7)
	if v > 1<<32-1 || number == 0 || wt > wireFixed32 {
		return 0, 0, 0, errTag
	}
	return number, wt, next, nil
}

// span is a stretch of a message's bytes.
type span struct{ from, to int }

// lengthAt reads a length and returns the stretch of bytes that follows it.
func lengthAt(b []byte, i int) (span, error) {
	n, i := varint(b, i)
	if i < 0 {
		return span{}, errVarint
	}
	if n > uint64(len(b)-i) {
		return span{}, errTruncated
	}
	return span{i, i + int(n)}, nil
}

// groupAt finds the end tag of the group that starts with content at b[i:] and
// returns the content and the index after the end tag.
func groupAt(b []byte, i int, number int32, depth int) (content span, next int, err error) {
	from := i
	for i < len(b) {
		at := i
		n, wt, j, err := tagAt(b, i)
		if err != nil {
			return span{}, 0, err
		}
		if wt == wireEnd {
			if n != number {
				return span{}, 0, errGroup
			}
			return span{from, at}, j, nil
		}
		if i, err = skipAt(b, j, n, wt, depth); err != nil {
			return span{}, 0, err
		}
	}
	return span{}, 0, errTruncated
}

// skipAt passes over the value of a field and returns the index after it.
func skipAt(b []byte, i int, number int32, wt wireType, depth int) (int, error) {
	switch wt {
	case wireVarint:
		if _, i = varint(b, i); i < 0 {
			return 0, errVarint
		}
		return i, nil
	case wireFixed64:
		i += 8
	case wireFixed32:
		i += 4
	case wireBytes:
		s, err := lengthAt(b, i)
		return s.to, err
	case wireStart:
		if depth >= maxDepth {
			return 0, errDepth
		}
		_, i, err := groupAt(b, i, number, depth+1)
		return i, err
	default:
		return 0, errGroup
	}
	if i > len(b) {
		return 0, errTruncated
	}
	return i, nil
}

// numberAt reads a number of kind k and wire type wt as 64 bits: varints as
// they stand, zigzag undone, fixed ones zero-extended.
func numberAt(b []byte, i int, k Kind) (uint64, int, error) {
	switch k.wire() {
	case wireFixed64:
		if i+8 > len(b) {
			return 0, 0, errTruncated
		}
		return binary.LittleEndian.Uint64(b[i:]), i + 8, nil
	case wireFixed32:
		if i+4 > len(b) {
			return 0, 0, errTruncated
		}
		return uint64(binary.LittleEndian.Uint32(b[i:])), i + 4, nil
	}
	v, i := varint(b, i)
	if i < 0 {
		return 0, 0, errVarint
	}
	switch k {
	case Sint32:
		u := uint32(v)
		v = uint64(uint32(int32(u>>1) ^ -int32(u&1)))
	case Sint64:
		v = uint64(int64(v>>1) ^ -int64(v&1))
	}
	return v, i, nil
}
