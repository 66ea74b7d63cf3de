// Command bench runs our binary and the peer in turn on the same generated files and prints, as
// Markdown, what each took: processor time, wall time and peak memory, with ratios ours / peer.
//
//	bench [-mb 250] [-mcap-mb 300] [-segments 200] [-rows 1000000] [-n 3] [-run REGEXP]
//
// Processor time, wall time and memory of programs are the kernel's figures for the whole process.
// The peer's Python jobs time themselves, so that imports are left out of their figures (but not out
// of their memory): see peer.py. Each figure is the median of n runs, memory the largest.
//
// Inputs are kept below the directory and used again by later runs of the same size.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
)

// config says what to run, where, and on how much.
type config struct {
	dir      string // inputs and outputs
	reel     string // our binary
	venv     string // Python environment with the peer
	scripts  string // folder of the Python scripts
	mb       int    // size of the mixed recording
	mcapMB   int    // size of the MCAP file
	segments int    // recordings of the served data set
	rows     int    // rows of the queried recordings
	n        int    // runs of each side
	run      *regexp.Regexp
}

func main() {
	if len(os.Args) > 2 {
		switch os.Args[1] { // this program as a child of itself
		case "stream":
			exit(streamAll(os.Args[2]))
		case "spawn":
			exit(spawn(os.Args[2], os.Args[3:]...))
		}
	}
	var c config
	flag.StringVar(&c.dir, "dir", "build/bench-data", "directory for inputs and outputs")
	flag.StringVar(&c.reel, "reel", "build/reel", "our binary")
	flag.StringVar(&c.venv, "venv", ".venv", "Python environment with the peer")
	flag.StringVar(&c.scripts, "scripts", "bench", "folder of the Python scripts")
	flag.IntVar(&c.mb, "mb", 250, "size of the recording, MB")
	flag.IntVar(&c.mcapMB, "mcap-mb", 300, "size of the MCAP file, MB")
	flag.IntVar(&c.segments, "segments", 200, "segments of the served data set")
	flag.IntVar(&c.rows, "rows", 1_000_000, "rows of the queried recordings")
	flag.IntVar(&c.n, "n", 3, "runs of each side")
	pattern := flag.String("run", ".", "run only jobs whose name matches")
	flag.Parse()
	var err error
	if c.run, err = regexp.Compile(*pattern); err != nil {
		exit(err)
	}
	exit(c.bench())
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func (c config) bench() error {
	for _, path := range []*string{&c.dir, &c.reel, &c.venv, &c.scripts} {
		abs, err := filepath.Abs(*path)
		if err != nil {
			return err
		}
		*path = abs
	}
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		return err
	}
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return err
	}
	fmt.Printf("%d cores, load average before: %s. Median of %d runs of each side, taken in turn; memory is the largest.\n\n",
		runtime.NumCPU(), strings.Join(strings.Fields(string(load))[:3], " "), c.n)
	fmt.Println("| job | input | CPU s, ours | peer | ratio | wall s, ours | peer | ratio | peak MB, ours | peer | ratio |")
	fmt.Println("|---|---|---|---|---|---|---|---|---|---|---|")
	failed := 0
	for _, j := range c.jobs() {
		if !c.run.MatchString(j.name) {
			continue
		}
		if err := c.compare(j); err != nil {
			fmt.Fprintf(os.Stderr, "bench: %s: %v\n", j.name, err)
			failed++
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d jobs failed", failed)
	}
	return nil
}

// compare runs both sides of a job in turn and prints its line of the table.
func (c config) compare(j job) error {
	input, err := j.input()
	if err != nil {
		return fmt.Errorf("input: %w", err)
	}
	size, err := sizeOf(input)
	if err != nil {
		return err
	}
	var ours, peer []usage
	for range c.n {
		for _, side := range []struct {
			run   func(input string) (usage, error)
			name  string
			usage *[]usage
		}{{j.ours, "ours", &ours}, {j.peer, "peer", &peer}} {
			u, err := side.run(input)
			if err != nil {
				return fmt.Errorf("%s: %w", side.name, err)
			}
			*side.usage = append(*side.usage, u)
		}
	}
	if a, b := ours[0].Rows, peer[0].Rows; a != b {
		return fmt.Errorf("ours gave %d rows, the peer %d", a, b)
	}
	o, p := summarize(ours), summarize(peer)
	fmt.Printf("| %s | %d MB | %.2f | %.2f | %s | %.2f | %.2f | %s | %d | %d | %s |\n", j.name, size>>20,
		o.CPU, p.CPU, ratio(o.CPU, p.CPU), o.Wall, p.Wall, ratio(o.Wall, p.Wall),
		o.RSS>>20, p.RSS>>20, ratio(float64(o.RSS), float64(p.RSS)))
	return nil
}

func ratio(ours, peer float64) string {
	if peer == 0 {
		return "–"
	}
	return fmt.Sprintf("%.2f", ours/peer)
}
