package mcap

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/reelhouse/reelhouse/chunk"
	"github.com/reelhouse/reelhouse/source/internal/cdr"
	"github.com/reelhouse/reelhouse/source/internal/columnar"
)

// pointField is a sensor_msgs/msg/PointField.
type pointField struct {
	name     string
	offset   uint32
	datatype uint8
	count    uint32
}

// Codes of PointField.datatype and their types.
var pointTypes = map[uint8]numberType{1: int8Type, 2: uint8Type, 3: int16Type, 4: uint16Type, 5: int32Type, 6: uint32Type, 7: float32Type, 8: float64Type}

// pointCloud: sensor_msgs/msg/PointCloud2.
type pointCloud struct {
	headers
	rows     []cloudRow
	segments []*cloudSegment
	warnings []string
}

// cloudRow is a message's own chunk.
type cloudRow struct {
	positions []float32 // nil if the cloud has none
	has       bool
}

// cloudSegment is a run of messages with the same fields.
type cloudSegment struct {
	from   int // row
	layout []pointField
	has    bool // positions
	step   uint32

	height, width, pointStep, rowStep *columnar.Fixed[uint32]
	bigEndian, dense                  *columnar.Bool
	data                              *columnar.List
	fields                            *columnar.List
	extras                            []cloudExtra
}

// cloudExtra is a column of a field other than the position.
type cloudExtra struct {
	field  pointField
	typ    numberType
	values *columnar.List
}

func newPointCloud() fixedParser { return &pointCloud{headers: newHeaders()} }

func (p *pointCloud) parse(r *cdr.Reader) {
	p.headers.parse(r)
	height, width := r.Uint32(), r.Uint32()
	layout := make([]pointField, 0, r.Count(13))
	for range cap(layout) {
		f := pointField{name: string(r.Text()), offset: r.Uint32(), datatype: r.Uint8(), count: r.Uint32()}
		if r.Err() != nil {
			return
		}
		layout = append(layout, f)
	}
	big, step, rowStep := r.Bool(), r.Uint32(), r.Uint32()
	data := r.Array(r.Count(1), 1)
	dense := r.Bool()
	if r.Err() != nil {
		return
	}
	g := p.segment(layout, step)
	row := cloudRow{has: g.has}
	if g.has {
		points := len(data) / int(step)
		if len(data)%int(step) != 0 {
			p.warnings = append(p.warnings, fmt.Sprintf("point cloud data of %d bytes is no multiple of the point step %d: the rest is ignored", len(data), step))
		}
		row.positions = positions(layout, data, points, int(step), big)
		for _, e := range g.extras {
			e.typ.extract(e.values.Items, data, points, int(step), int(e.field.offset), big)
			e.values.End()
		}
	}
	p.rows = append(p.rows, row)
	g.height.Append(height)
	g.width.Append(width)
	g.pointStep.Append(step)
	g.rowStep.Append(rowStep)
	g.bigEndian.Append(big)
	g.dense.Append(dense)
	g.data.Items.(*columnar.Fixed[uint8]).AppendLE(data)
	g.data.End()
	items := g.fields.Items.(*columnar.List).Items.(*columnar.Struct)
	for _, f := range layout {
		items.Fields[0].(*columnar.Bytes).AppendString(f.name)
		items.Fields[1].(*columnar.Fixed[uint32]).Append(f.offset)
		items.Fields[2].(*columnar.Fixed[uint8]).Append(f.datatype)
		items.Fields[3].(*columnar.Fixed[uint32]).Append(f.count)
		items.End()
	}
	g.fields.Items.(*columnar.List).End()
	g.fields.End()
}

var pointFieldsType = arrow.ListOf(arrow.StructOf(
	arrow.Field{Name: "name", Type: arrow.BinaryTypes.String},
	arrow.Field{Name: "offset", Type: arrow.PrimitiveTypes.Uint32},
	arrow.Field{Name: "datatype", Type: arrow.PrimitiveTypes.Uint8},
	arrow.Field{Name: "count", Type: arrow.PrimitiveTypes.Uint32},
))

