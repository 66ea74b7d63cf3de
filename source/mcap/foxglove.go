package mcap

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/reelhouse/reelhouse/chunk"
	"github.com/reelhouse/reelhouse/source/internal/columnar"
)

// foxgloveLenses are the semantic Foxglove messages (spec/readers.md 1.6).
var foxgloveLenses = map[string]lens{
	"foxglove.CameraCalibration:message": foxLens(foxCalibration),
	"foxglove.CompressedImage:message":   foxLens(foxCompressedImage),
	"foxglove.CompressedVideo:message":   foxLens(foxCompressedVideo),
	"foxglove.FrameTransform:message":    foxLens(foxTransform),
	"foxglove.FrameTransforms:message":   foxElements("transforms", foxTransform),
	"foxglove.LocationFix:message":       foxLens(foxLocation),
	"foxglove.LocationFixes:message":     foxElements("fixes", foxLocations),
	"foxglove.Log:message":               foxLens(foxLog),
	"foxglove.PointCloud:message":        foxLens(foxPointCloud),
	"foxglove.PoseInFrame:message":       foxLens(foxPose),
	"foxglove.PosesInFrame:message":      foxLens(foxPoses),
	"foxglove.RawImage:message":          foxLens(foxRawImage),
	"foxglove.VoxelGrid:message":         foxLens(foxVoxelGrid),
}

// foxTimeline is the timeline of the messages' own timestamps.
const foxTimeline = "timestamp"

// errAbsent says that a message type lacks a field: what is made of the field
// is then left out without a word, as versions of the schemas differ.
var errAbsent = errors.New("the type lacks the field")

// fox converts a chunk of messages. A component that cannot be made is reported
// and left out; the others stay.
type fox struct {
	o          *output
	archetype  string
	in         *array.Struct
	components []chunk.Component
}

// put adds a component, unless there was an error in making its values.
func (f *fox) put(d chunk.Descriptor, values *array.List, err error) {
	switch {
	case errors.Is(err, errAbsent):
	case err != nil:
		f.o.s.failOnce("topic %s: %s: no %s: %v", f.o.channel.Topic, f.archetype, d.Component, err)
	default:
		f.components = append(f.components, column(d, values))
	}
}

// emit makes a chunk of what was put, with the timeline of the timestamps in in.
func (f *fox) emit(times []chunk.TimeColumn) {
	stamps, err := foxStamps(f.in)
	switch {
	case err == nil:
		times = append(times, f.o.timeColumn(foxTimeline, stamps))
	case !errors.Is(err, errAbsent):
		f.o.s.failOnce("topic %s: %s: no timeline %s: %v", f.o.channel.Topic, f.archetype, foxTimeline, err)
	}
	f.o.temporal(f.o.entity, times, f.components...)
}

// foxLens gives a row a message.
func foxLens(convert func(*fox)) lens {
	return func(o *output, d *decoded) {
		f := &fox{o: o, archetype: d.archetype, in: d.rows}
		convert(f)
		f.emit(d.times)
	}
}

