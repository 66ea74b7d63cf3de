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
	CPU  float64 // seconds of processor time
	Wall float64 // seconds
	RSS  int64   // peak resident memory, bytes
	Rows int     // rows of the result, 0 where there is none
}

// summarize takes the median of times and the largest memory.
func summarize(runs []usage) usage {
	var out usage
	var cpus, walls []float64
	for _, u := range runs {
		cpus, walls = append(cpus, u.CPU), append(walls, u.Wall)
		out.RSS = max(out.RSS, u.RSS)
	}
	slices.Sort(cpus)
	slices.Sort(walls)
	out.CPU, out.Wall = cpus[len(cpus)/2], walls[len(walls)/2]
	return out
}

// measure runs a program to its end.
func measure(name string, args ...string) (usage, error) {
	u, _, err := measureOutput(name, args...)
	return u, err
}

// measureOutput runs a program below a fresh process of this one (see spawn) and returns also what it
// printed.
func measureOutput(name string, args ...string) (usage, []byte, error) {
	self, err := os.Executable()
	if err != nil {
		return usage{}, nil, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return usage{}, nil, err
	}
	defer r.Close()
	var out, errs bytes.Buffer
	cmd := exec.Command(self, append([]string{"spawn", name}, args...)...)
	cmd.Env = append(os.Environ(), "RERUN_ANALYTICS=off")
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.ExtraFiles = []*os.File{w}
	err = cmd.Run()
	w.Close()
	if err != nil {
		return usage{}, nil, fmt.Errorf("%s %s: %w\n%s", filepath.Base(name), strings.Join(args, " "), err, errs.Bytes())
	}
	var u usage
	if err := json.NewDecoder(r).Decode(&u); err != nil {
		return usage{}, nil, err
	}
	return u, out.Bytes(), nil
}

// spawn runs a program and writes its usage as JSON to file descriptor 3. It runs in a process of its
// own because the kernel counts the memory of the parent at the time of the start as the child's.
func spawn(name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	started := time.Now()
	err := cmd.Run()
	wall := time.Since(started)
	if err != nil {
		return err
	}
	state := cmd.ProcessState
	return json.NewEncoder(os.NewFile(3, "usage")).Encode(usage{
		CPU:  (state.UserTime() + state.SystemTime()).Seconds(),
		Wall: wall.Seconds(),
		RSS:  state.SysUsage().(*syscall.Rusage).Maxrss << 10, // the kernel counts in KiB
	})
}

// selfMeasured runs a program that prints its own usage as JSON.
func selfMeasured(name string, args ...string) (usage, error) {
	_, out, err := measureOutput(name, args...)
	if err != nil {
		return usage{}, err
	}
	var u usage
	if err := json.Unmarshal(out, &u); err != nil {
		return usage{}, fmt.Errorf("%w in %q", err, out)
	}
	return u, nil
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
	u := usage{CPU: (user + system) / 100}
	for line := range strings.Lines(string(status)) {
		if text, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.ParseInt(strings.Fields(text)[0], 10, 64)
			if err != nil {
				return usage{}, err
			}
			u.RSS = kib << 10
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
