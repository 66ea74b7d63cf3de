package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/reelhouse/reelhouse/chunk"

	"github.com/reelhouse/reelhouse/rrd"
	"github.com/reelhouse/reelhouse/rrd/edit"
)

func newRRDCommand() *cobra.Command {
	cmd := &cobra.Command{
		// All of these stream: little is alive at any time, so collect garbage early.
		PersistentPreRun: func(*cobra.Command, []string) { debug.SetMemoryLimit(96 << 20) },

		Use:   "rrd",
		Short: "Look into, check and rewrite recordings",
		Long:  "The tool box for RRD recordings. Commands that take several inputs read standard input when none is given, and write to standard output without -o.",
	}
	cmd.AddCommand(newRRDStatsCommand(), newRRDPrintCommand(), newRRDVerifyCommand(), newRRDCompareCommand(),
		newRRDMergeCommand(), newRRDFilterCommand(),
		newRRDRouteCommand(), newRRDSplitCommand(), newRRDMigrateCommand())
	return cmd
}

// editFlags are the flags that the rewriting commands share.
type editFlags struct {
	output          string
	continueOnError bool
	strict          bool
	json            bool
}

func (f *editFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&f.output, "output", "o", "", "file to write to, which appears only when all is well; standard output if not given")
	f.addErrors(cmd)
}

func (f *editFlags) addErrors(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.continueOnError, "continue-on-error", false, "leave out messages that cannot be read, and say so, instead of stopping")
	cmd.Flags().BoolVar(&f.strict, "strict", false, "decode every chunk and take any damage, also a missing end, for an error")
	cmd.Flags().BoolVar(&f.json, "json", false, "print what was done as JSON, on standard error if the recording goes to standard output")
}

func (f *editFlags) options(cmd *cobra.Command) (edit.Options, error) {
	log, err := newLogger(cmd)
	if err != nil {
		return edit.Options{}, err
	}
	return edit.Options{
		ContinueOnError: f.continueOnError,
		Strict:          f.strict,
		Report:          reportFaults(log),
	}, nil
}

// reportFaults logs what a reader passes over.
func reportFaults(log *slog.Logger) func(*rrd.Error) {
	return func(e *rrd.Error) { log.Warn(e.Error()) }
}

// edited is what a rewriting command says with --json.
type edited struct {
	Inputs  []string `json:"inputs"`
	Output  string   `json:"output"`
	BytesIn int64    `json:"bytes_in"`
	Bytes   int64    `json:"bytes_out"`

	Messages           int `json:"messages,omitempty"`
	DroppedActivations int `json:"dropped_activations,omitempty"`
}

// run opens the inputs and the output around a rewriting operation.
func (f *editFlags) run(cmd *cobra.Command, args []string, operation func(o edit.Options, in []*edit.Source, out io.Writer, done *edited) error) (err error) {
	o, err := f.options(cmd)
	if err != nil {
		return err
	}
	done := edited{Inputs: args, Output: f.output}
	sources, closeAll, err := openRecordings(cmd, args)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeAll()) }()
	bar := newProgress(cmd, -1, cmd.Name())
	o.Progress = func(n int64) {
		done.BytesIn += n
		_ = bar.Add64(n)
	}
	write := func(w io.Writer) error {
		count := &countingWriter{w: w}
		err := operation(o, sources, count, &done)
		done.Bytes = count.n
		return err
	}
	report := cmd.OutOrStdout()
	if f.output == "" {
		report = cmd.ErrOrStderr()
		err = write(cmd.OutOrStdout())
	} else {
		err = rrd.WriteFile(f.output, write)
	}
	_ = bar.Finish()
	if err == nil && f.json {
		err = printJSON(report, done)
	}
	return err
}

func openRecordings(cmd *cobra.Command, paths []string) ([]*edit.Source, func() error, error) {
	var sources []*edit.Source
	closeAll := func() error {
		var errs []error
		for _, s := range sources {
			errs = append(errs, s.Close())
		}
		return errors.Join(errs...)
	}
	if len(paths) == 0 {
		sources = append(sources, edit.FromReader("standard input", cmd.InOrStdin()))
	}
	for _, p := range paths {
		s, err := edit.Open(p)
		if err != nil {
			return nil, nil, errors.Join(err, closeAll())
		}
		sources = append(sources, s)
	}
	return sources, closeAll, nil
}

