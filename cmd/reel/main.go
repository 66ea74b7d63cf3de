// Command reel is Reelhouse on the command line: it converts recordings, queries them and serves
// them to clients.
//
// Each subcommand has a file of its own with a constructor that is listed in newRoot. Subcommands
// parse flags and print; the work is done in the packages they call. They return errors rather than
// print them, and never exit. The exit code is 0 for success, 1 for failure and 2 for wrong usage.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // named zones, on machines without a zone database too

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run executes one command line and returns its exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root, started := newRoot()
	root.SetArgs(joinValues(args))
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	var code exitCode
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		return int(code)
	case !*started || errors.As(err, new(usageError)):
		fmt.Fprintf(stderr, "reel: %v\nRun '%s --help' for usage.\n", err, cmd.CommandPath())
		return 2
	default:
		fmt.Fprintf(stderr, "reel: %v\n", err)
		return 1
	}
}

// newRoot builds the command tree. started becomes true when the body of a command begins: an error
// before that is one of usage.
func newRoot() (root *cobra.Command, started *bool) {
	root = &cobra.Command{
		Use:           "reel",
		Short:         "An open data platform for physical AI: recordings in, queries out",
		Version:       version(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetVersionTemplate("reel {{.Version}}\n")
	root.CompletionOptions.HiddenDefaultCmd = true
	addLogFlags(root)
	root.AddCommand(
		newRRDCommand(),
		newDemoCommand(),
		newConvertCommand(),
		newQueryCommand(),
		newServeCommand(),
		newCatalogCommand(),
	)
	started = new(bool)
	prepare(root, started)
	return root, started
}

// prepare makes the bodies of a command tree mark their start, and gives commands that only group
// others one that prints help.
func prepare(cmd *cobra.Command, started *bool) {
	body := cmd.RunE
	if body == nil {
		body = func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageErrorf("unknown command %q for %q", args[0], cmd.CommandPath())
			}
			return cmd.Help()
		}
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		*started = true
		return body(cmd, args)
	}
	for _, sub := range cmd.Commands() {
		prepare(sub, started)
	}
}
