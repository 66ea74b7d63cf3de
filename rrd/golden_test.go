package rrd_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/google/go-cmp/cmp"

	"github.com/reelhouse/reelhouse/chunk"
	"github.com/reelhouse/reelhouse/internal/testkit"
	"github.com/reelhouse/reelhouse/rrd"
)

// goldenCase is what the reference made of a file (golden/rrd/README.md).
type goldenCase struct {
	Case        string
	ReaderError *string `json:"reader_error"`
	Frames      []goldenFrame
	Stores      []goldenStore
	CLI         map[string]struct{ Stderr string }
}

type goldenFrame struct {
	Offset           int64
	Kind             string
	PayloadLen       int64 `json:"payload_len"`
	Compression      *int
	UncompressedSize *uint64 `json:"uncompressed_size"`
	IsStatic         *int    `json:"is_static"`
	HasChunkID       *bool   `json:"has_chunk_id"`
	Version          []int
}

type goldenStore struct {
	Kind          string
	ApplicationID string  `json:"application_id"`
	RecordingID   string  `json:"recording_id"`
	StreamError   *string `json:"stream_error"`
	ManifestError *string `json:"manifest_error"`
	Chunks        []goldenChunk
	Manifest      []goldenColumn
}

func (s goldenStore) id() rrd.StoreID {
	kind := rrd.Recording
	if s.Kind == "blueprint" {
		kind = rrd.Blueprint
	}
	return rrd.StoreID{Kind: kind, Application: s.ApplicationID, Recording: s.RecordingID}
}

type goldenChunk struct {
	ID             string
	EntityPath     string            `json:"entity_path"`
	IsStatic       bool              `json:"is_static"`
	NumRows        int               `json:"num_rows"`
	TimelineNames  []string          `json:"timeline_names"`
	SchemaMetadata map[string]string `json:"schema_metadata"`
	RowIDs         struct {
		Type        string
		Sorted      bool
		Digest      string
		First, Last string
	} `json:"row_ids"`
	Timelines []struct {
		Name, Type string
		Nullable   bool
		Sorted     bool
		Min, Max   *int64
		Digest     string
	}
	Components []struct {
		Column, Type  string
		Nullable      bool
		Component     string
		Archetype     *string
		ComponentType *string `json:"component_type"`
		Nulls         int
		Digest        string
	}
}

type goldenColumn struct {
	Name, Type string
	Nullable   bool
	Metadata   map[string]string
	Values     []any
}

func loadCases(t *testing.T) map[string]goldenCase {
	t.Helper()
	dir := filepath.Join(testkit.Golden(t, "rrd"), "cases")
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden cases in %s: %v", dir, err)
	}
	cases := map[string]goldenCase{}
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var c goldenCase
		dec := json.NewDecoder(bytes.NewReader(data))
		dec.UseNumber()
		if err := dec.Decode(&c); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		cases[strings.TrimSuffix(path, ".json")+".rrd"] = c
	}
	return cases
}

func TestGoldenRRD(t *testing.T) {
	for path, c := range loadCases(t) {
		t.Run(c.Case, func(t *testing.T) {
			t.Parallel()
			t.Run("frames", func(t *testing.T) { checkFrames(t, path, c) })
			t.Run("stores", func(t *testing.T) { checkStores(t, path, c) })
			for _, s := range c.Stores {
				t.Run("chunks/"+s.RecordingID, func(t *testing.T) { checkChunks(t, path, s) })
			}
		})
	}
}

