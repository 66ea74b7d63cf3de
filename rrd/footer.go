package rrd

import (
	"crypto/sha256"
	"fmt"

	"github.com/OneOfOne/xxhash"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/reelhouse/reelhouse/internal/arrowipc"
	"github.com/reelhouse/reelhouse/internal/lz4block"
)

func footerChecksum(payload []byte) uint32 { return xxhash.Checksum32S(payload, footerSeed) }

// RawManifest is a manifest as a footer holds it, with the parts still encoded.
type RawManifest struct {
	Store  StoreID
	Base   int64             // of the stream in its file
	Schema []byte            // Arrow IPC stream of the sorbet schema
	Hash   [sha256.Size]byte // of that schema; zero if absent
	Data   []byte            // encoded DataframePart
	Proto  []byte            // the encoded RrdManifest as a whole
}

// ParseFooter parses the payload of an End message. The result points into it.
// base is where the stream starts in its file.
func ParseFooter(payload []byte, base int64) ([]*RawManifest, error) {
	var all []*RawManifest
	err := eachField(payload, func(num protowire.Number, _ uint64, b []byte) error {
		if num != 1 {
			return nil
		}
		if err := wantBytes("manifest", b); err != nil {
			return err
		}
		m, err := ParseManifest(b)
		if err != nil {
			return err
		}
		m.Base = base
		all = append(all, m)
		return nil
	})
	return all, err
}

// ParseManifest parses an encoded RrdManifest. The result points into b.
func ParseManifest(b []byte) (*RawManifest, error) {
	m := &RawManifest{Proto: b}
	hasStore := false
	err := eachField(b, func(num protowire.Number, _ uint64, b []byte) (err error) {
		switch num {
		case 1, 2, 3, 4:
			if err = wantBytes("manifest field", b); err != nil {
				return err
			}
		}
		switch num {
		case 1:
			hasStore = true
			m.Store, err = parseStoreID(b)
		case 2:
			return eachField(b, func(num protowire.Number, _ uint64, b []byte) error {
				if num == 1 {
					m.Schema = b
					return wantBytes("schema", b)
				}
				return nil
			})
		case 3:
			if len(b) != sha256.Size {
				return fmt.Errorf("%w: schema hash of %d bytes", ErrProtobuf, len(b))
			}
			m.Hash = [sha256.Size]byte(b)
		case 4:
			m.Data = b
		}
		return err
	})
	if err == nil && !hasStore {
		err = fmt.Errorf("%w: store id of a manifest", ErrMissingField)
	}
	return m, err
}

// Decode decodes and checks the manifest, migrated to current names.
func (m *RawManifest) Decode() (*Manifest, error) {
	part, err := parseDataframePart(m.Data)
	if err != nil {
		return nil, fmt.Errorf("%w: index: %w", ErrManifest, err)
	}
	batch, err := arrowipc.Batch(part)
	if err != nil {
		return nil, fmt.Errorf("%w: index: %w", ErrManifest, err)
	}
	schema, err := arrowipc.Schema(m.Schema)
	if err != nil {
		return nil, fmt.Errorf("%w: schema: %w", ErrManifest, err)
	}
	schema, changed := migrateManifestSchema(schema)
	batch = migrateManifestBatch(batch)
	out, err := newManifest(m.Store, m.Base, schema, batch)
	if err != nil {
		return nil, err
	}
	out.Hash = m.Hash
	if changed {
		if out.Hash, err = SchemaHash(schema); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// parseDataframePart returns the Arrow IPC stream of an encoded DataframePart.
func parseDataframePart(b []byte) ([]byte, error) {
	var payload []byte
	var encoding, compression, size uint64
	err := eachField(b, func(num protowire.Number, v uint64, b []byte) error {
		switch num {
		case 1:
			encoding = v
			return wantVarint("encoder version", b)
		case 2:
			payload = b
			return wantBytes("payload", b)
		case 3:
			compression = v
			return wantVarint("compression", b)
		case 4:
			size = v
			return wantVarint("uncompressed size", b)
		}
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case encoding != 1:
		return nil, fmt.Errorf("%w: %d", ErrEncoding, encoding)
	case payload == nil:
		return nil, fmt.Errorf("%w: payload", ErrMissingField)
	case compression > uint64(CompressionLZ4):
		return nil, fmt.Errorf("%w: %d", ErrCompression, compression)
	}
	return decompress(nil, payload, Compression(compression), size)
}

// appendDataframePart appends an encoded DataframePart of an IPC stream.
func appendDataframePart(b, stream []byte, compress bool) []byte {
	payload, c := stream, CompressionNone
	if compress {
		block := make([]byte, len(stream))
		if n := lz4block.Compress(stream, block); n > 0 && n < len(stream) {
			payload, c = block[:n], CompressionLZ4
		}
	}
	b = appendUint(b, 1, 1)
	b = appendBytes(b, 2, payload)
	b = appendUint(b, 3, uint64(c))
	return appendUint(b, 4, uint64(len(stream)))
}
