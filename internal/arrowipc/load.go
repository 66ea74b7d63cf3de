package arrowipc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

const (
	// maxUnbacked bounds the length of arrays that need no bytes per value,
	// such as nulls: no peer makes longer batches.
	maxUnbacked = math.MaxInt32
	maxLength   = 1 << 36
)

var (
	errShortBuffer   = errors.New("buffer too short for the array length")
	errShortValidity = errors.New("validity bitmap too short for the array length")
	errOffsets       = errors.New("offsets are not ascending within the data")
	errChildLength   = errors.New("child array too short")
)

// zeroOffsets are the offsets of empty arrays whose buffer is missing: arrow-go
// slices them even then.
var zeroOffsets = make([]byte, 8)

// loader takes the arrays of one record batch (or dictionary) out of a message
// body, in depth-first order of the fields. Its small objects come out of slabs
// made once for the batch; a slab lives as long as any array of the batch.
type loader struct {
	r       *reader
	m       *message
	nodes   []byte // field nodes not yet consumed, 16 bytes each
	buffers []byte // buffer positions not yet consumed, 16 bytes each
	counts  []byte // view buffer counts not yet consumed, 8 bytes each
	dict    int    // next entry of the schema's dictionary fields
	at      int    // position of the last buffer in the stream, for errors
	codec   codec

	datas []array.Data
	bufs  []memory.Buffer
	refs  []*memory.Buffer
	kids  []arrow.ArrayData
}

// init prepares loading from a record batch table of a message and returns its
// number of rows.
func (l *loader) init(r *reader, m *message, rb table, nodes, columns int) (int, error) {
	rows := rb.i64(0, 0)
	np, nn := rb.vector(1, 16, 8)
	bp, nb := rb.vector(2, 16, 8)
	cp, nc := rb.vector(4, 8, 8)
	compression, compressed := rb.table(3)
	c := codecNone
	if compressed {
		c = codec(compression.u8(0, 0))
		if method := compression.u8(1, 0); method != 0 {
			return 0, fmt.Errorf("unknown compression method %d", method)
		}
		if c != codecLZ4 && c != codecZSTD {
			return 0, fmt.Errorf("unknown compression codec %d", c)
		}
	}
	if m.err != nil {
		return 0, m.err
	}
	if rows < 0 || rows > maxLength || columns == 0 && rows > maxUnbacked {
		return 0, fmt.Errorf("batch of %d rows", rows)
	}
	if nn < nodes {
		return 0, fmt.Errorf("%d field nodes where the schema has %d", nn, nodes)
	}
	*l = loader{
		r: r, m: m, at: m.off, codec: c,
		nodes:   m.b[np : np+16*nn],
		buffers: m.b[bp : bp+16*nb],
		counts:  m.b[cp : cp+8*nc],
		datas:   make([]array.Data, nodes),
		bufs:    make([]memory.Buffer, nb),
		refs:    make([]*memory.Buffer, 0, nb+nodes),
	}
	if nodes > columns {
		l.kids = make([]arrow.ArrayData, 0, nodes-columns)
	}
	return int(rows), nil
}

// node takes the next field node.
func (l *loader) node() (length, nulls int, err error) {
	if len(l.nodes) < 16 {
		return 0, 0, errors.New("field node missing")
	}
	n := int64(binary.LittleEndian.Uint64(l.nodes))
	nulls64 := int64(binary.LittleEndian.Uint64(l.nodes[8:]))
	l.nodes = l.nodes[16:]
	if n < 0 || n > maxLength {
		return 0, 0, fmt.Errorf("array length %d", n)
	}
	if nulls64 < 0 || nulls64 > n {
		nulls64 = array.UnknownNullCount
	}
	return int(n), int(nulls64), nil
}

// bytes takes the next buffer.
func (l *loader) bytes() ([]byte, error) {
	if len(l.buffers) < 16 {
		return nil, errors.New("buffer missing")
	}
	off := int64(binary.LittleEndian.Uint64(l.buffers))
	size := int64(binary.LittleEndian.Uint64(l.buffers[8:]))
	l.buffers = l.buffers[16:]
	if size == 0 {
		return nil, nil
	}
	body := int64(len(l.m.body))
	if off < 0 || size < 0 || off > body || size > body-off {
		return nil, errors.New("buffer outside the message body")
	}
	l.at = l.m.bodyOff + int(off)
	b := l.m.body[off : off+size : off+size]
	if l.codec != codecNone {
		return l.decompress(b)
	}
	return b, nil
}