// segment is the open segment, or a new one if the fields are not the same.
func (p *pointCloud) segment(layout []pointField, step uint32) *cloudSegment {
	if n := len(p.segments); n > 0 && p.segments[n-1].step == step && slices.Equal(p.segments[n-1].layout, layout) {
		return p.segments[n-1]
	}
	u32 := func() *columnar.Fixed[uint32] {
		return columnar.MustNew[*columnar.Fixed[uint32]](arrow.PrimitiveTypes.Uint32)
	}
	g := &cloudSegment{from: len(p.rows), layout: layout, step: step,
		height: u32(), width: u32(), pointStep: u32(), rowStep: u32(), bigEndian: &columnar.Bool{}, dense: &columnar.Bool{},
		data: columnar.MustNew[*columnar.List](blobType), fields: rowsOf(pointFieldsType)}
	p.segments = append(p.segments, g)
	usable := func(f pointField) bool {
		t, ok := pointTypes[f.datatype]
		return ok && uint64(f.offset)+uint64(t.size) <= uint64(step)
	}
	axes := 0
	for _, axis := range []string{"x", "y", "z"} {
		if slices.ContainsFunc(layout, func(f pointField) bool { return f.name == axis && usable(f) }) {
			axes++
		}
	}
	g.has = axes == 3 && step > 0
	if !g.has {
		return g
	}
	for _, f := range layout {
		if f.name == "x" || f.name == "y" || f.name == "z" {
			continue
		}
		if !usable(f) {
			p.warnings = append(p.warnings, fmt.Sprintf("point cloud field %q of type %d at offset %d does not fit into points of %d bytes", f.name, f.datatype, f.offset, step))
			continue
		}
		if f.count != 1 {
			p.warnings = append(p.warnings, fmt.Sprintf("point cloud field %q has %d elements a point: only the first is read", f.name, f.count))
		}
		t := pointTypes[f.datatype]
		g.extras = append(g.extras, cloudExtra{f, t, rowsOf(t.arrow)})
	}
	return g
}

// positions reads the points' x, y and z.
func positions(layout []pointField, data []byte, points, step int, big bool) []float32 {
	out := make([]float32, 3*points)
	if points == 0 {
		return out
	}
	for axis, name := range []string{"x", "y", "z"} {
		i := slices.IndexFunc(layout, func(f pointField) bool { return f.name == name })
		f := layout[i]
		pointTypes[f.datatype].float32s(out[axis:], 3, data, points, step, int(f.offset), big)
	}
	return out
}

func (p *pointCloud) undo(rows int) {
	p.headers.undo(rows)
	p.rows = p.rows[:min(rows, len(p.rows))]
	for n := len(p.segments); n > 0 && p.segments[n-1].from >= rows; n = len(p.segments) {
		p.segments = p.segments[:n-1]
	}
	if len(p.segments) == 0 {
		return
	}
	g := p.segments[len(p.segments)-1]
	left := rows - g.from
	for _, c := range []columnar.Column{g.height, g.width, g.pointStep, g.rowStep, g.bigEndian, g.dense, g.data, g.fields} {
		c.Truncate(left)
	}
	for _, e := range g.extras {
		e.values.Truncate(left)
	}
}

func (p *pointCloud) finish(o *output) {
	for _, w := range p.warnings {
		o.s.warnOnce("topic %s: %s", o.channel.Topic, w)
	}
	times := p.times(o)
	span := func(from, to int) []chunk.TimeColumn {
		out := make([]chunk.TimeColumn, len(times))
		for i, t := range times {
			out[i] = chunk.NewTimeColumn(t.Name, t.Kind, t.Times[from:to])
		}
		return out
	}
	o.temporal(o.entity, times, p.frame())
	for i, row := range p.rows {
		if row.has {
			o.temporal(o.entity, span(i, i+1), column(of("Points3D", "positions", "Position3D"), oneRow(vec3Array(row.positions))))
		}
	}
	const archetype = "sensor_msgs.msg.PointCloud2"
	for i, g := range p.segments {
		to := len(p.rows)
		if i+1 < len(p.segments) {
			to = p.segments[i+1].from
		}
		field := func(name string, c columnar.Column) chunk.Component {
			return column(rosField(archetype, name, ""), listOfOne(columnar.Array(c)))
		}
		components := []chunk.Component{
			field("height", g.height), field("width", g.width), field("point_step", g.pointStep), field("row_step", g.rowStep),
			field("is_bigendian", g.bigEndian), field("is_dense", g.dense),
			component(rosField(archetype, "fields", ""), g.fields),
			column(rosField(archetype, "data", "rerun.components.Blob"), listOfOne(columnar.Array(g.data))),
		}
		for _, e := range g.extras {
			components = append(components, component(chunk.ArchetypeDescriptor("rerun.archetypes.Points3D", e.field.name, ""), e.values))
		}
		o.temporal(o.entity, span(g.from, to), components...)
	}
}

