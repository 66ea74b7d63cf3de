package chunk

import (
	"encoding/hex"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

const (
	maxValueChars = 100               // of a value's text
	maxValueBytes = 4 * maxValueChars // more than these are more than maxValueChars characters
)

// valueText writes values of one column as text: lists in brackets, structs and
// maps in braces, times in ISO 8601, binary data in hexadecimal.
type valueText struct {
	zones map[string]*time.Location
	err   string // stands for every value
	chars int    // of a text at most, no more than maxValueChars
}

// ValueText is the text of a row of an array, as [Chunk.Format] shows it.
func ValueText(a arrow.Array, row int) string { return newValueText(a.DataType()).value(a, row) }

func newValueText(dt arrow.DataType) *valueText {
	t := &valueText{zones: map[string]*time.Location{}, chars: maxValueChars}
	t.loadZones(dt)
	return t
}

// loadZones finds the time zones that a type names.
func (t *valueText) loadZones(dt arrow.DataType) {
	switch d := dt.(type) {
	case *arrow.TimestampType:
		if d.TimeZone == "" || t.zones[d.TimeZone] != nil {
			return
		}
		loc := loadZone(d.TimeZone)
		if loc == nil {
			t.err = fmt.Sprintf("Failed to format array: Parser error: Invalid timezone %s: failed to parse timezone", quoted(d.TimeZone))
		}
		t.zones[d.TimeZone] = loc
	case arrow.NestedType:
		for _, f := range d.Fields() {
			t.loadZones(f.Type)
		}
	case *arrow.DictionaryType:
		t.loadZones(d.ValueType)
	}
}

// loadZone reads an offset such as +02:00, +0200 or +02, or a name of the time zone database.
func loadZone(name string) *time.Location {
	if name[0] != '+' && name[0] != '-' {
		loc, err := time.LoadLocation(name)
		if err != nil || name == "Local" {
			return nil
		}
		return loc
	}
	for _, layout := range []string{"-07:00", "-0700", "-07"} {
		if at, err := time.Parse(layout, name); err == nil {
			_, offset := at.Zone()
			return time.FixedZone(name, offset)
		}
	}
	return nil
}

// value is the text of a row, cut to as many characters as are shown.
func (t *valueText) value(a arrow.Array, row int) string {
	if t.err != "" {
		return t.err
	}
	b := t.append(nil, a, row)
	if utf8.RuneCount(b) <= t.chars {
		return string(b)
	}
	end := 0
	for range t.chars - 1 {
		_, n := utf8.DecodeRune(b[end:])
		end += n
	}
	return string(b[:end]) + "…"
}

// append writes row i of a. It may stop early when no more can be shown.
func (t *valueText) append(b []byte, a arrow.Array, i int) []byte {
	if a.IsNull(i) || a.DataType().ID() == arrow.NULL {
		return append(b, "null"...)
	}
	switch a := a.(type) {
	case array.ExtensionArray:
		return t.append(b, a.Storage(), i)
	case *array.Boolean:
		return strconv.AppendBool(b, a.Value(i))
	case *array.Int8:
		return strconv.AppendInt(b, int64(a.Value(i)), 10)
	case *array.Int16:
		return strconv.AppendInt(b, int64(a.Value(i)), 10)
	case *array.Int32:
		return strconv.AppendInt(b, int64(a.Value(i)), 10)
	case *array.Int64:
		return strconv.AppendInt(b, a.Value(i), 10)
	case *array.Uint8:
		return strconv.AppendUint(b, uint64(a.Value(i)), 10)
	case *array.Uint16:
		return strconv.AppendUint(b, uint64(a.Value(i)), 10)
	case *array.Uint32:
		return strconv.AppendUint(b, uint64(a.Value(i)), 10)
	case *array.Uint64:
		return strconv.AppendUint(b, a.Value(i), 10)
	case *array.Float16:
		return appendFloat(b, float64(a.Value(i).Float32()), 16)
	case *array.Float32:
		return appendFloat(b, float64(a.Value(i)), 32)
	case *array.Float64:
		return appendFloat(b, a.Value(i), 64)
	case *array.String:
		return append(b, clip(a.Value(i))...)
	case *array.LargeString:
		return append(b, clip(a.Value(i))...)
	case *array.StringView:
		return append(b, clip(a.Value(i))...)
	case *array.Binary:
		return hex.AppendEncode(b, clip(a.Value(i)))
	case *array.LargeBinary:
		return hex.AppendEncode(b, clip(a.Value(i)))
	case *array.BinaryView:
		return hex.AppendEncode(b, clip(a.Value(i)))
	case *array.FixedSizeBinary:
		return hex.AppendEncode(b, clip(a.Value(i)))
	case *array.Dictionary:
		return t.append(b, a.Dictionary(), a.GetValueIndex(i))
	case *array.RunEndEncoded:
		return t.append(b, a.Values(), a.GetPhysicalIndex(i))
	case *array.Map:
		from, to := a.ValueOffsets(i)
		return t.appendItems(b, '{', '}', int(to-from), func(b []byte, j int) []byte {
			b = append(t.append(b, a.Keys(), int(from)+j), ": "...)
			return t.append(b, a.Items(), int(from)+j)
		})
	case array.ListLike:
		from, to := a.ValueOffsets(i)
		return t.appendItems(b, '[', ']', int(to-from), func(b []byte, j int) []byte {
			return t.append(b, a.ListValues(), int(from)+j)
		})
	case *array.Struct:
		fields := a.DataType().(*arrow.StructType).Fields()
		return t.appendItems(b, '{', '}', len(fields), func(b []byte, j int) []byte {
			b = append(append(b, clip(fields[j].Name)...), ": "...)
			return t.append(b, a.Field(j), i)
		})
	case array.Union:
		id := a.ChildID(i)
		b = append(append(b, '{'), clip(a.DataType().(arrow.UnionType).Fields()[id].Name)...)
		at := i
		if dense, ok := a.(*array.DenseUnion); ok {
			at = int(dense.ValueOffset(i))
		}
		return append(t.append(append(b, '='), a.Field(id), at), '}')
	}
	if text, ok := decimalText(a, i); ok {
		return append(b, text...)
	}
	return t.appendTime(b, a, i)
}

func (t *valueText) appendItems(b []byte, left, right byte, n int, item func([]byte, int) []byte) []byte {
	b = append(b, left)
	for j := range n {
		if len(b) > maxValueBytes {
			return b
		}
		if j > 0 {
			b = append(b, ", "...)
		}
		b = item(b, j)
	}
	return append(b, right)
}

// clip leaves out what will not be shown of a long value.
func clip[T string | []byte](v T) T { return v[:min(len(v), maxValueBytes+utf8.UTFMax)] }

// appendFloat writes the shortest digits that give v back, in exponent form
// only when the decimal point would be far off; half floats never use it.
func appendFloat(b []byte, v float64, bits int) []byte {
	switch {
	case v != v:
		return append(b, "NaN"...)
	case math.IsInf(v, 1):
		return append(b, "inf"...)
	case math.IsInf(v, -1):
		return append(b, "-inf"...)
	case bits == 16:
		return strconv.AppendFloat(b, v, 'f', -1, 32)
	}
	var buf [32]byte
	sci := strconv.AppendFloat(buf[:0], v, 'e', -1, bits)
	mantissa, exponent, _ := strings.Cut(string(sci), "e")
	exp, _ := strconv.Atoi(exponent) // of the first digit
	lowest, highest := -5, 15
	if bits == 32 {
		lowest, highest = -6, 12
	}
	switch {
	case v == 0, exp >= 0 && exp <= highest, exp < 0 && exp >= lowest:
		n := len(b)
		b = strconv.AppendFloat(b, v, 'f', -1, bits)
		if !strings.Contains(string(b[n:]), ".") {
			b = append(b, ".0"...)
		}
		return b
	}
	return append(append(append(b, mantissa...), 'e'), strconv.Itoa(exp)...)
}

func decimalText(a arrow.Array, i int) (string, bool) {
	var v *big.Int
	switch a := a.(type) {
	case *array.Decimal32:
		v = big.NewInt(int64(a.Value(i)))
	case *array.Decimal64:
		v = big.NewInt(int64(a.Value(i)))
	case *array.Decimal128:
		v = a.Value(i).BigInt()
	case *array.Decimal256:
		v = a.Value(i).BigInt()
	default:
		return "", false
	}
	scale := int(a.DataType().(arrow.DecimalType).GetScale())
	digits := new(big.Int).Abs(v).String()
	switch {
	case scale < 0:
		digits += strings.Repeat("0", -scale)
	case scale > 0:
		if pad := scale + 1 - len(digits); pad > 0 {
			digits = strings.Repeat("0", pad) + digits
		}
		digits = digits[:len(digits)-scale] + "." + digits[len(digits)-scale:]
	}
	if v.Sign() < 0 {
		digits = "-" + digits
	}
	return digits, true
}
