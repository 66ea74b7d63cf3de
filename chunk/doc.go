// Package chunk holds the unit of Reelhouse: an immutable Arrow table of one
// entity, with row ids, timelines and components.
//
// A [Chunk] is built by [New] (fresh row ids, rows sorted by time), by
// [FromRecordBatch] (a batch that already is a chunk, ids kept) or by
// [FromDataFrame] (any record batch, by naming and metadata rules). Once built
// it is never written to; all methods may be called concurrently. Arrow memory
// lives on Go's heap and is garbage collected: chunks need no Release.
//
// Format facts are from spec/rrd.md section 3 and spec/chunks.md sections 1–2.
package chunk
