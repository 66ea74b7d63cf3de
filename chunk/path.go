package chunk

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// EntityPath is the canonical text of an entity path: "/" and escaped parts
// joined by "/". The root is "/". Make one with [ParseEntityPath],
// [ParseEntityPathStrict] or [EntityPathFromParts]; canonical paths are equal
// exactly if their texts are.
type EntityPath string

// Root is the entity path without parts.
const Root EntityPath = "/"

// PropertiesPath is the reserved entity below which recording properties live.
const PropertiesPath EntityPath = "/__properties"

// ErrEntityPath is wrapped by all errors of [ParseEntityPathStrict].
var ErrEntityPath = errors.New("malformed entity path")

// ParseEntityPath reads a path the forgiving way of log calls and metadata: no
// text is refused (spec/rrd.md 3.2).
func ParseEntityPath(s string) EntityPath {
	if isCanonical(s) {
		return EntityPath(s)
	}
	var parts []string
	for _, raw := range splitParts(s) {
		if raw != "" {
			parts = append(parts, unescapeForgiving(raw))
		}
	}
	return EntityPathFromParts(parts...)
}

// ParseEntityPathStrict reads a path as typed by a user on a command line or
// in a query; what [ParseEntityPath] would repair is an error.
func ParseEntityPathStrict(s string) (EntityPath, error) {
	fail := func(why string) (EntityPath, error) { return "", fmt.Errorf("%w: %q: %s", ErrEntityPath, s, why) }
	if s == "" {
		return fail("empty")
	}
	if s == "/" {
		return Root, nil
	}
	var parts []string
	for i, raw := range splitParts(strings.TrimPrefix(s, "/")) {
		if raw == "" {
			if i == 0 || strings.Contains(s, "//") {
				return fail("double slash")
			}
			return fail("trailing slash")
		}
		p, err := unescapeStrict(raw)
		if err != nil {
			return fail(err.Error())
		}
		parts = append(parts, p)
	}
	return EntityPathFromParts(parts...), nil
}

// EntityPathFromParts joins unescaped parts. Empty parts are dropped.
func EntityPathFromParts(parts ...string) EntityPath {
	var b strings.Builder
	for _, p := range parts {
		if p != "" {
			b.WriteByte('/')
			escapePart(&b, p)
		}
	}
	if b.Len() == 0 {
		return Root
	}
	return EntityPath(b.String())
}

func (p EntityPath) String() string { return string(p) }

// Parts are the unescaped parts from the root on.
func (p EntityPath) Parts() []string {
	if p == Root || p == "" {
		return nil
	}
	parts := splitParts(string(p[1:]))
	for i, s := range parts {
		if strings.IndexByte(s, '\\') >= 0 {
			parts[i] = unescapeForgiving(s)
		}
	}
	return parts
}

// Join is the path of a descendant with the given unescaped parts.
func (p EntityPath) Join(parts ...string) EntityPath {
	tail := EntityPathFromParts(parts...)
	switch {
	case tail == Root:
		return p
	case p == Root || p == "":
		return tail
	}
	return p + tail
}

// Parent is the path without its last part; ok is false at the root.
func (p EntityPath) Parent() (parent EntityPath, ok bool) {
	if p == Root || p == "" {
		return Root, false
	}
	// An escaped slash is written `\/`, so skip slashes with an odd number of backslashes before them.
	for i := len(p) - 1; i > 0; i-- {
		if p[i] == '/' && !escapedAt(string(p), i) {
			return p[:i], true
		}
	}
	return Root, true
}

// IsDescendantOf reports whether p lies strictly below q.
func (p EntityPath) IsDescendantOf(q EntityPath) bool {
	if q == Root {
		return p != Root
	}
	return len(p) > len(q) && p[:len(q)] == q && p[len(q)] == '/'
}

// IsReserved reports whether the first part starts with "__".
func (p EntityPath) IsReserved() bool {
	return strings.HasPrefix(string(p), "/__") || strings.HasPrefix(string(p), `/\_`)
}

// IsProperty reports whether p is [PropertiesPath] or below it.
func (p EntityPath) IsProperty() bool { return p == PropertiesPath || p.IsDescendantOf(PropertiesPath) }

// Compare orders paths part by part in natural order, parts that start with
// "__" after all others (spec/chunks.md 1.1, spec/rrd.md 3.2).
func (p EntityPath) Compare(q EntityPath) int {
	if p == q {
		return 0
	}
	return slices.CompareFunc(p.Parts(), q.Parts(), comparePart)
}

func comparePart(a, b string) int {
	ra, rb := strings.HasPrefix(a, "__"), strings.HasPrefix(b, "__")
	if ra != rb {
		if ra {
			return 1
		}
		return -1
	}
	return compareNatural(a, b)
}

