package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/spf13/cobra"
)

// demoRecording is a made-up robot's run of 20 s, for when no real recording is at hand. It is the
// output of `go run ./bench/gen -seconds 20 -rate 0.2`.
//
//go:embed demo/robot.mcap
var demoRecording []byte

// demoQuery asks with the real SDK.
//
//go:embed demo/query.py
var demoQuery []byte

// demo shows the way of a recording from the robot's file to the answer of a query.
type demo struct {
	recording string // MCAP file; empty for the bundled one
	dir       string
	python    string // interpreter that has rerun-sdk; empty to leave its part out
	host      string
	port      int
	check     bool

	in       io.Reader
	out, err io.Writer // shared with the server's goroutine
}

// sharedWriter lets several goroutines write.
type sharedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (s *sharedWriter) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w.Write(p)
}

const (
	demoDataset  = "demo"
	demoIndex    = "message_log_time"
	demoContents = "/tf"
	demoColumns  = "message_log_time,/tf:Transform3D:child_frame,/tf:Transform3D:translation"
)

func newDemoCommand() *cobra.Command {
	d := &demo{}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Convert a robot's recording, serve it, ask it, and say how to go on",
		Example: `  reel demo
  reel demo --recording run.mcap --python .venv/bin/python`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d.in = cmd.InOrStdin()
			d.out, d.err = &sharedWriter{w: cmd.OutOrStdout()}, &sharedWriter{w: cmd.ErrOrStderr()}
			return d.run(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&d.recording, "recording", "", "MCAP file to show; a bundled one if not given")
	cmd.Flags().StringVar(&d.dir, "dir", "reel-demo", "directory to write to")
	cmd.Flags().StringVar(&d.python, "python", "", "Python interpreter with rerun-sdk, to ask with that, too")
	cmd.Flags().StringVar(&d.host, "host", "127.0.0.1", "address to serve on")
	cmd.Flags().IntVarP(&d.port, "port", "p", 51234, "port to serve on; a free one if it is taken")
	cmd.Flags().BoolVar(&d.check, "check", false, "compare the answers and end; needs --python")
	return cmd
}

func (d *demo) run(ctx context.Context) error {
	if d.check && d.python == "" {
		return usageErrorf("--check needs --python")
	}
	if err := os.MkdirAll(d.dir, 0o755); err != nil {
		return err
	}
	if d.recording == "" {
		d.recording = filepath.Join(d.dir, "robot.mcap")
		if err := os.WriteFile(d.recording, demoRecording, 0o644); err != nil {
			return err
		}
	}
	name := strings.TrimSuffix(filepath.Base(d.recording), filepath.Ext(d.recording))
	data := filepath.Join(d.dir, name)
	if err := os.MkdirAll(data, 0o755); err != nil {
		return err
	}

	d.say("A recording as the robot wrote it becomes one that can be queried.")
	recording := filepath.Join(data, name+".rrd")
	if err := d.reel(ctx, "convert", d.recording, "-o", recording); err != nil {
		return err
	}

	d.say("A catalog serves it to any client of rerun-sdk.")
	serveContext, stop := context.WithCancel(ctx)
	defer stop()
	addr, served, err := d.serve(serveContext, data)
	if err != nil {
		return err
	}
	url := "rerun+http://" + addr
	if err := d.ask(ctx, url, recording); err != nil {
		return err
	}
	if d.check {
		stop()
		return <-served
	}

	d.say("It is being served until you press Ctrl+C. Try, in another terminal:")
	fmt.Fprintf(d.out, `  reel catalog segments %[2]s --url %[1]s
  reel query %[1]s --dataset %[2]s --index %[3]s --contents '/tf/**' --limit 3
  reel query %[4]s --index %[3]s --contents '/odom/**' --format jsonl --limit 3
  reel rrd verify %[4]s
  python -c 'from rerun.catalog import CatalogClient; print(CatalogClient("%[1]s").get_dataset(name="%[2]s").schema())'
`, url, demoDataset, demoIndex, recording)
	return <-served
}

func (d *demo) say(text string) { fmt.Fprintf(d.out, "\n# %s\n", text) }

// reel shows a command line of ours and runs it in this process.
func (d *demo) reel(ctx context.Context, args ...string) error {
	fmt.Fprintf(d.out, "$ reel %s\n", strings.Join(args, " "))
	return d.quietly(ctx, args...)
}

