package arrowipc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

var errNotUTF8 = errors.New("text is not UTF-8")

// ascending reports whether offsets start at zero or above, never descend and
// end within limit.
func ascending[T int32 | int64](offsets []T, limit int) bool {
	prev := int64(offsets[0])
	if prev < 0 || int64(offsets[len(offsets)-1]) > int64(limit) {
		return false
	}
	// The sign bit gathers descents. With no negative value seen the
	// difference cannot overflow; a negative one sets the bit itself.
	var sign int64
	for _, o := range offsets[1:] {
		v := int64(o)
		sign |= v | (v - prev)
		prev = v
	}
	return sign >= 0
}

// isSet reports whether value i is valid under a bitmap that may be nil.
func isSet(valid *memory.Buffer, i int) bool {
	return valid == nil || bitutil.BitIsSet(valid.Bytes(), i)
}

// validStrings reports whether all valid strings are UTF-8. Offsets have been
// checked.
func validStrings[T int32 | int64](values []byte, offsets []T, valid *memory.Buffer) bool {
	end := int(offsets[len(offsets)-1])
	text := values[offsets[0]:end]
	if isASCII(text) {
		return true
	}
	if utf8.Valid(text) {
		whole := true
		for _, o := range offsets {
			if int(o) < end && !utf8.RuneStart(values[o]) {
				whole = false
				break
			}
		}
		if whole {
			return true
		}
	}
	for i := range len(offsets) - 1 {
		if isSet(valid, i) && !utf8.Valid(values[offsets[i]:offsets[i+1]]) {
			return false
		}
	}
	return true
}

