package mcap_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"
	writer "github.com/foxglove/mcap/go/mcap"
	"github.com/google/go-cmp/cmp"

	"github.com/reelhouse/reelhouse/chunk"
	"github.com/reelhouse/reelhouse/internal/testkit"
	"github.com/reelhouse/reelhouse/source/mcap"
)

// cdr writes little-endian CDR.
type cdr struct{ b []byte }

func (c *cdr) align(n int) {
	for len(c.b)%n != 0 {
		c.b = append(c.b, 0)
	}
}

func (c *cdr) u32(v ...uint32) *cdr {
	for _, x := range v {
		c.align(4)
		c.b = binary.LittleEndian.AppendUint32(c.b, x)
	}
	return c
}

func (c *cdr) f64(v ...float64) *cdr {
	for _, x := range v {
		c.align(8)
		c.b = binary.LittleEndian.AppendUint64(c.b, math.Float64bits(x))
	}
	return c
}

func (c *cdr) text(s string) *cdr {
	c.u32(uint32(len(s) + 1))
	c.b = append(append(c.b, s...), 0)
	return c
}

func (c *cdr) bytes(b []byte) *cdr {
	c.u32(uint32(len(b)))
	c.b = append(c.b, b...)
	return c
}

func (c *cdr) u8(v ...byte) *cdr {
	c.b = append(c.b, v...)
	return c
}

func (c *cdr) header(sec uint32) *cdr { return c.u32(sec, 5).text("frame") }

func (c *cdr) message() []byte { return append([]byte{0, 1, 0, 0}, c.b...) }

const headerDef = "\n===\nMSG: std_msgs/Header\nbuiltin_interfaces/Time stamp\nstring frame_id\n===\nMSG: builtin_interfaces/Time\nint32 sec\nuint32 nanosec\n"

// channels of the test file, and message i of each.
var channels = []struct {
	topic, schema, definition string
	message                   func(i int) []byte
}{
	{"/imu", "sensor_msgs/msg/Imu", "std_msgs/Header header" + headerDef, func(i int) []byte {
		return new(cdr).header(uint32(i)).f64(make([]float64, 37)...).message()
	}},
	{"/cloud", "sensor_msgs/msg/PointCloud2", "std_msgs/Header header" + headerDef, func(i int) []byte {
		c := new(cdr).header(uint32(i)).u32(1, 1, 4)
		for k, name := range []string{"x", "y", "z", []string{"a", "b"}[i/7%2]} {
			c.text(name).u32(uint32(4 * k)).u8(7).u32(1)
		}
		return c.u8(0).u32(16, 16).bytes(make([]byte, 16*(1+i%3)+i%2)).u8(1).message()
	}},
	{"/image", "sensor_msgs/msg/Image", "std_msgs/Header header\nuint32 height\nuint32 width\nstring encoding\nuint8 is_bigendian\nuint32 step\nuint8[] data" + headerDef, func(i int) []byte {
		return new(cdr).header(uint32(i)).u32(2, 2).text([]string{"rgb8", "mono8", "strange"}[i%3]).u8(0).u32(8).bytes(make([]byte, 16)).message()
	}},
	{"/tf", "tf2_msgs/msg/TFMessage", "geometry_msgs/TransformStamped[] transforms\n===\nMSG: geometry_msgs/TransformStamped\nstd_msgs/Header header\nstring child_frame_id\ngeometry_msgs/Transform transform\n===\nMSG: geometry_msgs/Transform\ngeometry_msgs/Vector3 translation\ngeometry_msgs/Quaternion rotation\n===\nMSG: geometry_msgs/Vector3\nfloat64 x\nfloat64 y\nfloat64 z\n===\nMSG: geometry_msgs/Quaternion\nfloat64 x\nfloat64 y\nfloat64 z\nfloat64 w" + headerDef, func(i int) []byte {
		c := new(cdr).u32(uint32(i % 3))
		for k := range i % 3 {
			c.header(uint32(k)).text("child").f64(1, 2, 3, 0, 0, 0, 1)
		}
		return c.message()
	}},
	{"/own", "my_msgs/msg/Own", "std_msgs/Header header\nfloat64[] values\nstring[] names" + headerDef, func(i int) []byte {
		return new(cdr).header(uint32(i)).u32(2).f64(float64(i), 1).u32(1).text("n").message()
	}},
	{"/robot_description", "std_msgs/msg/String", "string data", func(i int) []byte {
		return new(cdr).text(fmt.Sprintf(`<robot name="r%d"><link name="l"><visual><geometry><sphere radius="1"/></geometry></visual></link></robot>`, i)).message()
	}},
	{"/broken", "my_msgs/msg/Broken", "Missing m", func(i int) []byte { return []byte{byte(i)} }},
}

