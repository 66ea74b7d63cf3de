// Package rrd reads and writes recordings: the RRD container of rerun 0.41 and,
// migrated on read, of 0.23 and later (spec/rrd.md).
//
// # Reading a stream
//
// [Scanner] yields the messages of any io.Reader one by one and undecoded, in
// the memory of one message. [Read] adds decoded chunks, several at once, in
// file order; [Chunks] yields those alone. All follow concatenated streams and
// take the state machine of the format for broken input: what is good before a
// fault is kept, a fault is an [*Error] that names file, offset and part, and
// who goes on after one that is not Fatal gets what lies behind it. Strict makes
// every deviation fatal.
//
// # Random access
//
// [Open] and [NewFile] read the footer and list stores and chunks without
// reading payloads: a [Manifest] per store and stream has a row per chunk with
// its place in the file, its entity, and time ranges by timeline and component.
// [File.ReadChunk] fetches one. Files without a footer get their manifests from
// one sequential pass ([File.Index]).
//
// # Writing
//
// [Writer] streams messages to an io.Writer and ends it with a footer. Chunks
// are encoded and compressed on several cores; encoded ones pass through
// untouched ([Writer.WriteEncoded]) with the [Entry] that a manifest has for them
// ([Manifest.Entry]), so merging, routing and filtering need no decoding.
// [Create] is a file that appears under its name only when all is well.
package rrd
