package rrd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"

	"github.com/reelhouse/reelhouse/chunk"
	"github.com/reelhouse/reelhouse/internal/arrowipc"
	"github.com/reelhouse/reelhouse/internal/lz4block"
)

// WriterOptions are the options of a [Writer]. The zero value writes what the
// reference does.
type WriterOptions struct {
	NoFooter      bool    // end after the last message, without End and footer
	NoCompression bool    // store all payloads plain
	Version       Version // in the stream header; the zero value means CurrentVersion
	Source        Source  // of stores that are announced by the writer itself

	// Workers is how many chunks are encoded at once; 0 means one a core, 1
	// encodes in WriteChunk itself. Order is kept in any case.
	Workers int
}

// Writer writes one stream to an io.Writer. Errors are sticky: after the first
// one every call returns it. A Writer must be ended by [Writer.Close] or
// [Writer.Abort]. It is not safe for concurrent use.
type Writer struct {
	w       *bufio.Writer
	opt     WriterOptions
	pos     int64
	err     error
	closed  bool
	known   map[StoreID]bool
	builder map[StoreID]*ManifestBuilder
	order   []*ManifestBuilder
	scratch []byte

	pending []*encodeTask // in the order of writing
	cost    int64
	jobs    chan *encodeTask
	workers int
	enc     encoder // of calls without workers
}

// encodeTask is a message on its way: a chunk being encoded, or a function
// that writes what has to wait for chunks before it.
type encodeTask struct {
	chunk *chunk.Chunk
	msg   ArrowMsg
	entry Entry
	buf   []byte
	err   error
	cost  int64
	done  chan struct{}
}

const writeBuffer = 256 << 10

// NewWriter starts a stream on w. Its header is written with the first message.
func NewWriter(w io.Writer, opt WriterOptions) *Writer {
	if (opt.Version == Version{}) {
		opt.Version = CurrentVersion
	}
	wr := &Writer{w: bufio.NewWriterSize(w, writeBuffer), opt: opt, workers: opt.Workers,
		known: map[StoreID]bool{}, builder: map[StoreID]*ManifestBuilder{}}
	if wr.workers <= 0 {
		wr.workers = runtime.GOMAXPROCS(0)
	}
	wr.enc.compress = !opt.NoCompression
	c := CompressionLZ4
	if opt.NoCompression {
		c = CompressionNone
	}
	wr.put(StreamHeader{opt.Version, c}.Append(nil))
	return wr
}

// put writes bytes unless there was an error.
func (w *Writer) put(b []byte) {
	if w.err != nil {
		return
	}
	n, err := w.w.Write(b)
	w.pos += int64(n)
	if err != nil {
		w.err = fmt.Errorf("write recording at byte %d: %w", w.pos, err)
	}
}

func (w *Writer) putHeader(kind Kind, n int64) {
	if w.err == nil && n > MaxPayload {
		w.err = fmt.Errorf("write recording at byte %d: %w: %d bytes", w.pos, ErrTooLarge, n)
	}
	var b [MessageHeaderSize]byte
	w.put(messageHeader{kind, uint64(n)}.append(b[:0]))
}

func (w *Writer) check() error {
	if w.err == nil && w.closed {
		return ErrClosed
	}
	return w.err
}

// Offset is the number of bytes written so far, without chunks that are still
// being encoded.
func (w *Writer) Offset() int64 { return w.pos }

// SetStoreInfo announces a store. Only the first announcement of a store is
// written. Stores that are never announced are when their first chunk comes.
func (w *Writer) SetStoreInfo(info StoreInfo) error {
	if err := w.check(); err != nil {
		return err
	}
	info.Store.Application = CleanApplicationID(info.Store.Application)
	if info.Store.Application == "" {
		return fmt.Errorf("store info of %v: %w: application id", info.Store, ErrMissingField)
	}
	if w.known[info.Store] {
		return nil
	}
	w.known[info.Store] = true
	w.drain(0)
	if info.RowID.IsZero() {
		info.RowID = chunk.NewTUID()
	}
	info.Version = w.opt.Version
	b := info.Append(nil)
	w.putHeader(KindStoreInfo, int64(len(b)))
	w.put(b)
	return w.err
}

func (w *Writer) announce(store StoreID) error {
	if w.known[store] {
		return nil
	}
	return w.SetStoreInfo(StoreInfo{Store: store, Source: w.opt.Source})
}

