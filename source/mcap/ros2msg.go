package mcap

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/reelhouse/reelhouse/chunk"
	"github.com/reelhouse/reelhouse/source/internal/cdr"
	"github.com/reelhouse/reelhouse/source/internal/columnar"
	"github.com/reelhouse/reelhouse/source/internal/mcapfile"
	"github.com/reelhouse/reelhouse/source/internal/rosmsg"
)

// Message types with a fixed parser (spec/readers.md 1.5a). Their definition in
// the file is not looked at.
var fixedParsers = map[string]func() fixedParser{
	"sensor_msgs/msg/Imu":            newIMU,
	"sensor_msgs/msg/JointState":     newJointState,
	"sensor_msgs/msg/Joy":            newJoy,
	"sensor_msgs/msg/BatteryState":   newBatteryState,
	"sensor_msgs/msg/Range":          newRange,
	"std_msgs/msg/Float64MultiArray": newFloat64MultiArray,
	"std_msgs/msg/Float64Array":      newFloat64Array,
	"sensor_msgs/msg/PointCloud2":    newPointCloud,
}

// fixedParser parses messages of one type into rows.
type fixedParser interface {
	parse(r *cdr.Reader)
	undo(rows int)
	finish(o *output)
}

func newROS2Fixed(_ *scan, c *mcapfile.Channel) (channelDecoder, error) {
	if !isROS2(c) {
		return nil, nil
	}
	if newParser := fixedParsers[c.Schema.Name]; newParser != nil {
		return fixedDecoder{newParser}, nil
	}
	return nil, nil
}

type fixedDecoder struct{ newParser func() fixedParser }

func (d fixedDecoder) begin(int, int) batch { return &fixedBatch{parser: d.newParser()} }

type fixedBatch struct {
	parser fixedParser
	reader cdr.Reader
}

func (b *fixedBatch) add(m *mcapfile.Message) error {
	if err := b.reader.Reset(m.Data); err != nil {
		return err
	}
	b.parser.parse(&b.reader)
	return b.reader.Err()
}

func (b *fixedBatch) undo(rows int) { b.parser.undo(rows) }

func (b *fixedBatch) finish(o *output) { b.parser.finish(o) }

// headers collects std_msgs/msg/Header fields.
type headers struct {
	stamps []int64
	frames *columnar.Bytes
}

func newHeaders() headers {
	return headers{frames: columnar.MustNew[*columnar.Bytes](arrow.BinaryTypes.String)}
}

func (h *headers) parse(r *cdr.Reader) {
	sec, nanosec := r.Int32(), r.Uint32()
	h.stamps = append(h.stamps, stampTime(sec, nanosec))
	rosmsg.AppendText(h.frames, r)
}

func (h *headers) undo(rows int) {
	h.stamps = h.stamps[:min(rows, len(h.stamps))]
	h.frames.Truncate(rows)
}

// times are the time columns of the rows with that of the stamps.
func (h *headers) times(o *output) []chunk.TimeColumn {
	return o.times(o.timeColumn(ros2Timeline, h.stamps))
}

func frameOf(frames *array.List) chunk.Component {
	return column(of("CoordinateFrame", "frame", "TransformFrameId"), frames)
}

func (h *headers) frame() chunk.Component { return frameOf(listOfOne(columnar.Array(h.frames))) }

func scalars(values *columnar.List) chunk.Component {
	return component(of("Scalars", "scalars", "Scalar"), values)
}

// emitNames emits the names of the series of the topic's scalars.
func emitNames(o *output, names ...string) {
	c := columnar.MustNew[*columnar.Bytes](arrow.BinaryTypes.String)
	for _, n := range names {
		c.AppendString(n)
	}
	o.static(o.entity, column(of("SeriesLines", "names", "Name"), oneRow(columnar.Array(c))))
}

// doubleRows is a list of float64 a row.
type doubleRows struct {
	*columnar.List
	items *columnar.Fixed[float64]
}

func newDoubleRows() doubleRows {
	l := rowsOf(arrow.PrimitiveTypes.Float64)
	return doubleRows{l, l.Items.(*columnar.Fixed[float64])}
}

// row adds a row of given values.
func (d doubleRows) row(v ...float64) {
	copy(d.items.Extend(len(v)), v)
	d.End()
}

// sequence adds a row of a message's sequence.
func sequence[T columnar.Number](d doubleRows, r *cdr.Reader, read func(*cdr.Reader) T, size int) {
	for i, n := 0, r.Count(size); i < n && r.Err() == nil; i++ {
		d.items.Append(float64(read(r)))
	}
	d.End()
}

// imu: sensor_msgs/msg/Imu.
type imu struct {
	headers
	values, orientation doubleRows
}

func newIMU() fixedParser { return &imu{newHeaders(), newDoubleRows(), newDoubleRows()} }

func (p *imu) parse(r *cdr.Reader) {
	p.headers.parse(r)
	skip := func(n int) { r.Array(n, 8) }
	read := func(to []float64) {
		for i := range to {
			to[i] = r.Float64()
		}
	}
	read(p.orientation.items.Extend(4))
	p.orientation.End()
	skip(9)
	v := p.values.items.Extend(6)
	read(v[:3])
	skip(9)
	read(v[3:])
	skip(9)
	p.values.End()
}

func (p *imu) undo(rows int) {
	p.headers.undo(rows)
	p.values.Truncate(rows)
	p.orientation.Truncate(rows)
}

