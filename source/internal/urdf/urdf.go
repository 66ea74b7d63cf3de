// Package urdf reads robot descriptions in the Unified Robot Description
// Format: links with their visual and collision shapes, and the tree that
// joints make of them. Dynamics are checked for form and dropped.
//
// What is refused is what spec/readers.md 1.5d calls a parse failure: broken
// XML, missing or repeated parts, numbers that are none, links that are not one
// tree. Unknown elements and attributes are passed over.
package urdf

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// ErrMalformed is wrapped by all errors of [Parse].
var ErrMalformed = errors.New("malformed robot description")

// Robot is a parsed description.
type Robot struct {
	Name  string
	Root  string // name of the link that is no joint's child
	Links []Link // from the root on, children after parents in the order of joints
}

// Link is a rigid body.
type Link struct {
	Name      string
	Visual    []Shape
	Collision []Shape
}

// Shape is a geometry placed in its link's frame.
type Shape struct {
	Name     string // of the element, or empty
	Named    bool   // the element has a name
	XYZ      [3]float64
	RPY      [3]float64 // roll, pitch, yaw about fixed axes, radians
	Geometry Geometry
	Color    *[4]float64 // red, green, blue, alpha; nil if none is given
	Texture  string      // file name, or empty

	material string
}

// Geometry is one of Box, Sphere, Cylinder, Capsule and Mesh.
type Geometry interface {
	// Kind is the name of the element.
	Kind() string
}

// Box has edge lengths.
type Box struct{ Size [3]float64 }

// Sphere has a radius.
type Sphere struct{ Radius float64 }

// Cylinder stands along z.
type Cylinder struct{ Radius, Length float64 }

// Capsule stands along z; the length is without its ends.
type Capsule struct{ Radius, Length float64 }

// Mesh refers to a file.
type Mesh struct {
	Filename string
	Scale    *[3]float64 // nil if not given
}

// Kind implements [Geometry].
func (Box) Kind() string { return "box" }

// Kind implements [Geometry].
func (Sphere) Kind() string { return "sphere" }

// Kind implements [Geometry].
func (Cylinder) Kind() string { return "cylinder" }

// Kind implements [Geometry].
func (Capsule) Kind() string { return "capsule" }

// Kind implements [Geometry].
func (Mesh) Kind() string { return "mesh" }

// Quaternion is the rotation of the origin as x, y, z, w.
//
// It is computed in single precision and in this order, with conversions that
// keep the compiler from fusing operations, to give the bits that others get.
func (s *Shape) Quaternion() [4]float32 {
	half := func(angle float64) (sin, cos float32) {
		s, c := math.Sincos(float64(float32(angle) * 0.5))
		return float32(s), float32(c)
	}
	sr, cr := half(s.RPY[0])
	sp, cp := half(s.RPY[1])
	sy, cy := half(s.RPY[2])
	cc, cs, sc, ss := float32(cr*cy), float32(cr*sy), float32(sr*cy), float32(sr*sy)
	return [4]float32{
		float32(cp*sc) - float32(sp*cs),
		float32(cp*ss) + float32(sp*cc),
		float32(cp*cs) - float32(sp*sc),
		float32(cp*cc) + float32(sp*ss),
	}
}

// Parse reads a description.
func Parse(text string) (*Robot, error) {
	root, err := parseXML(text)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	r, err := root.robot()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return r, nil
}

type joint struct{ parent, child string }

func (e *element) robot() (*Robot, error) {
	r := &Robot{Name: e.attrs["name"]}
	colors := map[string]*[4]float64{}
	links := map[string]*Link{}
	var joints []joint
	for _, c := range e.children {
		switch c.name {
		case "material":
			m, err := c.material()
			if err != nil {
				return nil, err
			}
			colors[m.name] = m.color
		case "link":
			l, err := c.link()
			if err != nil {
				return nil, err
			}
			links[l.Name] = l // of two links of one name the last counts
		case "joint":
			j, err := c.joint()
			if err != nil {
				return nil, err
			}
			joints = append(joints, j)
		}
	}
	if err := r.arrange(links, joints); err != nil {
		return nil, err
	}
	for i := range r.Links {
		for j := range r.Links[i].Visual {
			s := &r.Links[i].Visual[j]
			if s.material != "" && s.Color == nil {
				s.Color = colors[s.material]
			}
		}
	}
	return r, nil
}

