// Package protobuf decodes protobuf messages of types known only at run time
// into Arrow columns, without an object per message or value.
//
// [ParseFileDescriptorSet] links descriptors into [Message] types. It accepts
// sets that strict linkers refuse: fields in any order, missing imports,
// repeated files, editions. [NewDecoder] lays a type out as columns and
// [Decoder.Append] writes one encoded message as a row.
//
// The mapping to Arrow and the treatment of damaged messages are those of
// spec/readers.md 1.6; the wire format is that of the protobuf encoding guide.
package protobuf
