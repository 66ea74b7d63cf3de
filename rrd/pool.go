package rrd

import (
	"math/bits"
	"sync"
)

// bufferPool keeps byte slices by size class, so that a stream of chunks of
// about one size runs in a fixed set of buffers. Unlike a sync.Pool it does not
// lose them with every garbage collection, and holds a bounded number of bytes.
type bufferPool struct {
	mu   sync.Mutex
	free [28][][]byte // by the logarithm of the least room
	held int          // bytes in free
}

// payloads are the buffers of stored payloads and, where the caller does not
// keep chunks, of decompressed ones.
var payloads bufferPool

const (
	minPooled = 4 << 10
	maxPooled = 64 << 20
	maxHeld   = 32 << 20
)

// get returns an empty slice with room for n bytes.
func (p *bufferPool) get(n int) []byte {
	n = max(n, minPooled)
	if n > maxPooled {
		return make([]byte, 0, n)
	}
	c := bits.Len(uint(n - 1))
	p.mu.Lock()
	defer p.mu.Unlock()
	// A free buffer up to eight times as large is better than a new one.
	for k := c; k < min(c+4, len(p.free)); k++ {
		if b := p.pop(k); b != nil {
			return b[:0]
		}
	}
	return make([]byte, 0, 1<<c)
}

func (p *bufferPool) put(b []byte) {
	if cap(b) < minPooled || cap(b) > maxPooled {
		return
	}
	c := bits.Len(uint(cap(b))) - 1 // all of the class have at least this room
	p.mu.Lock()
	defer p.mu.Unlock()
	// What was of use last will be again: others make room.
	for k := len(p.free) - 1; k >= 0 && p.held+cap(b) > maxHeld; k-- {
		for k != c && p.held+cap(b) > maxHeld && p.pop(k) != nil {
		}
	}
	if p.held+cap(b) > maxHeld {
		return
	}
	p.held += cap(b)
	p.free[c] = append(p.free[c], b)
}

// pop takes a buffer of a class, nil if there is none. The caller holds the lock.
func (p *bufferPool) pop(class int) []byte {
	list := p.free[class]
	if len(list) == 0 {
		return nil
	}
	b := list[len(list)-1]
	list[len(list)-1] = nil
	p.free[class] = list[:len(list)-1]
	p.held -= cap(b)
	return b
}
