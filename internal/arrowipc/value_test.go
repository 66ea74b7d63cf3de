package arrowipc_test

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/reelhouse/reelhouse/internal/arrowipc"
)

func TestSchemaValue(t *testing.T) {
	md := arrow.NewMetadata([]string{"a", "bb", "c"}, []string{"1", "", "three"})
	stream := arrowipc.AppendSchema(nil, arrow.NewSchema([]arrow.Field{{Name: "x", Type: arrow.PrimitiveTypes.Int8, Metadata: arrow.NewMetadata([]string{"d"}, []string{"4"})}}, &md))
	for key, want := range map[string]string{"a": "1", "c": "three"} {
		if got, err := arrowipc.SchemaValue(stream, key); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", key, got, err)
		}
	}
	if got, err := arrowipc.SchemaValue(stream, "d"); err != nil || got != nil {
		t.Errorf("key of a field: %q, %v", got, err)
	}
	if n := testing.AllocsPerRun(100, func() { _, _ = arrowipc.SchemaValue(stream, "c") }); n > 1 {
		t.Errorf("%v allocations", n)
	}
	for i := range stream {
		_, _ = arrowipc.SchemaValue(stream[:i], "c")
		bad := append([]byte(nil), stream...)
		bad[i] ^= 0x55
		_, _ = arrowipc.SchemaValue(bad, "c")
	}
}