// testFile writes a file with n messages of each channel.
func testFile(t testing.TB, n int, o *writer.WriterOptions) []byte {
	t.Helper()
	check := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	var buf bytes.Buffer
	w, err := writer.NewWriter(&buf, o)
	check(err)
	check(w.WriteHeader(&writer.Header{Profile: "ros2"}))
	for i, c := range channels {
		check(w.WriteSchema(&writer.Schema{ID: uint16(i + 1), Name: c.schema, Encoding: "ros2msg", Data: []byte(c.definition)}))
		check(w.WriteChannel(&writer.Channel{ID: uint16(i + 1), SchemaID: uint16(i + 1), Topic: c.topic, MessageEncoding: "cdr"}))
	}
	for i := range n {
		for k, c := range channels {
			check(w.WriteMessage(&writer.Message{ChannelID: uint16(k + 1), LogTime: uint64(1000 + 10*i), PublishTime: uint64(1000 + i), Data: c.message(i)}))
		}
	}
	check(w.Close())
	return buf.Bytes()
}

var chunked = writer.WriterOptions{Chunked: true, ChunkSize: 4000, Compression: writer.CompressionZSTD, IncludeCRC: true}

func reader(t testing.TB, b []byte, o mcap.Options) *mcap.Reader {
	t.Helper()
	r, err := mcap.New(bytes.NewReader(b), int64(len(b)), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// describe lists chunks with their values.
func describe(t testing.TB, r *mcap.Reader) []string {
	t.Helper()
	var out []string
	for c, err := range r.Chunks(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		s := fmt.Sprintf("%s %d rows", c.EntityPath(), c.NumRows())
		for _, tl := range c.Timelines() {
			s += fmt.Sprintf(" %s %v", tl.Name, tl.Times)
		}
		for _, m := range c.Components() {
			s += fmt.Sprintf(" %s %s", m.Component, testkit.DigestReaders(m.Values))
		}
		out = append(out, s)
	}
	return out
}

// The stream is the same whatever the number of workers.
func TestWorkers(t *testing.T) {
	testkit.CheckLeaks(t)
	b := testFile(t, 50, &chunked)
	one := describe(t, reader(t, b, mcap.Options{Workers: 1}))
	for _, n := range []int{2, 3, 8} {
		if diff := cmp.Diff(one, describe(t, reader(t, b, mcap.Options{Workers: n}))); diff != "" {
			t.Errorf("%d workers (-one +many):\n%s", n, diff)
		}
	}
}

// The rows of a column are the same however the file is cut into chunks.
func TestChunkSizes(t *testing.T) {
	columns := func(o writer.WriterOptions) map[string]string {
		values := map[string][]string{}
		for c, err := range reader(t, testFile(t, 50, &o), mcap.Options{}).Chunks(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if c.IsStatic() {
				continue
			}
			for _, m := range c.Components() {
				key := fmt.Sprintf("%s %s %v", c.EntityPath(), m.Component, m.Values.DataType())
				for i := range c.NumRows() {
					if m.Values.IsNull(i) {
						continue // which chunk a row without a value is in does not matter
					}
					row := array.NewSlice(m.Values, int64(i), int64(i+1))
					values[key] = append(values[key], fmt.Sprintf("%d %s", c.Timelines()[0].Times[i], testkit.DigestReaders(row)))
				}
			}
		}
		out := map[string]string{}
		for k, v := range values {
			slices.Sort(v)
			out[k] = fmt.Sprint(len(v), v)
		}
		return out
	}
	want := columns(chunked)
	if len(want) < 20 {
		t.Fatalf("only %d columns", len(want))
	}
	for name, o := range map[string]writer.WriterOptions{
		"small chunks": {Chunked: true, ChunkSize: 300, Compression: writer.CompressionLZ4},
		"one chunk":    {Chunked: true, ChunkSize: 1 << 20},
		"unchunked":    {},
	} {
		if diff := cmp.Diff(want, columns(o)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Who stops reading leaves nothing behind.
func TestStop(t *testing.T) {
	testkit.CheckLeaks(t)
	b := testFile(t, 200, &chunked)
	for stop := range 40 {
		n := 0
		for _, err := range reader(t, b, mcap.Options{Workers: 4}).Chunks(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if n++; n > stop {
				break
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var last error
	for _, err := range reader(t, b, mcap.Options{Workers: 4}).Chunks(ctx) {
		cancel()
		last = err
	}
	if !errors.Is(last, context.Canceled) {
		t.Errorf("error %v after cancelling", last)
	}
}

func TestDamage(t *testing.T) {
	b := testFile(t, 50, &writer.WriterOptions{Chunked: true, ChunkSize: 4000, IncludeCRC: true})
	at := bytes.Index(b, []byte("my_msgs")) + 5000 // inside the messages
	for b[at-1] != 0 || b[at] != 0 || b[at+1] != 0 {
		at++
	}
	b[at] = 0x40
	count := func(o mcap.Options) (rows int, r mcap.Report, err error) {
		rd := reader(t, b, o)
		for c, e := range rd.Chunks(t.Context()) {
			if e != nil {
				err = e
				break
			}
			rows += c.NumRows()
		}
		return rows, rd.Report(), err
	}
	dropped, report, err := count(mcap.Options{})
	if err != nil || report.DamagedChunks != 1 || len(report.Warnings) == 0 {
		t.Errorf("error %v, report %+v", err, report)
	}
	kept, report, err := count(mcap.Options{KeepDamaged: true})
	if err != nil || report.DamagedChunks != 1 || kept <= dropped {
		t.Errorf("%d rows with damaged chunks, %d without; error %v", kept, dropped, err)
	}
	if _, _, err = count(mcap.Options{Strict: true}); err == nil {
		t.Error("no error in strict mode")
	}
}

func TestReport(t *testing.T) {
	rd := reader(t, testFile(t, 10, &chunked), mcap.Options{ExcludeTopics: []string{"cloud", "image"}})
	describe(t, rd)
	r := rd.Report()
	got := map[string]string{}
	for _, c := range r.Channels {
		got[c.Topic] = fmt.Sprintf("%s %d %d", c.Decoder, c.Messages, c.Lost)
	}
	want := map[string]string{"/imu": "ros2msg 10 0", "/tf": "ros2_reflection 10 0", "/own": "ros2_reflection 10 0",
		"/robot_description": "ros2_reflection 10 0", "/broken": "raw 10 0"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("channels (-want +got):\n%s", diff)
	}
	if r.Messages != 50 || r.Lost != 0 {
		t.Errorf("%d messages, %d lost", r.Messages, r.Lost)
	}
	info := rd.Info()
	if info.Messages != 70 || len(info.Channels) != len(channels) || info.Profile != "ros2" || info.Source != "embedded" || info.Codecs["zstd"].Chunks == 0 {
		t.Errorf("info %+v", info)
	}
}

func TestNoRawFallback(t *testing.T) {
	b := testFile(t, 3, &chunked)
	has := func(o mcap.Options) bool {
		for c, err := range reader(t, b, o).Chunks(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if c.Component("McapMessage:data") != nil {
				return true
			}
		}
		return false
	}
	if !has(mcap.Options{}) || has(mcap.Options{NoRawFallback: true}) || !has(mcap.Options{NoRawFallback: true, Decoders: []string{"raw"}}) {
		t.Error("raw data where there should be none, or the other way round")
	}
}

func TestBetween(t *testing.T) {
	rd := reader(t, testFile(t, 50, &chunked), mcap.Options{Decoders: []string{"raw"}})
	start, end := int64(1100), int64(1200)
	part, err := rd.Between(&start, &end)
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for c, err := range part.Chunks(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range c.Timeline("message_log_time").Times {
			if v < start || v >= end {
				t.Errorf("log time %d", v)
			}
		}
		rows += c.NumRows()
	}
	if want := 10 * len(channels); rows != want {
		t.Errorf("%d rows, want %d", rows, want)
	}
	if part.Report().SkippedChunks == 0 {
		t.Error("no chunk was skipped")
	}
	if _, err := rd.Between(&end, &start); !errors.Is(err, mcap.ErrOption) {
		t.Errorf("error %v for a range that is none", err)
	}
}

func TestOpenErrors(t *testing.T) {
	if _, err := mcap.Open("no such file", mcap.Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v", err)
	}
	if _, err := mcap.Open(t.TempDir(), mcap.Options{}); err == nil {
		t.Error("no error for a folder")
	}
	negative := int64(-1)
	for _, o := range []mcap.Options{
		{Decoders: []string{"nope"}}, {IncludeTopics: []string{"("}}, {ExcludeTopics: []string{"["}},
		{TimelineType: chunk.Sequence}, {Start: &negative}, {End: &negative},
	} {
		if _, err := mcap.Open("no such file", o); !errors.Is(err, mcap.ErrOption) {
			t.Errorf("options %+v: error %v", o, err)
		}
	}
}

func FuzzMCAP(f *testing.F) {
	f.Add(testFile(f, 3, &writer.WriterOptions{Chunked: true, ChunkSize: 4000}))
	f.Add(testFile(f, 2, &writer.WriterOptions{}))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := mcap.New(bytes.NewReader(b), int64(len(b)), mcap.Options{Recover: true, KeepDamaged: true, Workers: 1})
		if err != nil {
			return
		}
		for c, err := range r.Chunks(t.Context()) {
			if err != nil {
				return
			}
			for _, m := range c.Components() {
				testkit.DigestReaders(m.Values)
			}
		}
		_ = r.Info()
	})
}
