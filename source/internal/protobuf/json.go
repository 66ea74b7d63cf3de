package protobuf

import (
	"math"
	"strconv"
	"unicode/utf8"
)

// Types whose values are JSON values.
const (
	structName = "google.protobuf.Struct"
	valueName  = "google.protobuf.Value"
	listName   = "google.protobuf.ListValue"
)

// isJSON reports whether the type is one of them, as its name and form say.
func (m *Message) isJSON() bool {
	if m == nil {
		return false
	}
	is := func(f *Field, kind Kind, name string) bool {
		return f != nil && !f.Repeated && f.Kind == kind && (name == "" || f.Message != nil && f.Message.Name == name)
	}
	// The three refer to each other: each looks at its own fields and those below.
	value := func(m *Message) bool {
		if m == nil || m.Name != valueName || !is(m.Field(5), Embedded, structName) || !is(m.Field(6), Embedded, listName) {
			return false
		}
		s, l := m.Field(5).Message.Field(1), m.Field(6).Message.Field(1)
		return is(m.Field(1), EnumKind, "") && is(m.Field(2), Double, "") && is(m.Field(3), String, "") && is(m.Field(4), Bool, "") &&
			s != nil && s.IsMap() && s.Key().Kind == String && is(s.Value(), Embedded, valueName) &&
			l != nil && l.Repeated && l.Kind == Embedded && l.Message != nil && l.Message.Name == valueName
	}
	switch m.Name {
	case valueName:
		return value(m)
	case structName:
		f := m.Field(1)
		return f != nil && f.IsMap() && f.Key().Kind == String && is(f.Value(), Embedded, valueName) && value(f.Value().Message)
	case listName:
		f := m.Field(1)
		return f != nil && f.Repeated && f.Kind == Embedded && value(f.Message)
	}
	return false
}

// appendJSON appends the JSON text of a message for which isJSON holds, in its
// canonical encoding, so that keys are sorted and each field stands once.
func (m *Message) appendJSON(dst, b []byte) []byte {
	switch m.Name {
	case structName:
		dst = append(dst, '{')
		first := true
		eachField(b, func(number int32, v []byte, _ uint64) {
			if number != 1 {
				return
			}
			if !first {
				dst = append(dst, ',')
			}
			first = false
			var key, value []byte
			eachField(v, func(number int32, v []byte, _ uint64) {
				switch number {
				case 1:
					key = v
				case 2:
					value = v
				}
			})
			dst = append(appendJSONString(dst, key), ':')
			dst = appendJSONValue(dst, value, m.Field(1).Value().Message)
		})
		return append(dst, '}')
	case listName:
		dst = append(dst, '[')
		first := true
		eachField(b, func(number int32, v []byte, _ uint64) {
			if number != 1 {
				return
			}
			if !first {
				dst = append(dst, ',')
			}
			first = false
			dst = appendJSONValue(dst, v, m.Field(1).Message)
		})
		return append(dst, ']')
	}
	return appendJSONValue(dst, b, m)
}

// appendJSONValue appends a google.protobuf.Value, whose type is m.
func appendJSONValue(dst, b []byte, m *Message) []byte {
	set := false
	eachField(b, func(number int32, v []byte, n uint64) {
		switch number {
		case 1:
			dst = append(dst, "null"...)
		case 2:
			dst = appendJSONNumber(dst, math.Float64frombits(n))
		case 3:
			dst = appendJSONString(dst, v)
		case 4:
			dst = strconv.AppendBool(dst, n != 0)
		case 5, 6:
			dst = m.Field(number).Message.appendJSON(dst, v)
		default:
			return
		}
		set = true
	})
	if !set {
		dst = append(dst, "null"...)
	}
	return dst
}

// eachField calls f for each field of a well-formed message, with the bytes or
// the number that it holds.
func eachField(b []byte, f func(number int32, v []byte, n uint64)) {
	for i := 0; i < len(b); {
		number, wt, next, err := tagAt(b, i)
		if err != nil {
			return
		}
		switch wt {
		case wireBytes:
			s, err := lengthAt(b, next)
			if err != nil {
				return
			}
			f(number, b[s.from:s.to], 0)
			i = s.to
		case wireVarint, wireFixed64:
			kind := Uint64
			if wt == wireFixed64 {
				kind = Fixed64
			}
			var n uint64
			if n, i, err = numberAt(b, next, kind); err != nil {
				return
			}
			f(number, nil, n)
		default:
			if i, err = skipAt(b, next, number, wt, 0); err != nil {
				return
			}
		}
	}
}

// appendJSONNumber writes the shortest text that reads back as v, always with a
// fraction or an exponent; what JSON cannot hold becomes a string.
func appendJSONNumber(dst []byte, v float64) []byte {
	switch {
	case math.IsNaN(v):
		return append(dst, `"NaN"`...)
	case math.IsInf(v, 1):
		return append(dst, `"Infinity"`...)
	case math.IsInf(v, -1):
		return append(dst, `"-Infinity"`...)
	}
	if a := math.Abs(v); a != 0 && (a < 1e-5 || a >= 1e16) {
		var buf [32]byte
		text := strconv.AppendFloat(buf[:0], v, 'e', -1, 64)
		// strconv writes exponents with at least two digits.
		n := len(text)
		if text[n-2] == '0' && (text[n-3] == '+' || text[n-3] == '-') {
			text = append(text[:n-2], text[n-1])
		}
		return append(dst, text...)
	}
	from := len(dst)
	dst = strconv.AppendFloat(dst, v, 'f', -1, 64)
	for _, c := range dst[from:] {
		if c == '.' {
			return dst
		}
	}
	return append(dst, ".0"...)
}

const hexDigits = "0123456789abcdef"

func appendJSONString(dst, s []byte) []byte {
	dst = append(dst, '"')
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c >= ' ':
			dst = append(dst, c)
		case c == '\n':
			dst = append(dst, `\n`...)
		case c == '\r':
			dst = append(dst, `\r`...)
		case c == '\t':
			dst = append(dst, `\t`...)
		case c == '\b':
			dst = append(dst, `\b`...)
		case c == '\f':
			dst = append(dst, `\f`...)
		default:
			dst = append(dst, `\u00`...)
			dst = append(dst, hexDigits[c>>4], hexDigits[c&15])
		}
	}
	return append(dst, '"')
}

// isUTF8 is utf8.Valid with a quick way for short ASCII.
func isUTF8(b []byte) bool {
	for i, c := range b {
		if c >= utf8.RuneSelf {
			return utf8.Valid(b[i:])
		}
	}
	return true
}
