package arrowipc

import (
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
)

// maxDepth bounds the nesting of fields; arrow-go and the peers use it too.
const maxDepth = 64

// schemaInfo is what loading a batch needs to know of a schema.
type schemaInfo struct {
	fields []arrow.Field
	dicts  []dictField
	nodes  int // field nodes of a record batch
}

// dictField is one dictionary-encoded field. Fields are listed in depth-first
// order, so the dictionaries nested in the values of one follow it, up to end.
type dictField struct {
	id    int64
	value arrow.DataType
	nodes int // field nodes of a dictionary batch
	end   int
}

// schemaParser turns a schema flatbuffer into Arrow fields whose strings share
// the memory of the buffer.
type schemaParser struct {
	*flat
	info   schemaInfo
	tables int // tables left to visit, see visit
}

// parseSchema decodes the fields of a schema table.
func parseSchema(f *flat, schema table) (schemaInfo, error) {
	// Tables of an honest message do not overlap, and each takes its offset
	// and four bytes at least. The budget stops messages that refer to one
	// table again and again to make it grow exponentially.
	p := schemaParser{flat: f, tables: len(f.b) / 8}
	if e := schema.i16(0, 0); e != 0 {
		return p.info, errors.New("big-endian data is not supported")
	}
	pos, n := p.refs(schema, 1)
	p.info.fields = make([]arrow.Field, 0, n)
	for i := range n {
		p.info.fields = append(p.info.fields, p.field(p.flat.table(p.deref(pos+4*i)), 1))
		if p.err != nil {
			return p.info, p.err
		}
	}
	return p.info, p.err
}

// visit counts a table against the budget.
func (p *schemaParser) visit(pos int) bool {
	p.tables--
	if p.tables < 0 {
		p.fail(pos, "overlapping tables")
	}
	return p.err == nil
}

// refs is a vector of references to tables, checked against the budget.
func (p *schemaParser) refs(t table, slot int) (pos, n int) {
	pos, n = t.vector(slot, 4, 4)
	if n > p.tables {
		p.fail(pos, "overlapping tables")
		return 0, 0
	}
	return pos, n
}

func (p *schemaParser) metadata(t table, slot int) arrow.Metadata {
	pos, n := p.refs(t, slot)
	if n == 0 || p.err != nil {
		return arrow.Metadata{}
	}
	keys, values := make([]string, n), make([]string, n)
	for i := range n {
		kv := p.flat.table(p.deref(pos + 4*i))
		if !p.visit(pos) {
			return arrow.Metadata{}
		}
		keys[i], values[i] = kv.str(0), kv.str(1)
	}
	if p.err != nil {
		return arrow.Metadata{}
	}
	return arrow.NewMetadata(keys, values)
}

func (p *schemaParser) field(t table, depth int) arrow.Field {
	var f arrow.Field
	if !p.visit(t.pos) {
		return f
	}
	if depth > maxDepth {
		p.fail(t.pos, "fields nested too deeply")
		return f
	}
	f.Name = t.str(0)
	f.Nullable = t.bool(1)
	f.Metadata = p.metadata(t, 6)
	encoding, encoded := t.table(4)
	self := len(p.info.dicts)
	if encoded {
		p.info.dicts = append(p.info.dicts, dictField{id: encoding.i64(0, 0)})
	}
	before := p.info.nodes
	p.info.nodes++
	pos, n := p.refs(t, 5)
	var kids []arrow.Field
	if n > 0 {
		kids = make([]arrow.Field, 0, n)
	}
	for i := range n {
		kids = append(kids, p.field(p.flat.table(p.deref(pos+4*i)), depth+1))
		if p.err != nil {
			return f
		}
	}
	typ, ok := t.table(3)
	if p.err != nil || !p.visit(t.pos) {
		return f
	}
	if !ok {
		p.fail(t.pos, "field without type")
		return f
	}
	dt, err := dataType(t.u8(2, 0), typ, kids)
	if err == nil {
		err = p.err
	}
	if err == nil && encoded {
		var index arrow.DataType = arrow.PrimitiveTypes.Int32
		if it, ok := encoding.table(1); ok {
			index, err = intType(it)
		}
		if encoding.i16(3, 0) != 0 {
			err = errors.New("unknown dictionary kind")
		}
		d := &p.info.dicts[self]
		d.value, d.nodes, d.end = dt, p.info.nodes-before, len(p.info.dicts)
		p.info.nodes = before + 1
		dt = &arrow.DictionaryType{IndexType: index, ValueType: dt, Ordered: encoding.bool(2)}
	}
	if err != nil && p.err == nil {
		p.err = fmt.Errorf("field %q: %w", f.Name, err)
	}
	f.Type = dt
	return f
}

