package server

import (
	"context"
	"sync/atomic"
	"time"
)

// liveness is what readers need to know of live streams.
type liveness struct {
	open atomic.Int64 // streams
	last atomic.Int64 // unix time in ns of the last message
}

const (
	settleQuiet = 3 * time.Millisecond
	settleMax   = 25 * time.Millisecond
)

// settle waits a moment for live messages that are on their way, while streams
// are open. The protocol has no acknowledgement: a client that has flushed a
// stream and then asks for its data on another connection would else race
// against its own messages.
func (l *liveness) settle(ctx context.Context) {
	if l.open.Load() == 0 {
		return
	}
	start := time.Now()
	for {
		quiet := min(time.Since(start), time.Since(time.Unix(0, l.last.Load())))
		if quiet >= settleQuiet || time.Since(start) >= settleMax {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(settleQuiet - quiet):
		}
	}
}
