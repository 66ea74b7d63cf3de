// Package source_test runs the readers of foreign formats over the golden cases.
package source_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
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
)

// goldenCase is an entry of cases.json.
type goldenCase struct {
	Case, Reader, File string
	Options            json.RawMessage
}

// stream is what a reader gives for a case.
type stream struct {
	bounds    func() (first, last int64, err error) // nil if the reader has none
	chunks    iter.Seq2[*chunk.Chunk, error]
	warnings  func() []string
	closeFunc func() error
}

// readers runs the cases of each kind that is listed. An error is one of the
// stages before draining.
var readers = map[string]func(ctx context.Context, path string, options json.RawMessage) (*stream, error){
	"mcap": openMCAP,
}

// expected is a file of expected/.
type expected struct {
	OK              bool
	Error           *failure
	IterateError    *failure `json:"iterate_error"`
	Crash           any
	TimeBounds      []int64 `json:"time_bounds"`
	TimeBoundsError string  `json:"time_bounds_error"`
	Chunks          []chunkSummary
	Columns         []columnSummary
}

type failure struct{ Stage, Type, Message string }

type chunkSummary struct {
	Entity     string
	Static     bool
	Rows       int
	Timelines  []timelineSummary
	Components []componentSummary
}

type timelineSummary struct {
	Name, Type  string
	Sorted      bool
	First, Last *int64
	Digest      string
}

type componentSummary struct {
	Component, Archetype string
	ComponentType        string `json:"component_type"`
	Datatype             string
	Nulls                int
	Digest               string
	Extensions           map[string]string
}

type columnSummary struct {
	Entity, Component, Archetype string
	ComponentType                string `json:"component_type"`
	Datatype                     string
	Static                       bool
	Rows                         int
	Digest                       string
	Timelines                    map[string]struct{ Type, Digest string }
}

// key identifies a column; rows of equal keys are joined.
func (c *columnSummary) key() string {
	return fmt.Sprintf("%s %s static=%v %v %s", c.Entity, c.Component, c.Static, slices.Sorted(maps.Keys(c.Timelines)), c.Datatype)
}

func loadJSON(t *testing.T, path string, to any) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, to); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

func TestGoldenReaders(t *testing.T) {
	dir := testkit.Golden(t, "readers")
	var cases []goldenCase
	loadJSON(t, filepath.Join(dir, "cases.json"), &cases)
	ran := map[string]int{}
	for _, c := range cases {
		open, ok := readers[c.Reader]
		if !ok {
			continue
		}
		ran[c.Reader]++
		t.Run(c.Case, func(t *testing.T) {
			var want expected
			loadJSON(t, filepath.Join(dir, "expected", c.Case+".json"), &want)
			g := &golden{dir: dir, c: c, want: &want}
			if better := betterThanPeer[c.Case]; better != nil {
				better(t, g)
			}
			g.check(t, open)
		})
	}
	for kind := range readers {
		if ran[kind] == 0 {
			t.Errorf("no case for reader %s", kind)
		}
	}
}

// golden is one case being checked.
type golden struct {
	dir  string
	c    goldenCase
	want *expected
	// columnsOnly leaves out the comparison of single chunks.
	columnsOnly bool
	// wantWarning asks for a warning of the reader.
	wantWarning bool
	// more is run on what was read.
	more func(t *testing.T, got []*chunk.Chunk)
}

func (g *golden) check(t *testing.T, open func(context.Context, string, json.RawMessage) (*stream, error)) {
	path := filepath.Join(g.dir, filepath.FromSlash(g.c.File))
	s, err := open(t.Context(), path, g.c.Options)
	if e := g.want.Error; e != nil {
		if err == nil {
			t.Fatalf("no error, want %s: %s", e.Type, e.Message)
		}
		if isMissing := errors.Is(err, fs.ErrNotExist); isMissing != (e.Type == "FileNotFoundError") {
			t.Errorf("error %q, want a %s", err, e.Type)
		}
		t.Logf("error: %v", err)
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.closeFunc(); err != nil {
			t.Error(err)
		}
	}()
	g.checkBounds(t, s)
	var got []*chunk.Chunk
	var streamErr error
	for c, err := range s.chunks {
		if err != nil {
			streamErr = err
			break
		}
		got = append(got, c)
	}
	if (streamErr != nil) != (g.want.IterateError != nil) {
		t.Errorf("stream error %v, want %+v", streamErr, g.want.IterateError)
	}
	if g.wantWarning && len(s.warnings()) == 0 {
		t.Error("no warning")
	}
	if g.more != nil {
		g.more(t, got)
	}
	if g.want.Columns != nil {
		compareColumns(t, g.want.Columns, columnsOf(got))
	}
	if g.want.Chunks != nil && !g.columnsOnly {
		compareChunks(t, g.want.Chunks, got)
	}
	if t.Failed() {
		for _, w := range s.warnings() {
			t.Logf("warning: %s", w)
		}
	}
}

