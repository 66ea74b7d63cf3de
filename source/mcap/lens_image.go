package mcap

import (
	"bytes"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/reelhouse/reelhouse/chunk"
	"github.com/reelhouse/reelhouse/source/internal/columnar"
)

var imageFormatType = arrow.StructOf(
	arrow.Field{Name: "width", Type: arrow.PrimitiveTypes.Uint32},
	arrow.Field{Name: "height", Type: arrow.PrimitiveTypes.Uint32},
	arrow.Field{Name: "pixel_format", Type: arrow.PrimitiveTypes.Uint8, Nullable: true},
	arrow.Field{Name: "color_model", Type: arrow.PrimitiveTypes.Uint8, Nullable: true},
	arrow.Field{Name: "channel_datatype", Type: arrow.PrimitiveTypes.Uint8, Nullable: true},
)

// Values of ImageFormat fields; 0 stands for null.
const (
	modelL, modelRGB, modelRGBA, modelBGR, modelBGRA = 1, 2, 3, 4, 5

	typeU8, typeI8, typeU16, typeI16, typeI32, typeF32, typeF64 = 6, 7, 8, 9, 11, 34, 35

	pixelNV12, pixelYUY2                              = 26, 27
	pixelRGGB, pixelBGGR, pixelGBRG, pixelGRBG        = 128, 129, 130, 131
	codecH264, codecH265, codecAV1             uint32 = 0x61766331, 0x68657631, 0x61763031
)

// imageEncoding is how pixels are laid out.
type imageEncoding struct {
	pixelFormat, colorModel, datatype uint8
	bytes                             int  // a pixel
	width                             int  // bytes of a number, for the byte order
	depth                             bool // one channel, taken as depth
	planar                            bool // NV12: half as many rows of chroma follow
}

// imageEncodings are those of sensor_msgs/msg/Image (spec/readers.md 1.5b).
var imageEncodings = map[string]imageEncoding{
	"rgb8":        {0, modelRGB, typeU8, 3, 1, false, false},
	"rgba8":       {0, modelRGBA, typeU8, 4, 1, false, false},
	"rgb16":       {0, modelRGB, typeU16, 6, 2, false, false},
	"rgba16":      {0, modelRGBA, typeU16, 8, 2, false, false},
	"bgr8":        {0, modelBGR, typeU8, 3, 1, false, false},
	"8UC3":        {0, modelBGR, typeU8, 3, 1, false, false},
	"bgra8":       {0, modelBGRA, typeU8, 4, 1, false, false},
	"bgr16":       {0, modelBGR, typeU16, 6, 2, false, false},
	"bgra16":      {0, modelBGRA, typeU16, 8, 2, false, false},
	"yuyv":        {pixelYUY2, 0, 0, 2, 1, false, false},
	"yuv422_yuy2": {pixelYUY2, 0, 0, 2, 1, false, false},
	"nv12":        {pixelNV12, 0, 0, 1, 1, false, true},
	"bayer_rggb8": {pixelRGGB, 0, 0, 1, 1, false, false},
	"bayer_bggr8": {pixelBGGR, 0, 0, 1, 1, false, false},
	"bayer_gbrg8": {pixelGBRG, 0, 0, 1, 1, false, false},
	"bayer_grbg8": {pixelGRBG, 0, 0, 1, 1, false, false},
	"mono8":       {0, modelL, typeU8, 1, 1, true, false},
	"mono16":      {0, modelL, typeU16, 2, 2, true, false},
	"8UC1":        {0, 0, typeU8, 1, 1, true, false},
	"8SC1":        {0, 0, typeI8, 1, 1, true, false},
	"16UC1":       {0, 0, typeU16, 2, 2, true, false},
	"16SC1":       {0, 0, typeI16, 2, 2, true, false},
	"32SC1":       {0, 0, typeI32, 4, 4, true, false},
	"32FC1":       {0, 0, typeF32, 4, 4, true, false},
	"64FC1":       {0, 0, typeF64, 8, 8, true, false},
}

// size is the number of bytes of an image without padding, and those of a row.
func (e *imageEncoding) size(width, height uint32) (size, row int) {
	row = int(width) * e.bytes
	size = row * int(height)
	if e.planar {
		size += size / 2
	}
	return size, row
}

// rows is the number of rows, those of chroma included.
func (e *imageEncoding) rows(height uint32) int {
	if e.planar {
		return int(height) + (int(height)+1)/2
	}
	return int(height)
}

// stride is the distance of rows in data; a step of 0 means that they fill it.
func (e *imageEncoding) stride(height, step uint32, data []byte) int {
	if rows := e.rows(height); step == 0 && rows > 0 {
		return len(data) / rows
	}
	return int(step)
}

