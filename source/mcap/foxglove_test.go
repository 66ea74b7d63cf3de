package mcap_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/bufbuild/protocompile"
	lib "github.com/foxglove/mcap/go/mcap"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/reelhouse/reelhouse/source/mcap"
)

// foxgloveProto has the fields of the published messages that the lenses read.
const foxgloveProto = `syntax = "proto3";
package foxglove;
import "google/protobuf/timestamp.proto";
message Vector3 { double x = 1; double y = 2; double z = 3; }
message Quaternion { double x = 1; double y = 2; double z = 3; double w = 4; }
message Pose { Vector3 position = 1; Quaternion orientation = 2; }
message Color { double r = 1; double g = 2; double b = 3; double a = 4; }
message PackedElementField {
  enum NumericType { UNKNOWN = 0; UINT8 = 1; INT8 = 2; UINT16 = 3; INT16 = 4; UINT32 = 5; INT32 = 6; FLOAT32 = 7; FLOAT64 = 8; }
  string name = 1; fixed32 offset = 2; NumericType type = 3;
}
message CameraCalibration { google.protobuf.Timestamp timestamp = 1; string frame_id = 9; fixed32 width = 2; fixed32 height = 3; repeated double K = 6; }
message CompressedImage { google.protobuf.Timestamp timestamp = 1; string frame_id = 4; bytes data = 2; string format = 3; }
message CompressedVideo { google.protobuf.Timestamp timestamp = 1; string frame_id = 2; bytes data = 3; string format = 4; }
message RawImage { google.protobuf.Timestamp timestamp = 1; string frame_id = 7; fixed32 width = 2; fixed32 height = 3; string encoding = 4; fixed32 step = 5; bytes data = 6; }
message FrameTransform { google.protobuf.Timestamp timestamp = 1; string parent_frame_id = 2; string child_frame_id = 3; Vector3 translation = 4; Quaternion rotation = 5; }
message FrameTransforms { repeated FrameTransform transforms = 1; }
message PoseInFrame { google.protobuf.Timestamp timestamp = 1; string frame_id = 2; Pose pose = 3; }
message PosesInFrame { google.protobuf.Timestamp timestamp = 1; string frame_id = 2; repeated Pose poses = 3; }
message PointCloud { google.protobuf.Timestamp timestamp = 1; string frame_id = 2; Pose pose = 3; fixed32 point_stride = 4; repeated PackedElementField fields = 5; bytes data = 6; }
message LocationFix { google.protobuf.Timestamp timestamp = 6; string frame_id = 7; double latitude = 1; double longitude = 2; double altitude = 3; Color color = 8; }
message LocationFixes { repeated LocationFix fixes = 1; }
message Log { enum Level { UNKNOWN = 0; DEBUG = 1; INFO = 2; WARNING = 3; ERROR = 4; FATAL = 5; } google.protobuf.Timestamp timestamp = 1; Level level = 2; string message = 3; }
message VoxelGrid { google.protobuf.Timestamp timestamp = 1; string frame_id = 2; Pose pose = 3; fixed32 row_count = 4; fixed32 column_count = 5; Vector3 cell_size = 6;
  fixed32 slice_stride = 7; fixed32 row_stride = 8; fixed32 cell_stride = 9; repeated PackedElementField fields = 10; bytes data = 11; }
`

// protoTypes compiles a file and returns its types and their descriptor set.
func protoTypes(t testing.TB, source string) (protoreflect.FileDescriptor, []byte) {
	t.Helper()
	c := protocompile.Compiler{Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{
		Accessor: protocompile.SourceAccessorFromMap(map[string]string{"test.proto": source})})}
	files, err := c.Compile(context.Background(), "test.proto")
	if err != nil {
		t.Fatal(err)
	}
	set := &descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{protodesc.ToFileDescriptorProto(files[0])}}
	for i := range files[0].Imports().Len() {
		set.File = append(set.File, protodesc.ToFileDescriptorProto(files[0].Imports().Get(i)))
	}
	b, err := proto.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	return files[0], b
}

// protoFile writes an MCAP file with a topic /t of encoded messages.
func protoFile(t testing.TB, set []byte, name string, messages ...[]byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := lib.NewWriter(&b, &lib.WriterOptions{Chunked: true, IncludeCRC: true})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(err)
	must(w.WriteHeader(&lib.Header{}))
	must(w.WriteSchema(&lib.Schema{ID: 1, Name: name, Encoding: "protobuf", Data: set}))
	must(w.WriteChannel(&lib.Channel{ID: 1, SchemaID: 1, Topic: "/t", MessageEncoding: "protobuf"}))
	for i, m := range messages {
		must(w.WriteMessage(&lib.Message{ChannelID: 1, Sequence: uint32(i), LogTime: uint64(i), PublishTime: uint64(i), Data: m}))
	}
	must(w.Close())
	return b.Bytes()
}

