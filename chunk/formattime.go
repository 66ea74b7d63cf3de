package chunk

import (
	"fmt"
	"strconv"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

const secondsOfDay = 24 * 60 * 60

// Times outside these years have no text.
const (
	minYear = -262143
	maxYear = 262142
)

// appendTime writes dates, times, durations and intervals.
func (t *valueText) appendTime(b []byte, a arrow.Array, i int) []byte {
	switch a := a.(type) {
	case *array.Timestamp:
		dt := a.DataType().(*arrow.TimestampType)
		v := int64(a.Value(i))
		sec, ns := splitUnit(v, dt.Unit)
		at := time.Unix(sec, ns).UTC()
		if dt.TimeZone != "" {
			at = at.In(t.zones[dt.TimeZone])
		}
		if !inYears(sec) {
			return fmt.Appendf(b, "ERROR: Cast error: Failed to convert %d to datetime for %s", v, TypeText(dt))
		}
		b = appendClock(append(appendDate(b, at), 'T'), at)
		if dt.TimeZone == "" {
			return b
		}
		return at.AppendFormat(b, "Z07:00")
	case *array.Date32:
		v := int64(a.Value(i))
		if !inYears(v * secondsOfDay) {
			return appendNoTime(b, v, a)
		}
		return appendDate(b, time.Unix(v*secondsOfDay, 0).UTC())
	case *array.Date64:
		v := int64(a.Value(i))
		sec, ns := splitUnit(v, arrow.Millisecond)
		if !inYears(sec) {
			return appendNoTime(b, v, a)
		}
		at := time.Unix(sec, ns).UTC()
		return appendClock(append(appendDate(b, at), 'T'), at)
	case *array.Time32:
		return appendTimeOfDay(b, int64(a.Value(i)), a.DataType().(*arrow.Time32Type).Unit, a)
	case *array.Time64:
		return appendTimeOfDay(b, int64(a.Value(i)), a.DataType().(*arrow.Time64Type).Unit, a)
	case *array.Duration:
		return appendDuration(b, int64(a.Value(i)), a.DataType().(*arrow.DurationType).Unit)
	case *array.MonthInterval:
		v := a.Value(i)
		return appendParts(b, quantity{int64(v) / 12, "years"}, quantity{int64(v) % 12, "mons"})
	case *array.DayTimeInterval:
		v := a.Value(i)
		return appendInterval(b, 0, int64(v.Days), int64(v.Milliseconds), 1000, 3)
	case *array.MonthDayNanoInterval:
		v := a.Value(i)
		return appendInterval(b, int64(v.Months), int64(v.Days), v.Nanoseconds, 1e9, 9)
	}
	return append(b, a.ValueStr(i)...)
}

func appendNoTime(b []byte, v int64, a arrow.Array) []byte {
	return fmt.Appendf(b, "ERROR: Cast error: Failed to convert %d to temporal for %s", v, TypeText(a.DataType()))
}

// splitUnit is the whole seconds of a count, rounded down, and the nanoseconds left.
func splitUnit(v int64, u arrow.TimeUnit) (sec, ns int64) {
	perSecond := int64(time.Second / u.Multiplier())
	sec, rest := v/perSecond, v%perSecond
	if rest < 0 {
		sec, rest = sec-1, rest+perSecond
	}
	return sec, rest * int64(u.Multiplier())
}

func inYears(sec int64) bool {
	return sec >= time.Date(minYear, 1, 1, 0, 0, 0, 0, time.UTC).Unix() && sec < time.Date(maxYear+1, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
}

// appendDate writes an ISO 8601 date; years of more or fewer than four digits get a sign.
func appendDate(b []byte, at time.Time) []byte {
	switch y := at.Year(); {
	case y < 0:
		b = fmt.Appendf(b, "-%04d", -y)
	case y > 9999:
		b = fmt.Appendf(b, "+%d", y)
	default:
		b = fmt.Appendf(b, "%04d", y)
	}
	return at.AppendFormat(b, "-01-02")
}

// appendClock writes the time of day with no, 3, 6 or 9 digits after the point.
func appendClock(b []byte, at time.Time) []byte {
	b = at.AppendFormat(b, "15:04:05")
	switch ns := at.Nanosecond(); {
	case ns == 0:
		return b
	case ns%1e6 == 0:
		return fmt.Appendf(b, ".%03d", ns/1e6)
	case ns%1e3 == 0:
		return fmt.Appendf(b, ".%06d", ns/1e3)
	default:
		return fmt.Appendf(b, ".%09d", ns)
	}
}

func appendTimeOfDay(b []byte, v int64, u arrow.TimeUnit, a arrow.Array) []byte {
	sec, ns := splitUnit(v, u)
	if sec < 0 || sec >= secondsOfDay {
		return appendNoTime(b, v, a)
	}
	return appendClock(b, time.Unix(sec, ns).UTC())
}

// appendDuration writes an ISO 8601 duration in seconds, such as PT1.5S.
func appendDuration(b []byte, v int64, u arrow.TimeUnit) []byte {
	const limit = 1<<63 - 1
	switch {
	case v == 0:
		return append(b, "P0D"...)
	case u == arrow.Second && (v > limit/1000 || v < -limit/1000), u == arrow.Millisecond && v < -limit:
		return append(b, "<invalid>"...)
	}
	perSecond := uint64(time.Second / u.Multiplier())
	abs := uint64(v)
	if v < 0 {
		b, abs = append(b, '-'), -abs
	}
	b = strconv.AppendUint(append(b, "PT"...), abs/perSecond, 10)
	if frac := abs % perSecond * uint64(u.Multiplier()); frac > 0 {
		b = fmt.Appendf(b, ".%09d", frac)
		for b[len(b)-1] == '0' {
			b = b[:len(b)-1]
		}
	}
	return append(b, 'S')
}

type quantity struct {
	n    int64
	unit string
}

// appendParts writes the parts that are not zero.
func appendParts(b []byte, parts ...quantity) []byte {
	start := len(b)
	for _, p := range parts {
		if p.n != 0 {
			if len(b) > start {
				b = append(b, ' ')
			}
			b = append(append(strconv.AppendInt(b, p.n, 10), ' '), p.unit...)
		}
	}
	return b
}

// appendInterval writes months, days and a count of fractions of a second; all
// of them may be negative.
func appendInterval(b []byte, months, days, fractions, perSecond int64, digits int) []byte {
	start := len(b)
	minute := 60 * perSecond
	b = appendParts(b, quantity{months, "mons"}, quantity{days, "days"}, quantity{fractions / (60 * minute), "hours"}, quantity{fractions / minute % 60, "mins"})
	rest := fractions % minute
	switch {
	case rest == 0 && len(b) == start:
		return append(b, "0 secs"...)
	case rest == 0:
		return b
	}
	if len(b) > start {
		b = append(b, ' ')
	}
	if rest < 0 {
		b, rest = append(b, '-'), -rest
	}
	return fmt.Appendf(b, "%d.%0*d secs", rest/perSecond, digits, rest%perSecond)
}
