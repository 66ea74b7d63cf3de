package robot_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/reelhouse/reelhouse/bench/robot"
	"github.com/reelhouse/reelhouse/internal/testkit"
)

// The peer must decode every topic.
func TestPeerReads(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.mcap")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	o := robot.Options{Seconds: 1, Points: 100, ImageWidth: 32, ImageHeight: 24}
	if err := robot.Write(f, o); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	out := testkit.RunPython(t, "-c", `
import sys, rerun.chunk as rc
rows = {}
for c in rc.McapReader(sys.argv[1]).stream():
    for n in c.to_record_batch().schema.names:
        if not c.is_static and ":" in n:
            rows[f"{c.entity_path} {n}"] = rows.get(f"{c.entity_path} {n}", 0) + c.num_rows
print("\n".join(f"{k} {v}" for k, v in rows.items()))
`, path)
	for _, want := range []string{
		"/odom nav_msgs.msg.Odometry:message 50", "/tf Transform3D:translation 150",
		"/imu sensor_msgs.msg.Imu", "/joint_states", "/points Points3D:positions 10",
		"/camera/image/compressed EncodedImage:blob 15",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
}

func TestDeterministic(t *testing.T) {
	var a, b bytes.Buffer
	for _, w := range []io.Writer{&a, &b} {
		if err := robot.Write(w, robot.Options{Seconds: 2, Points: 10}); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(a.Bytes(), b.Bytes()) {
		t.Error("two runs with the same options differ")
	}
}
