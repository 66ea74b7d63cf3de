package mcap

import (
	"errors"
	"math"
	"strings"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/reelhouse/reelhouse/source/internal/columnar"
	"github.com/reelhouse/reelhouse/source/internal/mcapfile"
	"github.com/reelhouse/reelhouse/source/internal/rosmsg"
)

// isROS2 tells whether a channel has CDR messages of a ROS 2 definition.
func isROS2(c *mcapfile.Channel) bool {
	return c.Schema != nil && c.Schema.Encoding == "ros2msg" && strings.EqualFold(c.MessageEncoding, "cdr")
}

// newROS2Reflection decodes messages by their definition (spec/readers.md 1.5c).
func newROS2Reflection(s *scan, c *mcapfile.Channel) (channelDecoder, error) {
	if !isROS2(c) {
		if c.Schema != nil && c.Schema.Encoding == "ros2msg" {
			s.warnOnce("topic %s: messages of ROS 2 schema %s have encoding %q instead of cdr", c.Topic, c.Schema.Name, c.MessageEncoding)
		}
		return nil, nil
	}
	def, err := rosmsg.Parse(c.Schema.Name, string(c.Schema.Data))
	if err != nil {
		if errors.Is(err, rosmsg.ErrWString) {
			s.warnOnce("ROS 2 schema %s uses wstring: its channels are kept raw", c.Schema.Name)
		} else {
			s.warnOnce("ROS 2 schema %s: %v: its channels are kept raw", c.Schema.Name, err)
		}
		return nil, nil
	}
	return &reflector{def: def, dt: def.ArrowType(), stamp: def.StampPath(),
		archetype: strings.ReplaceAll(c.Schema.Name, "/", ".")}, nil
}

type reflector struct {
	def       *rosmsg.Message
	dt        *arrow.StructType
	stamp     []int // path to the stamp in the struct, nil for none
	archetype string

	mu   sync.Mutex
	hint columnar.Hint
}

func (d *reflector) begin(messages, size int) batch {
	b := &reflectBatch{reflector: d, decoder: d.def.NewDecoder(d.dt)}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hint.Reserve(b.decoder.Rows, messages, size)
	return b
}

type reflectBatch struct {
	*reflector
	decoder *rosmsg.Decoder
}

func (b *reflectBatch) add(m *mcapfile.Message) error { return b.decoder.Decode(m.Data) }

func (b *reflectBatch) undo(rows int) { b.decoder.Rows.Truncate(rows) }

func (b *reflectBatch) finish(o *output) {
	b.mu.Lock()
	b.hint.Note(b.decoder.Rows)
	b.mu.Unlock()
	rows := columnar.Array(b.decoder.Rows).(*array.Struct)
	if b.stamp == nil {
		o.message(b.archetype, rows)
		return
	}
	stamp := rows
	for _, i := range b.stamp {
		stamp = stamp.Field(i).(*array.Struct)
	}
	times, ok := stampTimes(stamp)
	if !ok {
		o.s.warnOnce("topic %s: a stamp before 1970: the chunk has no timeline %s", o.channel.Topic, ros2Timeline)
		o.message(b.archetype, rows)
		return
	}
	o.message(b.archetype, rows, o.timeColumn(ros2Timeline, times))
}

// stampTimes are the times of stamps in nanoseconds; ok is false if one is
// negative.
func stampTimes(stamps *array.Struct) (times []int64, ok bool) {
	dt := stamps.DataType().(*arrow.StructType)
	field := func(name string) arrow.Array {
		i, _ := dt.FieldIdx(name)
		return stamps.Field(i)
	}
	sec, nanosec := field("sec").(*array.Int32).Int32Values(), field("nanosec").(*array.Uint32).Uint32Values()
	times = make([]int64, len(sec))
	for i := range times {
		if sec[i] < 0 {
			return nil, false
		}
		times[i] = stampTime(sec[i], nanosec[i])
	}
	return times, true
}

// stampTime is a stamp in nanoseconds as the fixed parsers take it: a time
// before 1970 wraps around and ends as the greatest there is.
func stampTime(sec int32, nanosec uint32) int64 {
	t := int64(sec)*1e9 + int64(nanosec)
	if t < 0 {
		return math.MaxInt64
	}
	return t
}
