package main

import (
	"encoding/base64"
	"fmt"
	"math"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// appendJSON writes a value as JSON: timestamps as RFC 3339 text, durations as
// nanoseconds, binary data as base64, numbers that JSON lacks as text.
func appendJSON(buf []byte, a arrow.Array, i int) []byte {
	if _, null := a.(*array.Null); null || a.IsNull(i) {
		return append(buf, "null"...)
	}
	switch a := a.(type) {
	case *array.Boolean:
		return strconv.AppendBool(buf, a.Value(i))
	case *array.Int8:
		return strconv.AppendInt(buf, int64(a.Value(i)), 10)
	case *array.Int16:
		return strconv.AppendInt(buf, int64(a.Value(i)), 10)
	case *array.Int32:
		return strconv.AppendInt(buf, int64(a.Value(i)), 10)
	case *array.Int64:
		return strconv.AppendInt(buf, a.Value(i), 10)
	case *array.Uint8:
		return strconv.AppendUint(buf, uint64(a.Value(i)), 10)
	case *array.Uint16:
		return strconv.AppendUint(buf, uint64(a.Value(i)), 10)
	case *array.Uint32:
		return strconv.AppendUint(buf, uint64(a.Value(i)), 10)
	case *array.Uint64:
		return strconv.AppendUint(buf, a.Value(i), 10)
	case *array.Float16:
		return appendFloat(buf, float64(a.Value(i).Float32()), 32)
	case *array.Float32:
		return appendFloat(buf, float64(a.Value(i)), 32)
	case *array.Float64:
		return appendFloat(buf, a.Value(i), 64)
	case *array.Timestamp:
		return append(appendTimestamp(append(buf, '"'), a, i), '"')
	case *array.Duration:
		return strconv.AppendInt(buf, int64(a.Value(i))*int64(a.DataType().(*arrow.DurationType).Unit.Multiplier()), 10)
	case *array.String:
		return appendQuoted(buf, a.Value(i))
	case *array.LargeString:
		return appendQuoted(buf, a.Value(i))
	case *array.StringView:
		return appendQuoted(buf, a.Value(i))
	case *array.Binary:
		return appendBase64(buf, a.Value(i))
	case *array.LargeBinary:
		return appendBase64(buf, a.Value(i))
	case *array.BinaryView:
		return appendBase64(buf, a.Value(i))
	case *array.FixedSizeBinary:
		return appendBase64(buf, a.Value(i))
	case *array.Dictionary:
		return appendJSON(buf, a.Dictionary(), a.GetValueIndex(i))
	case *array.RunEndEncoded:
		return appendJSON(buf, a.Values(), a.GetPhysicalIndex(i))
	case *array.SparseUnion:
		return appendJSON(buf, a.Field(a.ChildID(i)), i)
	case *array.DenseUnion:
		return appendJSON(buf, a.Field(a.ChildID(i)), int(a.ValueOffset(i)))
	case *array.Struct:
		buf = append(buf, '{')
		for k, f := range a.DataType().(*arrow.StructType).Fields() {
			if k > 0 {
				buf = append(buf, ',')
			}
			buf = append(appendQuoted(buf, f.Name), ':')
			buf = appendJSON(buf, a.Field(k), i)
		}
		return append(buf, '}')
	case array.ListLike: // maps are lists of their entries
		from, to := a.ValueOffsets(i)
		buf = append(buf, '[')
		for k := from; k < to; k++ {
			if k > from {
				buf = append(buf, ',')
			}
			buf = appendJSON(buf, a.ListValues(), int(k))
		}
		return append(buf, ']')
	case array.ExtensionArray:
		return appendJSON(buf, a.Storage(), i)
	}
	return appendQuoted(buf, a.ValueStr(i))
}

func appendFloat(buf []byte, v float64, bits int) []byte {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return append(strconv.AppendFloat(append(buf, '"'), v, 'g', -1, bits), '"')
	}
	return strconv.AppendFloat(buf, v, 'g', -1, bits)
}

func appendTimestamp(buf []byte, a *array.Timestamp, i int) []byte {
	t := a.Value(i).ToTime(a.DataType().(*arrow.TimestampType).Unit)
	return t.UTC().AppendFormat(buf, time.RFC3339Nano)
}

func appendBase64(buf, v []byte) []byte {
	return append(base64.StdEncoding.AppendEncode(append(buf, '"'), v), '"')
}

const hexDigits = "0123456789abcdef"

