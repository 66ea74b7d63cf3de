// Package robot makes up the recording of a robot's run: an MCAP file as a ROS 2 recorder writes it,
// with odometry, transforms, joints, an inertial sensor and, if wanted, point clouds and camera
// images. The same options give the same bytes.
//
// Benchmarks use it for input of any size, and the demonstration for its bundled recording.
package robot

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"io"
	"math"
	"math/rand/v2"

	"github.com/foxglove/mcap/go/mcap"
)

// Options say how long a run is and what its robot carries.
type Options struct {
	Seconds     float64
	Points      int     // points of a cloud, ten clouds a second; 0 for none
	ImageWidth  int     // pixels; 0 for no camera
	ImageHeight int     // pixels
	Rate        float64 // factor on the rates of all small messages; 0 means 1
}

const start = 1_750_000_000_000_000_000 // ns since the Unix epoch

// Write writes a run to w.
func Write(w io.Writer, o Options) error {
	out, err := mcap.NewWriter(w, &mcap.WriterOptions{
		IncludeCRC:  true,
		Chunked:     true,
		ChunkSize:   1 << 20,
		Compression: mcap.CompressionZSTD,
	})
	if err != nil {
		return err
	}
	if err := out.WriteHeader(&mcap.Header{Profile: "ros2", Library: "reelhouse robot"}); err != nil {
		return err
	}
	r := &run{out: out, rng: rand.New(rand.NewPCG(1, 2))}
	if err := r.write(o); err != nil {
		return err
	}
	return out.Close()
}

// run is the state of one recording in progress.
type run struct {
	out      *mcap.Writer
	rng      *rand.Rand
	channels []*channel
}

// channel is a topic with the function that encodes its message at a time in seconds.
type channel struct {
	id       uint16
	topic    string
	typ      string
	period   float64 // seconds; 0 for once, at the start
	encode   func(e *encoder, seq int, t float64)
	sequence uint32
}

func (r *run) write(o Options) error {
	rate := o.Rate
	if rate == 0 {
		rate = 1
	}
	r.add("/tf_static", "tf2_msgs/msg/TFMessage", 0, tfStatic)
	r.add("/odom", "nav_msgs/msg/Odometry", 1/(50*rate), odometry)
	r.add("/tf", "tf2_msgs/msg/TFMessage", 1/(50*rate), tf)
	r.add("/joint_states", "sensor_msgs/msg/JointState", 1/(100*rate), jointState)
	r.add("/imu", "sensor_msgs/msg/Imu", 1/(200*rate), r.imu)
	if o.Points > 0 {
		r.add("/points", "sensor_msgs/msg/PointCloud2", 0.1, r.pointCloud(o.Points))
	}
	if o.ImageWidth > 0 {
		images, err := r.pictures(o.ImageWidth, o.ImageHeight)
		if err != nil {
			return err
		}
		r.add("/camera/image/compressed", "sensor_msgs/msg/CompressedImage", 1./15, images)
	}
	for i, c := range r.channels {
		c.id = uint16(i + 1)
		text, ok := definitions[c.typ]
		if !ok {
			return fmt.Errorf("no definition of %s", c.typ)
		}
		if err := r.out.WriteSchema(&mcap.Schema{ID: c.id, Name: c.typ, Encoding: "ros2msg", Data: []byte(text)}); err != nil {
			return err
		}
		err := r.out.WriteChannel(&mcap.Channel{
			ID: c.id, SchemaID: c.id, Topic: c.topic, MessageEncoding: "cdr",
			Metadata: map[string]string{},
		})
		if err != nil {
			return err
		}
	}
	return r.messages(o.Seconds)
}

func (r *run) add(topic, typ string, period float64, encode func(*encoder, int, float64)) {
	r.channels = append(r.channels, &channel{topic: topic, typ: typ, period: period, encode: encode})
}

// messages writes the messages of all channels by time.
func (r *run) messages(seconds float64) error {
	var e encoder
	for {
		var next *channel
		at := seconds
		for _, c := range r.channels {
			if t := float64(c.sequence) * c.period; t < at && (c.period > 0 || c.sequence == 0) {
				next, at = c, t
			}
		}
		if next == nil {
			return nil
		}
		e.reset()
		next.encode(&e, int(next.sequence), at)
		stamp := nanos(at)
		err := r.out.WriteMessage(&mcap.Message{
			ChannelID: next.id, Sequence: next.sequence, Data: e.bytes(),
			LogTime: stamp + 150_000, PublishTime: stamp,
		})
		if err != nil {
			return err
		}
		next.sequence++
	}
}

func nanos(t float64) uint64 { return start + uint64(math.Round(t*1e9)) }

// The robot drives a circle of 2 m radius once in 20 s.
func pose(t float64) (x, y, yaw float64) {
	angle := 2 * math.Pi * t / 20
	return 2 * math.Sin(angle), 2 - 2*math.Cos(angle), angle
}

func header(e *encoder, t float64, frame string) {
	n := nanos(t)
	e.int32(int32(n / 1e9))
	e.uint32(uint32(n % 1e9))
	e.string(frame)
}

func vector(e *encoder, x, y, z float64) {
	e.float64(x)
	e.float64(y)
	e.float64(z)
}

