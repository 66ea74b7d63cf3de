package arrowipc

import (
	"encoding/binary"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
)

// alignTo is the alignment of messages and buffers that peers write (rrd.md 1.4).
const alignTo = 64

var (
	messageLayout  = layout{slots: []uint16{4, 6, 12, 16, 8}, size: 24, align: 8} // version, kind, header, body length, metadata
	schemaLayout   = layout{slots: []uint16{0, 4, 8}, size: 12, align: 4}         // endianness, fields, metadata
	fieldLayout    = layout{slots: []uint16{4, 8, 9, 12, 16, 20, 24}, size: 28, align: 4}
	encodingLayout = layout{slots: []uint16{8, 4, 16}, size: 24, align: 8} // id, index type, ordered
	decimalLayout  = layout{slots: []uint16{4, 8, 12}, size: 16, align: 4} // precision, scale, bits
	emptyLayout    = layout{size: 4, align: 4}
	oneLayout      = layout{slots: []uint16{4}, size: 8, align: 4}     // types with one property
	twoLayout      = layout{slots: []uint16{4, 8}, size: 12, align: 4} // types with two, key and value
)

// beginMessage appends the frame and the message table and returns the table
// and the place of its header reference.
func (w *flatWriter) beginMessage(kind uint8, bodyLen int64) tableAt {
	w.b = binary.LittleEndian.AppendUint32(w.b, continuation)
	w.zeros(4)
	w.base = len(w.b)
	t := w.table(w.ref(), &messageLayout)
	t.i16(0, versionV5)
	t.u8(1, kind)
	t.i64(3, bodyLen)
	return t
}

// endMessage pads the metadata so that what follows is aligned, counted from
// the start of the stream at origin, and fills in its length.
func (w *flatWriter) endMessage(origin int) {
	w.b = padTo(w.b, origin, alignTo)
	binary.LittleEndian.PutUint32(w.b[w.base-4:], uint32(len(w.b)-w.base))
}

func padTo(b []byte, origin, align int) []byte {
	for (len(b)-origin)&(align-1) != 0 {
		b = append(b, 0)
	}
	return b
}

func appendEnd(dst []byte) []byte {
	return append(dst, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0)
}

// schemaWriter writes fields. Dictionaries are numbered depth first.
type schemaWriter struct {
	flatWriter
	dicts int64
	err   error
}

// appendSchema appends a schema message and returns how many fields of it are
// dictionary-encoded.
func appendSchema(dst []byte, origin int, s *arrow.Schema) ([]byte, int64, error) {
	w := schemaWriter{flatWriter: flatWriter{b: dst}}
	m := w.beginMessage(headerSchema, 0)
	m.absent(4)
	t := w.table(m.place(2), &schemaLayout)
	n := s.NumFields()
	at := w.refs(t.place(1), n)
	for i := range n {
		w.field(at+4*i, s.Field(i))
	}
	if md := s.Metadata(); md.Len() > 0 {
		w.metadata(t.place(2), md, "", "", false)
	} else {
		t.absent(2)
	}
	w.endMessage(origin)
	return w.b, w.dicts, w.err
}

// metadata writes key-value pairs, and those of an extension type behind them.
func (w *flatWriter) metadata(at int, md arrow.Metadata, extension, serialized string, extended bool) {
	keys, values := md.Keys(), md.Values()
	n := len(keys)
	if extended {
		n += 2
	}
	first := w.refs(at, n)
	pair := func(i int, k, v string) {
		t := w.table(first+4*i, &twoLayout)
		w.str(t.place(0), k)
		w.str(t.place(1), v)
	}
	for i, k := range keys {
		pair(i, k, values[i])
	}
	if extended {
		pair(n-2, "ARROW:extension:name", extension)
		pair(n-1, "ARROW:extension:metadata", serialized)
	}
}

func (w *schemaWriter) field(at int, f arrow.Field) {
	t := w.table(at, &fieldLayout)
	w.str(t.place(0), f.Name)
	t.bool(1, f.Nullable)
	dt := f.Type
	var extension, serialized string
	ext, extended := dt.(arrow.ExtensionType)
	if extended {
		extension, serialized = ext.ExtensionName(), ext.Serialize()
		dt = ext.StorageType()
	}
	if d, ok := dt.(*arrow.DictionaryType); ok {
		e := w.table(t.place(4), &encodingLayout)
		e.i64(0, w.dicts)
		w.dicts++
		w.intType(e.place(1), d.IndexType)
		e.bool(2, d.Ordered)
		dt = d.ValueType
		if ext, ok := dt.(arrow.ExtensionType); ok {
			dt = ext.StorageType()
		}
	} else {
		t.absent(4)
	}
	w.dataType(t, dt)
	if extended || f.Metadata.Len() > 0 {
		w.metadata(t.place(6), f.Metadata, extension, serialized, extended)
	} else {
		t.absent(6)
	}
}

func (w *schemaWriter) intType(at int, dt arrow.DataType) {
	t := w.table(at, &twoLayout)
	bits := 0
	if f, ok := dt.(arrow.FixedWidthDataType); ok {
		bits = f.BitWidth()
	}
	t.i32(0, int32(bits))
	t.bool(1, arrow.IsSignedInteger(dt.ID()))
}

