package rrd

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/reelhouse/reelhouse/chunk"
)

// The messages are read and written by hand: payload bytes are never copied,
// and a header costs no allocation. Numbers are those of spec/wire.md.

// eachField calls f for the fields of a protobuf message: b is nil unless the
// field is length-delimited, and never nil then.
func eachField(msg []byte, f func(num protowire.Number, v uint64, b []byte) error) error {
	for len(msg) > 0 {
		num, typ, n := protowire.ConsumeTag(msg)
		if n < 0 {
			return fmt.Errorf("%w: %w", ErrProtobuf, protowire.ParseError(n))
		}
		msg = msg[n:]
		var v uint64
		var b []byte
		switch typ {
		case protowire.VarintType:
			v, n = protowire.ConsumeVarint(msg)
		case protowire.Fixed64Type:
			v, n = protowire.ConsumeFixed64(msg)
		case protowire.Fixed32Type:
			var w uint32
			w, n = protowire.ConsumeFixed32(msg)
			v = uint64(w)
		case protowire.BytesType:
			b, n = protowire.ConsumeBytes(msg)
			if b == nil {
				b = []byte{}
			}
		default:
			n = protowire.ConsumeFieldValue(num, typ, msg)
		}
		if n < 0 {
			return fmt.Errorf("%w: field %d: %w", ErrProtobuf, num, protowire.ParseError(n))
		}
		msg = msg[n:]
		if err := f(num, v, b); err != nil {
			return err
		}
	}
	return nil
}

func wantBytes(what string, b []byte) error {
	if b == nil {
		return fmt.Errorf("%w: %s has the wrong wire type", ErrProtobuf, what)
	}
	return nil
}

func wantVarint(what string, b []byte) error {
	if b != nil {
		return fmt.Errorf("%w: %s has the wrong wire type", ErrProtobuf, what)
	}
	return nil
}

func parseString(what string, b []byte) (string, error) {
	if err := wantBytes(what, b); err != nil {
		return "", err
	}
	if !utf8.Valid(b) {
		return "", fmt.Errorf("%w: %s is not UTF-8", ErrProtobuf, what)
	}
	return string(b), nil
}

func parseTUID(b []byte) (chunk.TUID, error) {
	var hi, lo uint64
	var has int
	err := eachField(b, func(num protowire.Number, v uint64, b []byte) error {
		switch num {
		case 1:
			hi, has = v, has|1
		case 2:
			lo, has = v, has|2
		default:
			return nil
		}
		return wantVarint("TUID", b)
	})
	if err == nil && has != 3 {
		err = fmt.Errorf("%w: half of a TUID", ErrMissingField)
	}
	return chunk.MakeTUID(hi, lo), err
}

func appendTUID(b []byte, num protowire.Number, id chunk.TUID) []byte {
	b = protowire.AppendTag(b, num, protowire.BytesType)
	b = append(b, 18, 1<<3|1)
	b = binary.LittleEndian.AppendUint64(b, id.TimeNS())
	b = append(b, 2<<3|1)
	return binary.LittleEndian.AppendUint64(b, id.Inc())
}

// parseStoreID leaves Application empty when the message has none.
func parseStoreID(b []byte) (StoreID, error) {
	id := StoreID{Kind: Recording}
	err := eachField(b, func(num protowire.Number, v uint64, b []byte) (err error) {
		switch num {
		case 1:
			id.Kind = Recording
			if v == uint64(Blueprint) {
				id.Kind = Blueprint
			}
			return wantVarint("store kind", b)
		case 2:
			id.Recording, err = parseString("recording id", b)
		case 3:
			if err = wantBytes("application id", b); err == nil {
				id.Application, err = parseApplication(b)
			}
			if err == nil && id.Application == "" {
				err = fmt.Errorf("%w: the application id is empty", ErrMissingField)
			}
		}
		return err
	})
	id.Application = CleanApplicationID(id.Application)
	return id, err
}

func parseApplication(b []byte) (app string, err error) {
	err = eachField(b, func(num protowire.Number, _ uint64, b []byte) (err error) {
		if num == 1 {
			app, err = parseString("application id", b)
		}
		return err
	})
	return app, err
}

