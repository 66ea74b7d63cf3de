package client_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/reelhouse/reelhouse/client"
	"github.com/reelhouse/reelhouse/internal/testkit"
)

func TestParseURL(t *testing.T) {
	for in, want := range map[string]client.URL{
		"rerun+http://127.0.0.1":      {Host: "127.0.0.1:51234"},
		"rerun+http://h:9/":           {Host: "h:9"},
		"rerun://h":                   {Host: "h:51234", TLS: true},
		"rerun+https://[::1]:7/proxy": {Host: "[::1]:7", TLS: true},
		"rerun+http://h/dataset/18ED?segment_id=run%201#when=x": {Host: "h:51234", Entry: "18ED", Segment: "run 1"},
	} {
		got, err := client.ParseURL(in)
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v", in, got, err)
		}
	}
	for _, bad := range []string{"", "h:9", "http://h", "rerun+http://", "rerun+http://h/what", "rerun+http://h:x"} {
		if u, err := client.ParseURL(bad); err == nil {
			t.Errorf("%q: %+v", bad, u)
		}
	}
}

// TestServers does the same with our server and with the reference.
func TestServers(t *testing.T) {
	testkit.CheckLeaks(t)
	data := filepath.Join(t.TempDir(), "data")
	script := "import sys; sys.path.insert(0, sys.argv[1]); import rrds; rrds.make_all(sys.argv[2])"
	testkit.RunPython(t, "-c", script, testkit.Golden(t, "catalog"), data)
	for name, s := range map[string]*testkit.Server{"reel": testkit.StartReel(t), "reference": testkit.StartRerun(t)} {
		t.Run(name, func(t *testing.T) {
			u, err := client.ParseURL(s.URL)
			if err != nil {
				t.Fatal(err)
			}
			c := client.New(u, client.Options{})
			defer c.Close()
			useServer(t, c, data)
		})
	}
}

func useServer(t *testing.T, c *client.Client, data string) {
	ctx := t.Context()
	if err := c.Ping(ctx); err != nil {
		t.Fatal(err)
	}
	d, err := c.CreateDataset(ctx, "tried")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.CreateDataset(ctx, "tried"); !errors.Is(err, client.ErrExists) {
		t.Errorf("created twice: %v", err)
	}
	if _, err := c.Dataset(ctx, "nope"); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("unknown data set: %v", err)
	}
	if e, err := c.Entry(ctx, d.Entry().ID.String()); err != nil || e.Name != "tried" {
		t.Errorf("by id: %+v, %v", e, err)
	}
	done, err := d.Register(ctx, []client.Source{{URL: "file://" + data, Folder: true}}, client.FailDuplicates)
	if err != nil || len(done) != 4 {
		t.Fatalf("%+v, %v", done, err)
	}
	done, err = d.Register(ctx, []client.Source{{URL: "file://" + data + "/ep0.rrd"}}, client.FailDuplicates)
	if err != nil || len(done) != 1 || done[0].Problem == "" {
		t.Errorf("%+v, %v", done, err)
	}
	if _, err := d.Register(ctx, []client.Source{{URL: "file://" + data + "/nope.rrd"}}, client.FailDuplicates); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("missing file: %v", err)
	}
	ids, err := d.SegmentIDs(ctx)
	slices.Sort(ids)
	if want := []string{"ep_0", "ep_1", "ep_2", "ep_3"}; err != nil || !slices.Equal(ids, want) {
		t.Errorf("segments %v, %v", ids, err)
	}
	schema, err := d.Schema(ctx)
	if err != nil || len(schema.FieldIndices("/robot/joint:Scalars:scalars")) != 1 {
		t.Errorf("schema %v, %v", schema, err)
	}
	seg, err := d.Segment(ctx, "ep_3")
	if err != nil {
		t.Fatal(err)
	}
	var rows []int
	for i := range seg.Manifest.Len() {
		rows = append(rows, i)
	}
	chunks, err := seg.Load(ctx, rows)
	if err != nil {
		t.Fatal(err)
	}
	for i, ch := range chunks {
		if ch.EntityPath() != seg.Manifest.Entity(i) || uint64(ch.NumRows()) != seg.Manifest.NumRows(i) {
			t.Errorf("chunk %d is %v with %d rows", i, ch.EntityPath(), ch.NumRows())
		}
	}
	// Ending early must leave nothing behind.
	for _, err := range seg.Fetch(ctx, rows) {
		if err != nil {
			t.Error(err)
		}
		break
	}
	if _, err := d.Segment(ctx, "nope"); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("unknown segment: %v", err)
	}
	if err := d.Unregister(ctx, []string{"ep_3"}, nil); err != nil {
		t.Error(err)
	}
	for _, err := range seg.Fetch(ctx, rows) {
		if !errors.Is(err, client.ErrNotFound) {
			t.Errorf("chunks of a removed segment: %v", err)
		}
	}
	if err := c.Rename(ctx, d.Entry(), "renamed"); err != nil {
		t.Error(err)
	}
	if err := c.Delete(ctx, d.Entry()); err != nil {
		t.Error(err)
	}
	entries, err := c.Entries(ctx)
	if err != nil || slices.ContainsFunc(entries, func(e client.Entry) bool { return e.Kind == "dataset" }) {
		t.Errorf("entries %s, %v", fmt.Sprint(entries), err)
	}
}