// checkFrames compares with the naive walk of the golden data as far as both
// see the same: it knows no errors, and goes on where the format says stop.
func checkFrames(t *testing.T, path string, c goldenCase) {
	if len(c.Frames) == 0 {
		return // it sees nothing where the file does not begin with a header
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	byOffset := map[int64]goldenFrame{}
	for _, fr := range c.Frames {
		byOffset[fr.Offset] = fr
	}
	s := rrd.NewScanner(f, rrd.ScanOptions{})
	seen := 0
	for {
		m, err := s.Next()
		var fe *rrd.Error
		if errors.As(err, &fe) {
			if fe.Fatal {
				break
			}
			if fe.Part != rrd.PartStreamHeader {
				seen++
			}
			continue
		}
		if err != nil {
			break
		}
		seen++
		want, ok := byOffset[m.Offset]
		if !ok {
			t.Errorf("message at %d is in no frame", m.Offset)
			continue
		}
		if m.Kind.String() != want.Kind || int64(len(m.Payload)) != want.PayloadLen {
			t.Errorf("offset %d: %v of %d bytes, want %s of %d", m.Offset, m.Kind, len(m.Payload), want.Kind, want.PayloadLen)
		}
		if m.Kind == rrd.KindArrow && want.Compression != nil {
			a := m.Arrow
			if int(a.Compression) != *want.Compression || a.UncompressedSize != *want.UncompressedSize || a.HasChunkID != *want.HasChunkID {
				t.Errorf("offset %d: %+v, want %+v", m.Offset, a, want)
			}
			if (want.IsStatic != nil) != a.HasStatic || a.HasStatic && a.Static != (*want.IsStatic != 0) {
				t.Errorf("offset %d: is_static %v %v, want %v", m.Offset, a.HasStatic, a.Static, want.IsStatic)
			}
		}
	}
	messages := 0
	for _, fr := range c.Frames {
		if fr.Kind != "StreamHeader" && fr.Kind != "StreamFooter" {
			messages++
		}
	}
	if seen > messages {
		t.Errorf("%d messages, but %d frames", seen, messages)
	}
	if c.ReaderError == nil && len(c.Stores) > 0 && c.Stores[0].StreamError == nil && s.Offset() > 0 {
		chunks := 0
		for _, st := range c.Stores {
			chunks += len(st.Chunks)
		}
		if seen < chunks {
			t.Errorf("%d messages, but %d chunks", seen, chunks)
		}
	}
}

// concatenated tells files that the reference misreads: it takes the last
// footer as one from the start of the file (spec/rrd.md 1.3), we do not.
func concatenated(c goldenCase) bool {
	n := 0
	for _, f := range c.Frames {
		if f.Kind == "StreamHeader" && f.PayloadLen == rrd.StreamHeaderSize {
			n++
		}
	}
	return n > 1
}

func checkStores(t *testing.T, path string, c goldenCase) {
	f, err := rrd.Open(path, rrd.FileOptions{})
	if c.ReaderError != nil && !concatenated(c) {
		if err == nil {
			t.Fatalf("opened, the reference says %s", *c.ReaderError)
		}
		wantKind(t, err, *c.ReaderError)
		return
	}
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	defer f.Close()
	if c.ReaderError != nil {
		checkConcatenated(t, f)
		return
	}
	var want []rrd.StoreID
	for _, s := range c.Stores {
		want = append(want, s.id())
	}
	got := f.Stores()
	slices.SortFunc(got, rrd.StoreID.Compare)
	slices.SortFunc(want, rrd.StoreID.Compare)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("stores (-want +got):\n%s", d)
	}
	manifests, err := f.Manifests()
	for _, s := range c.Stores {
		if s.ManifestError != nil {
			if err == nil {
				t.Errorf("manifests, the reference says %s", *s.ManifestError)
			} else {
				wantKind(t, err, *s.ManifestError)
			}
			checkIndex(t, f, s)
			continue
		}
		if err != nil {
			t.Fatalf("manifests: %v", err)
		}
		found := false
		for _, m := range manifests {
			if m.Store == s.id() {
				found = true
				checkManifest(t, m, s.Manifest)
				checkRows(t, f, m, s)
			}
		}
		if !found {
			t.Errorf("no manifest of %v", s.id())
		}
	}
}

