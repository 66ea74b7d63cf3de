package rosmsg

import (
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/reelhouse/reelhouse/source/internal/cdr"
)

// Definitions and the Arrow type that they become, or part of the error.
func TestParse(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"primitives", "bool a\nbyte b\nchar c\nint8 d\nuint64 e\nfloat32 f\nfloat64 g\nstring h",
			"struct<a: bool, b: uint8, c: uint8, d: int8, e: uint64, f: float32, g: float64, h: utf8>"},
		{"arrays", "int16[3] a\nint32[] b\nstring<=4[<=2] c\nfloat32[<=5] d",
			"struct<a: list<item: int16>, b: list<item: int32>, c: list<item: utf8>, d: list<item: float32>>"},
		{"constants and defaults", "int32 A=1\nstring B = \"x # y\"\nint32 x 5 # five\nstring s \"a # b\"\n\n# comment\n\tint8\t y",
			"struct<x: int32, s: utf8, y: int8>"},
		{"nested", "p/In i\np/In[] is\n===\nMSG: p/In\nint8 x", "struct<i: struct<x: int8>, is: list<item: struct<x: int8>, nullable>>"},
		{"relative", "In i\n=====\nMSG: p/In\nSub s\n=====\nMSG: p/Sub\nint8 y", "struct<i: struct<s: struct<y: int8>>>"},
		{"msg in names", "p/msg/In i\n===\nMSG: p/In\nint8 x", "struct<i: struct<x: int8>>"},
		{"enum", "E e\nE[2] es\nM m\n===\nMSG: p/E\nuint8 A=1\nuint8 B=2\n===\nMSG: p/M\nuint8 A=1\nint8 B=2",
			"struct<e: uint8, es: list<item: uint8>, m: struct<structure_needs_at_least_one_member: uint8>>"},
		{"empty", "", "struct<structure_needs_at_least_one_member: uint8>"},
		{"last of equal names", "In i\n===\nMSG: p/In\nint8 x\n===\nMSG: p/In\nint16 y", "struct<i: struct<y: int16>>"},
		{"windows lines", "int8 x\r\nIn i\r\n===\r\nMSG: p/In\r\nint8 y\r\n", "struct<x: int8, i: struct<y: int8>>"},

		{"wstring", "int8 x\n===\nMSG: p/In\nwstring y", "error: wstring"},
		{"undefined", "In i", "error: p/In is not defined"},
		{"other package", "q/In i\n===\nMSG: q/In\nSub s\n===\nMSG: p/Sub\nint8 y", "error: q/Sub is not defined"},
		{"time of ROS 1", "time t", "error: p/time is not defined"},
		{"no name", "int8", "error: no name"},
		{"open array", "int8[ x", "error: not closed"},
		{"negative array", "int8[-1] x", "error: length"},
		{"bounded number", "int8<=3 x", "error: bounded type"},
		{"cycle", "In i\n===\nMSG: p/In\nIn[] x", "error: contains itself"},
		{"no MSG line", "int8 x\n===\nint8 y", "error: MSG:"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := Parse("p/msg/T", c.text)
			if wantErr, ok := strings.CutPrefix(c.want, "error: "); ok {
				if err == nil || !strings.Contains(err.Error(), wantErr) {
					t.Fatalf("error %v, want one with %q", err, wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := m.ArrowType().String(); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// A few lines must not become millions of fields.
func TestParseBomb(t *testing.T) {
	var b strings.Builder
	b.WriteString("L0 a\n")
	for _, level := range []string{"0", "1", "2", "3", "4", "5", "6", "7"} {
		next := string(level[0] + 1)
		b.WriteString("===\nMSG: p/L" + level + "\n")
		for _, f := range "abcdefghij" {
			b.WriteString("L" + next + " " + string(f) + "\n")
		}
	}
	b.WriteString("===\nMSG: p/L8\nint8 x\n")
	if _, err := Parse("p/T", b.String()); err == nil {
		t.Error("no error")
	}
}

func decoderFor(t testing.TB, text string) *Decoder {
	t.Helper()
	m, err := Parse("p/msg/T", text)
	if err != nil {
		t.Fatal(err)
	}
	return m.NewDecoder(m.ArrowType())
}

func TestDecode(t *testing.T) {
	d := decoderFor(t, "uint8 a\nfloat64[] b\nstring s\nIn[] i\nbool[2] f\n===\nMSG: p/In\nint16 x\nstring[] names")
	little := []byte{0, 1, 0, 0, 7, 0, 0, 0, 1, 0, 0, 0}
	little = binary.LittleEndian.AppendUint64(little, math.Float64bits(2.5))
	little = append(little, 3, 0, 0, 0, 'h', 'i', 0, 0, 2, 0, 0, 0)
	little = append(little, 0xff, 0xff, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 'a', 0) // x -1, names [a]
	little = append(little, 5, 0, 0, 0, 0, 0)                                 // x 5, no names
	little = append(little, 1, 0)
	// Sequences are empty here, so nothing is padded for their items.
	big := []byte{0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1}
	big = append(big[:20], 0, 0, 0, 0, 0, 1)
	for i, msg := range [][]byte{little, big} {
		for cut := range msg {
			rows := d.Rows.Len()
			if err := d.Decode(msg[:cut]); err == nil {
				t.Fatalf("message %d: no error at a cut at %d", i, cut)
			}
			d.Rows.Truncate(rows)
		}
	}
	for i, msg := range [][]byte{little, big} {
		if err := d.Decode(msg); err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
	}
	got := array.MakeFromData(d.Rows.Finish()).String()
	want := `{[7 9] [[2.5] []] ["hi" ""] [{[-1 5] [["a"] []]} {[] []}] [[true false] [false true]]}`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestDecodeErrors(t *testing.T) {
	for _, c := range []struct {
		text string
		msg  []byte
		want error
	}{
		{"string s", []byte{0, 1, 0, 0, 2, 0, 0, 0, 0xff, 0}, ErrUTF8},
		{"bool b", []byte{0, 1, 0, 0, 2}, cdr.ErrBool},
		{"int8 x", []byte{0, 2, 0, 0, 1}, cdr.ErrHeader},
		{"int8 x", []byte{1, 1, 0, 0, 1}, cdr.ErrHeader},
		{"int8 x", []byte{0, 1}, cdr.ErrShort},
		{"int64[] x", []byte{0, 1, 0, 0, 0xff, 0xff, 0xff, 0xff, 1}, cdr.ErrShort},
		{"int64[2147483647] x", []byte{0, 1, 0, 0, 1}, cdr.ErrShort},
		{"string[] x", []byte{0, 1, 0, 0, 0xff, 0xff, 0xff, 0xff, 1}, cdr.ErrShort},
	} {
		if err := decoderFor(t, c.text).Decode(c.msg); !errors.Is(err, c.want) {
			t.Errorf("%s: error %v, want %v", c.text, err, c.want)
		}
	}
}

func TestStampPath(t *testing.T) {
	const stamp = "\n===\nMSG: std_msgs/Header\nTime stamp\nstring frame_id\n===\nMSG: std_msgs/Time\nint32 sec\nuint32 nanosec"
	for text, want := range map[string]int{
		"int8 x\nstd_msgs/Header header" + stamp:                      2,
		"int8 x\nstd_msgs/Time stamp" + stamp:                         1,
		"int8 header\nstd_msgs/Time stamp" + stamp:                    0,
		"std_msgs/Header[] header" + stamp:                            0,
		"int8 stamp":                                                  0,
		"T stamp\n===\nMSG: p/T\nuint32 sec\nuint32 nanosec":          0,
		"T stamp\n===\nMSG: p/T\nint8 pad\nuint32 nanosec\nint32 sec": 1,
	} {
		m, err := Parse("p/T2", text)
		if err != nil {
			t.Fatal(err)
		}
		if got := m.StampPath(); len(got) != want {
			t.Errorf("%q: path %v, want %d steps", text, got, want)
		}
	}
}

func FuzzMessageDefinition(f *testing.F) {
	f.Add("int32 x 5\nstring<=5[<=3] s\nIn[] i\n===\nMSG: p/In\nuint8 A=1")
	f.Add("Header h\n================\nMSG: std_msgs/Header\nbuiltin_interfaces/Time stamp")
	f.Fuzz(func(t *testing.T, text string) {
		if m, err := Parse("p/msg/T", text); err == nil {
			m.ArrowType()
			m.StampPath()
		}
	})
}

func FuzzCDR(f *testing.F) {
	definitions := []string{
		"uint8 a\nfloat64[] b\nstring s\nIn[] i\nbool[2] f\n===\nMSG: p/In\nint16 x\nstring[] names",
		"float32[3] x\nIn[2] i\n===\nMSG: p/In\nint64[] y\nuint16[] z",
	}
	f.Add(0, []byte{0, 1, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0})
	f.Add(1, []byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, which int, msg []byte) {
		d := decoderFor(t, definitions[uint(which)%2])
		if err := d.Decode(msg); err != nil {
			d.Rows.Truncate(0)
		}
		rows := d.Rows.Len()
		a := array.MakeFromData(d.Rows.Finish()).(*array.Struct)
		if a.Len() != rows {
			t.Fatalf("%d rows instead of %d", a.Len(), rows)
		}
		for i := range a.NumField() {
			if a.Field(i).Len() != rows {
				t.Fatalf("field %d has %d rows instead of %d", i, a.Field(i).Len(), rows)
			}
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	d := decoderFor(b, "std_msgs/Header header\nV a\nV b\nfloat64[36] cov\n===\nMSG: p/V\nfloat64 x\nfloat64 y\nfloat64 z\n===\nMSG: std_msgs/Header\nTime stamp\nstring frame_id\n===\nMSG: std_msgs/Time\nint32 sec\nuint32 nanosec")
	msg := append([]byte{0, 1, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 5, 0, 0, 0, 'b', 'a', 's', 'e', 0, 0, 0, 0}, make([]byte, 8*42+4)...)
	b.SetBytes(int64(len(msg)))
	b.ReportAllocs()
	for b.Loop() {
		if err := d.Decode(msg); err != nil {
			b.Fatal(err)
		}
		if d.Rows.Len() == 1000 {
			d.Rows.Finish()
		}
	}
}