// wrap makes a buffer object, from the slab while it lasts.
func (l *loader) wrap(b []byte) *memory.Buffer {
	if len(l.bufs) == 0 {
		return memory.NewBufferBytes(b)
	}
	buf := &l.bufs[0]
	l.bufs = l.bufs[1:]
	buf.Reset(b)
	return buf
}

// fixed takes a buffer of n values of the given width. It is trimmed to them
// and aligned to align bytes.
func (l *loader) fixed(n, width, align int) ([]byte, error) {
	b, err := l.bytes()
	if err != nil {
		return nil, err
	}
	if n == 0 || width == 0 {
		return []byte{}, nil
	}
	if len(b)/width < n {
		return nil, errShortBuffer
	}
	return aligned(b[:n*width:n*width], align), nil
}

// aligned returns b, or a copy if it does not start at a multiple of align.
func aligned(b []byte, align int) []byte {
	if len(b) == 0 || uintptr(unsafe.Pointer(unsafe.SliceData(b)))&uintptr(align-1) == 0 {
		return b
	}
	return copyAligned(b)
}

func copyAligned(b []byte) []byte {
	words := make([]uint64, (len(b)+7)/8)
	c := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), len(b))
	copy(c, b)
	return c
}

// view reinterprets an aligned buffer.
func view[T any](b []byte) []T {
	var t T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(t)))
}

// offsets takes a buffer of n+1 offsets of the given width.
func (l *loader) offsets(n, width int) ([]byte, error) {
	b, err := l.bytes()
	if err != nil {
		return nil, err
	}
	if n == 0 && len(b) < width {
		return zeroOffsets[:width:width], nil
	}
	if len(b)/width <= n {
		return nil, errShortBuffer
	}
	return aligned(b[:(n+1)*width:(n+1)*width], width), nil
}

// validity takes the validity bitmap of n values. It returns nil when all are
// valid. The null count is taken from the bitmap, never from the message.
func (l *loader) validity(n, nulls int) (*memory.Buffer, int, error) {
	b, err := l.bytes()
	if err != nil {
		return nil, 0, err
	}
	if nulls == 0 || n == 0 || nulls == array.UnknownNullCount && len(b) == 0 {
		return nil, 0, nil
	}
	need := (n + 7) / 8
	if len(b) < need {
		return nil, 0, errShortValidity
	}
	b = b[:need:need]
	if nulls = n - bitutil.CountSetBits(b, 0, n); nulls == 0 {
		return nil, 0, nil
	}
	return l.wrap(b), nulls, nil
}

// data makes array data from slabs.
func (l *loader) data(dt arrow.DataType, n, nulls int, kids []arrow.ArrayData, buffers ...*memory.Buffer) *array.Data {
	from := len(l.refs)
	l.refs = append(l.refs, buffers...)
	d := l.newData()
	d.Reset(dt, n, l.refs[from:len(l.refs):len(l.refs)], kids, nulls, 0)
	return d
}

func (l *loader) newData() *array.Data {
	d := new(array.Data)
	if len(l.datas) > 0 {
		d, l.datas = &l.datas[0], l.datas[1:]
	}
	return d
}

// children loads n child arrays, whose types are given by position.
func (l *loader) children(n int, typ func(i int) arrow.DataType) ([]arrow.ArrayData, error) {
	from := len(l.kids)
	for range n {
		l.kids = append(l.kids, nil)
	}
	kids := l.kids[from:len(l.kids):len(l.kids)]
	for i := range kids {
		d, err := l.load(typ(i))
		if err != nil {
			return nil, err
		}
		kids[i] = d
	}
	return kids, nil
}

// child loads the only child array.
func (l *loader) child(dt arrow.DataType) ([]arrow.ArrayData, error) {
	return l.children(1, func(int) arrow.DataType { return dt })
}

