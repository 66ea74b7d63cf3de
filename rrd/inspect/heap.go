package inspect

import (
	"github.com/apache/arrow-go/v18/arrow"

	"github.com/reelhouse/reelhouse/chunk"
)

// What the reference counts for the parts of a chunk beside its values, in
// bytes. It is fitted to its output and mostly within 0.1 KiB of it.
const (
	heapChunk      = 690
	heapTimelines  = 175 // if there are any
	heapTimeline   = 240
	heapComponents = 355 // if there are any
	heapComponent  = 256
	heapField      = 59 // nested in a component's type
)

// heapSize is about the memory that a chunk with its schema takes.
func heapSize(c *chunk.Chunk) int64 {
	n := heapChunk + c.SizeBytes()
	if k := len(c.Timelines()); k > 0 {
		n += heapTimelines + heapTimeline*int64(k)
	}
	if len(c.Components()) > 0 {
		n += heapComponents
	}
	for _, m := range c.Components() {
		n += heapComponent + heapField*nestedFields(m.Values.DataType())
	}
	return n
}

func nestedFields(dt arrow.DataType) int64 {
	t, ok := dt.(arrow.NestedType)
	if !ok {
		return 0
	}
	n := int64(0)
	for _, f := range t.Fields() {
		n += 1 + nestedFields(f.Type)
	}
	return n
}
