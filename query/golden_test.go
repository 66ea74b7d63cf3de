package query_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/google/go-cmp/cmp"

	"github.com/reelhouse/reelhouse/chunk"
	"github.com/reelhouse/reelhouse/internal/testkit"
	"github.com/reelhouse/reelhouse/query"
	"github.com/reelhouse/reelhouse/store"
)

type goldenCase struct {
	ID, Kind, Input, Quirk string
	Args                   struct {
		Index             *string
		Contents          json.RawMessage
		FillLatestAt      bool             `json:"fill_latest_at"`
		IncludeEmpty      bool             `json:"include_semantically_empty_columns"`
		IncludeTombstones bool             `json:"include_tombstone_columns"`
		At                *json.RawMessage `json:"using_index_values"`
		AtType            string           `json:"uiv_type"`
	}
	Expect struct {
		Error *struct{ Class, Code string }
		Crash string
		Out   string
		Rows  int
		// of queries
		Columns []struct {
			Name, Type string
			Nullable   bool
			Meta       map[string]string
			Values     json.RawMessage
		}
		// of schemas
		Index      []string
		Components []struct {
			Entity, Component string
			Archetype, Type   *string
			Static            bool
		}
		// of summaries
		Text string
		Len  int
	}
}

func TestGoldenChunks(t *testing.T) {
	dir := testkit.Golden(t, "chunks")
	var cases []json.RawMessage
	readJSON(t, filepath.Join(dir, "cases.json"), &cases)
	var wanted map[string]struct {
		Columns []struct {
			Name   string
			Values []any
		}
	}
	readJSON(t, filepath.Join(dir, "wanted.json"), &wanted)
	for _, raw := range cases {
		var kind struct{ Kind string }
		if err := json.Unmarshal(raw, &kind); err != nil {
			t.Fatal(err)
		}
		if kind.Kind != "query" && kind.Kind != "schema" && kind.Kind != "summary" {
			continue
		}
		var c goldenCase
		if err := json.Unmarshal(raw, &c); err != nil {
			t.Fatal(err)
		}
		switch c.Kind {
		case "query":
			t.Run(c.ID, func(t *testing.T) {
				v := loadStore(t, filepath.Join(dir, "inputs", c.Input)).View()
				checkQuery(t, dir, v, &c)
				w, ok := wanted[c.ID]
				if !ok {
					return
				}
				q, err := c.query(false)
				if err != nil {
					t.Fatal(err)
				}
				got, err := run(v, q)
				if err != nil {
					t.Fatal(err)
				}
				for _, col := range w.Columns {
					at := got.schema.FieldIndices(col.Name)
					if len(at) != 1 {
						t.Errorf("column %q: %v", col.Name, at)
						continue
					}
					want := make([]string, len(col.Values))
					for i, v := range col.Values {
						want[i] = renderJSON(v)
					}
					if d := cmp.Diff(want, got.column(at[0])); d != "" {
						t.Errorf("wanted, column %q: %s", col.Name, d)
					}
				}
			})
		case "schema":
			t.Run(c.ID, func(t *testing.T) {
				s := loadStore(t, filepath.Join(dir, "inputs", c.Input)).View().Schema()
				var index []string
				for _, x := range s.Indexes {
					index = append(index, x.Name)
				}
				if d := cmp.Diff(c.Expect.Index, index); d != "" {
					t.Error(d)
				}
				var want, got []string
				text := func(s *string) string {
					if s == nil {
						return ""
					}
					return *s
				}
				for _, x := range c.Expect.Components {
					want = append(want, fmt.Sprint(x.Entity, " ", text(x.Archetype), " ", x.Component, " ", text(x.Type), " ", x.Static))
				}
				for _, x := range s.Components {
					got = append(got, fmt.Sprint(x.Entity, " ", x.Archetype, " ", x.Component, " ", x.Descriptor.Type, " ", x.Static))
				}
				if d := cmp.Diff(want, got); d != "" {
					t.Error(d)
				}
			})
		case "summary":
			t.Run(c.ID, func(t *testing.T) {
				v := loadStore(t, filepath.Join(dir, "inputs", c.Input)).View()
				if d := cmp.Diff(c.Expect.Text, store.Summary(v)); d != "" {
					t.Error(d)
				}
				if len(v.Entries()) != c.Expect.Len {
					t.Errorf("%d chunks, want %d", len(v.Entries()), c.Expect.Len)
				}
			})
		}
	}
}

func checkQuery(t *testing.T, dir string, v store.View, c *goldenCase) {
	q, err := c.query(true)
	var got *result
	if err == nil {
		got, err = run(v, q)
	}
	switch {
	case c.Expect.Crash != "":
		if !errors.Is(err, store.ErrTypeConflict) {
			t.Errorf("got %v, want a type conflict", err)
		}
		return
	case c.Expect.Error != nil:
		want := map[string]error{
			"unknown_index": query.ErrUnknownIndex, "index_values_not_unique": query.ErrDuplicateIndexValue, "bad_index_values_type": nil,
		}
		e, known := want[c.Expect.Error.Code]
		if !known {
			t.Fatalf("unknown code %q", c.Expect.Error.Code)
		}
		if !errors.Is(err, e) {
			t.Errorf("got %v, want %v", err, e)
		}
		return
	case err != nil:
		t.Fatal(err)
	}
	compare(t, dir, c, got)
	// What is no quirk and needs no leniency holds by default, too, in batches of any size.
	if c.Quirk == "" {
		q, err := c.query(false)
		if errors.Is(err, query.ErrContents) {
			q, err = c.query(true)
			q.Compat = false
		}
		if err != nil {
			t.Fatal(err)
		}
		q.BatchRows, q.Workers = 2, 3
		if got, err = run(v, q); err != nil {
			t.Fatal(err)
		}
		compare(t, dir, c, got)
	}
}

