package mcap

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/reelhouse/reelhouse/chunk"
	"github.com/reelhouse/reelhouse/source/internal/columnar"
	"github.com/reelhouse/reelhouse/source/internal/mcapfile"
	"github.com/reelhouse/reelhouse/source/internal/urdf"
)

// wantsRobotDescription picks the topics that robot descriptions are published on.
func wantsRobotDescription(c *mcapfile.Channel) bool {
	return isROS2(c) && c.Schema.Name == "std_msgs/msg/String" && strings.Contains(c.Topic, "robot_description")
}

// decodeRobotDescriptions makes static chunks of the shapes of robots
// (spec/readers.md 1.5d).
func decodeRobotDescriptions(s *scan, last []lastMessage, emit func(*chunk.Chunk)) {
	for _, m := range last {
		text, err := cdrString(m.data)
		if err != nil {
			s.warnOnce("topic %s: robot description: %v", m.channel.Topic, err)
			continue
		}
		robot, err := urdf.Parse(text)
		if err != nil {
			s.warnOnce("topic %s: %v", m.channel.Topic, err)
			continue
		}
		w := robotWriter{s: s, channel: m.channel, emit: emit}
		w.robot(robot)
	}
}

// cdrString is the text of an encoded std_msgs/msg/String.
func cdrString(b []byte) (string, error) {
	if len(b) < 8 || b[0] != 0 {
		return "", errors.New("malformed CDR string")
	}
	order := binary.ByteOrder(binary.LittleEndian)
	if b[1]&1 == 0 {
		order = binary.BigEndian
	}
	n := order.Uint32(b[4:])
	if uint64(n) > uint64(len(b)-8) {
		return "", errors.New("malformed CDR string: truncated")
	}
	return string(bytes.TrimRight(b[8:8+n], "\x00")), nil
}

func isCDRString(b []byte) bool {
	_, err := cdrString(b)
	return err == nil
}

// robotWriter emits the chunks of a robot.
type robotWriter struct {
	s       *scan
	channel *mcapfile.Channel
	emit    func(*chunk.Chunk)
}

func (w *robotWriter) robot(r *urdf.Robot) {
	at := chunk.EntityPathFromParts(r.Name)
	w.static(at, column(of("CoordinateFrame", "frame", "TransformFrameId"), texts(r.Root)))
	for i := range r.Links {
		l := &r.Links[i]
		for j := range l.Visual {
			v := &l.Visual[j]
			w.shape(at.Join("visual_geometries", l.Name, shapeName(v, "visual", j)), l, v)
		}
		for j := range l.Collision {
			c := &l.Collision[j]
			w.shape(at.Join("collision_geometries", c.Geometry.Kind(), l.Name, shapeName(c, "collision", j)), l, c)
		}
	}
}

func shapeName(s *urdf.Shape, kind string, n int) string {
	if s.Named {
		return s.Name
	}
	return fmt.Sprintf("%s_%d", kind, n)
}

func (w *robotWriter) static(entity chunk.EntityPath, components ...chunk.Component) {
	c, err := chunk.New(entity, nil, components)
	if err != nil {
		w.s.failOnce("topic %s: robot description: %v", w.channel.Topic, err)
		return
	}
	w.emit(c)
}

func (w *robotWriter) shape(entity chunk.EntityPath, l *urdf.Link, s *urdf.Shape) {
	q := s.Quaternion()
	rotation := []float64{float64(q[0]), float64(q[1]), float64(q[2]), float64(q[3])}
	pose := []chunk.Component{
		column(of("InstancePoses3D", "translations", "Translation3D"), vectors(vec3Type, s.XYZ[:]...)),
		column(of("InstancePoses3D", "quaternions", "RotationQuat"), vectors(vec4Type, rotation...)),
	}
	mesh, isMesh := s.Geometry.(urdf.Mesh)
	if isMesh && mesh.Scale != nil {
		pose = append(pose, column(of("InstancePoses3D", "scales", "Scale3D"), vectors(vec3Type, mesh.Scale[:]...)))
	}
	w.static(entity, pose...)
	w.static(entity, column(of("CoordinateFrame", "frame", "TransformFrameId"), texts(l.Name)))
	if s.Texture != "" {
		w.s.warnOnce("topic %s: robot description: textures such as %s are not supported", w.channel.Topic, s.Texture)
	}
	color := uint32(0xffffffff)
	if s.Color != nil {
		color = packLinear(*s.Color)
	}
	colors := func(archetype string) chunk.Component {
		return column(of(archetype, "colors", "Color"), numbersOf(arrow.PrimitiveTypes.Uint32, color))
	}
	lengths := func(archetype string, length, radius float64) {
		w.static(entity, colors(archetype),
			column(of(archetype, "lengths", "Length"), numbersOf(arrow.PrimitiveTypes.Float32, float32(length))),
			column(of(archetype, "radii", "Radius"), numbersOf(arrow.PrimitiveTypes.Float32, float32(radius))))
	}
	switch g := s.Geometry.(type) {
	case urdf.Box:
		w.static(entity, colors("Boxes3D"),
			column(of("Boxes3D", "half_sizes", "HalfSize3D"), vectors(vec3Type, g.Size[0]/2, g.Size[1]/2, g.Size[2]/2)))
	case urdf.Sphere:
		w.static(entity, colors("Ellipsoids3D"),
			column(of("Ellipsoids3D", "half_sizes", "HalfSize3D"), vectors(vec3Type, g.Radius, g.Radius, g.Radius)))
	case urdf.Cylinder:
		lengths("Cylinders3D", g.Length, g.Radius)
	case urdf.Capsule:
		lengths("Capsules3D", g.Length, g.Radius)
	case urdf.Mesh:
		w.mesh(entity, g, s.Color)
	}
}

