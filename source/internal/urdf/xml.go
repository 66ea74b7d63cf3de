package urdf

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
)

// element is an XML element, by local names.
type element struct {
	name     string
	attrs    map[string]string
	children []*element
	text     []byte // without white space alone
}

// maxDepth is far beyond what descriptions nest; deeper elements are refused.
const maxDepth = 200

// parseXML reads the first element of a document and all in it. What follows it
// is not looked at.
func parseXML(text string) (*element, error) {
	text = strings.TrimPrefix(text, "\ufeff")
	d := xml.NewDecoder(strings.NewReader(text))
	// The text is UTF-8 by the time it gets here, whatever it says of itself.
	d.CharsetReader = func(_ string, r io.Reader) (io.Reader, error) { return r, nil }
	var open []*element
	for {
		tok, err := d.Token()
		if err == io.EOF {
			return nil, errors.New("no element")
		}
		if err != nil {
			return nil, err
		}
		switch t := tok.(type) {
		case xml.StartElement:
			e := &element{name: t.Name.Local, attrs: make(map[string]string, len(t.Attr))}
			for _, a := range t.Attr {
				if a.Name.Space == "xmlns" || a.Name.Local == "xmlns" {
					continue
				}
				if _, ok := e.attrs[a.Name.Local]; ok {
					return nil, fmt.Errorf("attribute %s of %s stands twice", a.Name.Local, e.name)
				}
				e.attrs[a.Name.Local] = a.Value
			}
			if len(open) > 0 {
				up := open[len(open)-1]
				up.children = append(up.children, e)
			}
			if len(open) >= maxDepth {
				return nil, fmt.Errorf("elements nested more than %d deep", maxDepth)
			}
			open = append(open, e)
		case xml.EndElement:
			if len(open) == 1 {
				return open[0], nil
			}
			open = open[:len(open)-1]
		case xml.CharData:
			if len(open) > 0 && len(bytes.TrimSpace(t)) > 0 {
				e := open[len(open)-1]
				e.text = append(e.text, t...)
			}
		}
	}
}

// value finds an attribute, or the text of a child element that stands for it.
func (e *element) value(name string) (string, bool) {
	if v, ok := e.attrs[name]; ok {
		return v, true
	}
	for _, c := range e.children {
		if c.name == name && len(c.children) == 0 && len(c.attrs) == 0 {
			return string(c.text), true
		}
	}
	return "", false
}

func (e *element) has(name string) bool {
	_, ok := e.value(name)
	return ok
}

func (e *element) required(name string) (string, error) {
	if v, ok := e.value(name); ok {
		return v, nil
	}
	return "", fmt.Errorf("%s without %s", e.name, name)
}

// number reads a required number.
func (e *element) number(name string) (float64, error) {
	text, err := e.required(name)
	if err != nil {
		return 0, err
	}
	v, ok := parseFloat(strings.TrimSpace(text))
	if !ok {
		return 0, fmt.Errorf("%s of %s: %q is not a number", name, e.name, text)
	}
	return v, nil
}

// optional checks numbers that may be missing.
func (e *element) optional(names ...string) error {
	for _, name := range names {
		if e.has(name) {
			if _, err := e.number(name); err != nil {
				return err
			}
		}
	}
	return nil
}

// only is the child of that name, nil if there is none, an error for several.
func (e *element) only(name string) (*element, error) {
	var found *element
	for _, c := range e.children {
		if c.name != name {
			continue
		}
		if found != nil {
			return nil, fmt.Errorf("%s with more than one %s", e.name, name)
		}
		found = c
	}
	return found, nil
}

// check runs f on the only child of that name, if there is one.
func (e *element) check(name string, f func(*element) error) error {
	c, err := e.only(name)
	if c == nil || err != nil {
		return err
	}
	return f(c)
}
