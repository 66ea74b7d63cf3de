package rrd

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/cespare/xxhash/v2"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/reelhouse/reelhouse/chunk"
)

// StoreKind tells recordings from blueprints.
type StoreKind uint8

// The kinds of stores, numbered as on the wire.
const (
	Recording StoreKind = 1
	Blueprint StoreKind = 2
)

func (k StoreKind) String() string {
	if k == Blueprint {
		return "Blueprint"
	}
	return "Recording"
}

// StoreID names a store. It is comparable and can be a map key. Ids that come
// from this package have a clean application id ([CleanApplicationID]).
type StoreID struct {
	Kind        StoreKind
	Application string
	Recording   string
}

// NewStoreID makes an id with a clean application id.
func NewStoreID(kind StoreKind, application, recording string) StoreID {
	return StoreID{kind, CleanApplicationID(application), recording}
}

// String is the text form `Recording:<application>:<recording>`; backslashes
// and colons of the application id are escaped by a backslash.
func (id StoreID) String() string {
	return id.Kind.String() + ":" + storeEscaper.Replace(id.Application) + ":" + id.Recording
}

var storeEscaper = strings.NewReplacer(`\`, `\\`, `:`, `\:`)

// ParseStoreID reads the text form of a store id.
func ParseStoreID(s string) (StoreID, error) {
	var id StoreID
	kind, rest, ok := strings.Cut(s, ":")
	switch {
	case ok && strings.EqualFold(kind, "recording"):
		id.Kind = Recording
	case ok && strings.EqualFold(kind, "blueprint"):
		id.Kind = Blueprint
	default:
		return id, fmt.Errorf("store id %q: want Recording: or Blueprint: first", s)
	}
	var app strings.Builder
	for i := 0; i < len(rest); i++ {
		switch c := rest[i]; {
		case c == '\\' && i+1 < len(rest):
			i++
			app.WriteByte(rest[i])
		case c == ':':
			id.Application, id.Recording = CleanApplicationID(app.String()), rest[i+1:]
			if id.Application == "" || id.Recording == "" {
				return id, fmt.Errorf("store id %q: empty application or recording id", s)
			}
			return id, nil
		default:
			app.WriteByte(c)
		}
	}
	return id, fmt.Errorf("store id %q: no recording id", s)
}

// Compare orders recordings before blueprints, then by application and
// recording id.
func (id StoreID) Compare(o StoreID) int {
	return cmp.Or(cmp.Compare(id.Kind, o.Kind), strings.Compare(id.Application, o.Application), strings.Compare(id.Recording, o.Recording))
}

const maxApplicationID = 180

// CleanApplicationID rewrites an application id that has characters or a
// length that are not allowed: bad characters become "-", the text is cut, and
// a short hash of the original keeps it apart from others (spec/rrd.md 1.4).
func CleanApplicationID(s string) string {
	good := len(s) <= maxApplicationID
	for i := 0; i < len(s) && good; i++ {
		good = applicationChar(rune(s[i]))
	}
	if good {
		return s
	}
	var b strings.Builder
	n := 0
	for _, r := range s {
		if n == maxApplicationID-4 {
			break
		}
		n++
		if !applicationChar(r) {
			r = '-'
		}
		b.WriteRune(r)
	}
	return fmt.Sprintf("%s%04x", b.String(), uint16(xxhash.Sum64String(s)))
}

func applicationChar(r rune) bool {
	switch {
	case r >= 'A' && r <= 'Z', r >= 'a' && r <= 'z', r >= '0' && r <= '9':
		return true
	}
	return r < 0x80 && strings.IndexByte("_- []:", byte(r)) >= 0
}

// SourceKind is the kind of program that produced a store, numbered as on the wire.
type SourceKind int32

// The kinds of sources.
const (
	SourceUnspecified SourceKind = iota
	SourceCSDK
	SourcePythonSDK
	SourceRustSDK
	SourceFile
	SourceViewer
	SourceOther
)

// Source is what produced a store. Extra is encoded by the kind: see the
// methods.
type Source struct {
	Kind  SourceKind
	Extra []byte
}

// OtherSource is a source described by a text.
func OtherSource(text string) Source { return Source{SourceOther, []byte(text)} }

// PythonVersion are the numbers and the suffix of a Python source's interpreter.
func (s Source) PythonVersion() (major, minor, patch uint8, suffix string, err error) {
	if s.Kind != SourcePythonSDK {
		return 0, 0, 0, "", errors.New("not a Python source")
	}
	var n [4]uint64
	err = eachField(s.Extra, func(num protowire.Number, v uint64, b []byte) error {
		switch {
		case num >= 1 && num <= 3 && b == nil:
			if v > 255 {
				return fmt.Errorf("%w: Python version number %d", ErrProtobuf, v)
			}
			n[num] = v
		case num == 4 && b != nil:
			suffix = string(b)
		}
		return nil
	})
	return uint8(n[1]), uint8(n[2]), uint8(n[3]), suffix, err
}

// RustVersions are the compiler versions of a Rust source.
func (s Source) RustVersions() (rustc, llvm string, err error) {
	if s.Kind != SourceRustSDK {
		return "", "", errors.New("not a Rust source")
	}
	err = eachField(s.Extra, func(num protowire.Number, _ uint64, b []byte) error {
		switch {
		case num == 1 && b != nil:
			rustc = string(b)
		case num == 2 && b != nil:
			llvm = string(b)
		}
		return nil
	})
	return rustc, llvm, err
}

// FileKind is how a file source was opened, numbered as on the wire: 1 command
// line, 2 URI, 3 drag and drop, 4 file dialog, 5 SDK.
func (s Source) FileKind() (int, error) {
	if s.Kind != SourceFile {
		return 0, errors.New("not a file source")
	}
	kind := 0
	err := eachField(s.Extra, func(num protowire.Number, v uint64, b []byte) error {
		if num == 1 && b == nil {
			kind = int(v)
		}
		return nil
	})
	return kind, err
}

// StoreInfo announces a store; it comes before the store's chunks.
type StoreInfo struct {
	RowID   chunk.TUID // fresh when zero on write
	Store   StoreID
	Source  Source
	Version Version // on read that of the stream header, where there is one
}

// Activation makes a blueprint active, or the default one, of its application.
type Activation struct {
	Blueprint   StoreID
	MakeActive  bool
	MakeDefault bool
}