// dataType writes type and children of a field table.
func (w *schemaWriter) dataType(f tableAt, dt arrow.DataType) {
	at := f.place(3)
	kind := func(number uint8) { f.u8(2, number) }
	plain := func(number uint8) {
		kind(number)
		w.table(at, &emptyLayout)
	}
	short := func(number uint8, v int) {
		kind(number)
		t := w.table(at, &oneLayout)
		t.i16(0, int16(v))
	}
	word := func(number uint8, v int32) {
		kind(number)
		t := w.table(at, &oneLayout)
		t.i32(0, v)
	}
	var children []arrow.Field
	switch dt := dt.(type) {
	case *arrow.NullType:
		plain(typeNull)
	case *arrow.BooleanType:
		plain(typeBool)
	case *arrow.Int8Type, *arrow.Int16Type, *arrow.Int32Type, *arrow.Int64Type,
		*arrow.Uint8Type, *arrow.Uint16Type, *arrow.Uint32Type, *arrow.Uint64Type:
		kind(typeInt)
		w.intType(at, dt)
	case *arrow.Float16Type:
		short(typeFloat, 0)
	case *arrow.Float32Type:
		short(typeFloat, 1)
	case *arrow.Float64Type:
		short(typeFloat, 2)
	case *arrow.BinaryType:
		plain(typeBinary)
	case *arrow.StringType:
		plain(typeUtf8)
	case *arrow.LargeBinaryType:
		plain(typeLargeBinary)
	case *arrow.LargeStringType:
		plain(typeLargeUtf8)
	case *arrow.BinaryViewType:
		plain(typeBinaryView)
	case *arrow.StringViewType:
		plain(typeUtf8View)
	case *arrow.FixedSizeBinaryType:
		word(typeFixedSizeBinary, int32(dt.ByteWidth))
	case arrow.DecimalType:
		kind(typeDecimal)
		t := w.table(at, &decimalLayout)
		t.i32(0, dt.GetPrecision())
		t.i32(1, dt.GetScale())
		t.i32(2, int32(dt.BitWidth()))
	case *arrow.Date32Type:
		short(typeDate, 0)
	case *arrow.Date64Type:
		short(typeDate, 1)
	case *arrow.Time32Type:
		w.timeType(f, unitNumber(dt.Unit), 32)
	case *arrow.Time64Type:
		w.timeType(f, unitNumber(dt.Unit), 64)
	case *arrow.TimestampType:
		kind(typeTimestamp)
		t := w.table(at, &twoLayout)
		t.i16(0, unitNumber(dt.Unit))
		if dt.TimeZone != "" {
			w.str(t.place(1), dt.TimeZone)
		} else {
			t.absent(1)
		}
	case *arrow.DurationType:
		short(typeDuration, int(unitNumber(dt.Unit)))
	case *arrow.MonthIntervalType:
		short(typeInterval, 0)
	case *arrow.DayTimeIntervalType:
		short(typeInterval, 1)
	case *arrow.MonthDayNanoIntervalType:
		short(typeInterval, 2)
	case *arrow.ListType:
		plain(typeList)
		w.onlyChild(f, dt.ElemField())
		return
	case *arrow.LargeListType:
		plain(typeLargeList)
		w.onlyChild(f, dt.ElemField())
		return
	case *arrow.ListViewType:
		plain(typeListView)
		w.onlyChild(f, dt.ElemField())
		return
	case *arrow.LargeListViewType:
		plain(typeLargeListView)
		w.onlyChild(f, dt.ElemField())
		return
	case *arrow.FixedSizeListType:
		word(typeFixedSizeList, dt.Len())
		w.onlyChild(f, dt.ElemField())
		return
	case *arrow.MapType:
		kind(typeMap)
		t := w.table(at, &oneLayout)
		t.bool(0, dt.KeysSorted)
		w.onlyChild(f, dt.ElemField())
		return
	case *arrow.StructType:
		plain(typeStruct)
		first := w.refs(f.place(5), dt.NumFields())
		for i := range dt.NumFields() {
			w.field(first+4*i, dt.Field(i))
		}
		return
	case *arrow.RunEndEncodedType:
		plain(typeRunEndEncoded)
		children = dt.Fields()
	case arrow.UnionType:
		kind(typeUnion)
		t := w.table(at, &twoLayout)
		if dt.Mode() == arrow.DenseMode {
			t.i16(0, 1)
		}
		codes := dt.TypeCodes()
		w.vector(t.place(1), len(codes), 4)
		for _, c := range codes {
			w.b = binary.LittleEndian.AppendUint32(w.b, uint32(int32(c)))
		}
		children = dt.Fields()
	default:
		plain(typeNull)
		w.err = fmt.Errorf("arrow type %s cannot be encoded", dt)
	}
	// Peers expect the vector even when it is empty.
	first := w.refs(f.place(5), len(children))
	for i, c := range children {
		w.field(first+4*i, c)
	}
}

func (w *schemaWriter) onlyChild(f tableAt, child arrow.Field) {
	w.field(w.refs(f.place(5), 1), child)
}

func (w *schemaWriter) timeType(f tableAt, unit int16, bits int32) {
	f.u8(2, typeTime)
	t := w.table(f.place(3), &twoLayout)
	t.i16(0, unit)
	t.i32(1, bits)
}

// unitNumber is the number of a time unit in the format.
func unitNumber(u arrow.TimeUnit) int16 {
	switch u {
	case arrow.Second:
		return 0
	case arrow.Millisecond:
		return 1
	case arrow.Microsecond:
		return 2
	default:
		return 3
	}
}
