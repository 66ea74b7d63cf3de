package rosmsg

import (
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/reelhouse/reelhouse/source/internal/cdr"
	"github.com/reelhouse/reelhouse/source/internal/columnar"
)

// ArrowType is the struct that the messages of a definition become: no field is
// null, arrays of any shape are lists, whose items are nullable if they are
// messages.
func (m *Message) ArrowType() *arrow.StructType {
	fields := make([]arrow.Field, len(m.Fields))
	for i := range m.Fields {
		f := &m.Fields[i]
		fields[i] = arrow.Field{Name: f.Name, Type: f.arrowType()}
	}
	return arrow.StructOf(fields...)
}

func (f *Field) arrowType() arrow.DataType {
	dt := f.itemType()
	if f.Shape == Single {
		return dt
	}
	return arrow.ListOfField(arrow.Field{Name: "item", Type: dt, Nullable: f.Kind == Nested})
}

func (f *Field) itemType() arrow.DataType {
	switch f.Kind {
	case Bool:
		return arrow.FixedWidthTypes.Boolean
	case Int8:
		return arrow.PrimitiveTypes.Int8
	case Uint8:
		return arrow.PrimitiveTypes.Uint8
	case Int16:
		return arrow.PrimitiveTypes.Int16
	case Uint16:
		return arrow.PrimitiveTypes.Uint16
	case Int32:
		return arrow.PrimitiveTypes.Int32
	case Uint32:
		return arrow.PrimitiveTypes.Uint32
	case Int64:
		return arrow.PrimitiveTypes.Int64
	case Uint64:
		return arrow.PrimitiveTypes.Uint64
	case Float32:
		return arrow.PrimitiveTypes.Float32
	case Float64:
		return arrow.PrimitiveTypes.Float64
	case String:
		return arrow.BinaryTypes.String
	default:
		return f.Message.ArrowType()
	}
}

// minSize is the least number of bytes that an item takes; at least one.
func (f *Field) minSize() int {
	switch f.Kind {
	case Bool, Int8, Uint8:
		return 1
	case Int16, Uint16:
		return 2
	case Int32, Uint32, Float32, String:
		return 4
	case Int64, Uint64, Float64:
		return 8
	}
	const enough = 1 << 20 // so that sums and products stay small
	size := 0
	for i := range f.Message.Fields {
		g := &f.Message.Fields[i]
		switch g.Shape {
		case Single:
			size += g.minSize()
		case Array:
			size += min(g.Len, enough) * min(g.minSize(), enough)
		case Sequence:
			size += 4
		}
		size = min(size, enough)
	}
	return max(size, 1)
}

// Decoder decodes CDR messages of one definition into rows of a column.
type Decoder struct {
	Rows *columnar.Struct

	root   structDecoder
	reader cdr.Reader
}

// NewDecoder makes a decoder with an empty column of type dt, which must be the
// result of [Message.ArrowType].
func (m *Message) NewDecoder(dt *arrow.StructType) *Decoder {
	rows := columnar.MustNew[*columnar.Struct](dt)
	return &Decoder{Rows: rows, root: bindStruct(m, rows)}
}

// Decode adds a message as a row. After an error, or a panic with
// [columnar.ErrFull], the caller truncates Rows to what it was before.
func (d *Decoder) Decode(msg []byte) error {
	if err := d.reader.Reset(msg); err != nil {
		return err
	}
	d.root.decode(&d.reader)
	return d.reader.Err()
}

// decoder reads one value and appends it to the column it is bound to. If the
// reader fails it stops soon, with the row incomplete.
type decoder interface{ decode(r *cdr.Reader) }

func bind(f *Field, c columnar.Column) decoder {
	if f.Shape == Single {
		return bindItem(f, c)
	}
	list := c.(*columnar.List)
	n := f.Len
	if f.Shape == Sequence {
		n = -1
	}
	switch items := list.Items.(type) {
	case *columnar.Fixed[int8]:
		return &numbers[int8]{list, items, n}
	case *columnar.Fixed[uint8]:
		return &numbers[uint8]{list, items, n}
	case *columnar.Fixed[int16]:
		return &numbers[int16]{list, items, n}
	case *columnar.Fixed[uint16]:
		return &numbers[uint16]{list, items, n}
	case *columnar.Fixed[int32]:
		return &numbers[int32]{list, items, n}
	case *columnar.Fixed[uint32]:
		return &numbers[uint32]{list, items, n}
	case *columnar.Fixed[int64]:
		return &numbers[int64]{list, items, n}
	case *columnar.Fixed[uint64]:
		return &numbers[uint64]{list, items, n}
	case *columnar.Fixed[float32]:
		return &numbers[float32]{list, items, n}
	case *columnar.Fixed[float64]:
		return &numbers[float64]{list, items, n}
	}
	return &listDecoder{list, bindItem(f, list.Items), n, f.minSize()}
}

