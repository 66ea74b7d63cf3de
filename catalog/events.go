package catalog

import (
	"context"
	"sync"
)

// Event says that a data set or table came or went.
type Event struct {
	Created bool // else deleted
	ID      EntryID
	Kind    Kind
}

// events hands events to all who watch.
type events struct {
	mu       sync.Mutex
	watchers map[*watcher]bool
	closed   bool
}

// watcher is one queue. It never blocks the sender; a watcher that does not
// read for maxQueue events is given up.
type watcher struct {
	queue []Event
	ready chan struct{} // has room for one
	lost  bool
}

const maxQueue = 1 << 16

func (e *events) send(ev Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for w := range e.watchers {
		if len(w.queue) >= maxQueue {
			w.lost = true
		} else {
			w.queue = append(w.queue, ev)
		}
		w.wake()
	}
}

func (w *watcher) wake() {
	select {
	case w.ready <- struct{}{}:
	default:
	}
}

func (e *events) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	for w := range e.watchers {
		w.wake()
	}
}

// Watch calls f for each event from now on, in order, until the context ends,
// f fails or the catalog is closed. started is called once nothing can be
// missed any more. The error is that of the context or of f, and nil after the
// catalog is closed.
func (c *Catalog) Watch(ctx context.Context, started func() error, f func(Event) error) error {
	e := &c.events
	w := &watcher{ready: make(chan struct{}, 1)}
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return nil
	}
	if e.watchers == nil {
		e.watchers = map[*watcher]bool{}
	}
	e.watchers[w] = true
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		delete(e.watchers, w)
		e.mu.Unlock()
	}()
	if err := started(); err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.ready:
		}
		e.mu.Lock()
		queue, lost, closed := w.queue, w.lost, e.closed
		w.queue = nil
		e.mu.Unlock()
		for _, ev := range queue {
			if err := f(ev); err != nil {
				return err
			}
		}
		if lost {
			return refuse(ErrPrecondition, "events were read too slowly")
		}
		if closed {
			return nil
		}
	}
}
