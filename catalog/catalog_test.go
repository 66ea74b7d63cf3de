package catalog_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/reelhouse/reelhouse/catalog"
	"github.com/reelhouse/reelhouse/chunk"
	"github.com/reelhouse/reelhouse/internal/testkit"
	"github.com/reelhouse/reelhouse/rrd"
)

func newCatalog(t testing.TB) *catalog.Catalog {
	t.Helper()
	testkit.CheckLeaks(t)
	c, err := catalog.New(catalog.Options{Dir: t.TempDir(), OpenFiles: 4})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// floats is a component column with a value a row; nulls where the value is
// negative.
func floats(name string, v ...float64) chunk.Component {
	b := array.NewListBuilder(memory.DefaultAllocator, arrow.PrimitiveTypes.Float64)
	for _, x := range v {
		if x < 0 {
			b.AppendNull()
			continue
		}
		b.Append(true)
		b.ValueBuilder().(*array.Float64Builder).Append(x)
	}
	return chunk.Component{Descriptor: chunk.Descriptor{Component: name}, Values: b.NewListArray()}
}

func frames(v ...int64) []chunk.TimeColumn {
	return []chunk.TimeColumn{chunk.NewTimeColumn("frame", chunk.Sequence, v)}
}

func makeChunk(t testing.TB, entity string, times []chunk.TimeColumn, components ...chunk.Component) *chunk.Chunk {
	t.Helper()
	c, err := chunk.New(chunk.ParseEntityPath(entity), times, components)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func writeRecording(t testing.TB, path, recording string, opt rrd.WriterOptions, chunks ...*chunk.Chunk) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := rrd.NewWriter(f, opt)
	for _, c := range chunks {
		if err := w.WriteChunk(t.Context(), rrd.NewStoreID(rrd.Recording, "app", recording), c); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// episode writes a recording of n chunks of ten rows.
func episode(t testing.TB, dir, recording string, n int, opt rrd.WriterOptions) string {
	t.Helper()
	path := filepath.Join(dir, recording+".rrd")
	var chunks []*chunk.Chunk
	for i := range n {
		times, values := make([]int64, 10), make([]float64, 10)
		for j := range times {
			times[j] = int64(10*i + j)
			values[j] = float64(times[j])
		}
		chunks = append(chunks, makeChunk(t, "/joint", frames(times...), floats("v", values...)))
	}
	chunks = append(chunks, makeChunk(t, "/note", nil, floats("n", 1)))
	writeRecording(t, path, recording, opt, chunks...)
	return path
}

func register(t testing.TB, d *catalog.Dataset, path string) {
	t.Helper()
	done, err := d.Register(t.Context(), []catalog.Source{{URL: catalog.FileURL(path)}}, catalog.FailDuplicates)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range done {
		if r.Task != catalog.TaskDone {
			t.Fatalf("%+v failed", r)
		}
	}
}

func allKeys(t testing.TB, d *catalog.Dataset) [][]byte {
	t.Helper()
	b, err := d.Find(catalog.Query{Static: true, Everything: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return keysOf(b)
}

func keysOf(b arrow.RecordBatch) (keys [][]byte) {
	col := b.Column(b.Schema().FieldIndices(catalog.KeyColumn)[0]).(*array.Binary)
	for i := range col.Len() {
		keys = append(keys, col.Value(i))
	}
	return keys
}

// fetchRows fetches chunks, decodes them and counts their rows.
func fetchRows(ctx context.Context, c *catalog.Catalog, keys [][]byte) (rows int, err error) {
	var dec rrd.Decoder
	for batch, err := range c.Fetch(ctx, keys) {
		if err != nil {
			return rows, err
		}
		for _, b := range batch.Chunks {
			m, err := rrd.ParseArrowMsg(b)
			if err != nil {
				return rows, err
			}
			ch, err := dec.Chunk(&m, nil) // only its rows are counted
			if err != nil {
				return rows, err
			}
			rows += ch.NumRows()
		}
		batch.Release()
	}
	return rows, nil
}

func TestFetch(t *testing.T) {
	for name, opt := range map[string]rrd.WriterOptions{"lz4": {}, "plain": {NoCompression: true}, "no footer": {NoFooter: true}} {
		t.Run(name, func(t *testing.T) {
			c := newCatalog(t)
			d, err := c.CreateDataset("d", nil)
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			for i := range 6 { // more than there may be open files
				register(t, d, episode(t, dir, fmt.Sprint("r", i), 20, opt))
			}
			rows, err := fetchRows(t.Context(), c, allKeys(t, d))
			if err != nil || rows != 6*201 {
				t.Errorf("%d rows, %v", rows, err)
			}
			if n := c.Stats().OpenFiles; n > 4 {
				t.Errorf("%d open files", n)
			}
		})
	}
}

func TestKeys(t *testing.T) {
	c := newCatalog(t)
	d, err := c.CreateDataset("d", nil)
	if err != nil {
		t.Fatal(err)
	}
	register(t, d, episode(t, t.TempDir(), "r", 2, rrd.WriterOptions{}))
	keys := allKeys(t, d)
	for i := range keys[0] {
		bad := append([]byte(nil), keys[0]...)
		bad[i] ^= 1
		if _, err := fetchRows(t.Context(), c, [][]byte{bad}); !errors.Is(err, catalog.ErrInvalid) {
			t.Errorf("flipped byte %d: %v", i, err)
		}
	}
	for _, bad := range [][]byte{nil, {1}, keys[0][:23], append(append([]byte(nil), keys[0]...), 0)} {
		if _, err := fetchRows(t.Context(), c, [][]byte{bad}); !errors.Is(err, catalog.ErrInvalid) {
			t.Errorf("%x: %v", bad, err)
		}
	}
	if _, err := d.Unregister([]string{"r"}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := fetchRows(t.Context(), c, keys); !errors.Is(err, catalog.ErrNotFound) {
		t.Errorf("key of a removed segment: %v", err)
	}
}

// TestChangedFile changes a file in all ways that a user may while it is served.
func TestChangedFile(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(t *testing.T, path string)
		want   error // nil: the same rows as before
	}{
		"removed":   {func(t *testing.T, p string) { must(t, os.Remove(p)) }, catalog.ErrNotFound},
		"truncated": {func(t *testing.T, p string) { must(t, os.Truncate(p, 200)) }, catalog.ErrChanged},
		"grown":     {func(t *testing.T, p string) { appendTo(t, p, "more") }, catalog.ErrChanged},
		"written anew": {func(t *testing.T, p string) {
			episode(t, filepath.Dir(p), "r", 20, rrd.WriterOptions{})
		}, catalog.ErrChanged},
		"replaced by another": {func(t *testing.T, p string) {
			other := episode(t, t.TempDir(), "r", 20, rrd.WriterOptions{})
			must(t, os.Rename(other, p))
		}, catalog.ErrChanged},
		"touched": {func(t *testing.T, p string) { must(t, os.Chtimes(p, time.Now(), time.Now().Add(time.Hour))) }, nil},
		"replaced by a copy": {func(t *testing.T, p string) {
			b, err := os.ReadFile(p)
			must(t, err)
			must(t, os.WriteFile(p+".copy", b, 0o600))
			must(t, os.Rename(p+".copy", p))
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCatalog(t)
			d, err := c.CreateDataset("d", nil)
			must(t, err)
			path := episode(t, t.TempDir(), "r", 20, rrd.WriterOptions{})
			register(t, d, path)
			keys := allKeys(t, d)
			if rows, err := fetchRows(t.Context(), c, keys); err != nil || rows != 201 {
				t.Fatalf("%d rows, %v", rows, err)
			}
			tc.change(t, path)
			rows, err := fetchRows(t.Context(), c, keys)
			if tc.want == nil && (err != nil || rows != 201) {
				t.Errorf("%d rows, %v", rows, err)
			}
			if tc.want != nil && (!errors.Is(err, tc.want) || !strings.Contains(err.Error(), path)) {
				t.Errorf("%d rows, error %v, want %v", rows, err, tc.want)
			}
		})
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	must(t, err)
	_, err = f.WriteString(text)
	must(t, errors.Join(err, f.Close()))
}

// TestBrokenFiles registers files that no footer or no whole message remains of.
func TestBrokenFiles(t *testing.T) {
	c := newCatalog(t)
	d, err := c.CreateDataset("d", nil)
	must(t, err)
	dir := t.TempDir()
	whole := episode(t, dir, "whole", 20, rrd.WriterOptions{})
	b, err := os.ReadFile(whole)
	must(t, err)
	path := filepath.Join(dir, "broken.rrd")
	try := func(b []byte) (int, error) {
		must(t, os.WriteFile(path, b, 0o600))
		done, err := d.Register(t.Context(), []catalog.Source{{URL: catalog.FileURL(path)}}, catalog.OverwriteDuplicates)
		if err != nil {
			return 0, err
		}
		return len(done), nil
	}
	if _, err := try(b[:len(b)/2]); !errors.Is(err, catalog.ErrInvalid) || !strings.Contains(err.Error(), "Failed to enumerate RRD stores") {
		t.Errorf("cut inside a message: %v", err)
	}
	for _, short := range [][]byte{nil, b[:4], b[:11], []byte("junk that is longer than a header")} {
		if _, err := try(short); !errors.Is(err, catalog.ErrInvalid) {
			t.Errorf("%d bytes: %v", len(short), err)
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		flipped := append([]byte(nil), b...)
		for range 1 + rng.IntN(3) {
			flipped[rng.IntN(len(flipped))] ^= 1 << rng.IntN(8)
		}
		if _, err := try(flipped); err != nil {
			continue
		}
		// What was registered may be damaged, but reading it must say so or work.
		if _, err := fetchRows(t.Context(), c, allKeys(t, d)); err != nil && errors.Is(err, catalog.ErrInvalid) {
			t.Errorf("damaged content blamed on the caller: %v", err)
		}
	}
}

// TestConcurrent changes, queries and reads a data set at once. Run with -race.
func TestConcurrent(t *testing.T) {
	c := newCatalog(t)
	d, err := c.CreateDataset("app", nil)
	must(t, err)
	dir := t.TempDir()
	paths := make([]string, 8)
	for i := range paths {
		paths[i] = episode(t, dir, fmt.Sprint("r", i), 5, rrd.WriterOptions{})
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	loop := func(f func(i int) error) {
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				if err := f(i); err != nil && ctx.Err() == nil {
					t.Error(err)
					return
				}
			}
		})
	}
	loop(func(i int) error {
		_, err := d.Register(ctx, []catalog.Source{{URL: catalog.FileURL(paths[i%len(paths)])}}, catalog.OverwriteDuplicates)
		return err
	})
	loop(func(i int) error {
		_, err := d.Unregister([]string{fmt.Sprint("r", i%len(paths))}, nil)
		return err
	})
	for range 2 {
		loop(func(int) error {
			at := int64(7)
			b, err := d.Find(catalog.Query{Static: true, Timeline: "frame", Overlaps: &[2]int64{3, 20}, LatestAt: &at},
				[]catalog.StartColumn{{Name: "start", Timeline: "frame", Inside: true}})
			if err != nil {
				if strings.Contains(err.Error(), "unknown timeline") {
					return nil
				}
				return err
			}
			_, err = fetchRows(ctx, c, keysOf(b))
			if errors.Is(err, catalog.ErrNotFound) {
				return nil // it was removed meanwhile
			}
			return err
		})
	}
	loop(func(int) error {
		_, err := d.Segments(nil, catalog.Names{})
		if err == nil {
			_, err = d.Manifest(nil, catalog.Names{}, catalog.Names{})
		}
		_, _ = d.SegmentSchema(), d.Schema()
		return err
	})
	live := c.Ingest()
	loop(func(i int) error {
		ch := makeChunk(t, "/live", frames(int64(i)), floats("v", 1))
		m, err := rrd.EncodeChunk(rrd.NewStoreID(rrd.Recording, "app", "live"), ch, true)
		if err != nil {
			return err
		}
		return live.Write(ctx, rrd.KindArrow, m.Append(nil))
	})
	wg.Go(func() {
		n := 0
		err := c.Follow(ctx, func() error { return nil }, func(rrd.Kind, []byte) error { n++; return nil })
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
	wg.Wait()
	must(t, live.Close())
}