// readProto gives a line per column of what becomes of the messages, and the warnings.
func readProto(t testing.TB, file []byte) (columns []string, warnings int) {
	t.Helper()
	r, err := mcap.New(bytes.NewReader(file), int64(len(file)), mcap.Options{Decoders: []string{"protobuf", "foxglove"}})
	if err != nil {
		t.Fatal(err)
	}
	for c, err := range r.Chunks(context.Background()) {
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range c.Timelines() {
			if l.Name == "timestamp" {
				columns = append(columns, fmt.Sprint("timestamp ", l.Times))
			}
		}
		for _, m := range c.Components() {
			columns = append(columns, fmt.Sprint(m.Component, " ", m.Values))
		}
	}
	return columns, len(r.Report().Warnings)
}

func floats32(v ...float32) string {
	var b []byte
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return quote(b)
}

// quote writes bytes as prototext does.
func quote(b []byte) string {
	var s strings.Builder
	for _, c := range b {
		fmt.Fprintf(&s, "\\x%02x", c)
	}
	return `"` + s.String() + `"`
}

func upTo(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i)
	}
	return quote(b)
}

func packedFields(v ...any) string {
	var s strings.Builder
	for i := 0; i < len(v); i += 3 {
		fmt.Fprintf(&s, "fields { name: %q offset: %d type: %v } ", v[i], v[i+1], v[i+2])
	}
	return s.String()
}

