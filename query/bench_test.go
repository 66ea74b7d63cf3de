package query_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/reelhouse/reelhouse/chunk"
	"github.com/reelhouse/reelhouse/query"
	"github.com/reelhouse/reelhouse/store"
)

const benchEntities = 20

// benchStore has entities with one scalar component on two timelines. Interleaved
// entities take turns, so that a row has one cell; aligned ones share their times.
func benchStore(tb testing.TB, rowsPerEntity, rowsPerChunk int, aligned bool) store.View {
	tb.Helper()
	m := store.NewMemory()
	for e := range benchEntities {
		entity := chunk.EntityPath(fmt.Sprintf("/robot/joint%02d", e))
		for from := 0; from < rowsPerEntity; from += rowsPerChunk {
			n := min(rowsPerChunk, rowsPerEntity-from)
			frame, log := make([]int64, n), make([]int64, n)
			b := array.NewListBuilder(memory.DefaultAllocator, arrow.PrimitiveTypes.Float64)
			vals := b.ValueBuilder().(*array.Float64Builder)
			for i := range n {
				frame[i] = int64(from + i)
				if !aligned {
					frame[i] = frame[i]*benchEntities + int64(e)
				}
				log[i] = 1_700_000_000_000_000_000 + frame[i]*1_000_000
				b.Append(true)
				vals.Append(float64(i))
			}
			c, err := chunk.New(entity, []chunk.TimeColumn{chunk.NewTimeColumn("frame", chunk.Sequence, frame), chunk.NewTimeColumn("log_time", chunk.Timestamp, log)},
				[]chunk.Component{{Descriptor: chunk.ArchetypeDescriptor("rerun.archetypes.Scalars", "scalars", "rerun.components.Scalar"), Values: b.NewListArray()}})
			if err != nil {
				tb.Fatal(err)
			}
			m.Insert(c)
		}
	}
	return m.View()
}

func BenchmarkQuery(b *testing.B) {
	for _, shape := range []struct {
		name    string
		rows    int // per entity
		chunk   int
		aligned bool
	}{
		{"interleaved", 50_000, 2_500, false},
		{"aligned", 250_000, 8_192, true},
		{"aligned_one_chunk", 250_000, 250_000, true},
	} {
		v := benchStore(b, shape.rows, shape.chunk, shape.aligned)
		for _, fill := range []bool{false, true} {
			name := shape.name
			if fill {
				name += "_fill"
			}
			b.Run(name, func(b *testing.B) {
				b.ReportAllocs()
				rows := 0
				for b.Loop() {
					r, err := query.Run(context.Background(), v, query.Query{Index: "frame", FillLatestAt: fill})
					if err != nil {
						b.Fatal(err)
					}
					for r.Next() {
						rows += int(r.RecordBatch().NumRows())
					}
					if r.Err() != nil {
						b.Fatal(r.Err())
					}
					r.Release()
				}
				b.ReportMetric(float64(rows)/b.Elapsed().Seconds()/1e6, "Mrows/s")
			})
		}
	}
}
