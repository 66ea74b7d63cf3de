package rrd

import "testing"

func TestBufferPool(t *testing.T) {
	var p bufferPool
	for n := 1; n <= maxPooled+1; n += n/7 + 1 {
		b := p.get(n)
		if cap(b) < n || len(b) != 0 {
			t.Fatalf("get(%d): room for %d, length %d", n, cap(b), len(b))
		}
		if want := max(n+n/4+1, minPooled); cap(b) > want && n <= maxPooled {
			t.Errorf("get(%d): room for %d", n, cap(b))
		}
		p.put(b)
		if p.held > maxHeld {
			t.Fatalf("holds %d bytes", p.held)
		}
		again := p.get(n)
		if n >= minPooled && cap(b) <= maxHeld && cap(again) != cap(b) {
			t.Errorf("get(%d): not the buffer that was put", n)
		}
	}
}
