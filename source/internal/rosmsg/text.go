package rosmsg

import (
	"errors"
	"unicode/utf8"
	"unsafe"

	"github.com/reelhouse/reelhouse/source/internal/cdr"
	"github.com/reelhouse/reelhouse/source/internal/columnar"
)

// ErrUTF8 says that a string of a message is not UTF-8.
var ErrUTF8 = errors.New("string is not UTF-8")

// AppendText reads a string as a row of a column. One that is not UTF-8 fails
// the message with [ErrUTF8].
func AppendText(c *columnar.Bytes, r *cdr.Reader) {
	b := r.Text()
	if !utf8.Valid(b) {
		r.Fail(ErrUTF8)
		return
	}
	c.Append(b)
}

func sizeOf[T columnar.Number](v T) int { return int(unsafe.Sizeof(v)) }

// swapBytes turns the values around to the other byte order.
func swapBytes[T columnar.Number](v []T) {
	if len(v) == 0 {
		return
	}
	size := sizeOf(v[0])
	b := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), len(v)*size)
	for ; len(b) >= size; b = b[size:] {
		for i, j := 0, size-1; i < j; i, j = i+1, j-1 {
			b[i], b[j] = b[j], b[i]
		}
	}
}
