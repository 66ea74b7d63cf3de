package protobuf

import (
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/reelhouse/reelhouse/source/internal/columnar"
)

// ErrTooLarge is the error of messages that unfold to far more columns and rows
// than their bytes justify.
var ErrTooLarge = fmt.Errorf("%w: unfolds to too many values", ErrMessage)

const (
	freeCells     = 1 << 24 // values that a batch may have in any case
	cellsPerByte  = 64      // and more for each byte of its messages
	entriesToKeep = 1 << 12
)

// Decoder writes messages of one type into a column of structs. It is not safe
// for concurrent use.
type Decoder struct {
	layout *Layout
	column *columnar.Struct
	root   *plan
	hint   columnar.Hint

	cells, bytes int // of the batch
	free         int // cells that need no justification
}

// NewDecoder makes a decoder with an empty column.
func (l *Layout) NewDecoder() *Decoder {
	d := &Decoder{layout: l, column: l.newColumn(), free: freeCells}
	d.root = d.plan(l.root, d.column)
	return d
}

// Type is the type of the column.
func (d *Decoder) Type() *arrow.StructType { return d.layout.Type }

// Len is the number of rows so far.
func (d *Decoder) Len() int { return d.column.Len() }

// Reserve makes room for rows more rows, of size bytes in all, by the size of
// those before the last [Decoder.Finish].
func (d *Decoder) Reserve(rows, size int) { d.hint.Reserve(d.column, rows, size) }

// Append decodes a message as one row. On an error, which wraps [ErrMessage] or
// is [columnar.ErrFull], no row is added. The message is not kept.
func (d *Decoder) Append(msg []byte) (err error) {
	rows, cells := d.column.Len(), d.cells
	d.bytes += len(msg)
	full := true
	defer func() {
		if full {
			if r := recover(); r != any(columnar.ErrFull) {
				panic(r)
			}
			err = columnar.ErrFull
		}
		if err != nil {
			d.column.Truncate(rows)
			d.cells, d.bytes = cells, d.bytes-len(msg)
		}
	}()
	err = d.root.decode(msg, 0)
	full = false
	return err
}

// Truncate drops the rows from n on.
func (d *Decoder) Truncate(n int) { d.column.Truncate(n) }

// Finish returns the rows and starts over.
func (d *Decoder) Finish() arrow.ArrayData {
	d.hint.Note(d.column)
	d.cells, d.bytes = 0, 0
	return d.column.Finish()
}

// spend counts values towards what the bytes of the batch justify.
func (d *Decoder) spend(cells int) error {
	if d.cells += cells; d.cells > d.free && d.cells-d.free > cellsPerByte*d.bytes {
		return ErrTooLarge
	}
	return nil
}

// plan decodes messages of one place of the layout into its column.
type plan struct {
	decoder *Decoder
	message *Message
	column  *columnar.Struct
	columns int
	row     uint64 // counts messages, so that slots need no clearing
	dense   []*slot
	sparse  map[int32]*slot
	entries []planEntry
}

type planEntry struct {
	slot    *slot // or
	oneof   *columnar.Struct
	members []*slot
	current *slot // the member that is set, if of this row
}

// slot holds what the message at hand says of one field until its end, as later
// occurrences replace earlier ones. Items of lists are written at once.
type slot struct {
	field  *Field
	form   form
	wire   wireType
	oneof  *planEntry
	column columnar.Column // of the field
	writer writer          // of its values, or of its items or map values

	row     uint64 // of the plan when the slot was last set
	number  uint64 // asNumber, asEnum
	bytes   []byte // all other forms
	entries []mapEntry
	keys    writer // of maps
}

type mapEntry struct {
	key     mapKey
	number  uint64
	bytes   []byte
	keyed   bool // the key was there
	missing bool // the value was not
}

func (d *Decoder) plan(s *shape, column *columnar.Struct) *plan {
	p := &plan{decoder: d, message: s.message, column: column, columns: s.columns, entries: make([]planEntry, len(s.entries))}
	for i, e := range s.entries {
		at := &p.entries[i]
		if e.oneof == nil {
			at.slot = p.slot(e.field, column.Fields[i])
			continue
		}
		at.oneof = column.Fields[i].(*columnar.Struct)
		for j, m := range e.members {
			sl := p.slot(m, at.oneof.Fields[j])
			sl.oneof = at
			at.members = append(at.members, sl)
		}
	}
	return p
}

