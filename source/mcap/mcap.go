// Package mcap reads MCAP files as chunks: one chunk for the messages of a
// channel in one MCAP chunk, decoded to archetypes or to Arrow structs.
//
// Semantics follow spec/readers.md sections 0 and 1; where the peer loses data
// (unchunked and unindexed files, damaged chunks, point clouds with a tail) all
// that is whole is read, and [Reader.Report] tells what is not.
package mcap

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"log/slog"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/reelhouse/reelhouse/chunk"
	"github.com/reelhouse/reelhouse/source/internal/mcapfile"
)

// Errors that callers decide on.
var (
	ErrNotMCAP    = mcapfile.ErrNotMCAP // the file does not start like an MCAP file
	ErrSummary    = mcapfile.ErrSummary // damaged file; Options.Recover reads what is left
	ErrOption     = errors.New("invalid option")
	ErrNoMessages = errors.New("MCAP file contains no messages")
)

// Options of a [Reader]. The zero value reads everything.
type Options struct {
	// TimelineType is the kind of all time columns: chunk.Timestamp, which is the
	// default, or chunk.Duration.
	TimelineType chunk.TimeKind
	// TimestampOffset, in nanoseconds, is added to all timestamps of time columns;
	// durations stay.
	TimestampOffset int64
	// Decoders are the names of the decoders to use, of those in [Decoders]; nil
	// means all.
	Decoders []string
	// IncludeTopics and ExcludeTopics are regular expressions, not anchored. A
	// topic is read if any of the first matches, or there are none, and none of
	// the second.
	IncludeTopics, ExcludeTopics []string
	// Start and End bound the log time of messages in nanoseconds, before the
	// offset: from Start on, before End. Nil is open.
	Start, End *int64
	// Recover reads a file with a missing or damaged summary up to the damage.
	Recover bool
	// KeepDamaged keeps the messages of chunks whose checksum is wrong, values as
	// they are; without it such chunks are left out.
	KeepDamaged bool
	// NoRawFallback leaves channels out that only the raw decoder supports, unless
	// it is the only message decoder.
	NoRawFallback bool
	// Strict makes anything that cannot be read an error that ends the stream.
	Strict bool
	// Logger gets warnings, each text once; nil discards them.
	Logger *slog.Logger
	// Workers is the number of MCAP chunks that are decoded at a time; 0 means one
	// a processor.
	Workers int
}

