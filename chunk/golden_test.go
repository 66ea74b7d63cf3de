package chunk_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"

	"github.com/reelhouse/reelhouse/chunk"
	"github.com/reelhouse/reelhouse/chunk/archetype"
	"github.com/reelhouse/reelhouse/internal/testkit"
)

// goldenCase is a case of kind construct or format; the README of the golden data tells the fields.
type goldenCase struct {
	ID        string                     `json:"id"`
	Kind      string                     `json:"kind"`
	Op        string                     `json:"op"`
	Input     string                     `json:"input"`
	Args      map[string]json.RawMessage `json:"args"`
	BatchRows int64                      `json:"batch_rows"`
	Chunk     int                        `json:"chunk"`
	Entity    string                     `json:"entity"`
	Indexes   [][]json.RawMessage        `json:"indexes"`
	Columns   []struct {
		Archetype string                     `json:"archetype"`
		Fields    map[string]json.RawMessage `json:"fields"`
		Partition []int                      `json:"partition"`
	} `json:"columns"`
	Expect struct {
		Error *struct {
			Code string `json:"code"`
		} `json:"error"`
		Chunks []struct {
			Entity  string `json:"entity"`
			Rows    int    `json:"rows"`
			Static  bool   `json:"static"`
			RowIDs  string `json:"row_ids"`
			ChunkID string `json:"chunk_id"`
			Out     string `json:"out"`
		} `json:"chunks"`
		Text string `json:"text"`
	} `json:"expect"`
}

// errorCodes are what golden data calls our errors.
var errorCodes = map[string][]error{
	"ambiguous_static":             {chunk.ErrAmbiguous},
	"static_with_index":            {chunk.ErrStaticIndex},
	"missing_index_column":         {chunk.ErrNoIndex},
	"null_index":                   {chunk.ErrNullTime},
	"no_components":                {chunk.ErrNoComponent},
	"identified_multiple_entities": {chunk.ErrEntities},
	"unsupported_type":             {chunk.ErrTimeType},
	"length_mismatch":              {chunk.ErrLength},
	"chunk_invalid":                {chunk.ErrDuplicate, chunk.ErrNoComponent},
}

func TestGoldenChunks(t *testing.T) {
	root := testkit.Golden(t, "chunks")
	var cases []goldenCase
	readJSON(t, filepath.Join(root, "cases.json"), &cases)
	run := 0
	for _, c := range cases {
		if c.Kind != "construct" && c.Kind != "format" {
			continue
		}
		run++
		t.Run(c.ID, func(t *testing.T) {
			if c.Kind == "format" {
				c.checkFormat(t, root)
			} else {
				c.checkConstruct(t, root)
			}
		})
	}
	if run == 0 {
		t.Fatal("no cases")
	}
}

func (c goldenCase) checkFormat(t *testing.T, root string) {
	o := chunk.FormatOptions{Redact: true}
	c.arg(t, "width", &o.Width)
	trim := true
	c.arg(t, "trim_metadata_keys", &trim)
	o.FullKeys = !trim
	got := c.input(t, root).Format(o)
	if got != c.Expect.Text {
		t.Errorf("(-want +got):\n%s", cmp.Diff(strings.Split(c.Expect.Text, "\n"), strings.Split(got, "\n")))
	}
}

func (c goldenCase) arg(t *testing.T, name string, into any) bool {
	t.Helper()
	raw, ok := c.Args[name]
	if ok {
		if err := json.Unmarshal(raw, into); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	return ok
}

// input is the chunk of the store that a case works on.
func (c goldenCase) input(t *testing.T, root string) *chunk.Chunk {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "inputs", c.Input, "*.arrow"))
	if err != nil || len(files) <= c.Chunk {
		t.Fatalf("%d input files: %v", len(files), err)
	}
	out, err := chunk.FromDataFrame(readArrowFile(t, files[c.Chunk]), chunk.DataFrameOptions{})
	if err != nil || len(out) != 1 {
		t.Fatalf("%d chunks: %v", len(out), err)
	}
	return out[0]
}

