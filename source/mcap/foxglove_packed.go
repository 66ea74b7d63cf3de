package mcap

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/reelhouse/reelhouse/source/internal/columnar"
)

// packedTypes are the codes of PackedElementField.type and their types.
var packedTypes = map[int32]numberType{1: uint8Type, 2: int8Type, 3: uint16Type, 4: int16Type, 5: uint32Type, 6: int32Type, 7: float32Type, 8: float64Type}

// packed is data made of elements of equal size, with fields at fixed offsets
// in each, one a row.
type packed struct {
	data    *array.Binary
	strides *array.Uint32
	fields  *array.List
	names   *array.String
	offsets *array.Uint32
	types   *array.Int32
}

// packed reads the fields that describe elements, whose size is in stride.
func (f *fox) packed(stride string) (p packed, err error) {
	keep := func(e error) { err = errors.Join(err, e) }
	var e error
	p.data, e = pick[*array.Binary](f.in, "data")
	keep(e)
	p.strides, e = pick[*array.Uint32](f.in, stride)
	keep(e)
	p.fields, e = pick[*array.List](f.in, "fields")
	keep(e)
	if err != nil {
		return p, err
	}
	items, ok := p.fields.ListValues().(*array.Struct)
	if !ok {
		return p, fmt.Errorf("field fields has type %v", p.fields.DataType())
	}
	p.names, e = pick[*array.String](items, "name")
	keep(e)
	p.offsets, e = pick[*array.Uint32](items, "offset")
	keep(e)
	p.types, e = pick[*array.Int32](items, "type", "value")
	keep(e)
	return p, err
}

// packedField is where the elements of a row keep a number.
type packedField struct {
	numberType
	code   int32
	offset int
}

// field finds the first field of a name in a row.
func (p *packed) field(row int, name string) (packedField, bool, error) {
	from, to := p.fields.ValueOffsets(row)
	for i := int(from); i < int(to); i++ {
		if p.names.Value(i) != name {
			continue
		}
		code := p.types.Value(i)
		t, ok := packedTypes[code]
		if !ok {
			return packedField{}, true, fmt.Errorf("field %s has the unknown numeric type %d", name, code)
		}
		return packedField{t, code, int(p.offsets.Value(i))}, true, nil
	}
	return packedField{}, false, nil
}

// fieldsOf finds several fields; ok is false if one of them is missing.
func (p *packed) fieldsOf(row int, names ...string) (out []packedField, ok bool, err error) {
	out = make([]packedField, 0, 4)
	ok = true
	for _, name := range names {
		f, found, err := p.field(row, name)
		if err != nil {
			return nil, false, err
		}
		out, ok = append(out, f), ok && found
	}
	return out, ok, nil
}

// readable is the number of elements, of n, whose field lies within the data.
func (f *packedField) readable(data []byte, n, stride int) int {
	if f.offset+f.size > len(data) {
		return 0
	}
	return min(n, (len(data)-f.offset-f.size)/stride+1)
}

func foxPointCloud(f *fox) {
	f.frame()
	if p, err := f.packed("point_stride"); err != nil {
		f.put(of("Points3D", "positions", "Position3D"), nil, err)
	} else {
		positions, err := p.positions()
		f.put(of("Points3D", "positions", "Position3D"), positions, err)
		colors, err := p.colors(func(row int) (offsets []int, n int) {
			return nil, len(p.data.Value(row)) / int(p.strides.Value(row))
		})
		f.put(of("Points3D", "colors", "Color"), colors, err)
	}
	translations, err := given(f.vector([]string{"pose", "position"}, xyz...))
	f.put(of("InstancePoses3D", "translations", "Translation3D"), translations, err)
	rotations, err := given(f.vector([]string{"pose", "orientation"}, xyzw...))
	f.put(of("InstancePoses3D", "quaternions", "RotationQuat"), rotations, err)
}