// load takes the array of one field, checked so that no access to a value of it
// can fail.
func (l *loader) load(dt arrow.DataType) (*array.Data, error) {
	n, nulls, err := l.node()
	if err != nil {
		return nil, err
	}
	switch dt.ID() {
	case arrow.NULL:
		if n > maxUnbacked {
			return nil, fmt.Errorf("array length %d", n)
		}
		return l.data(dt, n, n, nil, nil), nil
	case arrow.DENSE_UNION, arrow.SPARSE_UNION:
		return l.union(dt.(arrow.UnionType), n, nulls)
	case arrow.RUN_END_ENCODED:
		return l.runEnd(dt.(*arrow.RunEndEncodedType), n, nulls)
	}
	var counted int
	if isView(dt.ID()) {
		if len(l.counts) < 8 {
			return nil, errors.New("view buffer count missing")
		}
		c := int64(binary.LittleEndian.Uint64(l.counts))
		l.counts = l.counts[8:]
		if c < 0 || c > int64(len(l.buffers)/16) {
			return nil, fmt.Errorf("view buffer count %d", c)
		}
		counted = int(c)
	}
	valid, nulls, err := l.validity(n, nulls)
	if err != nil {
		return nil, err
	}
	switch dt.ID() {
	case arrow.BOOL:
		b, err := l.fixed((n+7)/8, 1, 1)
		if err != nil {
			return nil, err
		}
		return l.data(dt, n, nulls, nil, valid, l.wrap(b)), nil
	case arrow.STRING, arrow.BINARY:
		return loadBinary[int32](l, dt, n, nulls, valid)
	case arrow.LARGE_STRING, arrow.LARGE_BINARY:
		return loadBinary[int64](l, dt, n, nulls, valid)
	case arrow.STRING_VIEW, arrow.BINARY_VIEW:
		return l.views(dt, n, nulls, valid, counted)
	case arrow.LIST:
		return loadList[int32](l, dt, dt.(*arrow.ListType).Elem(), n, nulls, valid)
	case arrow.LARGE_LIST:
		return loadList[int64](l, dt, dt.(*arrow.LargeListType).Elem(), n, nulls, valid)
	case arrow.MAP:
		return l.mapEntries(dt.(*arrow.MapType), n, nulls, valid)
	case arrow.LIST_VIEW:
		return loadListView[int32](l, dt, dt.(*arrow.ListViewType).Elem(), n, nulls, valid)
	case arrow.LARGE_LIST_VIEW:
		return loadListView[int64](l, dt, dt.(*arrow.LargeListViewType).Elem(), n, nulls, valid)
	case arrow.FIXED_SIZE_LIST:
		list := dt.(*arrow.FixedSizeListType)
		kids, err := l.child(list.Elem())
		if err != nil {
			return nil, err
		}
		if kids[0].Len()/int(list.Len()) < n {
			return nil, errChildLength
		}
		return l.data(dt, n, nulls, kids, valid), nil
	case arrow.STRUCT:
		return l.structure(dt.(*arrow.StructType), n, nulls, valid)
	case arrow.DICTIONARY:
		return l.indices(dt.(*arrow.DictionaryType), n, nulls, valid)
	case arrow.FIXED_SIZE_BINARY:
		w := dt.(*arrow.FixedSizeBinaryType).ByteWidth
		if w == 0 && n > maxUnbacked {
			return nil, fmt.Errorf("array length %d", n)
		}
		b, err := l.fixed(n, w, 1)
		if err != nil {
			return nil, err
		}
		return l.data(dt, n, nulls, nil, valid, l.wrap(b)), nil
	}
	fixed, ok := dt.(arrow.FixedWidthDataType)
	if !ok {
		return nil, fmt.Errorf("type %s is not supported", dt)
	}
	w := fixed.BitWidth() / 8
	b, err := l.fixed(n, w, alignment(dt.ID(), w))
	if err != nil {
		return nil, err
	}
	return l.data(dt, n, nulls, nil, valid, l.wrap(b)), nil
}

// alignment is what the Go type of the values needs.
func alignment(id arrow.Type, width int) int {
	if id == arrow.INTERVAL_DAY_TIME {
		return 4
	}
	return min(width, 8)
}

func isView(id arrow.Type) bool { return id == arrow.STRING_VIEW || id == arrow.BINARY_VIEW }

func loadBinary[T int32 | int64](l *loader, dt arrow.DataType, n, nulls int, valid *memory.Buffer) (*array.Data, error) {
	var zero T
	ob, err := l.offsets(n, int(unsafe.Sizeof(zero)))
	if err != nil {
		return nil, err
	}
	values, err := l.bytes()
	if err != nil {
		return nil, err
	}
	offsets := view[T](ob)
	if !ascending(offsets, len(values)) {
		return nil, errOffsets
	}
	if id := dt.ID(); id == arrow.STRING || id == arrow.LARGE_STRING {
		if !validStrings(values, offsets, valid) {
			return nil, errNotUTF8
		}
	}
	if values == nil {
		values = []byte{}
	}
	return l.data(dt, n, nulls, nil, valid, l.wrap(ob), l.wrap(values)), nil
}