// arrange orders the links along the tree of joints.
func (r *Robot) arrange(links map[string]*Link, joints []joint) error {
	children := map[string][]string{}
	parents := map[string]int{}
	for _, j := range joints {
		if links[j.parent] == nil || links[j.child] == nil {
			return fmt.Errorf("joint between %q and %q: no such link", j.parent, j.child)
		}
		children[j.parent] = append(children[j.parent], j.child)
		parents[j.child]++
	}
	roots := 0
	for name := range links {
		if parents[name] == 0 {
			r.Root = name
			roots++
		}
	}
	if roots != 1 {
		return fmt.Errorf("%d links are no joint's child, instead of one", roots)
	}
	// A link is ready once all joints to it were followed. A stack keeps the
	// children of a link together; the first joint's come first.
	ready := []string{r.Root}
	left := len(links)
	for len(ready) > 0 {
		name := ready[len(ready)-1]
		ready = ready[:len(ready)-1]
		r.Links = append(r.Links, *links[name])
		left--
		below := children[name]
		for i := len(below) - 1; i >= 0; i-- {
			if parents[below[i]]--; parents[below[i]] == 0 {
				ready = append(ready, below[i])
			}
		}
	}
	if left > 0 {
		return errors.New("joints form a circle")
	}
	return nil
}

func (e *element) link() (*Link, error) {
	name, err := e.required("name")
	if err != nil {
		return nil, err
	}
	l := &Link{Name: name}
	if err := e.check("inertial", func(c *element) error { return c.inertial() }); err != nil {
		return nil, err
	}
	for _, c := range e.children {
		if c.name != "visual" && c.name != "collision" {
			continue
		}
		s, err := c.shape()
		if err != nil {
			return nil, fmt.Errorf("link %q: %w", name, err)
		}
		if c.name == "visual" {
			l.Visual = append(l.Visual, *s)
		} else {
			l.Collision = append(l.Collision, *s)
		}
	}
	return l, nil
}

func (e *element) shape() (*Shape, error) {
	s := &Shape{}
	s.Name, s.Named = e.attrs["name"]
	var err error
	if s.XYZ, s.RPY, err = e.origin(); err != nil {
		return nil, err
	}
	g, err := e.only("geometry")
	if err != nil {
		return nil, err
	}
	if g == nil {
		return nil, fmt.Errorf("%s without geometry", e.name)
	}
	if s.Geometry, err = g.geometry(); err != nil {
		return nil, err
	}
	if e.name != "visual" {
		return s, nil
	}
	c, err := e.only("material")
	if c == nil || err != nil {
		return s, err
	}
	m, err := c.material()
	if err != nil {
		return nil, err
	}
	s.material, s.Color, s.Texture = m.name, m.color, m.texture
	return s, nil
}

func (e *element) geometry() (Geometry, error) {
	if len(e.children) != 1 || len(e.text) > 0 {
		return nil, fmt.Errorf("geometry with %d shapes instead of one", len(e.children))
	}
	c := e.children[0]
	switch c.name {
	case "box":
		size, err := vector[[3]float64](c, "size")
		return Box{size}, err
	case "sphere":
		radius, err := c.number("radius")
		return Sphere{radius}, err
	case "cylinder", "capsule":
		radius, err := c.number("radius")
		if err != nil {
			return nil, err
		}
		length, err := c.number("length")
		if c.name == "capsule" {
			return Capsule{radius, length}, err
		}
		return Cylinder{radius, length}, err
	case "mesh":
		file, err := c.required("filename")
		if err != nil {
			return nil, err
		}
		m := Mesh{Filename: file}
		if c.has("scale") {
			scale, err := vector[[3]float64](c, "scale")
			if err != nil {
				return nil, err
			}
			m.Scale = &scale
		}
		return m, nil
	}
	return nil, fmt.Errorf("unknown geometry %q", c.name)
}

type material struct {
	name    string
	color   *[4]float64
	texture string
}

