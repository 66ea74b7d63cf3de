package archetype

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/float16"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// TensorBuffer holds the elements of a tensor. Make one with [TensorOf]; the
// zero value is unset.
type TensorBuffer struct {
	code   arrow.UnionTypeCode
	values arrow.Array // a flat array
}

// TensorElement are the element types of tensors.
type TensorElement interface {
	uint8 | uint16 | uint32 | uint64 | int8 | int16 | int32 | int64 | float16.Num | float32 | float64
}

// TensorOf is a buffer over v, which it keeps.
func TensorOf[T TensorElement](v []T) TensorBuffer {
	var code arrow.UnionTypeCode
	switch any(*new(T)).(type) {
	case uint8:
		code = 1
	case uint16:
		code = 2
	case uint32:
		code = 3
	case uint64:
		code = 4
	case int8:
		code = 5
	case int16:
		code = 6
	case int32:
		code = 7
	case int64:
		code = 8
	case float16.Num:
		code = 9
	case float32:
		code = 10
	case float64:
		code = 11
	}
	dt := typeTensorBuffer.Fields()[code].Type.(*arrow.ListType).Elem()
	return TensorBuffer{code, plain(dt, v)}
}

func encodeTensorBuffer(dt arrow.DataType, v []TensorBuffer) arrow.Array {
	return denseUnion(dt, len(v), func(i int) arrow.UnionTypeCode { return v[i].code }, func(t arrow.DataType, rows []int) arrow.Array {
		flat := make([]arrow.Array, len(rows))
		lengths := make([]int, len(rows))
		size := 0
		for i, r := range rows {
			flat[i], lengths[i] = v[r].values, v[r].values.Len()
			size += lengths[i]
		}
		checkOffset(size)
		items := array.MakeFromData(array.NewData(t.(*arrow.ListType).Elem(), 0, []*memory.Buffer{nil, nil}, nil, 0, 0))
		switch {
		case len(flat) == 1:
			items = flat[0]
		case len(flat) > 1:
			var err error
			if items, err = array.Concatenate(flat, memory.DefaultAllocator); err != nil {
				panic(errTooLong)
			}
		}
		offsets := make([]int32, len(rows)+1)
		for i, n := range lengths {
			offsets[i+1] = offsets[i] + int32(n)
		}
		return makeArray(t, len(rows), []*memory.Buffer{nil, memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(offsets))}, []arrow.ArrayData{items.Data()}, 0)
	})
}

// TimeBound is one end of a time range; its zero value is unset.
type TimeBound struct {
	kind  arrow.UnionTypeCode
	value int64
}

// CursorRelative is a bound at a distance from the time cursor.
func CursorRelative(offset int64) TimeBound { return TimeBound{1, offset} }

// Absolute is a bound at a time.
func Absolute(at int64) TimeBound { return TimeBound{2, at} }

// Infinite is a bound that bounds nothing.
func Infinite() TimeBound { return TimeBound{kind: 3} }

func encodeTimeBound(dt arrow.DataType, v []TimeBound) arrow.Array {
	return denseUnion(dt, len(v), func(i int) arrow.UnionTypeCode { return v[i].kind }, func(t arrow.DataType, rows []int) arrow.Array {
		values := make([]int64, len(rows))
		for i, r := range rows {
			values[i] = v[r].value
		}
		return plain(t, values)
	})
}

// denseUnion makes a union of n values of variants that code tells. Variants of
// type null need no values; the others are made by enc of the rows they have.
func denseUnion(dt arrow.DataType, n int, code func(int) arrow.UnionTypeCode, enc func(dt arrow.DataType, rows []int) arrow.Array) arrow.Array {
	fields := dt.(*arrow.DenseUnionType).Fields()
	codes := make([]arrow.UnionTypeCode, n)
	offsets := make([]int32, n)
	rows := make([][]int, len(fields))
	for i := range n {
		c := code(i)
		codes[i], offsets[i] = c, int32(len(rows[c]))
		rows[c] = append(rows[c], i)
	}
	children := make([]arrow.ArrayData, len(fields))
	for i, f := range fields {
		if n := len(rows[i]); f.Type.ID() == arrow.NULL {
			children[i] = array.NewData(arrow.Null, n, []*memory.Buffer{nil}, nil, n, 0)
		} else {
			children[i] = enc(f.Type, rows[i]).Data()
		}
	}
	buffers := []*memory.Buffer{nil, memory.NewBufferBytes(arrow.Int8Traits.CastToBytes(codes)), memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(offsets))}
	return makeArray(dt, n, buffers, children, 0)
}
