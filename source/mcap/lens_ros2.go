package mcap

import (
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/reelhouse/reelhouse/chunk"
	"github.com/reelhouse/reelhouse/source/internal/columnar"
)

// ros2Lenses are the semantic ROS 2 messages (spec/readers.md 1.5b).
var ros2Lenses = map[string]lens{
	"sensor_msgs.msg.Image:message":            lensImage,
	"sensor_msgs.msg.CompressedImage:message":  lensCompressedImage,
	"sensor_msgs.msg.CameraInfo:message":       lensOf(cameraInfo),
	"sensor_msgs.msg.NavSatFix:message":        lensOf(navSatFix),
	"sensor_msgs.msg.MagneticField:message":    lensOf(magneticField),
	"sensor_msgs.msg.Temperature:message":      lensOf(measurement("temperature", "°C")),
	"sensor_msgs.msg.FluidPressure:message":    lensOf(measurement("fluid_pressure", "Pa")),
	"sensor_msgs.msg.Illuminance:message":      lensOf(measurement("illuminance", "lux")),
	"sensor_msgs.msg.RelativeHumidity:message": lensOf(measurement("relative_humidity", "")),
	"geometry_msgs.msg.PoseStamped:message":    lensOf(poseStamped),
	"tf2_msgs.msg.TFMessage:message":           lensTransforms,
	"nav_msgs.msg.OccupancyGrid:message":       lensOf(occupancyGrid),
	"nav2_msgs.msg.VoxelGrid:message":          lensOf(voxelGrid),
	"rcl_interfaces.msg.Log:message":           lensOf(rosLog),
	"std_msgs.msg.String:message":              lensOf(rosString),
}

// lensOf is a lens that gives one chunk with a row a message. What convert
// cannot make of a row it leaves null, after a call of fail; components that
// are null in all rows are left out.
func lensOf(convert func(f *fields, fail func(error)) []chunk.Component) lens {
	return func(o *output, d *decoded) {
		f := &fields{in: d.rows}
		fail := func(err error) { o.s.failOnce("topic %s: %s: %v", o.channel.Topic, d.archetype, err) }
		components := convert(f, fail)
		if f.err != nil {
			// The type is not what its name says: keep what was decoded.
			fail(f.err)
			o.temporal(o.entity, d.times, chunk.Component{
				Descriptor: chunk.Descriptor{Archetype: d.archetype, Component: d.archetype + ":message"}, Values: listOfOne(d.rows)})
			return
		}
		o.temporal(o.entity, d.times, present(components...)...)
	}
}

// headerFrame is the frame of messages with a header.
func headerFrame(f *fields) chunk.Component {
	ids := get[*array.String](f, "header", "frame_id")
	if f.err != nil {
		return chunk.Component{}
	}
	return frameOf(listOfOne(ids))
}

func cameraInfo(f *fields, _ func(error)) []chunk.Component {
	ids := get[*array.String](f, "header", "frame_id")
	widths, heights, ks := get[*array.Uint32](f, "width"), get[*array.Uint32](f, "height"), get[*array.List](f, "k")
	if f.err != nil {
		return nil
	}
	values, ok := ks.ListValues().(*array.Float64)
	if !ok {
		f.err = fmt.Errorf("field k has type %v", ks.DataType())
		return nil
	}
	n := f.in.Len()
	matrix := rowsOf(arrow.FixedSizeListOfNonNullable(9, arrow.PrimitiveTypes.Float32))
	for i := range n {
		from, to := ks.ValueOffsets(i)
		if to-from != 9 {
			matrix.AppendNull()
			continue
		}
		appendMatrix(matrix, values.Float64Values()[from:to])
	}
	w, h := make([]float64, n), make([]float64, n)
	for i := range n {
		w[i], h[i] = float64(widths.Value(i)), float64(heights.Value(i))
	}
	return []chunk.Component{
		component(of("Pinhole", "image_from_camera", "PinholeProjection"), matrix),
		vectorRows(of("Pinhole", "resolution", "Resolution"), w, h),
		column(of("Pinhole", "parent_frame", "TransformFrameId"), listOfOne(ids)),
		column(of("Pinhole", "child_frame", "TransformFrameId"), imageFrames(ids)),
	}
}

