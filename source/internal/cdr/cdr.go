// Package cdr reads the Common Data Representation, the serialization of ROS 2
// messages (spec/readers.md 1.5).
//
// All encapsulations are read in the layout of plain CDR version 1: a number is
// aligned to its own size, counted from the byte after the four byte header.
package cdr

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"unsafe"
)

// Errors of a [Reader].
var (
	ErrHeader = errors.New("unsupported CDR encapsulation")
	ErrShort  = errors.New("CDR data ends early")
	ErrBool   = errors.New("byte is not a boolean")
)

// Reader reads the fields of one message after the other. After a read beyond
// the end all reads give zero values and Err is set, so a caller checks once.
// The zero value reads an empty message.
type Reader struct {
	b   []byte
	at  int
	big bool
	err error
}

// Reset begins a message.
func (r *Reader) Reset(msg []byte) error {
	*r = Reader{}
	if len(msg) < 4 {
		r.err = fmt.Errorf("%w: %d bytes are no header", ErrShort, len(msg))
		return r.err
	}
	switch {
	case msg[0] != 0:
		r.err = fmt.Errorf("%w 0x%02x%02x", ErrHeader, msg[0], msg[1])
		return r.err
	case msg[1] <= 1, msg[1] >= 0x10 && msg[1] <= 0x15:
		r.big = msg[1]&1 == 0
	default:
		r.err = fmt.Errorf("%w 0x%02x%02x", ErrHeader, msg[0], msg[1])
		return r.err
	}
	r.b = msg[4:]
	return nil
}

// Err is the first error of the message.
func (r *Reader) Err() error { return r.err }

// BigEndian tells the byte order of the message's numbers.
func (r *Reader) BigEndian() bool { return r.big }

// Left is the number of bytes not yet read.
func (r *Reader) Left() int { return len(r.b) - r.at }

// Fail sets the error of the message, unless it has one.
func (r *Reader) Fail(err error) {
	if r.err == nil {
		r.err = err
	}
	r.b, r.at = nil, 0
}

func (r *Reader) short(n int) {
	r.Fail(fmt.Errorf("%w: %d bytes wanted at offset %d of %d", ErrShort, n, r.at+4, len(r.b)+4))
}

// take returns the next n bytes after padding to a multiple of size, or nil.
func (r *Reader) take(n, size int) []byte {
	at := (r.at + size - 1) &^ (size - 1)
	if n > len(r.b)-at {
		r.short(n)
		return nil
	}
	r.at = at + n
	return r.b[at : at+n : at+n]
}

// Uint8 reads a byte.
func (r *Reader) Uint8() uint8 {
	if r.at >= len(r.b) {
		r.short(1)
		return 0
	}
	v := r.b[r.at]
	r.at++
	return v
}

// Bool reads a boolean, a byte that is 0 or 1.
func (r *Reader) Bool() bool {
	v := r.Uint8()
	if v > 1 {
		r.Fail(fmt.Errorf("%w: %d at offset %d", ErrBool, v, r.at+3))
	}
	return v == 1
}

// Uint16 reads an integer.
func (r *Reader) Uint16() uint16 {
	b := r.take(2, 2)
	switch {
	case b == nil:
		return 0
	case r.big:
		return binary.BigEndian.Uint16(b)
	}
	return binary.LittleEndian.Uint16(b)
}

// Uint32 reads an integer.
func (r *Reader) Uint32() uint32 {
	b := r.take(4, 4)
	switch {
	case b == nil:
		return 0
	case r.big:
		return binary.BigEndian.Uint32(b)
	}
	return binary.LittleEndian.Uint32(b)
}

// Uint64 reads an integer.
func (r *Reader) Uint64() uint64 {
	b := r.take(8, 8)
	switch {
	case b == nil:
		return 0
	case r.big:
		return binary.BigEndian.Uint64(b)
	}
	return binary.LittleEndian.Uint64(b)
}

// Int32 reads an integer.
func (r *Reader) Int32() int32 { return int32(r.Uint32()) }

// Float32 reads a number.
func (r *Reader) Float32() float32 { return math.Float32frombits(r.Uint32()) }

// Float64 reads a number.
func (r *Reader) Float64() float64 { return math.Float64frombits(r.Uint64()) }

// Text reads a string without its final NUL. The bytes are those of the message.
func (r *Reader) Text() []byte {
	n := r.Uint32()
	if n == 0 {
		return nil
	}
	if uint64(n) > uint64(r.Left()) {
		r.short(int(n))
		return nil
	}
	b := r.take(int(n), 1)
	if b[n-1] == 0 {
		b = b[:n-1]
	}
	return b
}

// Count reads the length of a sequence whose items take at least size bytes
// each, and fails if the message cannot hold them.
func (r *Reader) Count(size int) int {
	n := r.Uint32()
	if uint64(n)*uint64(size) > uint64(r.Left()) {
		r.short(int(min(uint64(n)*uint64(size), math.MaxInt32)))
		return 0
	}
	return int(n)
}

// Number is a type of numbers in a message.
type Number interface {
	int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64 | float32 | float64
}

// Array reads n numbers of a size as they stand in the message, in its byte
// order. Without numbers there is no padding either.
func (r *Reader) Array(n, size int) []byte {
	if n == 0 {
		return nil
	}
	if n < 0 || n > r.Left()/size {
		r.short(n * size)
		return nil
	}
	return r.take(n*size, size)
}

// Value reads one number.
func Value[T Number](r *Reader) T {
	var v T
	switch unsafe.Sizeof(v) {
	case 1:
		*(*uint8)(unsafe.Pointer(&v)) = r.Uint8()
	case 2:
		*(*uint16)(unsafe.Pointer(&v)) = r.Uint16()
	case 4:
		*(*uint32)(unsafe.Pointer(&v)) = r.Uint32()
	case 8:
		*(*uint64)(unsafe.Pointer(&v)) = r.Uint64()
	}
	return v
}