func (w *robotWriter) mesh(entity chunk.EntityPath, m urdf.Mesh, color *[4]float64) {
	data, media, err := loadMesh(m.Filename)
	if err != nil {
		w.s.warnOnce("topic %s: robot description: mesh %s: %v", w.channel.Topic, m.Filename, err)
		return
	}
	blob := columnar.MustNew[*columnar.List](blobType)
	blob.Items.(*columnar.Fixed[uint8]).AppendLE(data)
	blob.End()
	asset := []chunk.Component{
		column(of("Asset3D", "blob", "Blob"), listOfOne(columnar.Array(blob))),
		column(of("Asset3D", "media_type", "MediaType"), texts(media)),
	}
	if color != nil {
		asset = append(asset, column(of("Asset3D", "albedo_factor", "AlbedoFactor"), numbersOf(arrow.PrimitiveTypes.Uint32, packLinear(*color))))
	}
	w.static(entity, asset...)
}

// maxMesh bounds the size of a mesh file.
const maxMesh = 1 << 30

// meshTypes are the files that a description can make part of a recording.
var meshTypes = map[string]string{
	".stl":  "model/stl",
	".obj":  "model/obj",
	".dae":  "model/vnd.collada+xml",
	".glb":  "model/gltf-binary",
	".gltf": "model/gltf+json",
}

// loadMesh reads the file that a URI of a description names. Descriptions come
// with recordings of any origin, so nothing but meshes is read and nothing is
// fetched over the network.
func loadMesh(uri string) (data []byte, media string, err error) {
	var file string
	switch {
	case strings.HasPrefix(uri, "package://"):
		if file, err = packageFile(strings.TrimPrefix(uri, "package://")); err != nil {
			return nil, "", err
		}
	case strings.HasPrefix(uri, "file://"):
		file = strings.TrimPrefix(uri, "file://")
	case strings.Contains(uri, "://"):
		return nil, "", errors.New("only package:// and file:// are supported")
	default:
		return nil, "", errors.New("a path that is relative to an unknown directory")
	}
	media, ok := meshTypes[strings.ToLower(path.Ext(file))]
	if !ok {
		return nil, "", errors.New("not a known mesh format")
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, "", err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() > maxMesh {
		return nil, "", errors.New("not a regular file of acceptable size")
	}
	data, err = io.ReadAll(io.LimitReader(f, maxMesh))
	return data, media, err
}

// packageFile finds a file of a ROS package where ROS would look for it.
func packageFile(name string) (string, error) {
	pkg, rest, ok := strings.Cut(name, "/")
	if ok && pkg != "" {
		var dirs []string
		for _, d := range filepath.SplitList(os.Getenv("ROS_PACKAGE_PATH")) {
			dirs = append(dirs, filepath.Join(d, pkg))
		}
		for _, d := range filepath.SplitList(os.Getenv("AMENT_PREFIX_PATH")) {
			dirs = append(dirs, filepath.Join(d, "share", pkg))
		}
		for _, d := range dirs {
			if info, err := os.Stat(d); err == nil && info.IsDir() {
				return filepath.Join(d, rest), nil
			}
		}
	}
	return "", errors.New("package not found in ROS_PACKAGE_PATH or AMENT_PREFIX_PATH")
}

// vectors is a row with one vector.
func vectors(dt *arrow.FixedSizeListType, v ...float64) *array.List {
	c := columnar.MustNew[*columnar.FixedList](dt)
	items := c.Items.(*columnar.Fixed[float32])
	for _, x := range v {
		items.Append(float32(x))
	}
	c.End()
	return listOfOne(columnar.Array(c))
}

// packLinear packs a color of linear components as 0xRRGGBBAA with those of
// sRGB. As the reference does, it goes through components multiplied by alpha
// in eight bits, which coarsens colors that are nearly transparent.
func packLinear(c [4]float64) uint32 {
	alpha := round8(c[3] * 255)
	out := uint32(0)
	for _, v := range c[:3] {
		var p uint32
		if alpha > 0 {
			p = round8(float64(round8(float64(encodeSRGB(v))*c[3])) * 255 / float64(alpha))
		}
		out = out<<8 | p
	}
	return out<<8 | alpha
}

// encodeSRGB is the eight bit sRGB value of a linear component.
func encodeSRGB(v float64) uint32 {
	switch {
	case !(v > 0):
		return 0
	case v <= 0.0031308:
		return round8(3294.6 * v)
	case v <= 1:
		return round8(269.025*math.Pow(v, 1/2.4) - 14.025)
	}
	return 255
}

func round8(v float64) uint32 {
	switch {
	case !(v > 0):
		return 0
	case v >= 255:
		return 255
	}
	return uint32(v + 0.5)
}
