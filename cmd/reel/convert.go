package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/reelhouse/reelhouse/chunk"
	"github.com/reelhouse/reelhouse/rrd"
	"github.com/reelhouse/reelhouse/source/mcap"
)

type convertFlags struct {
	output      string
	application string
	recording   string
	json        bool

	timelineType string
	offset       int64
	decoders     []string
	include      []string
	exclude      []string
	start, end   int64
	recover      bool
	keepDamaged  bool
	noRaw        bool
	strict       bool
}

func newConvertCommand() *cobra.Command {
	var f convertFlags
	cmd := &cobra.Command{
		Use:   "convert IN... -o OUT.rrd",
		Short: "Convert MCAP files and other sources to a recording",
		Long: `Convert MCAP files and other sources to a recording.

Each input becomes a recording of its own, whose application id is the name of the file and whose
recording id is random; with --recording-id all inputs make one recording. Recordings (.rrd) keep
their ids. "-" is standard input or output. The kind of an input is told by its first bytes.

The output appears under its name only when all is written. What cannot be decoded is left out and
reported; with --strict it fails the command.`,
		Example: `  reel convert run.mcap -o run.rrd
  reel convert part_0.mcap part_1.mcap -o run.rrd --application-id robot --recording-id run-7
  reel convert crashed.mcap -o rescued.rrd --recover --json
  reel convert run.mcap -o - --include-topic-regex '^/tf' | reel query - --index message_log_time`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	fl := cmd.Flags()
	fl.StringVarP(&f.output, "output", "o", "", "recording to write, - for standard output (required)")
	fl.StringVar(&f.application, "application-id", "", "application id of what is written")
	fl.StringVar(&f.recording, "recording-id", "", "recording id of what is written")
	addJSONFlag(cmd, &f.json)
	fl.StringVar(&f.timelineType, "timeline-type", "timestamp", "kind of the time columns: timestamp or duration")
	fl.Int64Var(&f.offset, "timestamp-offset-ns", 0, "nanoseconds to add to timestamps of time columns")
	fl.StringSliceVar(&f.decoders, "decoders", nil, "decoders to use, of "+strings.Join(mcap.Decoders(), " ")+" (default all)")
	fl.StringArrayVar(&f.include, "include-topic-regex", nil, "read only topics that match; may be given several times")
	fl.StringArrayVar(&f.exclude, "exclude-topic-regex", nil, "leave out topics that match; may be given several times")
	fl.Int64Var(&f.start, "start-time-ns", 0, "leave out messages logged before")
	fl.Int64Var(&f.end, "end-time-ns", 0, "leave out messages logged at this time or later")
	fl.BoolVar(&f.recover, "recover", false, "read a damaged file up to the damage")
	fl.BoolVar(&f.keepDamaged, "keep-damaged", false, "keep messages whose checksum is wrong")
	fl.BoolVar(&f.noRaw, "disable-raw-fallback", false, "leave out topics that no decoder understands instead of keeping their bytes")
	fl.BoolVar(&f.strict, "strict", false, "fail if anything cannot be read")
	return cmd
}

// mcapOptions are the reader options that the flags ask for.
func (f *convertFlags) mcapOptions(cmd *cobra.Command, log *slog.Logger) (mcap.Options, error) {
	o := mcap.Options{TimestampOffset: f.offset, IncludeTopics: f.include, ExcludeTopics: f.exclude,
		Recover: f.recover, KeepDamaged: f.keepDamaged, NoRawFallback: f.noRaw, Strict: f.strict, Logger: log}
	switch strings.TrimSuffix(f.timelineType, "_ns") {
	case "timestamp":
		o.TimelineType = chunk.Timestamp
	case "duration":
		o.TimelineType = chunk.Duration
	default:
		return o, usageErrorf("--timeline-type: %q is neither timestamp nor duration", f.timelineType)
	}
	if cmd.Flags().Changed("decoders") {
		o.Decoders = f.decoders
	}
	if cmd.Flags().Changed("start-time-ns") {
		o.Start = &f.start
	}
	if cmd.Flags().Changed("end-time-ns") {
		o.End = &f.end
	}
	return o, nil
}

// converted is what the command says with --json.
type converted struct {
	Output string           `json:"output"`
	Bytes  int64            `json:"bytes"`
	Inputs []convertedInput `json:"inputs"`
}

type convertedInput struct {
	Path        string       `json:"path"`
	Format      string       `json:"format"`
	Application string       `json:"application_id,omitempty"`
	Recording   string       `json:"recording_id,omitempty"`
	Chunks      int          `json:"chunks"`
	Rows        uint64       `json:"rows"`
	MCAP        *mcap.Report `json:"mcap,omitempty"`
}

func (f *convertFlags) run(cmd *cobra.Command, args []string) error {
	if f.output == "" {
		return usageErrorf("say where to write with -o, - is standard output")
	}
	log, err := newLogger(cmd)
	if err != nil {
		return err
	}
	o, err := f.mcapOptions(cmd, log)
	if err != nil {
		return err
	}
	done := converted{Output: f.output}
	write := func(w io.Writer) error {
		count := &countingWriter{w: w}
		out := rrd.NewWriter(count, rrd.WriterOptions{})
		defer out.Abort()
		c := converter{flags: f, cmd: cmd, log: log, mcap: o, out: out}
		for _, path := range args {
			in, err := c.input(cmd.Context(), path)
			if err != nil {
				return err
			}
			done.Inputs = append(done.Inputs, in)
		}
		if err := out.Close(); err != nil {
			return err
		}
		done.Bytes = count.n
		return nil
	}
	report := cmd.OutOrStdout()
	if f.output == "-" {
		report = cmd.ErrOrStderr()
		err = write(cmd.OutOrStdout())
	} else {
		err = rrd.WriteFile(f.output, write)
	}
	if err != nil {
		if errors.Is(err, mcap.ErrOption) {
			return usageError{err}
		}
		return err
	}
	if f.json {
		return printJSON(report, done)
	}
	return nil
}

// converter writes inputs to one recording stream.
type converter struct {
	flags *convertFlags
	cmd   *cobra.Command
	log   *slog.Logger
	mcap  mcap.Options
	out   *rrd.Writer
}

// input converts one input.
func (c *converter) input(ctx context.Context, path string) (convertedInput, error) {
	in := convertedInput{Path: path}
	file, err := c.open(path)
	if err != nil {
		return in, err
	}
	defer file.Close()
	head := make([]byte, 8)
	n, err := file.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return in, fmt.Errorf("%s: %w", path, err)
	}
	bar := newProgress(c.cmd, file.size, filepath.Base(path))
	defer bar.Finish() //nolint:errcheck // a bar that fails is no reason to stop
	file.bar = bar
	switch {
	case strings.HasPrefix(string(head[:n]), "RRF"):
		in.Format = "rrd"
		err = c.recording(ctx, file, &in)
	case strings.HasPrefix(string(head[:n]), "\x89MCAP") || strings.EqualFold(filepath.Ext(path), ".mcap"):
		in.Format = "mcap"
		err = c.fromMCAP(ctx, file, &in)
	default:
		err = errors.New("neither an MCAP file nor a recording")
	}
	if err != nil {
		return in, fmt.Errorf("%s: %w", path, err)
	}
	return in, nil
}

