package mcap_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	lib "github.com/foxglove/mcap/go/mcap"
	"github.com/google/go-cmp/cmp"

	"github.com/reelhouse/reelhouse/source/mcap"
)

// cdrString encodes a std_msgs/msg/String.
func cdrString(text string) []byte {
	b := binary.LittleEndian.AppendUint32([]byte{0, 1, 0, 0}, uint32(len(text)+1))
	return append(append(b, text...), 0)
}

// descriptionFile has a topic of robot descriptions, a second apart.
func descriptionFile(t *testing.T, messages ...[]byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := lib.NewWriter(&b, &lib.WriterOptions{Chunked: true, ChunkSize: 1})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(err)
	must(w.WriteHeader(&lib.Header{}))
	must(w.WriteSchema(&lib.Schema{ID: 1, Name: "std_msgs/msg/String", Encoding: "ros2msg", Data: []byte("string data")}))
	must(w.WriteChannel(&lib.Channel{ID: 1, SchemaID: 1, Topic: "/robot_description", MessageEncoding: "cdr"}))
	for i, m := range messages {
		must(w.WriteMessage(&lib.Message{ChannelID: 1, LogTime: uint64(i), Data: m}))
	}
	must(w.Close())
	return b.Bytes()
}

func readRobot(t *testing.T, file []byte, o mcap.Options) (columns, warnings []string) {
	t.Helper()
	o.Decoders = []string{"urdf"}
	r, err := mcap.New(bytes.NewReader(file), int64(len(file)), o)
	if err != nil {
		t.Fatal(err)
	}
	for c, err := range r.Chunks(context.Background()) {
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range c.Components() {
			if v := fmt.Sprint(m.Values); v != "[[[0 0 0]]]" && v != "[[[0 0 0 1]]]" {
				columns = append(columns, fmt.Sprint(c.EntityPath(), " ", m.Component, " ", v))
			}
		}
	}
	return columns, r.Report().Warnings
}

func TestRobotDescription(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("ROS_PACKAGE_PATH", filepath.Join(dir, "none"))
	t.Setenv("AMENT_PREFIX_PATH", dir)
	meshes := filepath.Join(dir, "share", "pkg", "meshes")
	if err := os.MkdirAll(meshes, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a.STL", "secret.txt"} {
		if err := os.WriteFile(filepath.Join(meshes, name), []byte("mesh"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	shape := func(name, geometry, more string) string {
		return fmt.Sprintf(`<visual name=%q><geometry>%s</geometry>%s</visual>`, name, geometry, more)
	}
	robot := `<robot name="my bot"><link name="base">` +
		shape("box", `<box size="2 4 6"/>`, `<material name="m"><color rgba="1 0.5 0.25 0.5"/></material>`) +
		shape("mesh", `<mesh filename="package://pkg/meshes/a.STL" scale="1 2 3"/>`, `<material name="m"><color rgba="0 0 0 1"/></material>`) +
		shape("secret", `<mesh filename="package://pkg/meshes/secret.txt"/>`, "") +
		shape("missing", `<mesh filename="package://other/a.stl"/>`, "") +
		`<collision><geometry><capsule radius="1" length="2"/></geometry></collision></link></robot>`
	want := []string{
		`/my\ bot CoordinateFrame:frame [["base"]]`,
		`/my\ bot/visual_geometries/base/box CoordinateFrame:frame [["base"]]`,
		`/my\ bot/visual_geometries/base/box Boxes3D:colors [[4290480512]]`,
		`/my\ bot/visual_geometries/base/box Boxes3D:half_sizes [[[1 2 3]]]`,
		`/my\ bot/visual_geometries/base/mesh InstancePoses3D:scales [[[1 2 3]]]`,
		`/my\ bot/visual_geometries/base/mesh CoordinateFrame:frame [["base"]]`,
		`/my\ bot/visual_geometries/base/mesh Asset3D:albedo_factor [[255]]`,
		`/my\ bot/visual_geometries/base/mesh Asset3D:blob [[[109 101 115 104]]]`,
		`/my\ bot/visual_geometries/base/mesh Asset3D:media_type [["model/stl"]]`,
		`/my\ bot/visual_geometries/base/secret CoordinateFrame:frame [["base"]]`,
		`/my\ bot/visual_geometries/base/missing CoordinateFrame:frame [["base"]]`,
		`/my\ bot/collision_geometries/capsule/base/collision_0 CoordinateFrame:frame [["base"]]`,
		`/my\ bot/collision_geometries/capsule/base/collision_0 Capsules3D:colors [[4294967295]]`,
		`/my\ bot/collision_geometries/capsule/base/collision_0 Capsules3D:lengths [[2]]`,
		`/my\ bot/collision_geometries/capsule/base/collision_0 Capsules3D:radii [[1]]`,
	}
	// The last whole message counts, in whatever range of time.
	file := descriptionFile(t, cdrString("<robot/>"), cdrString(robot), []byte{0, 1, 0, 0, 255, 0, 0, 0})
	end := int64(1)
	for _, o := range []mcap.Options{{}, {End: &end}, {Start: &end}} {
		got, warnings := readRobot(t, file, o)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if len(warnings) != 2 {
			t.Errorf("warnings are %q", warnings)
		}
	}
	got, warnings := readRobot(t, descriptionFile(t, cdrString("no robot")), mcap.Options{})
	if len(got) != 0 || len(warnings) != 1 || !strings.Contains(warnings[0], "robot description") {
		t.Errorf("columns %q, warnings %q", got, warnings)
	}
}
