package protobuf

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
	"unicode/utf8"
)

// part is one occurrence of a field in a message.
type part struct {
	f      *Field // nil if unknown
	number int32
	wt     wireType
	value  span // bytes and groups: their content
	dead   bool // another member of its oneof came later
}

// parts splits a message into its fields, with wire types checked.
func (m *Message) parts(b []byte, depth int) ([]part, error) {
	var out []part
	for i := 0; i < len(b); {
		number, wt, next, err := tagAt(b, i)
		if err != nil {
			return nil, err
		}
		p := part{f: m.known(number), number: number, wt: wt}
		if p.f != nil && wt != p.f.Kind.wire() && !p.f.packedAs(wt) {
			return nil, errWireType
		}
		switch wt {
		case wireBytes:
			p.value, err = lengthAt(b, next)
			i = p.value.to
		case wireStart:
			if depth >= maxDepth {
				return nil, errDepth
			}
			p.value, i, err = groupAt(b, next, number, depth+1)
		default:
			i, err = skipAt(b, next, number, wt, depth)
			p.value = span{next, i}
		}
		if err != nil {
			return nil, err
		}
		if p.f != nil && p.f.Kind == String && !utf8.Valid(b[p.value.from:p.value.to]) {
			return nil, errUTF8
		}
		out = append(out, p)
	}
	return out, nil
}

// packedAs reports whether wire type wt holds values of the field packed in one stretch.
func (f *Field) packedAs(wt wireType) bool {
	return wt == wireBytes && f.Repeated && f.Kind.wire() != wireBytes && f.Kind.wire() != wireStart
}

// settle marks the parts that later members of their oneof replace. A message
// that is replaced and set anew starts afresh.
func (m *Message) settle(parts []part) {
	for _, o := range m.Oneofs {
		var winner *Field
		replaced := false
		for i := len(parts) - 1; i >= 0; i-- {
			f := parts[i].f
			if f == nil || f.Oneof != o {
				continue
			}
			if winner == nil {
				winner = f
			}
			replaced = replaced || f != winner
			parts[i].dead = replaced
		}
	}
}