// positions are the points of each row; rows without x, y and z are null. What
// lies beyond the data is zero.
func (p *packed) positions() (*array.List, error) {
	rows := rowsOf(vec3Type)
	items := rows.Items.(*columnar.FixedList)
	values := items.Items.(*columnar.Fixed[float32])
	total := 0
	for i := range p.data.Len() {
		if stride := int(p.strides.Value(i)); stride > 0 {
			total += len(p.data.Value(i)) / stride
		}
	}
	values.Grow(3 * total)
	for i := range p.data.Len() {
		axes, ok, err := p.fieldsOf(i, xyz...)
		if err != nil {
			return nil, err
		}
		data, stride := p.data.Value(i), int(p.strides.Value(i))
		if !ok || stride == 0 {
			rows.AppendNull()
			continue
		}
		n := len(data) / stride
		out := values.Extend(3 * n)
		if adjacentFloats(axes) {
			n := axes[2].readable(data, n, stride)
			copyPoints(out, data[axes[0].offset:], n, stride)
			// The last points may have some axes only.
			for k := range axes {
				if m := axes[k].readable(data, len(out)/3, stride); m > n {
					axes[k].float32s(out[3*n+k:], 3, data[n*stride:], m-n, stride, axes[k].offset, false)
				}
			}
		} else if n > 0 {
			for k := range axes {
				axes[k].float32s(out[k:], 3, data, axes[k].readable(data, n, stride), stride, axes[k].offset, false)
			}
		}
		items.EndRows(n)
		rows.End()
	}
	return columnar.Array(rows).(*array.List), nil
}

// adjacentFloats tells whether x, y and z are float32 one after the other, as
// they mostly are.
func adjacentFloats(axes []packedField) bool {
	for k, a := range axes {
		if a.code != 7 || a.offset != axes[0].offset+4*k {
			return false
		}
	}
	return true
}

// copyPoints copies three adjacent floats of each of n elements.
func copyPoints(out []float32, data []byte, n, stride int) {
	for i := range n {
		b := data[i*stride : i*stride+12]
		out[3*i] = math.Float32frombits(binary.LittleEndian.Uint32(b))
		out[3*i+1] = math.Float32frombits(binary.LittleEndian.Uint32(b[4:]))
		out[3*i+2] = math.Float32frombits(binary.LittleEndian.Uint32(b[8:]))
	}
}

// colors packs the red, green, blue and alpha fields of the elements of each
// row as 0xRRGGBBAA; rows without the first three are null. elements gives, for
// a row with a stride, the number of elements, and where they begin if that is
// not every stride bytes; a negative number makes the row null.
func (p *packed) colors(elements func(row int) (offsets []int, n int)) (*array.List, error) {
	rows := rowsOf(arrow.PrimitiveTypes.Uint32)
	values := rows.Items.(*columnar.Fixed[uint32])
	for i := range p.data.Len() {
		channels, ok, err := p.fieldsOf(i, "red", "green", "blue")
		if err != nil {
			return nil, err
		}
		alpha, hasAlpha, err := p.field(i, "alpha")
		if err != nil {
			return nil, err
		}
		data, stride := p.data.Value(i), int(p.strides.Value(i))
		n := -1
		var offsets []int
		if ok && stride > 0 {
			offsets, n = elements(i)
		}
		if n < 0 {
			rows.AppendNull()
			continue
		}
		if hasAlpha {
			channels = append(channels, alpha)
		}
		out := values.Extend(n)
		if !hasAlpha {
			for j := range out {
				out[j] = 0xff
			}
		}
		for k := range channels {
			channels[k].addTo(out, data, stride, offsets, uint(24-8*k))
		}
		rows.End()
	}
	return columnar.Array(rows).(*array.List), nil
}

// addTo shifts the color channel of each element into out. Integers are taken
// as they are, floats from 0 to 1, both clamped.
func (f *packedField) addTo(out []uint32, data []byte, stride int, offsets []int, shift uint) {
	if offsets == nil {
		out = out[:f.readable(data, len(out), stride)]
		if f.code == 1 {
			for i := range out {
				out[i] |= uint32(data[f.offset+i*stride]) << shift
			}
			return
		}
	}
	for i := range out {
		at := i*stride + f.offset
		if offsets != nil {
			if at = offsets[i] + f.offset; at+f.size > len(data) {
				continue
			}
		}
		out[i] |= f.channel(data[at:]) << shift
	}
}

func (f *packedField) channel(b []byte) uint32 {
	switch f.code {
	case 1:
		return uint32(b[0])
	case 2:
		return uint32(max(int8(b[0]), 0))
	case 3:
		return uint32(min(binary.LittleEndian.Uint16(b), 255))
	case 4:
		return uint32(min(max(int16(binary.LittleEndian.Uint16(b)), 0), 255))
	case 5:
		return min(binary.LittleEndian.Uint32(b), 255)
	case 6:
		return uint32(min(max(int32(binary.LittleEndian.Uint32(b)), 0), 255))
	case 7:
		return cut8(float64(math.Float32frombits(binary.LittleEndian.Uint32(b))) * 255)
	default:
		return cut8(math.Float64frombits(binary.LittleEndian.Uint64(b)) * 255)
	}
}