// Type numbers of the format.
const (
	typeNull = iota + 1
	typeInt
	typeFloat
	typeBinary
	typeUtf8
	typeBool
	typeDecimal
	typeDate
	typeTime
	typeTimestamp
	typeInterval
	typeList
	typeStruct
	typeUnion
	typeFixedSizeBinary
	typeFixedSizeList
	typeMap
	typeDuration
	typeLargeBinary
	typeLargeUtf8
	typeLargeList
	typeRunEndEncoded
	typeBinaryView
	typeUtf8View
	typeListView
	typeLargeListView
)

func dataType(number uint8, t table, kids []arrow.Field) (arrow.DataType, error) {
	switch number {
	case typeList, typeLargeList, typeListView, typeLargeListView, typeFixedSizeList, typeMap:
		if len(kids) != 1 {
			return nil, fmt.Errorf("list type with %d children", len(kids))
		}
	case typeRunEndEncoded:
		if len(kids) != 2 {
			return nil, fmt.Errorf("run-end encoded type with %d children", len(kids))
		}
	case typeStruct, typeUnion:
	default:
		if len(kids) != 0 {
			return nil, fmt.Errorf("flat type with %d children", len(kids))
		}
	}
	switch number {
	case typeNull:
		return arrow.Null, nil
	case typeInt:
		return intType(t)
	case typeFloat:
		switch p := t.i16(0, 0); p {
		case 0:
			return arrow.FixedWidthTypes.Float16, nil
		case 1:
			return arrow.PrimitiveTypes.Float32, nil
		case 2:
			return arrow.PrimitiveTypes.Float64, nil
		default:
			return nil, fmt.Errorf("unknown float precision %d", p)
		}
	case typeBinary:
		return arrow.BinaryTypes.Binary, nil
	case typeUtf8:
		return arrow.BinaryTypes.String, nil
	case typeLargeBinary:
		return arrow.BinaryTypes.LargeBinary, nil
	case typeLargeUtf8:
		return arrow.BinaryTypes.LargeString, nil
	case typeBinaryView:
		return arrow.BinaryTypes.BinaryView, nil
	case typeUtf8View:
		return arrow.BinaryTypes.StringView, nil
	case typeBool:
		return arrow.FixedWidthTypes.Boolean, nil
	case typeFixedSizeBinary:
		w := t.i32(0, 0)
		if w < 0 {
			return nil, fmt.Errorf("negative byte width %d", w)
		}
		return &arrow.FixedSizeBinaryType{ByteWidth: int(w)}, nil
	case typeDecimal:
		return decimalType(t)
	case typeDate, typeTime, typeTimestamp, typeInterval, typeDuration:
		return timeType(number, t)
	case typeList:
		return arrow.ListOfField(kids[0]), nil
	case typeLargeList:
		return arrow.LargeListOfField(kids[0]), nil
	case typeListView:
		return arrow.ListViewOfField(kids[0]), nil
	case typeLargeListView:
		return arrow.LargeListViewOfField(kids[0]), nil
	case typeFixedSizeList:
		n := t.i32(0, 0)
		if n <= 0 {
			return nil, fmt.Errorf("unsupported list size %d", n)
		}
		return arrow.FixedSizeListOfField(n, kids[0]), nil
	case typeStruct:
		return arrow.StructOf(kids...), nil
	case typeMap:
		return mapType(t, kids[0])
	case typeUnion:
		return unionType(t, kids)
	case typeRunEndEncoded:
		switch kids[0].Type.ID() {
		case arrow.INT16, arrow.INT32, arrow.INT64:
		default:
			return nil, fmt.Errorf("run ends of type %s", kids[0].Type)
		}
		dt := arrow.RunEndEncodedOf(kids[0].Type, kids[1].Type)
		dt.ValueNullable = kids[1].Nullable
		return dt, nil
	}
	return nil, fmt.Errorf("unknown type number %d", number)
}

func intType(t table) (arrow.DataType, error) {
	signed := t.bool(1)
	switch w := t.i32(0, 0); {
	case w == 8 && signed:
		return arrow.PrimitiveTypes.Int8, nil
	case w == 16 && signed:
		return arrow.PrimitiveTypes.Int16, nil
	case w == 32 && signed:
		return arrow.PrimitiveTypes.Int32, nil
	case w == 64 && signed:
		return arrow.PrimitiveTypes.Int64, nil
	case w == 8:
		return arrow.PrimitiveTypes.Uint8, nil
	case w == 16:
		return arrow.PrimitiveTypes.Uint16, nil
	case w == 32:
		return arrow.PrimitiveTypes.Uint32, nil
	case w == 64:
		return arrow.PrimitiveTypes.Uint64, nil
	default:
		return nil, fmt.Errorf("integer of %d bits", w)
	}
}

