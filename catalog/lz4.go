package catalog

import "encoding/binary"

// lz4Prefix decompresses a raw LZ4 block until dst is full or the block ends.
// ok is false for a block that is malformed before that.
func lz4Prefix(dst, src []byte) (n int, ok bool) {
	// length reads the bytes that extend a length of 15.
	length := func(v int) (int, bool) {
		for v >= 15 {
			if len(src) == 0 || v > 1<<31 {
				return 0, false
			}
			b := src[0]
			src = src[1:]
			v += int(b)
			if b != 255 {
				break
			}
		}
		return v, true
	}
	for n < len(dst) {
		if len(src) == 0 {
			return n, true
		}
		token := src[0]
		src = src[1:]
		literals, good := length(int(token >> 4))
		if !good || literals > len(src) {
			return n, false
		}
		n += copy(dst[n:], src[:literals])
		src = src[literals:]
		if n == len(dst) || len(src) == 0 {
			return n, true
		}
		if len(src) < 2 {
			return n, false
		}
		back := int(binary.LittleEndian.Uint16(src))
		src = src[2:]
		match, good := length(int(token & 15))
		if !good || back == 0 || back > n {
			return n, false
		}
		match = min(match+4, len(dst)-n)
		// The source may overlap what is being written: it grows with it.
		for from := n - back; match > 0; {
			k := copy(dst[n:n+match], dst[from:n])
			n += k
			match -= k
		}
	}
	return n, true
}
