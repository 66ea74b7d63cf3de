package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime/debug"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// usageError is an error in how a command was called that only its body can see. It makes reel end
// with exit code 2 and point to the help text.
type usageError struct{ error }

func usageErrorf(format string, args ...any) error {
	return usageError{fmt.Errorf(format, args...)}
}

func (e usageError) Unwrap() error { return e.error }

// exitCode is an error that makes reel end with that code and print nothing more: for commands whose
// printed result is a refusal, such as a comparison that found differences.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

// version tells the released version, or the revision a development binary was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return "devel-" + s.Value[:12]
		}
	}
	return "devel"
}

// addLogFlags adds --log-level and --log-format to a command and those below it.
func addLogFlags(cmd *cobra.Command) {
	cmd.PersistentFlags().String("log-level", "info", "least level to log: debug, info, warn or error")
	cmd.PersistentFlags().String("log-format", "text", "format of the log on standard error: text or json")
}

// newLogger returns the logger that the log flags ask for. It writes to standard error.
func newLogger(cmd *cobra.Command) (*slog.Logger, error) {
	levelText, err := cmd.Flags().GetString("log-level")
	if err != nil {
		return nil, err
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(levelText)); err != nil {
		return nil, usageErrorf("--log-level: unknown level %q", levelText)
	}
	format, err := cmd.Flags().GetString("log-format")
	if err != nil {
		return nil, err
	}
	options := &slog.HandlerOptions{Level: level}
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(cmd.ErrOrStderr(), options)), nil
	}
	return nil, usageErrorf("--log-format: unknown format %q", format)
}

// addJSONFlag adds --json, which commands that print data have.
func addJSONFlag(cmd *cobra.Command, target *bool) {
	cmd.Flags().BoolVar(target, "json", false, "print JSON")
}

// printJSON writes a value as one indented JSON document.
func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// newProgress returns a progress bar on standard error for work measured in bytes, total -1 when the
// size is not known. It shows only on a terminal and only once the work has taken a second. The
// caller adds with Add64 and calls Finish at the end.
func newProgress(cmd *cobra.Command, total int64, what string) *progressbar.ProgressBar {
	w := cmd.ErrOrStderr()
	if f, ok := w.(*os.File); !ok || !term.IsTerminal(int(f.Fd())) {
		w = io.Discard
	}
	started := time.Now()
	return progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(delayed{w, started}),
		progressbar.OptionSetDescription(what),
		progressbar.OptionShowBytes(true),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(),
	)
}

// delayed drops what is written within a second after its start.
type delayed struct {
	w       io.Writer
	started time.Time
}

func (d delayed) Write(p []byte) (int, error) {
	if time.Since(d.started) < time.Second {
		return len(p), nil
	}
	return d.w.Write(p)
}
