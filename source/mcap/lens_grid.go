package mcap

import (
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/reelhouse/reelhouse/chunk"
	"github.com/reelhouse/reelhouse/source/internal/columnar"
)

// rvizMap is the colour map of RViz for occupancy.
const rvizMap uint8 = 10

func occupancyGrid(f *fields, fail func(error)) []chunk.Component {
	frame := headerFrame(f)
	info := f.sub("info")
	widths, heights, resolutions := get[*array.Uint32](info, "width"), get[*array.Uint32](info, "height"), get[*array.Float32](info, "resolution")
	position, orientation := pose(info, "origin")
	cells := get[*array.List](f, "data")
	if f.err = errors.Join(f.err, info.err); f.err != nil {
		return nil
	}
	items, ok := cells.ListValues().(*array.Int8)
	if !ok {
		f.err = fmt.Errorf("field data has type %v", cells.DataType())
		return nil
	}
	data, formats := rowsOf(arrow.ListOf(arrow.PrimitiveTypes.Uint8)), rowsOf(imageFormatType)
	grey := imageEncoding{colorModel: modelL, datatype: typeU8}
	rows := data.Items.(*columnar.List)
	for i := range f.in.Len() {
		grey.appendFormat(formats.Items.(*columnar.Struct), widths.Value(i), heights.Value(i))
		formats.End()
		w, h := int(widths.Value(i)), int(heights.Value(i))
		from, to := cells.ValueOffsets(i)
		if w*h != int(to-from) {
			fail(fmt.Errorf("%d cells instead of %d×%d", to-from, w, h))
			data.AppendNull()
			continue
		}
		out := rows.Items.(*columnar.Fixed[uint8]).Extend(w * h)
		in := items.Int8Values()[from:to]
		for y := range h {
			row := out[(h-1-y)*w:][:w]
			for x, v := range in[y*w:][:w] {
				row[x] = uint8(v)
			}
		}
		rows.End()
		data.End()
	}
	maps := make([]uint8, f.in.Len())
	for i := range maps {
		maps[i] = rvizMap
	}
	return []chunk.Component{frame,
		component(of("GridMap", "data", "ImageBuffer"), data),
		component(of("GridMap", "format", "ImageFormat"), formats),
		column(of("GridMap", "cell_size", "CellSize"), numbersOf(arrow.PrimitiveTypes.Float32, resolutions.Float32Values()...)),
		vectorRows(of("GridMap", "translation", "Translation3D"), position...),
		vectorRows(of("GridMap", "quaternion", "RotationQuat"), orientation...),
		column(of("GridMap", "colormap", "Colormap"), numbersOf(arrow.PrimitiveTypes.Uint8, maps...)),
	}
}

// Colours of voxels of a nav2_msgs/msg/VoxelGrid.
const (
	markedColor uint32 = 0xFF0000FF
	freeColor   uint32 = 0x00FF00FF
)

// maxVoxelHeight is the number of voxels that the bits of a column can tell.
const maxVoxelHeight = 16

func voxelGrid(f *fields, fail func(error)) []chunk.Component {
	frame := headerFrame(f)
	origin, resolution := f.sub("origin"), f.sub("resolutions")
	size := f.sub("resolutions").doubles("x", "y", "z")
	var at [3]*array.Float32
	for i, axis := range []string{"x", "y", "z"} {
		at[i] = get[*array.Float32](origin, axis)
	}
	sx, sy, sz := get[*array.Uint32](f, "size_x"), get[*array.Uint32](f, "size_y"), get[*array.Uint32](f, "size_z")
	columns := get[*array.List](f, "data")
	if f.err = errors.Join(f.err, origin.err, resolution.err); f.err != nil {
		return nil
	}
	items, ok := columns.ListValues().(*array.Uint32)
	if !ok {
		f.err = fmt.Errorf("field data has type %v", columns.DataType())
		return nil
	}
	indices := rowsOf(arrow.FixedSizeListOfNonNullable(3, arrow.PrimitiveTypes.Int32))
	colors, values := rowsOf(arrow.PrimitiveTypes.Uint32), rowsOf(arrow.PrimitiveTypes.Float32)
	voxel := indices.Items.(*columnar.FixedList)
	for i := range f.in.Len() {
		w, h, depth := int(sx.Value(i)), int(sy.Value(i)), int(min(sz.Value(i), maxVoxelHeight))
		from, to := columns.ValueOffsets(i)
		bits := items.Uint32Values()[from:to]
		if w*h != len(bits) {
			fail(fmt.Errorf("%d columns instead of %d×%d", len(bits), w, h))
			indices.AppendNull()
			colors.AppendNull()
			values.AppendNull()
			continue
		}
		for y := range h {
			for x := range w {
				c := bits[y*w+x]
				for z := range depth {
					low, high := c>>z&1, c>>(z+16)&1
					if low != high {
						continue // unknown
					}
					p := voxel.Items.(*columnar.Fixed[int32]).Extend(3)
					p[0], p[1], p[2] = int32(x), int32(y), int32(z)
					voxel.End()
					values.Items.(*columnar.Fixed[float32]).Append(float32(low))
					color := freeColor
					if low == 1 {
						color = markedColor
					}
					colors.Items.(*columnar.Fixed[uint32]).Append(color)
				}
			}
		}
		indices.End()
		colors.End()
		values.End()
	}
	n := f.in.Len()
	opacity := make([]float32, n)
	var translation [3][]float64
	for k, a := range at {
		translation[k] = make([]float64, n)
		for i := range n {
			opacity[i] = 0.5
			translation[k][i] = float64(a.Value(i))
		}
	}
	return []chunk.Component{frame,
		component(of("VoxelGridMap", "voxel_indices", "VoxelIndex"), indices),
		component(of("VoxelGridMap", "colors", "Color"), colors),
		component(of("VoxelGridMap", "values", "VoxelValue"), values),
		vectorRows(of("VoxelGridMap", "voxel_size", "VoxelSize"), size...),
		vectorRows(of("VoxelGridMap", "translation", "Translation3D"), translation[:]...),
		column(of("VoxelGridMap", "opacity", "Opacity"), numbersOf(arrow.PrimitiveTypes.Float32, opacity...)),
	}
}
