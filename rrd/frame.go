package rrd

import (
	"encoding/binary"
	"fmt"
)

// Sizes of the fixed frames in bytes (spec/rrd.md 1.1–1.3).
const (
	StreamHeaderSize  = 12
	MessageHeaderSize = 16
	StreamFooterSize  = 32
)

// MaxPayload is the largest payload of one message, compressed or not: 16 GiB.
const MaxPayload = 16 << 30

const (
	magic        = "RRF2"
	footerMagic  = "RRF2FOOT"
	footerSeed   = 7850921
	serializerPB = 2
)

// Version is the version of the program that wrote a stream.
type Version struct{ Major, Minor, Patch, Meta uint8 }

// CurrentVersion is the version that streams are written as.
var CurrentVersion = Version{Minor: 41}

// oldestVersion is the first one that can be read.
var oldestVersion = Version{Minor: 23}

// Compare orders versions by major, minor and patch alone.
func (v Version) Compare(o Version) int {
	n := func(v Version) int { return int(v.Major)<<16 | int(v.Minor)<<8 | int(v.Patch) }
	return n(v) - n(o)
}

// Bits are the four version bytes as the little-endian number of store infos.
func (v Version) Bits() int32 {
	return int32(uint32(v.Major) | uint32(v.Minor)<<8 | uint32(v.Patch)<<16 | uint32(v.Meta)<<24)
}

// VersionFromBits is the reverse of [Version.Bits].
func VersionFromBits(bits int32) Version {
	b := uint32(bits)
	return Version{uint8(b), uint8(b >> 8), uint8(b >> 16), uint8(b >> 24)}
}

func (v Version) String() string {
	s := fmt.Sprintf("%d.%d.%d", v.Major, v.Minor, v.Patch)
	n := v.Meta & 0x3f
	switch v.Meta >> 6 {
	case 1:
		return fmt.Sprintf("%s-rc.%d", s, n)
	case 2:
		return fmt.Sprintf("%s-alpha.%d", s, n)
	case 3:
		return fmt.Sprintf("%s-alpha.%d+dev", s, n)
	}
	return s
}

// Compression says how a payload is stored.
type Compression uint8

// The compressions. Unspecified is read as None and never written.
const (
	CompressionUnspecified Compression = iota
	CompressionNone
	CompressionLZ4
)

func (c Compression) String() string {
	switch c {
	case CompressionUnspecified:
		return "unspecified"
	case CompressionNone:
		return "none"
	case CompressionLZ4:
		return "lz4"
	}
	return fmt.Sprintf("Compression(%d)", uint8(c))
}

// StreamHeader opens a stream. Its compression is informative: every message
// carries its own.
type StreamHeader struct {
	Version     Version
	Compression Compression
}

// ParseStreamHeader reads the first [StreamHeaderSize] bytes of b. It checks
// magic and options but not the version.
func ParseStreamHeader(b []byte) (StreamHeader, error) {
	var h StreamHeader
	if len(b) < StreamHeaderSize {
		return h, ErrTooShort
	}
	switch string(b[:4]) {
	case magic:
	case "RRF0", "RRF1":
		return h, ErrOldMagic
	default:
		return h, fmt.Errorf("%w: %q", ErrNotRRD, b[:4])
	}
	h.Version = Version{b[4], b[5], b[6], b[7]}
	if (h.Version == Version{}) {
		h.Version = Version{Minor: 2}
	}
	switch {
	case b[8] > 1:
		return h, fmt.Errorf("%w: compression %d", ErrOptions, b[8])
	case b[9] == 1:
		return h, fmt.Errorf("%w: MsgPack, as written up to 0.22", ErrOptions)
	case b[9] != serializerPB:
		return h, fmt.Errorf("%w: serializer %d", ErrOptions, b[9])
	case b[10] != 0 || b[11] != 0:
		return h, fmt.Errorf("%w: reserved bytes %x", ErrOptions, b[10:12])
	}
	h.Compression = CompressionNone + Compression(b[8])
	return h, nil
}

// CheckVersion tells whether a stream of this version can be read:
// [ErrVersion] if it is too old, [ErrNewerVersion], a mere warning, if it is
// newer than [CurrentVersion].
func (h StreamHeader) CheckVersion() error {
	switch {
	case h.Version.Compare(oldestVersion) < 0:
		return fmt.Errorf("%w: %v", ErrVersion, h.Version)
	case h.Version.Compare(CurrentVersion) > 0:
		return fmt.Errorf("%w: %v", ErrNewerVersion, h.Version)
	}
	return nil
}

// Append appends the encoded header to b.
func (h StreamHeader) Append(b []byte) []byte {
	b = append(b, magic...)
	b = append(b, h.Version.Major, h.Version.Minor, h.Version.Patch, h.Version.Meta)
	c := byte(0)
	if h.Compression == CompressionLZ4 {
		c = 1
	}
	return append(b, c, serializerPB, 0, 0)
}

// Kind is what a message holds.
type Kind uint64

// The kinds of messages.
const (
	KindEnd Kind = iota
	KindStoreInfo
	KindArrow
	KindActivation
)

func (k Kind) String() string {
	switch k {
	case KindEnd:
		return "End"
	case KindStoreInfo:
		return "SetStoreInfo"
	case KindArrow:
		return "ArrowMsg"
	case KindActivation:
		return "BlueprintActivationCommand"
	}
	return fmt.Sprintf("Kind(%d)", uint64(k))
}

func (k Kind) part() Part {
	switch k {
	case KindEnd:
		return PartFooter
	case KindStoreInfo:
		return PartStoreInfo
	case KindArrow:
		return PartArrowMsg
	case KindActivation:
		return PartActivation
	}
	return PartPayload
}

// messageHeader precedes every payload.
type messageHeader struct {
	kind Kind
	len  uint64
}

func parseMessageHeader(b []byte) messageHeader {
	return messageHeader{Kind(binary.LittleEndian.Uint64(b)), binary.LittleEndian.Uint64(b[8:])}
}

func (h messageHeader) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(h.kind))
	return binary.LittleEndian.AppendUint64(b, h.len)
}

// streamFooter closes a stream and says where the footer payload is, counted
// from the start of the stream. Only footers of one entry are known.
type streamFooter struct {
	start, len uint64
	crc        uint32
}

// parseStreamFooter reads the last [StreamFooterSize] bytes of a stream; ok is
// false if they are no footer.
func parseStreamFooter(b []byte) (f streamFooter, ok bool) {
	if len(b) < StreamFooterSize || string(b[20:28]) != footerMagic || binary.LittleEndian.Uint32(b[28:]) != 1 {
		return f, false
	}
	return streamFooter{binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint32(b[16:])}, true
}

func (f streamFooter) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, f.start)
	b = binary.LittleEndian.AppendUint64(b, f.len)
	b = binary.LittleEndian.AppendUint32(b, f.crc)
	b = append(b, footerMagic...)
	return binary.LittleEndian.AppendUint32(b, 1)
}