// Decoders lists the names of all decoders in order.
func Decoders() []string {
	var names []string
	for _, d := range fileDecoders {
		names = append(names, d.name)
	}
	for _, d := range messageDecoders {
		names = append(names, d.name)
	}
	for _, d := range lensSets {
		names = append(names, d.decoder)
	}
	for _, d := range tailDecoders {
		names = append(names, d.name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// settings are checked options.
type settings struct {
	Options
	decoders         map[string]bool
	include, exclude []*regexp.Regexp
}

func (o Options) check() (*settings, error) {
	s := &settings{Options: o, decoders: map[string]bool{}}
	switch o.TimelineType {
	case 0:
		s.TimelineType = chunk.Timestamp
	case chunk.Timestamp, chunk.Duration:
	default:
		return nil, fmt.Errorf("%w: timeline type %v is neither timestamp nor duration", ErrOption, o.TimelineType)
	}
	valid := Decoders()
	names := o.Decoders
	if names == nil {
		names = valid
	}
	for _, name := range names {
		if !slices.Contains(valid, name) {
			return nil, fmt.Errorf("%w: unknown decoder %q, valid are %s", ErrOption, name, strings.Join(valid, ", "))
		}
		s.decoders[name] = true
	}
	compile := func(what string, patterns []string) ([]*regexp.Regexp, error) {
		var out []*regexp.Regexp
		for _, p := range patterns {
			re, err := regexp.Compile(p)
			if err != nil {
				return nil, fmt.Errorf("%w: %s topic regex %q: %w", ErrOption, what, p, err)
			}
			out = append(out, re)
		}
		return out, nil
	}
	err := checkRange(o.Start, o.End)
	if err != nil {
		return nil, err
	}
	if s.include, err = compile("include", o.IncludeTopics); err != nil {
		return nil, err
	}
	if s.exclude, err = compile("exclude", o.ExcludeTopics); err != nil {
		return nil, err
	}
	if s.Logger == nil {
		s.Logger = slog.New(slog.DiscardHandler)
	}
	if s.Workers <= 0 {
		s.Workers = runtime.GOMAXPROCS(0)
	}
	return s, nil
}

// checkRange refuses bounds that no log time meets.
func checkRange(start, end *int64) error {
	switch {
	case start != nil && *start < 0:
		return fmt.Errorf("%w: start time %d is negative", ErrOption, *start)
	case end != nil && *end < 0:
		return fmt.Errorf("%w: end time %d is negative", ErrOption, *end)
	case start != nil && end != nil && *start >= *end:
		return fmt.Errorf("%w: start time %d is not before end time %d", ErrOption, *start, *end)
	}
	return nil
}

func (s *settings) selected(decoder string) bool { return s.decoders[decoder] }

// wantsTopic applies the topic filters.
func (s *settings) wantsTopic(topic string) bool {
	matches := func(re *regexp.Regexp) bool { return re.MatchString(topic) }
	return (len(s.include) == 0 || slices.ContainsFunc(s.include, matches)) && !slices.ContainsFunc(s.exclude, matches)
}

// Reader reads one MCAP file. It may be used concurrently.
type Reader struct {
	file   *mcapfile.File
	opts   *settings
	closer io.Closer
	report *report
}

// Open opens a file. Bad options, a missing file and a file whose table of
// contents cannot be read are errors.
func Open(path string, o Options) (*Reader, error) {
	s, err := o.check()
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("MCAP file not found: %w", err)
	}
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = &fs.PathError{Op: "read", Path: path, Err: errors.New("is a directory")}
	}
	var r *Reader
	if err == nil {
		if r, err = open(f, info.Size(), s); err != nil {
			err = fmt.Errorf("%s: %w", path, err)
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	r.closer = f
	return r, nil
}

// New reads a file of size bytes, of which several parts may be read at a time.
func New(r io.ReaderAt, size int64, o Options) (*Reader, error) {
	s, err := o.check()
	if err != nil {
		return nil, err
	}
	return open(r, size, s)
}

func open(r io.ReaderAt, size int64, s *settings) (*Reader, error) {
	f, err := mcapfile.Open(r, size, mcapfile.Options{Recover: s.Recover})
	if err != nil {
		return nil, err
	}
	rep := newReport(f, s.Logger)
	for _, w := range f.Warnings {
		rep.warnOnce(w)
	}
	return &Reader{file: f, opts: s, report: rep}, nil
}

// Close closes a file that was opened by [Open].
func (r *Reader) Close() error {
	if r.closer == nil {
		return nil
	}
	return r.closer.Close()
}

// Between is the reader with other bounds of the log time; see [Options]. It
// shares the file, which the original closes.
func (r *Reader) Between(start, end *int64) (*Reader, error) {
	if err := checkRange(start, end); err != nil {
		return nil, err
	}
	opts := *r.opts
	opts.Start, opts.End = start, end
	out := *r
	out.opts, out.closer = &opts, nil
	return &out, nil
}

// TimeBounds are the first and the last log time of the whole file in
// nanoseconds. A file without messages gives [ErrNoMessages].
func (r *Reader) TimeBounds() (first, last int64, err error) {
	if s := r.file.Statistics; s != nil {
		if s.MessageCount == 0 {
			return 0, 0, ErrNoMessages
		}
		return clampTime(s.StartTime), clampTime(s.EndTime), nil
	}
	found := false
	var lo, hi uint64
	for _, b := range r.file.Blocks {
		if b.HasTimes && len(b.Channels) > 0 {
			if !found {
				lo, hi = b.StartTime, b.EndTime
			}
			lo, hi, found = min(lo, b.StartTime), max(hi, b.EndTime), true
		}
	}
	if !found {
		return 0, 0, ErrNoMessages
	}
	return clampTime(lo), clampTime(hi), nil
}

// Info describes the whole file, whatever the options select.
type Info struct {
	Profile, Library string
	Source           string // embedded, scanned or reconstructed: where the table of contents came from
	Messages         uint64
	Chunks           int
	Attachments      int
	Metadata         int
	Codecs           map[string]CodecInfo // by compression, "" for none
	Channels         []ChannelInfo        // by id
}

// CodecInfo counts the chunks of one compression.
type CodecInfo struct {
	Chunks                           int
	CompressedSize, UncompressedSize uint64
}

// ChannelInfo describes a channel and its schema.
type ChannelInfo struct {
	ID, SchemaID           uint16
	Topic, MessageEncoding string
	Schema, SchemaEncoding string
	Messages               uint64 // 0 if the file does not tell
	Metadata               map[string]string
}

// Info describes the file.
func (r *Reader) Info() Info {
	f := r.file
	in := Info{Profile: f.Header.Profile, Library: f.Header.Library, Source: f.Source.String(),
		Attachments: f.Attachments, Metadata: len(f.Metadata), Codecs: map[string]CodecInfo{}}
	if f.Statistics != nil {
		in.Messages = f.Statistics.MessageCount
	}
	for _, b := range f.Blocks {
		if b.Chunk {
			in.Chunks++
			c := in.Codecs[b.Compression]
			c.Chunks++
			c.CompressedSize += b.CompressedSize
			c.UncompressedSize += b.UncompressedSize
			in.Codecs[b.Compression] = c
		}
	}
	for _, c := range f.Channels {
		ci := ChannelInfo{ID: c.ID, SchemaID: c.SchemaID, Topic: c.Topic, MessageEncoding: c.MessageEncoding, Metadata: map[string]string{}}
		if c.Schema != nil {
			ci.Schema, ci.SchemaEncoding = c.Schema.Name, c.Schema.Encoding
		}
		if f.Statistics != nil {
			ci.Messages = f.Statistics.ChannelMessageCounts[c.ID]
		}
		for _, p := range c.Metadata {
			ci.Metadata[p.Key] = p.Value
		}
		in.Channels = append(in.Channels, ci)
	}
	return in
}

// Chunks reads the file. Chunks come in a fixed order whatever the number of
// workers: static ones of the file itself, those of messages by the order of
// the MCAP chunks, at the end static ones made of last messages. At most a few
// MCAP chunks are held in memory. What cannot be decoded is left out and
// reported; the error that ends the stream is a failing read, a cancelled
// context, a descriptor that no decoder can use, or with Options.Strict
// anything that is lost.
func (r *Reader) Chunks(ctx context.Context) iter.Seq2[*chunk.Chunk, error] {
	return func(yield func(*chunk.Chunk, error) bool) {
		s := &scan{opts: r.opts, file: r.file, report: r.report}
		s.run(ctx, yield)
	}
}

// Report tells what was read so far, by all streams of this reader together.
func (r *Reader) Report() Report { return r.report.snapshot() }
