package mcap

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/reelhouse/reelhouse/chunk"
	"github.com/reelhouse/reelhouse/source/internal/columnar"
)

// rowsOf builds a component column: a list of items a row. Rows end with End
// or, for nothing at all, AppendNull.
func rowsOf(item arrow.DataType) *columnar.List {
	return columnar.MustNew[*columnar.List](arrow.ListOf(item))
}

// component finishes a column of rowsOf.
func component(d chunk.Descriptor, c *columnar.List) chunk.Component {
	return column(d, columnar.Array(c).(*array.List))
}

// allNull tells whether a column has no value in any row.
func allNull(c chunk.Component) bool { return c.Values.NullN() == c.Values.Len() }

// present are the components that have a value in some row.
func present(components ...chunk.Component) []chunk.Component {
	var out []chunk.Component
	for _, c := range components {
		if !allNull(c) {
			out = append(out, c)
		}
	}
	return out
}

// fieldOf returns a field of message structs by its path of names, checking its type.
func fieldOf[A arrow.Array](in *array.Struct, path ...string) (A, error) {
	var zero A
	for i, name := range path {
		at, ok := in.DataType().(*arrow.StructType).FieldIdx(name)
		if !ok {
			return zero, fmt.Errorf("no field %v", path[:i+1])
		}
		f := in.Field(at)
		if i == len(path)-1 {
			if a, ok := f.(A); ok {
				return a, nil
			}
			return zero, fmt.Errorf("field %v has type %v", path, f.DataType())
		}
		if in, ok = f.(*array.Struct); !ok {
			return zero, fmt.Errorf("field %v has type %v", path[:i+1], f.DataType())
		}
	}
	return zero, fmt.Errorf("no field")
}

// fields reads fields of message structs and keeps the first error.
type fields struct {
	in  *array.Struct
	err error
}

// get reads a field of a certain type; after an error it is nil.
func get[A arrow.Array](f *fields, path ...string) A {
	var a A
	if f.err == nil {
		a, f.err = fieldOf[A](f.in, path...)
	}
	return a
}

// sub are the fields of a field, with the same rows. They have the error of f.
func (f *fields) sub(path ...string) *fields {
	in := get[*array.Struct](f, path...)
	return &fields{in: in, err: f.err}
}

// doubles reads several float64 fields of one struct.
func (f *fields) doubles(names ...string) [][]float64 {
	out := make([][]float64, len(names))
	for i, n := range names {
		if a := get[*array.Float64](f, n); f.err == nil {
			out[i] = a.Float64Values()
		}
	}
	return out
}

// getBytes reads a list of bytes and the items of all its rows.
func getBytes(f *fields, path ...string) (*array.List, []byte) {
	l := get[*array.List](f, path...)
	if f.err != nil {
		return nil, nil
	}
	items, ok := l.ListValues().(*array.Uint8)
	if !ok {
		f.err = fmt.Errorf("field %v has type %v", path, l.DataType())
		return nil, nil
	}
	return l, items.Uint8Values()
}

// bytesOf returns the items of row i of a list of bytes.
func bytesOf(l *array.List, items []uint8, i int) []byte {
	from, to := l.ValueOffsets(i)
	return items[from:to]
}

// vectorRows makes one fixed list of float32 a row from columns of float64.
func vectorRows(d chunk.Descriptor, columns ...[]float64) chunk.Component {
	n := len(columns)
	dt := arrow.FixedSizeListOfNonNullable(int32(n), arrow.PrimitiveTypes.Float32)
	c := columnar.MustNew[*columnar.FixedList](dt)
	rows := len(columns[0])
	v := c.Items.(*columnar.Fixed[float32]).Extend(n * rows)
	for k, col := range columns {
		for i, x := range col {
			v[i*n+k] = float32(x)
		}
	}
	c.EndRows(rows)
	return column(d, listOfOne(columnar.Array(c)))
}
