package rrd

import (
	"math/bits"
	"sync"
)

// bufferPool keeps byte slices by size class, four to a power of two, so that a
// stream of chunks runs in a fixed set of buffers. Unlike a sync.Pool it does
// not lose them with every garbage collection, and holds a bounded number of
// bytes.
type bufferPool struct {
	mu   sync.Mutex
	free [64][][]byte // by class: all of one have at least its room
	held int          // bytes in free
}

// payloads are the buffers of stored payloads and, where the caller does not
// keep chunks, of decompressed ones.
var payloads bufferPool

const (
	minPooled = 4 << 10
	maxPooled = 64 << 20
	// maxHeld is more than what inFlight bytes of work take at any time, so
	// that buffers are not dropped and made anew in turn.
	maxHeld = 32 << 20
)

// class is the greatest class whose room is at most n, which is at least
// minPooled, and the room of that class.
func class(n int) (c, room int) {
	exp := bits.Len(uint(n)) - 1
	quarter := n >> (exp - 2) & 3
	return 4*(exp-bits.Len(minPooled)+1) + quarter, (4 + quarter) << (exp - 2)
}

// get returns an empty slice with room for n bytes.
func (p *bufferPool) get(n int) []byte {
	n = max(n, minPooled)
	if n > maxPooled {
		return make([]byte, 0, n)
	}
	c, room := class(n)
	if room < n {
		c++
		room += 1 << (bits.Len(uint(n)) - 3) // a quarter of the power of two
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	// A free buffer up to twice as large is better than a new one.
	for k := c; k < min(c+5, len(p.free)); k++ {
		if b := p.pop(k); b != nil {
			return b[:0]
		}
	}
	return make([]byte, 0, room)
}

func (p *bufferPool) put(b []byte) {
	if cap(b) < minPooled || cap(b) > maxPooled {
		return
	}
	c, _ := class(cap(b))
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
