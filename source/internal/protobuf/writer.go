package protobuf

import (
	"math"

	"github.com/reelhouse/reelhouse/source/internal/columnar"
)

// writer adds single values to a column.
type writer interface {
	// write adds a value: a number as numberAt gives it, or the bytes of a string
	// or message. depth is that of the message which holds the value.
	write(number uint64, bytes []byte, depth int) error
	// packed adds numbers that are written without tags.
	packed(b []byte) error
}

func newWriter(d *Decoder, fs fieldShape, c columnar.Column) writer {
	switch fs.form {
	case asBytes:
		return &bytesWriter{column: c.(*columnar.Bytes)}
	case asBinary:
		return &binaryWriter{message: fs.field.Message, column: c.(*columnar.Bytes)}
	case asJSON:
		return &jsonWriter{message: fs.field.Message, column: c.(*columnar.Bytes)}
	case asEnum:
		s := c.(*columnar.Struct)
		return &enumWriter{decoder: d, enum: fs.field.Enum, column: s, names: s.Fields[0].(*columnar.Bytes), values: s.Fields[1].(*columnar.Fixed[int32])}
	case asStruct:
		return structWriter{d.plan(fs.sub, c.(*columnar.Struct))}
	}
	switch k := fs.field.Kind; k {
	case Double:
		return doubleWriter{fixedWriter[float64]{column: c.(*columnar.Fixed[float64]), size: 8}}
	case Float:
		return floatWriter{fixedWriter[float32]{column: c.(*columnar.Fixed[float32]), size: 4}}
	case Fixed64:
		return fixedWriter[uint64]{column: c.(*columnar.Fixed[uint64]), size: 8}
	case Sfixed64:
		return fixedWriter[int64]{column: c.(*columnar.Fixed[int64]), size: 8}
	case Fixed32:
		return fixedWriter[uint32]{column: c.(*columnar.Fixed[uint32]), size: 4}
	case Sfixed32:
		return fixedWriter[int32]{column: c.(*columnar.Fixed[int32]), size: 4}
	case Bool:
		return boolWriter{c.(*columnar.Bool)}
	case Int64, Sint64:
		return varintWriter[int64]{k, c.(*columnar.Fixed[int64])}
	case Uint64:
		return varintWriter[uint64]{k, c.(*columnar.Fixed[uint64])}
	case Uint32:
		return varintWriter[uint32]{k, c.(*columnar.Fixed[uint32])}
	default:
		return varintWriter[int32]{k, c.(*columnar.Fixed[int32])}
	}
}

// fixedWriter writes kinds whose wire form is that of the column's memory.
type fixedWriter[T columnar.Number] struct {
	column *columnar.Fixed[T]
	size   int
}

func (w fixedWriter[T]) write(v uint64, _ []byte, _ int) error {
	w.column.Append(T(v))
	return nil
}

func (w fixedWriter[T]) packed(b []byte) error {
	if len(b)%w.size != 0 {
		return errTruncated
	}
	w.column.AppendLE(b)
	return nil
}

type doubleWriter struct{ fixedWriter[float64] }

func (w doubleWriter) write(v uint64, _ []byte, _ int) error {
	w.column.Append(math.Float64frombits(v))
	return nil
}

type floatWriter struct{ fixedWriter[float32] }

func (w floatWriter) write(v uint64, _ []byte, _ int) error {
	w.column.Append(math.Float32frombits(uint32(v)))
	return nil
}

type varintWriter[T columnar.Number] struct {
	kind   Kind
	column *columnar.Fixed[T]
}

func (w varintWriter[T]) write(v uint64, _ []byte, _ int) error {
	w.column.Append(T(v))
	return nil
}

func (w varintWriter[T]) packed(b []byte) error {
	for i := 0; i < len(b); {
		v, next, err := numberAt(b, i, w.kind)
		if err != nil {
			return err
		}
		i = next
		w.column.Append(T(v))
	}
	return nil
}

type boolWriter struct{ column *columnar.Bool }

func (w boolWriter) write(v uint64, _ []byte, _ int) error {
	w.column.Append(v != 0)
	return nil
}

func (w boolWriter) packed(b []byte) error {
	for i := 0; i < len(b); {
		v, next := varint(b, i)
		if next < 0 {
			return errVarint
		}
		i = next
		w.column.Append(v != 0)
	}
	return nil
}

type enumWriter struct {
	decoder *Decoder
	enum    *Enum
	column  *columnar.Struct
	names   *columnar.Bytes
	values  *columnar.Fixed[int32]
}

func (w *enumWriter) write(v uint64, _ []byte, _ int) error {
	number := int32(v)
	if name, ok := w.enum.ValueName(number); ok {
		if err := w.decoder.spend(1 + len(name)/64); err != nil {
			return err
		}
		w.names.AppendString(name)
	} else {
		w.names.AppendNull()
	}
	w.values.Append(number)
	w.column.End()
	return nil
}

func (w *enumWriter) packed(b []byte) error {
	for i := 0; i < len(b); {
		v, next := varint(b, i)
		if next < 0 {
			return errVarint
		}
		i = next
		if err := w.write(v, nil, 0); err != nil {
			return err
		}
	}
	return nil
}

// neverPacked is the part of writers of values that have a length or an end.
type neverPacked struct{}

func (neverPacked) packed([]byte) error { return errWireType }

type bytesWriter struct {
	neverPacked
	column *columnar.Bytes
}

func (w *bytesWriter) write(_ uint64, b []byte, _ int) error {
	w.column.Append(b)
	return nil
}

// binaryWriter keeps messages encoded, in their canonical form.
type binaryWriter struct {
	neverPacked
	message *Message
	column  *columnar.Bytes
	scratch []byte
}

func (w *binaryWriter) write(_ uint64, b []byte, depth int) error {
	out, err := w.message.appendCanonical(w.scratch[:0], b, depth+1)
	if err != nil {
		return err
	}
	w.scratch = out
	w.column.Append(out)
	return nil
}

// jsonWriter turns dynamic values into JSON text.
type jsonWriter struct {
	neverPacked
	message *Message
	column  *columnar.Bytes
	scratch []byte
	text    []byte
}

func (w *jsonWriter) write(_ uint64, b []byte, depth int) error {
	out, err := w.message.appendCanonical(w.scratch[:0], b, depth+1)
	if err != nil {
		return err
	}
	w.scratch = out
	w.text = w.message.appendJSON(w.text[:0], out)
	w.column.Append(w.text)
	return nil
}

type structWriter struct{ plan *plan }

func (w structWriter) write(_ uint64, b []byte, depth int) error { return w.plan.decode(b, depth+1) }
func (structWriter) packed([]byte) error                         { return errWireType }
