package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/reelhouse/reelhouse/chunk"
	"github.com/reelhouse/reelhouse/client"
	"github.com/reelhouse/reelhouse/query"
	"github.com/reelhouse/reelhouse/rrd"
	"github.com/reelhouse/reelhouse/store"
)

// openRemote adds the segments of a data set on a catalog server. Their
// indexes are fetched at once, chunks when the query reaches them.
func openRemote(ctx context.Context, address string, f *queryFlags, s *sources) error {
	u, err := client.ParseURL(address)
	if err != nil {
		return usageError{err}
	}
	c := client.New(u, client.Options{Token: cmp.Or(f.token, os.Getenv("REDAP_TOKEN"))})
	s.closers = append(s.closers, func() error { c.Close(); return nil })
	name := cmp.Or(f.dataset, u.Entry)
	if name == "" {
		if name, err = onlyDataset(ctx, c); err != nil {
			return err
		}
	}
	d, err := c.Dataset(ctx, name)
	if err != nil {
		return err
	}
	ids := f.segments
	switch {
	case len(ids) == 0 && u.Segment != "":
		ids = []string{u.Segment}
	case len(ids) == 0:
		if ids, err = d.SegmentIDs(ctx); err != nil {
			return err
		}
	}
	if len(ids) == 0 {
		return fmt.Errorf("data set %q has no segments", name)
	}
	ids = slices.Sorted(slices.Values(ids))
	s.segments = make([]query.Segment, len(ids))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(8)
	for i, id := range ids {
		g.Go(func() error {
			seg, err := d.Segment(ctx, id)
			if err != nil {
				return err
			}
			load := func(ctx context.Context, _ *rrd.Manifest, rows []int) ([]*chunk.Chunk, error) {
				return seg.Load(ctx, rows)
			}
			s.segments[i] = query.Segment{ID: id, View: store.NewLazy(load, seg.Manifest)}
			return nil
		})
	}
	return g.Wait()
}

// onlyDataset is the name of the server's data set if it has exactly one.
func onlyDataset(ctx context.Context, c *client.Client) (string, error) {
	entries, err := c.Entries(ctx)
	if err != nil {
		return "", err
	}
	var names []string
	for _, e := range entries {
		if e.Kind == "dataset" && !e.Hidden() {
			names = append(names, e.Name)
		}
	}
	switch len(names) {
	case 0:
		return "", fmt.Errorf("%s has no data set", c.URL())
	case 1:
		return names[0], nil
	}
	return "", usageErrorf("choose a data set with --dataset: %s", strings.Join(names, ", "))
}