func appendStoreID(b []byte, num protowire.Number, id StoreID) []byte {
	app := protowire.SizeTag(1) + protowire.SizeBytes(len(id.Application))
	if id.Application == "" {
		app = 0
	}
	n := 2 + protowire.SizeTag(3) + protowire.SizeBytes(app)
	if id.Recording != "" {
		n += protowire.SizeTag(2) + protowire.SizeBytes(len(id.Recording))
	}
	b = protowire.AppendTag(b, num, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(n))
	b = append(b, 1<<3, byte(max(id.Kind, Recording)))
	if id.Recording != "" {
		b = appendBytes(b, 2, id.Recording)
	}
	b = protowire.AppendTag(b, 3, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(app))
	if app > 0 {
		b = appendBytes(b, 1, id.Application)
	}
	return b
}

func appendBytes[T ~string | ~[]byte](b []byte, num protowire.Number, v T) []byte {
	b = protowire.AppendTag(b, num, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(len(v)))
	return append(b, v...)
}

func appendUint(b []byte, num protowire.Number, v uint64) []byte {
	if v == 0 {
		return b
	}
	b = protowire.AppendTag(b, num, protowire.VarintType)
	return protowire.AppendVarint(b, v)
}

// ArrowMsg is a chunk as it is stored: the store it belongs to and the encoded
// payload. Payload aliases the bytes it was parsed from.
type ArrowMsg struct {
	Store            StoreID
	Compression      Compression
	UncompressedSize uint64 // of the payload
	Payload          []byte // an Arrow IPC stream, compressed as a whole

	// Files written before 0.41 may lack both; the id that counts is in the payload.
	ChunkID    chunk.TUID
	HasChunkID bool
	Static     bool
	HasStatic  bool
}

// ParseArrowMsg reads an encoded ArrowMsg without copying its payload. The
// store's application id is empty where the message has none.
func ParseArrowMsg(b []byte) (ArrowMsg, error) {
	var m ArrowMsg
	return m, m.parse(b, nil)
}

// storeCache maps encoded store ids to parsed ones, so that a chunk's header
// costs no allocation.
type storeCache map[string]StoreID

func (c storeCache) parse(b []byte) (StoreID, error) {
	if id, ok := c[string(b)]; ok {
		return id, nil
	}
	id, err := parseStoreID(b)
	if err == nil && c != nil && len(c) < 1<<16 {
		c[string(b)] = id
	}
	return id, err
}