func isASCII(b []byte) bool {
	for len(b) >= 8 {
		// One load; the compiler merges the shifts.
		w := uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
			uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
		if w&0x8080808080808080 != 0 {
			return false
		}
		b = b[8:]
	}
	for _, c := range b {
		if c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// checkRanges checks offsets and sizes of list views. What stands under null
// slots is undefined; if it is out of range it becomes an empty list, in a copy.
func checkRanges[T int32 | int64](ob, sb []byte, limit int, valid *memory.Buffer) (_, _ []byte, ok bool) {
	offsets, sizes := view[T](ob), view[T](sb)
	copied := false
	for i, o := range offsets {
		s := sizes[i]
		if o >= 0 && s >= 0 && int64(o) <= int64(limit) && int64(s) <= int64(limit)-int64(o) {
			continue
		}
		if isSet(valid, i) {
			return nil, nil, false
		}
		if !copied {
			ob, sb = copyAligned(ob), copyAligned(sb)
			offsets, sizes = view[T](ob), view[T](sb)
			copied = true
		}
		offsets[i], sizes[i] = 0, 0
	}
	return ob, sb, true
}

// viewSize is the size of a string or binary view: length, then either twelve
// bytes of text or prefix, buffer index and offset.
const viewSize = 16

// views loads string and binary views.
func (l *loader) views(dt arrow.DataType, n, nulls int, valid *memory.Buffer, count int) (*array.Data, error) {
	b, err := l.fixed(n, viewSize, 8)
	if err != nil {
		return nil, err
	}
	from := len(l.refs)
	l.refs = append(l.refs, valid, nil)
	for range count {
		data, err := l.bytes()
		if err != nil {
			return nil, err
		}
		l.refs = append(l.refs, l.wrap(data))
	}
	refs := l.refs[from:len(l.refs):len(l.refs)]
	text := dt.ID() == arrow.STRING_VIEW
	copied := false
	for i := range n {
		err := checkView(b[i*viewSize:(i+1)*viewSize], refs[2:], text)
		if err == nil {
			continue
		}
		if isSet(valid, i) {
			return nil, fmt.Errorf("view %d: %w", i, err)
		}
		if !copied {
			b, copied = copyAligned(b), true
		}
		clear(b[i*viewSize : (i+1)*viewSize])
	}
	refs[1] = l.wrap(b)
	d := l.newData()
	d.Reset(dt, n, refs, nil, nulls, 0)
	return d, nil
}

// checkView checks one view and, for text, the string behind it.
func checkView(v []byte, data []*memory.Buffer, text bool) error {
	size := int(int32(binary.LittleEndian.Uint32(v)))
	var s []byte
	switch {
	case size < 0:
		return errors.New("negative length")
	case size <= viewSize-4:
		s = v[4 : 4+size]
		for _, c := range v[4+size:] {
			if c != 0 {
				return errors.New("padding is not zero")
			}
		}
	default:
		buf := binary.LittleEndian.Uint32(v[8:])
		off := binary.LittleEndian.Uint32(v[12:])
		if int64(buf) >= int64(len(data)) {
			return errors.New("unknown data buffer")
		}
		b := data[buf].Bytes()
		if off > math.MaxInt32 || int64(off)+int64(size) > min(int64(len(b)), math.MaxInt32) {
			return errors.New("range outside its data buffer")
		}
		s = b[off : int(off)+size]
		if string(s[:4]) != string(v[4:8]) {
			return errors.New("prefix differs from the data")
		}
	}
	if text && !utf8.Valid(s) {
		return errNotUTF8
	}
	return nil
}

// checkUnion checks type ids and, for a dense union, offsets into the children.
func checkUnion(dt arrow.UnionType, ids []int8, offsets []int32, kids []arrow.ArrayData) error {
	var lengths [int(arrow.MaxUnionTypeCode) + 1]int
	for i := range lengths {
		lengths[i] = -1
	}
	for i, code := range dt.TypeCodes() {
		lengths[code] = kids[i].Len()
	}
	dense := dt.Mode() == arrow.DenseMode
	for i, id := range ids {
		if id < 0 || lengths[id] < 0 {
			return fmt.Errorf("unknown union type id %d", id)
		}
		if dense && (offsets[i] < 0 || int(offsets[i]) >= lengths[id]) {
			return fmt.Errorf("union offset %d in a child of %d", offsets[i], lengths[id])
		}
	}
	return nil
}

// checkRunEnds checks that run ends ascend strictly and cover n values.
func checkRunEnds(ends arrow.ArrayData, values, n int) error {
	if ends.NullN() != 0 {
		return errors.New("null run ends")
	}
	if ends.Len() > values {
		return errChildLength
	}
	b := ends.Buffers()[1].Bytes()
	switch ends.DataType().ID() {
	case arrow.INT16:
		return ascendingRuns(view[int16](b), n)
	case arrow.INT32:
		return ascendingRuns(view[int32](b), n)
	default:
		return ascendingRuns(view[int64](b), n)
	}
}

func ascendingRuns[T int16 | int32 | int64](ends []T, n int) error {
	prev := T(0)
	for _, e := range ends {
		if e <= prev {
			return errors.New("run ends do not ascend")
		}
		prev = e
	}
	if int64(prev) < int64(n) {
		return fmt.Errorf("runs end at %d of %d values", prev, n)
	}
	return nil
}

// indices loads a dictionary-encoded array. Indices under null slots are
// undefined; if out of range they become zero, in a copy.
func (l *loader) indices(dt *arrow.DictionaryType, n, nulls int, valid *memory.Buffer) (*array.Data, error) {
	w := dt.IndexType.(arrow.FixedWidthDataType).BitWidth() / 8
	b, err := l.fixed(n, w, w)
	if err != nil {
		return nil, err
	}
	at := l.dict
	l.dict = l.r.info.dicts[at].end
	dict, err := l.r.dictionaryOf(at)
	if err != nil {
		return nil, err
	}
	var ok bool
	switch w {
	case 1:
		b, ok = checkIndices[uint8](b, dict.Len(), valid)
	case 2:
		b, ok = checkIndices[uint16](b, dict.Len(), valid)
	case 4:
		b, ok = checkIndices[uint32](b, dict.Len(), valid)
	default:
		b, ok = checkIndices[uint64](b, dict.Len(), valid)
	}
	// Negative indices look like large ones, which is how arrow-go reads them.
	if !ok {
		return nil, errors.New("dictionary index out of range")
	}
	d := l.data(dt, n, nulls, nil, valid, l.wrap(b))
	d.SetDictionary(dict)
	return d, nil
}

func checkIndices[T uint8 | uint16 | uint32 | uint64](b []byte, limit int, valid *memory.Buffer) ([]byte, bool) {
	indices := view[T](b)
	var top T
	for _, x := range indices {
		top = max(top, x)
	}
	if uint64(top) < uint64(limit) || len(indices) == 0 {
		return b, true
	}
	copied := false
	for i, x := range indices {
		if uint64(x) < uint64(limit) {
			continue
		}
		if isSet(valid, i) {
			return nil, false
		}
		if !copied {
			b, copied = copyAligned(b), true
			indices = view[T](b)
		}
		indices[i] = 0
	}
	return b, true
}
