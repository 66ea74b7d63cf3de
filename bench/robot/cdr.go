package robot

import (
	"encoding/binary"
	"math"
)

// encoder writes little-endian CDR (XCDR1): each number is aligned to its size, counted from the end
// of the four-byte encapsulation header.
type encoder struct{ buf []byte }

func (e *encoder) reset()        { e.buf = append(e.buf[:0], 0, 1, 0, 0) }
func (e *encoder) bytes() []byte { return e.buf }

func (e *encoder) align(n int) {
	for (len(e.buf)-4)%n != 0 {
		e.buf = append(e.buf, 0)
	}
}

func (e *encoder) uint8(v uint8) { e.buf = append(e.buf, v) }

func (e *encoder) uint32(v uint32) {
	e.align(4)
	e.buf = binary.LittleEndian.AppendUint32(e.buf, v)
}

func (e *encoder) int32(v int32) { e.uint32(uint32(v)) }

func (e *encoder) float64(v float64) {
	e.align(8)
	e.buf = binary.LittleEndian.AppendUint64(e.buf, math.Float64bits(v))
}

// string writes length, bytes and a terminating zero, which the length counts.
func (e *encoder) string(v string) {
	e.uint32(uint32(len(v) + 1))
	e.buf = append(append(e.buf, v...), 0)
}

// blob writes a sequence of bytes.
func (e *encoder) blob(v []byte) {
	e.uint32(uint32(len(v)))
	e.buf = append(e.buf, v...)
}

func putFloat32(b []byte, v float64) {
	binary.LittleEndian.PutUint32(b, math.Float32bits(float32(v)))
}
