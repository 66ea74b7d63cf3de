package edit

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"

	"github.com/reelhouse/reelhouse/chunk"
	"github.com/reelhouse/reelhouse/rrd"
)

var storeA = rrd.NewStoreID(rrd.Recording, "app", "a")

// floats is a chunk with one value a row on the timeline "t".
func floats(t testing.TB, entity chunk.EntityPath, component string, times []int64, values ...float64) *chunk.Chunk {
	t.Helper()
	b := array.NewFloat64Builder(memory.DefaultAllocator)
	b.AppendValues(values, nil)
	return columns(t, entity, times, chunk.Component{Descriptor: chunk.Descriptor{Component: component}, Values: ones(t, b.NewArray())})
}

func ones(t testing.TB, values arrow.Array) *array.List {
	t.Helper()
	list, err := chunk.Partition(values, slices.Repeat([]int{1}, values.Len()))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func columns(t testing.TB, entity chunk.EntityPath, times []int64, components ...chunk.Component) *chunk.Chunk {
	t.Helper()
	var axes []chunk.TimeColumn
	if times != nil {
		axes = []chunk.TimeColumn{chunk.NewTimeColumn("t", chunk.Sequence, times)}
	}
	c, err := chunk.New(entity, axes, components)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func encode(t testing.TB, opt rrd.WriterOptions, write func(w *rrd.Writer) error) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := rrd.NewWriter(&buf, opt)
	defer w.Abort()
	if err := write(w); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func recording(t testing.TB, store rrd.StoreID, chunks ...*chunk.Chunk) []byte {
	t.Helper()
	return encode(t, rrd.WriterOptions{}, func(w *rrd.Writer) error {
		for _, c := range chunks {
			if err := w.WriteChunk(t.Context(), store, c); err != nil {
				return err
			}
		}
		return nil
	})
}

// content is what tests compare of a recording, in file order.
func content(t testing.TB, b []byte) []string {
	t.Helper()
	var all []string
	for item, err := range rrd.Read(context.Background(), bytes.NewReader(b), rrd.ReadOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		switch item.Kind {
		case rrd.KindStoreInfo:
			all = append(all, "info "+item.Info.Store.String())
		case rrd.KindActivation:
			all = append(all, "activate "+item.Activation.Blueprint.String())
		case rrd.KindArrow:
			text := item.Arrow.Store.Recording + " " + string(item.Chunk.EntityPath())
			for i := range item.Chunk.NumRows() {
				if axis := item.Chunk.Timeline("t"); axis != nil {
					text += " t" + chunk.ValueText(axis.Array(), i)
				}
				for _, m := range item.Chunk.Components() {
					text += " " + m.Component + chunk.ValueText(m.Values, i)
				}
			}
			all = append(all, text)
		}
	}
	return all
}

func apply(t testing.TB, inputs [][]byte, f func([]*Source, *bytes.Buffer) error) ([]string, error) {
	t.Helper()
	var sources []*Source
	for _, b := range inputs {
		sources = append(sources, FromReader("input", bytes.NewReader(b)))
	}
	var out bytes.Buffer
	if err := f(sources, &out); err != nil {
		return nil, err
	}
	for _, s := range sources {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	return content(t, out.Bytes()), nil
}

func TestMerge(t *testing.T) {
	once := floats(t, "/a", "x", []int64{1, 2}, 10, 20)
	old := floats(t, "/s", "x", nil, 1)
	young := floats(t, "/s", "x", nil, 2)
	id := chunk.NewTUID()
	empty, err := chunk.Assemble(chunk.NewTUID(), "/e", id[:], nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	blueprint := rrd.NewStoreID(rrd.Blueprint, "app", "bp")
	first := encode(t, rrd.WriterOptions{}, func(w *rrd.Writer) error {
		return errors.Join(
			w.WriteChunk(t.Context(), storeA, once),
			w.WriteChunk(t.Context(), storeA, old),
			w.WriteChunk(t.Context(), storeA, empty),
			w.WriteChunk(t.Context(), blueprint, floats(t, "/view", "x", []int64{0}, 5)),
			w.Activate(rrd.Activation{Blueprint: blueprint, MakeDefault: true}),
		)
	})
	second := recording(t, storeA, young, once)
	got, err := apply(t, [][]byte{first, second}, func(in []*Source, out *bytes.Buffer) error {
		return Merge(t.Context(), in, out, Options{})
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"info Blueprint:app:bp",
		"bp /view t0 x[5.0]",
		"activate Blueprint:app:bp",
		"info Recording:app:a",
		"a /a t1 x[10.0] t2 x[20.0]",
		"a /s x[2.0]",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("merge (-want +have):\n%s", diff)
	}
}

func TestFilter(t *testing.T) {
	in := recording(t, storeA, floats(t, "/a", "x", []int64{1}, 1), floats(t, "/b", "x", []int64{2}, 2), floats(t, "/b/c", "x", nil, 3))
	got, err := apply(t, [][]byte{in}, func(in []*Source, out *bytes.Buffer) error {
		return Filter(t.Context(), in, out, FilterOptions{Entities: []chunk.EntityPath{"/b"}})
	})
	if want := []string{"info Recording:app:a", "a /a t1 x[1.0]", "a /b/c x[3.0]"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("without an entity: %q, %v", got, err)
	}
	got, err = apply(t, [][]byte{in}, func(in []*Source, out *bytes.Buffer) error {
		return Filter(t.Context(), in, out, FilterOptions{Timelines: []string{"t"}})
	})
	if want := []string{"info Recording:app:a", "a /a x[1.0]", "a /b x[2.0]", "a /b/c x[3.0]"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("without a timeline: %q, %v", got, err)
	}
}

func TestRoute(t *testing.T) {
	in := recording(t, storeA, floats(t, "/a", "x", []int64{1}, 1))
	got, err := apply(t, [][]byte{in, in}, func(in []*Source, out *bytes.Buffer) error {
		n, err := Route(t.Context(), in, out, RouteOptions{Application: "b c", Recording: "r"})
		if err == nil && n.Messages != 4 {
			t.Errorf("%d messages", n.Messages)
		}
		return err
	})
	if want := []string{"info Recording:b c:r", "r /a t1 x[1.0]", "r /a t1 x[1.0]"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("route: %q, %v", got, err)
	}
}

// TestPassThrough proves that what an operation does not change keeps its bytes.
func TestPassThrough(t *testing.T) {
	path := filepath.Join(t.TempDir(), "in.rrd")
	c := floats(t, "/a", "x", []int64{1, 2}, 10, 20)
	if err := os.WriteFile(path, recording(t, storeA, c), 0o600); err != nil {
		t.Fatal(err)
	}
	payload := func(b []byte) []byte {
		for item, err := range rrd.Read(t.Context(), bytes.NewReader(b), rrd.ReadOptions{Want: func(*rrd.ArrowMsg) bool { return false }}) {
			if err != nil {
				t.Fatal(err)
			}
			if item.Kind == rrd.KindArrow {
				return slices.Clone(item.Arrow.Payload)
			}
		}
		t.Fatal("no chunk")
		return nil
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]func([]*Source, *bytes.Buffer) error{
		"merge": func(in []*Source, out *bytes.Buffer) error { return Merge(t.Context(), in, out, Options{}) },
		"filter": func(in []*Source, out *bytes.Buffer) error {
			return Filter(t.Context(), in, out, FilterOptions{Timelines: []string{"other"}})
		},
		"route": func(in []*Source, out *bytes.Buffer) error {
			_, err := Route(t.Context(), in, out, RouteOptions{Recording: "r"})
			return err
		},
	} {
		s, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := errors.Join(f([]*Source{s}, &out), s.Close()); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(payload(b), payload(out.Bytes())) {
			t.Errorf("%s: payload changed", name)
		}
		f, err := rrd.NewFile(bytes.NewReader(out.Bytes()), int64(out.Len()), rrd.FileOptions{})
		if err != nil {
			t.Fatal(err)
		}
		m, err := f.Manifests()
		if err != nil || len(m) != 1 {
			t.Fatalf("%s: %d manifests, %v", name, len(m), err)
		}
		if got, err := f.ReadChunk(m[0], 0); err != nil || got.ID() != c.ID() {
			t.Errorf("%s: chunk by footer: %v", name, err)
		}
	}
}

func TestDamage(t *testing.T) {
	good := recording(t, storeA, floats(t, "/a", "x", []int64{1}, 1), floats(t, "/b", "x", []int64{2}, 2))
	var second int64
	n := 0
	for item, err := range rrd.Read(t.Context(), bytes.NewReader(good), rrd.ReadOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; item.Kind == rrd.KindArrow {
			second = item.Offset
		}
	}
	bad := slices.Clone(good)
	bad[second+rrd.MessageHeaderSize+2] ^= 0xff // in the protobuf of the second chunk
	filter := func(o Options) ([]string, error) {
		return apply(t, [][]byte{bad}, func(in []*Source, out *bytes.Buffer) error {
			return Filter(t.Context(), in, out, FilterOptions{Options: o})
		})
	}
	var e *rrd.Error
	if _, err := filter(Options{}); !errors.As(err, &e) || e.Offset != second {
		t.Errorf("error %v, want one at %d", err, second)
	}
	var told []*rrd.Error
	got, err := filter(Options{ContinueOnError: true, Report: func(e *rrd.Error) { told = append(told, e) }})
	if want := []string{"info Recording:app:a", "a /a t1 x[1.0]"}; err != nil || !slices.Equal(got, want) || len(told) == 0 {
		t.Errorf("going on: %q, %v, %d reports", got, err, len(told))
	}
	cut := good[:second+20]
	if _, err := apply(t, [][]byte{cut}, func(in []*Source, out *bytes.Buffer) error {
		return Merge(t.Context(), in, out, Options{Strict: true})
	}); !errors.Is(err, rrd.ErrTruncated) {
		t.Errorf("strict: %v", err)
	}
}

func TestMigrateKeepsOldFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.rrd")
	b := recording(t, storeA, floats(t, "/a", "x", []int64{1}, 1))
	if err := os.WriteFile(path, b[:len(b)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Migrate(t.Context(), path, Options{Strict: true}); err == nil {
		t.Fatal("a cut-off file migrates")
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, b[:len(b)/2]) {
		t.Errorf("the file changed: %v", err)
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	backup, err := Migrate(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if old, err := os.ReadFile(backup); err != nil || !bytes.Equal(old, b) {
		t.Errorf("the backup differs: %v", err)
	}
	if _, err := Migrate(t.Context(), path, Options{}); !errors.Is(err, os.ErrExist) {
		t.Errorf("second migration: %v", err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 2 {
		t.Errorf("left behind: %v", entries)
	}
}
