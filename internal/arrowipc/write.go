package arrowipc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// AppendSchema appends a stream that holds only a schema to dst. Extension
// types are written as their storage type with metadata. It may run in several
// goroutines at once, like AppendBatch.
func AppendSchema(dst []byte, s *arrow.Schema) []byte {
	origin := len(dst)
	dst = slices.Grow(dst, schemaSize(s))
	dst, _, _ = appendSchema(dst, origin, s)
	return appendEnd(dst)
}

// AppendBatch appends a stream that holds the schema of b, its dictionaries
// and b itself to dst. Only the visible part of sliced arrays is written.
// Messages and buffers are aligned to 64 bytes from the start of the stream;
// bodies are not compressed (rrd.md 1.4). The error is about arrays that do not
// hold what their type promises; dst is then returned as it was.
func AppendBatch(dst []byte, b arrow.RecordBatch) (_ []byte, err error) {
	origin := len(dst)
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("encoding arrow batch: %w: %v", errInternal, p)
		}
	}()
	// The arrays are looked at first, so that dst grows once.
	var c collector
	c.nodes = c.nodeSpace[:0]
	c.parts = c.partSpace[:0]
	s := b.Schema()
	for i := range int(b.NumCols()) {
		d := b.Column(i).Data()
		if err := c.add(d.DataType(), d, d.Offset(), d.Len()); err != nil {
			return dst, fmt.Errorf("encoding column %q: %w", b.ColumnName(i), err)
		}
	}
	out := slices.Grow(dst, schemaSize(s)+c.size()+16)
	out, dicts, err := appendSchema(out, origin, s)
	if err != nil {
		return dst, err
	}
	if dicts > 0 {
		w := dictWriter{dst: out, origin: origin}
		for i := range int(b.NumCols()) {
			if err := w.field(b.Column(i).Data().DataType(), b.Column(i).Data()); err != nil {
				return dst, fmt.Errorf("encoding column %q: %w", b.ColumnName(i), err)
			}
		}
		out = w.dst
	}
	var md arrow.Metadata
	if m, ok := b.(arrow.RecordBatchWithMetadata); ok {
		md = m.Metadata()
	}
	w := flatWriter{b: out}
	m := w.beginMessage(headerBatch, int64(c.bodyLen))
	w.recordBatch(m.place(2), &c, b.NumRows())
	if md.Len() > 0 {
		w.metadata(m.place(4), md, "", "", false)
	} else {
		m.absent(4)
	}
	w.endMessage(origin)
	return appendEnd(c.appendBody(w.b)), nil
}

// schemaSize estimates the encoded size of a schema message from above.
func schemaSize(s *arrow.Schema) int {
	n := 256 + metadataSize(s.Metadata())
	for i := range s.NumFields() {
		n += fieldSize(s.Field(i), 0)
	}
	return n
}

func fieldSize(f arrow.Field, depth int) int {
	n := 160 + len(f.Name) + metadataSize(f.Metadata)
	if depth > maxDepth {
		return n
	}
	switch dt := f.Type.(type) {
	case *arrow.StructType:
		for i := range dt.NumFields() {
			n += fieldSize(dt.Field(i), depth+1)
		}
	case arrow.ListLikeType:
		n += fieldSize(dt.ElemField(), depth+1)
	case arrow.NestedType:
		for _, k := range dt.Fields() {
			n += fieldSize(k, depth+1)
		}
	}
	return n
}

func metadataSize(md arrow.Metadata) int {
	n := 0
	values := md.Values()
	for i, k := range md.Keys() {
		n += 48 + len(k) + len(values[i])
	}
	return n
}

var (
	recordBatchLayout = layout{slots: []uint16{8, 4, 16, 0, 20}, size: 24, align: 8} // length, nodes, buffers, compression, view counts
	dictBatchLayout   = layout{slots: []uint16{8, 4, 16}, size: 24, align: 8}        // id, data, delta
)

// recordBatch writes the table that describes what was collected.
func (w *flatWriter) recordBatch(at int, c *collector, rows int64) {
	t := w.table(at, &recordBatchLayout)
	t.i64(0, rows)
	w.vector(t.place(1), len(c.nodes), 8)
	for _, n := range c.nodes {
		w.b = binary.LittleEndian.AppendUint64(w.b, uint64(n.length))
		w.b = binary.LittleEndian.AppendUint64(w.b, uint64(n.nulls))
	}
	w.vector(t.place(2), len(c.parts), 8)
	pos := 0
	for i := range c.parts {
		w.b = binary.LittleEndian.AppendUint64(w.b, uint64(pos))
		w.b = binary.LittleEndian.AppendUint64(w.b, uint64(c.parts[i].size))
		pos += padded(c.parts[i].size)
	}
	if len(c.counts) == 0 {
		t.absent(4)
		return
	}
	w.vector(t.place(4), len(c.counts), 8)
	for _, n := range c.counts {
		w.b = binary.LittleEndian.AppendUint64(w.b, uint64(n))
	}
}

func padded(n int) int { return (n + alignTo - 1) &^ (alignTo - 1) }

// dictWriter appends the dictionary batches of a record batch, inner ones first.
type dictWriter struct {
	dst    []byte
	origin int
	next   int64 // id of the next dictionary-encoded field, depth first
}

func (w *dictWriter) field(dt arrow.DataType, d arrow.ArrayData) error {
	if ext, ok := dt.(arrow.ExtensionType); ok {
		dt = ext.StorageType()
	}
	encoded, ok := dt.(*arrow.DictionaryType)
	if !ok {
		return w.children(dt, d)
	}
	id := w.next
	w.next++
	values, _ := d.Dictionary().(*array.Data)
	if values == nil {
		if d.Len() > 0 {
			return errors.New("dictionary is missing")
		}
		b := array.NewBuilder(memory.DefaultAllocator, encoded.ValueType)
		values = b.NewArray().Data().(*array.Data)
	}
	if err := w.children(encoded.ValueType, values); err != nil {
		return err
	}
	var c collector
	if err := c.add(encoded.ValueType, values, values.Offset(), values.Len()); err != nil {
		return err
	}
	w.dst = slices.Grow(w.dst, c.size())
	f := flatWriter{b: w.dst}
	m := f.beginMessage(headerDictionary, int64(c.bodyLen))
	m.absent(4)
	t := f.table(m.place(2), &dictBatchLayout)
	t.i64(0, id)
	f.recordBatch(t.place(1), &c, int64(values.Len()))
	f.endMessage(w.origin)
	w.dst = c.appendBody(f.b)
	return nil
}

func (w *dictWriter) children(dt arrow.DataType, d arrow.ArrayData) error {
	if ext, ok := dt.(arrow.ExtensionType); ok {
		dt = ext.StorageType()
	}
	if _, ok := dt.(arrow.NestedType); !ok {
		return nil
	}
	for _, k := range d.Children() {
		if err := w.field(k.DataType(), k); err != nil {
			return err
		}
	}
	return nil
}
