package testkit

import (
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
)

// PyArrowType returns a data type in the notation of PyArrow, as golden files write it. Metadata,
// extension names and the names of map children are not part of it.
func PyArrowType(dt arrow.DataType) string {
	switch t := dt.(type) {
	case arrow.ExtensionType:
		return PyArrowType(t.StorageType())
	case *arrow.Float16Type:
		return "halffloat"
	case *arrow.Float32Type:
		return "float"
	case *arrow.Float64Type:
		return "double"
	case *arrow.StringType:
		return "string"
	case *arrow.LargeStringType:
		return "large_string"
	case *arrow.FixedSizeBinaryType:
		return fmt.Sprintf("fixed_size_binary[%d]", t.ByteWidth)
	case *arrow.TimestampType:
		if t.TimeZone != "" {
			return fmt.Sprintf("timestamp[%s, tz=%s]", t.Unit, t.TimeZone)
		}
		return fmt.Sprintf("timestamp[%s]", t.Unit)
	case *arrow.DurationType:
		return fmt.Sprintf("duration[%s]", t.Unit)
	case *arrow.Time32Type:
		return fmt.Sprintf("time32[%s]", t.Unit)
	case *arrow.Time64Type:
		return fmt.Sprintf("time64[%s]", t.Unit)
	case *arrow.Date32Type:
		return "date32[day]"
	case *arrow.Date64Type:
		return "date64[ms]"
	case arrow.DecimalType:
		return fmt.Sprintf("decimal%d(%d, %d)", t.BitWidth(), t.GetPrecision(), t.GetScale())
	case *arrow.MonthDayNanoIntervalType:
		return "month_day_nano_interval"
	case *arrow.DictionaryType:
		ordered := 0
		if t.Ordered {
			ordered = 1
		}
		return fmt.Sprintf("dictionary<values=%s, indices=%s, ordered=%d>",
			PyArrowType(t.ValueType), PyArrowType(t.IndexType), ordered)
	case *arrow.RunEndEncodedType:
		return fmt.Sprintf("run_end_encoded<run_ends: %s, values: %s>", PyArrowType(t.RunEnds()), PyArrowType(t.Encoded()))
	case *arrow.MapType:
		sorted := ""
		if t.KeysSorted {
			sorted = ", keys_sorted"
		}
		return fmt.Sprintf("map<%s, %s%s>", PyArrowType(t.KeyType()), PyArrowType(t.ItemType()), sorted)
	case *arrow.ListType:
		return "list<" + pyArrowField(t.ElemField()) + ">"
	case *arrow.LargeListType:
		return "large_list<" + pyArrowField(t.ElemField()) + ">"
	case *arrow.ListViewType:
		return "list_view<" + pyArrowField(t.ElemField()) + ">"
	case *arrow.LargeListViewType:
		return "large_list_view<" + pyArrowField(t.ElemField()) + ">"
	case *arrow.FixedSizeListType:
		return fmt.Sprintf("fixed_size_list<%s>[%d]", pyArrowField(t.ElemField()), t.Len())
	case *arrow.StructType:
		return "struct<" + joinFields(t.Fields(), nil) + ">"
	case *arrow.DenseUnionType:
		return "dense_union<" + joinFields(t.Fields(), t.TypeCodes()) + ">"
	case *arrow.SparseUnionType:
		return "sparse_union<" + joinFields(t.Fields(), t.TypeCodes()) + ">"
	}
	// The remaining names are the same in both libraries.
	return dt.Name()
}

func joinFields(fields []arrow.Field, codes []arrow.UnionTypeCode) string {
	texts := make([]string, len(fields))
	for i, f := range fields {
		texts[i] = pyArrowField(f)
		if codes != nil {
			texts[i] += fmt.Sprintf("=%d", codes[i])
		}
	}
	return strings.Join(texts, ", ")
}

func pyArrowField(f arrow.Field) string {
	text := f.Name + ": " + PyArrowType(f.Type)
	if !f.Nullable {
		text += " not null"
	}
	return text
}