// appendMatrix appends a row with a 3×3 matrix, from row-major to column-major order.
func appendMatrix(rows *columnar.List, k []float64) {
	item := rows.Items.(*columnar.FixedList)
	v := item.Items.(*columnar.Fixed[float32]).Extend(9)
	for i := range v {
		v[i] = float32(k[i%3*3+i/3])
	}
	item.End()
	rows.End()
}

func navSatFix(f *fields, _ func(error)) []chunk.Component {
	frame := headerFrame(f)
	v := f.doubles("latitude", "longitude", "altitude")
	if f.err != nil {
		return nil
	}
	return []chunk.Component{frame, latLon(v[0], v[1]),
		column(chunk.Descriptor{Archetype: "sensor_msgs.msg.NavSatFix", Component: "altitude"}, numbersOf(arrow.PrimitiveTypes.Float64, v[2]...))}
}

// latLon makes geographic positions, one a row.
func latLon(lat, lon []float64) chunk.Component {
	c := columnar.MustNew[*columnar.FixedList](arrow.FixedSizeListOfNonNullable(2, arrow.PrimitiveTypes.Float64))
	v := c.Items.(*columnar.Fixed[float64]).Extend(2 * len(lat))
	for i := range lat {
		v[2*i], v[2*i+1] = lat[i], lon[i]
	}
	c.EndRows(len(lat))
	return column(of("GeoPoints", "positions", "LatLon"), listOfOne(columnar.Array(c)))
}

func magneticField(f *fields, _ func(error)) []chunk.Component {
	frame := headerFrame(f)
	field := f.sub("magnetic_field")
	v := field.doubles("x", "y", "z")
	if f.err = errors.Join(f.err, field.err); f.err != nil {
		return nil
	}
	return []chunk.Component{frame, vectorRows(of("Arrows3D", "vectors", "Vector3D"), v...)}
}

func measurement(name, unit string) func(f *fields, fail func(error)) []chunk.Component {
	return func(f *fields, _ func(error)) []chunk.Component {
		frame := headerFrame(f)
		v := f.doubles(name, "variance")
		if f.err != nil {
			return nil
		}
		out := []chunk.Component{frame,
			column(of("Measurements", "values", "Scalar"), numbersOf(arrow.PrimitiveTypes.Float64, v[0]...)),
			column(of("Measurements", "variances", "Variance"), numbersOf(arrow.PrimitiveTypes.Float64, v[1]...)),
		}
		if unit != "" {
			units := make([]string, len(v[0]))
			for i := range units {
				units[i] = unit
			}
			out = append(out, column(of("Measurements", "units", "Unit"), texts(units...)))
		}
		return out
	}
}

// pose reads a geometry_msgs/msg/Pose as columns of position and orientation.
func pose(f *fields, path ...string) (position, orientation [][]float64) {
	in := f.sub(path...)
	p, q := in.sub("position"), in.sub("orientation")
	position, orientation = p.doubles("x", "y", "z"), q.doubles("x", "y", "z", "w")
	f.err = errors.Join(p.err, q.err)
	return position, orientation
}

func poseStamped(f *fields, _ func(error)) []chunk.Component {
	frame := headerFrame(f)
	position, orientation := pose(f, "pose")
	if f.err != nil {
		return nil
	}
	return []chunk.Component{frame,
		vectorRows(of("InstancePoses3D", "translations", "Translation3D"), position...),
		vectorRows(of("InstancePoses3D", "quaternions", "RotationQuat"), orientation...),
	}
}

