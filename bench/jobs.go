package main

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/reelhouse/reelhouse/bench/robot"
)

// job is one line of the table.
type job struct {
	name  string
	input func() (string, error) // makes the input if need be, returns its path
	ours  func(input string) (usage, error)
	peer  func(input string) (usage, error)
}

func (c config) jobs() []job {
	out := filepath.Join(c.dir, "out")
	fresh := func(program string, args ...string) (usage, error) {
		if err := os.RemoveAll(out); err != nil {
			return usage{}, err
		}
		return measure(program, args...)
	}
	rrd := func(name string, args ...string) job {
		// An argument "IN" stands for the input, "COPY" for an equal file, "OUT" for what is written,
		// "DIR" for a folder that is.
		run := func(program string) func(string) (usage, error) {
			return func(input string) (usage, error) {
				if err := os.RemoveAll(out); err != nil {
					return usage{}, err
				}
				full := []string{"rrd"}
				for _, a := range args {
					switch a {
					case "IN":
						a = input
					case "COPY":
						a = input + ".copy"
					case "OUT":
						a = out
					case "DIR":
						a = out
						if err := os.Mkdir(out, 0o755); err != nil {
							return usage{}, err
						}
					}
					full = append(full, a)
				}
				return measure(program, full...)
			}
		}
		return job{name, c.mixed, run(c.reel), run(c.rerun())}
	}
	jobs := []job{
		rrd("rrd stats", "stats", "IN"),
		rrd("rrd stats --no-decode", "stats", "--no-decode", "IN"),
		rrd("rrd verify", "verify", "IN"),
		rrd("rrd merge", "merge", "-o", "OUT", "IN", "COPY"),
		rrd("rrd filter entity", "filter", "--drop-entity", "/lidar/points", "-o", "OUT", "IN"),
		rrd("rrd filter timeline", "filter", "--drop-timeline", "time", "-o", "OUT", "IN"),
		rrd("rrd route", "route", "--recording-id", "other", "-o", "OUT", "IN"),
		rrd("rrd compare", "compare", "IN", "COPY"),
		rrd("rrd compare --unordered", "compare", "--unordered", "IN", "COPY"),
		rrd("rrd split", "split", "--timeline", "frame", "-n", "4", "-o", "DIR", "IN"),
		{
			name:  "decode all chunks",
			input: c.mixed,
			ours: func(input string) (usage, error) {
				self, err := os.Executable()
				if err != nil {
					return usage{}, err
				}
				return selfMeasured(self, "stream", input)
			},
			peer: func(input string) (usage, error) { return c.python("stream", input) },
		},
		{
			name:  "MCAP to RRD",
			input: c.mcap,
			ours: func(input string) (usage, error) {
				return fresh(c.reel, "convert", input, "-o", out)
			},
			peer: func(input string) (usage, error) {
				return fresh(c.rerun(), "mcap", "convert", input, "-o", out)
			},
		},
		c.query("query, 20 entities, own times", "sparse", c.rows, false),
		c.query("query, 20 entities, own times, filled", "sparse", c.rows/5, true),
		c.query("query, 20 entities, shared times", "shared", c.rows/4, false),
		c.query("query, 20 entities, shared times, filled", "shared", c.rows/20, true),
		{
			name:  "scan by the real client (server's figures)",
			input: c.dataset,
			ours:  func(input string) (usage, error) { return c.scan(input, c.reel, "serve") },
			peer:  func(input string) (usage, error) { return c.scan(input, c.rerun(), "server") },
		},
	}
	return jobs
}

func (c config) query(name, kind string, rows int, fill bool) job {
	return job{
		name: name,
		input: func() (string, error) {
			return c.generated(fmt.Sprintf("%s-%d.rrd", kind, rows), kind, strconv.Itoa(rows))
		},
		ours: func(input string) (usage, error) {
			args := []string{"query", input, "--index", "frame", "--format", "arrow", "-o", os.DevNull}
			if fill {
				args = append(args, "--fill-latest-at")
			}
			u, err := measure(c.reel, args...)
			u.Rows = rows
			return u, err
		},
		peer: func(input string) (usage, error) {
			args := []string{"query", input, "frame"}
			if fill {
				args = append(args, "fill")
			}
			return c.python(args...)
		},
	}
}