// compareNatural compares digit runs by number, or digit by digit if one of
// them has leading zeros, and other characters one by one: letters by the
// alphabet of ASCII and upper case before lower case.
func compareNatural(a, b string) int {
	for a != "" && b != "" {
		if isDigit(a[0]) && isDigit(b[0]) {
			na, nb := digitRun(a), digitRun(b)
			if na[0] != '0' && nb[0] != '0' && len(na) != len(nb) {
				return len(na) - len(nb)
			}
			if c := strings.Compare(na, nb); c != 0 {
				return c
			}
			a, b = a[len(na):], b[len(nb):]
			continue
		}
		if a[0] != b[0] {
			return cmp.Or(int(lower(a[0]))-int(lower(b[0])), int(a[0])-int(b[0]))
		}
		a, b = a[1:], b[1:]
	}
	return len(a) - len(b)
}

// digitRun is the digits that s begins with.
func digitRun(s string) string {
	n := 1
	for n < len(s) && isDigit(s[n]) {
		n++
	}
	return s[:n]
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

func isPlainRune(r rune) bool {
	return r == '_' || r == '-' || r == '.' || unicode.IsLetter(r) || unicode.IsNumber(r)
}

// isCanonical is the fast path for texts that need no parsing.
func isCanonical(s string) bool {
	if len(s) < 2 || s[0] != '/' || s[len(s)-1] == '/' {
		return s == "/"
	}
	for i := 1; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '/':
			if s[i-1] == '/' {
				return false
			}
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', isDigit(c), c == '_', c == '-', c == '.':
		default:
			return false
		}
	}
	return true
}

// splitParts cuts at slashes that no backslash escapes.
func splitParts(s string) []string {
	var parts []string
	start := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '/':
			parts = append(parts, s[start:i])
			start = i + 1
		}
	}
	return append(parts, s[start:])
}

func escapedAt(s string, i int) bool {
	n := 0
	for i--; i >= 0 && s[i] == '\\'; i-- {
		n++
	}
	return n%2 == 1
}

func escapePart(b *strings.Builder, part string) {
	for _, r := range part {
		switch {
		case isPlainRune(r):
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r > ' '-1 && r < 0x7f:
			b.WriteByte('\\')
			b.WriteRune(r)
		default:
			fmt.Fprintf(b, `\u{%04X}`, r)
		}
	}
}

func isASCIIPunctOrSpace(c byte) bool {
	return c >= ' ' && c < 0x7f && !isDigit(c) && (lower(c) < 'a' || lower(c) > 'z')
}

// unicodeEscape reads `{HEX}` at the start of s.
func unicodeEscape(s string) (r rune, n int, ok bool) {
	end := strings.IndexByte(s, '}')
	if len(s) == 0 || s[0] != '{' || end < 2 || end > 7 {
		return 0, 0, false
	}
	v, err := strconv.ParseUint(s[1:end], 16, 32)
	if err != nil || !utf8.ValidRune(rune(v)) {
		return 0, 0, false
	}
	return rune(v), end + 1, true
}

// malformedEscape is how much after a backslash and u is taken as it stands, as
// nothing but an escape could have begun there: up to a brace, or 8 bytes.
func malformedEscape(s string) int {
	for i, r := range s {
		if i >= 8 {
			return i
		}
		if r == '}' {
			return i + 1
		}
	}
	return len(s)
}

func unescapeForgiving(s string) string {
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b.WriteByte(s[i])
			continue
		}
		if i+1 == len(s) {
			b.WriteByte('\\')
			break
		}
		i++
		switch c := s[i]; c {
		case 'n':
			b.WriteByte('\n')
		case 'r':
			b.WriteByte('\r')
		case 't':
			b.WriteByte('\t')
		case 'u':
			if r, n, ok := unicodeEscape(s[i+1:]); ok {
				b.WriteRune(r)
				i += n
			} else {
				n := malformedEscape(s[i+1:])
				b.WriteString(s[i-1 : i+1+n])
				i += n
			}
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

func unescapeStrict(s string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r != '\\' {
			if !isPlainRune(r) {
				return "", fmt.Errorf("unescaped %q", r)
			}
			b.WriteString(s[i : i+n])
			i += n
			continue
		}
		if i+1 == len(s) {
			return "", errors.New("trailing backslash")
		}
		i += 2
		switch c := s[i-1]; {
		case c == 'n':
			b.WriteByte('\n')
		case c == 'r':
			b.WriteByte('\r')
		case c == 't':
			b.WriteByte('\t')
		case c == 'u':
			r, n, ok := unicodeEscape(s[i:])
			if !ok {
				return "", errors.New(`bad \u escape`)
			}
			b.WriteRune(r)
			i += n
		case isASCIIPunctOrSpace(c):
			b.WriteByte(c)
		default:
			return "", fmt.Errorf("unknown escape \\%c", c)
		}
	}
	return b.String(), nil
}