func TestFoxglove(t *testing.T) {
	xyz := packedFields("x", 0, "FLOAT32", "y", 4, "FLOAT32", "z", 8, "FLOAT32")
	cloud := "point_stride: 12 data: " + floats32(0, 1, 2, 3, 4, 5) + xyz
	noPose := []string{"InstancePoses3D:quaternions [(null)]", "InstancePoses3D:translations [(null)]"}
	grid := "row_count: 2 column_count: 2 cell_size { x: 1 } cell_stride: 1 "
	colors := packedFields("red", 0, "UINT8", "green", 0, "UINT8", "blue", 0, "UINT8")
	tests := []struct {
		name, message string
		rows          []string
		want          []string // beside frame and timestamp of 0
		warns         bool
	}{
		{"calibration", "CameraCalibration", []string{`timestamp { seconds: -5 nanos: 3 } frame_id: "c" width: 4 height: 2 K: [1,2,3,4,5,6,7,8,9]`},
			[]string{"timestamp [-4999999997]", `Pinhole:child_frame [["c_image_plane"]]`, "Pinhole:image_from_camera [[[1 4 7 2 5 8 3 6 9]]]", `Pinhole:parent_frame [["c"]]`, "Pinhole:resolution [[[4 2]]]"}, false},
		{"calibration with a short matrix", "CameraCalibration", []string{"K: [1,2,3,4,5,6,7,8,9]", "K: [1]"},
			[]string{"timestamp [0 0]", `Pinhole:child_frame [[""] [""]]`, `Pinhole:parent_frame [[""] [""]]`, "Pinhole:resolution [[[0 0]] [[0 0]]]"}, true},
		{"compressed image", "CompressedImage", []string{`frame_id: "c" format: "jpeg" data: "ab"`, ""},
			[]string{"timestamp [0 0]", `CoordinateFrame:frame [["c_image_plane"] [""]]`, "EncodedImage:blob [[[97 98]] [[]]]", `EncodedImage:media_type [["image/jpeg"] ["image/"]]`}, false},
		{"video", "CompressedVideo", []string{`format: "H265" data: "a"`, `format: "vp9"`},
			[]string{"timestamp [0 0]", `CoordinateFrame:frame [[""] [""]]`, "VideoStream:codec [[1751479857] [1987063865]]", "VideoStream:sample [[[97]] [[]]]"}, false},
		{"video of an unknown codec", "CompressedVideo", []string{`format: "h264"`, `format: "mjpeg"`},
			[]string{"timestamp [0 0]", `CoordinateFrame:frame [[""] [""]]`, "VideoStream:sample [[[]] [[]]]"}, true},
		{"padded images", "RawImage", []string{`width: 1 height: 2 encoding: "rgb8" step: 4 data: ` + upTo(8), `width: 1 height: 2 encoding: "mono8" data: ` + upTo(6), `width: 2 height: 2 encoding: "nv12" step: 3 data: ` + upTo(9), `width: 9 height: 9 encoding: "rgb8" step: 90 data: ` + upTo(2)},
			[]string{"timestamp [0 0 0 0]", `CoordinateFrame:frame [[""] [""] [""] [""]]`, "Image:buffer [[[0 1 2 4 5 6]] [[0 3]] [[0 1 3 4 6 7]] [[0 1]]]",
				"Image:format [{[1] [2] [(null)] [2] [6]} {[1] [2] [(null)] [1] [6]} {[2] [2] [26] [(null)] [(null)]} {[9] [9] [(null)] [2] [6]}]"}, false},
		{"image of an unknown encoding", "RawImage", []string{`encoding: "rgb8"`, `encoding: "x"`}, []string{"timestamp [0 0]", `CoordinateFrame:frame [[""] [""]]`}, true},
		{"transform", "FrameTransform", []string{`parent_frame_id: "p" child_frame_id: "c" translation { x: 1 } rotation { w: 1 }`, ""},
			[]string{"timestamp [0 0]", `Transform3D:child_frame [["c"] [""]]`, `Transform3D:parent_frame [["p"] [""]]`, "Transform3D:quaternion [[[0 0 0 1]] (null)]", "Transform3D:translation [[[1 0 0]] (null)]"}, false},
		{"transforms", "FrameTransforms", []string{`transforms { timestamp { nanos: 2 } parent_frame_id: "p" } transforms { timestamp { nanos: 1 } child_frame_id: "c" }`, "", `transforms { rotation {} }`},
			[]string{"timestamp [1 2 0]", `Transform3D:child_frame [["c"] [""] [""]]`, `Transform3D:parent_frame [[""] ["p"] [""]]`, "Transform3D:quaternion [(null) (null) [[0 0 0 0]]]", "Transform3D:translation [(null) (null) (null)]"}, false},
		{"no transforms", "FrameTransforms", []string{""}, nil, false},
		{"pose", "PoseInFrame", []string{"pose { position { x: 1 } }", ""},
			[]string{"timestamp [0 0]", `CoordinateFrame:frame [[""] [""]]`, "InstancePoses3D:quaternions [[(null)] [(null)]]", "InstancePoses3D:translations [[[1 0 0]] [(null)]]"}, false},
		{"poses", "PosesInFrame", []string{"poses { position { x: 1 } } poses { orientation { w: 1 } }", ""},
			[]string{"timestamp [0 0]", `CoordinateFrame:frame [[""] [""]]`, "InstancePoses3D:quaternions [[(null) [0 0 0 1]] (null)]", "InstancePoses3D:translations [[[1 0 0] (null)] (null)]"}, false},
		{"point cloud", "PointCloud", []string{cloud},
			append(slices.Clone(noPose), "Points3D:colors [(null)]", "Points3D:positions [[[0 1 2] [3 4 5]]]"), false},
		{"point cloud with a tail and fields beyond the data", "PointCloud", []string{"point_stride: 4 data: " + floats32(1, 2, 3) + xyz},
			append(slices.Clone(noPose), "Points3D:colors [(null)]", "Points3D:positions [[[1 2 3] [2 3 0] [3 0 0]]]"), false},
		{"point cloud of integers", "PointCloud", []string{"point_stride: 5 data: " + upTo(10) + packedFields("x", 0, "INT16", "y", 2, "UINT8", "z", 3, "UINT16", "x", 4, "UINT8")},
			append(slices.Clone(noPose), "Points3D:colors [(null)]", "Points3D:positions [[[256 2 1027] [1541 7 2312]]]"), false},
		{"point cloud without z", "PointCloud", []string{"point_stride: 4 data: " + floats32(1) + packedFields("x", 0, "FLOAT32")},
			append(slices.Clone(noPose), "Points3D:colors [(null)]", "Points3D:positions [(null)]"), false},
		{"point cloud of unknown numbers", "PointCloud", []string{"point_stride: 4 data: " + floats32(1) + packedFields("x", 0, "UNKNOWN", "red", 0, "UINT8", "green", 0, "FLOAT32", "blue", 1, "INT8", "alpha", 0, "UINT16")},
			append(slices.Clone(noPose), "Points3D:colors [[16711680]]"), true},
		{"fix", "LocationFix", []string{"latitude: 1 longitude: 2 color { r: 1 g: 0.5 b: -1 a: 0.75 }", ""},
			[]string{"timestamp [0 0]", `CoordinateFrame:frame [[""] [""]]`, "GeoPoints:colors [[4286578879] (null)]", "GeoPoints:positions [[[1 2]] [[0 0]]]"}, false},
		{"fixes", "LocationFixes", []string{"fixes { latitude: 1 color { a: 1 } } fixes { timestamp { nanos: 5 } }"},
			[]string{"timestamp [0 5]", `CoordinateFrame:frame [[""] [""]]`, "GeoPoints:colors [[255] (null)]", "GeoPoints:positions [[[1 0]] [[0 0]]]"}, false},
		{"log", "Log", []string{`level: WARNING message: "w"`, "level: FATAL", "level: DEBUG", "", "level: 99"},
			[]string{"timestamp [0 0 0 0 0]", `TextLog:level [["WARN"] ["CRITICAL"] ["DEBUG"] [(null)] [(null)]]`, `TextLog:text [["w"] [""] [""] [""] [""]]`}, false},
		{"grid", "VoxelGrid", []string{grid + "slice_stride: 6 row_stride: 3 data: " + upTo(12) + colors},
			[]string{"VoxelGridMap:colors [[255 16843263 50529279 67372287 101058303 117901311 151587327 168430335]]",
				"VoxelGridMap:quaternion [(null)]", "VoxelGridMap:translation [(null)]",
				"VoxelGridMap:voxel_indices [[[0 0 0] [1 0 0] [0 1 0] [1 1 0] [0 0 1] [1 0 1] [0 1 1] [1 1 1]]]", "VoxelGridMap:voxel_size [[[1 0 0]]]"}, false},
		{"grid without strides", "VoxelGrid", []string{grid + "data: " + upTo(4)},
			[]string{"VoxelGridMap:colors [(null)]", "VoxelGridMap:quaternion [(null)]", "VoxelGridMap:translation [(null)]", "VoxelGridMap:voxel_indices [(null)]", "VoxelGridMap:voxel_size [[[1 0 0]]]"}, false},
		{"grid of overlapping cells", "VoxelGrid", []string{"row_count: 100000 column_count: 100000 slice_stride: 1 row_stride: 1 cell_stride: 1 data: " + upTo(4)},
			[]string{"VoxelGridMap:colors [(null)]", "VoxelGridMap:quaternion [(null)]", "VoxelGridMap:translation [(null)]", "VoxelGridMap:voxel_indices [[[0 0 0] [1 0 0] [2 0 0] [3 0 0]]]", "VoxelGridMap:voxel_size [[(null)]]"}, false},
	}
	file, set := protoTypes(t, foxgloveProto)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var messages [][]byte
			for _, text := range test.rows {
				m := dynamicpb.NewMessage(file.Messages().ByName(protoreflect.Name(test.message)))
				if err := prototext.Unmarshal([]byte(text), m); err != nil {
					t.Fatal(err)
				}
				b, err := proto.Marshal(m)
				if err != nil {
					t.Fatal(err)
				}
				messages = append(messages, b)
			}
			got, warnings := readProto(t, protoFile(t, set, "foxglove."+test.message, messages...))
			want := test.want
			if len(want) > 0 && !strings.HasPrefix(want[0], "timestamp") {
				want = append([]string{"timestamp [0]", `CoordinateFrame:frame [[""]]`}, want...)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			if (warnings > 0) != test.warns {
				t.Errorf("%d warnings", warnings)
			}
		})
	}
}