type countingWriter struct {
	w io.Writer
	n int64
}

func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

func newRRDMergeCommand() *cobra.Command {
	var f editFlags
	cmd := &cobra.Command{
		Use:   "merge [FILE…]",
		Short: "Join recordings into one",
		Long: `Writes the stores of all inputs as one recording with one footer: blueprints
first, every chunk once, migrated to the current version. Chunks that need no
migration are copied as they are stored.`,
		Example: "  reel rrd merge monday.rrd tuesday.rrd -o week.rrd",
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd, args, func(o edit.Options, in []*edit.Source, out io.Writer, _ *edited) error {
				return edit.Merge(cmd.Context(), in, out, o)
			})
		},
	}
	f.add(cmd)
	return cmd
}

func newRRDFilterCommand() *cobra.Command {
	var f editFlags
	var timelines, entities []string
	cmd := &cobra.Command{
		Use:   "filter [FILE…]",
		Short: "Leave out timelines and entities",
		Long: `Copies recordings without some timelines and entities. Chunks stay as they
are cut; one that loses its last timeline becomes static.`,
		Example: "  reel rrd filter --drop-timeline log_tick --drop-entity /camera/raw run.rrd -o small.rrd",
		RunE: func(cmd *cobra.Command, args []string) error {
			o := edit.FilterOptions{Timelines: timelines}
			for _, e := range entities {
				o.Entities = append(o.Entities, chunk.ParseEntityPath(e))
			}
			return f.run(cmd, args, func(shared edit.Options, in []*edit.Source, out io.Writer, _ *edited) error {
				o.Options = shared
				return edit.Filter(cmd.Context(), in, out, o)
			})
		},
	}
	cmd.Flags().StringArrayVar(&timelines, "drop-timeline", nil, "timeline to leave out; may be repeated")
	cmd.Flags().StringArrayVar(&entities, "drop-entity", nil, "entity to leave out, without those below it; may be repeated")
	f.add(cmd)
	return cmd
}

func newRRDRouteCommand() *cobra.Command {
	var f editFlags
	var o edit.RouteOptions
	cmd := &cobra.Command{
		Use:   "route [FILE…]",
		Short: "Change application and recording ids",
		Long: `Copies recordings under other ids without decoding or migrating them; several
inputs under one recording id become one recording, and blueprint activations
are then dropped.`,
		Example: "  reel rrd route --recording-id run-7 front.rrd rear.rrd -o run.rrd",
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd, args, func(shared edit.Options, in []*edit.Source, out io.Writer, done *edited) error {
				o.Options = shared
				n, err := edit.Route(cmd.Context(), in, out, o)
				done.Messages, done.DroppedActivations = n.Messages, n.DroppedActivations
				return err
			})
		},
	}
	cmd.Flags().StringVar(&o.Application, "application-id", "", "application id of the output")
	cmd.Flags().StringVar(&o.Recording, "recording-id", "", "recording id of the output")
	f.add(cmd)
	return cmd
}

func newRRDMigrateCommand() *cobra.Command {
	var f editFlags
	cmd := &cobra.Command{
		Use:   "migrate FILE…",
		Short: "Rewrite old recordings in the current version",
		Long: `Rewrites files in place. Each old file is kept beside the new one with
".backup" before its ending. A failing migration leaves its file as it was, and
the other files are still migrated.`,
		Example: "  reel rrd migrate archive/*.rrd",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := f.options(cmd)
			if err != nil {
				return err
			}
			type migrated struct {
				File   string `json:"file"`
				Backup string `json:"backup,omitempty"`
				Error  string `json:"error,omitempty"`
			}
			var all []migrated
			var errs []error
			for _, path := range args {
				m := migrated{File: path}
				if m.Backup, err = edit.Migrate(cmd.Context(), path, o); err != nil {
					errs = append(errs, err)
					m.Error = err.Error()
				}
				all = append(all, m)
			}
			if f.json {
				return errors.Join(append(errs, printJSON(cmd.OutOrStdout(), all))...)
			}
			for _, m := range all {
				if m.Error == "" {
					fmt.Fprintf(cmd.OutOrStdout(), "%s migrated, the old file is %s\n", m.File, m.Backup)
				}
			}
			return errors.Join(errs...)
		},
	}
	f.addErrors(cmd)
	return cmd
}
