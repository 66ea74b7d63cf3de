package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/reelhouse/reelhouse/catalog"
	"github.com/reelhouse/reelhouse/server"
)

// serveFlags are the flags of reel serve.
type serveFlags struct {
	host     string
	port     int
	datasets []string
	origins  []string
	stageDir string
}

func newServeCommand() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve [DIR...]",
		Short: "Serve recordings to catalog clients and take live streams",
		Long: `Serve the recordings in folders as data sets to rerun-sdk, viewers and other catalog clients, and take
live streams from logging SDKs. Recordings are not loaded: their footers are read, and chunks as
clients ask for them. A folder's data set is named after it. Nothing is written to the folders.`,
		Example: `  reel serve recordings
  reel serve -d lab=/data/2026/lab -d field=/data/2026/field --port 9000
  python -c 'import rerun; print(rerun.catalog.CatalogClient("rerun+http://127.0.0.1:51234").dataset_names())'`,
		RunE: func(cmd *cobra.Command, args []string) error { return serve(cmd, f, args) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.host, "host", "0.0.0.0", "address to listen on")
	flags.IntVarP(&f.port, "port", "p", server.DefaultPort, "port to listen on; 0 picks a free one")
	flags.StringArrayVarP(&f.datasets, "dataset", "d", nil, "data set of all recordings below a folder, as [NAME=]DIR; may be repeated")
	flags.StringArrayVar(&f.origins, "cors-allow-origin", nil, "origin of web pages that may read replies, * for any characters; may be repeated")
	flags.StringVar(&f.stageDir, "stage-dir", "", "keep uploads and live recordings in this folder (default: a temporary one that is removed at the end)")
	return cmd
}

func serve(cmd *cobra.Command, f serveFlags, dirs []string) (err error) {
	log, err := newLogger(cmd)
	if err != nil {
		return err
	}
	sets, err := serveSets(dirs, f.datasets)
	if err != nil {
		return err
	}
	if f.stageDir != "" {
		if f.stageDir, err = filepath.Abs(f.stageDir); err != nil {
			return err
		}
	}
	// The port is taken first: whoever has it already is the more likely mistake.
	l, err := listen(cmd.Context(), f.host, f.port)
	if err != nil {
		return err
	}
	defer func() {
		if e := l.Close(); !errors.Is(e, net.ErrClosed) {
			err = errors.Join(err, e)
		}
	}()
	c, err := catalog.New(catalog.Options{Dir: f.stageDir, Log: log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	for _, s := range sets {
		if err := serveFolder(cmd, c, s); err != nil {
			return err
		}
	}
	url := "rerun+http://" + net.JoinHostPort(shownHost(f.host), strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
	fmt.Fprintf(cmd.ErrOrStderr(), "reel: serving %s (live streams to %s/proxy)\n", url, url)
	return server.New(c, server.Options{Log: log, Version: version(), AllowOrigins: f.origins}).Serve(cmd.Context(), l)
}

// servedSet is a data set that is made of a folder.
type servedSet struct{ name, dir string }

// serveSets reads the folders and names of the command line.
func serveSets(dirs, named []string) ([]servedSet, error) {
	var sets []servedSet
	add := func(name, dir string) error {
		abs, err := filepath.Abs(dir)
		if err != nil {
			return err
		}
		if name == "" {
			name = filepath.Base(abs)
		}
		for _, s := range sets {
			if s.name == name {
				return usageErrorf("two data sets are named %q: give one another name with -d NAME=%s", name, dir)
			}
		}
		sets = append(sets, servedSet{name, abs})
		return nil
	}
	for _, d := range dirs {
		if err := add("", d); err != nil {
			return nil, err
		}
	}
	for _, d := range named {
		name, dir, ok := strings.Cut(d, "=")
		if !ok {
			name, dir = "", d
		}
		if dir == "" || ok && name == "" {
			return nil, usageErrorf("--dataset %q: want [NAME=]DIR", d)
		}
		if err := add(name, dir); err != nil {
			return nil, err
		}
	}
	return sets, nil
}

func listen(ctx context.Context, host string, port int) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("port %d of %s is in use, perhaps by another server: choose another one with --port: %w", port, host, err)
	case errors.Is(err, os.ErrPermission):
		return nil, fmt.Errorf("port %d needs privileges: choose one above 1023 with --port: %w", port, err)
	}
	return l, err
}

// shownHost is a host that a client on this machine can use.
func shownHost(host string) string {
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		return "127.0.0.1"
	}
	return host
}

// serveFolder makes a data set of all recordings and blueprints below a folder.
// What cannot be read is reported and left out.
func serveFolder(cmd *cobra.Command, c *catalog.Catalog, s servedSet) error {
	if _, err := os.ReadDir(s.dir); err != nil {
		return fmt.Errorf("data set %q: %w", s.name, err)
	}
	d, err := c.CreateDataset(s.name, nil)
	if err != nil {
		return fmt.Errorf("data set %q: %w", s.name, err)
	}
	n, problems := d.RegisterFolder(cmd.Context(), s.dir)
	for _, p := range problems {
		fmt.Fprintf(cmd.ErrOrStderr(), "reel: data set %q: left out: %v\n", s.name, p)
	}
	if err := cmd.Context().Err(); err != nil {
		return err
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "reel: data set %q: %s from %s\n", s.name, plural(n, "segment"), s.dir)
	return nil
}
