package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/reelhouse/reelhouse/rrd/edit"
)

func newRRDSplitCommand() *cobra.Command {
	var o edit.SplitOptions
	var dir string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "split FILE --output-dir DIR --timeline NAME (--time T… | --num-parts N)",
		Short: "Cut a recording into spans of time",
		Long: `Cuts a recording by times of one timeline into files <name>_<from>__<to>.rrd.
Each part starts with the state that the recording had then: the last value of
each component, and video from its last keyframe. Times are numbers (frames,
nanoseconds) or, for timestamps, dates such as 2025-03-01T12:00:00Z, and ascend.`,
		Example: "  reel rrd split drive.rrd -o parts --timeline log_tick -t 1000 -t 2000",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			log, err := newLogger(cmd)
			if err != nil {
				return err
			}
			if len(o.Times) == 0 && !cmd.Flags().Changed("num-parts") {
				return fmt.Errorf("--time or --num-parts must say where to split")
			}
			o.Report = reportFaults(log)
			bar := newProgress(cmd, -1, cmd.Name())
			o.Progress = func(n int64) { _ = bar.Add64(n) }
			parts, err := edit.Split(cmd.Context(), args[0], dir, o)
			_ = bar.Finish()
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), parts)
			}
			for _, p := range parts {
				fmt.Fprintln(cmd.OutOrStdout(), p.Path)
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&dir, "output-dir", "o", "", "folder for the parts, which must exist")
	flags.StringVar(&o.Timeline, "timeline", "", "timeline to cut")
	flags.StringArrayVarP(&o.Times, "time", "t", nil, "where to cut; may be repeated")
	flags.IntVarP(&o.Parts, "num-parts", "n", 0, "cut into this many equal spans")
	flags.StringVar(&o.Recording, "recording-id", "", "recording id of the parts, which their number is added to (default the input's and \"-\")")
	flags.BoolVar(&o.DropOthers, "drop-unused-timelines", false, "remove the other timelines")
	flags.BoolVar(&o.Strict, "strict", false, "decode every chunk first and take any damage for an error")
	addJSONFlag(cmd, &asJSON)
	_ = cmd.MarkFlagRequired("output-dir")
	_ = cmd.MarkFlagRequired("timeline")
	cmd.MarkFlagsMutuallyExclusive("time", "num-parts")
	return cmd
}