// lensTransforms gives a row a transform; a message without any gives a row of
// empty lists.
func lensTransforms(o *output, d *decoded) {
	fail := func(err error) { o.s.failOnce("topic %s: transforms: %v", o.channel.Topic, err) }
	f := &fields{in: d.rows}
	list := get[*array.List](f, "transforms")
	if f.err != nil {
		fail(f.err)
		return
	}
	items, ok := list.ListValues().(*array.Struct)
	if !ok {
		fail(fmt.Errorf("field transforms has type %v", list.DataType()))
		return
	}
	t := &fields{in: items}
	parents, children := get[*array.String](t, "header", "frame_id"), get[*array.String](t, "child_frame_id")
	translation, rotation := t.sub("transform", "translation"), t.sub("transform", "rotation")
	xyz, quat := translation.doubles("x", "y", "z"), rotation.doubles("x", "y", "z", "w")
	if err := errors.Join(t.err, translation.err, rotation.err); err != nil {
		fail(err)
		return
	}
	// Row of the message that each row comes from, and how many values it has.
	var source []int
	offsets := []int32{0}
	for i := range d.rows.Len() {
		from, to := list.ValueOffsets(i)
		if from == to {
			source, offsets = append(source, i), append(offsets, int32(from))
		}
		for j := from; j < to; j++ {
			source, offsets = append(source, i), append(offsets, int32(j+1))
		}
	}
	times := make([]chunk.TimeColumn, len(d.times))
	for k, c := range d.times {
		v := make([]int64, len(source))
		for j, i := range source {
			v[j] = c.Times[i]
		}
		times[k] = chunk.NewTimeColumn(c.Name, c.Kind, v)
	}
	respan := func(c chunk.Component) chunk.Component {
		c.Values = listOf(c.Values.ListValues(), offsets)
		return c
	}
	o.temporal(o.entity, times,
		column(of("Transform3D", "parent_frame", "TransformFrameId"), listOf(parents, offsets)),
		column(of("Transform3D", "child_frame", "TransformFrameId"), listOf(children, offsets)),
		respan(vectorRows(of("Transform3D", "translation", "Translation3D"), xyz...)),
		respan(vectorRows(of("Transform3D", "quaternion", "RotationQuat"), quat...)),
	)
}

func rosLog(f *fields, _ func(error)) []chunk.Component {
	names, msgs := get[*array.String](f, "name"), get[*array.String](f, "msg")
	levels := get[*array.Uint8](f, "level")
	files, functions, lines := get[*array.String](f, "file"), get[*array.String](f, "function"), get[*array.Uint32](f, "line")
	if f.err != nil {
		return nil
	}
	n := f.in.Len()
	text := columnar.MustNew[*columnar.Bytes](arrow.BinaryTypes.String)
	level, color := make([]string, n), make([]uint32, n)
	for i := range n {
		fmt.Fprintf(text, "[%s] %s", names.Value(i), msgs.Value(i))
		text.End()
		level[i], color[i] = rosLevel(levels.Value(i))
	}
	own := func(name string, values arrow.Array) chunk.Component {
		return column(chunk.Descriptor{Archetype: "rcl_interfaces.msg.Log", Component: name}, listOfOne(values))
	}
	return []chunk.Component{
		column(of("TextLog", "text", "Text"), listOfOne(columnar.Array(text))),
		column(of("TextLog", "level", "TextLogLevel"), texts(level...)),
		column(of("TextLog", "color", "Color"), numbersOf(arrow.PrimitiveTypes.Uint32, color...)),
		own("file", files), own("function", functions), own("line", lines),
	}
}

func rosLevel(level uint8) (name string, rgba uint32) {
	const other = 0x808080FF
	switch level {
	case 10:
		return "DEBUG", other
	case 20:
		return "INFO", 0x0080FFFF
	case 30:
		return "WARN", 0xFFA500FF
	case 40:
		return "ERROR", 0xFF0000FF
	case 50:
		return "CRITICAL", 0x8B0000FF
	}
	return "UNKNOWN", other
}

func rosString(f *fields, _ func(error)) []chunk.Component {
	data := get[*array.String](f, "data")
	if f.err != nil {
		return nil
	}
	return []chunk.Component{column(of("TextDocument", "text", "Text"), listOfOne(data))}
}
