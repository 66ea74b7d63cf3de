package mcap

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/reelhouse/reelhouse/chunk"
	"github.com/reelhouse/reelhouse/source/internal/columnar"
)

// Arrow types of built-in components.
var (
	blobType = arrow.ListOfNonNullable(arrow.PrimitiveTypes.Uint8)
	vec3Type = arrow.FixedSizeListOfNonNullable(3, arrow.PrimitiveTypes.Float32)
	vec4Type = arrow.FixedSizeListOfNonNullable(4, arrow.PrimitiveTypes.Float32)

	pairsType = arrow.ListOfNonNullable(arrow.StructOf(
		arrow.Field{Name: "first", Type: arrow.BinaryTypes.String},
		arrow.Field{Name: "second", Type: arrow.BinaryTypes.String},
	))
)

// of describes the field of a built-in archetype, all by their short names.
func of(archetype, field, component string) chunk.Descriptor {
	return chunk.ArchetypeDescriptor("rerun.archetypes."+archetype, field, "rerun.components."+component)
}

// column joins a descriptor and its values.
func column(d chunk.Descriptor, values *array.List) chunk.Component {
	return chunk.Component{Descriptor: d, Values: values}
}

// listOf makes lists of values that end where offsets say; offsets begin with 0.
func listOf(values arrow.Array, offsets []int32) *array.List {
	buf := memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(offsets))
	return array.NewListData(array.NewData(arrow.ListOf(values.DataType()), len(offsets)-1,
		[]*memory.Buffer{nil, buf}, []arrow.ArrayData{values.Data()}, 0, 0))
}

// evenOffsets are the offsets of n lists of size items each.
func evenOffsets(n, size int) []int32 {
	offsets := make([]int32, n+1)
	for i := range offsets {
		offsets[i] = int32(i * size)
	}
	return offsets
}

// oneRow makes all values one list.
func oneRow(values arrow.Array) *array.List { return listOf(values, []int32{0, int32(values.Len())}) }

// texts is a list of one string a row.
func texts(v ...string) *array.List {
	c := columnar.MustNew[*columnar.Bytes](arrow.BinaryTypes.String)
	for _, s := range v {
		c.AppendString(s)
	}
	return listOfOne(columnar.Array(c))
}

// numbersOf is a list of one number a row.
func numbersOf[T columnar.Number](dt arrow.DataType, v ...T) *array.List {
	c := columnar.MustNew[*columnar.Fixed[T]](dt)
	copy(c.Extend(len(v)), v)
	return listOfOne(columnar.Array(c))
}
