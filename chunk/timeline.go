package chunk

import (
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// TimeKind tells how the int64 values of a timeline are meant.
type TimeKind uint8

// The three kinds of timelines and their Arrow types.
const (
	Sequence  TimeKind = iota + 1 // a counter; Int64
	Duration                      // nanoseconds; Duration(ns)
	Timestamp                     // nanoseconds since 1970 UTC; Timestamp(ns) without zone
)

// ErrTimeType is wrapped by errors about index columns of a type that no
// timeline has.
var ErrTimeType = errors.New("unsupported time type")

// ErrNullTime is wrapped by errors about nulls in an index column.
var ErrNullTime = errors.New("null in an index column")

var timestampType = &arrow.TimestampType{Unit: arrow.Nanosecond}

func (k TimeKind) String() string {
	switch k {
	case Sequence:
		return "sequence"
	case Duration:
		return "duration"
	case Timestamp:
		return "timestamp"
	}
	return fmt.Sprintf("TimeKind(%d)", uint8(k))
}

// ArrowType is the type of an index column of this kind.
func (k TimeKind) ArrowType() arrow.DataType {
	switch k {
	case Duration:
		return arrow.FixedWidthTypes.Duration_ns
	case Timestamp:
		return timestampType
	}
	return arrow.PrimitiveTypes.Int64
}

// TimeKindOf is the kind of an index column of type dt: Int64, Duration(ns) or
// Timestamp(ns) of any zone. Other types give [ErrTimeType].
func TimeKindOf(dt arrow.DataType) (TimeKind, error) {
	switch t := dt.(type) {
	case *arrow.Int64Type:
		return Sequence, nil
	case *arrow.DurationType:
		if t.Unit == arrow.Nanosecond {
			return Duration, nil
		}
	case *arrow.TimestampType:
		if t.Unit == arrow.Nanosecond {
			return Timestamp, nil
		}
	}
	return 0, fmt.Errorf("%w %v", ErrTimeType, dt)
}

// Timeline names an index and says what its values mean.
type Timeline struct {
	Name string
	Kind TimeKind
}

// TimeColumn is one timeline of a chunk with a value for every row.
type TimeColumn struct {
	Timeline
	Times  []int64 // one per row; not to be written to
	Sorted bool    // Times never decrease
}

// NewTimeColumn makes a column of times, which it keeps, and finds whether they are sorted.
func NewTimeColumn(name string, kind TimeKind, times []int64) TimeColumn {
	return TimeColumn{Timeline{name, kind}, times, slices.IsSorted(times)}
}

// Range is the smallest and the greatest time; ok is false for no rows.
func (c *TimeColumn) Range() (lo, hi int64, ok bool) {
	if len(c.Times) == 0 {
		return 0, 0, false
	}
	if c.Sorted {
		return c.Times[0], c.Times[len(c.Times)-1], true
	}
	return slices.Min(c.Times), slices.Max(c.Times), true
}

// Array is the column as an Arrow array that shares Times.
func (c *TimeColumn) Array() arrow.Array { return TimesArray(c.Kind, c.Times) }

// TimesArray is an Arrow array of the kind's type over times, without copying.
func TimesArray(kind TimeKind, times []int64) arrow.Array {
	buf := memory.NewBufferBytes(int64Bytes(times))
	return array.MakeFromData(array.NewData(kind.ArrowType(), len(times), []*memory.Buffer{nil, buf}, nil, 0, 0))
}

// Times are the raw values of an index column without copying. The array must
// be of a type that [TimeKindOf] accepts; nulls give [ErrNullTime].
func Times(a arrow.Array) (TimeKind, []int64, error) {
	kind, err := TimeKindOf(a.DataType())
	if err != nil {
		return 0, nil, err
	}
	if a.NullN() > 0 {
		return 0, nil, ErrNullTime
	}
	return kind, int64Values(a.Data()), nil
}

func int64Bytes(v []int64) []byte {
	if len(v) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), len(v)*8)
}

func int64Values(d arrow.ArrayData) []int64 {
	if d.Len() == 0 {
		return nil
	}
	b := d.Buffers()[1].Bytes()
	return unsafe.Slice((*int64)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/8)[d.Offset() : d.Offset()+d.Len()]
}