func bindItem(f *Field, c columnar.Column) decoder {
	switch c := c.(type) {
	case *columnar.Bool:
		return boolDecoder{c}
	case *columnar.Fixed[int8]:
		return number[int8]{c}
	case *columnar.Fixed[uint8]:
		return number[uint8]{c}
	case *columnar.Fixed[int16]:
		return number[int16]{c}
	case *columnar.Fixed[uint16]:
		return number[uint16]{c}
	case *columnar.Fixed[int32]:
		return number[int32]{c}
	case *columnar.Fixed[uint32]:
		return number[uint32]{c}
	case *columnar.Fixed[int64]:
		return number[int64]{c}
	case *columnar.Fixed[uint64]:
		return number[uint64]{c}
	case *columnar.Fixed[float32]:
		return number[float32]{c}
	case *columnar.Fixed[float64]:
		return number[float64]{c}
	case *columnar.Bytes:
		return textDecoder{c}
	default:
		s := bindStruct(f.Message, c.(*columnar.Struct))
		return &s
	}
}

type number[T columnar.Number] struct{ c *columnar.Fixed[T] }

func (d number[T]) decode(r *cdr.Reader) { d.c.Append(cdr.Value[T](r)) }

type boolDecoder struct{ c *columnar.Bool }

func (d boolDecoder) decode(r *cdr.Reader) { d.c.Append(r.Bool()) }

type textDecoder struct{ c *columnar.Bytes }

func (d textDecoder) decode(r *cdr.Reader) { AppendText(d.c, r) }

// numbers copies arrays and sequences of numbers in one piece.
type numbers[T columnar.Number] struct {
	list  *columnar.List
	items *columnar.Fixed[T]
	n     int // -1 for a sequence
}

func (d *numbers[T]) decode(r *cdr.Reader) {
	var zero T
	size := sizeOf(zero)
	n := d.n
	if n < 0 {
		n = r.Count(size)
	}
	b := r.Array(n, size)
	from := d.items.Len()
	d.items.AppendLE(b)
	if r.BigEndian() && size > 1 {
		swapBytes(d.items.Values()[from:])
	}
	d.list.End()
}

type listDecoder struct {
	list    *columnar.List
	item    decoder
	n       int // -1 for a sequence
	minSize int
}

func (d *listDecoder) decode(r *cdr.Reader) {
	n := d.n
	if n < 0 {
		n = r.Count(d.minSize)
	}
	for i := 0; i < n && r.Err() == nil; i++ {
		d.item.decode(r)
	}
	d.list.End()
}

type structDecoder struct {
	c      *columnar.Struct
	fields []decoder
}

func bindStruct(m *Message, c *columnar.Struct) structDecoder {
	d := structDecoder{c, make([]decoder, len(m.Fields))}
	for i := range m.Fields {
		d.fields[i] = bind(&m.Fields[i], c.Fields[i])
	}
	return d
}

func (d *structDecoder) decode(r *cdr.Reader) {
	for _, f := range d.fields {
		f.decode(r)
		if r.Err() != nil {
			return
		}
	}
	d.c.End()
}

// StampPath finds the time of a message by its definition: a field header with a
// field stamp, or without a header a field stamp, whose type has sec (int32) and
// nanosec (uint32). It returns the path of field numbers to the stamp.
func (m *Message) StampPath() []int {
	in, path := m, []int{}
	if h := m.Field("header"); h != nil {
		if h.Kind != Nested || h.Shape != Single {
			return nil
		}
		path = append(path, slices.IndexFunc(m.Fields, func(f Field) bool { return f.Name == "header" }))
		in = h.Message
	}
	i := slices.IndexFunc(in.Fields, func(f Field) bool { return f.Name == "stamp" })
	if i < 0 {
		return nil
	}
	f := &in.Fields[i]
	if f.Kind != Nested || f.Shape != Single {
		return nil
	}
	sec, nanosec := f.Message.Field("sec"), f.Message.Field("nanosec")
	if sec == nil || nanosec == nil || sec.Kind != Int32 || nanosec.Kind != Uint32 || sec.Shape != Single || nanosec.Shape != Single {
		return nil
	}
	return append(path, i)
}