func (g *golden) checkBounds(t *testing.T, s *stream) {
	if s.bounds == nil {
		return
	}
	first, last, err := s.bounds()
	switch {
	case g.want.TimeBoundsError != "":
		if err == nil {
			t.Errorf("time bounds %d, %d, want error %q", first, last, g.want.TimeBoundsError)
		}
	case err != nil:
		t.Errorf("time bounds: %v", err)
	case g.want.TimeBounds != nil:
		if diff := cmp.Diff(g.want.TimeBounds, []int64{first, last}); diff != "" {
			t.Errorf("time bounds (-want +got):\n%s", diff)
		}
	}
}

// columnsOf joins the rows of equal columns in stream order.
func columnsOf(chunks []*chunk.Chunk) []columnSummary {
	type acc struct {
		columnSummary
		values []arrow.Array
		times  map[string][]arrow.Array
	}
	columns := map[string]*acc{}
	for _, c := range chunks {
		for _, m := range c.Components() {
			s := columnSummary{Entity: string(c.EntityPath()), Component: m.Component, Archetype: m.Archetype, ComponentType: m.Type,
				Datatype: testkit.PyArrowType(m.Values.DataType()), Static: c.IsStatic(), Timelines: map[string]struct{ Type, Digest string }{}}
			for _, tl := range c.Timelines() {
				s.Timelines[tl.Name] = struct{ Type, Digest string }{Type: timeType(tl.Kind)}
			}
			a := columns[s.key()]
			if a == nil {
				a = &acc{columnSummary: s, times: map[string][]arrow.Array{}}
				columns[s.key()] = a
			}
			a.Rows += c.NumRows()
			a.values = append(a.values, m.Values)
			for _, tl := range c.Timelines() {
				a.times[tl.Name] = append(a.times[tl.Name], chunk.TimesArray(chunk.Sequence, tl.Times))
			}
		}
	}
	var out []columnSummary
	for _, key := range slices.Sorted(maps.Keys(columns)) {
		a := columns[key]
		a.Digest = testkit.DigestReaders(a.values...)
		for name, tl := range a.Timelines {
			tl.Digest = testkit.DigestReaders(a.times[name]...)
			a.Timelines[name] = tl
		}
		out = append(out, a.columnSummary)
	}
	return out
}

