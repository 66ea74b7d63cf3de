package archetype

import (
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/reelhouse/reelhouse/chunk"
)

// An encoder makes an array of type dt from Go values. It panics with
// errTooLong, which encode catches, when they are too many for its offsets.
type encoder[T any] func(dt arrow.DataType, v []T) arrow.Array

var errTooLong = fmt.Errorf("%w: too long for one column", chunk.ErrLength)

func encode[T any](enc encoder[T], dt arrow.DataType, v []T) (a arrow.Array, err error) {
	defer func() {
		if r := recover(); r != nil {
			if r != any(errTooLong) {
				panic(r)
			}
			err = errTooLong
		}
	}()
	return enc(dt, v), nil
}

func checkOffset(n int) {
	if n > math.MaxInt32 {
		panic(errTooLong)
	}
}

func makeArray(dt arrow.DataType, n int, buffers []*memory.Buffer, children []arrow.ArrayData, nulls int) arrow.Array {
	return array.MakeFromData(array.NewData(dt, n, buffers, children, nulls, 0))
}

// plain keeps the memory of numbers and of Go arrays of numbers.
func plain[T any](dt arrow.DataType, v []T) arrow.Array {
	var raw []byte
	if len(v) > 0 {
		raw = unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), uintptr(len(v))*unsafe.Sizeof(v[0]))
	}
	return array.MakeFromData(plainData(dt, len(v), raw))
}

func plainData(dt arrow.DataType, n int, raw []byte) arrow.ArrayData {
	if l, ok := dt.(*arrow.FixedSizeListType); ok {
		items := plainData(l.Elem(), n*int(l.Len()), raw)
		return array.NewData(dt, n, []*memory.Buffer{nil}, []arrow.ArrayData{items}, 0, 0)
	}
	return array.NewData(dt, n, []*memory.Buffer{nil, memory.NewBufferBytes(raw)}, nil, 0, 0)
}

func bitmap(n int, set func(int) bool) (bits []byte, unset int) {
	bits = make([]byte, (n+7)/8)
	for i := range n {
		if set(i) {
			bits[i/8] |= 1 << (i % 8)
		} else {
			unset++
		}
	}
	return bits, unset
}

func bools(dt arrow.DataType, v []bool) arrow.Array {
	bits, _ := bitmap(len(v), func(i int) bool { return v[i] })
	return makeArray(dt, len(v), []*memory.Buffer{nil, memory.NewBufferBytes(bits)}, nil, 0)
}

func texts(_ arrow.DataType, v []string) arrow.Array {
	size := 0
	for _, s := range v {
		size += len(s)
	}
	checkOffset(size)
	b := array.NewStringBuilder(memory.DefaultAllocator)
	b.AppendStringValues(v, nil)
	return b.NewArray()
}

// lists makes lists of what enc encodes; the items of a single list are not copied first.
func lists[T any](enc encoder[T]) encoder[[]T] {
	return func(dt arrow.DataType, v [][]T) arrow.Array { return listArray(dt, v, enc, nil, 0) }
}

// optionalLists makes lists that are null where v is nil.
func optionalLists[T any](enc encoder[T]) encoder[[]T] {
	return func(dt arrow.DataType, v [][]T) arrow.Array {
		bits, nulls := bitmap(len(v), func(i int) bool { return v[i] != nil })
		return listArray(dt, v, enc, bits, nulls)
	}
}

func listArray[T any](dt arrow.DataType, v [][]T, enc encoder[T], valid []byte, nulls int) arrow.Array {
	offsets := make([]int32, len(v)+1)
	n := 0
	for i, l := range v {
		n += len(l)
		checkOffset(n)
		offsets[i+1] = int32(n)
	}
	var items []T
	if len(v) == 1 {
		items = v[0]
	} else {
		items = slices.Concat(v...)
	}
	var validity *memory.Buffer
	if nulls > 0 {
		validity = memory.NewBufferBytes(valid)
	}
	child := enc(dt.(*arrow.ListType).Elem(), items)
	buffers := []*memory.Buffer{validity, memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(offsets))}
	return makeArray(dt, len(v), buffers, []arrow.ArrayData{child.Data()}, nulls)
}

// optional makes values that are null where v is nil.
func optional[T any](enc encoder[T]) encoder[*T] {
	return func(dt arrow.DataType, v []*T) arrow.Array {
		dense := make([]T, len(v))
		bits, nulls := bitmap(len(v), func(i int) bool {
			if v[i] == nil {
				return false
			}
			dense[i] = *v[i]
			return true
		})
		out := enc(dt, dense)
		if nulls == 0 {
			return out
		}
		d := out.Data()
		buffers := append([]*memory.Buffer{memory.NewBufferBytes(bits)}, d.Buffers()[1:]...)
		return makeArray(dt, len(v), buffers, d.Children(), nulls)
	}
}

// structs joins members of n values to structs.
func structs(dt arrow.DataType, n int, members ...arrow.Array) arrow.Array {
	children := make([]arrow.ArrayData, len(members))
	for i, m := range members {
		children[i] = m.Data()
	}
	return makeArray(dt, n, []*memory.Buffer{nil}, children, 0)
}

// member encodes what get takes from each value as member i of the struct type dt.
func member[S, T any](dt arrow.DataType, i int, v []S, get func(*S) T, enc encoder[T]) arrow.Array {
	out := make([]T, len(v))
	for j := range v {
		out[j] = get(&v[j])
	}
	return enc(dt.(*arrow.StructType).Field(i).Type, out)
}
