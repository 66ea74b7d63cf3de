package testkit

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"math"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// DigestRRD returns the digest of a column as the README of the golden area "rrd" defines it:
// 64 hex digits over the rows of all arrays in order. It panics on a type the definition lacks.
func DigestRRD(arrs ...arrow.Array) string {
	return digest(appendRRD, arrs)
}

// DigestReaders returns the value digest as the README of the golden area "readers" defines it:
// 32 hex digits over the rows of all arrays in order. It panics on a type the definition lacks.
func DigestReaders(arrs ...arrow.Array) string {
	return digest(appendReaders, arrs)[:32]
}

// digest hashes the bytes that appendValue makes of each row, in pieces to bound memory.
func digest(appendValue func(*sink, arrow.Array, int), arrs []arrow.Array) string {
	s := sink{hash: sha256.New()}
	for _, arr := range arrs {
		for i := range arr.Len() {
			appendValue(&s, arr, i)
		}
	}
	s.hash.Write(s.buf)
	return hex.EncodeToString(s.hash.Sum(nil))
}

type sink struct {
	hash hash.Hash
	buf  []byte
}

func (s *sink) byte(b byte)                { s.bytes([]byte{b}) }
func (s *sink) text(v string)              { s.bytes([]byte(v)) }
func (s *sink) uint64(v uint64)            { s.bytes(binary.LittleEndian.AppendUint64(nil, v)) }
func (s *sink) printf(f string, a ...any)  { s.text(fmt.Sprintf(f, a...)) }
func (s *sink) decimal(prefix byte, v int) { s.text(string(prefix) + strconv.Itoa(v) + ":") }

func (s *sink) bytes(b []byte) {
	s.buf = append(s.buf, b...)
	if len(s.buf) >= 1<<16 {
		s.hash.Write(s.buf)
		s.buf = s.buf[:0]
	}
}

func appendRRD(s *sink, arr arrow.Array, i int) {
	switch a := arr.(type) {
	case array.ExtensionArray:
		appendRRD(s, a.Storage(), i)
		return
	case *array.Dictionary:
		if a.IsNull(i) {
			s.byte('N')
		} else {
			appendRRD(s, a.Dictionary(), a.GetValueIndex(i))
		}
		return
	case array.Union:
		child, at := unionValue(a, i)
		if isNull(child, at) {
			s.byte('N')
			return
		}
		s.decimal('u', int(a.TypeCode(i)))
		appendRRD(s, child, at)
		return
	}
	if isNull(arr, i) {
		s.byte('N')
		return
	}
	if v, ok := signed(arr, i); ok {
		s.printf("i%d;", v)
		return
	}
	if v, ok := unsigned(arr, i); ok {
		s.printf("i%d;", v)
		return
	}
	if v, ok := binaryValue(arr, i); ok {
		prefix := byte('b')
		if isText(arr.DataType()) {
			prefix = 's'
		}
		s.decimal(prefix, len(v))
		s.bytes(v)
		return
	}
	switch a := arr.(type) {
	case *array.Boolean:
		if a.Value(i) {
			s.byte('T')
		} else {
			s.byte('F')
		}
	case *array.Float64:
		s.printf("f%016x;", math.Float64bits(a.Value(i)))
	case *array.Float32:
		s.printf("f%08x;", quiet32(math.Float32bits(a.Value(i))))
	case *array.Float16:
		s.printf("f%04x;", a.Value(i).Uint16())
	case array.ListLike:
		s.byte('[')
		from, to := a.ValueOffsets(i)
		for j := from; j < to; j++ {
			appendRRD(s, a.ListValues(), int(j))
		}
		s.byte(']')
	case *array.Struct:
		s.byte('{')
		for f, field := range a.DataType().(*arrow.StructType).Fields() {
			s.decimal('s', len(field.Name))
			s.text(field.Name)
			appendRRD(s, a.Field(f), i)
		}
		s.byte('}')
	default:
		panic(fmt.Sprintf("testkit: no digest for %s", arr.DataType()))
	}
}

