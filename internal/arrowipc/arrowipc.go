// Package arrowipc decodes and encodes Arrow IPC streams held in memory: the
// payload of RRD messages, data frame parts of the catalog, manifests.
//
// Decoding treats its input as hostile. Message metadata is read by a
// flatbuffer walk that checks every offset, and every array is validated in
// full before it is handed out (buffer lengths, offsets, dictionary indices,
// union ids, run ends, views, UTF-8), so that arrow-go never panics on it
// later. What is allocated is bounded by the size of the input; compressed
// bodies are bounded by a ratio.
//
// Arrays point into the stream. They are copied only where a buffer is not
// aligned for its type, where the body is compressed, or where undefined
// values under null slots would be out of range. The caller must not modify
// the stream while arrays are alive. Arrays need no Release: they live on Go's
// heap.
//
// Format facts: the Arrow columnar format, IPC section; dependencies.md 2;
// rrd.md 1.4, 3 and 8.
package arrowipc

import (
	"errors"
	"fmt"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
)

// ErrNoBatch reports a stream that ends after its schema.
var ErrNoBatch = errors.New("arrow stream has no record batch")

// Error tells where a stream is damaged.
type Error struct {
	Part   string // "schema", "dictionary", "batch", or the name of a column
	Offset int64  // of the message or buffer, in bytes from the start of the stream
	Err    error
}

func (e *Error) Error() string {
	return fmt.Sprintf("arrow stream: %s at byte %d: %v", e.Part, e.Offset, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// Schema decodes the schema message of a stream and nothing else.
func Schema(stream []byte) (*arrow.Schema, error) {
	return (*Decoder)(nil).Schema(stream)
}

// Batch decodes the first record batch of a stream. What follows it is not
// looked at. It fails with ErrNoBatch when the stream holds only a schema.
func Batch(stream []byte) (arrow.RecordBatch, error) {
	return (*Decoder)(nil).Batch(stream)
}

// Batches decodes all record batches of a stream. On error it returns the
// schema, if that was readable, and the batches before the damage.
func Batches(stream []byte) (*arrow.Schema, []arrow.RecordBatch, error) {
	return (*Decoder)(nil).Batches(stream)
}

// Decoder decodes streams like the functions of the package and remembers the
// fields of recent schemas, so that streams that differ only in the values of
// their schema metadata (chunks of one entity) share their field and type
// objects. The zero value is ready for use, also by several goroutines at once.
type Decoder struct {
	cache schemaCache
	codec sync.Pool // *codecs
}

// Schema is like the function Schema.
func (d *Decoder) Schema(stream []byte) (*arrow.Schema, error) {
	r := reader{dec: d, stream: stream}
	if err := r.readSchema(); err != nil {
		return nil, err
	}
	return r.schema, nil
}

// Batch is like the function Batch.
func (d *Decoder) Batch(stream []byte) (arrow.RecordBatch, error) {
	r := reader{dec: d, stream: stream}
	if err := r.readSchema(); err != nil {
		return nil, err
	}
	defer r.close()
	b, err := r.next()
	if err != nil {
		return nil, err
	}
	if b == nil {
		return nil, ErrNoBatch
	}
	return b, nil
}

// Batches is like the function Batches.
func (d *Decoder) Batches(stream []byte) (*arrow.Schema, []arrow.RecordBatch, error) {
	r := reader{dec: d, stream: stream}
	if err := r.readSchema(); err != nil {
		return nil, nil, err
	}
	defer r.close()
	var all []arrow.RecordBatch
	for {
		b, err := r.next()
		if err != nil || b == nil {
			return r.schema, all, err
		}
		all = append(all, b)
	}
}
