package rrd

import (
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/reelhouse/reelhouse/internal/arrowipc"
	"github.com/reelhouse/reelhouse/internal/testkit"
)

func TestGoldenSchemaHash(t *testing.T) {
	dir := filepath.Join(testkit.Golden(t, "rrd"), "schema_hash")
	files, _ := filepath.Glob(filepath.Join(dir, "*.schema.ipc"))
	if len(files) == 0 {
		t.Fatalf("no schemas in %s", dir)
	}
	for _, path := range files {
		base := strings.TrimSuffix(path, ".schema.ipc")
		t.Run(filepath.Base(base), func(t *testing.T) {
			read := func(path string) []byte {
				b, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				return b
			}
			schema, err := arrowipc.Schema(read(path))
			if err != nil {
				t.Fatal(err)
			}
			got, err := canonicalSchema(schema)
			if err != nil {
				t.Fatal(err)
			}
			if want := read(base + ".canonical.bin"); !bytes.Equal(got, want) {
				t.Errorf("canonical form differs: %d bytes, want %d", len(got), len(want))
			}
			hash, err := SchemaHash(schema)
			if err != nil {
				t.Fatal(err)
			}
			if want := strings.Fields(string(read(base + ".sha256")))[0]; hex.EncodeToString(hash[:]) != want {
				t.Errorf("hash %x, want %s", hash, want)
			}
		})
	}
}

// Every type that arrow-go knows has an encoding that arrow-go reads back as
// the same type.
func TestCanonicalSchemaTypes(t *testing.T) {
	item := arrow.Field{Name: "item", Type: arrow.PrimitiveTypes.Int32, Nullable: true}
	types := []arrow.DataType{
		arrow.Null, arrow.FixedWidthTypes.Boolean,
		arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Int16, arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Int64,
		arrow.PrimitiveTypes.Uint8, arrow.PrimitiveTypes.Uint16, arrow.PrimitiveTypes.Uint32, arrow.PrimitiveTypes.Uint64,
		arrow.FixedWidthTypes.Float16, arrow.PrimitiveTypes.Float32, arrow.PrimitiveTypes.Float64,
		arrow.BinaryTypes.String, arrow.BinaryTypes.Binary, arrow.BinaryTypes.LargeString, arrow.BinaryTypes.LargeBinary,
		arrow.BinaryTypes.StringView, arrow.BinaryTypes.BinaryView,
		&arrow.FixedSizeBinaryType{ByteWidth: 16},
		arrow.FixedWidthTypes.Date32, arrow.FixedWidthTypes.Date64,
		arrow.FixedWidthTypes.Time32s, arrow.FixedWidthTypes.Time32ms, arrow.FixedWidthTypes.Time64us, arrow.FixedWidthTypes.Time64ns,
		arrow.FixedWidthTypes.Duration_s, arrow.FixedWidthTypes.Duration_ms, arrow.FixedWidthTypes.Duration_ns,
		&arrow.TimestampType{Unit: arrow.Second}, &arrow.TimestampType{Unit: arrow.Nanosecond}, &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"},
		arrow.FixedWidthTypes.MonthInterval, arrow.FixedWidthTypes.DayTimeInterval, arrow.FixedWidthTypes.MonthDayNanoInterval,
		&arrow.Decimal128Type{Precision: 20, Scale: 3}, &arrow.Decimal256Type{Precision: 40, Scale: 0},
		arrow.ListOfField(item), arrow.LargeListOfField(item), arrow.FixedSizeListOfField(3, item),
		arrow.ListViewOfField(item), arrow.LargeListViewOfField(item),
		arrow.StructOf(item, arrow.Field{Name: "b", Type: arrow.BinaryTypes.String}),
		arrow.MapOf(arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int8),
		arrow.DenseUnionOf([]arrow.Field{item}, []arrow.UnionTypeCode{5}), arrow.SparseUnionOf([]arrow.Field{item}, []arrow.UnionTypeCode{0}),
		&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Uint16, ValueType: arrow.BinaryTypes.String},
		&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: arrow.BinaryTypes.String, Ordered: true},
		arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int32, arrow.BinaryTypes.String),
	}
	for _, dt := range types {
		want := arrow.NewSchema([]arrow.Field{{Name: "x", Type: dt, Nullable: true, Metadata: arrow.NewMetadata([]string{"a", "b"}, []string{"1", ""})}}, nil)
		b, err := canonicalSchema(want)
		if err != nil {
			t.Errorf("%v: %v", dt, err)
			continue
		}
		got, err := arrowipc.Schema(b)
		if err != nil {
			t.Errorf("%v: %v", dt, err)
			continue
		}
		if !got.Equal(want) {
			t.Errorf("%v: read back as %v", want, got)
		}
	}
}