// appendQuoted writes a JSON text.
func appendQuoted(buf []byte, s string) []byte {
	buf = append(buf, '"')
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			switch {
			case c == '"' || c == '\\':
				buf = append(buf, '\\', c)
			case c == '\n':
				buf = append(buf, '\\', 'n')
			case c == '\t':
				buf = append(buf, '\\', 't')
			case c < ' ':
				buf = append(buf, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
			default:
				buf = append(buf, c)
			}
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		buf = utf8.AppendRune(buf, r) // U+FFFD where the text is no UTF-8
		i += n
	}
	return append(buf, '"')
}

// appendText writes a value for a CSV cell: plain where it is one, else JSON.
func appendText(buf []byte, a arrow.Array, i int) []byte {
	switch a := a.(type) {
	case *array.String:
		return append(buf, a.Value(i)...)
	case *array.Timestamp:
		return appendTimestamp(buf, a, i)
	}
	return appendJSON(buf, a, i)
}

// shortItems is how many items of a list a table cell shows at most.
const shortItems = 16

// appendShort writes a value for people: a list of one as its item, long ones
// cut, bytes counted, durations with their unit. Nulls are empty.
func appendShort(buf []byte, a arrow.Array, i int) []byte {
	if _, null := a.(*array.Null); null || a.IsNull(i) {
		return buf
	}
	l, ok := a.(array.ListLike)
	if !ok {
		return appendShortValue(buf, a, i)
	}
	from, to := l.ValueOffsets(i)
	if to-from == 1 {
		if v := l.ListValues(); v.IsValid(int(from)) {
			if _, bytes := v.(*array.Uint8); !bytes {
				return appendShortValue(buf, v, int(from))
			}
		}
	}
	return appendShortValue(buf, a, i)
}

func appendShortValue(buf []byte, a arrow.Array, i int) []byte {
	if _, null := a.(*array.Null); null || a.IsNull(i) {
		return append(buf, "null"...)
	}
	switch a := a.(type) {
	case *array.String:
		return printable(buf, a.Value(i))
	case *array.LargeString:
		return printable(buf, a.Value(i))
	case *array.StringView:
		return printable(buf, a.Value(i))
	case *array.Timestamp:
		return appendTimestamp(buf, a, i)
	case *array.Duration:
		d := time.Duration(int64(a.Value(i)) * int64(a.DataType().(*arrow.DurationType).Unit.Multiplier()))
		return append(buf, d.String()...)
	case *array.Float16, *array.Float32, *array.Float64:
		var v float64
		switch a := a.(type) {
		case *array.Float16:
			v = float64(a.Value(i).Float32())
		case *array.Float32:
			return strconv.AppendFloat(buf, float64(a.Value(i)), 'g', -1, 32)
		case *array.Float64:
			v = a.Value(i)
		}
		return strconv.AppendFloat(buf, v, 'g', -1, 64)
	case *array.Binary:
		return fmt.Appendf(buf, "%d bytes", len(a.Value(i)))
	case *array.LargeBinary:
		return fmt.Appendf(buf, "%d bytes", len(a.Value(i)))
	case *array.BinaryView:
		return fmt.Appendf(buf, "%d bytes", len(a.Value(i)))
	case *array.Dictionary:
		return appendShortValue(buf, a.Dictionary(), a.GetValueIndex(i))
	case *array.RunEndEncoded:
		return appendShortValue(buf, a.Values(), a.GetPhysicalIndex(i))
	case *array.SparseUnion:
		return appendShortValue(buf, a.Field(a.ChildID(i)), i)
	case *array.DenseUnion:
		return appendShortValue(buf, a.Field(a.ChildID(i)), int(a.ValueOffset(i)))
	case *array.Struct:
		buf = append(buf, '{')
		for k, f := range a.DataType().(*arrow.StructType).Fields() {
			if k > 0 {
				buf = append(buf, ", "...)
			}
			buf = append(printable(buf, f.Name), ": "...)
			buf = appendShortValue(buf, a.Field(k), i)
		}
		return append(buf, '}')
	case array.ListLike:
		from, to := a.ValueOffsets(i)
		if _, bytes := a.ListValues().(*array.Uint8); bytes && to-from > 4 {
			return fmt.Appendf(buf, "%d bytes", to-from)
		}
		buf = append(buf, '[')
		for k := from; k < to; k++ {
			if k > from {
				buf = append(buf, ", "...)
			}
			if k-from == shortItems {
				buf = fmt.Appendf(buf, "… %d in all", to-from)
				break
			}
			buf = appendShortValue(buf, a.ListValues(), int(k))
		}
		return append(buf, ']')
	}
	return appendJSON(buf, a, i)
}