func quaternion(e *encoder, yaw float64) {
	vector(e, 0, 0, math.Sin(yaw/2))
	e.float64(math.Cos(yaw / 2))
}

func odometry(e *encoder, _ int, t float64) {
	x, y, yaw := pose(t)
	header(e, t, "odom")
	e.string("base_link")
	vector(e, x, y, 0)
	quaternion(e, yaw)
	covariance(e, 36, 1e-3)
	vector(e, 2*math.Pi*2/20, 0, 0)
	vector(e, 0, 0, 2*math.Pi/20)
	covariance(e, 36, 1e-4)
}

func covariance(e *encoder, n int, v float64) {
	side := int(math.Sqrt(float64(n)))
	for i := range n {
		if i%(side+1) == 0 {
			e.float64(v)
		} else {
			e.float64(0)
		}
	}
}

func transform(e *encoder, t float64, parent, child string, x, y, z, yaw float64) {
	header(e, t, parent)
	e.string(child)
	vector(e, x, y, z)
	quaternion(e, yaw)
}

func tf(e *encoder, _ int, t float64) {
	x, y, yaw := pose(t)
	e.uint32(3)
	transform(e, t, "base_link", "wheel_left", 0, 0.2, 0.05, 6*yaw)
	transform(e, t, "base_link", "wheel_right", 0, -0.2, 0.05, 5*yaw)
	transform(e, t, "odom", "base_link", x, y, 0, yaw)
}

func tfStatic(e *encoder, _ int, t float64) {
	e.uint32(2)
	transform(e, t, "base_link", "lidar", 0.1, 0, 0.4, 0)
	transform(e, t, "base_link", "camera", 0.2, 0, 0.3, 0)
}

var joints = []string{
	"wheel_left", "wheel_right", "arm_1", "arm_2", "arm_3", "arm_4", "arm_5", "arm_6",
	"gripper_left", "gripper_right", "head_pan", "head_tilt",
}

func jointState(e *encoder, _ int, t float64) {
	header(e, t, "")
	e.uint32(uint32(len(joints)))
	for _, name := range joints {
		e.string(name)
	}
	for value := range 3 { // position, velocity, effort
		e.uint32(uint32(len(joints)))
		for i := range joints {
			phase := t*(0.5+0.1*float64(i)) + float64(value)*math.Pi/2
			e.float64(math.Sin(phase))
		}
	}
}

func (r *run) imu(e *encoder, _ int, t float64) {
	_, _, yaw := pose(t)
	header(e, t, "imu")
	quaternion(e, yaw)
	covariance(e, 9, 1e-3)
	vector(e, r.noise(1e-3), r.noise(1e-3), 2*math.Pi/20+r.noise(1e-3))
	covariance(e, 9, 1e-4)
	vector(e, r.noise(1e-2), 0.2+r.noise(1e-2), 9.81+r.noise(1e-2))
	covariance(e, 9, 1e-2)
}

func (r *run) noise(scale float64) float64 { return r.rng.NormFloat64() * scale }

// pointCloud sweeps a noisy room: x, y, z and intensity as float32, then ring and padding.
func (r *run) pointCloud(n int) func(*encoder, int, float64) {
	fields := []struct {
		name     string
		offset   uint32
		datatype uint8
	}{{"x", 0, 7}, {"y", 4, 7}, {"z", 8, 7}, {"intensity", 12, 7}, {"ring", 16, 4}}
	const step = 20
	data := make([]byte, n*step)
	return func(e *encoder, seq int, t float64) {
		for i := range n {
			angle := 2 * math.Pi * float64(i) / float64(n)
			ring := i % 16
			distance := 4 + math.Sin(3*angle) + r.noise(0.02)
			p := data[i*step:]
			putFloat32(p[0:], distance*math.Cos(angle))
			putFloat32(p[4:], distance*math.Sin(angle))
			putFloat32(p[8:], distance*(float64(ring)-8)/32)
			putFloat32(p[12:], float64(r.rng.IntN(256)))
			p[16], p[17] = byte(ring), 0
		}
		header(e, t, "lidar")
		e.uint32(1)
		e.uint32(uint32(n))
		e.uint32(uint32(len(fields)))
		for _, f := range fields {
			e.string(f.name)
			e.uint32(f.offset)
			e.uint8(f.datatype)
			e.uint32(1)
		}
		e.uint8(0) // little endian
		e.uint32(step)
		e.uint32(uint32(n * step))
		e.blob(data)
		e.uint8(1) // dense
	}
}

// pictures makes a few JPEG images, which the camera repeats.
func (r *run) pictures(width, height int) (func(*encoder, int, float64), error) {
	var frames [][]byte
	for f := range 8 {
		img := image.NewRGBA(image.Rect(0, 0, width, height))
		for y := range height {
			for x := range width {
				grain := r.rng.IntN(48)
				img.SetRGBA(x, y, color.RGBA{uint8(x + 8*f + grain), uint8(y + grain), uint8(x + y), 255})
			}
		}
		var b bytes.Buffer
		if err := jpeg.Encode(&b, img, &jpeg.Options{Quality: 85}); err != nil {
			return nil, err
		}
		frames = append(frames, b.Bytes())
	}
	return func(e *encoder, seq int, t float64) {
		frame := frames[seq%len(frames)]
		header(e, t, "camera")
		e.string("jpeg")
		e.blob(frame)
	}, nil
}
