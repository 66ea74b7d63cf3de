package inspect

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/float16"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/pierrec/lz4/v4"
	"github.com/zeebo/xxh3"
	"pgregory.net/rapid"

	"github.com/reelhouse/reelhouse/chunk"
	"github.com/reelhouse/reelhouse/rrd"
)

var storeA = rrd.NewStoreID(rrd.Recording, "app", "a")

func list(t testing.TB, values arrow.Array, lengths ...int) *array.List {
	t.Helper()
	l, err := chunk.Partition(values, lengths)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// column is a chunk of one component with one value a row.
func column(t testing.TB, entity chunk.EntityPath, times []int64, values arrow.Array) *chunk.Chunk {
	t.Helper()
	var axes []chunk.TimeColumn
	if times != nil {
		axes = []chunk.TimeColumn{chunk.NewTimeColumn("t", chunk.Sequence, times)}
	}
	ids := make([]byte, 0, 16*values.Len())
	for range values.Len() {
		id := chunk.NewTUID()
		ids = append(ids, id[:]...)
	}
	c, err := chunk.Assemble(chunk.NewTUID(), entity, ids, axes, []chunk.Component{
		{Descriptor: chunk.Descriptor{Component: "x"}, Values: list(t, values, slices.Repeat([]int{1}, values.Len())...)},
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func float64s(v ...float64) arrow.Array {
	b := array.NewFloat64Builder(memory.DefaultAllocator)
	b.AppendValues(v, nil)
	return b.NewArray()
}

func write(t testing.TB, store rrd.StoreID, chunks ...*chunk.Chunk) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.rrd")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := rrd.NewWriter(f, rrd.WriterOptions{})
	defer w.Abort()
	for _, c := range chunks {
		if err := w.WriteChunk(t.Context(), store, c); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestCompare(t *testing.T) {
	a := column(t, "/a", []int64{1, 2, 3}, float64s(1, 2, math.NaN()))
	b := column(t, "/b", []int64{1}, float64s(5))
	other := rrd.NewStoreID(rrd.Recording, "app", "other")
	near := column(t, "/a", []int64{1, 2, 3}, float64s(1, 2+1e-9, math.NaN()))
	far := column(t, "/a", []int64{1, 2, 3}, float64s(1, 2.001, math.NaN()))
	late := column(t, "/a", []int64{1, 2, 4}, float64s(1, 2, math.NaN()))
	old := column(t, "/s", nil, float64s(1))
	young := column(t, "/s", nil, float64s(2))
	for _, c := range []struct {
		name        string
		left, right []*chunk.Chunk
		unordered   string // what differs; empty for nothing
		ordered     string
	}{
		{"same", []*chunk.Chunk{a, b}, []*chunk.Chunk{b, a}, "", ""},
		{"rows shuffled", []*chunk.Chunk{a}, []*chunk.Chunk{a.Take([]int{2, 0, 1})}, "", ""},
		{"twice", []*chunk.Chunk{a}, []*chunk.Chunk{a, a}, "", ""},
		{"rounded", []*chunk.Chunk{a}, []*chunk.Chunk{near}, "", ""},
		{"value", []*chunk.Chunk{a}, []*chunk.Chunk{far}, "row 1: [2.0] and [2.001]", "row 1: [2.0] and [2.001]"},
		{"time", []*chunk.Chunk{a}, []*chunk.Chunk{late}, `timeline "t": row 2`, `timeline "t": row 2`},
		{"other order of ids", []*chunk.Chunk{a, b.WithID(chunk.NewTUID())}, []*chunk.Chunk{b, a.WithID(chunk.NewTUID())}, "", "entities differ"},
		{"missing", []*chunk.Chunk{a, b}, []*chunk.Chunk{a}, "numbers of chunks", "numbers of chunks"},
		{"overwritten static", []*chunk.Chunk{old, young}, []*chunk.Chunk{young}, "", ""},
		{"no components", []*chunk.Chunk{a, a.SelectComponents(func(chunk.Component) bool { return false })}, []*chunk.Chunk{a}, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			left, right := write(t, storeA, c.left...), write(t, other, c.right...)
			for _, unordered := range []bool{true, false} {
				want := c.ordered
				if unordered {
					want = c.unordered
				}
				err := Compare(t.Context(), left, right, CompareOptions{Unordered: unordered})
				var d *Difference
				switch {
				case want == "" && err != nil, want != "" && (!errors.As(err, &d) || !strings.Contains(d.Text, want)):
					t.Errorf("unordered %t: %v, want %q", unordered, err, want)
				}
			}
		})
	}
	if err := Compare(t.Context(), write(t, storeA, a), write(t, storeA, late), CompareOptions{IgnoreTimelines: []string{"t"}}); err != nil {
		t.Errorf("an ignored timeline counts: %v", err)
	}
	if err := Compare(t.Context(), write(t, rrd.NewStoreID(rrd.Blueprint, "a", "b"), a), write(t, storeA, a), CompareOptions{}); !errors.Is(err, ErrNoRecording) {
		t.Errorf("no recording: %v", err)
	}
}

// rareTypes are arrays of types that recordings seldom have, each with three different values.
func rareTypes(t testing.TB) map[string]arrow.Array {
	t.Helper()
	m := memory.DefaultAllocator
	all := map[string]arrow.Array{}
	half := array.NewFloat16Builder(m)
	half.AppendValues([]float16.Num{float16.New(1), float16.New(2), float16.FromBits(0x7e01)}, nil)
	halves := half.NewFloat16Array()
	all["float16"] = halves
	st, err := array.NewStructArrayWithFields([]arrow.Array{halves}, []arrow.Field{{Name: "f", Type: halves.DataType(), Nullable: true}})
	if err != nil {
		t.Fatal(err)
	}
	all["struct of NaN"] = st
	bools := array.NewBooleanBuilder(m)
	bools.AppendValues([]bool{true, false, false}, []bool{true, true, false})
	all["bool"] = bools.NewArray()
	large := array.NewLargeStringBuilder(m)
	large.AppendValues([]string{"a", "b", ""}, nil)
	all["large string"] = large.NewArray()
	view := array.NewStringViewBuilder(m)
	view.AppendValues([]string{"a", "more than twelve bytes", ""}, nil)
	all["string view"] = view.NewArray()
	binary := array.NewBinaryBuilder(m, arrow.BinaryTypes.LargeBinary)
	binary.AppendValues([][]byte{{1}, {2, 3}, nil}, nil)
	all["large binary"] = binary.NewArray()
	dict := array.NewDictionaryBuilder(m, &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}).(*array.BinaryDictionaryBuilder)
	for _, s := range []string{"a", "b", "c"} {
		if err := dict.AppendString(s); err != nil {
			t.Fatal(err)
		}
	}
	all["dictionary"] = dict.NewArray()
	u := array.NewDenseUnionBuilder(m, arrow.DenseUnionOf([]arrow.Field{{Name: "i", Type: arrow.PrimitiveTypes.Int64}, {Name: "s", Type: arrow.BinaryTypes.String}}, []arrow.UnionTypeCode{0, 1}))
	u.Append(0)
	u.Child(0).(*array.Int64Builder).Append(1)
	u.Append(1)
	u.Child(1).(*array.StringBuilder).Append("x")
	u.Append(0)
	u.Child(0).(*array.Int64Builder).Append(2)
	all["union"] = u.NewArray()
	mp := array.NewMapBuilder(m, arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int32, false)
	for i := range 3 {
		mp.Append(true)
		mp.KeyBuilder().(*array.StringBuilder).Append("k")
		mp.ItemBuilder().(*array.Int32Builder).Append(int32(i))
	}
	all["map"] = mp.NewArray()
	return all
}

// TestValues compares each value of each type with each other one, by digest and one by one.
func TestValues(t *testing.T) {
	digest := func(a arrow.Array) xxh3.Uint128 {
		h := xxh3.New()
		hashArray(h, a)
		return h.Sum128()
	}
	for name, a := range rareTypes(t) {
		t.Run(name, func(t *testing.T) {
			for i := range a.Len() {
				for j := range a.Len() {
					if got := similar(a, i, a, j); got != (i == j) {
						t.Errorf("similar(%d, %d) is %t", i, j, got)
					}
					one, other := array.NewSlice(a, int64(i), int64(i+1)), array.NewSlice(a, int64(j), int64(j+1))
					if got := digest(one) == digest(other); got != (i == j) {
						t.Errorf("digests of %d and %d: equal %t", i, j, got)
					}
				}
				_ = chunk.ValueText(a, i)
			}
			left, right := column(t, "/a", []int64{0, 1, 2}, a), column(t, "/a", []int64{0, 1, 2}, array.NewSlice(a, 0, 3))
			if err := diffChunks(left, right, func(chunk.Timeline) bool { return true }); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestVerify(t *testing.T) {
	path := write(t, storeA, column(t, "/a", []int64{1}, float64s(1)), column(t, "/b", []int64{1}, float64s(1)))
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var chunks []int64
	var end int64
	for item, err := range rrd.Read(t.Context(), bytes.NewReader(good), rrd.ReadOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		switch item.Kind {
		case rrd.KindArrow:
			chunks = append(chunks, item.Offset)
		case rrd.KindEnd:
			end = item.Offset
		}
	}
	verify := func(b []byte, o VerifyOptions) (faults []error, any bool) {
		any, err := Verify(t.Context(), "in", bytes.NewReader(b), o, func(err error) { faults = append(faults, err) })
		if err != nil {
			t.Fatal(err)
		}
		return faults, any
	}
	if faults, any := verify(good, VerifyOptions{}); !any || faults != nil {
		t.Errorf("good: %v", faults)
	}
	if faults, _ := verify(append(slices.Clone(good), good...), VerifyOptions{}); faults != nil {
		t.Errorf("concatenated: %v", faults)
	}
	if faults, _ := verify(good[:end], VerifyOptions{}); len(faults) != 1 || !errors.Is(faults[0], ErrNoManifest) {
		t.Errorf("without footer: %v", faults)
	}
	if faults, _ := verify(good[:end], VerifyOptions{SkipFooters: true}); faults != nil {
		t.Errorf("without footer, not asked for: %v", faults)
	}
	if faults, any := verify(nil, VerifyOptions{}); any || faults != nil {
		t.Errorf("nothing: %v, %v", any, faults)
	}
	// The frames of the two chunks change places; they are of one size.
	if chunks[1]-chunks[0] == end-chunks[1] {
		moved := slices.Concat(good[:chunks[0]], good[chunks[1]:end], good[chunks[0]:chunks[1]], good[end:])
		if faults, _ := verify(moved, VerifyOptions{}); len(faults) != 2 || !errors.Is(faults[0], ErrAlignment) {
			t.Errorf("moved: %v", faults)
		}
	}
	if _, err := Verify(t.Context(), "in", bytes.NewReader(good[:chunks[1]+5]), VerifyOptions{Strict: true}, func(error) {}); err != nil {
		t.Error(err)
	}
	wrong := columnOfType(t, "rerun.components.Position3D")
	bad, err := os.ReadFile(write(t, storeA, wrong))
	if err != nil {
		t.Fatal(err)
	}
	if faults, _ := verify(bad, VerifyOptions{}); len(faults) != 1 || !errors.Is(faults[0], ErrComponentType) {
		t.Errorf("wrong type: %v", faults)
	}
}

func columnOfType(t testing.TB, componentType string) *chunk.Chunk {
	t.Helper()
	c, err := column(t, "/a", []int64{1}, float64s(1)).WithComponents([]chunk.Component{
		{Descriptor: chunk.Descriptor{Component: "x", Type: componentType}, Values: list(t, float64s(1), 1)},
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestStats(t *testing.T) {
	path := write(t, storeA,
		column(t, "/a", []int64{2, 1}, float64s(1, 2)),
		column(t, "/a", []int64{3, 4, 5}, float64s(1, 2, 3)),
		column(t, "/s", nil, float64s(1)),
	)
	for _, noDecode := range []bool{false, true} {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		var s Stats
		if err := errors.Join(s.Add(t.Context(), path, f, StatsOptions{NoDecode: noDecode}), f.Close()); err != nil {
			t.Fatal(err)
		}
		sum := s.Summary()
		if sum.Chunks != 3 || len(sum.Indexes) != 1 || sum.Indexes[0].Temporal != 2 || sum.Indexes[0].LeastTemporal != 1 || sum.Schema.Min <= 0 || sum.Data.Min <= 0 {
			t.Errorf("summary %+v", sum)
		}
		if noDecode != (sum.Decoded == nil) {
			t.Fatalf("decoded %v", sum.Decoded)
		}
		if d := sum.Decoded; d != nil {
			if d.Rows != (Range{1, 3, 6}) || d.Static != 1 || d.Entities["/a"] != 2 || !d.Unsorted["/a"]["t"] || len(d.Unsorted) != 1 {
				t.Errorf("decoded %+v", d)
			}
		}
	}
}

func TestFormatBytes(t *testing.T) {
	for n, want := range map[float64]string{0: "0 B", 1003.4: "1003 B", 1024: "1.0 KiB", 102300: "99.9 KiB", 102400: "100 KiB", 3 << 20: "3.0 MiB", 5 << 30: "5.0 GiB"} {
		if got := formatBytes(n); got != want {
			t.Errorf("%v: %q, want %q", n, got, want)
		}
	}
	if got := formatCount(1234567); got != "1\u2009234\u2009567" {
		t.Errorf("count %q", got)
	}
}

// TestLZ4Start proves that the start of a block is what the whole block starts with.
func TestLZ4Start(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		unit := rapid.SliceOfN(rapid.Byte(), 1, 20).Draw(r, "unit")
		data := bytes.Repeat(unit, rapid.IntRange(1, 30).Draw(r, "times"))
		block := make([]byte, lz4.CompressBlockBound(len(data)))
		n, err := lz4.CompressBlock(data, block, nil)
		if err != nil || n == 0 {
			return
		}
		var start [8]byte
		if got := lz4Start(&start, block[:n]); !bytes.Equal(start[:got], data[:min(8, len(data))]) {
			r.Fatalf("%x of %x", start[:got], data)
		}
		if size, ok := lz4Size(block[:n]); !ok || size != len(data) {
			r.Fatalf("size %d, %t, want %d", size, ok, len(data))
		}
	})
}

func FuzzLZ4(f *testing.F) {
	f.Add([]byte{0x80, 1, 2, 3, 4, 5, 6, 7, 8})
	f.Add([]byte{0xf0, 0xff, 0xff, 0})
	f.Add([]byte{0x1f, 9, 1, 0, 255, 0})
	f.Add([]byte{0x14, 9, 1, 0, 0x50, 1, 2, 3, 4, 5})
	f.Fuzz(func(t *testing.T, block []byte) {
		var start [8]byte
		n := lz4Start(&start, block)
		size, ok := lz4Size(block)
		whole := make([]byte, 1<<16)
		m, err := lz4.UncompressBlock(block, whole)
		if err != nil || len(block) == 0 {
			return
		}
		if !ok || size != m {
			t.Errorf("size %d, %t, want %d", size, ok, m)
		}
		if n != min(8, m) || !bytes.Equal(start[:n], whole[:n]) {
			t.Errorf("%d bytes %x, want %x", n, start, whole[:8])
		}
	})
}

func TestPrint(t *testing.T) {
	path := write(t, storeA, columnOfType(t, "rerun.components.Scalar"), column(t, "/other", nil, rareTypes(t)["struct of NaN"]))
	for _, o := range []PrintOptions{{}, {Verbose: 1}, {Verbose: 3, Footers: true, FootersLOD: 2}, {Verbose: 3, Transposed: true, FullKeys: true}, {JSON: true, Footers: true}, {Raw: true, Verbose: 2}} {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		p := NewPrinter(&out, o)
		if err := errors.Join(p.Add(t.Context(), path, f), f.Close(), p.Close()); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"/a", "/other", "x", `app`} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%+v: no %q in:\n%s", o, want, &out)
			}
		}
		if o.Verbose == 3 && !strings.Contains(out.String(), "NaN") {
			t.Errorf("%+v: no NaN in:\n%s", o, &out)
		}
	}
}