func compareColumns(t *testing.T, want, got []columnSummary) {
	t.Helper()
	byKey := func(columns []columnSummary) map[string]columnSummary {
		m := map[string]columnSummary{}
		for _, c := range columns {
			if c.Timelines == nil {
				c.Timelines = map[string]struct{ Type, Digest string }{}
			}
			m[c.key()] = c
		}
		return m
	}
	w, g := byKey(want), byKey(got)
	for _, key := range slices.Sorted(maps.Keys(w)) {
		c, ok := g[key]
		if !ok {
			t.Errorf("column is missing: %s", key)
			continue
		}
		want := w[key]
		if want.Rows > 1 && (strings.HasPrefix(want.Component, "McapChannel:") || strings.HasPrefix(want.Component, "McapSchema:")) {
			// Channels of one topic come in the order of a hash table in the peer.
			want.Digest = c.Digest
		}
		if diff := cmp.Diff(want, c); diff != "" {
			t.Errorf("column %s (-want +got):\n%s", key, diff)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(g)) {
		if _, ok := w[key]; !ok {
			t.Errorf("column is not wanted: %s", key)
		}
	}
}

func timeType(k chunk.TimeKind) string {
	if k == chunk.Sequence {
		return "sequence"
	}
	return k.String() + "_ns"
}

func summarize(c *chunk.Chunk) chunkSummary {
	s := chunkSummary{Entity: string(c.EntityPath()), Static: c.IsStatic(), Rows: c.NumRows()}
	for _, tl := range c.Timelines() {
		out := timelineSummary{Name: tl.Name, Type: timeType(tl.Kind), Sorted: tl.Sorted, Digest: testkit.DigestReaders(chunk.TimesArray(chunk.Sequence, tl.Times))}
		if n := len(tl.Times); n > 0 {
			out.First, out.Last = &tl.Times[0], &tl.Times[n-1]
		}
		s.Timelines = append(s.Timelines, out)
	}
	for _, m := range c.Components() {
		out := componentSummary{Component: m.Component, Archetype: m.Archetype, ComponentType: m.Type, Datatype: testkit.PyArrowType(m.Values.DataType()),
			Nulls: m.Values.NullN(), Digest: testkit.DigestReaders(m.Values), Extensions: map[string]string{}}
		extensions(arrow.Field{Type: m.Values.DataType()}, "", out.Extensions)
		if len(out.Extensions) == 0 {
			out.Extensions = nil
		}
		s.Components = append(s.Components, out)
	}
	slices.SortFunc(s.Components, func(a, b componentSummary) int { return strings.Compare(a.Component, b.Component) })
	return s
}

// extensions collects the extension names of nested fields by their path.
func extensions(f arrow.Field, path string, to map[string]string) {
	if name, ok := f.Metadata.GetValue("ARROW:extension:name"); ok {
		to[path] = name
	}
	switch dt := f.Type.(type) {
	case *arrow.StructType:
		for _, child := range dt.Fields() {
			extensions(child, path+"."+child.Name, to)
		}
	case *arrow.MapType:
		extensions(dt.KeyField(), path+".key", to)
		extensions(dt.ItemField(), path+".value", to)
	case arrow.ListLikeType:
		extensions(dt.ElemField(), path+"[]", to)
	}
}

// compareChunks compares chunks one by one. Order counts among chunks of one
// entity and set of columns.
func compareChunks(t *testing.T, want []chunkSummary, got []*chunk.Chunk) {
	t.Helper()
	group := func(s chunkSummary) string {
		key := fmt.Sprintf("%s static=%v", s.Entity, s.Static)
		for _, m := range s.Components {
			key += " " + m.Component
		}
		return key
	}
	w, g := map[string][]chunkSummary{}, map[string][]chunkSummary{}
	for _, s := range want {
		w[group(s)] = append(w[group(s)], s)
	}
	for _, c := range got {
		s := summarize(c)
		g[group(s)] = append(g[group(s)], s)
	}
	empty := cmp.Transformer("empty", func(m map[string]string) string { return fmt.Sprint(m) })
	for _, key := range slices.Sorted(maps.Keys(w)) {
		sortChannels(w[key])
		sortChannels(g[key])
		if diff := cmp.Diff(normal(w[key]), normal(g[key]), empty); diff != "" {
			t.Errorf("chunks of %s (-want +got):\n%s", key, diff)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(g)) {
		if w[key] == nil {
			t.Errorf("chunks are not wanted: %s", key)
		}
	}
}

// normal makes empty slices nil.
func normal(in []chunkSummary) []chunkSummary {
	for i := range in {
		if len(in[i].Timelines) == 0 {
			in[i].Timelines = nil
		}
		if len(in[i].Components) == 0 {
			in[i].Components = nil
		}
	}
	return in
}

// sortChannels puts the descriptions of channels of one topic in a fixed order,
// as theirs is that of a hash table in the peer.
func sortChannels(chunks []chunkSummary) {
	if len(chunks) > 1 && slices.ContainsFunc(chunks[0].Components, func(m componentSummary) bool { return m.Component == "McapChannel:id" }) {
		slices.SortFunc(chunks, func(a, b chunkSummary) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	}
}

// rowsOf counts the rows of a component on an entity.
func rowsOf(chunks []*chunk.Chunk, entity chunk.EntityPath, component string) (rows, pieces int, values []*array.List) {
	for _, c := range chunks {
		if m := c.Component(component); m != nil && c.EntityPath() == entity {
			rows, pieces, values = rows+c.NumRows(), pieces+1, append(values, m.Values)
		}
	}
	return rows, pieces, values
}