// errorKinds relates texts of the reference to our causes.
var errorKinds = []struct {
	text string
	err  error
}{
	{"lz4 error", rrd.ErrLZ4},
	{"Not an RRD file", rrd.ErrNotRRD},
	{"old, incompatible Rerun version", rrd.ErrOldMagic},
	{"Invalid encoding options", rrd.ErrOptions},
	{"nvalid options", rrd.ErrOptions},
	{"which is incompatible with", rrd.ErrVersion},
	{"too small", rrd.ErrTooShort},
	{"exceeds file size", rrd.ErrTruncated},
	{"CRC check failed", rrd.ErrChecksum},
	{"without footer", rrd.ErrNoFooter},
	{"unknown MessageHeader kind", rrd.ErrUnknownKind},
	{"byte maximum", rrd.ErrTooLarge},
	{"Missing chunk ID", chunk.ErrMissingID},
	{"Missing entity path", chunk.ErrMissingEntity},
	{"Invalid column order", chunk.ErrColumnOrder},
	{"Time columns had nulls", chunk.ErrNullTime},
	{"Unsupported time type", chunk.ErrTimeType},
	{"more than once", chunk.ErrDuplicate},
	{"failed to decode Protobuf", rrd.ErrProtobuf},
}

func wantKind(t *testing.T, err error, text string) {
	t.Helper()
	var fe *rrd.Error
	if !errors.As(err, &fe) {
		t.Errorf("%T %v is no *rrd.Error", err, err)
	}
	for _, k := range errorKinds {
		if !strings.Contains(text, k.text) {
			continue
		}
		if !errors.Is(err, k.err) && !(strings.Contains(text, "payload span") && errors.Is(err, rrd.ErrCorruptFooter)) {
			t.Errorf("error %q, the reference says %q", err, text)
		}
		return
	}
	t.Logf("no cause is known for %q; ours: %v", text, err)
}

func checkConcatenated(t *testing.T, f *rrd.File) {
	ms, err := f.Index(context.Background())
	if err != nil {
		t.Fatalf("index: %v", err)
	}
	n := 0
	for _, m := range ms {
		for i := range m.Len() {
			if _, err := f.ReadChunk(m, i); err != nil {
				t.Errorf("chunk %d of %v: %v", i, m.Store, err)
			}
			n++
		}
	}
	want := 0
	for c, err := range rrd.Chunks(context.Background(), f.Reader(), rrd.ReadOptions{}) {
		if err != nil || c == nil {
			t.Fatal(err)
		}
		want++
	}
	if n != want || n == 0 {
		t.Errorf("%d chunks by manifest, %d in the stream", n, want)
	}
}

// checkIndex makes the manifest of a file without footer and reads by it.
func checkIndex(t *testing.T, f *rrd.File, s goldenStore) {
	ms, err := f.Index(context.Background())
	if err != nil {
		t.Errorf("index: %v", err)
		return
	}
	for _, m := range ms {
		if m.Store == s.id() {
			checkRows(t, f, m, s)
		}
	}
}

// checkRows reads the chunks of a manifest one by one.
func checkRows(t *testing.T, f *rrd.File, m *rrd.Manifest, s goldenStore) {
	byID := map[string]goldenChunk{}
	for _, c := range s.Chunks {
		byID[c.ID] = c
	}
	for i := range m.Len() {
		want, ok := byID["chunk_"+m.ID(i).String()]
		if !ok {
			continue // the stream stops before it, or it is broken
		}
		c, err := f.ReadChunk(m, i)
		if err != nil {
			t.Errorf("chunk %v: %v", m.ID(i), err)
			continue
		}
		checkChunk(t, c, want)
	}
}

func checkChunks(t *testing.T, path string, s goldenStore) {
	for _, workers := range []int{1, 3} {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		opt := rrd.ReadOptions{Workers: workers, Want: func(m *rrd.ArrowMsg) bool { return m.Store == s.id() }}
		var got []*chunk.Chunk
		var failed error
		for c, err := range rrd.Chunks(context.Background(), f, opt) {
			if err != nil {
				failed = err
				break
			}
			got = append(got, c)
		}
		switch {
		case s.StreamError == nil && failed != nil:
			t.Errorf("stream: %v", failed)
		case s.StreamError != nil && failed == nil:
			t.Errorf("no error, the reference says %s", *s.StreamError)
		case s.StreamError != nil:
			wantKind(t, failed, *s.StreamError)
		}
		if len(got) != len(s.Chunks) {
			t.Fatalf("%d chunks, want %d", len(got), len(s.Chunks))
		}
		for i, c := range got {
			checkChunk(t, c, s.Chunks[i])
		}
	}
}

