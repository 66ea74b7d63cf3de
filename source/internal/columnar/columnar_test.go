package columnar

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"pgregory.net/rapid"
)

// anyType draws a type of every kind that columns have.
func anyType(t *rapid.T, depth int) arrow.DataType {
	leaves := []arrow.DataType{
		arrow.FixedWidthTypes.Boolean, arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Uint16, arrow.PrimitiveTypes.Int64,
		arrow.PrimitiveTypes.Float32, arrow.PrimitiveTypes.Float64, arrow.BinaryTypes.String, arrow.BinaryTypes.Binary,
		&arrow.TimestampType{Unit: arrow.Nanosecond},
	}
	n := len(leaves)
	if depth > 0 {
		n += 4
	}
	field := func(name string) arrow.Field {
		return arrow.Field{Name: name, Type: anyType(t, depth-1), Nullable: rapid.Bool().Draw(t, "nullable")}
	}
	switch k := rapid.IntRange(0, n-1).Draw(t, "kind"); k - len(leaves) {
	case 0:
		return arrow.ListOfField(field("item"))
	case 1:
		return arrow.FixedSizeListOfField(int32(rapid.IntRange(1, 3).Draw(t, "size")), arrow.Field{Name: "item", Type: arrow.PrimitiveTypes.Float32})
	case 2:
		return arrow.MapOf(arrow.BinaryTypes.String, anyType(t, depth-1))
	case 3:
		return arrow.StructOf(field("a"), field("b"))
	default:
		return leaves[k]
	}
}

// fill appends a random row; it stops half-way after budget leaves.
func fill(c Column, nullable bool, r *rand.Rand, budget *int) bool {
	if *budget--; *budget == 0 {
		return false
	}
	if nullable && r.IntN(4) == 0 {
		c.AppendNull()
		return true
	}
	switch c := c.(type) {
	case *Bool:
		c.Append(r.IntN(2) == 0)
	case *Fixed[int8]:
		c.Append(int8(r.Int()))
	case *Fixed[uint16]:
		c.Append(uint16(r.Int()))
	case *Fixed[int64]:
		c.Extend(1)[0] = r.Int64()
	case *Fixed[float32]:
		c.AppendLE([]byte{1, 2, byte(r.Int()), 4})
	case *Fixed[float64]:
		c.Append(r.Float64())
	case *Bytes:
		c.Append(make([]byte, r.IntN(5)))
	case *List:
		for range r.IntN(4) {
			if !fill(c.Items, c.dt.ElemField().Nullable, r, budget) {
				return false
			}
		}
		c.End()
	case *FixedList:
		for range c.dt.Len() {
			if !fill(c.Items, false, r, budget) {
				return false
			}
		}
		c.End()
	case *Map:
		for range r.IntN(3) {
			if !fill(c.Keys, false, r, budget) || !fill(c.Values, true, r, budget) {
				return false
			}
		}
		c.End()
	case *Struct:
		for i, f := range c.Fields {
			if !fill(f, c.dt.Field(i).Nullable, r, budget) {
				return false
			}
		}
		c.End()
	default:
		panic(c.Type().String())
	}
	return true
}

// A column into which failing rows were written and taken back equals one that never saw them.
func TestTruncate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dt := anyType(t, 3)
		dirty, err := New(dt)
		if err != nil {
			t.Fatal(err)
		}
		clean, _ := New(dt)
		var hint Hint
		for range 2 {
			hint.Reserve(dirty, 10, 1000)
			for row := range rapid.IntRange(0, 20).Draw(t, "rows") {
				seed := uint64(row)
				if rapid.IntRange(0, 2).Draw(t, "fail") == 0 {
					n, budget := dirty.Len(), rapid.IntRange(1, 6).Draw(t, "budget")
					fill(dirty, true, rand.New(rand.NewPCG(seed, 1)), &budget)
					dirty.Truncate(n)
				}
				unlimited := math.MaxInt
				fill(dirty, true, rand.New(rand.NewPCG(seed, 2)), &unlimited)
				fill(clean, true, rand.New(rand.NewPCG(seed, 2)), &unlimited)
			}
			if dirty.Len() != clean.Len() {
				t.Fatalf("%d rows, want %d", dirty.Len(), clean.Len())
			}
			hint.Note(dirty)
			got, want := Array(dirty), Array(clean)
			if !array.Equal(got, want) || got.NullN() != want.NullN() {
				t.Fatalf("got  %v\nwant %v", got, want)
			}
		}
	})
}

func TestValues(t *testing.T) {
	s := MustNew[*Struct](arrow.StructOf(
		arrow.Field{Name: "a", Type: arrow.PrimitiveTypes.Int32},
		arrow.Field{Name: "b", Type: arrow.ListOf(arrow.BinaryTypes.String), Nullable: true},
	))
	s.Fields[0].(*Fixed[int32]).Append(7)
	names := s.Fields[1].(*List)
	names.Items.(*Bytes).AppendString("x")
	names.Items.(*Bytes).AppendNull()
	names.End()
	s.End()
	s.AppendNull()
	if got, want := Array(s).String(), `{[7 (null)] [["x" (null)] (null)]}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestFull(t *testing.T) {
	c := MustNew[*Fixed[uint8]](arrow.PrimitiveTypes.Uint8)
	c.Append(1)
	err := Guard(func() error {
		c.Extend(math.MaxInt32)
		return nil
	})
	if !errors.Is(err, ErrFull) || c.Len() != 1 {
		t.Errorf("got error %v and %d rows", err, c.Len())
	}
}

func BenchmarkStructRow(b *testing.B) {
	f64 := func(name string) arrow.Field { return arrow.Field{Name: name, Type: arrow.PrimitiveTypes.Float64} }
	s := MustNew[*Struct](arrow.StructOf(f64("x"), f64("y"), f64("z"), arrow.Field{Name: "frame", Type: arrow.BinaryTypes.String}))
	x, y, z, frame := s.Fields[0].(*Fixed[float64]), s.Fields[1].(*Fixed[float64]), s.Fields[2].(*Fixed[float64]), s.Fields[3].(*Bytes)
	var hint Hint
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		x.Append(1)
		y.Append(2)
		z.Append(3)
		frame.AppendString("base_link")
		s.End()
		if s.Len() == 1000 {
			hint.Note(s)
			s.Finish()
			hint.Reserve(s, 1000, 1<<20)
		}
	}
}
