package archetype

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/float16"
	"github.com/google/go-cmp/cmp"

	"github.com/reelhouse/reelhouse/chunk"
	"github.com/reelhouse/reelhouse/internal/arrowipc"
	"github.com/reelhouse/reelhouse/internal/testkit"
)

// TestBuilders sets every component of every archetype to random values, and
// checks that they make a valid chunk with the types that the vocabulary says.
func TestBuilders(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for name, b := range all {
		for n := range 4 {
			v := reflect.ValueOf(b)
			for i := range v.NumMethod() {
				if m := v.Type().Method(i); strings.HasPrefix(m.Name, "With") {
					args := reflect.MakeSlice(m.Type.In(1), n, n)
					for j := range n {
						fill(rnd, args.Index(j))
					}
					v = v.Method(i).CallSlice([]reflect.Value{args})[0]
				}
			}
			built := v.Interface().(Builder)
			fields := Descriptors(name)
			if got := built.Components(); len(got) != len(fields) {
				t.Fatalf("%s: %d of %d components", name, len(got), len(fields))
			}
			check(t, name, built.Components(), 1)
			check(t, name, built.Columns(), n)
			parts, err := built.Partition(n, 0)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			check(t, name, parts, 2)
			if _, err := built.Partition(n + 1); err == nil {
				t.Errorf("%s: partition beyond its values", name)
			}
		}
	}
}

func check(t *testing.T, name string, components []chunk.Component, rows int) {
	t.Helper()
	for _, m := range components {
		want, ok := ComponentType(m.Type)
		d, known := Descriptor(m.Component)
		if !ok || !known || d != m.Descriptor || d.Archetype != name {
			t.Fatalf("%s: unknown component %+v", name, m.Descriptor)
		}
		if got := m.Values.DataType(); m.Values.Len() != rows || !arrow.TypeEqual(got, arrow.ListOf(want)) {
			t.Fatalf("%s: %d rows of %v instead of %d of %v", m.Component, m.Values.Len(), got, rows, want)
		}
	}
	c, err := chunk.New("/e", nil, components)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	// The decoder validates whatever it reads.
	b, err := arrowipc.Batch(arrowipcStream(t, c))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	back, err := chunk.FromRecordBatch(b)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if diff := cmp.Diff(c.Format(chunk.FormatOptions{}), back.Format(chunk.FormatOptions{})); diff != "" {
		t.Errorf("%s: %s", name, diff)
	}
}

func arrowipcStream(t *testing.T, c *chunk.Chunk) []byte {
	t.Helper()
	b := c.RecordBatch()
	data, err := arrowipc.AppendBatch(nil, b)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// fill sets v to a random value, by its kind; what has unexported fields is left zero.
func fill(rnd *rand.Rand, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		switch v.Interface().(type) {
		case TensorBuffer:
			v.Set(reflect.ValueOf([]TensorBuffer{{}, TensorOf([]float32{1, 2}), TensorOf([]uint8{}), TensorOf([]float16.Num{float16.New(1)})}[rnd.IntN(4)]))
			return
		case TimeBound:
			v.Set(reflect.ValueOf([]TimeBound{{}, Infinite(), Absolute(rnd.Int64()), CursorRelative(-1)}[rnd.IntN(4)]))
			return
		case float16.Num:
			v.Set(reflect.ValueOf(float16.New(rnd.Float32())))
			return
		}
		for i := range v.NumField() {
			fill(rnd, v.Field(i))
		}
	case reflect.Slice:
		if n := rnd.IntN(4); n > 0 {
			v.Set(reflect.MakeSlice(v.Type(), n, n))
		}
		fallthrough
	case reflect.Array:
		for i := range v.Len() {
			fill(rnd, v.Index(i))
		}
	case reflect.Pointer:
		if rnd.IntN(2) == 0 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(rnd, v.Elem())
		}
	case reflect.Bool:
		v.SetBool(rnd.IntN(2) == 0)
	case reflect.String:
		v.SetString(strings.Repeat("é", rnd.IntN(5)))
	case reflect.Float32, reflect.Float64:
		v.SetFloat(rnd.NormFloat64())
	case reflect.Int32, reflect.Int64:
		v.SetInt(rnd.Int64N(1000) - 500)
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(rnd.Uint64N(200))
	default:
		panic("no value for " + v.Type().String())
	}
}

// TestLikePeer compares component types, and rows of some archetypes, with the peer's.
func TestLikePeer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	testkit.RunPython(t, filepath.Join("testdata", "peer.py"), dir)
	data, err := os.ReadFile(filepath.Join(dir, "types.json"))
	if err != nil {
		t.Fatal(err)
	}
	types := map[string]string{}
	if err := json.Unmarshal(data, &types); err != nil {
		t.Fatal(err)
	}
	for name, want := range types {
		dt, ok := ComponentType(name)
		if !ok {
			t.Errorf("%s: unknown", name)
		} else if got := testkit.PyArrowType(dt); got != want {
			t.Errorf("%s: %s instead of %s", name, got, want)
		}
	}

	points, err := NewPoints3D([3]float32{1, 2, 3}, [3]float32{4, 5, 6}, [3]float32{7, 8, 9}).
		WithColors(RGBA(255, 0, 0, 255), RGBA(0, 255, 0, 255), 1).WithLabels("a", "b", "c").Partition(1, 2)
	if err != nil {
		t.Fatal(err)
	}
	for name, components := range map[string][]chunk.Component{
		"points":  points,
		"scalars": NewScalars(1, 2.5, -1).Columns(),
		"text":    NewTextLog("x", "é").WithLevel("INFO", "WARN").Columns(),
		"boxes":   NewBoxes3D([3]float32{1, 2, 3}).WithRotationAxisAngles(RotationAxisAngle{[3]float32{0, 0, 1}, 0.5}).WithFillMode(1).Components(),
		"strips":  NewLineStrips3D([][3]float32{{0, 0, 0}, {1, 1, 1}}, [][3]float32{{2, 2, 2}}).Components(),
		"blobs":   NewEncodedImage([]byte("abc"), nil).WithMediaType("image/png", "image/jpeg").Columns(),
		"tensor":  NewTensor(TensorValue{Shape: []uint64{2, 3}, Names: []string{"y", "x"}, Buffer: TensorOf([]float32{1, 2, 3, 4, 5, 6})}).Components(),
		"annotations": NewAnnotationContext([]ClassEntry{
			{1, ClassDescription{AnnotationInfo{1, new("car"), new(RGBA(255, 0, 0, 255))}, []AnnotationInfo{{ID: 0, Label: new("k")}}, []KeypointPair{{0, 1}}}},
			{2, ClassDescription{Info: AnnotationInfo{ID: 2}}},
		}).Components(),
		"edges": NewGraphEdges(StringPair{"a", "b"}, StringPair{"b", "c"}).Components(),
	} {
		data, err := os.ReadFile(filepath.Join(dir, name+".arrow"))
		if err != nil {
			t.Fatal(err)
		}
		b, err := arrowipc.Batch(data)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		want, err := chunk.FromRecordBatch(b)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got, err := chunk.New("/e", nil, components)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		o := chunk.FormatOptions{Redact: true, Width: 10000}
		if diff := cmp.Diff(strings.Split(want.Format(o), "\n"), strings.Split(got.Format(o), "\n")); diff != "" {
			t.Errorf("%s (-peer +ours):\n%s", name, diff)
		}
	}
}