// scan serves a folder and reads all of it with the real client. Processor time and memory are the
// server's, wall time is the client's.
func (c config) scan(folder, program, command string) (usage, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return usage{}, err
	}
	addr := l.Addr().(*net.TCPAddr)
	l.Close()
	server := exec.Command(program, command, "--host", "127.0.0.1", "--port", strconv.Itoa(addr.Port), "-d", "bench="+folder)
	server.Env = append(os.Environ(), "RERUN_ANALYTICS=off")
	if err := server.Start(); err != nil {
		return usage{}, err
	}
	defer func() {
		_ = server.Process.Kill() // it has given its figures
		_ = server.Wait()         // fails, since it was killed
	}()
	for range 600 {
		conn, err := net.Dial("tcp", addr.String())
		if err == nil {
			conn.Close()
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	before, err := processUsage(server.Process.Pid)
	if err != nil {
		return usage{}, err
	}
	client, err := c.python("scan", "rerun+http://"+addr.String(), "bench", "frame")
	if err != nil {
		return usage{}, err
	}
	u, err := processUsage(server.Process.Pid)
	u.CPU -= before.CPU
	u.Wall, u.Rows = client.Wall, client.Rows
	return u, err
}

// rerun returns the peer's native program; the one in bin starts it as a child.
func (c config) rerun() string {
	paths, err := filepath.Glob(filepath.Join(c.venv, "lib", "python*", "site-packages", "rerun_cli", "rerun"))
	if err != nil || len(paths) == 0 {
		return filepath.Join(c.venv, "bin", "rerun")
	}
	return paths[0]
}

func (c config) python(args ...string) (usage, error) {
	script := filepath.Join(c.scripts, "peer.py")
	return selfMeasured(filepath.Join(c.venv, "bin", "python"), append([]string{script}, args...)...)
}

// mixed returns the recording that most jobs run on. An equal file lies beside it.
func (c config) mixed() (string, error) {
	path, err := c.generated(fmt.Sprintf("mixed-%d.rrd", c.mb), "mixed", strconv.Itoa(c.mb))
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(path + ".copy"); err == nil {
		return path, nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	return path, os.WriteFile(path+".copy", data, 0o644)
}

func (c config) dataset() (string, error) {
	return c.generated(fmt.Sprintf("segments-%d", c.segments), "segments", strconv.Itoa(c.segments), "2000")
}

// generated makes an input with the Python script: inputs.py KIND PATH NUMBER….
func (c config) generated(name, kind string, numbers ...string) (string, error) {
	path := filepath.Join(c.dir, name)
	return path, once(path, func(aside string) error {
		args := append([]string{filepath.Join(c.scripts, "inputs.py"), kind, aside}, numbers...)
		_, err := measure(filepath.Join(c.venv, "bin", "python"), args...)
		return err
	})
}

func (c config) mcap() (string, error) {
	path := filepath.Join(c.dir, fmt.Sprintf("robot-%d.mcap", c.mcapMB))
	return path, once(path, func(aside string) error {
		f, err := os.Create(aside)
		if err != nil {
			return err
		}
		defer f.Close()
		w := bufio.NewWriterSize(f, 1<<20)
		// A second of this run takes about 4.6 MB.
		o := robot.Options{Seconds: float64(c.mcapMB) / 4.6, Points: 20_000, ImageWidth: 640, ImageHeight: 480}
		if err := robot.Write(w, o); err != nil {
			return err
		}
		return w.Flush()
	})
}

// once makes a file or folder aside and renames it, unless it exists.
func once(path string, create func(aside string) error) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	aside := path + ".part"
	if err := os.RemoveAll(aside); err != nil {
		return err
	}
	if err := create(aside); err != nil {
		return err
	}
	return os.Rename(aside, path)
}
