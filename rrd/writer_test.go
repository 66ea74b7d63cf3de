package rrd_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"

	"github.com/reelhouse/reelhouse/chunk"
	"github.com/reelhouse/reelhouse/internal/testkit"
	"github.com/reelhouse/reelhouse/rrd"
)

// readable are the golden files that can be read to the end.
func readable(t *testing.T) []string {
	var paths []string
	for path, c := range loadCases(t) {
		ok := len(c.Stores) > 0
		for _, s := range c.Stores {
			ok = ok && s.StreamError == nil
		}
		// Columns of another type than their component type says stay so.
		ok = ok && !strings.Contains(c.CLI["verify"].Stderr, "Failed to deserialize")
		if ok {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}

// rewrite decodes all of a recording and writes it anew.
func rewrite(t testing.TB, in io.Reader, out io.Writer, opt rrd.WriterOptions) {
	t.Helper()
	ctx := context.Background()
	w := rrd.NewWriter(out, opt)
	defer w.Abort()
	for item, err := range rrd.Read(ctx, in, rrd.ReadOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		switch item.Kind {
		case rrd.KindStoreInfo:
			err = w.SetStoreInfo(item.Info)
		case rrd.KindArrow:
			err = w.WriteChunk(ctx, item.Arrow.Store, item.Chunk)
		case rrd.KindActivation:
			err = w.Activate(item.Activation)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// passThrough copies a recording without decoding it.
func passThrough(t testing.TB, path string, out io.Writer, opt rrd.WriterOptions) {
	t.Helper()
	f, err := rrd.Open(path, rrd.FileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	manifests, err := f.Index(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	type row struct {
		m *rrd.Manifest
		i int
	}
	rows := map[int64]row{}
	for _, m := range manifests {
		for i := range m.Len() {
			rows[m.Offset(i)] = row{m, i}
		}
	}
	w := rrd.NewWriter(out, opt)
	defer w.Abort()
	s := rrd.NewScanner(f.Reader(), rrd.ScanOptions{})
	for {
		m, err := s.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch m.Kind {
		case rrd.KindStoreInfo:
			err = w.SetStoreInfo(m.Info)
		case rrd.KindArrow:
			r := rows[m.Offset+rrd.MessageHeaderSize]
			e := r.m.Entry(r.i)
			err = w.WriteEncoded(&m.Arrow, &e)
		case rrd.KindActivation:
			err = w.Activate(m.Activation)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// digest sums up the chunks of a recording.
func digest(t testing.TB, r io.Reader) (lines []string) {
	t.Helper()
	for item, err := range rrd.Read(context.Background(), r, rrd.ReadOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		if item.Chunk == nil {
			continue
		}
		b := item.Chunk.RecordBatch()
		h := sha256.New()
		for _, c := range b.Columns() {
			fmt.Fprint(h, testkit.DigestRRD(c))
		}
		lines = append(lines, fmt.Sprintf("%v %v %x", item.Arrow.Store, b.Schema(), h.Sum(nil)))
	}
	return lines
}

// The footers we make of a file are those that the reference made of it.
func TestRewriteGolden(t *testing.T) {
	for _, path := range readable(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			want := digest(t, bytes.NewReader(data))
			for _, workers := range []int{1, 3} {
				var decoded bytes.Buffer
				rewrite(t, bytes.NewReader(data), &decoded, rrd.WriterOptions{Workers: workers})
				if d := cmp.Diff(want, digest(t, &decoded)); d != "" {
					t.Fatalf("rewritten by %d (-want +got):\n%s", workers, d)
				}
			}
			var decoded, passed bytes.Buffer
			rewrite(t, bytes.NewReader(data), &decoded, rrd.WriterOptions{})
			passThrough(t, path, &passed, rrd.WriterOptions{})
			if d := cmp.Diff(want, digest(t, bytes.NewReader(passed.Bytes()))); d != "" {
				t.Fatalf("passed through (-want +got):\n%s", d)
			}
			orig, err := rrd.Open(path, rrd.FileOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer orig.Close()
			wantMan, err := orig.Manifests()
			if errors.Is(err, rrd.ErrNoFooter) {
				return
			}
			indexed := 0
			for _, m := range wantMan {
				indexed += m.Len()
			}
			if indexed != len(want) || len(wantMan) != len(orig.Stores()) {
				return // the stream does not get to all of them, or there are several
			}
			for name, buf := range map[string]*bytes.Buffer{"rewritten": &decoded, "passed through": &passed} {
				f, err := rrd.NewFile(bytes.NewReader(buf.Bytes()), int64(buf.Len()), rrd.FileOptions{})
				if err != nil {
					t.Fatal(err)
				}
				got, err := f.Manifests()
				if err != nil {
					t.Fatal(err)
				}
				if len(wantMan) != len(got) {
					t.Fatalf("%s: %d manifests, want %d", name, len(got), len(wantMan))
				}
				for _, g := range got {
					i := slices.IndexFunc(wantMan, func(m *rrd.Manifest) bool { return m.Store == g.Store })
					sameManifest(t, name, wantMan[i], g)
					if g.Hash != wantMan[i].Hash {
						t.Errorf("%s: hash of %v differs", name, g.Store)
					}
					for row := range g.Len() {
						if _, err := f.ReadChunk(g, row); err != nil {
							t.Errorf("%s: %v", name, err)
						}
					}
				}
			}
		})
	}
}

// sameManifest compares all columns but those about places in the file.
func sameManifest(t *testing.T, name string, want, got *rrd.Manifest) {
	t.Helper()
	a, b := want.Batch(), got.Batch()
	if d := cmp.Diff(a.Schema().String(), b.Schema().String()); d != "" {
		t.Errorf("%s: manifest of %v (-want +got):\n%s", name, want.Store, d)
		return
	}
	for i, f := range a.Schema().Fields() {
		if strings.HasPrefix(f.Name, "chunk_byte_") {
			continue
		}
		if !array.Equal(a.Column(i), b.Column(i)) {
			t.Errorf("%s: manifest of %v, column %s: %v, want %v", name, want.Store, f.Name, b.Column(i), a.Column(i))
		}
	}
}

// bigChunks makes chunks that do compress and some that do not.
func bigChunks(t testing.TB, n, rows int) []*chunk.Chunk {
	t.Helper()
	var out []*chunk.Chunk
	seed := uint64(1)
	for i := range n {
		times := make([]int64, rows)
		offsets := make([]int32, rows+1)
		vals := make([]float64, rows)
		for j := range times {
			times[j] = int64(i*rows + j)
			offsets[j+1] = int32(j + 1)
			vals[j] = float64(j)
			if i%2 == 1 {
				seed = seed*6364136223846793005 + 1442695040888963407
				vals[j] = float64(seed) / 3
			}
		}
		values := array.NewData(arrow.PrimitiveTypes.Float64, rows, []*memory.Buffer{nil, memory.NewBufferBytes(arrow.Float64Traits.CastToBytes(vals))}, nil, 0, 0)
		list := array.NewListData(array.NewData(arrow.ListOf(arrow.PrimitiveTypes.Float64), rows,
			[]*memory.Buffer{nil, memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(offsets))}, []arrow.ArrayData{values}, 0, 0))
		c, err := chunk.New(chunk.EntityPathFromParts("robot", fmt.Sprint("joint", i%5)),
			[]chunk.TimeColumn{chunk.NewTimeColumn("frame", chunk.Sequence, times)},
			[]chunk.Component{{Descriptor: chunk.ArchetypeDescriptor("rerun.archetypes.Scalars", "scalars", "rerun.components.Scalar"), Values: list}})
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, c)
	}
	return out
}

var testStore = rrd.NewStoreID(rrd.Recording, "app.x", "rec")

func writeChunks(w *rrd.Writer, chunks []*chunk.Chunk) error {
	for _, c := range chunks {
		if err := w.WriteChunk(context.Background(), testStore, c); err != nil {
			return err
		}
	}
	return w.Close()
}

// failAfter fails once n bytes were written, the last write being short.
type failAfter struct{ n int }

var errDisk = errors.New("disk full")

func (f *failAfter) Write(b []byte) (int, error) {
	if len(b) > f.n {
		n := f.n
		f.n = 0
		return n, errDisk
	}
	f.n -= len(b)
	return len(b), nil
}

// A write that fails at any byte fails the writer, and every reader takes what
// lies before.
func TestWriterFaults(t *testing.T) {
	defer testkit.CheckLeaks(t)
	chunks := bigChunks(t, 1, 2)
	var whole bytes.Buffer
	if err := writeChunks(rrd.NewWriter(&whole, rrd.WriterOptions{}), chunks); err != nil {
		t.Fatal(err)
	}
	for n := range whole.Len() {
		w := rrd.NewWriter(&failAfter{n}, rrd.WriterOptions{})
		err := writeChunks(w, chunks)
		w.Abort()
		if !errors.Is(err, errDisk) {
			t.Fatalf("failure at byte %d: %v", n, err)
		}
		if err := w.WriteChunk(context.Background(), testStore, chunks[0]); err == nil {
			t.Fatalf("failure at byte %d was forgotten", n)
		}
		cut := whole.Bytes()[:n]
		got := 0
		for item, err := range rrd.Read(context.Background(), bytes.NewReader(cut), rrd.ReadOptions{Workers: 1}) {
			if err != nil {
				t.Fatalf("cut at %d: %v", n, err)
			}
			if item.Kind == rrd.KindArrow {
				got++
			}
		}
		strict := 0
		for _, err := range rrd.Read(context.Background(), bytes.NewReader(cut), rrd.ReadOptions{Workers: 1, ScanOptions: rrd.ScanOptions{Strict: true}}) {
			if err != nil {
				var fe *rrd.Error
				if !errors.As(err, &fe) || !fe.Fatal || !errors.Is(err, rrd.ErrTruncated) {
					t.Fatalf("cut at %d: %v", n, err)
				}
				break
			}
			strict++
		}
	}
}

func TestPublish(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.rrd")
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	boom := errors.New("boom")
	for n := range 5 {
		err := rrd.WriteFile(path, func(w io.Writer) error {
			for range n {
				if _, err := w.Write([]byte("new")); err != nil {
					return err
				}
			}
			return boom
		})
		if !errors.Is(err, boom) {
			t.Fatal(err)
		}
		checkDir(t, dir, "old")
	}
	if err := rrd.WriteFile(path, func(w io.Writer) error { _, err := w.Write([]byte("new")); return err }); err != nil {
		t.Fatal(err)
	}
	checkDir(t, dir, "new")
	st, err := os.Stat(path)
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", st.Mode(), err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink("a.rrd", link); err != nil {
		t.Fatal(err)
	}
	if err := rrd.WriteFile(link, func(w io.Writer) error { _, err := w.Write([]byte("linked")); return err }); err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(path); string(b) != "linked" {
		t.Errorf("through a link: %q", b)
	}
	if err := rrd.WriteFile(os.DevNull, func(w io.Writer) error { _, err := w.Write([]byte("x")); return err }); err != nil {
		t.Errorf("to a device: %v", err)
	}
	if _, err := rrd.Create(dir); err == nil {
		t.Error("a directory was opened")
	}
	if _, err := rrd.Create(filepath.Join(dir, "none", "x")); err == nil {
		t.Error("a folder that is not there was written to")
	}
}

func checkDir(t *testing.T, dir, content string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Fatalf("%d files: %v", len(entries), err)
	}
	b, err := os.ReadFile(filepath.Join(dir, entries[0].Name()))
	if err != nil || string(b) != content {
		t.Fatalf("content %q, %v", b, err)
	}
}

// Chunks that do not shrink are stored plain; both kinds read back.
func TestWriterCompression(t *testing.T) {
	chunks := bigChunks(t, 4, 50000)
	for _, plain := range []bool{false, true} {
		var out bytes.Buffer
		w := rrd.NewWriter(&out, rrd.WriterOptions{NoCompression: plain})
		if err := writeChunks(w, chunks); err != nil {
			t.Fatal(err)
		}
		s := rrd.NewScanner(&out, rrd.ScanOptions{Strict: true})
		i := 0
		for {
			m, err := s.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if m.Kind != rrd.KindArrow {
				continue
			}
			want := rrd.CompressionLZ4
			if plain {
				want = rrd.CompressionNone
			}
			if i == 0 && m.Arrow.Compression != want {
				t.Errorf("chunk %d: %v", i, m.Arrow.Compression)
			}
			if m.Arrow.Store != testStore || m.Arrow.ChunkID != chunks[i].ID() {
				t.Errorf("chunk %d: %v %v", i, m.Arrow.Store, m.Arrow.ChunkID)
			}
			var d rrd.Decoder
			c, err := d.Chunk(&m.Arrow, nil)
			if err != nil {
				t.Fatal(err)
			}
			if !array.RecordEqual(c.RecordBatch(), chunks[i].RecordBatch()) {
				t.Errorf("chunk %d differs", i)
			}
			i++
		}
		if i != len(chunks) {
			t.Errorf("%d chunks", i)
		}
	}
}

func TestWriterMisuse(t *testing.T) {
	defer testkit.CheckLeaks(t)
	w := rrd.NewWriter(io.Discard, rrd.WriterOptions{})
	if err := w.SetStoreInfo(rrd.StoreInfo{}); !errors.Is(err, rrd.ErrMissingField) {
		t.Error(err)
	}
	if err := w.WriteEncoded(&rrd.ArrowMsg{Store: testStore}, nil); !errors.Is(err, rrd.ErrManifest) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := w.WriteChunk(ctx, testStore, bigChunks(t, 1, 1)[0]); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	if err := w.Close(); !errors.Is(err, rrd.ErrClosed) {
		t.Error(err)
	}
	if err := w.Flush(); !errors.Is(err, rrd.ErrClosed) {
		t.Error(err)
	}
}

// peer finds the reference in the project's virtual environment.
func peer(t testing.TB, name string) string {
	return filepath.Join(testkit.Venv(t), "bin", name)
}

// What we write, the reference's command and reader accept, and read the same.
func TestPeerReads(t *testing.T) {
	cli, python := peer(t, "rerun"), peer(t, "python")
	dir := t.TempDir()
	var files []string
	for _, path := range readable(t) {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(path), ".rrd")
		for kind, write := range map[string]func(io.Writer) error{
			"rewritten": func(w io.Writer) error { rewrite(t, bytes.NewReader(data), w, rrd.WriterOptions{}); return nil },
			"plain": func(w io.Writer) error {
				rewrite(t, bytes.NewReader(data), w, rrd.WriterOptions{NoCompression: true})
				return nil
			},
			"passed": func(w io.Writer) error { passThrough(t, path, w, rrd.WriterOptions{}); return nil },
		} {
			out := filepath.Join(dir, name+"."+kind+".rrd")
			if err := rrd.WriteFile(out, write); err != nil {
				t.Fatal(err)
			}
			files = append(files, out)
		}
	}
	big := filepath.Join(dir, "big.rrd")
	err := rrd.WriteFile(big, func(w io.Writer) error {
		return writeChunks(rrd.NewWriter(w, rrd.WriterOptions{}), bigChunks(t, 9, 40000))
	})
	if err != nil {
		t.Fatal(err)
	}
	files = append(files, big)
	cmd := exec.Command(cli, append([]string{"rrd", "verify"}, files...)...)
	cmd.Env = append(os.Environ(), "RERUN_ANALYTICS=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("verify: %v\n%s", err, out)
	}
	cmd = exec.Command(python, append([]string{"testdata/read_peer.py"}, files...)...)
	cmd.Env = append(os.Environ(), "RERUN_ANALYTICS=off")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("reader: %v\n%s", err, &stderr)
	}
	want := strings.Builder{}
	for _, path := range files {
		f, err := rrd.Open(path, rrd.FileOptions{})
		if err != nil {
			t.Fatal(err)
		}
		rows, n := 0, 0
		for c, err := range rrd.Chunks(context.Background(), f.Reader(), rrd.ReadOptions{}) {
			if err != nil {
				t.Fatal(err)
			}
			n, rows = n+1, rows+c.NumRows()
		}
		fmt.Fprintf(&want, "%s %d %d %d\n", filepath.Base(path), len(f.Stores()), n, rows)
		f.Close()
	}
	if d := cmp.Diff(want.String(), string(out)); d != "" {
		t.Errorf("(-ours +reference):\n%s", d)
	}
}
