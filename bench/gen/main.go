// Command gen writes the recording of a made-up robot as an MCAP file.
//
//	gen -o FILE [-seconds N] [-points N] [-image WxH] [-rate FACTOR]
package main

import (
	"bufio"
	"flag"
	"fmt"
	"os"

	"github.com/reelhouse/reelhouse/bench/robot"
)

func main() {
	var o robot.Options
	out := flag.String("o", "", "file to write")
	flag.Float64Var(&o.Seconds, "seconds", 10, "length of the run")
	flag.Float64Var(&o.Rate, "rate", 1, "factor on the rates of small messages")
	flag.IntVar(&o.Points, "points", 0, "points of each cloud")
	flag.Func("image", "size of the camera's images, as 640x480", func(s string) error {
		_, err := fmt.Sscanf(s, "%dx%d", &o.ImageWidth, &o.ImageHeight)
		return err
	})
	flag.Parse()
	if err := write(*out, o); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func write(path string, o robot.Options) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	w := bufio.NewWriterSize(f, 1<<20)
	if err := robot.Write(w, o); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return f.Close()
}
