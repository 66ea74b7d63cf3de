package protobuf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// field makes a field descriptor from "name number type", with a type such as
// int32, .t.In, enum .t.E, and "repeated" before or an option after it.
func field(text string) *descriptorpb.FieldDescriptorProto {
	words := strings.Fields(text)
	f := &descriptorpb.FieldDescriptorProto{Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()}
	if words[0] == "repeated" {
		f.Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
		words = words[1:]
	}
	f.Name = proto.String(words[0])
	var n int32
	if _, err := fmt.Sscan(words[1], &n); err != nil {
		panic(err)
	}
	f.Number = &n
	kind, rest := words[2], words[3:]
	switch {
	case kind == "enum" || kind == "group":
		f.TypeName = proto.String(rest[0])
		f.Type = descriptorpb.FieldDescriptorProto_Type(descriptorpb.FieldDescriptorProto_Type_value["TYPE_"+strings.ToUpper(kind)]).Enum()
		rest = rest[1:]
	case kind[0] == '.':
		f.TypeName = proto.String(kind)
		f.Type = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum()
	default:
		f.Type = descriptorpb.FieldDescriptorProto_Type(descriptorpb.FieldDescriptorProto_Type_value["TYPE_"+strings.ToUpper(kind)]).Enum()
	}
	for _, w := range rest {
		switch {
		case w == "unpacked":
			f.Options = &descriptorpb.FieldOptions{Packed: proto.Bool(false)}
		case strings.HasPrefix(w, "oneof"):
			var i int32
			if _, err := fmt.Sscan(w[5:], &i); err != nil {
				panic(err)
			}
			f.OneofIndex = &i
		}
	}
	return f
}

func message(name string, fields ...string) *descriptorpb.DescriptorProto {
	m := &descriptorpb.DescriptorProto{Name: &name}
	for _, f := range fields {
		m.Field = append(m.Field, field(f))
	}
	return m
}

func entryType(name, key, value string) *descriptorpb.DescriptorProto {
	m := message(name, "key 1 "+key, "value 2 "+value)
	m.Options = &descriptorpb.MessageOptions{MapEntry: proto.Bool(true)}
	return m
}

// testFile has a message of everything, t.M.
func testFile() *descriptorpb.FileDescriptorProto {
	m := message("M", "d 1 double", "f 2 float", "i64 3 int64", "u64 4 uint64", "i32 5 int32", "x64 6 fixed64", "x32 7 fixed32",
		"b 8 bool", "s 9 string", "by 10 bytes", "u32 11 uint32", "sx32 12 sfixed32", "sx64 13 sfixed64", "s32 14 sint32", "s64 15 sint64",
		"e 16 enum .t.E", "in 17 .t.In", "repeated ins 18 .t.In", "repeated p 19 int32", "repeated up 20 sint64 unpacked", "repeated es 21 enum .t.E",
		"repeated ss 22 string", "ca 23 int32 oneof0", "cb 24 .t.In oneof0", "cc 25 string oneof0", "repeated ms 26 .t.M.MsEntry",
		"repeated mi 27 .t.M.MiEntry", "node 28 .t.Node", "st 29 .google.protobuf.Struct", "ts 30 .google.protobuf.Timestamp", "repeated rd 31 double",
		"repeated rb 32 bool", "repeated vs 33 .google.protobuf.Value", "far 5000 int32", "repeated mv 34 .t.M.MvEntry")
	m.OneofDecl = []*descriptorpb.OneofDescriptorProto{{Name: proto.String("c")}}
	m.NestedType = []*descriptorpb.DescriptorProto{entryType("MsEntry", "string", ".t.In"), entryType("MiEntry", "sint32", "double"), entryType("MvEntry", "bool", ".google.protobuf.Value")}
	return &descriptorpb.FileDescriptorProto{
		Name: proto.String("t.proto"), Package: proto.String("t"), Syntax: proto.String("proto3"),
		Dependency: []string{"google/protobuf/struct.proto", "google/protobuf/timestamp.proto"},
		MessageType: []*descriptorpb.DescriptorProto{m, message("In", "x 1 int32", "y 2 string", "repeated z 3 .t.In2"), message("In2", "w 1 uint64"),
			message("Node", "v 1 int32", "next 2 .t.Node", "repeated kids 3 .t.Node", "s 4 string", "repeated p 5 int32")},
		EnumType: []*descriptorpb.EnumDescriptorProto{{Name: proto.String("E"), Options: &descriptorpb.EnumOptions{AllowAlias: proto.Bool(true)}, Value: []*descriptorpb.EnumValueDescriptorProto{
			{Name: proto.String("ZERO"), Number: proto.Int32(0)}, {Name: proto.String("NEG"), Number: proto.Int32(-3)}, {Name: proto.String("ALIAS"), Number: proto.Int32(-3)}}}},
	}
}

