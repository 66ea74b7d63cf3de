package testkit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	startTimeout  = 60 * time.Second
	stopTimeout   = 20 * time.Second
	scriptTimeout = 5 * time.Minute
)

// Venv returns the folder of the Python virtual environment with the real peers: $REEL_VENV, or
// .venv in the module root. The test fails when it is missing.
func Venv(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("REEL_VENV")
	if dir == "" {
		dir = filepath.Join(Root(t), ".venv")
	}
	if _, err := os.Stat(filepath.Join(dir, "bin", "python")); err != nil {
		t.Fatalf("no Python environment: %v (run 'make venv')", err)
	}
	return dir
}

// Python returns the interpreter of the environment with the real peers.
func Python(t testing.TB) string {
	t.Helper()
	return filepath.Join(Venv(t), "bin", "python")
}

// RerunCLI returns the command-line program of the peer: the native one, since the script in bin
// starts it as a child, which neither gets signals nor shows in resource usage.
func RerunCLI(t testing.TB) string {
	t.Helper()
	pattern := filepath.Join(Venv(t), "lib", "python*", "site-packages", "rerun_cli", "rerun")
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatalf("no program matches %s: %v", pattern, err)
	}
	return paths[0]
}

// RunPython runs the interpreter with args and returns what it printed to standard output. The test
// fails, with both outputs in its log, when the script fails or takes more than five minutes.
func RunPython(t testing.TB, args ...string) string {
	t.Helper()
	stdout, stderr, code := Run(t, "", Python(t), args...)
	if code != 0 {
		t.Fatalf("python %v: exit code %d\n%s%s", args, code, stdout, stderr)
	}
	return stdout
}

// Run runs a program with a standard input and returns its outputs and exit code. The test fails
// when it cannot be started or takes more than five minutes.
func Run(t testing.TB, stdin, name string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), scriptTimeout)
	defer cancel()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = peerEnv()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewBufferString(stdin), &out, &errs
	cmd.WaitDelay = time.Second // a grandchild may hold the pipes open
	err := cmd.Run()
	if ctx.Err() != nil {
		t.Fatalf("%s %v: %v\n%s%s", filepath.Base(name), args, ctx.Err(), out.String(), errs.String())
	}
	if err != nil && !errors.As(err, new(*exec.ExitError)) && !errors.Is(err, exec.ErrWaitDelay) {
		t.Fatalf("%s: %v", name, err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

func peerEnv() []string {
	return append(os.Environ(), "RERUN_ANALYTICS=off", "PYTHONUNBUFFERED=1", "PYTHONDONTWRITEBYTECODE=1")
}

var reelBinary = sync.OnceValues(func() (string, error) {
	if path := os.Getenv("REEL_BIN"); path != "" {
		return filepath.Abs(path)
	}
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("go list: %w", err)
	}
	root := string(bytes.TrimSpace(out))
	// Test processes of several packages may build at once: each writes aside, then renames.
	final := filepath.Join(root, "build", "testkit", "reel")
	if err := os.MkdirAll(filepath.Dir(final), 0o755); err != nil {
		return "", err
	}
	aside := fmt.Sprintf("%s.%d", final, os.Getpid())
	build := exec.Command("go", "build", "-o", aside, "./cmd/reel")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return final, os.Rename(aside, final)
})

// Reel returns the path of our own binary: $REEL_BIN, or one built from the working tree once per
// test process.
func Reel(t testing.TB) string {
	t.Helper()
	path, err := reelBinary()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// FreePort returns a TCP port of the loopback interface that was free a moment ago.
func FreePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// Server is a running catalog server, ours or the peer's. It is stopped at the end of the test.
type Server struct {
	Addr string // host:port
	URL  string // as clients of the real SDK take it: rerun+http://host:port

	t      testing.TB
	cmd    *exec.Cmd
	log    *lockedBuffer
	exited chan struct{}
}

// StartReel starts `reel serve` on a free port with further arguments and waits until it listens.
func StartReel(t testing.TB, args ...string) *Server {
	t.Helper()
	port := FreePort(t)
	args = append([]string{"serve", "--host", "127.0.0.1", "--port", strconv.Itoa(port)}, args...)
	return startServer(t, port, Reel(t), args)
}

// StartRerun starts `rerun server`, the peer, on a free port with further arguments and waits until
// it listens.
func StartRerun(t testing.TB, args ...string) *Server {
	t.Helper()
	port := FreePort(t)
	args = append([]string{"server", "--host", "127.0.0.1", "--port", strconv.Itoa(port)}, args...)
	return startServer(t, port, RerunCLI(t), args)
}

func startServer(t testing.TB, port int, name string, args []string) *Server {
	t.Helper()
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	s := &Server{Addr: addr, URL: "rerun+http://" + addr, t: t, log: &lockedBuffer{}, exited: make(chan struct{})}
	s.cmd = exec.Command(name, args...)
	s.cmd.Env = peerEnv()
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	s.cmd.WaitDelay = time.Second // a grandchild may hold the pipes open
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = s.cmd.Wait() // the state is read from cmd.ProcessState
		close(s.exited)
	}()
	t.Cleanup(func() {
		s.Stop()
		if t.Failed() {
			t.Logf("log of %s %v:\n%s", filepath.Base(name), args, s.log)
		}
	})
	deadline := time.Now().Add(startTimeout)
	for {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			conn.Close()
			return s
		}
		select {
		case <-s.exited:
			t.Fatalf("%s %v ended early: %v", filepath.Base(name), args, s.cmd.ProcessState)
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s %v does not listen after %v", filepath.Base(name), args, startTimeout)
		}
	}
}

// Stop asks the server to end (SIGTERM), waits for it, and returns its exit code; -1 when it ended by
// a signal. A server that does not end within 20 s is killed and fails the test. Further calls return
// the same.
func (s *Server) Stop() int {
	s.t.Helper()
	_ = s.cmd.Process.Signal(syscall.SIGTERM) // fails only when the process has ended
	select {
	case <-s.exited:
	case <-time.After(stopTimeout):
		s.t.Errorf("%s did not stop within %v", filepath.Base(s.cmd.Path), stopTimeout)
		s.Kill()
	}
	return s.cmd.ProcessState.ExitCode()
}

// Kill ends the server at once, as a crash would.
func (s *Server) Kill() {
	_ = s.cmd.Process.Kill() // fails only when the process has ended
	<-s.exited
}

// Signal sends a signal to the server.
func (s *Server) Signal(sig os.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}

// Pid returns the process id.
func (s *Server) Pid() int { return s.cmd.Process.Pid }

// Log returns what the server has printed so far.
func (s *Server) Log() string { return s.log.String() }

type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
