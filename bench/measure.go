package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// usage is what one run took.
type usage struct {
	cpu, wall float64 // seconds
	rss       int64   // peak resident memory, bytes
	rows      int     // rows of the result, 0 where there is none
}

// summarize takes the median of times and the largest memory.
func summarize(runs []usage) usage {
	var out usage
	var cpus, walls []float64
	for _, u := range runs {
		cpus, walls = append(cpus, u.cpu), append(walls, u.wall)
		out.rss = max(out.rss, u.rss)
	}
	slices.Sort(cpus)
	slices.Sort(walls)
	out.cpu, out.wall = cpus[len(cpus)/2], walls[len(walls)/2]
	return out
}

// measure runs a program to its end.
func measure(name string, args ...string) (usage, error) {
	u, _, err := measureOutput(name, args...)
	return u, err
}

func measureOutput(name string, args ...string) (usage, []byte, error) {
	var out, errs bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "RERUN_ANALYTICS=off")
	cmd.Stdout, cmd.Stderr = &out, &errs
	started := time.Now()
	err := cmd.Run()
	wall := time.Since(started)
	if err != nil {
		return usage{}, nil, fmt.Errorf("%s %s: %w\n%s", filepath.Base(name), strings.Join(args, " "), err, errs.Bytes())
	}
	state := cmd.ProcessState
	return usage{
		cpu:  (state.UserTime() + state.SystemTime()).Seconds(),
		wall: wall.Seconds(),
		rss:  state.SysUsage().(*syscall.Rusage).Maxrss << 10, // the kernel counts in KiB
	}, out.Bytes(), nil
}

// selfMeasured runs a program that prints its own usage as JSON.
func selfMeasured(name string, args ...string) (usage, error) {
	_, out, err := measureOutput(name, args...)
	if err != nil {
		return usage{}, err
	}
	var u struct {
		CPU, Wall float64
		Rss       int64
		Rows      int
	}
	if err := json.Unmarshal(out, &u); err != nil {
		return usage{}, fmt.Errorf("%w in %q", err, out)
	}
	return usage{cpu: u.CPU, wall: u.Wall, rss: u.Rss, rows: u.Rows}, nil
}

// processUsage returns what a running process has used so far; no wall time.
func processUsage(pid int) (usage, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return usage{}, err
	}
	// The fields after the parenthesized name start with the third; user and system time are the
	// 14th and 15th, in ticks of 1/100 s.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	user, err1 := strconv.ParseFloat(fields[11], 64)
	system, err2 := strconv.ParseFloat(fields[12], 64)
	if err1 != nil || err2 != nil {
		return usage{}, fmt.Errorf("bad stat line %q", stat)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return usage{}, err
	}
	u := usage{cpu: (user + system) / 100}
	for line := range strings.Lines(string(status)) {
		if text, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.ParseInt(strings.Fields(text)[0], 10, 64)
			if err != nil {
				return usage{}, err
			}
			u.rss = kib << 10
		}
	}
	return u, nil
}

// sizeOf returns the bytes of a file, or of all files of a folder.
func sizeOf(path string) (int64, error) {
	var total int64
	err := filepath.Walk(path, func(_ string, info os.FileInfo, err error) error {
		if err == nil && !info.IsDir() {
			total += info.Size()
		}
		return err
	})
	return total, err
}
