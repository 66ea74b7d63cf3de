package mcap

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/reelhouse/reelhouse/chunk"
	"github.com/reelhouse/reelhouse/source/internal/columnar"
	"github.com/reelhouse/reelhouse/source/internal/mcapfile"
)

// Limits of one output chunk's input: columns have 32 bit offsets, and what is
// decoded may be larger than what is read.
const (
	maxBatch   = 256 << 20 // bytes of messages after which a further chunk is begun
	maxMessage = 1 << 30   // a longer message is lost
)

// scan is one run over the file.
type scan struct {
	opts   *settings
	file   *mcapfile.File
	report *report
	fatal  atomic.Pointer[error] // first loss with Options.Strict

	channels []*channelState // by id, nil if not read
	ordered  []*channelState // in the order of output within an MCAP chunk
}

// channelState is a channel that is read.
type channelState struct {
	channel *mcapfile.Channel
	entity  chunk.EntityPath
	decoder channelDecoder
	rank    int
	slot    int // position in scan.ordered
}

func (s *scan) selected(decoder string) bool { return s.opts.selected(decoder) }

// run is the body of [Reader.Chunks].
func (s *scan) run(ctx context.Context, yield func(*chunk.Chunk, error) bool) {
	stopped := false
	emit := func(c *chunk.Chunk) {
		if !stopped {
			s.report.update(func(r *Report) { r.Chunks++; r.Rows += uint64(c.NumRows()) })
			stopped = !yield(c, nil)
		}
	}
	failed := func(err error) bool {
		if p := s.fatal.Load(); err == nil && p != nil {
			err = *p
		}
		if err != nil && !stopped {
			stopped = true
			yield(nil, err)
		}
		return stopped
	}
	if failed(s.choose()) {
		return
	}
	for _, d := range fileDecoders {
		if s.selected(d.name) {
			d.run(s, emit)
			if failed(ctx.Err()) {
				return
			}
		}
	}
	err := s.blocks(ctx, func(r *result) bool {
		for _, c := range r.chunks {
			emit(c)
		}
		return !failed(r.err)
	})
	if failed(err) {
		return
	}
	failed(s.runTails(ctx, emit))
}

// choose finds a decoder for each channel of a selected topic that has messages.
func (s *scan) choose() error {
	for _, c := range s.file.Channels {
		if !s.wants(c) {
			continue
		}
		state := &channelState{channel: c, entity: chunk.ParseEntityPath(c.Topic)}
		name, err := s.assign(state)
		if err != nil {
			return fmt.Errorf("topic %s: %w", c.Topic, err)
		}
		s.report.channel(c, name)
		if state.decoder == nil {
			continue
		}
		for int(c.ID) >= len(s.channels) {
			s.channels = append(s.channels, nil)
		}
		s.channels[c.ID] = state
	}
	for rank := range len(messageDecoders) {
		for _, state := range s.channels {
			if state != nil && state.rank == rank {
				state.slot = len(s.ordered)
				s.ordered = append(s.ordered, state)
			}
		}
	}
	return nil
}

// wants tells whether a channel is selected and has messages.
func (s *scan) wants(c *mcapfile.Channel) bool {
	return s.opts.wantsTopic(c.Topic) && s.hasMessages(c.ID)
}

func (s *scan) hasMessages(id uint16) bool {
	if st := s.file.Statistics; st != nil && st.ChannelMessageCounts[id] > 0 {
		return true
	} else if st != nil && s.file.Source == mcapfile.Embedded {
		return false
	}
	for _, b := range s.file.Blocks {
		for _, x := range b.Channels {
			if x == id {
				return true
			}
		}
	}
	return false
}

// assign gives a channel to the first selected decoder that supports it.
func (s *scan) assign(state *channelState) (name string, err error) {
	c := state.channel
	if c.MessageEncoding == "" {
		s.warnOnce("topic %s: the message encoding is empty", c.Topic)
	}
	if c.Schema == nil {
		s.warnOnce("topic %s: the channel has no schema", c.Topic)
	}
	others := false
	for _, d := range messageDecoders {
		if !s.selected(d.name) {
			continue
		}
		if d.name == rawName && s.opts.NoRawFallback && others {
			continue
		}
		others = true
		decoder, err := d.channel(s, c)
		if err != nil {
			return "", fmt.Errorf("%s decoder: %w", d.name, err)
		}
		if decoder != nil {
			state.decoder, state.rank = decoder, d.rank
			return d.name, nil
		}
	}
	return "", nil
}

// result is what a block became.
type result struct {
	chunks []*chunk.Chunk
	err    error
}