// foxElements gives a row an element of a list in the messages.
func foxElements(field string, convert func(*fox)) lens {
	return func(o *output, d *decoded) {
		list, err := pick[*array.List](d.rows, field)
		var items *array.Struct
		if err == nil {
			var ok bool
			if items, ok = list.ListValues().(*array.Struct); !ok {
				err = fmt.Errorf("field %s has type %v", field, list.DataType())
			}
		}
		if err != nil {
			o.s.failOnce("topic %s: %s: %v", o.channel.Topic, d.archetype, err)
			return
		}
		var source []int // message of each row
		for i := range list.Len() {
			from, to := list.ValueOffsets(i)
			for range to - from {
				source = append(source, i)
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
		f := &fox{o: o, archetype: d.archetype, in: items}
		convert(f)
		f.emit(times)
	}
}

// pick finds a field by its path of names.
func pick[A arrow.Array](in *array.Struct, path ...string) (A, error) {
	var none A
	for i, name := range path {
		at, ok := in.DataType().(*arrow.StructType).FieldIdx(name)
		if !ok {
			return none, errAbsent
		}
		field := in.Field(at)
		if i == len(path)-1 {
			if a, ok := field.(A); ok {
				return a, nil
			}
		} else if s, ok := field.(*array.Struct); ok {
			in = s
			continue
		}
		return none, fmt.Errorf("field %s has type %v", strings.Join(path[:i+1], "."), field.DataType())
	}
	return none, errAbsent
}

// numbers are the values of a field of numbers as float64.
func numbers(in *array.Struct, path ...string) ([]float64, error) {
	a, err := pick[arrow.Array](in, path...)
	if err != nil {
		return nil, err
	}
	if v, ok := floats(a); ok {
		return v, nil
	}
	return nil, fmt.Errorf("field %s has type %v", strings.Join(path, "."), a.DataType())
}

// floats are the values of an array of numbers, without a copy if they are float64.
func floats(a arrow.Array) ([]float64, bool) {
	switch a := a.(type) {
	case *array.Float64:
		return a.Float64Values(), true
	case *array.Float32:
		return widen(a.Float32Values()), true
	case *array.Int32:
		return widen(a.Int32Values()), true
	case *array.Uint32:
		return widen(a.Uint32Values()), true
	case *array.Int64:
		return widen(a.Int64Values()), true
	case *array.Uint64:
		return widen(a.Uint64Values()), true
	}
	return nil, false
}

func widen[T columnar.Number](v []T) []float64 {
	out := make([]float64, len(v))
	for i, x := range v {
		out[i] = float64(x)
	}
	return out
}

// foxStamps are the timestamps of messages in nanoseconds, 0 where absent.
func foxStamps(in *array.Struct) ([]int64, error) {
	s, err := pick[*array.Struct](in, "timestamp")
	if err != nil {
		return nil, err
	}
	seconds, err := pick[*array.Int64](s, "seconds")
	if err != nil {
		return nil, fmt.Errorf("seconds of the timestamp: %w", err)
	}
	nanos, err := pick[*array.Int32](s, "nanos")
	if err != nil {
		return nil, fmt.Errorf("nanoseconds of the timestamp: %w", err)
	}
	out := make([]int64, s.Len())
	for i := range out {
		if s.IsValid(i) {
			sec := min(max(seconds.Value(i), math.MinInt64/1_000_000_000), math.MaxInt64/1_000_000_000)
			out[i] = saturatingAdd(sec*1_000_000_000, int64(nanos.Value(i)))
		}
	}
	return out, nil
}

// validityOf is the validity of an array from its first row on.
func validityOf(a arrow.Array) (*memory.Buffer, int) {
	if a.NullN() == 0 {
		return nil, 0
	}
	if d := a.Data(); d.Offset() == 0 {
		return d.Buffers()[0], a.NullN()
	}
	bits := make([]byte, (a.Len()+7)/8)
	for i := range a.Len() {
		if a.IsValid(i) {
			bits[i/8] |= 1 << (i % 8)
		}
	}
	return memory.NewBufferBytes(bits), a.NullN()
}

// vectorsOf makes fixed lists of fields of structs; null structs give null.
func vectorsOf(s *array.Struct, names ...string) (arrow.Array, error) {
	k := len(names)
	out := make([]float32, k*s.Len())
	for j, name := range names {
		v, err := numbers(s, name)
		if err != nil {
			return nil, err
		}
		for i, x := range v {
			out[i*k+j] = float32(x)
		}
	}
	items := array.NewData(arrow.PrimitiveTypes.Float32, len(out), []*memory.Buffer{nil, memory.NewBufferBytes(arrow.Float32Traits.CastToBytes(out))}, nil, 0, 0)
	valid, nulls := validityOf(s)
	dt := arrow.FixedSizeListOfNonNullable(int32(k), arrow.PrimitiveTypes.Float32)
	return array.MakeFromData(array.NewData(dt, s.Len(), []*memory.Buffer{valid}, []arrow.ArrayData{items}, nulls, 0)), nil
}

// vector reads a field that is a vector or a quaternion.
func (f *fox) vector(path []string, names ...string) (arrow.Array, error) {
	s, err := pick[*array.Struct](f.in, path...)
	if err != nil {
		return nil, err
	}
	return vectorsOf(s, names...)
}

// each wraps values, null or not, as a list of one a row.
func each[A arrow.Array](values A, err error) (*array.List, error) {
	if err != nil {
		return nil, err
	}
	return listOfOne(values), nil
}

// given wraps values as a list of one a row, and nulls as null rows.
func given(values arrow.Array, err error) (*array.List, error) {
	if err != nil {
		return nil, err
	}
	return chunk.WrapValues(values), nil
}

var (
	xyz  = []string{"x", "y", "z"}
	xyzw = []string{"x", "y", "z", "w"}
)

func (f *fox) frame() {
	values, err := each(pick[*array.String](f.in, "frame_id"))
	f.put(of("CoordinateFrame", "frame", "TransformFrameId"), values, err)
}

// imageFrame puts the frame of a camera's image.
func (f *fox) imageFrame() {
	values, err := f.imageFrames()
	f.put(of("CoordinateFrame", "frame", "TransformFrameId"), values, err)
}

func (f *fox) imageFrames() (*array.List, error) {
	ids, err := pick[*array.String](f.in, "frame_id")
	if err != nil {
		return nil, err
	}
	c := columnar.MustNew[*columnar.Bytes](arrow.BinaryTypes.String)
	for i := range ids.Len() {
		if ids.IsNull(i) {
			c.AppendNull()
		} else {
			c.AppendString(imageFrame(ids.Value(i)))
		}
	}
	return listOfOne(columnar.Array(c)), nil
}

// blobs makes lists of bytes of a field of bytes, without copying.
func (f *fox) blobs(name string) (*array.List, error) {
	b, err := pick[*array.Binary](f.in, name)
	if err != nil {
		return nil, err
	}
	return listOfOne(blobsOf(b)), nil
}

func blobsOf(b *array.Binary) arrow.Array {
	d := b.Data()
	buffers := d.Buffers()
	size := 0
	if buffers[2] != nil {
		size = buffers[2].Len()
	}
	items := array.NewData(arrow.PrimitiveTypes.Uint8, size, []*memory.Buffer{nil, buffers[2]}, nil, 0, 0)
	return array.MakeFromData(array.NewData(blobType, d.Len(), buffers[:2], []arrow.ArrayData{items}, d.NullN(), d.Offset()))
}

// mapText makes a text of each text.
func (f *fox) mapText(name string, convert func(string) string) (*array.List, error) {
	a, err := pick[*array.String](f.in, name)
	if err != nil {
		return nil, err
	}
	c := columnar.MustNew[*columnar.Bytes](arrow.BinaryTypes.String)
	for i := range a.Len() {
		if a.IsNull(i) {
			c.AppendNull()
		} else {
			c.AppendString(convert(a.Value(i)))
		}
	}
	return listOfOne(columnar.Array(c)), nil
}

func foxCalibration(f *fox) {
	ids, err := each(pick[*array.String](f.in, "frame_id"))
	f.put(of("Pinhole", "parent_frame", "TransformFrameId"), ids, err)
	frames, err := f.imageFrames()
	f.put(of("Pinhole", "child_frame", "TransformFrameId"), frames, err)
	resolution, err := f.resolution()
	f.put(of("Pinhole", "resolution", "Resolution"), resolution, err)
	matrix, err := f.cameraMatrix()
	f.put(of("Pinhole", "image_from_camera", "PinholeProjection"), matrix, err)
}

func (f *fox) resolution() (*array.List, error) {
	widths, err := pick[*array.Uint32](f.in, "width")
	if err != nil {
		return nil, err
	}
	heights, err := pick[*array.Uint32](f.in, "height")
	if err != nil {
		return nil, err
	}
	c := columnar.MustNew[*columnar.FixedList](arrow.FixedSizeListOfNonNullable(2, arrow.PrimitiveTypes.Float32))
	items := c.Items.(*columnar.Fixed[float32])
	for i := range widths.Len() {
		if widths.IsNull(i) || heights.IsNull(i) {
			c.AppendNull()
			continue
		}
		items.Append(float32(widths.Value(i)))
		items.Append(float32(heights.Value(i)))
		c.End()
	}
	return listOfOne(columnar.Array(c)), nil
}

func (f *fox) cameraMatrix() (*array.List, error) {
	ks, err := pick[*array.List](f.in, "K")
	if err != nil {
		return nil, err
	}
	values, ok := floats(ks.ListValues())
	if !ok {
		return nil, fmt.Errorf("field K has type %v", ks.DataType())
	}
	rows := rowsOf(arrow.FixedSizeListOfNonNullable(9, arrow.PrimitiveTypes.Float32))
	for i := range ks.Len() {
		from, to := ks.ValueOffsets(i)
		if to-from != 9 {
			return nil, fmt.Errorf("camera matrix K has %d elements instead of 9", to-from)
		}
		appendMatrix(rows, values[from:to])
	}
	return columnar.Array(rows).(*array.List), nil
}

func foxCompressedImage(f *fox) {
	f.imageFrame()
	blobs, err := f.blobs("data")
	f.put(of("EncodedImage", "blob", "Blob"), blobs, err)
	types, err := f.mapText("format", func(format string) string { return "image/" + format })
	f.put(of("EncodedImage", "media_type", "MediaType"), types, err)
}

// foxCodecs are the codecs of video by their lower-case names.
var foxCodecs = map[string]uint32{"h264": codecH264, "h265": codecH265, "av1": codecAV1, "vp8": codecVP8, "vp9": codecVP9}

const codecVP8, codecVP9 uint32 = 0x76703038, 0x76703039

func foxCompressedVideo(f *fox) {
	f.imageFrame()
	samples, err := f.blobs("data")
	f.put(of("VideoStream", "sample", "VideoSample"), samples, err)
	codecs, err := f.codecs()
	f.put(of("VideoStream", "codec", "VideoCodec"), codecs, err)
}

func (f *fox) codecs() (*array.List, error) {
	formats, err := pick[*array.String](f.in, "format")
	if err != nil {
		return nil, err
	}
	c := columnar.MustNew[*columnar.Fixed[uint32]](arrow.PrimitiveTypes.Uint32)
	for i := range formats.Len() {
		codec, ok := foxCodecs[strings.ToLower(formats.Value(i))]
		switch {
		case formats.IsNull(i):
			c.AppendNull()
		case !ok:
			return nil, fmt.Errorf("unknown codec %q", formats.Value(i))
		default:
			c.Append(codec)
		}
	}
	return listOfOne(columnar.Array(c)), nil
}

func foxRawImage(f *fox) {
	f.imageFrame()
	format, buffer := of("Image", "format", "ImageFormat"), of("Image", "buffer", "ImageBuffer")
	formats, buffers, err := f.images()
	f.put(format, formats, err)
	f.put(buffer, buffers, err)
}

func (f *fox) images() (formats, buffers *array.List, err error) {
	encodings, err := pick[*array.String](f.in, "encoding")
	if err != nil {
		return nil, nil, err
	}
	data, err := pick[*array.Binary](f.in, "data")
	if err != nil {
		return nil, nil, err
	}
	var sizes [3]*array.Uint32
	for i, name := range []string{"width", "height", "step"} {
		if sizes[i], err = pick[*array.Uint32](f.in, name); err != nil {
			return nil, nil, err
		}
	}
	n := f.in.Len()
	known, steps := make([]imageEncoding, n), make([]uint32, n)
	asIs := true
	for i := range n {
		e, ok := imageEncodings[encodings.Value(i)]
		if !ok {
			return nil, nil, fmt.Errorf("unknown encoding %q", encodings.Value(i))
		}
		w, h, step := sizes[0].Value(i), sizes[1].Value(i), sizes[2].Value(i)
		if rows, _ := e.size(w, h); step == 0 && rows > 0 {
			// Rows of unknown length share the data evenly.
			step = uint32(min(len(data.Value(i))/rows, math.MaxUint32))
		}
		known[i], steps[i] = e, step
		asIs = asIs && e.fits(w, h, step, data.Value(i), false)
	}
	fs := columnar.MustNew[*columnar.Struct](imageFormatType)
	for i := range n {
		known[i].appendFormat(fs, sizes[0].Value(i), sizes[1].Value(i))
	}
	if asIs {
		return listOfOne(columnar.Array(fs)), listOfOne(blobsOf(data)), nil
	}
	packed := columnar.MustNew[*columnar.List](blobType)
	for i := range n {
		known[i].pack(packed.Items.(*columnar.Fixed[uint8]), sizes[0].Value(i), sizes[1].Value(i), steps[i], data.Value(i), false)
		packed.End()
	}
	return listOfOne(columnar.Array(fs)), listOfOne(columnar.Array(packed)), nil
}

func foxTransform(f *fox) {
	parents, err := each(pick[*array.String](f.in, "parent_frame_id"))
	f.put(of("Transform3D", "parent_frame", "TransformFrameId"), parents, err)
	children, err := each(pick[*array.String](f.in, "child_frame_id"))
	f.put(of("Transform3D", "child_frame", "TransformFrameId"), children, err)
	translations, err := given(f.vector([]string{"translation"}, xyz...))
	f.put(of("Transform3D", "translation", "Translation3D"), translations, err)
	rotations, err := given(f.vector([]string{"rotation"}, xyzw...))
	f.put(of("Transform3D", "quaternion", "RotationQuat"), rotations, err)
}

func foxPose(f *fox) {
	f.frame()
	translations, err := each(f.vector([]string{"pose", "position"}, xyz...))
	f.put(of("InstancePoses3D", "translations", "Translation3D"), translations, err)
	rotations, err := each(f.vector([]string{"pose", "orientation"}, xyzw...))
	f.put(of("InstancePoses3D", "quaternions", "RotationQuat"), rotations, err)
}

func foxPoses(f *fox) {
	f.frame()
	vectors := func(field string, names ...string) (*array.List, error) {
		list, err := pick[*array.List](f.in, "poses")
		if err != nil {
			return nil, err
		}
		items, ok := list.ListValues().(*array.Struct)
		if !ok {
			return nil, fmt.Errorf("field poses has type %v", list.DataType())
		}
		s, err := pick[*array.Struct](items, field)
		if err != nil {
			return nil, err
		}
		v, err := vectorsOf(s, names...)
		if err != nil {
			return nil, err
		}
		d := list.Data()
		return array.NewListData(array.NewData(arrow.ListOf(v.DataType()), d.Len(), d.Buffers(), []arrow.ArrayData{v.Data()}, d.NullN(), d.Offset())), nil
	}
	translations, err := vectors("position", xyz...)
	f.put(of("InstancePoses3D", "translations", "Translation3D"), translations, err)
	rotations, err := vectors("orientation", xyzw...)
	f.put(of("InstancePoses3D", "quaternions", "RotationQuat"), rotations, err)
}

func foxLocation(f *fox) {
	f.frame()
	lat, err := numbers(f.in, "latitude")
	lon, err2 := numbers(f.in, "longitude")
	position := of("GeoPoints", "positions", "LatLon")
	if err = errors.Join(err, err2); err != nil {
		f.put(position, nil, err)
	} else {
		f.put(position, latLon(lat, lon).Values, nil)
	}
	colors, err := f.colors()
	f.put(of("GeoPoints", "colors", "Color"), colors, err)
}

// foxLocations leaves colors out if no fix has one.
func foxLocations(f *fox) {
	foxLocation(f)
	f.components = slices.DeleteFunc(f.components, func(c chunk.Component) bool { return c.Component == "GeoPoints:colors" && allNull(c) })
}

// colors packs colors of components from 0 to 1.
func (f *fox) colors() (*array.List, error) {
	s, err := pick[*array.Struct](f.in, "color")
	if err != nil {
		return nil, err
	}
	packed := make([]uint32, s.Len())
	for _, name := range []string{"r", "g", "b", "a"} {
		v, err := numbers(s, name)
		if err != nil {
			return nil, err
		}
		for i, x := range v {
			packed[i] = packed[i]<<8 | round8(x*255)
		}
	}
	valid, nulls := validityOf(s)
	values := array.MakeFromData(array.NewData(arrow.PrimitiveTypes.Uint32, len(packed),
		[]*memory.Buffer{valid, memory.NewBufferBytes(arrow.Uint32Traits.CastToBytes(packed))}, nil, nulls, 0))
	return chunk.WrapValues(values), nil
}

func foxLog(f *fox) {
	text, err := each(pick[*array.String](f.in, "message"))
	f.put(of("TextLog", "text", "Text"), text, err)
	levels, err := f.levels()
	f.put(of("TextLog", "level", "TextLogLevel"), levels, err)
}

func (f *fox) levels() (*array.List, error) {
	names, err := pick[*array.String](f.in, "level", "name")
	if err != nil {
		return nil, err
	}
	c := columnar.MustNew[*columnar.Bytes](arrow.BinaryTypes.String)
	for i := range names.Len() {
		switch name := names.Value(i); {
		case names.IsNull(i) || name == "UNKNOWN":
			c.AppendNull()
		case name == "WARNING":
			c.AppendString("WARN")
		case name == "FATAL":
			c.AppendString("CRITICAL")
		default:
			c.AppendString(name)
		}
	}
	return listOfOne(columnar.Array(c)), nil
}