func testSet(files ...*descriptorpb.FileDescriptorProto) []byte {
	fds := &descriptorpb.FileDescriptorSet{File: append([]*descriptorpb.FileDescriptorProto{
		protodesc.ToFileDescriptorProto(structpb.File_google_protobuf_struct_proto),
		protodesc.ToFileDescriptorProto(timestamppb.File_google_protobuf_timestamp_proto)}, files...)}
	b, err := proto.Marshal(fds)
	if err != nil {
		panic(err)
	}
	return b
}

func testDecoder(t testing.TB, set []byte, name string) *Decoder {
	t.Helper()
	s, err := ParseFileDescriptorSet(set)
	if err != nil {
		t.Fatal(err)
	}
	m, err := s.Message(name)
	if err != nil {
		t.Fatal(err)
	}
	l, err := NewLayout(m)
	if err != nil {
		t.Fatal(err)
	}
	return l.NewDecoder()
}

// reference is the type t.M as the protobuf library sees it.
func reference(t testing.TB) protoreflect.MessageDescriptor {
	t.Helper()
	fds := &descriptorpb.FileDescriptorSet{}
	if err := proto.Unmarshal(testSet(testFile()), fds); err != nil {
		t.Fatal(err)
	}
	files, err := protodesc.NewFiles(fds)
	if err != nil {
		t.Fatal(err)
	}
	d, err := files.FindDescriptorByName("t.M")
	if err != nil {
		t.Fatal(err)
	}
	return d.(protoreflect.MessageDescriptor)
}

// wire builders
func num(n protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(nil, n, protowire.VarintType), v)
}

func sub(n protowire.Number, parts ...[]byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, n, protowire.BytesType), bytes.Join(parts, nil))
}

func double(n protowire.Number, v float64) []byte {
	return binary.LittleEndian.AppendUint64(protowire.AppendTag(nil, n, protowire.Fixed64Type), math.Float64bits(v))
}

func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

func TestFailedRowsLeaveNothing(t *testing.T) {
	d := testDecoder(t, testSet(testFile()), "t.M")
	good := join(sub(18, num(1, 4), sub(3, num(1, 9))), sub(22, []byte("a")), sub(26, sub(1, []byte("k")), sub(2, num(1, 2))), sub(19, []byte{1, 2}))
	bad := [][]byte{
		sub(9, []byte("\xff")),
		join(good, sub(18, sub(2, []byte("\xff")))),
		join(good, sub(26, sub(1, []byte("k")), sub(2, sub(2, []byte("\xff"))))),
		join(good, []byte{0x0d, 1}), // float of one byte
		join(good, sub(31, []byte{1, 2, 3})),
		join(good, num(9, 1)),
		join(good, sub(24, sub(2, []byte("\xff"))), num(23, 1)), // replaced member
		join(good, protowire.AppendTag(nil, 99, protowire.StartGroupType)),
		join(good, protowire.AppendTag(nil, 99, protowire.EndGroupType)),
		join(good, sub(28, sub(2, num(4, 1)))),
	}
	want := 0
	for i, b := range bad {
		if err := d.Append(good); err != nil {
			t.Fatal(err)
		}
		want++
		if err := d.Append(b); !errors.Is(err, ErrMessage) {
			t.Errorf("message %d: error %v", i, err)
		}
		if d.Len() != want {
			t.Fatalf("message %d: %d rows, want %d", i, d.Len(), want)
		}
	}
	rows := array.NewStructData(d.Finish())
	text := fmt.Sprint(array.NewSlice(rows, 0, 1))
	for i := range want {
		if got := fmt.Sprint(array.NewSlice(rows, int64(i), int64(i+1))); got != text {
			t.Errorf("row %d is %s, want %s", i, got, text)
		}
	}
}

