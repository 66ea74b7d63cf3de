package mcap

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/reelhouse/reelhouse/source/internal/mcapfile"
)

// Report counts what a reader did.
type Report struct {
	Source        string          `json:"source"`         // see Info.Source
	Messages      uint64          `json:"messages"`       // decoded into rows
	Lost          uint64          `json:"lost"`           // selected messages that could not be decoded
	Chunks        int             `json:"chunks"`         // emitted
	Rows          uint64          `json:"rows"`           // in them
	DamagedChunks int             `json:"damaged_chunks"` // MCAP chunks with a fault
	SkippedChunks int             `json:"skipped_chunks"` // MCAP chunks outside the time range, not read
	Channels      []ChannelReport `json:"channels"`       // of selected topics, by topic and id
	Warnings      []string        `json:"warnings"`       // each text once, in order of time
}

// ChannelReport counts the messages of a channel.
type ChannelReport struct {
	Topic    string `json:"topic"`
	ID       uint16 `json:"id"`
	Decoder  string `json:"decoder"` // empty if no selected decoder supports the channel
	Messages uint64 `json:"messages"`
	Lost     uint64 `json:"lost"`
}

// report collects a Report from several goroutines.
type report struct {
	log *slog.Logger

	mu       sync.Mutex
	total    Report
	channels map[uint16]*ChannelReport
	seen     map[string]bool
}

// maxWarnings bounds the memory that warnings of a hostile file take.
const maxWarnings = 1000

func newReport(f *mcapfile.File, log *slog.Logger) *report {
	return &report{log: log, total: Report{Source: f.Source.String()}, channels: map[uint16]*ChannelReport{}, seen: map[string]bool{}}
}

func (r *report) warnOnce(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen[text] || len(r.seen) >= maxWarnings {
		return
	}
	r.seen[text] = true
	r.total.Warnings = append(r.total.Warnings, text)
	r.log.Warn(text)
}

func (r *report) channel(c *mcapfile.Channel, decoder string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.channels[c.ID] == nil {
		r.channels[c.ID] = &ChannelReport{Topic: c.Topic, ID: c.ID, Decoder: decoder}
	}
}

func (r *report) count(channel uint16, messages, lost uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.channels[channel]; c != nil {
		c.Messages += messages
		c.Lost += lost
	}
	r.total.Messages += messages
	r.total.Lost += lost
}

func (r *report) update(f func(*Report)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(&r.total)
}

func (r *report) snapshot() Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.total
	out.Warnings = append([]string{}, out.Warnings...)
	out.Channels = []ChannelReport{}
	for _, id := range slices.Sorted(maps.Keys(r.channels)) {
		out.Channels = append(out.Channels, *r.channels[id])
	}
	slices.SortStableFunc(out.Channels, func(a, b ChannelReport) int { return strings.Compare(a.Topic, b.Topic) })
	return out
}

// warnOnce reports something that the user should know; each text once.
func (s *scan) warnOnce(format string, args ...any) {
	s.report.warnOnce(fmt.Sprintf(format, args...))
}

// failOnce reports that something of the file is lost. With Options.Strict the
// stream ends.
func (s *scan) failOnce(format string, args ...any) {
	err := fmt.Errorf(format, args...)
	s.report.warnOnce(err.Error())
	if s.opts.Strict {
		s.fatal.CompareAndSwap(nil, &err)
	}
}