// fromMCAP converts an MCAP file.
func (c *converter) fromMCAP(ctx context.Context, file *inputFile, in *convertedInput) error {
	r, err := mcap.New(file, file.size, c.mcap)
	if err != nil {
		return err
	}
	store := c.store(in)
	if err := c.out.SetStoreInfo(rrd.StoreInfo{Store: store, Source: rrd.OtherSource("McapImporter")}); err != nil {
		return err
	}
	err = c.copy(ctx, store, r.Chunks(ctx), in)
	report := r.Report()
	in.MCAP = &report
	return err
}

func (c *converter) copy(ctx context.Context, store rrd.StoreID, chunks iter.Seq2[*chunk.Chunk, error], in *convertedInput) error {
	for ch, err := range chunks {
		if err != nil {
			return err
		}
		if err := c.out.WriteChunk(ctx, store, ch); err != nil {
			return err
		}
		in.Chunks++
		in.Rows += uint64(ch.NumRows())
	}
	return nil
}

// recording copies a recording. Its stores keep their ids unless flags say others.
func (c *converter) recording(ctx context.Context, file *inputFile, in *convertedInput) error {
	o := rrd.ReadOptions{ScanOptions: rrd.ScanOptions{Name: in.Path, Strict: c.flags.strict, Report: reportFaults(c.log)}}
	rename := func(id rrd.StoreID) rrd.StoreID {
		if c.flags.application != "" {
			id.Application = c.flags.application
		}
		if c.flags.recording != "" && id.Kind == rrd.Recording {
			id.Recording = c.flags.recording
		}
		return id
	}
	r := bufio.NewReaderSize(io.NewSectionReader(file, 0, file.size), 1<<20)
	for item, err := range rrd.Read(ctx, r, o) {
		if err != nil {
			return err
		}
		switch item.Kind {
		case rrd.KindStoreInfo:
			info := item.Info
			info.Store = rename(info.Store)
			if err := c.out.SetStoreInfo(info); err != nil {
				return err
			}
		case rrd.KindArrow:
			if err := c.out.WriteChunk(ctx, rename(item.Arrow.Store), item.Chunk); err != nil {
				return err
			}
			in.Chunks++
			in.Rows += uint64(item.Chunk.NumRows())
		case rrd.KindActivation:
			a := item.Activation
			a.Blueprint = rename(a.Blueprint)
			if err := c.out.Activate(a); err != nil {
				return err
			}
		}
	}
	return nil
}

