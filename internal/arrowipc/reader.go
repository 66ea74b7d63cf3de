package arrowipc

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// reader walks over the messages of one stream.
type reader struct {
	dec    *Decoder // may be nil
	stream []byte
	pos    int
	info   *schemaInfo
	schema *arrow.Schema
	dicts  []dictValues // one per entry of info.dicts, sharing by id
	joined int64        // bytes copied to join dictionary deltas
	codecs *codecs

	expanded int64 // bytes decompressed so far
}

// errInternal marks a panic that was turned into an error: a defect of ours,
// not of the stream.
var errInternal = errors.New("internal error")

func guard(part string, off int, err *error) {
	if r := recover(); r != nil {
		*err = &Error{Part: part, Offset: int64(off), Err: fmt.Errorf("%w: %v", errInternal, r)}
	}
}

func (r *reader) readSchema() (err error) {
	defer guard("schema", 0, &err)
	var m message
	ok, err := readMessage(r.stream, 0, &m)
	if err != nil {
		return err
	}
	if !ok {
		return m.fail("schema", errTruncated)
	}
	if m.kind != headerSchema {
		return m.fail("schema", fmt.Errorf("stream starts with message type %d", m.kind))
	}
	r.pos = m.end
	if err := r.parse(&m); err != nil {
		return m.fail("schema", err)
	}
	return nil
}

// span is where a string of the schema metadata stands in its message.
type span struct{ at, size int }

// parse turns a schema message into an Arrow schema whose strings do not pin
// the stream.
func (r *reader) parse(m *message) error {
	pos, n := m.header.vector(2, 4, 4)
	var space [16]span
	spans := space[:0] // key, value, key, value, ...
	total := 0
	for i := range n {
		kv := m.flat.table(m.deref(pos + 4*i))
		for slot := range 2 {
			at, size := kv.strRange(slot)
			spans = append(spans, span{at, size})
			total += size + 4 // with the length prefix, which empty ones have too
		}
		if m.err != nil {
			return m.err
		}
		if total > len(m.b) {
			return errors.New("flatbuffer: overlapping metadata")
		}
	}
	if m.err != nil {
		return m.err
	}
	var text strings.Builder
	text.Grow(total)
	both := make([]string, 2*n)
	keys, values := both[:n:n], both[n:]
	for i, sp := range spans {
		start := text.Len()
		text.Write(m.b[sp.at : sp.at+sp.size])
		both[i/2+i%2*n] = text.String()[start:]
	}

	var err error
	if r.dec != nil {
		r.info, err = r.dec.cache.get(m, spans)
	} else {
		r.info, err = parseCopy(bytes.Clone(m.b))
	}
	if err != nil {
		return err
	}
	md := arrow.NewMetadata(keys, values)
	r.schema = arrow.NewSchema(r.info.fields, &md)
	return nil
}

// parseCopy decodes a schema message that belongs to the result.
func parseCopy(b []byte) (*schemaInfo, error) {
	f := flat{b: b}
	header, _ := f.root().table(2)
	info, err := parseSchema(&f, header)
	if err != nil {
		return nil, err
	}
	return &info, nil
}

// next decodes the next record batch, nil at the end of the stream.
func (r *reader) next() (_ arrow.RecordBatch, err error) {
	defer guard("batch", r.pos, &err)
	for {
		var m message
		ok, err := readMessage(r.stream, r.pos, &m)
		if err != nil || !ok {
			return nil, err
		}
		r.pos = m.end
		switch m.kind {
		case headerDictionary:
			if err := r.dictionary(&m); err != nil {
				return nil, wrap(&m, "dictionary", err)
			}
		case headerBatch:
			b, err := r.batch(&m)
			if err != nil {
				return nil, wrap(&m, "batch", err)
			}
			return b, nil
		default:
			return nil, m.fail("batch", errors.New("second schema in the stream"))
		}
	}
}

// wrap keeps the more precise position of an inner Error.
func wrap(m *message, part string, err error) error {
	var e *Error
	if errors.As(err, &e) {
		return err
	}
	return m.fail(part, err)
}

func (r *reader) batch(m *message) (arrow.RecordBatch, error) {
	var l loader
	rows, err := l.init(r, m, m.header, r.info.nodes, len(r.info.fields))
	if err != nil {
		return nil, err
	}
	cols := make([]arrow.Array, len(r.info.fields))
	for i := range cols {
		f := &r.info.fields[i]
		data, err := l.load(f.Type)
		if err == nil && data.Len() != rows {
			err = fmt.Errorf("%d rows in a batch of %d", data.Len(), rows)
		}
		if err != nil {
			return nil, &Error{Part: f.Name, Offset: int64(l.at), Err: err}
		}
		cols[i] = array.MakeFromData(data)
	}
	md := m.metadata()
	if m.err != nil {
		return nil, m.err
	}
	b := array.NewRecordBatchWithMetadata(r.schema, cols, int64(rows), md)
	for _, c := range cols {
		c.Release() // the batch holds its own references
	}
	return b, nil
}

// metadata decodes the custom metadata of a message.
func (m *message) metadata() arrow.Metadata {
	p := schemaParser{flat: &m.flat, tables: len(m.b) / 8}
	// The strings share the memory of the stream, like the arrays.
	return p.metadata(m.root, 4)
}

// schemaCache keeps the parsed form of recent schema messages. Its key is the
// message with the values of its schema metadata blanked, since those hold the
// id of a chunk. A message whose fields depend on the blanked bytes (their
// offsets point there, which no writer does) is not kept.
type schemaCache struct {
	mu       sync.Mutex
	cur, old map[string]*schemaInfo // two generations
	scratch  sync.Pool              // *[]byte
}

const (
	cacheEntries  = 128       // per generation
	cacheMaxBytes = 128 << 10 // longest message that is kept
)

// get returns the parsed form of a message with these keys and values.
func (c *schemaCache) get(m *message, spans []span) (*schemaInfo, error) {
	buf, _ := c.scratch.Get().(*[]byte)
	if buf == nil {
		buf = new([]byte)
	}
	key := append((*buf)[:0], m.b...)
	*buf = key
	defer c.scratch.Put(buf)
	for i := 1; i < len(spans); i += 2 {
		value := key[spans[i].at:][:spans[i].size]
		for k := range value {
			value[k] = 0xFF // not UTF-8
		}
	}
	c.mu.Lock()
	info := c.cur[string(key)]
	if info == nil {
		if info = c.old[string(key)]; info != nil {
			c.put(string(key), info)
		}
	}
	c.mu.Unlock()
	if info != nil {
		return info, nil
	}
	info, err := parseCopy(bytes.Clone(m.b))
	if err != nil || len(key) > cacheMaxBytes {
		return info, err
	}
	blank, err := parseCopy(key)
	if err == nil && reflect.DeepEqual(blank, info) {
		c.mu.Lock()
		c.put(string(key), info)
		c.mu.Unlock()
	}
	return info, nil
}

func (c *schemaCache) put(key string, info *schemaInfo) {
	if len(c.cur) >= cacheEntries || c.cur == nil {
		c.old, c.cur = c.cur, make(map[string]*schemaInfo, cacheEntries)
	}
	c.cur[key] = info
}