func checkChunk(t *testing.T, c *chunk.Chunk, want goldenChunk) {
	t.Helper()
	b := c.RecordBatch()
	got := goldenChunk{ID: "chunk_" + c.ID().String(), EntityPath: string(c.EntityPath()), IsStatic: c.IsStatic(), NumRows: c.NumRows(),
		TimelineNames: []string{}, SchemaMetadata: b.Schema().Metadata().ToMap()}
	delete(got.SchemaMetadata, chunk.KeyID)
	ids := c.RowIDs()
	got.RowIDs.Type = typeText(b.Schema().Field(0).Type)
	got.RowIDs.Sorted = c.RowIDsSorted()
	got.RowIDs.Digest = testkit.DigestRRD(b.Column(0))
	if len(ids) > 0 {
		got.RowIDs.First, got.RowIDs.Last = hex.EncodeToString(ids[:16]), hex.EncodeToString(ids[len(ids)-16:])
	}
	for i, tl := range c.Timelines() {
		got.TimelineNames = append(got.TimelineNames, tl.Name)
		f := b.Schema().Field(1 + i)
		entry := struct {
			Name, Type string
			Nullable   bool
			Sorted     bool
			Min, Max   *int64
			Digest     string
		}{f.Name, typeText(f.Type), f.Nullable, tl.Sorted, nil, nil, testkit.DigestRRD(b.Column(1 + i))}
		if len(tl.Times) > 0 {
			lo, hi := slices.Min(tl.Times), slices.Max(tl.Times)
			entry.Min, entry.Max = &lo, &hi
			if a, b, ok := tl.Range(); slices.IsSorted(tl.Times) && (!ok || a != lo || b != hi) {
				t.Errorf("range of %s is %d to %d, want %d to %d", tl.Name, a, b, lo, hi)
			}
		}
		got.Timelines = append(got.Timelines, entry)
	}
	for i, comp := range c.Components() {
		f := b.Schema().Field(1 + len(c.Timelines()) + i)
		opt := func(s string) *string {
			if s == "" {
				return nil
			}
			return &s
		}
		got.Components = append(got.Components, struct {
			Column, Type  string
			Nullable      bool
			Component     string
			Archetype     *string
			ComponentType *string `json:"component_type"`
			Nulls         int
			Digest        string
		}{f.Name, typeText(f.Type), f.Nullable, comp.Component, opt(comp.Archetype), opt(comp.Type), comp.Values.NullN(), testkit.DigestRRD(comp.Values)})
	}
	slices.Sort(want.TimelineNames)
	if len(want.Timelines) == 0 {
		want.Timelines = nil
	}
	if len(want.Components) == 0 {
		want.Components = nil
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("chunk %s (-want +got):\n%s", want.ID, d)
	}
}

func checkManifest(t *testing.T, m *rrd.Manifest, want []goldenColumn) {
	t.Helper()
	b := m.Batch()
	var got []goldenColumn
	for i, f := range b.Schema().Fields() {
		md := f.Metadata.ToMap()
		col := goldenColumn{f.Name, typeText(f.Type), f.Nullable, md, nil}
		for row := range int(b.NumRows()) {
			col.Values = append(col.Values, goldenValue(b.Column(i), row))
		}
		got = append(got, col)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("manifest (-want +got):\n%s", d)
	}
}

// goldenValue is a cell as the JSON of the golden data has it.
func goldenValue(a arrow.Array, row int) any {
	if a.IsNull(row) {
		return nil
	}
	num := func(v any) any { return json.Number(fmt.Sprint(v)) }
	switch a := a.(type) {
	case *array.String:
		return a.Value(row)
	case *array.Boolean:
		return a.Value(row)
	case *array.FixedSizeBinary:
		return hex.EncodeToString(a.Value(row))
	case *array.Binary:
		return hex.EncodeToString(a.Value(row))
	case *array.Uint64:
		return num(a.Value(row))
	case *array.Int64:
		return num(a.Value(row))
	case *array.Timestamp:
		return num(int64(a.Value(row)))
	case *array.Duration:
		return num(int64(a.Value(row)))
	}
	return fmt.Sprintf("%T", a)
}

// typeText writes a type as pyarrow does.
func typeText(dt arrow.DataType) string { return testkit.PyArrowType(dt) }