func (d *demo) quietly(ctx context.Context, args ...string) error {
	if code := run(ctx, args, d.in, d.out, d.err); code != 0 {
		return fmt.Errorf("reel %s: exit code %d", args[0], code)
	}
	return nil
}

// serve starts the server in the background and waits until it listens. The channel tells its end.
func (d *demo) serve(ctx context.Context, data string) (addr string, served <-chan error, err error) {
	l, err := net.Listen("tcp", net.JoinHostPort(d.host, strconv.Itoa(d.port)))
	if err != nil {
		if l, err = net.Listen("tcp", net.JoinHostPort(d.host, "0")); err != nil {
			return "", nil, err
		}
	}
	addr = l.Addr().String()
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	if err := l.Close(); err != nil {
		return "", nil, err
	}
	done := make(chan error, 1)
	go func() {
		err := d.reel(ctx, "serve", "--host", d.host, "--port", port, "-d", demoDataset+"="+data, "--log-level", "warn")
		if err == nil && ctx.Err() == nil {
			err = errors.New("the server ended by itself")
		}
		done <- err
	}()
	for {
		if conn, err := net.Dial("tcp", addr); err == nil {
			return addr, done, conn.Close()
		}
		select {
		case err := <-done:
			return "", nil, err
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// ask puts the same question to the server by the real SDK and to the file by reel query, and in
// check mode compares the answers.
func (d *demo) ask(ctx context.Context, url, recording string) error {
	theirs, ours := filepath.Join(d.dir, "sdk.arrow"), filepath.Join(d.dir, "reel.arrow")
	if d.python != "" {
		d.say("The unmodified rerun-sdk asks for the transforms.")
		script := filepath.Join(d.dir, "query.py")
		if err := os.WriteFile(script, demoQuery, 0o644); err != nil {
			return err
		}
		args := []string{script, url, demoDataset, demoIndex, demoContents, demoColumns, theirs}
		fmt.Fprintf(d.out, "$ python %s\n", strings.Join(args, " "))
		python := exec.CommandContext(ctx, d.python, args...)
		python.Stdout, python.Stderr = d.out, d.err
		if err := python.Run(); err != nil {
			return fmt.Errorf("python: %w", err)
		}
	}
	d.say("So does reel query, of the file itself.")
	query := []string{"query", recording, "--index", demoIndex,
		"--contents", demoContents, "--select", demoColumns}
	if err := d.reel(ctx, append(query, "--limit", "5")...); err != nil {
		return err
	}
	if !d.check {
		return nil
	}
	if err := d.quietly(ctx, append(query, "--format", "arrow", "-o", ours)...); err != nil {
		return err
	}
	rows, err := compareAnswers(theirs, ours)
	if err != nil {
		return err
	}
	d.say(fmt.Sprintf("The answers are the same: %d rows.", rows))
	return nil
}

// compareAnswers compares two Arrow files column by column and returns the number of rows.
func compareAnswers(pathA, pathB string) (int64, error) {
	a, err := readTable(pathA)
	if err != nil {
		return 0, err
	}
	defer a.Release()
	b, err := readTable(pathB)
	if err != nil {
		return 0, err
	}
	defer b.Release()
	if a.NumRows() != b.NumRows() || a.NumRows() == 0 {
		return 0, fmt.Errorf("the answers differ: %d and %d rows", a.NumRows(), b.NumRows())
	}
	if a.NumCols() != b.NumCols() {
		return 0, fmt.Errorf("the answers differ: %v and %v", a.Schema(), b.Schema())
	}
	for i := range int(a.NumCols()) {
		name := a.Column(i).Name()
		if b.Column(i).Name() != name {
			return 0, fmt.Errorf("the answers differ: column %d is %q and %q", i, name, b.Column(i).Name())
		}
		if !array.ChunkedEqual(a.Column(i).Data(), b.Column(i).Data()) {
			return 0, fmt.Errorf("the answers differ in column %q", name)
		}
	}
	return a.NumRows(), nil
}

// readTable reads an Arrow IPC file whole.
func readTable(path string) (arrow.Table, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r, err := ipc.NewFileReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	defer r.Close()
	var batches []arrow.RecordBatch
	for i := range r.NumRecords() {
		batch, err := r.RecordBatchAt(i)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		batches = append(batches, batch)
	}
	return array.NewTableFromRecords(r.Schema(), batches), nil
}
