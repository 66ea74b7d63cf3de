package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/reelhouse/reelhouse/rrd/inspect"
)

func newRRDVerifyCommand() *cobra.Command {
	var checkFooters, strict, asJSON bool
	cmd := &cobra.Command{
		Use:   "verify [FILE…]",
		Short: "Check that recordings can be read",
		Long: `Decodes every chunk, checks that components of built-in types have those types,
and that each stream's footer describes all its chunks. Says on standard error
how many files are good. Every fault is told, and the exit code is 1 if there is any.`,
		Example: "  reel rrd verify runs/*.rrd",
		RunE: func(cmd *cobra.Command, args []string) error {
			log, err := newLogger(cmd)
			if err != nil {
				return err
			}
			o := inspect.VerifyOptions{SkipFooters: !checkFooters, Strict: strict, Report: reportFaults(log)}
			type result struct {
				File   string   `json:"file"`
				Faults []string `json:"faults"`
			}
			var all []result
			good, faults := 0, 0
			err = eachInput(cmd, args, func(name string, r io.Reader) error {
				res := result{name, []string{}}
				any, err := inspect.Verify(cmd.Context(), name, r, o, func(fault error) {
					res.Faults = append(res.Faults, fault.Error())
					if !asJSON {
						fmt.Fprintln(cmd.ErrOrStderr(), fault)
					}
				})
				if len(res.Faults) == 0 && any {
					good++
				}
				faults += len(res.Faults)
				all = append(all, res)
				return err
			})
			if asJSON {
				err = errors.Join(err, printJSON(cmd.OutOrStdout(), all))
			}
			switch {
			case err != nil:
				return err
			case faults > 0:
				return fmt.Errorf("verification failed with %s", plural(faults, "error"))
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "%s verified without error.\n", plural(good, "file"))
			return nil
		},
	}
	cmd.Flags().BoolVar(&checkFooters, "check-footers", true, "check that footers are there and true")
	cmd.Flags().BoolVar(&strict, "strict", false, "take trailing bytes, newer versions and damaged ends for errors")
	addJSONFlag(cmd, &asJSON)
	return cmd
}

// eachInput calls fn with every input file, or with standard input if none is given. It stops at
// the first error.
func eachInput(cmd *cobra.Command, paths []string, fn func(name string, r io.Reader) error) error {
	if len(paths) == 0 {
		return fn("standard input", cmd.InOrStdin())
	}
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		if st, statErr := f.Stat(); statErr == nil && st.IsDir() {
			err = &os.PathError{Op: "read", Path: path, Err: errors.New("is a directory")}
		} else {
			err = fn(path, f)
		}
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	return nil
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