// store is the recording that an input without ids of its own becomes.
func (c *converter) store(in *convertedInput) rrd.StoreID {
	in.Application, in.Recording = c.flags.application, c.flags.recording
	if in.Application == "" {
		in.Application = applicationOf(in.Path)
	}
	if in.Recording == "" {
		id := make([]byte, 16)
		_, _ = rand.Read(id) // never fails
		in.Recording = hex.EncodeToString(id)
	}
	return rrd.NewStoreID(rrd.Recording, in.Application, in.Recording)
}

// applicationOf is the application id of a file by its name.
func applicationOf(path string) string {
	if path == "-" {
		return "stdin"
	}
	name := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	if name == "" {
		name = filepath.Base(path)
	}
	return strings.ReplaceAll(name, ".", "_")
}

// inputFile is a file to read from anywhere; what is read moves a progress bar.
type inputFile struct {
	*os.File
	size int64
	temp bool
	bar  *progressbar.ProgressBar
}

// open opens an input. Standard input is copied to a temporary file, as MCAP
// files are read from their end.
func (c *converter) open(path string) (*inputFile, error) {
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		info, err := f.Stat()
		if err == nil && info.IsDir() {
			err = &fs.PathError{Op: "read", Path: path, Err: errors.New("is a directory")}
		}
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		return &inputFile{File: f, size: info.Size()}, nil
	}
	f, err := os.CreateTemp("", "reel-stdin-*")
	if err != nil {
		return nil, err
	}
	in := &inputFile{File: f, temp: true}
	if in.size, err = io.Copy(f, c.cmd.InOrStdin()); err != nil {
		return nil, errors.Join(fmt.Errorf("read standard input: %w", err), in.Close())
	}
	return in, nil
}

func (f *inputFile) ReadAt(b []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(b, off)
	if f.bar != nil {
		_ = f.bar.Add(n)
	}
	return n, err
}

func (f *inputFile) Close() error {
	err := f.File.Close()
	if f.temp {
		err = errors.Join(err, os.Remove(f.Name()))
	}
	return err
}