// fits tells whether the bytes of an image can be taken as they are.
func (e *imageEncoding) fits(width, height, step uint32, data []byte, big bool) bool {
	size, row := e.size(width, height)
	return len(data) <= size && e.stride(height, step, data) <= row && !(big && e.width > 1)
}

// pack appends the pixels of an image without padding, in little-endian order.
func (e *imageEncoding) pack(to *columnar.Fixed[uint8], width, height, step uint32, data []byte, big bool) {
	size, row := e.size(width, height)
	rows, stride := e.rows(height), e.stride(height, step, data)
	from := to.Len()
	if stride > row && rows > 0 && len(data) >= (rows-1)*stride+row {
		to.Grow(size)
		for y := range rows {
			to.AppendLE(data[y*stride:][:min(row, size-y*row)])
		}
	} else {
		to.AppendLE(data[:min(len(data), size)])
	}
	if big && e.width > 1 {
		v := to.Values()[from:]
		for ; len(v) >= e.width; v = v[e.width:] {
			for i, j := 0, e.width-1; i < j; i, j = i+1, j-1 {
				v[i], v[j] = v[j], v[i]
			}
		}
	}
}

// appendFormat appends an ImageFormat.
func (e *imageEncoding) appendFormat(c *columnar.Struct, width, height uint32) {
	c.Fields[0].(*columnar.Fixed[uint32]).Append(width)
	c.Fields[1].(*columnar.Fixed[uint32]).Append(height)
	for i, v := range []uint8{e.pixelFormat, e.colorModel, e.datatype} {
		if v == 0 {
			c.Fields[2+i].AppendNull()
		} else {
			c.Fields[2+i].(*columnar.Fixed[uint8]).Append(v)
		}
	}
	c.End()
}

// imageFrames are the frames of images: that of the camera with a suffix.
func imageFrames(ids *array.String) *array.List {
	c := columnar.MustNew[*columnar.Bytes](arrow.BinaryTypes.String)
	for i := range ids.Len() {
		c.AppendString(imageFrame(ids.Value(i)))
	}
	return listOfOne(columnar.Array(c))
}

func imageFrame(id string) string {
	if id == "" {
		return ""
	}
	return id + "_image_plane"
}

// byKind emits rows that become different archetypes as a chunk each: build
// gets the rows of a kind. A kind of -1 goes with whatever kind there is.
func (d *decoded) byKind(o *output, kinds []int, build func(kind int, rows []int) []chunk.Component) {
	groups := map[int][]int{}
	first := -1
	for _, k := range kinds {
		if k >= 0 {
			first = k
			break
		}
	}
	var order []int
	for i, k := range kinds {
		if k < 0 {
			k = first
		}
		if groups[k] == nil {
			order = append(order, k)
		}
		groups[k] = append(groups[k], i)
	}
	for _, k := range order {
		rows := groups[k]
		times := d.times
		if len(rows) != len(kinds) {
			times = make([]chunk.TimeColumn, len(d.times))
			for i, t := range d.times {
				v := make([]int64, len(rows))
				for j, r := range rows {
					v[j] = t.Times[r]
				}
				times[i] = chunk.NewTimeColumn(t.Name, t.Kind, v)
			}
		}
		o.temporal(o.entity, times, build(k, rows)...)
	}
}

// framesOfRows is a frame column of some rows.
func framesOfRows(ids *array.String, rows []int) chunk.Component {
	c := columnar.MustNew[*columnar.Bytes](arrow.BinaryTypes.String)
	for _, i := range rows {
		c.AppendString(imageFrame(ids.Value(i)))
	}
	return frameOf(listOfOne(columnar.Array(c)))
}