func loadList[T int32 | int64](l *loader, dt, elem arrow.DataType, n, nulls int, valid *memory.Buffer) (*array.Data, error) {
	var zero T
	ob, err := l.offsets(n, int(unsafe.Sizeof(zero)))
	if err != nil {
		return nil, err
	}
	buf := l.wrap(ob)
	kids, err := l.child(elem)
	if err != nil {
		return nil, err
	}
	if !ascending(view[T](ob), kids[0].Len()) {
		return nil, errOffsets
	}
	return l.data(dt, n, nulls, kids, valid, buf), nil
}

// mapEntries loads a map: a list of structs. arrow-go panics on null entries
// and null keys.
func (l *loader) mapEntries(dt *arrow.MapType, n, nulls int, valid *memory.Buffer) (*array.Data, error) {
	d, err := loadList[int32](l, dt, dt.Elem(), n, nulls, valid)
	if err != nil {
		return nil, err
	}
	entries := d.Children()[0]
	if entries.NullN() != 0 || entries.Children()[0].NullN() != 0 {
		return nil, errors.New("map with null entries or keys")
	}
	return d, nil
}

func loadListView[T int32 | int64](l *loader, dt, elem arrow.DataType, n, nulls int, valid *memory.Buffer) (*array.Data, error) {
	var zero T
	w := int(unsafe.Sizeof(zero))
	ob, err := l.fixed(n, w, w)
	if err != nil {
		return nil, err
	}
	sb, err := l.fixed(n, w, w)
	if err != nil {
		return nil, err
	}
	kids, err := l.child(elem)
	if err != nil {
		return nil, err
	}
	ob, sb, ok := checkRanges[T](ob, sb, kids[0].Len(), valid)
	if !ok {
		return nil, errOffsets
	}
	return l.data(dt, n, nulls, kids, valid, l.wrap(ob), l.wrap(sb)), nil
}

func (l *loader) structure(dt *arrow.StructType, n, nulls int, valid *memory.Buffer) (*array.Data, error) {
	if n > maxUnbacked && dt.NumFields() == 0 {
		return nil, fmt.Errorf("array length %d", n)
	}
	kids, err := l.children(dt.NumFields(), func(i int) arrow.DataType { return dt.Field(i).Type })
	if err != nil {
		return nil, err
	}
	for _, k := range kids {
		if k.Len() < n {
			return nil, errChildLength
		}
	}
	return l.data(dt, n, nulls, kids, valid), nil
}

func (l *loader) union(dt arrow.UnionType, n, nulls int) (*array.Data, error) {
	if err := l.oldValidity(nulls); err != nil {
		return nil, err
	}
	ids, err := l.fixed(n, 1, 1)
	if err != nil {
		return nil, err
	}
	dense := dt.Mode() == arrow.DenseMode
	var offsets []byte
	if dense {
		if offsets, err = l.fixed(n, 4, 4); err != nil {
			return nil, err
		}
	}
	idBuf, offBuf := l.wrap(ids), l.wrap(offsets)
	fields := dt.Fields()
	kids, err := l.children(len(fields), func(i int) arrow.DataType { return fields[i].Type })
	if err != nil {
		return nil, err
	}
	if err := checkUnion(dt, view[int8](ids), view[int32](offsets), kids); err != nil {
		return nil, err
	}
	if dense {
		return l.data(dt, n, 0, kids, nil, idBuf, offBuf), nil
	}
	for _, k := range kids {
		if k.Len() < n {
			return nil, errChildLength
		}
	}
	return l.data(dt, n, 0, kids, nil, idBuf), nil
}

// oldValidity skips the validity bitmap that unions and run-end encoded arrays
// had before V5. Nobody knew what to do with one that marks nulls.
func (l *loader) oldValidity(nulls int) error {
	if l.m.version >= versionV5 {
		return nil
	}
	b, err := l.bytes()
	if err == nil && nulls != 0 && len(b) != 0 {
		err = errors.New("validity bitmap on a type that has none")
	}
	return err
}

func (l *loader) runEnd(dt *arrow.RunEndEncodedType, n, nulls int) (*array.Data, error) {
	if err := l.oldValidity(nulls); err != nil {
		return nil, err
	}
	if n > maxUnbacked {
		return nil, fmt.Errorf("array length %d", n)
	}
	kids, err := l.children(2, func(i int) arrow.DataType {
		if i == 0 {
			return dt.RunEnds()
		}
		return dt.Encoded()
	})
	if err != nil {
		return nil, err
	}
	if err := checkRunEnds(kids[0], kids[1].Len(), n); err != nil {
		return nil, err
	}
	return l.data(dt, n, 0, kids, nil), nil
}