func (p *plan) slot(fs fieldShape, column columnar.Column) *slot {
	f := fs.field
	s := &slot{field: f, form: fs.form, wire: f.Kind.wire(), column: column}
	switch {
	case fs.key != nil:
		m := column.(*columnar.Map)
		s.keys = newWriter(p.decoder, fieldShape{field: fs.key, form: formOfKey(fs.key)}, m.Keys)
		value := fs
		value.field = f.Value()
		s.writer = newWriter(p.decoder, value, m.Values)
	case f.Repeated:
		s.writer = newWriter(p.decoder, fs, column.(*columnar.List).Items)
	default:
		s.writer = newWriter(p.decoder, fs, column)
	}
	if f.Number < denseNumbers {
		for len(p.dense) <= int(f.Number) {
			p.dense = append(p.dense, nil)
		}
		p.dense[f.Number] = s
	} else {
		if p.sparse == nil {
			p.sparse = map[int32]*slot{}
		}
		p.sparse[f.Number] = s
	}
	return s
}

func formOfKey(f *Field) form {
	if f.Kind == String {
		return asBytes
	}
	return asNumber
}

// decode adds a row for a message. After an error the column is to be truncated.
func (p *plan) decode(b []byte, depth int) error {
	if depth > maxDepth {
		return errDepth
	}
	if err := p.decoder.spend(p.columns); err != nil {
		return err
	}
	p.row++
	for i := 0; i < len(b); {
		number, wt, next, err := tagAt(b, i)
		if err != nil {
			return err
		}
		var s *slot
		if int(number) < len(p.dense) {
			s = p.dense[number]
		} else {
			s = p.sparse[number]
		}
		if s == nil {
			if i, err = p.skip(b, i, next, number, wt, depth); err != nil {
				return err
			}
			continue
		}
		if i, err = p.set(s, b, next, number, wt, depth); err != nil {
			return err
		}
	}
	for i := range p.entries {
		e := &p.entries[i]
		if e.oneof == nil {
			if err := p.write(e.slot, depth); err != nil {
				return err
			}
			continue
		}
		if e.current == nil || e.current.row != p.row {
			e.oneof.AppendNull()
			continue
		}
		for _, m := range e.members {
			if m != e.current {
				m.column.AppendNull()
			} else if err := p.write(m, depth); err != nil {
				return err
			}
		}
		e.oneof.End()
	}
	p.column.End()
	return nil
}

// skip passes over a field that has no column. Extensions must be well-formed.
func (p *plan) skip(b []byte, i, value int, number int32, wt wireType, depth int) (int, error) {
	next, err := skipAt(b, value, number, wt, depth)
	if err != nil || p.message.extensions[number] == nil {
		return next, err
	}
	return next, p.message.check(b[i:next], depth)
}

// set takes in one occurrence of a field and returns the index after it.
func (p *plan) set(s *slot, b []byte, i int, number int32, wt wireType, depth int) (int, error) {
	f := s.field
	fresh := s.row != p.row
	if s.oneof != nil {
		if e := s.oneof; e.current != s {
			if o := e.current; o != nil && o.row == p.row {
				// What is replaced has to be well-formed nevertheless.
				if o.field.Kind.isMessage() {
					if err := o.field.Message.check(o.bytes, depth+1); err != nil {
						return 0, err
					}
				}
				o.row = 0
			}
			e.current = s
			fresh = true
		}
	}
	s.row = p.row
	var v []byte
	switch {
	case wt == s.wire && (wt == wireVarint || wt == wireFixed64 || wt == wireFixed32):
		n, i, err := numberAt(b, i, f.Kind)
		if err != nil {
			return 0, err
		}
		if f.Repeated {
			return i, s.writer.write(n, nil, depth)
		}
		s.number = n
		return i, nil
	case wt == wireBytes && (wt == s.wire || f.packedAs(wt)):
		at, err := lengthAt(b, i)
		if err != nil {
			return 0, err
		}
		v, i = b[at.from:at.to], at.to
		if wt != s.wire {
			return i, s.writer.packed(v)
		}
	case wt == wireStart && wt == s.wire:
		if depth >= maxDepth {
			return 0, errDepth
		}
		at, next, err := groupAt(b, i, number, depth+1)
		if err != nil {
			return 0, err
		}
		v, i = b[at.from:at.to], next
	default:
		return 0, errWireType
	}
	switch {
	case f.Kind == String:
		if !isUTF8(v) {
			return 0, errUTF8
		}
	case s.keys != nil:
		if fresh {
			s.entries = s.entries[:0]
		}
		e, err := f.entry(v, depth)
		s.entries = append(s.entries, e)
		return i, err
	}
	if f.Repeated {
		return i, s.writer.write(0, v, depth)
	}
	if !fresh && f.Kind.isMessage() {
		var err error
		if v, err = f.Message.join(s.bytes, v, depth+1); err != nil {
			return 0, err
		}
	}
	s.bytes = v
	return i, nil
}

