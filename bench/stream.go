package main

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"syscall"
	"time"

	"github.com/reelhouse/reelhouse/rrd"
)

// streamAll decodes all chunks of a recording in this process and prints what it took, as peer.py
// does for the peer.
func streamAll(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	started := time.Now()
	before, err := ownUsage()
	if err != nil {
		return err
	}
	rows := 0
	for c, err := range rrd.Chunks(context.Background(), bufio.NewReaderSize(f, 1<<20), rrd.ReadOptions{Reuse: true}) {
		if err != nil {
			return err
		}
		rows += c.NumRows()
	}
	after, err := ownUsage()
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(usage{
		Wall: time.Since(started).Seconds(), CPU: after.CPU - before.CPU, Rows: rows, RSS: after.RSS,
	})
}

func ownUsage() (usage, error) {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return usage{}, err
	}
	seconds := func(t syscall.Timeval) float64 { return time.Duration(t.Nano()).Seconds() }
	return usage{CPU: seconds(r.Utime) + seconds(r.Stime), RSS: r.Maxrss << 10}, nil
}
