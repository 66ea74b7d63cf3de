package main

import (
	"errors"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/reelhouse/reelhouse/chunk"
	"github.com/reelhouse/reelhouse/rrd/inspect"
)

func newRRDPrintCommand() *cobra.Command {
	var o inspect.PrintOptions
	var entity string
	var migrate, goOn bool
	cmd := &cobra.Command{
		Use:   "print [FILE…]",
		Short: "Show the messages of recordings",
		Long: `Prints a line for each chunk, and what else recordings hold. -v adds entities to
column names, -vv shows the headers of the chunks' tables, and -vvv the tables.
With --json each message is a line of its own.`,
		Example: "  reel rrd print -vvv --entity /camera/front run.rrd",
		RunE: func(cmd *cobra.Command, args []string) error {
			log, err := newLogger(cmd)
			if err != nil {
				return err
			}
			if o.FootersLOD < 0 || o.FootersLOD > 2 {
				return usageErrorf("--footers-lod: %d is not 0, 1 or 2", o.FootersLOD)
			}
			if entity != "" {
				path := chunk.ParseEntityPath(entity)
				o.Entity = &path
			}
			o.Raw, o.StopOnError, o.Report = !migrate, !goOn, reportFaults(log)
			p := inspect.NewPrinter(cmd.OutOrStdout(), o)
			err = eachInput(cmd, args, func(name string, r io.Reader) error { return p.Add(cmd.Context(), name, r) })
			return errors.Join(err, p.Close())
		},
	}
	flags := cmd.Flags()
	flags.CountVarP(&o.Verbose, "verbose", "v", "show more; may be repeated up to -vvv")
	flags.StringVar(&entity, "entity", "", "show only chunks of this entity")
	flags.BoolVar(&o.Footers, "footers", false, "show the footers at the end")
	flags.IntVar(&o.FootersLOD, "footers-lod", 0, "detail of footers: 0 where chunks are, 1 also their times, 2 all")
	flags.BoolVar(&o.Transposed, "transposed", false, "show tables with a line for each column")
	flags.BoolVar(&o.FullKeys, "full-metadata", false, "show metadata keys and names in full")
	flags.BoolVar(&migrate, "migrate", true, "show chunks of old versions in the current form")
	flags.BoolVar(&goOn, "continue-on-error", true, "leave out what cannot be read, and say so, instead of stopping")
	flags.BoolVar(&o.Strict, "strict", false, "stop at any damage, also at a missing end")
	addJSONFlag(cmd, &o.JSON)
	return cmd
}

// optionalValues are the flags of rrd verify and rrd print that scripts give a value of their own,
// as in "--footers true".
var optionalValues = []string{"--check-footers", "--continue-on-error", "--footers", "--full-metadata", "--migrate", "--transposed"}

// joinValues makes such a flag and its value one argument, which is what the flag library reads.
func joinValues(args []string) []string {
	if len(args) < 2 || args[0] != "rrd" || args[1] != "verify" && args[1] != "print" {
		return args
	}
	var joined []string
	for i := 0; i < len(args); i++ {
		if i+1 < len(args) && slices.Contains(optionalValues, args[i]) && (args[i+1] == "true" || args[i+1] == "false") {
			joined = append(joined, args[i]+"="+args[i+1])
			i++
			continue
		}
		joined = append(joined, args[i])
	}
	return joined
}