func (e *element) material() (m material, err error) {
	if m.name, err = e.required("name"); err != nil {
		return m, err
	}
	c, err := e.only("color")
	if err != nil {
		return m, err
	}
	if c != nil {
		rgba, err := vector[[4]float64](c, "rgba")
		if err != nil {
			return m, err
		}
		m.color = &rgba
	}
	t, err := e.only("texture")
	if t != nil && err == nil {
		m.texture, err = t.required("filename")
	}
	return m, err
}

func (e *element) joint() (j joint, err error) {
	if _, err := e.required("name"); err != nil {
		return j, err
	}
	kind, err := e.required("type")
	if err != nil {
		return j, err
	}
	switch kind {
	case "revolute", "continuous", "prismatic", "fixed", "floating", "planar", "spherical":
	default:
		return j, fmt.Errorf("unknown joint type %q", kind)
	}
	link := func(end string) (name string, err error) {
		c, err := e.only(end)
		if err != nil {
			return "", err
		}
		if c == nil {
			return "", fmt.Errorf("joint without %s", end)
		}
		return c.required("link")
	}
	if j.parent, err = link("parent"); err != nil {
		return j, err
	}
	if j.child, err = link("child"); err != nil {
		return j, err
	}
	if _, _, err := e.origin(); err != nil {
		return j, err
	}
	return j, e.jointDetails()
}

// jointDetails checks the parts of a joint that are not kept.
func (e *element) jointDetails() error {
	err := e.check("axis", func(c *element) error {
		_, err := vector[[3]float64](c, "xyz")
		return err
	})
	numbers := func(part string, required string, optional ...string) {
		if err != nil {
			return
		}
		err = e.check(part, func(c *element) error {
			if required != "" {
				if _, err := c.number(required); err != nil {
					return err
				}
			}
			return c.optional(optional...)
		})
	}
	numbers("limit", "velocity", "lower", "upper", "effort")
	numbers("calibration", "", "rising", "falling")
	numbers("dynamics", "", "damping", "friction")
	numbers("safety_controller", "k_velocity", "soft_lower_limit", "soft_upper_limit", "k_position")
	if err == nil {
		err = e.check("mimic", func(c *element) error {
			if _, err := c.required("joint"); err != nil {
				return err
			}
			return c.optional("multiplier", "offset")
		})
	}
	return err
}

func (e *element) inertial() error {
	if _, _, err := e.origin(); err != nil {
		return err
	}
	if err := e.numbers("mass", "value"); err != nil {
		return err
	}
	return e.numbers("inertia", "ixx", "ixy", "ixz", "iyy", "iyz", "izz")
}

// numbers checks that a child is there and has the given numbers.
func (e *element) numbers(child string, names ...string) error {
	c, err := e.only(child)
	if err != nil {
		return err
	}
	if c == nil {
		return fmt.Errorf("%s without %s", e.name, child)
	}
	for _, name := range names {
		if _, err := c.number(name); err != nil {
			return err
		}
	}
	return nil
}

func (e *element) origin() (xyz, rpy [3]float64, err error) {
	err = e.check("origin", func(c *element) (err error) {
		if c.has("xyz") {
			if xyz, err = vector[[3]float64](c, "xyz"); err != nil {
				return err
			}
		}
		if c.has("rpy") {
			rpy, err = vector[[3]float64](c, "rpy")
		}
		return err
	})
	return xyz, rpy, err
}

// vector reads numbers between spaces. Words that are no numbers are passed
// over, but the count must be right.
func vector[V [3]float64 | [4]float64](e *element, name string) (out V, err error) {
	text, err := e.required(name)
	if err != nil {
		return out, err
	}
	n := 0
	for word := range strings.FieldsSeq(text) {
		v, ok := parseFloat(word)
		if !ok {
			continue
		}
		if n < len(out) {
			out[n] = v
		}
		n++
	}
	if n != len(out) {
		return out, fmt.Errorf("%d numbers instead of %d in %q", n, len(out), text)
	}
	return out, nil
}

func parseFloat(s string) (float64, bool) {
	if strings.ContainsAny(s, "xXpP_") { // forms that only Go reads
		return 0, false
	}
	v, err := strconv.ParseFloat(s, 64)
	return v, err == nil || errors.Is(err, strconv.ErrRange)
}
