package inspect

import "github.com/reelhouse/reelhouse/chunk"

// heapSize is about the memory that a chunk takes.
func heapSize(c *chunk.Chunk) int64 { return c.SizeBytes() }