// blocks decodes the blocks of messages, several at a time, and hands the
// results over in order until yield returns false.
func (s *scan) blocks(ctx context.Context, yield func(*result) bool) error {
	blocks := s.selectBlocks()
	workers := min(s.opts.Workers, len(blocks))
	if workers <= 1 {
		w := s.newWorker()
		for _, b := range blocks {
			if err := ctx.Err(); err != nil {
				return err
			}
			r := w.decode(b)
			if !yield(&r) {
				return nil
			}
		}
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	type task struct {
		block *mcapfile.Block
		done  chan result
	}
	// A slot is taken before a block is read and given back when its chunks are
	// delivered, which bounds what is in memory.
	slots := make(chan struct{}, workers+1)
	tasks, order := make(chan task), make(chan task, workers+1)
	wg.Go(func() {
		defer close(tasks)
		defer close(order)
		for _, b := range blocks {
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				return
			}
			t := task{b, make(chan result, 1)}
			order <- t
			select {
			case tasks <- t:
			case <-ctx.Done():
				return
			}
		}
	})
	for range workers {
		wg.Go(func() {
			w := s.newWorker()
			for t := range tasks {
				t.done <- w.decode(t.block)
			}
		})
	}
	for t := range order {
		select {
		case r := <-t.done:
			if !yield(&r) {
				return nil
			}
			<-slots
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return ctx.Err()
}

// selectBlocks leaves out blocks that need not be read.
func (s *scan) selectBlocks() []*mcapfile.Block {
	var out []*mcapfile.Block
	if len(s.ordered) == 0 {
		return nil
	}
	for i := range s.file.Blocks {
		b := &s.file.Blocks[i]
		if b.HasTimes && !s.overlaps(b.StartTime, b.EndTime) {
			s.report.update(func(r *Report) { r.SkippedChunks++ })
			continue
		}
		wanted := len(b.Channels) == 0
		for _, id := range b.Channels {
			wanted = wanted || int(id) < len(s.channels) && s.channels[id] != nil
		}
		if wanted {
			out = append(out, b)
		}
	}
	return out
}

// overlaps tells whether any time from lo to hi, both inclusive, is in range.
func (s *scan) overlaps(lo, hi uint64) bool {
	if start := s.opts.Start; start != nil && hi < uint64(*start) {
		return false
	}
	if end := s.opts.End; end != nil && lo >= uint64(*end) {
		return false
	}
	return true
}

// worker decodes blocks, one at a time.
type worker struct {
	s        *scan
	reader   *mcapfile.Reader
	messages []mcapfile.Message
	open     []openBatch // by channel slot
}

// openBatch is the batch of a channel in the block at hand.
type openBatch struct {
	batch        batch
	messages     int // in the block
	size         int // their bytes
	filled       int // bytes of messages added to the batch
	log, publish []int64
	lost         uint64
	done         uint64
	chunks       []*chunk.Chunk
}

func (s *scan) newWorker() *worker {
	return &worker{s: s, reader: s.file.NewReader(), open: make([]openBatch, len(s.ordered))}
}

func (w *worker) decode(b *mcapfile.Block) (r result) {
	s := w.s
	data, err := w.reader.Load(b)
	if err != nil {
		if errors.Is(err, mcapfile.ErrRead) {
			r.err = err
			return r
		}
		s.report.update(func(r *Report) { r.DamagedChunks++ })
		s.failOnce("%v", err)
		if !s.opts.KeepDamaged {
			return r
		}
	}
	if err := w.index(data); err != nil {
		s.report.update(func(r *Report) { r.DamagedChunks++ })
		s.failOnce("block at offset %d: %v", b.Offset, err)
	}
	for i := range w.messages {
		m := &w.messages[i]
		state := s.channels[m.ChannelID]
		w.add(state, m)
	}
	for slot, state := range s.ordered {
		o := &w.open[slot]
		w.finish(state)
		r.chunks = append(r.chunks, o.chunks...)
		if o.done+o.lost > 0 {
			s.report.count(state.channel.ID, o.done, o.lost)
		}
		*o = openBatch{}
	}
	return r
}

// index finds the messages to decode, and how many there are of each channel.
func (w *worker) index(data []byte) error {
	w.messages = w.messages[:0]
	s := w.s
	var bad error
	err := mcapfile.Records(data, func(op mcapfile.Opcode, content []byte) bool {
		if op != mcapfile.OpMessage {
			return true
		}
		m, err := mcapfile.ParseMessage(content)
		if err != nil {
			bad = err
			return true
		}
		if int(m.ChannelID) >= len(s.channels) || s.channels[m.ChannelID] == nil || !s.overlaps(m.LogTime, m.LogTime) {
			return true
		}
		w.messages = append(w.messages, m)
		o := &w.open[s.channels[m.ChannelID].slot]
		o.messages++
		o.size += len(m.Data)
		return true
	})
	return errors.Join(err, bad)
}

func (w *worker) add(state *channelState, m *mcapfile.Message) {
	o := &w.open[state.slot]
	if o.batch != nil && len(o.log) > 0 && o.filled+len(m.Data) > maxBatch {
		w.finish(state)
	}
	if len(m.Data) > maxMessage {
		w.lose(state, fmt.Errorf("%d bytes are above the limit of %d", len(m.Data), maxMessage))
		return
	}
	if o.batch == nil {
		o.batch = state.decoder.begin(o.messages, min(o.size, maxBatch))
		o.log, o.publish = make([]int64, 0, o.messages), make([]int64, 0, o.messages)
	}
	rows := len(o.log)
	if err := columnar.Guard(func() error { return o.batch.add(m) }); err != nil {
		o.batch.undo(rows)
		w.lose(state, err)
		return
	}
	o.filled += len(m.Data)
	o.log = append(o.log, clampTime(m.LogTime))
	o.publish = append(o.publish, clampTime(m.PublishTime))
	o.done++
}

func (w *worker) lose(state *channelState, err error) {
	w.open[state.slot].lost++
	w.s.failOnce("topic %s: message lost: %v", state.channel.Topic, err)
}

// finish makes chunks of the open batch of a channel.
func (w *worker) finish(state *channelState) {
	o := &w.open[state.slot]
	if o.batch == nil {
		return
	}
	if len(o.log) > 0 {
		out := output{s: w.s, channel: state.channel, entity: state.entity, log: o.log, publish: o.publish}
		err := columnar.Guard(func() error {
			o.batch.finish(&out)
			return nil
		})
		if err != nil {
			w.s.failOnce("topic %s: %v", state.channel.Topic, err)
		}
		o.chunks = append(o.chunks, out.chunks...)
	}
	o.batch, o.filled, o.log, o.publish = nil, 0, nil, nil
}
