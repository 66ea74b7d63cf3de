package rrd

import (
	"math/bits"
	"sync"
)

// bufferPool keeps byte slices by size class, so that a stream of chunks of
// about one size runs in a fixed set of buffers.
type bufferPool struct{ classes [36]sync.Pool }

// payloads are the buffers of stored payloads and, where the caller does not
// keep chunks, of decompressed ones.
var payloads bufferPool

const maxPooled = 64 << 20

// get returns an empty slice with room for n bytes.
func (p *bufferPool) get(n int) []byte {
	n = max(n, 4<<10)
	if n > maxPooled {
		return make([]byte, 0, n)
	}
	c := bits.Len(uint(n - 1))
	if b, ok := p.classes[c].Get().(*[]byte); ok {
		return (*b)[:0]
	}
	return make([]byte, 0, 1<<c)
}

func (p *bufferPool) put(b []byte) {
	if cap(b) < 4<<10 || cap(b) > maxPooled {
		return
	}
	c := bits.Len(uint(cap(b))) - 1 // all of the class have at least this room
	b = b[:0]
	p.classes[c].Put(&b)
}
