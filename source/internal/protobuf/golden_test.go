package protobuf_test

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/foxglove/mcap/go/mcap"

	"github.com/reelhouse/reelhouse/internal/testkit"
	"github.com/reelhouse/reelhouse/source/internal/protobuf"
)

// expectation is a column that the peer made of a channel's messages.
type expectation struct {
	Entity     string
	Component  string
	Rows       int
	Datatype   string
	Digest     string
	Extensions map[string]string
}

// TestGolden decodes the protobuf channels of golden MCAP files and compares
// the columns with those of the peer.
func TestGolden(t *testing.T) {
	dir := testkit.Golden(t, "readers")
	var cases []struct {
		Case, Reader, File string
		Options            map[string]any
	}
	read(t, filepath.Join(dir, "cases.json"), &cases)
	checked := 0
	for _, c := range cases {
		if c.Reader != "mcap" {
			continue
		}
		var expected struct {
			Columns []expectation
			Chunks  []struct {
				Entity     string
				Components []expectation
			}
		}
		read(t, filepath.Join(dir, "expected", c.Case+".json"), &expected)
		want := map[string]expectation{}
		for _, e := range expected.Columns {
			if strings.HasSuffix(e.Component, ":message") {
				want[e.Entity+" "+e.Component] = e
			}
		}
		for _, ch := range expected.Chunks {
			for _, e := range ch.Components {
				if w, ok := want[ch.Entity+" "+e.Component]; ok {
					w.Extensions = e.Extensions
					want[ch.Entity+" "+e.Component] = w
				}
			}
		}
		if len(want) == 0 {
			continue
		}
		t.Run(c.Case, func(t *testing.T) { checked += checkFile(t, filepath.Join(dir, c.File), want) })
	}
	if checked == 0 {
		t.Error("no column checked")
	}
}

func read(t *testing.T, file string, into any) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(b, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func checkFile(t *testing.T, file string, want map[string]expectation) int {
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := mcap.NewReader(f)
	if err != nil {
		t.Skip("not a whole file")
	}
	it, err := r.Messages(mcap.UsingIndex(false), mcap.InOrder(mcap.FileOrder))
	if err != nil {
		t.Fatal(err)
	}
	decoders := map[uint16]*protobuf.Decoder{}
	names := map[uint16]string{}
	var order []uint16
	for {
		schema, channel, message, err := it.NextInto(nil)
		if err == io.EOF || err != nil {
			break
		}
		if schema == nil || schema.Encoding != "protobuf" {
			continue
		}
		d := decoders[channel.ID]
		if d == nil {
			set, err := protobuf.ParseFileDescriptorSet(schema.Data)
			if err != nil {
				t.Fatal(err)
			}
			m, err := set.Message(schema.Name)
			if err != nil {
				t.Fatal(err)
			}
			layout, err := protobuf.NewLayout(m)
			if err != nil {
				t.Fatal(err)
			}
			d = layout.NewDecoder()
			decoders[channel.ID] = d
			names[channel.ID] = channel.Topic + " " + m.Name + ":message"
			order = append(order, channel.ID)
		}
		if err := d.Append(message.Data); err != nil {
			t.Logf("%s: %v", channel.Topic, err)
		}
	}
	checked := 0
	for _, id := range order {
		e, ok := want[names[id]]
		if !ok {
			continue
		}
		checked++
		values := array.MakeFromData(decoders[id].Finish())
		list := wrap(values)
		if got := testkit.PyArrowType(list.DataType()); got != e.Datatype {
			t.Errorf("%s: type\n got %s\nwant %s", names[id], got, e.Datatype)
		}
		if got := testkit.DigestReaders(list); list.Len() != e.Rows || got != e.Digest {
			t.Errorf("%s: %d rows, digest %s, want %d, %s\n%v", names[id], list.Len(), got, e.Rows, e.Digest, list)
		}
		got := map[string]string{}
		extensions("", list.DataType(), got)
		for k, v := range e.Extensions {
			if got[k] != v {
				t.Errorf("%s: extension of %s is %q, want %q", names[id], k, got[k], v)
			}
			delete(got, k)
		}
		if len(got) > 0 {
			t.Errorf("%s: extensions that the peer lacks: %v", names[id], got)
		}
	}
	return checked
}

// extensions collects extension names as the golden files write their paths.
func extensions(path string, dt arrow.DataType, into map[string]string) {
	field := func(path string, f arrow.Field) {
		if name, ok := f.Metadata.GetValue("ARROW:extension:name"); ok {
			into[path] = name
		}
		extensions(path, f.Type, into)
	}
	switch t := dt.(type) {
	case *arrow.StructType:
		for _, f := range t.Fields() {
			field(strings.TrimPrefix(path+"."+f.Name, "."), f)
		}
	case *arrow.ListType:
		field(path+"[]", t.ElemField())
	case *arrow.MapType:
		field(path+".value", t.ItemField())
	}
}

// wrap makes each row a list of one, as component columns are.
func wrap(values arrow.Array) *array.List {
	offsets := make([]int32, values.Len()+1)
	for i := range offsets {
		offsets[i] = int32(i)
	}
	buffers := []*memory.Buffer{nil, memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(offsets))}
	return array.NewListData(array.NewData(arrow.ListOf(values.DataType()), values.Len(), buffers, []arrow.ArrayData{values.Data()}, 0, 0))
}