// Activate writes a blueprint activation. The blueprint's chunks come before it.
func (w *Writer) Activate(a Activation) error {
	if err := w.check(); err != nil {
		return err
	}
	a.Blueprint.Application = CleanApplicationID(a.Blueprint.Application)
	if err := w.announce(a.Blueprint); err != nil {
		return err
	}
	w.drain(0)
	b := a.Append(nil)
	w.putHeader(KindActivation, int64(len(b)))
	w.put(b)
	return w.err
}

// WriteChunk encodes a chunk and writes it, or has it written later: an error
// may come with a later call. It waits for encoders when many are busy.
func (w *Writer) WriteChunk(ctx context.Context, store StoreID, c *chunk.Chunk) error {
	if err := errors.Join(w.check(), ctx.Err()); err != nil {
		return err
	}
	store.Application = CleanApplicationID(store.Application)
	if err := w.announce(store); err != nil {
		return err
	}
	t := &encodeTask{chunk: c, msg: ArrowMsg{Store: store}, cost: c.SizeBytes()}
	if w.workers == 1 {
		w.enc.encode(t, !w.opt.NoFooter)
		w.finish(t)
		return w.err
	}
	w.start()
	t.done = make(chan struct{})
	w.pending = append(w.pending, t)
	w.cost += t.cost
	w.jobs <- t
	for len(w.pending) > 0 && (len(w.pending) > 2*w.workers || w.cost > inFlight) {
		w.drain(len(w.pending) - 1)
	}
	return w.err
}

// start starts the encoders. Each ends with the jobs channel.
func (w *Writer) start() {
	if w.jobs != nil {
		return
	}
	w.jobs = make(chan *encodeTask, 2*w.workers+2)
	for range w.workers {
		go func(jobs <-chan *encodeTask) {
			enc := encoder{compress: w.enc.compress}
			for t := range jobs {
				enc.encode(t, !w.opt.NoFooter)
				close(t.done)
			}
		}(w.jobs)
	}
}

// drain writes the oldest pending chunks until only n are left.
func (w *Writer) drain(n int) {
	for len(w.pending) > n {
		t := w.pending[0]
		w.pending[0] = nil
		w.pending = w.pending[1:]
		w.cost -= t.cost
		<-t.done
		w.finish(t)
	}
}

// finish writes an encoded chunk.
func (w *Writer) finish(t *encodeTask) {
	if t.err != nil && w.err == nil {
		w.err = fmt.Errorf("write chunk %v of %v: %w", t.chunk.ID(), t.chunk.EntityPath(), t.err)
	}
	w.message(&t.msg, &t.entry)
	payloads.put(t.buf)
	t.buf = nil
}

// message writes an encoded chunk and notes it in the manifest.
func (w *Writer) message(m *ArrowMsg, e *Entry) {
	if w.err != nil {
		return
	}
	w.frame(m, int64(len(m.Payload)), func() { w.put(m.Payload) }, e)
}

// frame writes an encoded chunk whose payload of n bytes put writes.
func (w *Writer) frame(m *ArrowMsg, n int64, put func(), e *Entry) {
	head := m.appendHead(w.scratch[:0], n)
	split := len(head)
	head = m.appendTail(head)
	w.scratch = head
	n += int64(len(head))
	w.putHeader(KindArrow, n)
	at := w.pos
	w.put(head[:split])
	put()
	w.put(head[split:])
	if w.opt.NoFooter || w.err != nil {
		return
	}
	e.Offset, e.Size, e.UncompressedSize = at, uint64(n), m.UncompressedSize
	w.note(m.Store, e)
}

// note adds a chunk to the manifest of its store.
func (w *Writer) note(store StoreID, e *Entry) {
	b := w.builder[store]
	if b == nil {
		b = NewManifestBuilder(store)
		w.builder[store] = b
		w.order = append(w.order, b)
	}
	b.Add(e)
}

