package catalog

import (
	"encoding/binary"
	"hash/crc32"
)

// A chunk key is what Fetch finds a chunk by: the id of its layer, its number
// in the layer, and a checksum that tells a damaged key from one of removed
// data. It says nothing about files, and is looked up in the catalog, so that
// nothing can be read by it that is not registered.
const keySize = 24

func appendKey(b []byte, id layerID, n uint32) []byte {
	at := len(b)
	b = append(b, id[:]...)
	b = binary.BigEndian.AppendUint32(b, n)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b[at:]))
}

func parseKey(b []byte) (id layerID, n uint32, err error) {
	if len(b) != keySize {
		return id, 0, refuse(ErrInvalid, "Failed to decode chunk key: %d bytes instead of %d", len(b), keySize)
	}
	if crc32.ChecksumIEEE(b[:keySize-4]) != binary.BigEndian.Uint32(b[keySize-4:]) {
		return id, 0, refuse(ErrInvalid, "Failed to decode chunk key: checksum mismatch")
	}
	copy(id[:], b)
	return id, binary.BigEndian.Uint32(b[16:]), nil
}
