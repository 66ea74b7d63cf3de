package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/reelhouse/reelhouse/rrd/inspect"
)

func newRRDStatsCommand() *cobra.Command {
	var o inspect.StatsOptions
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "stats [FILE…]",
		Short: "Count what recordings hold",
		Long: `Counts chunks, rows and columns of all inputs together, sums up their sizes, and
tells from the footers how well the chunks are cut for reading from afar.
Messages that cannot be read are logged and left out.`,
		Example: "  reel rrd stats --no-decode runs/*.rrd",
		RunE: func(cmd *cobra.Command, args []string) error {
			log, err := newLogger(cmd)
			if err != nil {
				return err
			}
			o.Report = reportFaults(log)
			bar := newProgress(cmd, -1, cmd.Name())
			o.Progress = func(n int64) { _ = bar.Add64(n) }
			var s inspect.Stats
			err = eachInput(cmd, args, func(name string, r io.Reader) error { return s.Add(cmd.Context(), name, r, o) })
			_ = bar.Finish()
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), s.Summary())
			}
			return s.Summary().WriteText(cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVar(&o.NoDecode, "no-decode", false, "count only what shows without decoding chunks, which is faster")
	cmd.Flags().BoolVar(&o.ContinueOnError, "continue-on-error", false, "leave out chunks that cannot be decompressed instead of stopping")
	cmd.Flags().BoolVar(&o.Strict, "strict", false, "stop at any message that cannot be read and take cut-off input for an error")
	addJSONFlag(cmd, &asJSON)
	return cmd
}