// WriteEncoded writes a chunk as it was stored elsewhere, for the store that m
// names. The entry describes it for the footer; its place is filled in. Without
// a footer it may be nil.
func (w *Writer) WriteEncoded(m *ArrowMsg, e *Entry) error {
	if err := w.check(); err != nil {
		return err
	}
	if e == nil && !w.opt.NoFooter {
		return fmt.Errorf("write chunk: %w: no entry for the footer", ErrManifest)
	}
	msg := *m
	msg.Store.Application = CleanApplicationID(msg.Store.Application)
	if err := w.announce(msg.Store); err != nil {
		return err
	}
	w.drain(0)
	if e == nil {
		w.message(&msg, nil)
		return w.err
	}
	msg.ChunkID, msg.HasChunkID = e.ID, true
	msg.Static, msg.HasStatic = e.Static, true
	entry := *e
	w.message(&msg, &entry)
	return w.err
}

// Flush writes all that is pending to the underlying writer.
func (w *Writer) Flush() error {
	if err := w.check(); err != nil {
		return err
	}
	w.drain(0)
	return w.flush()
}

func (w *Writer) flush() error {
	if w.err == nil {
		if err := w.w.Flush(); err != nil {
			w.err = fmt.Errorf("write recording: %w", err)
		}
	}
	return w.err
}

// Close writes what is pending and the footer. It does not close the
// underlying writer. A second call returns [ErrClosed].
func (w *Writer) Close() error {
	if w.closed {
		return errors.Join(ErrClosed, w.err)
	}
	w.drain(0)
	w.stop()
	if !w.opt.NoFooter {
		w.footer()
	}
	return w.flush()
}

// Abort ends the encoders and leaves the stream as it is. After Close it does
// nothing.
func (w *Writer) Abort() {
	for _, t := range w.pending {
		<-t.done
	}
	w.pending = nil
	w.stop()
}

func (w *Writer) stop() {
	w.closed = true
	if w.jobs != nil {
		close(w.jobs)
		w.jobs = nil
	}
}

func (w *Writer) footer() {
	var payload []byte
	for _, b := range w.order {
		var err error
		if payload, err = b.appendProto(payload, !w.opt.NoCompression); err != nil && w.err == nil {
			w.err = fmt.Errorf("write footer of %v: %w", b.store, err)
		}
	}
	w.putHeader(KindEnd, int64(len(payload)))
	f := streamFooter{uint64(w.pos), uint64(len(payload)), footerChecksum(payload)}
	w.put(payload)
	w.put(f.append(nil))
}

// encoder turns chunks into messages.
type encoder struct {
	compress bool
	lz4      lz4block.Compressor
}

func (enc *encoder) encode(t *encodeTask, entry bool) {
	if entry {
		t.entry = NewEntry(t.chunk)
	}
	stream := payloads.get(int(t.cost) + 4<<10)
	stream, t.err = arrowipc.AppendBatch(stream, t.chunk.RecordBatch())
	if t.err != nil {
		return
	}
	t.msg = ArrowMsg{Store: t.msg.Store, UncompressedSize: uint64(len(stream)), Compression: CompressionNone, Payload: stream,
		ChunkID: t.chunk.ID(), HasChunkID: true, Static: t.chunk.IsStatic(), HasStatic: true}
	t.buf = stream
	if !enc.compress || !enc.shrinks(stream) {
		return
	}
	block := payloads.get(len(stream))
	block = block[:len(stream)]
	n := enc.lz4.Compress(stream, block[:len(stream)-len(stream)/64])
	if n == 0 {
		payloads.put(block)
		return
	}
	payloads.put(stream)
	t.buf = block
	t.msg.Payload, t.msg.Compression = block[:n], CompressionLZ4
}

// EncodeChunk encodes a chunk into a message of a store, compressed if that
// shrinks it and compress is set.
func EncodeChunk(store StoreID, c *chunk.Chunk, compress bool) (ArrowMsg, error) {
	t := encodeTask{chunk: c, msg: ArrowMsg{Store: store}, cost: c.SizeBytes()}
	enc := encoder{compress: compress}
	enc.encode(&t, false)
	return t.msg, t.err
}

const (
	probeMin  = 256 << 10
	probeSize = 16 << 10
)

// shrinks tries a few pieces of a large payload: compressing what does not
// shrink costs more than all the rest of writing.
func (enc *encoder) shrinks(stream []byte) bool {
	if len(stream) < probeMin {
		return true
	}
	block := payloads.get(probeSize)[:probeSize-probeSize/32]
	defer payloads.put(block)
	for i := range 5 {
		at := (len(stream) - probeSize) / 4 * i
		if enc.lz4.Compress(stream[at:at+probeSize], block) > 0 {
			return true
		}
	}
	return false
}
