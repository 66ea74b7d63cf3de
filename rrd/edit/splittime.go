package edit

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/reelhouse/reelhouse/chunk"
)

// parseTime reads a time of a timeline: a number of its unit, or for timestamps
// also a date, alone or with a time of day, in UTC where no zone is said.
func parseTime(kind chunk.TimeKind, text string) (int64, error) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, nil
	}
	if kind == chunk.Timestamp {
		for _, layout := range []string{time.RFC3339Nano, "2006-01-02 15:04:05.999999999Z07:00", "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999", time.DateOnly} {
			if t, err := time.Parse(layout, text); err == nil {
				return t.UnixNano(), nil
			}
		}
	}
	return 0, fmt.Errorf("%w: %q is no time of a %s timeline", ErrCutoffs, text, kind)
}

var fileSafe = strings.NewReplacer(":", "_", ".", "_")

// timeLabel is a time as it stands in file names.
func timeLabel(kind chunk.TimeKind, t int64) string {
	switch kind {
	case chunk.Timestamp:
		return fileSafe.Replace(time.Unix(0, t).UTC().Format(time.RFC3339Nano))
	case chunk.Duration:
		return fileSafe.Replace(durationLabel(t))
	}
	return strconv.FormatInt(t, 10)
}

// durationLabel writes a duration in the largest unit that leaves a whole part.
func durationLabel(ns int64) string {
	sign, abs := "", uint64(ns)
	if ns < 0 {
		sign, abs = "-", -abs
	}
	for _, u := range []struct {
		name string
		size uint64
	}{{"s", 1e9}, {"ms", 1e6}, {"µs", 1e3}} {
		if abs < u.size {
			continue
		}
		text := sign + strconv.FormatUint(abs/u.size, 10)
		if rest := abs % u.size; rest > 0 {
			digits := strconv.FormatUint(u.size+rest, 10)[1:]
			text += "." + strings.TrimRight(digits, "0")
		}
		return text + u.name
	}
	return sign + strconv.FormatUint(abs, 10) + "ns"
}
