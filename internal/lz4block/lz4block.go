// Package lz4block compresses LZ4 blocks quickly: what is written into
// recordings is mostly measured numbers, which hardly shrink, so time counts
// for more than the last per cent of size.
//
// It exists because block compression takes most of the time of writing a
// recording and the general library needs more than twice as long on such data.
// Blocks are ordinary ones that any LZ4 decoder reads (LZ4 block format
// description).
package lz4block

import (
	"encoding/binary"
	"math/bits"
)

const (
	minMatch   = 4
	lastBytes  = 5  // a block ends with at least so many literals
	matchLimit = 12 // no match begins within so many bytes of the end
	maxOffset  = 1<<16 - 1

	tableBits      = 14
	smallTableBits = 12 // for sources of up to smallSource bytes
	smallSource    = 1 << 14

	// Every second position is looked at: numbers have even sizes, and matches are
	// extended backwards. After 1<<skipBits tries in a row without a match it is
	// every third, after as many more every fourth, and so on.
	firstSkip = 2
	skipBits  = 6
)

// Bound is the greatest size of a compressed block of n bytes.
func Bound(n int) int { return n + n/255 + 16 }

// Compressor holds working memory. The zero value is ready; it is not safe for
// concurrent use.
type Compressor struct {
	table [1 << tableBits]uint32 // positions by hash
}

// hash is of the lower five bytes of v, 64-shift bits long.
func hash(v uint64, shift uint8) uint64 {
	return (v << 24) * 889523592379 >> (shift & 63)
}

// Compress is [Compressor.Compress] without memory to reuse.
func Compress(src, dst []byte) int {
	var c Compressor
	return c.Compress(src, dst)
}

// Compress writes src as a block into dst, which must not overlap it, and
// returns the block's size, or 0 if dst is too small for it. Sources of 2 GiB
// and more are not compressed.
func (c *Compressor) Compress(src, dst []byte) int {
	if len(src) >= 1<<31-1 {
		return 0
	}
	bits := uint8(tableBits)
	if len(src) <= smallSource {
		bits = smallTableBits
	}
	shift := 64 - bits
	clear(c.table[:1<<bits])
	at, anchor := 0, 0 // of the output, of the literals not yet written
	if len(src) > matchLimit {
		limit, end := len(src)-matchLimit, len(src)-lastBytes
		c.table[hash(load64(src, 0), shift)%(1<<tableBits)] = 0
		for i := 1; ; {
			// Find a match.
			var ref int
			v := load64(src, i)
			for tries := firstSkip << skipBits; ; tries++ {
				h := hash(v, shift) % (1 << tableBits)
				ref = int(c.table[h])
				c.table[h] = uint32(i)
				if load32(src, ref) == uint32(v) && i-ref <= maxOffset {
					break
				}
				if i += tries >> skipBits; i > limit {
					return literals(src[anchor:], dst, at)
				}
				v = load64(src, i)
			}
			for i > anchor && ref > 0 && src[i-1] == src[ref-1] {
				i--
				ref--
			}
			run := i - anchor
			if at+run+run/255+8 > len(dst) {
				return 0
			}
			// Measure it.
			n := minMatch + common(src, i+minMatch, ref+minMatch, end)
			token := at
			at = putRun(dst, at, src[anchor:], run)
			dst[at], dst[at+1] = byte(i-ref), byte((i-ref)>>8)
			at += 2
			if extra := n - minMatch; extra < 15 {
				dst[token] |= byte(extra)
			} else {
				dst[token] |= 15
				if at+extra/255+1 > len(dst) {
					return 0
				}
				for extra -= 15; extra >= 255; extra -= 255 {
					dst[at] = 255
					at++
				}
				dst[at] = byte(extra)
				at++
			}
			i += n
			anchor = i
			if i > limit {
				break
			}
			c.table[hash(load64(src, i-2), shift)%(1<<tableBits)] = uint32(i - 2)
		}
	}
	return literals(src[anchor:], dst, at)
}

func load32(b []byte, i int) uint32 { return binary.LittleEndian.Uint32(b[i:]) }
func load64(b []byte, i int) uint64 { return binary.LittleEndian.Uint64(b[i:]) }

// common is the number of equal bytes from i and from the earlier j on, before end.
func common(src []byte, i, j, end int) int {
	from := i
	for i+8 <= end {
		if x := load64(src, i) ^ load64(src, j); x != 0 {
			return i - from + bits.TrailingZeros64(x)>>3
		}
		i, j = i+8, j+8
	}
	for i < end && src[i] == src[j] {
		i, j = i+1, j+1
	}
	return i - from
}

// putRun writes a token and run literals from the front of src, with room in
// dst, and returns the index after them.
func putRun(dst []byte, at int, src []byte, run int) int {
	if run < 15 {
		dst[at] = byte(run << 4)
		at++
		if len(src) >= 16 && len(dst)-at >= 16 {
			copy(dst[at:at+16], src[:16])
		} else {
			copy(dst[at:], src[:run])
		}
		return at + run
	}
	dst[at] = 15 << 4
	at++
	left := run - 15
	for ; left >= 255; left -= 255 {
		dst[at] = 255
		at++
	}
	dst[at] = byte(left)
	at++
	return at + copy(dst[at:], src[:run])
}

// literals ends a block with the rest of the source.
func literals(rest, dst []byte, at int) int {
	if at+len(rest)+len(rest)/255+2 > len(dst) {
		return 0
	}
	return putRun(dst, at, rest, len(rest))
}