// check reports whether a message is well-formed in all its known fields.
func (m *Message) check(b []byte, depth int) error {
	if m == nil {
		return nil
	}
	if depth > maxDepth {
		return errDepth
	}
	parts, err := m.parts(b, depth)
	if err != nil {
		return err
	}
	for _, p := range parts {
		v := b[p.value.from:p.value.to]
		switch {
		case p.f == nil:
		case p.f.IsMap():
			var e mapEntry
			if e, err = p.f.entry(v, depth); err == nil && p.f.Value().Kind.isMessage() {
				err = p.f.Value().Message.check(e.bytes, depth+1)
			}
		case p.f.Kind.isMessage():
			err = p.f.Message.check(v, depth+1)
		case p.f.packedAs(p.wt):
			for i := 0; i < len(v) && err == nil; {
				_, i, err = numberAt(v, i, p.f.Kind)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// appendCanonical appends a message in one definite encoding: fields by number,
// each singular field once with what merging gives, map entries by key, absent
// what equals a default without presence, repeated scalars packed as declared,
// unknown fields kept. It checks all of the message.
func (m *Message) appendCanonical(dst, b []byte, depth int) ([]byte, error) {
	if m == nil {
		return append(dst, b...), nil
	}
	if depth > maxDepth {
		return nil, errDepth
	}
	parts, err := m.parts(b, depth)
	if err != nil {
		return nil, err
	}
	m.settle(parts)
	for _, p := range parts {
		if p.dead && p.f.Kind.isMessage() {
			if err := p.f.Message.check(b[p.value.from:p.value.to], depth+1); err != nil {
				return nil, err
			}
		}
	}
	parts = slices.DeleteFunc(parts, func(p part) bool { return p.dead })
	slices.SortStableFunc(parts, func(x, y part) int { return cmp.Compare(x.number, y.number) })
	for len(parts) > 0 {
		n := 1
		for n < len(parts) && parts[n].number == parts[0].number {
			n++
		}
		if dst, err = appendField(dst, b, parts[:n], depth); err != nil {
			return nil, err
		}
		parts = parts[n:]
	}
	return dst, nil
}

func appendTag(dst []byte, number int32, wt wireType) []byte {
	return binary.AppendUvarint(dst, uint64(number)<<3|uint64(wt))
}

func appendBytes(dst []byte, number int32, v []byte) []byte {
	dst = binary.AppendUvarint(appendTag(dst, number, wireBytes), uint64(len(v)))
	return append(dst, v...)
}

// appendField appends all parts of one field.
func appendField(dst, b []byte, parts []part, depth int) ([]byte, error) {
	f := parts[0].f
	switch {
	case f == nil:
		return appendUnknown(dst, b, parts), nil
	case f.IsMap():
		return appendMap(dst, b, parts, depth)
	case f.Kind.isMessage():
		return appendMessages(dst, b, parts, depth)
	case f.Kind == String || f.Kind == Bytes:
		if !f.Repeated {
			parts = parts[len(parts)-1:]
			if s := parts[0].value; !f.Presence && s.from == s.to {
				return dst, nil
			}
		}
		for _, p := range parts {
			dst = appendBytes(dst, f.Number, b[p.value.from:p.value.to])
		}
		return dst, nil
	case f.Repeated:
		return appendNumbers(dst, b, parts)
	}
	v, _, err := numberAt(b, parts[len(parts)-1].value.from, f.Kind)
	if err != nil {
		return nil, err
	}
	v = f.Kind.normal(v)
	if !f.Presence && f.isDefault(v) {
		return dst, nil
	}
	return f.Kind.appendNumber(appendTag(dst, f.Number, f.Kind.wire()), v), nil
}

// normal is a number in the range of its kind: what a reader would keep of it.
func (k Kind) normal(v uint64) uint64 {
	switch k {
	case Int32, EnumKind, Sint32:
		return uint64(int64(int32(v)))
	case Uint32:
		return uint64(uint32(v))
	case Bool:
		if v != 0 {
			return 1
		}
	}
	return v
}

func (f *Field) isDefault(v uint64) bool {
	switch f.Kind {
	case Double: // both zeros
		return v<<1 == 0
	case Float:
		return uint32(v)<<1 == 0
	case EnumKind:
		return int32(v) == f.Zero
	}
	return v == 0
}

// appendNumber appends a number as numberAt gives it.
func (k Kind) appendNumber(dst []byte, v uint64) []byte {
	switch k.wire() {
	case wireFixed64:
		return binary.LittleEndian.AppendUint64(dst, v)
	case wireFixed32:
		return binary.LittleEndian.AppendUint32(dst, uint32(v))
	}
	switch k {
	case Sint32:
		i := int32(v)
		v = uint64(uint32(i<<1) ^ uint32(i>>31))
	case Sint64:
		i := int64(v)
		v = uint64(i<<1) ^ uint64(i>>63)
	}
	return binary.AppendUvarint(dst, v)
}

func appendNumbers(dst, b []byte, parts []part) ([]byte, error) {
	f := parts[0].f
	var packed []byte
	one := func(b []byte, i int) (int, error) {
		v, i, err := numberAt(b, i, f.Kind)
		if err != nil {
			return 0, err
		}
		if !f.Packed {
			dst = appendTag(dst, f.Number, f.Kind.wire())
			dst = f.Kind.appendNumber(dst, f.Kind.normal(v))
		} else {
			packed = f.Kind.appendNumber(packed, f.Kind.normal(v))
		}
		return i, nil
	}
	for _, p := range parts {
		for i := p.value.from; i < p.value.to; {
			var err error
			if i, err = one(b[:p.value.to], i); err != nil {
				return nil, err
			}
		}
	}
	if len(packed) > 0 {
		dst = appendBytes(dst, f.Number, packed)
	}
	return dst, nil
}

// appendMessages appends the messages of a repeated field, or the one that
// merging gives: that is what their joined encodings say.
func appendMessages(dst, b []byte, parts []part, depth int) ([]byte, error) {
	f := parts[0].f
	put := func(v []byte) error {
		body, err := f.Message.appendCanonical(nil, v, depth+1)
		if err != nil {
			return err
		}
		if f.Kind == Group {
			dst = append(appendTag(dst, f.Number, wireStart), body...)
			dst = appendTag(dst, f.Number, wireEnd)
		} else {
			dst = appendBytes(dst, f.Number, body)
		}
		return nil
	}
	if !f.Repeated && len(parts) > 1 {
		var all []byte
		for _, p := range parts { // joined, a broken part might pass for a whole one
			if err := f.Message.check(b[p.value.from:p.value.to], depth+1); err != nil {
				return nil, err
			}
			all = append(all, b[p.value.from:p.value.to]...)
		}
		return dst, put(all)
	}
	for _, p := range parts {
		if err := put(b[p.value.from:p.value.to]); err != nil {
			return nil, err
		}
	}
	return dst, nil
}

// appendMap appends the entries of a map. Entries do not count as a level of
// nesting, lack unknown fields, and messages in them stand even if empty.
func appendMap(dst, b []byte, parts []part, depth int) ([]byte, error) {
	f := parts[0].f
	type entry struct {
		key  mapKey
		body []byte
	}
	entries := make([]entry, 0, len(parts))
	for _, p := range parts {
		e, err := f.entry(b[p.value.from:p.value.to], depth)
		if err != nil {
			return nil, err
		}
		var body []byte
		switch key := f.Key(); {
		case key.Kind != String:
			v := key.Kind.normal(key.fromKey(e.key))
			if key.Presence && e.keyed || !key.isDefault(v) {
				body = key.Kind.appendNumber(appendTag(body, 1, key.Kind.wire()), v)
			}
		case key.Presence && e.keyed || len(e.key.text) > 0:
			body = appendBytes(body, 1, e.key.text)
		}
		if body, err = f.Value().appendMapValue(body, e, depth); err != nil {
			return nil, err
		}
		entries = append(entries, entry{e.key, body})
	}
	slices.SortStableFunc(entries, func(x, y entry) int { return x.key.compare(y.key) })
	for i, e := range entries {
		if i+1 < len(entries) && entries[i+1].key.compare(e.key) == 0 {
			continue // of equal keys the last counts
		}
		dst = appendBytes(dst, f.Number, e.body)
	}
	return dst, nil
}

func (f *Field) appendMapValue(dst []byte, e mapEntry, depth int) ([]byte, error) {
	switch {
	case f.Kind.isMessage():
		body, err := f.Message.appendCanonical(nil, e.bytes, depth+1)
		if err != nil {
			return nil, err
		}
		return appendBytes(dst, 2, body), nil
	case f.Kind == String || f.Kind == Bytes:
		if f.Presence && !e.missing || len(e.bytes) > 0 {
			dst = appendBytes(dst, 2, e.bytes)
		}
	default:
		v := f.Kind.normal(e.number)
		if !e.missing && (f.Presence || !f.isDefault(v)) {
			dst = f.Kind.appendNumber(appendTag(dst, 2, f.Kind.wire()), v)
		}
	}
	return dst, nil
}

// mapKey is the key of a map entry in a form that sorts.
type mapKey struct {
	number uint64
	text   []byte
}

func (k mapKey) compare(o mapKey) int {
	return cmp.Or(cmp.Compare(k.number, o.number), bytes.Compare(k.text, o.text))
}

// keyFrom makes a map key of a number as numberAt gives it.
func (f *Field) keyFrom(v uint64) mapKey {
	switch f.Kind {
	case Int32, Sint32, Sfixed32:
		return mapKey{number: uint64(int64(int32(v))) ^ 1<<63}
	case Int64, Sint64, Sfixed64:
		return mapKey{number: v ^ 1<<63}
	}
	return mapKey{number: f.Kind.normal(v)}
}

// appendUnknown keeps fields that the type does not have, tags and varints in
// their shortest form.
func appendUnknown(dst, b []byte, parts []part) []byte {
	for _, p := range parts {
		v := b[p.value.from:p.value.to]
		switch p.wt {
		case wireBytes:
			dst = appendBytes(dst, p.number, v)
		case wireStart:
			dst = append(appendTag(dst, p.number, wireStart), v...)
			dst = appendTag(dst, p.number, wireEnd)
		case wireVarint:
			n, _ := varint(v, 0)
			dst = binary.AppendUvarint(appendTag(dst, p.number, p.wt), n)
		default:
			dst = append(appendTag(dst, p.number, p.wt), v...)
		}
	}
	return dst
}
