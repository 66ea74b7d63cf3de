package inspect

import "encoding/binary"

// A raw LZ4 block is a row of sequences: a token with two lengths, literal
// bytes, and how far back to copy from. The last one ends with its literals.

// sequence is one step of a block.
type sequence struct {
	literals []byte
	back     int // 0 in the last sequence
	match    int // bytes to copy
}

// nextSequence reads a sequence and what follows it.
func nextSequence(src []byte) (s sequence, rest []byte, ok bool) {
	token := src[0]
	literals, src, ok := lz4Length(int(token>>4), src[1:])
	if !ok || literals > len(src) {
		return s, nil, false
	}
	s.literals, src = src[:literals], src[literals:]
	if len(src) == 0 {
		return s, nil, true
	}
	if len(src) < 2 {
		return s, nil, false
	}
	s.back = int(binary.LittleEndian.Uint16(src))
	s.match, src, ok = lz4Length(int(token&15), src[2:])
	s.match += 4
	return s, src, ok && s.back > 0
}

// lz4Length reads a length that goes on behind its token.
func lz4Length(n int, src []byte) (int, []byte, bool) {
	if n < 15 {
		return n, src, true
	}
	for i, b := range src {
		n += int(b)
		if b != 255 {
			return n, src[i+1:], true
		}
	}
	return n, nil, false
}

// lz4Size walks through a block without decompressing it. It returns what it
// decompresses to, and whether it can be.
func lz4Size(src []byte) (size int, ok bool) {
	for len(src) > 0 {
		s, rest, ok := nextSequence(src)
		size += len(s.literals)
		if !ok || s.back > size {
			return size, false
		}
		size += s.match
		src = rest
	}
	return size, true
}

// lz4Start decompresses the first bytes of a block and returns how many there are.
func lz4Start(dst *[8]byte, src []byte) int {
	n := 0
	for len(src) > 0 && n < len(dst) {
		s, rest, ok := nextSequence(src)
		n += copy(dst[n:], s.literals)
		if !ok || s.back > n {
			break
		}
		for k := 0; k < s.match && n < len(dst); k++ {
			dst[n] = dst[n-s.back]
			n++
		}
		src = rest
	}
	return n
}
