// Package query answers questions about the chunks of a store as data frames:
// a row per index value, a column per component of an entity, the latest value
// where a row has none of its own if asked for (spec/chunks.md section 7).
//
// The engine sweeps. Each column merges its chunks into one ascending stream of
// events (an index value and the cell that wins there); the distinct values of
// all streams are the rows; a cursor per column then assigns cells to rows,
// which is all that filling needs. Cost is linear in rows and cells, and what is
// held does not grow with the number of rows: events are buffered in blocks,
// and chunks of lazy stores are loaded when the sweep reaches them and dropped
// when it has passed.
package query