// vec3Array makes fixed lists of three over v, which it keeps.
func vec3Array(v []float32) arrow.Array {
	items := array.NewData(arrow.PrimitiveTypes.Float32, len(v), []*memory.Buffer{nil, memory.NewBufferBytes(arrow.Float32Traits.CastToBytes(v))}, nil, 0, 0)
	return array.MakeFromData(array.NewData(vec3Type, len(v)/3, []*memory.Buffer{nil}, []arrow.ArrayData{items}, 0, 0))
}

// numberType is a type of numbers in packed binary data.
type numberType struct {
	arrow arrow.DataType
	size  int
	// extract appends a number of each point to a column of that type.
	extract func(c columnar.Column, data []byte, points, step, offset int, big bool)
	// float32s writes a number of each point, converted, to out at every stride.
	float32s func(out []float32, stride int, data []byte, points, step, offset int, big bool)
}

var (
	int8Type    = typeOf(arrow.PrimitiveTypes.Int8, 1, func(b []byte, _ bool) int8 { return int8(b[0]) })
	uint8Type   = typeOf(arrow.PrimitiveTypes.Uint8, 1, func(b []byte, _ bool) uint8 { return b[0] })
	int16Type   = typeOf(arrow.PrimitiveTypes.Int16, 2, func(b []byte, big bool) int16 { return int16(u16(b, big)) })
	uint16Type  = typeOf(arrow.PrimitiveTypes.Uint16, 2, u16)
	int32Type   = typeOf(arrow.PrimitiveTypes.Int32, 4, func(b []byte, big bool) int32 { return int32(u32(b, big)) })
	uint32Type  = typeOf(arrow.PrimitiveTypes.Uint32, 4, u32)
	float32Type = typeOf(arrow.PrimitiveTypes.Float32, 4, func(b []byte, big bool) float32 { return math.Float32frombits(u32(b, big)) })
	float64Type = typeOf(arrow.PrimitiveTypes.Float64, 8, func(b []byte, big bool) float64 { return math.Float64frombits(u64(b, big)) })
)

func u16(b []byte, big bool) uint16 {
	if big {
		return binary.BigEndian.Uint16(b)
	}
	return binary.LittleEndian.Uint16(b)
}

func u32(b []byte, big bool) uint32 {
	if big {
		return binary.BigEndian.Uint32(b)
	}
	return binary.LittleEndian.Uint32(b)
}

func u64(b []byte, big bool) uint64 {
	if big {
		return binary.BigEndian.Uint64(b)
	}
	return binary.LittleEndian.Uint64(b)
}

func typeOf[T columnar.Number](dt arrow.DataType, size int, read func(b []byte, big bool) T) numberType {
	return numberType{dt, size,
		func(c columnar.Column, data []byte, points, step, offset int, big bool) {
			out := c.(*columnar.Fixed[T]).Extend(points)
			if big != bigEndianHost {
				for i := range out {
					out[i] = read(data[offset:], big)
					offset += step
				}
				return
			}
			for i := range out {
				out[i] = *(*T)(unsafe.Pointer(unsafe.SliceData(data[offset : offset+size])))
				offset += step
			}
		},
		func(out []float32, stride int, data []byte, points, step, offset int, big bool) {
			if big != bigEndianHost {
				for i := range points {
					out[i*stride] = float32(read(data[offset:], big))
					offset += step
				}
				return
			}
			for i := range points {
				out[i*stride] = float32(*(*T)(unsafe.Pointer(unsafe.SliceData(data[offset : offset+size]))))
				offset += step
			}
		},
	}
}

var bigEndianHost = binary.NativeEndian.Uint16([]byte{0, 1}) == 1
