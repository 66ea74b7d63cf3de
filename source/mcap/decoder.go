package mcap

import (
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/reelhouse/reelhouse/chunk"
	"github.com/reelhouse/reelhouse/source/internal/mcapfile"
)

// How decoders plug in.
//
// A decoder has a name that Options.Decoders selects it by, and is a line in
// one of the registries below; its code is a file of its own. There are four
// kinds, run in this order (spec/readers.md 1.2):
//
//   - A fileDecoder makes static chunks of the file's table of contents.
//   - A messageDecoder decodes the messages of a channel. Each channel goes to
//     the first selected one that supports it. It gives fixed output (raw,
//     ros2msg) or one column of structs (ros2_reflection, protobuf), which it
//     hands to output.message.
//   - A lens takes such a column of structs of a certain type and gives
//     archetypes instead. Lenses are found by component identifier.
//   - A tailDecoder sees the last message of the channels it wants, and makes
//     static chunks after all others.
//
// Decoders keep no state outside what their functions return.

// fileDecoder makes static chunks of what is known before any message is read.
type fileDecoder struct {
	name string
	run  func(s *scan, emit func(*chunk.Chunk))
}

// fileDecoders run in this order, which is that of their names.
var fileDecoders = []fileDecoder{
	{"attachments", decodeAttachments},
	{"metadata", decodeMetadata},
	{"recording_info", decodeRecordingInfo},
	{"schema", decodeSchemas},
	{"stats", decodeStatistics},
}

// messageDecoder decodes channels.
type messageDecoder struct {
	name string
	// rank orders the output of an MCAP chunk: decoders are run in the order of
	// their names.
	rank int
	// channel returns a decoder for a channel, or nil if this one does not
	// support it, after a s.warnOnce if the user should know why. An error fails
	// the whole file.
	channel func(s *scan, c *mcapfile.Channel) (channelDecoder, error)
}

// messageDecoders in the order in which they are asked to take a channel. The
// last one takes every channel; it is also the fallback of selected ones.
var messageDecoders = []messageDecoder{
	{"ros2msg", 3, newROS2Fixed},
	{"ros2_reflection", 2, newROS2Reflection},
	{"protobuf", 0, newProtobuf},
	{"raw", 1, newRaw},
}

// channelDecoder decodes the messages of one channel. begin may be called from
// several goroutines at once; each batch is used by one.
type channelDecoder interface {
	// begin starts a batch for messages that hold size bytes in all. All of them
	// are from one MCAP chunk.
	begin(messages, size int) batch
}

// batch decodes messages into the rows of one or more output chunks.
type batch interface {
	// add decodes a message, whose data is only good during the call, as one more
	// row. After an error, which may also be a panic with columnar.ErrFull, the
	// row is taken back by undo and the message is lost.
	add(m *mcapfile.Message) error
	// undo drops what a failed add left beyond the given number of rows.
	undo(rows int)
	// finish gives the rows to o; the batch is not used afterwards. Only called
	// if there is at least one row.
	finish(o *output)
}

// lens turns a column of message structs into the chunks of archetypes that it
// emits. What it cannot use it reports with s.failOnce and leaves null.
type lens func(o *output, d *decoded)

// lensSets are the lenses of each decoder name, by the component identifier
// they match, such as sensor_msgs.msg.Image:message.
var lensSets = []struct {
	decoder string
	lenses  map[string]lens
}{
	{"ros2msg", ros2Lenses},
	{"foxglove", foxgloveLenses},
}

// lensFor returns the enabled lens for a component identifier.
func (s *scan) lensFor(component string) lens {
	for _, set := range lensSets {
		if l, ok := set.lenses[component]; ok && s.selected(set.decoder) {
			return l
		}
	}
	return nil
}

// decoded is a batch of messages as structs, with a row and its times a message.
type decoded struct {
	archetype string // full name of the message type
	times     []chunk.TimeColumn
	rows      *array.Struct
}