func (p *imu) finish(o *output) {
	o.temporal(o.entity, p.times(o), scalars(p.values.List), p.frame(),
		component(rosField("sensor_msgs.msg.Imu", "orientation", ""), p.orientation.List))
	emitNames(o, "gyroscope/x", "gyroscope/y", "gyroscope/z", "accelerometer/x", "accelerometer/y", "accelerometer/z")
}

// rosField describes a field that keeps the name of its ROS type.
func rosField(archetype, field, componentType string) chunk.Descriptor {
	return chunk.Descriptor{Archetype: archetype, Component: archetype + ":" + field, Type: componentType}
}

// jointState: sensor_msgs/msg/JointState.
type jointState struct {
	headers
	names  *columnar.List
	values [3]doubleRows
}

func newJointState() fixedParser {
	return &jointState{newHeaders(), rowsOf(arrow.BinaryTypes.String), [3]doubleRows{newDoubleRows(), newDoubleRows(), newDoubleRows()}}
}

func (p *jointState) parse(r *cdr.Reader) {
	p.headers.parse(r)
	for i, n := 0, r.Count(4); i < n && r.Err() == nil; i++ {
		rosmsg.AppendText(p.names.Items.(*columnar.Bytes), r)
	}
	p.names.End()
	for _, v := range p.values {
		sequence(v, r, (*cdr.Reader).Float64, 8)
	}
}

func (p *jointState) undo(rows int) {
	p.headers.undo(rows)
	p.names.Truncate(rows)
	for _, v := range p.values {
		v.Truncate(rows)
	}
}

func (p *jointState) finish(o *output) {
	times, names := p.times(o), component(of("SeriesLines", "names", "Name"), p.names)
	for i, part := range []string{"position", "velocity", "effort"} {
		o.temporal(o.entity.Join(part), times, scalars(p.values[i].List), names)
	}
	o.temporal(o.entity, times, p.frame())
}

// joy: sensor_msgs/msg/Joy.
type joy struct {
	headers
	axes, buttons doubleRows
}

func newJoy() fixedParser { return &joy{newHeaders(), newDoubleRows(), newDoubleRows()} }

func (p *joy) parse(r *cdr.Reader) {
	p.headers.parse(r)
	sequence(p.axes, r, (*cdr.Reader).Float32, 4)
	sequence(p.buttons, r, (*cdr.Reader).Int32, 4)
}

func (p *joy) undo(rows int) {
	p.headers.undo(rows)
	p.axes.Truncate(rows)
	p.buttons.Truncate(rows)
}

func (p *joy) finish(o *output) {
	times := p.times(o)
	o.temporal(o.entity.Join("axes"), times, scalars(p.axes.List))
	o.temporal(o.entity.Join("buttons"), times, scalars(p.buttons.List))
	o.temporal(o.entity, times, p.frame())
}

// batteryState: sensor_msgs/msg/BatteryState.
type batteryState struct {
	headers
	values doubleRows
}

func newBatteryState() fixedParser { return &batteryState{newHeaders(), newDoubleRows()} }

func (p *batteryState) parse(r *cdr.Reader) {
	p.headers.parse(r)
	voltage, temperature, current, charge := r.Float32(), r.Float32(), r.Float32(), r.Float32()
	r.Float32() // capacity
	r.Float32() // design capacity
	percentage := r.Float32()
	r.Array(4, 1)          // status, health, technology, present
	r.Array(r.Count(4), 4) // cell voltages
	r.Array(r.Count(4), 4) // cell temperatures
	r.Text()               // location
	r.Text()               // serial number
	p.values.row(float64(percentage), float64(voltage), float64(current), float64(charge), float64(temperature))
}

func (p *batteryState) undo(rows int) {
	p.headers.undo(rows)
	p.values.Truncate(rows)
}

func (p *batteryState) finish(o *output) {
	o.temporal(o.entity, p.times(o), scalars(p.values.List))
	emitNames(o, "percentage", "voltage", "current", "charge", "temperature")
}

// rangeReading: sensor_msgs/msg/Range.
type rangeReading struct {
	headers
	values doubleRows
}

func newRange() fixedParser { return &rangeReading{newHeaders(), newDoubleRows()} }

func (p *rangeReading) parse(r *cdr.Reader) {
	p.headers.parse(r)
	r.Uint8()   // radiation type
	r.Float32() // field of view
	least, most, value := r.Float32(), r.Float32(), r.Float32()
	p.values.row(float64(value), float64(least), float64(most))
}

func (p *rangeReading) undo(rows int) {
	p.headers.undo(rows)
	p.values.Truncate(rows)
}

func (p *rangeReading) finish(o *output) {
	o.temporal(o.entity, p.times(o), scalars(p.values.List))
	emitNames(o, "range", "min_range", "max_range")
}

// float64Array: std_msgs/msg/Float64MultiArray, and std_msgs/msg/Float64Array,
// which has no layout.
type float64Array struct {
	values doubleRows
	layout bool
}

func newFloat64MultiArray() fixedParser { return &float64Array{newDoubleRows(), true} }

func newFloat64Array() fixedParser { return &float64Array{newDoubleRows(), false} }

func (p *float64Array) parse(r *cdr.Reader) {
	if p.layout {
		for i, n := 0, r.Count(12); i < n && r.Err() == nil; i++ { // dimensions
			r.Text()
			r.Uint32()
			r.Uint32()
		}
		r.Uint32() // data offset
	}
	sequence(p.values, r, (*cdr.Reader).Float64, 8)
}

func (p *float64Array) undo(rows int) { p.values.Truncate(rows) }

func (p *float64Array) finish(o *output) { o.temporal(o.entity, o.times(), scalars(p.values.List)) }
