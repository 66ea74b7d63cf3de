package chunk

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
)

// TypeText is a short description of an Arrow type as [Chunk.Format] shows it,
// such as List(non-null Float32).
func TypeText(dt arrow.DataType) string {
	switch t := dt.(type) {
	case arrow.ExtensionType:
		return TypeText(t.StorageType())
	case *arrow.BooleanType:
		return "Boolean"
	case *arrow.StringType:
		return "Utf8"
	case *arrow.LargeStringType:
		return "LargeUtf8"
	case *arrow.StringViewType:
		return "Utf8View"
	case *arrow.BinaryViewType:
		return "BinaryView"
	case *arrow.FixedSizeBinaryType:
		return fmt.Sprintf("FixedSizeBinary(%d)", t.ByteWidth)
	case *arrow.Uint8Type, *arrow.Uint16Type, *arrow.Uint32Type, *arrow.Uint64Type:
		return "UInt" + strings.TrimPrefix(dt.Name(), "uint")
	case *arrow.TimestampType:
		if t.TimeZone != "" {
			return fmt.Sprintf("Timestamp(%s, %s)", unitText(t.Unit), quoted(t.TimeZone))
		}
		return fmt.Sprintf("Timestamp(%s)", unitText(t.Unit))
	case *arrow.DurationType:
		return fmt.Sprintf("Duration(%s)", unitText(t.Unit))
	case *arrow.Time32Type:
		return fmt.Sprintf("Time32(%s)", unitText(t.Unit))
	case *arrow.Time64Type:
		return fmt.Sprintf("Time64(%s)", unitText(t.Unit))
	case *arrow.MonthIntervalType:
		return "Interval(YearMonth)"
	case *arrow.DayTimeIntervalType:
		return "Interval(DayTime)"
	case *arrow.MonthDayNanoIntervalType:
		return "Interval(MonthDayNano)"
	case arrow.DecimalType:
		return fmt.Sprintf("Decimal%d(%d, %d)", t.BitWidth(), t.GetPrecision(), t.GetScale())
	case *arrow.DictionaryType:
		return fmt.Sprintf("Dictionary(%s, %s)", TypeText(t.IndexType), TypeText(t.ValueType))
	case *arrow.MapType:
		sorted := "unsorted"
		if t.KeysSorted {
			sorted = "sorted"
		}
		f := t.ElemField()
		return fmt.Sprintf("Map(%s, %s)", fieldText(f), sorted)
	case *arrow.ListType:
		return "List(" + itemText(t.ElemField()) + ")"
	case *arrow.LargeListType:
		return "LargeList(" + itemText(t.ElemField()) + ")"
	case *arrow.ListViewType:
		return "ListView(" + itemText(t.ElemField()) + ")"
	case *arrow.LargeListViewType:
		return "LargeListView(" + itemText(t.ElemField()) + ")"
	case *arrow.FixedSizeListType:
		return fmt.Sprintf("FixedSizeList(%d x %s)", t.Len(), itemText(t.ElemField()))
	case *arrow.StructType:
		return "Struct(" + joinText(t.Fields(), fieldText) + ")"
	case *arrow.RunEndEncodedType:
		return fmt.Sprintf(`RunEndEncoded("run_ends": non-null %s, "values": %s)`, TypeText(t.RunEnds()), nullableText(t.ValueNullable)+TypeText(t.Encoded()))
	case arrow.UnionType:
		mode := "Dense"
		if t.Mode() == arrow.SparseMode {
			mode = "Sparse"
		}
		codes, i := t.TypeCodes(), -1
		return "Union(" + mode + ", " + joinText(t.Fields(), func(f arrow.Field) string {
			i++
			return fmt.Sprintf("%d: (%s)", codes[i], fieldText(f))
		}) + ")"
	}
	name := dt.Name() // int8, float64, date32, large_binary, null, …
	var b strings.Builder
	for part := range strings.SplitSeq(name, "_") {
		b.WriteString(strings.ToUpper(part[:1]) + part[1:])
	}
	return b.String()
}

func unitText(u arrow.TimeUnit) string {
	if u == arrow.Microsecond {
		return "µs"
	}
	return u.String()
}

func nullableText(nullable bool) string {
	if nullable {
		return ""
	}
	return "non-null "
}

// itemText describes the items of a list; their usual name goes without saying.
func itemText(f arrow.Field) string {
	s := nullableText(f.Nullable) + TypeText(f.Type)
	if f.Name != "item" {
		s += ", field: '" + f.Name + "'"
	}
	return s + fieldMetadataText(f.Metadata)
}

func fieldText(f arrow.Field) string {
	return quoted(f.Name) + ": " + nullableText(f.Nullable) + TypeText(f.Type) + fieldMetadataText(f.Metadata)
}

func fieldMetadataText(md arrow.Metadata) string {
	if md.Len() == 0 {
		return ""
	}
	keys := slices.Clone(md.Keys())
	slices.Sort(keys)
	for i, k := range keys {
		v, _ := md.GetValue(k)
		keys[i] = quoted(k) + ": " + quoted(v)
	}
	return ", metadata: {" + strings.Join(keys, ", ") + "}"
}

func joinText(fields []arrow.Field, text func(arrow.Field) string) string {
	texts := make([]string, len(fields))
	for i, f := range fields {
		texts[i] = text(f)
	}
	return strings.Join(texts, ", ")
}

// quoted is text in double quotes with the escapes \n \r \t \\ \" \0 and, for
// other unprintable characters, \u{hex}.
func quoted(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch r {
		case '"', '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case '\n':
			b.WriteString(`\n`)
		case '\r':
			b.WriteString(`\r`)
		case '\t':
			b.WriteString(`\t`)
		case 0:
			b.WriteString(`\0`)
		default:
			if strconv.IsPrint(r) {
				b.WriteRune(r)
			} else {
				fmt.Fprintf(&b, `\u{%x}`, r)
			}
		}
	}
	b.WriteByte('"')
	return b.String()
}