// entry reads one entry of a map, whose key and value may be missing, repeated
// or in any order.
func (f *Field) entry(b []byte, depth int) (e mapEntry, err error) {
	key, value := f.Key(), f.Value()
	e.missing = true
	if key.Kind != String {
		e.key = key.keyFrom(0)
	}
	for i := 0; i < len(b); {
		number, wt, next, err := tagAt(b, i)
		if err != nil {
			return e, err
		}
		var part *Field
		switch number {
		case 1:
			part = key
		case 2:
			part = value
		default:
			if i, err = skipAt(b, next, number, wt, depth); err != nil {
				return e, err
			}
			continue
		}
		if wt != part.Kind.wire() {
			return e, errWireType
		}
		var n uint64
		var v []byte
		switch wt {
		case wireBytes:
			at, err := lengthAt(b, next)
			if err != nil {
				return e, err
			}
			v, i = b[at.from:at.to], at.to
			if part.Kind == String && !isUTF8(v) {
				return e, errUTF8
			}
		default:
			if n, i, err = numberAt(b, next, part.Kind); err != nil {
				return e, err
			}
		}
		switch {
		case part == value:
			if !e.missing && part.Kind.isMessage() {
				if v, err = part.Message.join(e.bytes, v, depth+1); err != nil {
					return e, err
				}
			}
			e.number, e.bytes, e.missing = n, v, false
		case part.Kind == String:
			e.key.text, e.keyed = v, true
		default:
			e.key, e.keyed = part.keyFrom(n), true
		}
	}
	return e, nil
}

// join merges two encodings of one message. Decoding joined bytes is merging,
// but each part must be whole by itself.
func (m *Message) join(x, y []byte, depth int) ([]byte, error) {
	if err := m.check(x, depth); err != nil {
		return nil, err
	}
	if err := m.check(y, depth); err != nil {
		return nil, err
	}
	return slices.Concat(x, y), nil
}

// write adds what a slot holds, or what absence means, to its column.
func (p *plan) write(s *slot, depth int) error {
	set := s.row == p.row
	switch {
	case s.keys != nil:
		if !set {
			s.column.AppendNull()
			return nil
		}
		return s.writeMap(depth)
	case s.field.Repeated:
		l := s.column.(*columnar.List)
		if l.Open() == 0 {
			l.AppendNull()
		} else {
			l.End()
		}
		return nil
	case !set && s.field.Presence:
		s.column.AppendNull()
		return nil
	case !set:
		return s.writer.write(s.field.zeroNumber(), nil, depth)
	}
	return s.writer.write(s.number, s.bytes, depth)
}

// zeroNumber is the default value of a number or enum.
func (f *Field) zeroNumber() uint64 {
	if f.Kind == EnumKind {
		return uint64(uint32(f.Zero))
	}
	return 0
}

func (s *slot) writeMap(depth int) error {
	m := s.column.(*columnar.Map)
	slices.SortStableFunc(s.entries, func(x, y mapEntry) int { return x.key.compare(y.key) })
	value := s.field.Value()
	for i, e := range s.entries {
		if e.missing {
			e.number = value.zeroNumber()
		}
		if i+1 < len(s.entries) && s.entries[i+1].key.compare(e.key) == 0 {
			// Of equal keys the last counts, but all must be well-formed.
			if value.Kind.isMessage() {
				if err := value.Message.check(e.bytes, depth+1); err != nil {
					return err
				}
			}
			continue
		}
		if err := s.keys.write(s.field.Key().fromKey(e.key), e.key.text, depth); err != nil {
			return err
		}
		if err := s.writer.write(e.number, e.bytes, depth); err != nil {
			return err
		}
	}
	m.End()
	if cap(s.entries) > entriesToKeep {
		s.entries = nil
	} else {
		clear(s.entries[:cap(s.entries)])
	}
	return nil
}

// fromKey is the number that keyFrom made a key of.
func (f *Field) fromKey(k mapKey) uint64 {
	switch f.Kind {
	case Int32, Sint32, Sfixed32, Int64, Sint64, Sfixed64:
		return k.number ^ 1<<63
	}
	return k.number
}
