package chunk_test

import (
	"fmt"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/reelhouse/reelhouse/chunk"
)

// benchChunk has rows of numbers: two timelines and so many components.
func benchChunk(b *testing.B, rows, components int) *chunk.Chunk {
	b.Helper()
	frames := make([]int64, rows)
	lengths := make([]int, rows)
	values := array.NewFloat64Builder(memory.DefaultAllocator)
	for i := range rows {
		frames[i], lengths[i] = int64(i), 1
		values.Append(float64(i))
	}
	list, err := chunk.Partition(values.NewArray(), lengths)
	if err != nil {
		b.Fatal(err)
	}
	var columns []chunk.Component
	for i := range components {
		d := chunk.ArchetypeDescriptor("rerun.archetypes.Scalars", fmt.Sprintf("c%02d", i), "rerun.components.Scalar")
		columns = append(columns, chunk.Component{Descriptor: d, Values: list})
	}
	c, err := chunk.New("/robot/arm/joint", []chunk.TimeColumn{
		chunk.NewTimeColumn("frame", chunk.Sequence, frames), chunk.NewTimeColumn("log_time", chunk.Timestamp, frames),
	}, columns)
	if err != nil {
		b.Fatal(err)
	}
	return c
}

var shapes = []struct {
	name             string
	rows, components int
}{{"small", 1, 2}, {"long", 10000, 2}, {"wide", 1000, 40}}

func BenchmarkFromRecordBatch(b *testing.B) {
	for _, s := range shapes {
		b.Run(s.name, func(b *testing.B) {
			batch := benchChunk(b, s.rows, s.components).RecordBatch()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := chunk.FromRecordBatch(batch); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkRecordBatch(b *testing.B) {
	for _, s := range shapes {
		b.Run(s.name, func(b *testing.B) {
			c := benchChunk(b, s.rows, s.components)
			b.ReportAllocs()
			var batch arrow.RecordBatch
			for b.Loop() {
				batch = c.RecordBatch()
			}
			_ = batch
		})
	}
}

func BenchmarkNew(b *testing.B) {
	for _, s := range shapes {
		b.Run(s.name, func(b *testing.B) {
			c := benchChunk(b, s.rows, s.components)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := chunk.New(c.EntityPath(), c.Timelines(), c.Components()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkSlice(b *testing.B) {
	c := benchChunk(b, 10000, 2)
	b.ReportAllocs()
	for b.Loop() {
		c.Slice(10, 20)
	}
}

func BenchmarkConcat(b *testing.B) {
	c := benchChunk(b, 1000, 2)
	many := make([]*chunk.Chunk, 100)
	for i := range many {
		many[i] = c
	}
	b.ReportAllocs()
	b.SetBytes(100 * c.SizeBytes())
	for b.Loop() {
		if _, err := chunk.Concat(many...); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParseEntityPath(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		chunk.ParseEntityPath("/robot/arm/joint_3/position")
	}
}

func BenchmarkFormat(b *testing.B) {
	c := benchChunk(b, 100, 4)
	b.ReportAllocs()
	for b.Loop() {
		c.Format(chunk.FormatOptions{})
	}
}