func appendReaders(s *sink, arr arrow.Array, i int) {
	switch a := arr.(type) {
	case array.ExtensionArray:
		appendReaders(s, a.Storage(), i)
		return
	case *array.Dictionary:
		if a.IsNull(i) {
			s.byte(0)
		} else {
			appendReaders(s, a.Dictionary(), a.GetValueIndex(i))
		}
		return
	}
	if isNull(arr, i) {
		s.byte(0)
		return
	}
	s.byte(1)
	if v, ok := signed(arr, i); ok {
		s.uint64(uint64(v))
		return
	}
	if v, ok := unsigned(arr, i); ok {
		s.uint64(v)
		return
	}
	if v, ok := binaryValue(arr, i); ok {
		s.uint64(uint64(len(v)))
		s.bytes(v)
		return
	}
	switch a := arr.(type) {
	case *array.Boolean:
		if a.Value(i) {
			s.byte(1)
		} else {
			s.byte(0)
		}
	case *array.Float64:
		v := a.Value(i)
		if v != v {
			s.uint64(0x7ff8000000000000)
		} else {
			s.uint64(math.Float64bits(v))
		}
	case *array.Float32:
		bits := math.Float32bits(a.Value(i))
		if v := a.Value(i); v != v {
			bits = 0x7fc00000
		}
		s.bytes(binary.LittleEndian.AppendUint32(nil, bits))
	case *array.Float16:
		bits := a.Value(i).Uint16()
		if a.Value(i).IsNaN() {
			bits = 0x7e00
		}
		s.bytes(binary.LittleEndian.AppendUint16(nil, bits))
	case *array.Decimal32:
		s.sized(a.Value(i).ToString(a.DataType().(arrow.DecimalType).GetScale()))
	case *array.Decimal64:
		s.sized(a.Value(i).ToString(a.DataType().(arrow.DecimalType).GetScale()))
	case *array.Decimal128:
		s.sized(a.Value(i).ToString(a.DataType().(arrow.DecimalType).GetScale()))
	case *array.Decimal256:
		s.sized(a.Value(i).ToString(a.DataType().(arrow.DecimalType).GetScale()))
	case *array.Map:
		from, to := a.ValueOffsets(i)
		s.uint64(uint64(to - from))
		for j := from; j < to; j++ {
			s.byte(1)
			appendReaders(s, a.Keys(), int(j))
			appendReaders(s, a.Items(), int(j))
		}
	case array.ListLike:
		from, to := a.ValueOffsets(i)
		s.uint64(uint64(to - from))
		if raw, ok := rawBytes(a.ListValues(), int(from), int(to)); ok {
			s.bytes(raw)
			return
		}
		for j := from; j < to; j++ {
			appendReaders(s, a.ListValues(), int(j))
		}
	case *array.Struct:
		for f := range a.NumField() {
			appendReaders(s, a.Field(f), i)
		}
	default:
		panic(fmt.Sprintf("testkit: no digest for %s", arr.DataType()))
	}
}

func (s *sink) sized(v string) {
	s.uint64(uint64(len(v)))
	s.text(v)
}

// isNull also holds for the rows of a null array, which has no bitmap.
func isNull(arr arrow.Array, i int) bool {
	return arr.DataType().ID() == arrow.NULL || arr.IsNull(i)
}

// rawBytes returns items [from, to) of a uint8 array, which the readers digest takes as one value.
func rawBytes(items arrow.Array, from, to int) ([]byte, bool) {
	a, ok := items.(*array.Uint8)
	if !ok {
		return nil, false
	}
	for i := from; i < to; i++ {
		if a.IsNull(i) {
			return nil, false
		}
	}
	return a.Uint8Values()[from:to], true
}

// unionValue returns the child array and the index in it that row i of a union takes its value from.
func unionValue(a array.Union, i int) (arrow.Array, int) {
	child := a.Field(a.ChildID(i))
	if dense, ok := a.(*array.DenseUnion); ok {
		return child, int(dense.ValueOffset(i))
	}
	return child, i
}

func signed(arr arrow.Array, i int) (int64, bool) {
	switch a := arr.(type) {
	case *array.Int8:
		return int64(a.Value(i)), true
	case *array.Int16:
		return int64(a.Value(i)), true
	case *array.Int32:
		return int64(a.Value(i)), true
	case *array.Int64:
		return a.Value(i), true
	case *array.Timestamp:
		return int64(a.Value(i)), true
	case *array.Duration:
		return int64(a.Value(i)), true
	case *array.Date32:
		return int64(a.Value(i)), true
	case *array.Date64:
		return int64(a.Value(i)), true
	case *array.Time32:
		return int64(a.Value(i)), true
	case *array.Time64:
		return int64(a.Value(i)), true
	}
	return 0, false
}

func unsigned(arr arrow.Array, i int) (uint64, bool) {
	switch a := arr.(type) {
	case *array.Uint8:
		return uint64(a.Value(i)), true
	case *array.Uint16:
		return uint64(a.Value(i)), true
	case *array.Uint32:
		return uint64(a.Value(i)), true
	case *array.Uint64:
		return a.Value(i), true
	}
	return 0, false
}

func binaryValue(arr arrow.Array, i int) ([]byte, bool) {
	switch a := arr.(type) {
	case *array.String:
		return []byte(a.Value(i)), true
	case *array.LargeString:
		return []byte(a.Value(i)), true
	case *array.StringView:
		return []byte(a.Value(i)), true
	case *array.Binary:
		return a.Value(i), true
	case *array.LargeBinary:
		return a.Value(i), true
	case *array.BinaryView:
		return a.Value(i), true
	case *array.FixedSizeBinary:
		return a.Value(i), true
	}
	return nil, false
}

func isText(dt arrow.DataType) bool {
	switch dt.ID() {
	case arrow.STRING, arrow.LARGE_STRING, arrow.STRING_VIEW:
		return true
	}
	return false
}

// quiet32 sets the quiet bit of a NaN. The reference widens to float64 and back, which does the same.
func quiet32(bits uint32) uint32 {
	if bits&0x7f800000 == 0x7f800000 && bits&0x007fffff != 0 {
		return bits | 1<<22
	}
	return bits
}
