package chunk

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"
)

// TUID is a time-ordered unique id: eight big-endian bytes of nanoseconds
// since 1970 and eight of a counter. Byte order is creation order.
type TUID [16]byte

// ErrTUID is wrapped by all errors about malformed TUID texts.
var ErrTUID = errors.New("malformed TUID")

// MakeTUID joins the two halves of a TUID.
func MakeTUID(timeNS, inc uint64) TUID {
	var t TUID
	binary.BigEndian.PutUint64(t[:8], timeNS)
	binary.BigEndian.PutUint64(t[8:], inc)
	return t
}

// TimeNS is the upper half: nanoseconds since 1970.
func (t TUID) TimeNS() uint64 { return binary.BigEndian.Uint64(t[:8]) }

// Inc is the lower half: the counter.
func (t TUID) Inc() uint64 { return binary.BigEndian.Uint64(t[8:]) }

// Add returns the TUID n counter steps later.
func (t TUID) Add(n uint64) TUID { return MakeTUID(t.TimeNS(), t.Inc()+n) }

// IsZero reports whether t is the all-zero id.
func (t TUID) IsZero() bool { return t == TUID{} }

// Compare orders TUIDs by their bytes, that is by time and then counter.
func (t TUID) Compare(o TUID) int { return strings.Compare(string(t[:]), string(o[:])) }

// String is the canonical text: 16 upper-case and 16 lower-case hex digits.
func (t TUID) String() string {
	return strings.ToUpper(hex.EncodeToString(t[:8])) + hex.EncodeToString(t[8:])
}

// ParseTUID reads exactly 32 hex digits of any case.
func ParseTUID(s string) (TUID, error) {
	var t TUID
	if len(s) != 32 {
		return t, fmt.Errorf("%w: %q is not 32 hex digits", ErrTUID, s)
	}
	if _, err := hex.Decode(t[:], []byte(s)); err != nil {
		return t, fmt.Errorf("%w: %q: %w", ErrTUID, s, err)
	}
	return t, nil
}

// idSource mints increasing TUIDs. The clock never runs backwards and the
// counter starts at a random value, so ids of several processes do not meet.
type idSource struct {
	mu   sync.Mutex
	last uint64
	inc  uint64
}

// ids is the process-wide source; like a random generator it is state that no
// caller can observe but through uniqueness.
var ids = idSource{inc: rand.Uint64() >> 1}

func (s *idSource) next(n int) TUID {
	now := uint64(time.Now().UnixNano())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = max(s.last, now)
	first := s.inc + 1
	s.inc += uint64(n)
	return MakeTUID(s.last, first)
}

// NewTUID mints a fresh id, greater than all that this process minted before.
func NewTUID() TUID { return ids.next(1) }

// NewTUIDs mints n ids that follow each other by one counter step and returns the first.
func NewTUIDs(n int) TUID { return ids.next(max(n, 1)) }
