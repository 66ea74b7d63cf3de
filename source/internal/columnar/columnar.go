// Package columnar grows Arrow arrays from decoded messages, without a boxed
// value or an allocation per row.
//
// A decoder of a wire format (CDR, protobuf, JSON) makes a tree of columns with
// [New], binds its compiled plan to them, and writes message after message:
// leaves with Append, then each list, map and struct with End. [Column.Finish]
// turns the tree into Arrow data without copying.
//
// A message that fails half-way is taken back by one call on the root column:
//
//	rows := root.Len()
//	if err := decode(msg); err != nil {
//		root.Truncate(rows)
//	}
//
// Truncate also removes what children hold beyond the rows that are left, so a
// decoder needs no bookkeeping of its own. Columns are not safe for concurrent use.
//
// An Arrow list has 32 bit offsets: a column holds at most 2^31-1 bytes or
// items. Append and End panic with [ErrFull] beyond that; [Guard] makes it an
// error. The row can be taken back afterwards like any other.
package columnar

import (
	"errors"
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// ErrFull says that a column cannot hold more because Arrow's offsets end.
var ErrFull = errors.New("more than 2^31-1 bytes or items in one column")

// Guard runs f and returns ErrFull if a column became full in it.
func Guard(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			if r != any(ErrFull) {
				panic(r)
			}
			err = ErrFull
		}
	}()
	return f()
}

// Column is a growing array. The concrete types of this package are the only
// implementations: [Fixed], [Bool], [Bytes], [List], [FixedList], [Map], [Struct].
type Column interface {
	// Type is the Arrow type that the column will have.
	Type() arrow.DataType
	// Len is the number of complete rows.
	Len() int
	// AppendNull adds a null row. Children of structs and fixed lists get a null
	// or zero of their own, lists and maps an empty list.
	AppendNull()
	// AppendZero adds the default value: zero, false, empty, or a struct of these.
	AppendZero()
	// Truncate drops the rows from n on, and whatever an unfinished row left in
	// the children.
	Truncate(n int)
	// Finish returns the rows as Arrow data that takes over the memory. The
	// column is empty afterwards and may be filled again.
	Finish() arrow.ArrayData

	sizes(to []int) []int
	reserve(sizes []int, e estimate) []int
}

// New makes an empty column of a type. Types other than booleans, integers,
// floats, timestamps, durations, Utf8, Binary, List, FixedSizeList, Map and
// Struct give an error.
func New(dt arrow.DataType) (Column, error) {
	switch t := dt.(type) {
	case *arrow.BooleanType:
		return &Bool{}, nil
	case *arrow.Int8Type:
		return &Fixed[int8]{dt: dt}, nil
	case *arrow.Int16Type:
		return &Fixed[int16]{dt: dt}, nil
	case *arrow.Int32Type:
		return &Fixed[int32]{dt: dt}, nil
	case *arrow.Int64Type, *arrow.TimestampType, *arrow.DurationType:
		return &Fixed[int64]{dt: dt}, nil
	case *arrow.Uint8Type:
		return &Fixed[uint8]{dt: dt}, nil
	case *arrow.Uint16Type:
		return &Fixed[uint16]{dt: dt}, nil
	case *arrow.Uint32Type:
		return &Fixed[uint32]{dt: dt}, nil
	case *arrow.Uint64Type:
		return &Fixed[uint64]{dt: dt}, nil
	case *arrow.Float32Type:
		return &Fixed[float32]{dt: dt}, nil
	case *arrow.Float64Type:
		return &Fixed[float64]{dt: dt}, nil
	case *arrow.StringType, *arrow.BinaryType:
		return &Bytes{dt: dt}, nil
	case *arrow.ListType:
		items, err := New(t.Elem())
		if err != nil {
			return nil, err
		}
		return &List{Items: items, dt: t}, nil
	case *arrow.FixedSizeListType:
		items, err := New(t.Elem())
		if err != nil {
			return nil, err
		}
		return &FixedList{Items: items, dt: t}, nil
	case *arrow.MapType:
		keys, err := New(t.KeyType())
		if err != nil {
			return nil, err
		}
		values, err := New(t.ItemType())
		if err != nil {
			return nil, err
		}
		return &Map{Keys: keys, Values: values, dt: t}, nil
	case *arrow.StructType:
		s := &Struct{Fields: make([]Column, t.NumFields()), dt: t}
		for i := range s.Fields {
			c, err := New(t.Field(i).Type)
			if err != nil {
				return nil, fmt.Errorf("field %s: %w", t.Field(i).Name, err)
			}
			s.Fields[i] = c
		}
		return s, nil
	}
	return nil, fmt.Errorf("no column of type %v", dt)
}

// MustNew is New for types known to be supported.
func MustNew[C Column](dt arrow.DataType) C {
	c, err := New(dt)
	if err != nil {
		panic(err)
	}
	return c.(C)
}

// Array finishes a column as an array.
func Array(c Column) arrow.Array { return array.MakeFromData(c.Finish()) }

// Hint remembers how large columns of one shape became, so that the next ones
// are reserved in one piece. The zero value is ready; not for concurrent use.
type Hint struct {
	rows  int
	sizes []int
}

// Note records the sizes of a filled column; call it before Finish.
func (h *Hint) Note(c Column) {
	if n := c.Len(); n > 0 {
		h.rows, h.sizes = n, c.sizes(h.sizes[:0])
	}
}

// Reserve makes room for rows more rows in an empty column of the same shape,
// decoded from size bytes of messages. What was seen before is believed as far
// as so many bytes can justify it.
func (h *Hint) Reserve(c Column, rows, size int) {
	if h.rows == 0 || rows <= 0 {
		return
	}
	c.reserve(h.sizes, estimate{float64(rows) / float64(h.rows), size})
}

// estimate tells how much to reserve.
type estimate struct {
	scale float64 // of sizes seen before
	bytes int     // most that a buffer may take
}

// room is the number of items of a width to reserve for a number seen before.
func (e estimate) room(seen, width int) int {
	return int(min(math.Ceil(float64(seen)*e.scale*1.02), float64(e.bytes/width))) + 1
}

// validity is a bitmap that exists from the first null on.
type validity struct {
	bits  []byte
	nulls int
}

// valid notes that row n is not null.
func (v *validity) valid(n int) {
	if v.bits != nil {
		v.grow(n)
		v.bits[n>>3] |= 1 << (n & 7)
	}
}

func (v *validity) grow(n int) {
	if n>>3 >= len(v.bits) {
		v.bits = append(v.bits, 0)
	}
}

// null notes that row n is null.
func (v *validity) null(n int) {
	if v.bits == nil {
		v.bits = make([]byte, n/8+1, n/8+64)
		for i := range n {
			v.bits[i>>3] |= 1 << (i & 7)
		}
	}
	v.grow(n)
	v.bits[n>>3] &^= 1 << (n & 7)
	v.nulls++
}

func (v *validity) truncate(n, was int) {
	if v.bits == nil {
		return
	}
	for i := n; i < was; i++ {
		if v.bits[i>>3]&(1<<(i&7)) == 0 {
			v.nulls--
		}
	}
	v.bits = v.bits[:(n+7)/8]
	if n&7 != 0 {
		v.bits[n>>3] &= 1<<(n&7) - 1
	}
	if v.nulls == 0 {
		v.bits = nil
	}
}

func (v *validity) finish() (*memory.Buffer, int) {
	bits, nulls := v.bits, v.nulls
	v.bits, v.nulls = nil, 0
	if nulls == 0 {
		return nil, 0
	}
	return memory.NewBufferBytes(bits), nulls
}