func compare(t *testing.T, dir string, c *goldenCase, got *result) {
	t.Helper()
	want := readResult(t, filepath.Join(dir, c.Expect.Out))
	var wantFields, gotFields []string
	for _, col := range c.Expect.Columns {
		wantFields = append(wantFields, fmt.Sprint(col.Name, " ", col.Type, " ", col.Nullable, " ", col.Meta))
	}
	for _, f := range got.schema.Fields() {
		gotFields = append(gotFields, fmt.Sprint(f.Name, " ", testkit.PyArrowType(f.Type), " ", f.Nullable, " ", f.Metadata.ToMap()))
	}
	if d := cmp.Diff(wantFields, gotFields); d != "" {
		t.Error(d)
	}
	if got.rows != c.Expect.Rows || want.rows != c.Expect.Rows {
		t.Errorf("%d rows, want %d (%d)", got.rows, c.Expect.Rows, want.rows)
	}
	for i := range min(want.schema.NumFields(), got.schema.NumFields()) {
		if d := cmp.Diff(want.column(i), got.column(i)); d != "" {
			t.Errorf("column %q: %s", want.schema.Field(i).Name, d)
		}
	}
}

func (c *goldenCase) query(compat bool) (query.Query, error) {
	a := &c.Args
	q := query.Query{FillLatestAt: a.FillLatestAt, IncludeEmpty: a.IncludeEmpty, IncludeTombstones: a.IncludeTombstones, Compat: compat}
	if a.Index != nil {
		q.Index = *a.Index
	}
	if len(a.Contents) > 0 && string(a.Contents) != "null" {
		var list []string
		if json.Unmarshal(a.Contents, &list) != nil {
			list = []string{""}
			if err := json.Unmarshal(a.Contents, &list[0]); err != nil {
				return q, err
			}
		}
		if compat {
			q.Contents = query.ParseContentsLenient(list...)
		} else {
			var err error
			if q.Contents, err = query.ParseContents(list...); err != nil {
				return q, err
			}
		}
	}
	if a.At != nil {
		if err := json.Unmarshal(*a.At, &q.At); err != nil {
			return q, err
		}
	}
	return q, nil
}

// result is an answer as text.
type result struct {
	schema  *arrow.Schema
	rows    int
	columns [][]string
	batches int
	largest int
}

func (r *result) column(i int) []string { return append([]string{}, r.columns[i]...) }

func (r *result) add(b arrow.RecordBatch) {
	r.rows += int(b.NumRows())
	r.batches++
	r.largest = max(r.largest, int(b.NumRows()))
	for i, col := range b.Columns() {
		for k := range col.Len() {
			r.columns[i] = append(r.columns[i], render(col, k))
		}
	}
}

func run(v store.View, q query.Query) (*result, error) {
	rd, err := query.Run(context.Background(), v, q)
	if err != nil {
		return nil, err
	}
	defer rd.Release()
	out := &result{schema: rd.Schema(), columns: make([][]string, rd.Schema().NumFields())}
	for rd.Next() {
		out.add(rd.RecordBatch())
	}
	return out, rd.Err()
}

func readResult(t *testing.T, path string) *result {
	t.Helper()
	r := openArrow(t, path)
	out := &result{schema: r.Schema(), columns: make([][]string, r.Schema().NumFields())}
	for i := range r.NumRecords() {
		b, err := r.RecordBatchAt(i)
		if err != nil {
			t.Fatal(err)
		}
		out.add(b)
	}
	return out
}

func openArrow(t *testing.T, path string) *ipc.FileReader {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	r, err := ipc.NewFileReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func loadStore(t *testing.T, dir string) *store.Memory {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.arrow"))
	if err != nil || len(files) == 0 {
		t.Fatal("no input", dir, err)
	}
	m := store.NewMemory()
	for _, f := range files {
		r := openArrow(t, f)
		for i := range r.NumRecords() {
			b, err := r.RecordBatchAt(i)
			if err != nil {
				t.Fatal(err)
			}
			c, err := chunk.FromRecordBatch(b)
			if err != nil {
				t.Fatal(err)
			}
			m.Insert(c)
		}
	}
	return m
}

func readJSON(t *testing.T, path string, v any) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, v); err != nil {
		t.Fatal(err)
	}
}

// render is a value as text; NaNs are alike, children of nulls do not show.
func render(a arrow.Array, i int) string {
	if _, null := a.(*array.Null); null || a.IsNull(i) {
		return "null"
	}
	switch a := a.(type) {
	case *array.Dictionary:
		return render(a.Dictionary(), a.GetValueIndex(i))
	case *array.Struct:
		var s []string
		for k := range a.NumField() {
			s = append(s, render(a.Field(k), i))
		}
		return "{" + strings.Join(s, ",") + "}"
	case array.ListLike:
		from, to := a.ValueOffsets(i)
		var s []string
		for k := from; k < to; k++ {
			s = append(s, render(a.ListValues(), int(k)))
		}
		return "[" + strings.Join(s, ",") + "]"
	case *array.Timestamp:
		return fmt.Sprint(int64(a.Value(i)))
	case *array.Duration:
		return fmt.Sprint(int64(a.Value(i)))
	}
	return a.ValueStr(i)
}

func renderJSON(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case []any:
		var s []string
		for _, x := range v {
			s = append(s, renderJSON(x))
		}
		return "[" + strings.Join(s, ",") + "]"
	}
	return fmt.Sprint(v)
}
