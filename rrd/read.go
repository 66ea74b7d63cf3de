package rrd

import (
	"context"
	"errors"
	"io"
	"iter"
	"runtime"

	"github.com/reelhouse/reelhouse/chunk"
)

// ReadOptions are the options of [Read] and [Chunks].
type ReadOptions struct {
	ScanOptions

	// Want chooses the messages of [KindArrow] that are decoded; nil means
	// all. [Read] yields the others undecoded, [Chunks] leaves them out.
	Want func(*ArrowMsg) bool

	// Reuse lets a chunk live only until the next item is asked for, as a
	// message's payload always does, so that few buffers serve the whole input.
	Reuse bool

	// Workers is how many chunks are decoded at once; 0 means one a core, 1
	// none ahead of what was asked for. Order is kept in any case.
	Workers int
}

// Item is a message with its chunk, if it has one that was wanted.
type Item struct {
	Message
	Chunk *chunk.Chunk
}

// inFlight bounds the stored and decompressed bytes of chunks decoded ahead.
const inFlight = 12 << 20

// Chunks streams the chunks of a recording in file order. The first error ends it.
func Chunks(ctx context.Context, r io.Reader, opt ReadOptions) iter.Seq2[*chunk.Chunk, error] {
	return func(yield func(*chunk.Chunk, error) bool) {
		for item, err := range Read(ctx, r, opt) {
			if err != nil {
				yield(nil, err)
				return
			}
			if item.Chunk != nil && !yield(item.Chunk, nil) {
				return
			}
		}
	}
}

// Read streams the messages of a recording in file order with decoded chunks.
// An error does not end it unless it is Fatal: who goes on gets what lies
// behind the fault. A chunk that does not decode gives both its message and the
// error. Errors are of type [*Error] or the context's.
func Read(ctx context.Context, r io.Reader, opt ReadOptions) iter.Seq2[*Item, error] {
	return func(yield func(*Item, error) bool) {
		p := newPipeline(opt)
		defer p.stop()
		s := NewScanner(r, opt.ScanOptions)
		for {
			// Read ahead as long as the oldest message is in work and there is room.
			for s.err == nil && !p.ready() {
				if err := ctx.Err(); err != nil {
					yield(nil, err)
					return
				}
				m, err := s.Next()
				if errors.Is(err, io.EOF) {
					break
				}
				p.push(m, err)
			}
			t := p.pop()
			if t == nil {
				return
			}
			if err := ctx.Err(); err != nil {
				yield(nil, err)
				return
			}
			if t.failed { // to scan, there is no message
				if !yield(nil, t.err) {
					return
				}
				continue
			}
			if !yield(&t.item, t.err) {
				return
			}
			p.recycle(t)
		}
	}
}

// task is one message on its way through the pipeline.
type task struct {
	item    Item
	err     error
	failed  bool
	done    chan struct{} // closed when decoded; nil if there is nothing to decode
	payload []byte        // the buffer of the message, to be pooled
	buf     Buffer
	cost    int
}

// pipeline decodes messages on several cores and hands them out in order.
type pipeline struct {
	opt     ReadOptions
	dec     Decoder
	queue   []*task
	cost    int
	workers int
	jobs    chan *task
}

func newPipeline(opt ReadOptions) *pipeline {
	p := &pipeline{opt: opt, workers: opt.Workers}
	if p.workers <= 0 {
		p.workers = runtime.GOMAXPROCS(0)
	}
	if p.workers > 1 {
		p.jobs = make(chan *task, 2*p.workers)
		for range p.workers {
			go func() {
				for t := range p.jobs {
					p.decode(t)
					close(t.done)
				}
			}()
		}
	}
	return p
}

// stop ends the workers. Those at work finish their chunk and touch nothing else.
func (p *pipeline) stop() {
	if p.jobs != nil {
		close(p.jobs)
	}
	for _, t := range p.queue {
		if t.done != nil {
			<-t.done
		}
	}
}

// ready reports whether the oldest task should be taken before more is read.
func (p *pipeline) ready() bool {
	if len(p.queue) == 0 {
		return false
	}
	if len(p.queue) >= 2*p.workers || p.cost >= inFlight || p.workers == 1 {
		return true
	}
	t := p.queue[0]
	if t.done == nil {
		return true
	}
	select {
	case <-t.done:
		return true
	default:
		return false
	}
}

func (p *pipeline) push(m *Message, err error) {
	if err != nil {
		p.queue = append(p.queue, &task{err: err, failed: true})
		return
	}
	t := &task{item: Item{Message: *m}, payload: m.detach(), cost: len(m.Payload)}
	t.item.owner = nil
	if m.Kind == KindArrow && (p.opt.Want == nil || p.opt.Want(&m.Arrow)) {
		if m.Arrow.Compression == CompressionLZ4 {
			t.cost += int(min(m.Arrow.UncompressedSize, 255*uint64(len(m.Payload))))
		}
		if p.jobs == nil {
			p.decode(t)
		} else {
			t.done = make(chan struct{})
			p.jobs <- t
		}
	}
	p.cost += t.cost
	p.queue = append(p.queue, t)
}

func (p *pipeline) decode(t *task) {
	var buf *Buffer
	if p.opt.Reuse {
		buf = &t.buf
	}
	m := &t.item.Message
	if !p.opt.Reuse && m.Arrow.Compression != CompressionLZ4 {
		// The chunk is kept, the buffer, which may be far larger, is not.
		m.Arrow.Payload = append(make([]byte, 0, len(m.Arrow.Payload)), m.Arrow.Payload...)
	}
	c, err := p.dec.Chunk(&m.Arrow, buf)
	if err != nil {
		t.err = &Error{File: p.opt.Name, Offset: m.Offset, Part: PartChunk, Err: err, Fatal: p.opt.Strict}
		return
	}
	t.item.Chunk = c
}

func (p *pipeline) pop() *task {
	if len(p.queue) == 0 {
		return nil
	}
	t := p.queue[0]
	p.queue[0] = nil
	p.queue = p.queue[1:]
	p.cost -= t.cost
	if t.done != nil {
		<-t.done
	}
	return t
}

// recycle pools the buffers of a message that is no longer looked at.
func (p *pipeline) recycle(t *task) {
	payloads.put(t.payload)
	t.buf.Release()
	t.item = Item{}
}