// decimalType bounds the scale to the digits of the type: text of a decimal
// is as long as its scale.
func decimalType(t table) (arrow.DataType, error) {
	p, s := t.i32(0, 0), t.i32(1, 0)
	digits := int32(0)
	w := t.i32(2, 128)
	switch w {
	case 32:
		digits = 9
	case 64:
		digits = 18
	case 128:
		digits = 38
	case 256:
		digits = 76
	default:
		return nil, fmt.Errorf("decimal of %d bits", w)
	}
	if p < 1 || p > digits || s < -digits || s > digits {
		return nil, fmt.Errorf("decimal(%d, %d) of %d bits", p, s, w)
	}
	return arrow.NewDecimalType(map[int32]arrow.Type{
		32: arrow.DECIMAL32, 64: arrow.DECIMAL64, 128: arrow.DECIMAL128, 256: arrow.DECIMAL256,
	}[w], p, s)
}

func timeType(number uint8, t table) (arrow.DataType, error) {
	var unit int16
	switch number {
	case typeTimestamp, typeInterval:
		unit = t.i16(0, 0)
	default:
		unit = t.i16(0, 1)
	}
	bad := fmt.Errorf("unknown unit %d of time type %d", unit, number)
	switch number {
	case typeDate:
		switch unit {
		case 0:
			return arrow.FixedWidthTypes.Date32, nil
		case 1:
			return arrow.FixedWidthTypes.Date64, nil
		}
		return nil, bad
	case typeInterval:
		switch unit {
		case 0:
			return arrow.FixedWidthTypes.MonthInterval, nil
		case 1:
			return arrow.FixedWidthTypes.DayTimeInterval, nil
		case 2:
			return arrow.FixedWidthTypes.MonthDayNanoInterval, nil
		}
		return nil, bad
	}
	if unit < 0 || unit > 3 {
		return nil, bad
	}
	u := [4]arrow.TimeUnit{arrow.Second, arrow.Millisecond, arrow.Microsecond, arrow.Nanosecond}[unit]
	switch number {
	case typeTimestamp:
		return &arrow.TimestampType{Unit: u, TimeZone: t.str(1)}, nil
	case typeDuration:
		return [4]arrow.DataType{arrow.FixedWidthTypes.Duration_s, arrow.FixedWidthTypes.Duration_ms,
			arrow.FixedWidthTypes.Duration_us, arrow.FixedWidthTypes.Duration_ns}[unit], nil
	}
	switch w := t.i32(1, 32); {
	case w == 32 && unit < 2:
		return [2]arrow.DataType{arrow.FixedWidthTypes.Time32s, arrow.FixedWidthTypes.Time32ms}[unit], nil
	case w == 64 && unit >= 2:
		return [2]arrow.DataType{arrow.FixedWidthTypes.Time64us, arrow.FixedWidthTypes.Time64ns}[unit-2], nil
	default:
		return nil, fmt.Errorf("time of %d bits in unit %d", w, unit)
	}
}

// mapType keeps types, nullability and metadata of keys and values. arrow-go
// has no room for other names than entries, key and value.
func mapType(t table, entries arrow.Field) (arrow.DataType, error) {
	pair, ok := entries.Type.(*arrow.StructType)
	if !ok || pair.NumFields() != 2 {
		return nil, errors.New("map entries are not a struct of two fields")
	}
	key := pair.Field(0)
	key.Nullable = false // null keys are refused when arrays are loaded
	dt := arrow.MapOfFields(key, pair.Field(1))
	dt.KeysSorted = t.bool(0)
	return dt, nil
}

func unionType(t table, kids []arrow.Field) (arrow.DataType, error) {
	if len(kids) > int(arrow.MaxUnionTypeCode)+1 {
		return nil, fmt.Errorf("union of %d types", len(kids))
	}
	codes := make([]arrow.UnionTypeCode, len(kids))
	for i := range codes {
		codes[i] = arrow.UnionTypeCode(i)
	}
	pos, n := t.vector(1, 4, 4)
	if n != 0 && n != len(kids) {
		return nil, fmt.Errorf("union of %d types with %d type ids", len(kids), n)
	}
	var seen [int(arrow.MaxUnionTypeCode) + 1]bool
	for i := range n {
		id := int32(t.f.u32(pos + 4*i))
		if id < 0 || id > int32(arrow.MaxUnionTypeCode) || seen[id] {
			return nil, fmt.Errorf("bad union type id %d", id)
		}
		seen[id] = true
		codes[i] = arrow.UnionTypeCode(id)
	}
	switch m := t.i16(0, 0); m {
	case 0:
		return arrow.SparseUnionOf(kids, codes), nil
	case 1:
		return arrow.DenseUnionOf(kids, codes), nil
	default:
		return nil, fmt.Errorf("unknown union mode %d", m)
	}
}