// TestFoxgloveOldSchemas reads types that lack fields or have others: what can
// be made of the rest is made.
func TestFoxgloveOldSchemas(t *testing.T) {
	for _, test := range []struct {
		name, source string
		want         []string
		warns        bool
	}{
		{"missing fields", "message PointCloud { string frame_id = 2; bytes data = 6; }", []string{`CoordinateFrame:frame [["a"]]`}, false},
		{"other types", "message PointCloud { int64 timestamp = 1; string frame_id = 2; fixed32 point_stride = 4; string fields = 5; bytes data = 6; int32 pose = 3; }",
			[]string{`CoordinateFrame:frame [["a"]]`}, true},
		{"optional", "message PointCloud { optional string frame_id = 3; }", []string{"CoordinateFrame:frame [[(null)]]"}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, set := protoTypes(t, `syntax = "proto3"; package foxglove; `+test.source)
			got, warnings := readProto(t, protoFile(t, set, "foxglove.PointCloud", []byte("\x12\x01a")))
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
			if (warnings > 0) != test.warns {
				t.Errorf("%d warnings", warnings)
			}
		})
	}
}

// FuzzFoxglove feeds arbitrary messages to the lenses.
func FuzzFoxglove(f *testing.F) {
	file, set := protoTypes(f, foxgloveProto)
	for i := range file.Messages().Len() {
		f.Add(uint8(i), []byte("\x22\x01\x01\x2a\x00"))
	}
	f.Add(uint8(12), []byte("\x25\x0c\x00\x00\x00\x2a\x0a\x0a\x01x\x15\x00\x00\x00\x00\x18\x07\x32\x04abcd"))
	f.Fuzz(func(t *testing.T, which uint8, message []byte) {
		m := file.Messages().Get(int(which) % file.Messages().Len())
		readProto(t, protoFile(t, set, string(m.FullName()), message, message))
	})
}