func (m *ArrowMsg) parse(b []byte, cache storeCache) error {
	*m = ArrowMsg{}
	var hasStore bool
	var encoding, compression uint64
	err := eachField(b, func(num protowire.Number, v uint64, b []byte) (err error) {
		switch num {
		case 1:
			if err = wantBytes("store id", b); err == nil {
				hasStore = true
				m.Store, err = cache.parse(b)
			}
		case 2:
			compression, err = v, wantVarint("compression", b)
		case 3:
			m.UncompressedSize, err = v, wantVarint("uncompressed size", b)
		case 4:
			encoding, err = v, wantVarint("encoding", b)
		case 5:
			m.Payload, err = b, wantBytes("payload", b)
		case 6:
			if err = wantBytes("chunk id", b); err == nil {
				// The id that counts is in the payload: half of one is none.
				if m.ChunkID, err = parseTUID(b); errors.Is(err, ErrMissingField) {
					m.ChunkID, err = chunk.TUID{}, nil
				} else {
					m.HasChunkID = err == nil
				}
			}
		case 7:
			m.Static, m.HasStatic, err = v != 0, true, wantVarint("is_static", b)
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case !hasStore:
		return fmt.Errorf("%w: store id", ErrMissingField)
	case encoding != 1:
		return fmt.Errorf("%w: %d", ErrEncoding, encoding)
	case compression > uint64(CompressionLZ4):
		return fmt.Errorf("%w: %d", ErrCompression, compression)
	}
	m.Compression = Compression(compression)
	return nil
}

// appendHead appends all that precedes the bytes of a payload of the given
// length, and appendTail all that follows them.
func (m *ArrowMsg) appendHead(b []byte, payload int64) []byte {
	b = appendStoreID(b, 1, m.Store)
	b = appendUint(b, 2, uint64(max(m.Compression, CompressionNone)))
	b = appendUint(b, 3, m.UncompressedSize)
	b = append(b, 4<<3, 1)
	b = protowire.AppendTag(b, 5, protowire.BytesType)
	return protowire.AppendVarint(b, uint64(payload))
}

func (m *ArrowMsg) appendTail(b []byte) []byte {
	if m.HasChunkID {
		b = appendTUID(b, 6, m.ChunkID)
	}
	if m.HasStatic {
		b = append(b, 7<<3, boolByte(m.Static))
	}
	return b
}

// Append appends the encoded message to b.
func (m *ArrowMsg) Append(b []byte) []byte {
	return m.appendTail(append(m.appendHead(b, int64(len(m.Payload))), m.Payload...))
}

func boolByte(v bool) byte {
	if v {
		return 1
	}
	return 0
}

// ParseStoreInfo reads an encoded SetStoreInfo. Where the store id has no
// application id, that of the old info field is taken.
func ParseStoreInfo(b []byte) (StoreInfo, error) {
	var s StoreInfo
	var has int
	var oldApp string
	err := eachField(b, func(num protowire.Number, _ uint64, b []byte) (err error) {
		switch num {
		case 1:
			if err = wantBytes("row id", b); err == nil {
				has |= 1
				s.RowID, err = parseTUID(b)
			}
		case 2:
			if err = wantBytes("info", b); err == nil {
				has |= 2
				err = eachField(b, func(num protowire.Number, _ uint64, b []byte) (err error) {
					switch num {
					case 1, 2, 5, 6:
						if err = wantBytes("info field", b); err != nil {
							return err
						}
					}
					switch num {
					case 1:
						oldApp, err = parseApplication(b)
					case 2:
						has |= 4
						s.Store, err = parseStoreID(b)
					case 5:
						s.Source, err = parseSource(b)
					case 6:
						err = eachField(b, func(num protowire.Number, v uint64, b []byte) error {
							if num == 1 {
								s.Version = VersionFromBits(int32(v))
								return wantVarint("version", b)
							}
							return nil
						})
					}
					return err
				})
			}
		}
		return err
	})
	switch {
	case err != nil:
		return s, err
	case has&2 == 0:
		return s, fmt.Errorf("%w: info", ErrMissingField)
	case has&4 == 0:
		return s, fmt.Errorf("%w: store id", ErrMissingField)
	}
	if s.Store.Application == "" {
		s.Store.Application = CleanApplicationID(oldApp)
	}
	return s, nil
}

func parseSource(b []byte) (Source, error) {
	var s Source
	err := eachField(b, func(num protowire.Number, v uint64, b []byte) error {
		switch num {
		case 1:
			s.Kind = SourceKind(v)
			return wantVarint("source kind", b)
		case 2:
			if err := wantBytes("source extra", b); err != nil {
				return err
			}
			return eachField(b, func(num protowire.Number, _ uint64, b []byte) error {
				if num == 1 {
					s.Extra = append([]byte(nil), b...)
					return wantBytes("source extra", b)
				}
				return nil
			})
		}
		return nil
	})
	return s, err
}

// Append appends the encoded SetStoreInfo to b.
func (s StoreInfo) Append(b []byte) []byte {
	b = appendTUID(b, 1, s.RowID)
	info := appendStoreID(nil, 2, s.Store)
	source := appendUint(nil, 1, uint64(s.Source.Kind))
	if len(s.Source.Extra) > 0 {
		source = appendBytes(source, 2, appendBytes([]byte(nil), 1, s.Source.Extra))
	} else {
		source = appendBytes(source, 2, "")
	}
	info = appendBytes(info, 5, source)
	info = appendBytes(info, 6, appendUint(nil, 1, uint64(int64(s.Version.Bits()))))
	return appendBytes(b, 2, info)
}

// ParseActivation reads an encoded BlueprintActivationCommand.
func ParseActivation(b []byte) (Activation, error) {
	var a Activation
	has := false
	err := eachField(b, func(num protowire.Number, v uint64, b []byte) (err error) {
		switch num {
		case 1:
			if err = wantBytes("blueprint id", b); err == nil {
				has = true
				a.Blueprint, err = parseStoreID(b)
			}
		case 2:
			a.MakeActive, err = v != 0, wantVarint("make_active", b)
		case 3:
			a.MakeDefault, err = v != 0, wantVarint("make_default", b)
		}
		return err
	})
	if err == nil && !has {
		err = fmt.Errorf("%w: blueprint id", ErrMissingField)
	}
	return a, err
}

// Append appends the encoded command to b.
func (a Activation) Append(b []byte) []byte {
	b = appendStoreID(b, 1, a.Blueprint)
	b = appendUint(b, 2, uint64(boolByte(a.MakeActive)))
	return appendUint(b, 3, uint64(boolByte(a.MakeDefault)))
}