// tailDecoder makes chunks after all messages.
type tailDecoder struct {
	name  string
	wants func(c *mcapfile.Channel) bool
	// run gets the last whole message, in file order and whatever the time range,
	// of each channel it wanted and that has one, by channel id.
	run func(s *scan, last []lastMessage, emit func(*chunk.Chunk))
	// whole tells whether a message can be used.
	whole func(data []byte) bool
}

type lastMessage struct {
	channel *mcapfile.Channel
	data    []byte
}

var tailDecoders = []tailDecoder{
	{"urdf", wantsRobotDescription, decodeRobotDescriptions, isCDRString},
}

// output takes the rows of a batch and makes chunks of them. Its methods report
// failures to the scan and never return them: the other chunks go on.
type output struct {
	s       *scan
	channel *mcapfile.Channel
	entity  chunk.EntityPath // of the topic

	// Times of the rows: those of add calls that did not fail.
	log, publish []int64

	chunks []*chunk.Chunk
}

// Names of the timelines that the reader makes.
const (
	logTimeline     = "message_log_time"
	publishTimeline = "message_publish_time"
	ros2Timeline    = "ros2_timestamp"
)

// times are the time columns of all rows: log and publish time, and more.
func (o *output) times(more ...chunk.TimeColumn) []chunk.TimeColumn {
	out := make([]chunk.TimeColumn, 0, 2+len(more))
	return append(append(out, o.timeColumn(logTimeline, o.log), o.timeColumn(publishTimeline, o.publish)), more...)
}

// timeColumn makes a time column of the kind that the options ask for, without
// the options' offset: that is added when the chunk is made.
func (o *output) timeColumn(name string, times []int64) chunk.TimeColumn {
	return chunk.NewTimeColumn(name, o.s.opts.TimelineType, times)
}

// temporal emits a chunk; times and columns have the same number of rows.
// Without rows or columns nothing is emitted.
func (o *output) temporal(entity chunk.EntityPath, times []chunk.TimeColumn, components ...chunk.Component) {
	if len(components) == 0 || components[0].Values.Len() == 0 {
		return
	}
	if d := o.s.opts.TimestampOffset; d != 0 && o.s.opts.TimelineType == chunk.Timestamp {
		shifted := make([]chunk.TimeColumn, len(times))
		for i, t := range times {
			v := make([]int64, len(t.Times))
			for j, x := range t.Times {
				v[j] = saturatingAdd(x, d)
			}
			shifted[i] = chunk.NewTimeColumn(t.Name, t.Kind, v)
		}
		times = shifted
	}
	o.add(entity, times, components)
}

// static emits a chunk without timelines.
func (o *output) static(entity chunk.EntityPath, components ...chunk.Component) {
	if len(components) > 0 {
		o.add(entity, nil, components)
	}
}

func (o *output) add(entity chunk.EntityPath, times []chunk.TimeColumn, components []chunk.Component) {
	c, err := chunk.New(entity, times, components)
	if err != nil {
		o.s.failOnce("topic %s: %v", o.channel.Topic, err)
		return
	}
	o.chunks = append(o.chunks, c)
}

// message emits the rows of a reflecting decoder: through the lens for its type
// if there is one, else as the component "message" of archetype.
func (o *output) message(archetype string, rows *array.Struct, more ...chunk.TimeColumn) {
	d := &decoded{archetype: archetype, times: o.times(more...), rows: rows}
	desc := chunk.Descriptor{Archetype: archetype, Component: archetype + ":message"}
	if l := o.s.lensFor(desc.Component); l != nil {
		l(o, d)
		return
	}
	o.temporal(o.entity, d.times, chunk.Component{Descriptor: desc, Values: listOfOne(rows)})
}

// listOfOne makes each value, null or not, a list of one. The values are shared.
func listOfOne(values arrow.Array) *array.List {
	return listOf(values, evenOffsets(values.Len(), 1))
}

func saturatingAdd(a, b int64) int64 {
	switch c := a + b; {
	case b > 0 && c < a:
		return math.MaxInt64
	case b < 0 && c > a:
		return math.MinInt64
	default:
		return c
	}
}

// clampTime makes a time of an MCAP file one of ours.
func clampTime(t uint64) int64 { return int64(min(t, math.MaxInt64)) }