func TestDescriptors(t *testing.T) {
	t.Run("undeclared enum number has no name", func(t *testing.T) {
		d := testDecoder(t, testSet(testFile()), "t.M")
		if err := d.Append(join(num(16, 7), sub(21, []byte{0, 7}))); err != nil {
			t.Fatal(err)
		}
		s := array.NewStructData(d.Finish())
		e := s.Field(15).(*array.Struct)
		if e.Field(0).IsValid(0) || e.Field(1).(*array.Int32).Value(0) != 7 {
			t.Errorf("enum is %v", e)
		}
	})
	t.Run("editions", func(t *testing.T) {
		f := testFile()
		f.Syntax, f.Edition = proto.String("editions"), descriptorpb.Edition_EDITION_2023.Enum()
		m := message("Ed", "explicit 1 int32", "implicit 2 int32", "del 3 .t.In", "repeated ex 4 int32")
		m.Field[1].Options = &descriptorpb.FieldOptions{Features: &descriptorpb.FeatureSet{FieldPresence: descriptorpb.FeatureSet_IMPLICIT.Enum()}}
		m.Field[2].Options = &descriptorpb.FieldOptions{Features: &descriptorpb.FeatureSet{MessageEncoding: descriptorpb.FeatureSet_DELIMITED.Enum()}}
		f.MessageType = append(f.MessageType, m)
		d := testDecoder(t, testSet(f), "t.Ed")
		group := join(protowire.AppendTag(nil, 3, protowire.StartGroupType), num(1, 5), protowire.AppendTag(nil, 3, protowire.EndGroupType))
		for _, b := range [][]byte{nil, join(num(1, 0), num(2, 3), group, num(4, 1), sub(4, []byte{2}))} {
			if err := d.Append(b); err != nil {
				t.Fatal(err)
			}
		}
		got := fmt.Sprint(array.NewStructData(d.Finish()))
		if want := `{[(null) 0] [0 3] {[(null) 5] [(null) (null)] [(null) (null)]} [(null) [1 2]]}`; got != want {
			t.Errorf("rows are %s, want %s", got, want)
		}
	})
	t.Run("what strict linkers refuse", func(t *testing.T) {
		f := testFile()
		m := message("Odd", "a 5 int32 oneof0", "b 3 int32", "c 4 int32 oneof0", "b 7 .t.Nowhere", "x 3 string")
		m.OneofDecl = []*descriptorpb.OneofDescriptorProto{{Name: proto.String("o")}}
		f.MessageType = append(f.MessageType, m)
		f.Dependency = append(f.Dependency, "missing.proto")
		d := testDecoder(t, testSet(f, f), "t.Odd")
		want := "struct<b: int32, o: struct<a: int32 nullable, c: int32 nullable> nullable, b_7: binary nullable>"
		if got := d.Type().String(); got != want {
			t.Errorf("type is %s, want %s", got, want)
		}
		if err := d.Append(join(num(3, 1), num(4, 2), sub(7, []byte("raw")))); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("types that unfold without end", func(t *testing.T) {
		f := testFile()
		for i := range 40 {
			f.MessageType = append(f.MessageType, message(fmt.Sprintf("L%d", i), fmt.Sprintf("a 1 .t.L%d", i+1), fmt.Sprintf("b 2 .t.L%d", i+1)))
		}
		f.MessageType = append(f.MessageType, message("L40", "x 1 int32"))
		d := testDecoder(t, testSet(f), "t.L0")
		if err := d.Append(sub(1, sub(2, sub(1)))); err != nil {
			t.Fatal(err)
		}
	})
	for name, b := range map[string][]byte{"garbage": {0xff, 0xff}, "truncated": testSet(testFile())[:90]} {
		if _, err := ParseFileDescriptorSet(b); !errors.Is(err, ErrDescriptor) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	s, err := ParseFileDescriptorSet(testSet(testFile()))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Message("t.Nope"); !errors.Is(err, ErrUnknownType) {
		t.Errorf("error %v", err)
	}
	if _, err := s.Message(".t.M"); err != nil {
		t.Error(err)
	}
}

// TestTooManyValues feeds elements of two bytes that take thousands of columns.
func TestTooManyValues(t *testing.T) {
	f := testFile()
	wide := message("Wide")
	for i := range 4000 {
		wide.Field = append(wide.Field, field(fmt.Sprintf("f%d %d int32", i, i+1)))
	}
	f.MessageType = append(f.MessageType, wide, message("Bomb", "repeated w 1 .t.Wide"))
	d := testDecoder(t, testSet(f), "t.Bomb")
	d.free = 1 << 16
	if err := d.Append(bytes.Repeat(sub(1), 1<<10)); !errors.Is(err, ErrTooLarge) {
		t.Fatalf("error %v", err)
	}
	if err := d.Append(bytes.Repeat(sub(1), 8)); err != nil || d.Len() != 1 {
		t.Fatalf("%d rows, error %v", d.Len(), err)
	}
}

func TestJSONNumbers(t *testing.T) {
	for v, want := range map[float64]string{0: "0.0", 1: "1.0", 1e15: "1000000000000000.0", 1e16: "1e+16", 1e-5: "0.00001", 9.99e-6: "9.99e-6",
		1.25e-7: "1.25e-7", 5e-324: "5e-324", math.MaxFloat64: "1.7976931348623157e+308", math.Inf(-1): `"-Infinity"`, 0.1: "0.1", 9999999999999998: "9999999999999998.0"} {
		if got := string(appendJSONNumber(nil, v)); got != want {
			t.Errorf("%v is %s, want %s", v, got, want)
		}
	}
	if got := string(appendJSONNumber(nil, math.Copysign(0, -1))); got != "-0.0" {
		t.Errorf("negative zero is %s", got)
	}
}

var messageSeeds = [][]byte{
	nil,
	join(double(1, 1.5), num(5, 1<<63), num(16, math.MaxUint64-2), sub(17, num(1, 1)), sub(17, sub(2, []byte("q")))),
	join(sub(18, sub(3, num(1, 1)), sub(3)), sub(19, []byte{1, 2, 0x80, 1}), num(19, 3), sub(20, []byte{3}), num(20, 4), sub(21, []byte{0, 5})),
	join(num(23, 1), sub(24, num(1, 2)), num(23, 0), sub(24, sub(2, []byte("z")))),
	join(sub(26, sub(1, []byte("b")), sub(2, num(1, 1))), sub(26, sub(1, []byte("a"))), sub(26, sub(1, []byte("b")), sub(2, sub(2, []byte("x"))))),
	join(sub(27, num(1, 1), double(2, 2)), sub(27)),
	join(sub(28, num(1, 3), sub(2, num(1, 4)), sub(3), sub(5, []byte{1}), num(5, 2), sub(77, []byte("u")))),
	join(sub(29, sub(1, sub(1, []byte("k")), sub(2, sub(6, sub(1, double(2, 1)), sub(1, num(1, 0))))))),
	join(sub(30, num(1, 5), num(2, 6)), sub(33, sub(3, []byte("\"\n"))), num(5000, 7), sub(34, num(1, 1), sub(2, num(4, 1)))),
	join(protowire.AppendTag(nil, 99, protowire.StartGroupType), num(1, 2), protowire.AppendTag(nil, 99, protowire.EndGroupType)),
}

// FuzzMessage decodes arbitrary bytes as a fixed type and compares with the
// protobuf library: what both accept must be the same message.
func FuzzMessage(f *testing.F) {
	for _, s := range messageSeeds {
		f.Add(s)
	}
	set := testSet(testFile())
	d := testDecoder(f, set, "t.M")
	desc := reference(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		err := d.Append(b)
		theirs := dynamicpb.NewMessage(desc)
		theirErr := unmarshal(b, theirs)
		canonical, err2 := d.layout.Message.appendCanonical(nil, b, 0)
		if (err == nil) != (err2 == nil) && !errors.Is(err, ErrTooLarge) {
			t.Fatalf("decoded with error %v, encoded with error %v", err, err2)
		}
		if err != nil {
			if d.Len() != 0 {
				t.Fatalf("%d rows after an error", d.Len())
			}
			return
		}
		rows := array.NewStructData(d.Finish())
		if rows.Len() != 1 {
			t.Fatalf("%d rows", rows.Len())
		}
		if theirErr != nil {
			t.Skip("the library is stricter: ", theirErr)
		}
		again := dynamicpb.NewMessage(desc)
		if err := unmarshal(canonical, again); err != nil || !proto.Equal(theirs, again) {
			t.Fatalf("canonical form is another message: %v", err)
		}
		if twice, err := d.layout.Message.appendCanonical(nil, canonical, 0); err != nil || !bytes.Equal(twice, canonical) {
			t.Fatalf("canonical form is not stable: %x, %x", canonical, twice)
		}
		if err := d.Append(canonical); err != nil {
			t.Fatalf("canonical form: %v", err)
		}
		if diff := cmp.Diff(fmt.Sprint(rows), fmt.Sprint(array.NewStructData(d.Finish()))); diff != "" {
			t.Fatal("canonical form decodes to other values: ", diff)
		}
	})
}

// unmarshal is that of the library without unknown fields, which it compares byte
// by byte. It panics on map entries of dynamic messages
// that lack a key.
func unmarshal(b []byte, m proto.Message) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	return proto.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(b, m)
}

// FuzzProtobuf links arbitrary descriptors and decodes arbitrary messages.
func FuzzProtobuf(f *testing.F) {
	set := testSet(testFile())
	for _, s := range messageSeeds {
		f.Add(set, "t.M", s)
	}
	f.Add(set, "t.Node", messageSeeds[6])
	f.Add(set, "google.protobuf.Value", sub(6, sub(1, double(2, 1))))
	f.Fuzz(func(t *testing.T, set []byte, name string, b []byte) {
		s, err := ParseFileDescriptorSet(set)
		if err != nil {
			return
		}
		for _, name := range []string{name, "t.M", "t.Node"} {
			m, err := s.Message(name)
			if err != nil {
				continue
			}
			l, err := NewLayout(m)
			if err != nil {
				continue
			}
			d := l.NewDecoder()
			for range 2 {
				rows := d.Len()
				if err := d.Append(b); err == nil {
					rows++
				}
				if d.Len() != rows {
					t.Fatalf("%d rows instead of %d", d.Len(), rows)
				}
			}
			_ = array.NewStructData(d.Finish()).String()
		}
	})
}

// BenchmarkDecode decodes messages like those of robots: a state with nested
// vectors, packed numbers and a name, and a blob.
func BenchmarkDecode(b *testing.B) {
	d := testDecoder(b, testSet(testFile()), "t.M")
	floats := make([]byte, 8*64)
	state := join(double(1, 1), num(3, 1<<40), sub(9, []byte("base_link")), sub(17, num(1, 4), sub(2, []byte("x"))), sub(31, floats), sub(30, num(1, 1700000000), num(2, 5)))
	for range 8 {
		state = append(state, sub(18, num(1, 3), sub(2, []byte("joint")), sub(3, num(1, 2)))...)
	}
	blob := sub(10, make([]byte, 1<<16))
	for name, msg := range map[string][]byte{"state": state, "blob": blob} {
		b.Run(name, func(b *testing.B) {
			const rows = 1000
			b.SetBytes(int64(len(msg)) * rows)
			b.ReportAllocs()
			for range b.N {
				d.Reserve(rows, rows*len(msg))
				for range rows {
					if err := d.Append(msg); err != nil {
						b.Fatal(err)
					}
				}
				d.Finish()
			}
		})
	}
}