func cut8(v float64) uint32 {
	switch {
	case !(v > 0):
		return 0
	case v >= 255:
		return 255
	}
	return uint32(v)
}

func foxVoxelGrid(f *fox) {
	f.frame()
	if err := f.voxels(); err != nil {
		f.put(of("VoxelGridMap", "voxel_indices", "VoxelIndex"), nil, err)
	}
	sizes, err := each(f.vector([]string{"cell_size"}, xyz...))
	f.put(of("VoxelGridMap", "voxel_size", "VoxelSize"), sizes, err)
	translations, err := given(f.vector([]string{"pose", "position"}, xyz...))
	f.put(of("VoxelGridMap", "translation", "Translation3D"), translations, err)
	rotations, err := given(f.vector([]string{"pose", "orientation"}, xyzw...))
	f.put(of("VoxelGridMap", "quaternion", "RotationQuat"), rotations, err)
}

// voxels puts the cells of grids and their colors.
func (f *fox) voxels() error {
	g, err := f.grid()
	if err != nil {
		return err
	}
	f.put(of("VoxelGridMap", "voxel_indices", "VoxelIndex"), g.indices(), nil)
	p, err := f.packed("cell_stride")
	if err != nil {
		return err
	}
	colors, err := p.colors(func(row int) ([]int, int) {
		offsets, ok := g.cells(row)
		if !ok {
			return nil, -1
		}
		return offsets, len(offsets)
	})
	f.put(of("VoxelGridMap", "colors", "Color"), colors, err)
	return nil
}

// voxelGrids are the shapes of foxglove.VoxelGrid messages.
type voxelGrids struct {
	data                      *array.Binary
	rows, columns             *array.Uint32
	slices, rowSteps, strides *array.Uint32
}

func (f *fox) grid() (*voxelGrids, error) {
	g := &voxelGrids{}
	var err error
	if g.data, err = pick[*array.Binary](f.in, "data"); err != nil {
		return nil, err
	}
	for name, to := range map[string]**array.Uint32{"row_count": &g.rows, "column_count": &g.columns,
		"slice_stride": &g.slices, "row_stride": &g.rowSteps, "cell_stride": &g.strides} {
		if *to, err = pick[*array.Uint32](f.in, name); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// walk calls cell for each cell of a row that lies within the data, by slices,
// rows and columns, until it returns false. ok is false if there is no grid.
func (g *voxelGrids) walk(row int, cell func(x, y, z, offset int) bool) (ok bool) {
	rows, columns := int(g.rows.Value(row)), int(g.columns.Value(row))
	slice, step, stride := int(g.slices.Value(row)), int(g.rowSteps.Value(row)), int(g.strides.Value(row))
	if rows == 0 || columns == 0 || slice == 0 || step == 0 || stride == 0 {
		return false
	}
	size := len(g.data.Value(row))
	for z := range size / slice {
		for y := range rows {
			from := z*slice + y*step
			if from+stride > size {
				break
			}
			for x := range columns {
				at := from + x*stride
				if at+stride > size {
					break
				}
				if !cell(x, y, z, at) {
					return true
				}
			}
		}
	}
	return true
}

// cells are where the cells of a row begin.
func (g *voxelGrids) cells(row int) ([]int, bool) {
	var out []int
	limit := len(g.data.Value(row))
	ok := g.walk(row, func(_, _, _, offset int) bool {
		out = append(out, offset)
		return len(out) < limit
	})
	return out, ok
}

// indices are the cells of each row. Strides that make cells overlap could ask
// for any number of them; there are at most as many as bytes.
func (g *voxelGrids) indices() *array.List {
	rows := rowsOf(arrow.FixedSizeListOfNonNullable(3, arrow.PrimitiveTypes.Int32))
	items := rows.Items.(*columnar.FixedList)
	values := items.Items.(*columnar.Fixed[int32])
	for i := range g.data.Len() {
		n, limit := 0, len(g.data.Value(i))
		ok := g.walk(i, func(x, y, z, _ int) bool {
			copy(values.Extend(3), []int32{int32(x), int32(y), int32(z)})
			n++
			return n < limit
		})
		if !ok {
			rows.AppendNull()
			continue
		}
		items.EndRows(n)
		rows.End()
	}
	return columnar.Array(rows).(*array.List)
}