func (c goldenCase) checkConstruct(t *testing.T, root string) {
	var known []byte // row ids of the input
	var id string    // of the input
	var got []*chunk.Chunk
	var err error
	switch c.Op {
	case "from_record_batch", "from_dataframe":
		b := readArrowFile(t, filepath.Join(root, "inputs", "batches", c.Input+".arrow"))
		if b.NumCols() > 0 {
			known, _ = chunk.RowIDBytes(b.Column(0))
		}
		id, _ = b.Schema().Metadata().GetValue(chunk.KeyID)
		got, err = c.fromBatch(t, b)
	case "with_entity_path":
		in := c.input(t, root)
		known, id = in.RowIDs(), "chunk_"+in.ID().String()
		got = []*chunk.Chunk{in.WithEntityPath(chunk.ParseEntityPath(c.Entity))}
	case "from_columns":
		var one *chunk.Chunk
		if one, err = c.fromColumns(t); err == nil {
			got = append(got, one)
		}
	default:
		t.Fatalf("unknown operation %q", c.Op)
	}
	if want := c.Expect.Error; want != nil {
		errs, ok := errorCodes[want.Code]
		if !ok {
			t.Fatalf("unknown error code %q; our error: %v", want.Code, err)
		}
		if !slices.ContainsFunc(errs, func(e error) bool { return errors.Is(err, e) }) {
			t.Fatalf("error %v instead of %s", err, want.Code)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(c.Expect.Chunks) {
		t.Fatalf("%d chunks instead of %d", len(got), len(c.Expect.Chunks))
	}
	for i, want := range c.Expect.Chunks {
		g := got[i]
		if string(g.EntityPath()) != want.Entity || g.NumRows() != want.Rows || g.IsStatic() != want.Static {
			t.Errorf("chunk %d: %s, %d rows, static %v instead of %+v", i, g.EntityPath(), g.NumRows(), g.IsStatic(), want)
		}
		if kept := "chunk_"+g.ID().String() == id; want.ChunkID != "" && kept != (want.ChunkID == "kept") {
			t.Errorf("chunk %d: chunk id kept: %v", i, kept)
		}
		for r := range g.NumRows() {
			rowID := g.RowID(r)
			if kept := containsRowID(known, rowID); kept != (want.RowIDs == "kept") {
				t.Errorf("chunk %d row %d: row id kept: %v", i, r, kept)
			}
			if want.RowIDs == "fresh" && r > 0 && rowID.Compare(g.RowID(r-1)) <= 0 {
				t.Errorf("chunk %d row %d: row ids do not increase", i, r)
			}
		}
		compareBatches(t, readArrowFile(t, filepath.Join(root, want.Out)), g.RecordBatch(), want.RowIDs == "kept")
	}
}

func containsRowID(ids []byte, id chunk.TUID) bool {
	for i := 0; i+16 <= len(ids); i += 16 {
		if bytes.Equal(ids[i:i+16], id[:]) {
			return true
		}
	}
	return false
}

func (c goldenCase) fromBatch(t *testing.T, b arrow.RecordBatch) ([]*chunk.Chunk, error) {
	t.Helper()
	var o chunk.DataFrameOptions
	var index any
	switch given := c.arg(t, "index", &index); index := index.(type) {
	case nil:
		o.Static = given
	case string:
		o.Indexes = []string{index}
	case []any:
		o.Indexes = []string{}
		for _, name := range index {
			o.Indexes = append(o.Indexes, name.(string))
		}
	}
	if entity := ""; c.arg(t, "entity_path", &entity) {
		o.Entity = chunk.ParseEntityPath(entity)
	}
	if c.Op == "from_record_batch" {
		return chunk.FromDataFrame(b, o)
	}
	batches := []arrow.RecordBatch{b}
	if c.BatchRows > 0 {
		batches = nil
		for from := int64(0); from < b.NumRows(); from += c.BatchRows {
			batches = append(batches, b.NewSlice(from, min(b.NumRows(), from+c.BatchRows)))
		}
	}
	r, err := array.NewRecordReader(b.Schema(), batches)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	var out []*chunk.Chunk
	for one, err := range chunk.FromRecordReader(r, o) {
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}

func (c goldenCase) fromColumns(t *testing.T) (*chunk.Chunk, error) {
	t.Helper()
	var times []chunk.TimeColumn
	for _, index := range c.Indexes {
		var name, kind string
		var values []int64
		for i, into := range []any{&name, &kind, &values} {
			if err := json.Unmarshal(index[i], into); err != nil {
				t.Fatal(err)
			}
		}
		kinds := map[string]chunk.TimeKind{"sequence": chunk.Sequence, "duration": chunk.Duration, "timestamp": chunk.Timestamp}
		times = append(times, chunk.NewTimeColumn(name, kinds[kind], values))
	}
	var components []chunk.Component
	for _, col := range c.Columns {
		for field, raw := range col.Fields {
			d := chunk.Descriptor{Component: field}
			dt := guessType(raw)
			if col.Archetype != "AnyValues" {
				var ok bool
				if d, ok = archetype.Descriptor(col.Archetype + ":" + field); !ok {
					t.Fatalf("no field %s of %s", field, col.Archetype)
				}
				dt, _ = archetype.ComponentType(d.Type)
			}
			values, _, err := array.FromJSON(memory.DefaultAllocator, dt, bytes.NewReader(raw))
			if err != nil {
				t.Fatalf("%s: %v", field, err)
			}
			lengths := col.Partition
			if lengths == nil {
				lengths = slices.Repeat([]int{1}, values.Len())
			}
			list, err := chunk.Partition(values, lengths)
			if err != nil {
				return nil, err
			}
			components = append(components, chunk.Component{Descriptor: d, Values: list})
		}
	}
	return chunk.New(chunk.ParseEntityPath(c.Entity), times, components)
}

// guessType is the Arrow type of a JSON array as the peer guesses it.
func guessType(raw json.RawMessage) arrow.DataType {
	var values []any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if d.Decode(&values) != nil || len(values) == 0 {
		return arrow.Null
	}
	dt := arrow.PrimitiveTypes.Int64
	for _, v := range values {
		switch v := v.(type) {
		case string:
			return arrow.BinaryTypes.String
		case bool:
			return arrow.FixedWidthTypes.Boolean
		case json.Number:
			if _, err := strconv.ParseInt(v.String(), 10, 64); err != nil {
				dt = arrow.PrimitiveTypes.Float64
			}
		}
	}
	return dt
}

// compareBatches wants equal columns: names, types with names and nullability of
// children, metadata and values; row ids only if asked to.
func compareBatches(t *testing.T, want, got arrow.RecordBatch, rowIDs bool) {
	t.Helper()
	if diff := cmp.Diff(describe(want.Schema()), describe(got.Schema())); diff != "" {
		t.Errorf("schema (-want +got):\n%s", diff)
		return
	}
	for i, f := range want.Schema().Fields() {
		if f.Name == chunk.RowIDName && !rowIDs {
			continue
		}
		if testkit.DigestRRD(want.Column(i)) != testkit.DigestRRD(got.Column(i)) {
			t.Errorf("column %q: %v instead of %v", f.Name, got.Column(i), want.Column(i))
		}
	}
}

func describe(s *arrow.Schema) []string {
	var lines []string
	for _, f := range s.Fields() {
		lines = append(lines, fmt.Sprintf("%s: %s nullable=%v %v", f.Name, testkit.PyArrowType(f.Type), f.Nullable, f.Metadata.ToMap()))
	}
	return lines
}

func readArrowFile(t *testing.T, path string) arrow.RecordBatch {
	t.Helper()
	r, err := ipc.NewFileReader(openFile(t, path))
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	b, err := r.RecordBatchAt(0)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return b
}
