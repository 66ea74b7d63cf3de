package mcap

import (
	"context"
	"errors"
	"slices"

	"github.com/reelhouse/reelhouse/chunk"
	"github.com/reelhouse/reelhouse/source/internal/mcapfile"
)

// runTails runs the tail decoders.
func (s *scan) runTails(ctx context.Context, emit func(*chunk.Chunk)) error {
	for _, d := range tailDecoders {
		if !s.selected(d.name) {
			continue
		}
		var last []lastMessage
		for _, c := range s.file.Channels {
			if !d.wants(c) || !s.wants(c) {
				continue
			}
			data, err := s.lastWhole(ctx, c.ID, d.whole)
			if err != nil {
				return err
			}
			if data != nil {
				last = append(last, lastMessage{c, data})
			}
		}
		if len(last) > 0 {
			d.run(s, last, emit)
		}
	}
	return nil
}

// lastWhole finds a channel's last message that can be used, from the last block
// backwards; nil if there is none. Faults were reported when blocks were decoded.
func (s *scan) lastWhole(ctx context.Context, channel uint16, whole func([]byte) bool) ([]byte, error) {
	r := s.file.NewReader()
	for i := len(s.file.Blocks) - 1; i >= 0; i-- {
		b := &s.file.Blocks[i]
		if len(b.Channels) > 0 && !slices.Contains(b.Channels, channel) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		data, err := r.Load(b)
		if errors.Is(err, mcapfile.ErrRead) {
			return nil, err
		}
		if err != nil && !s.opts.KeepDamaged {
			continue
		}
		var last []byte
		_ = mcapfile.Records(data, func(op mcapfile.Opcode, content []byte) bool {
			if op == mcapfile.OpMessage {
				if m, err := mcapfile.ParseMessage(content); err == nil && m.ChannelID == channel && whole(m.Data) {
					last = m.Data
				}
			}
			return true
		})
		if last != nil {
			return slices.Clone(last), nil
		}
	}
	return nil, nil
}
