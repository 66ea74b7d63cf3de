package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/reelhouse/reelhouse/chunk"
	"github.com/reelhouse/reelhouse/rrd/inspect"
)

func newRRDCompareCommand() *cobra.Command {
	var o inspect.CompareOptions
	var fullDump, asJSON, withoutEmpty bool
	cmd := &cobra.Command{
		Use:   "compare FILE FILE",
		Short: "Tell whether two recordings hold the same data",
		Long: `Compares two recordings chunk by chunk and value by value. Ids, blueprints and
the timeline log_time do not count; floats may differ by rounding. Prints the
first difference; the exit code is 1 if there is one.`,
		Example: "  reel rrd compare --unordered before.rrd after.rrd",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			log, err := newLogger(cmd)
			if err != nil {
				return err
			}
			o.Report = reportFaults(log)
			if fullDump {
				o.Dump = func(c *chunk.Chunk) { fmt.Fprintln(cmd.OutOrStdout(), c.Format(chunk.FormatOptions{})) }
			}
			err = inspect.Compare(cmd.Context(), args[0], args[1], o)
			var difference *inspect.Difference
			if err != nil && !errors.As(err, &difference) || !asJSON {
				return err
			}
			result := struct {
				Equal      bool   `json:"equal"`
				Difference string `json:"difference,omitempty"`
			}{Equal: err == nil}
			if err != nil {
				result.Difference = difference.Text
				err = exitCode(1)
			}
			return errors.Join(printJSON(cmd.OutOrStdout(), result), err)
		},
	}
	cmd.Flags().BoolVar(&o.Unordered, "unordered", false, "chunks may come in any order")
	cmd.Flags().BoolVar(&fullDump, "full-dump", false, "print all chunks of both files first")
	cmd.Flags().BoolVar(&withoutEmpty, "ignore-chunks-without-components", false, "accepted, but chunks without components never count")
	cmd.Flags().StringArrayVar(&o.IgnoreTimelines, "ignore-timeline", nil, "timeline that does not count; may be repeated")
	cmd.Flags().BoolVar(&o.Strict, "strict", false, "take cut-off input for an error")
	addJSONFlag(cmd, &asJSON)
	return cmd
}
