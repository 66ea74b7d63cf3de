package urdf

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const robot = `<?xml version="1.0" encoding="ISO-8859-1"?>
<!DOCTYPE robot>
<robot name="bot" xmlns:xacro="http://ros.org/wiki/xacro">
  <material name="blue"><color rgba="0 0 1 1"/></material>
  <link name="arm">
    <inertial><origin xyz="0 0 1"/><mass value="1"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial>
    <visual name="v"><origin xyz=" 1  2	3 " rpy="0 0 1.5"/><geometry><cylinder radius="0.1" length="2"/></geometry><material name="blue"/></visual>
    <collision><geometry><!-- half a metre --><sphere radius=" 0.5 "/></geometry></collision>
  </link>
  <link name="base">
    <visual><geometry><box size="1 2 3 m"/></geometry><material name="own"><color rgba="1 0 0 0.5"/><texture filename="t.png"/></material></visual>
    <visual><geometry><mesh filename="package://p/m.stl" scale="2 2 2"/></geometry><material name="own"/></visual>
    <visual><geometry><capsule radius="1" length="2"/></geometry></visual>
  </link>
  <joint name="j" type="revolute"><parent link="base"/><child link="arm"/><axis xyz="0 0 1"/><limit velocity="1"/><dynamics damping="1"/><mimic joint="k"/></joint>
  <gazebo reference="arm"><anything/></gazebo>
</robot> what follows is not looked at <`

func TestParse(t *testing.T) {
	got, err := Parse(robot)
	if err != nil {
		t.Fatal(err)
	}
	blue, own := [4]float64{0, 0, 1, 1}, [4]float64{1, 0, 0, 0.5}
	want := &Robot{Name: "bot", Root: "base", Links: []Link{
		{Name: "base", Visual: []Shape{
			{Geometry: Box{[3]float64{1, 2, 3}}, Color: &own, Texture: "t.png", material: "own"},
			{Geometry: Mesh{"package://p/m.stl", &[3]float64{2, 2, 2}}, material: "own"},
			{Geometry: Capsule{1, 2}},
		}},
		{Name: "arm",
			Visual:    []Shape{{Name: "v", Named: true, XYZ: [3]float64{1, 2, 3}, RPY: [3]float64{0, 0, 1.5}, Geometry: Cylinder{0.1, 2}, Color: &blue, material: "blue"}},
			Collision: []Shape{{Geometry: Sphere{0.5}}}},
	}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(Shape{})); diff != "" {
		t.Error(diff)
	}
}

func TestQuaternion(t *testing.T) {
	s := Shape{RPY: [3]float64{0.1, 0.2, 0.3}}
	want := [4]float32{0.03427080065011978, 0.10602051019668579, 0.14357218146324158, 0.983347475528717}
	if got := s.Quaternion(); got != want {
		t.Errorf("quaternion is %v, want %v", got, want)
	}
	norm := 0.0
	for _, v := range (&Shape{RPY: [3]float64{3, -2, 1}}).Quaternion() {
		norm += float64(v) * float64(v)
	}
	if math.Abs(norm-1) > 1e-6 {
		t.Errorf("norm is %v", norm)
	}
}

// link and others put together descriptions with one fault.
func link(name, body string) string { return fmt.Sprintf(`<link name="%s">%s</link>`, name, body) }

func visual(body string) string { return link("a", "<visual>"+body+"</visual>") }

const box = `<geometry><box size="1 1 1"/></geometry>`

func joint2(name, parent, child, body string) string {
	return fmt.Sprintf(`<joint name="%s" type="revolute"><parent link="%s"/><child link="%s"/>%s</joint>`, name, parent, child, body)
}

func TestMalformed(t *testing.T) {
	ab := link("a", "") + link("b", "")
	for name, body := range map[string]string{
		"no link":              "",
		"two roots":            ab,
		"circle":               ab + joint2("1", "a", "b", "") + joint2("2", "b", "a", ""),
		"circle below root":    ab + link("r", "") + joint2("0", "r", "a", "") + joint2("1", "a", "b", "") + joint2("2", "b", "a", ""),
		"joint to itself":      ab + joint2("1", "a", "b", "") + joint2("2", "b", "b", ""),
		"joint to nothing":     link("a", "") + joint2("1", "a", "x", ""),
		"joint type":           strings.ReplaceAll(ab+joint2("1", "a", "b", ""), "revolute", "wobbly"),
		"joint without parent": ab + `<joint name="j" type="fixed"><child link="b"/></joint>`,
		"limit":                ab + joint2("1", "a", "b", "<limit/>"),
		"axis":                 ab + joint2("1", "a", "b", `<axis xyz="0 1"/>`),
		"two axes":             ab + joint2("1", "a", "b", `<axis xyz="0 0 1"/><axis xyz="0 0 1"/>`),
		"mimic":                ab + joint2("1", "a", "b", `<mimic/>`),
		"safety":               ab + joint2("1", "a", "b", `<safety_controller/>`),
		"link without name":    `<link/>`,
		"no geometry":          visual(""),
		"empty geometry":       visual("<geometry/>"),
		"two shapes":           visual(`<geometry><box size="1 1 1"/><sphere radius="1"/></geometry>`),
		"text in geometry":     visual(`<geometry>x<box size="1 1 1"/></geometry>`),
		"unknown shape":        visual(`<geometry><torus/></geometry>`),
		"box":                  visual(`<geometry><box size="1 1"/></geometry>`),
		"commas":               visual(`<geometry><box size="1,1,1"/></geometry>`),
		"number":               visual(`<geometry><sphere radius="0x1p1"/></geometry>`),
		"mesh":                 visual(`<geometry><mesh/></geometry>`),
		"scale":                visual(`<geometry><mesh filename="x" scale="1"/></geometry>`),
		"two origins":          visual(box + "<origin/><origin/>"),
		"origin":               visual(box + `<origin xyz="1 2 3 4"/>`),
		"color":                visual(box + `<material name="m"><color rgba="1 1 1"/></material>`),
		"material":             visual(box + `<material/>`),
		"texture":              visual(box + `<material name="m"><texture/></material>`),
		"inertia":              link("a", `<inertial><mass value="1"/></inertial>`),
		"mass":                 link("a", `<inertial><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial>`),
		"unclosed":             "<link",
		"entity":               link("&x;", ""),
		"repeated attribute":   `<link name="a" name="b"/>`,
		"deep":                 strings.Repeat("<x>", 300) + strings.Repeat("</x>", 300),
	} {
		if _, err := Parse("<robot>" + body + "</robot>"); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	for _, text := range []string{"", "hello", "<robot>", `<sdf/>`} {
		if _, err := Parse(text); !errors.Is(err, ErrMalformed) {
			t.Errorf("%q: error %v", text, err)
		}
	}
}

func FuzzURDF(f *testing.F) {
	f.Add(robot)
	f.Add("<robot>" + link("a", "<visual>"+box+"</visual>") + link("b", "") + joint2("1", "a", "b", "") + "</robot>")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := Parse(text)
		if err != nil {
			return
		}
		if len(r.Links) == 0 || r.Links[0].Name != r.Root {
			t.Fatalf("%d links, root %q", len(r.Links), r.Root)
		}
		for _, l := range r.Links {
			for i := range l.Visual {
				l.Visual[i].Quaternion()
			}
		}
	})
}