// lensImage: sensor_msgs/msg/Image.
func lensImage(o *output, d *decoded) {
	f := fields{in: d.rows}
	ids := get[*array.String](&f, "header", "frame_id")
	heights, widths := get[*array.Uint32](&f, "height"), get[*array.Uint32](&f, "width")
	encodings, bigs, steps := get[*array.String](&f, "encoding"), get[*array.Uint8](&f, "is_bigendian"), get[*array.Uint32](&f, "step")
	data, bytes := getBytes(&f, "data")
	if f.err != nil {
		o.s.failOnce("topic %s: image: %v", o.channel.Topic, f.err)
		return
	}
	const color, depth = 0, 1
	kinds := make([]int, d.rows.Len())
	known := make([]imageEncoding, d.rows.Len())
	asIs := true
	for i := range kinds {
		e, ok := imageEncodings[encodings.Value(i)]
		known[i] = e
		switch {
		case !ok:
			o.s.failOnce("topic %s: unknown image encoding %q", o.channel.Topic, encodings.Value(i))
			kinds[i], asIs = -1, false
			continue
		case e.depth:
			kinds[i] = depth
		default:
			kinds[i] = color
		}
		asIs = asIs && kinds[i] == kinds[0] && e.fits(widths.Value(i), heights.Value(i), steps.Value(i), bytesOf(data, bytes, i), bigs.Value(i) != 0)
	}
	d.byKind(o, kinds, func(kind int, rows []int) []chunk.Component {
		components := []chunk.Component{framesOfRows(ids, rows)}
		if kind < 0 {
			return components
		}
		archetype := [...]string{"Image", "DepthImage"}[kind]
		formats := rowsOf(imageFormatType)
		var buffers *array.List
		if asIs {
			buffers = listOfOne(data)
		}
		packed := rowsOf(blobType)
		blobs := packed.Items.(*columnar.List)
		for _, i := range rows {
			e := &known[i]
			if e.bytes == 0 {
				formats.AppendNull()
				packed.AppendNull()
				continue
			}
			e.appendFormat(formats.Items.(*columnar.Struct), widths.Value(i), heights.Value(i))
			formats.End()
			if buffers == nil {
				e.pack(blobs.Items.(*columnar.Fixed[uint8]), widths.Value(i), heights.Value(i), steps.Value(i), bytesOf(data, bytes, i), bigs.Value(i) != 0)
				blobs.End()
				packed.End()
			}
		}
		if buffers == nil {
			buffers = columnar.Array(packed).(*array.List)
		}
		return append(components, component(of(archetype, "format", "ImageFormat"), formats), column(of(archetype, "buffer", "ImageBuffer"), buffers))
	})
}

// lensCompressedImage: sensor_msgs/msg/CompressedImage.
func lensCompressedImage(o *output, d *decoded) {
	f := fields{in: d.rows}
	ids, formats := get[*array.String](&f, "header", "frame_id"), get[*array.String](&f, "format")
	data, blob := getBytes(&f, "data")
	if f.err != nil {
		o.s.failOnce("topic %s: compressed image: %v", o.channel.Topic, f.err)
		return
	}
	const image, depth, video, depthPNG = 0, 1, 2, 3
	kinds := make([]int, d.rows.Len())
	codecs := make([]uint32, len(kinds))
	for i := range kinds {
		format := strings.ToLower(formats.Value(i))
		_, transport, _ := strings.Cut(format, ";")
		isDepth := strings.Contains(transport, "compresseddepth")
		switch format {
		case "h264":
			codecs[i] = codecH264
		case "h265", "hevc":
			codecs[i] = codecH265
		case "av1":
			codecs[i] = codecAV1
		}
		switch {
		case codecs[i] != 0:
			kinds[i] = video
		case isDepth && strings.Contains(transport, "rvl"):
			kinds[i] = depth
		case isDepth && bytes.HasPrefix(depthPayload(bytesOf(data, blob, i)), []byte(pngMagic)):
			kinds[i] = depthPNG
		default:
			kinds[i] = image
		}
	}
	d.byKind(o, kinds, func(kind int, rows []int) []chunk.Component {
		blobs := listOfOne(data)
		if len(rows) != len(kinds) || kind == depthPNG {
			c := rowsOf(blobType)
			for _, i := range rows {
				b := bytesOf(data, blob, i)
				if kind == depthPNG {
					b = depthPayload(b)
				}
				c.Items.(*columnar.List).Items.(*columnar.Fixed[uint8]).AppendLE(b)
				c.Items.(*columnar.List).End()
				c.End()
			}
			blobs = columnar.Array(c).(*array.List)
		}
		components := []chunk.Component{framesOfRows(ids, rows)}
		mediaType := func(v string) chunk.Component {
			all := make([]string, len(rows))
			for i := range all {
				all[i] = v
			}
			return column(of("EncodedDepthImage", "media_type", "MediaType"), texts(all...))
		}
		switch kind {
		case video:
			c := make([]uint32, len(rows))
			for j, i := range rows {
				c[j] = codecs[i]
			}
			components = append(components, column(of("VideoStream", "sample", "VideoSample"), blobs),
				column(of("VideoStream", "codec", "VideoCodec"), numbersOf(arrow.PrimitiveTypes.Uint32, c...)))
		case depth:
			components = append(components, column(of("EncodedDepthImage", "blob", "Blob"), blobs), mediaType("application/rvl"))
		case depthPNG:
			components = append(components, column(of("EncodedDepthImage", "blob", "Blob"), blobs), mediaType("image/png"))
		default:
			components = append(components, column(of("EncodedImage", "blob", "Blob"), blobs))
		}
		return components
	})
}

const pngMagic = "\x89PNG\r\n\x1a\n"

// depthPayload is a compressedDepth image without the twelve byte header that
// its transport puts before it.
func depthPayload(b []byte) []byte { return b[min(12, len(b)):] }
