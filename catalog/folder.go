package catalog

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/reelhouse/reelhouse/rrd"
)

// RegisterFolder registers all recordings below a folder, one file by another:
// a file that cannot be read or does not fit is told among the problems and
// does not keep the others out. Of files with the same recording the first by
// path counts. It returns the number of segments.
func (d *Dataset) RegisterFolder(ctx context.Context, dir string) (segments int, problems []error) {
	paths, problems := walkRecordings(dir)
	stores := make([][]loaded, len(paths))
	errs := make([]error, len(paths))
	var g errgroup.Group
	g.SetLimit(2 * runtime.GOMAXPROCS(0))
	for i, p := range paths {
		g.Go(func() error {
			if errs[i] = ctx.Err(); errs[i] == nil {
				stores[i], errs[i] = d.catalog.load(ctx, p, rrd.Recording)
			}
			return nil
		})
	}
	// The functions return no errors.
	_ = g.Wait()
	c := d.catalog
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, p := range paths {
		if errs[i] != nil {
			problems = append(problems, fmt.Errorf("%s: %w", p, errs[i]))
			continue
		}
		for _, s := range stores[i] {
			if err := d.commit(candidate{s, BaseLayer, FileURL(p)}, FailDuplicates); err != nil {
				problems = append(problems, fmt.Errorf("%s: segment %q: %w", p, s.segment, err))
				continue
			}
			segments++
		}
	}
	c.touch(d)
	return segments, problems
}

// walkRecordings lists the recordings below a folder, and what could not be listed.
func walkRecordings(dir string) (paths []string, problems []error) {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			problems = append(problems, err)
			if e != nil && e.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if !e.IsDir() && strings.EqualFold(filepath.Ext(path), ".rrd") {
			paths = append(paths, path)
		}
		return nil
	})
	if err != nil {
		problems = append(problems, err)
	}
	return paths, problems
}
