package query

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/reelhouse/reelhouse/chunk"
)

// ErrContents is wrapped by all errors of [ParseContents].
var ErrContents = errors.New("malformed contents expression")

// Contents selects entities by rules (spec/chunks.md section 5). It is
// immutable. A nil Contents selects all entities but properties.
type Contents struct {
	rules map[chunk.EntityPath]contentsRule
}

// contentsRule holds what the rules of one path say; the last of a kind wins.
type contentsRule struct{ exact, subtree verdict }

type verdict uint8

const (
	silent verdict = iota
	include
	exclude
)

// ParseContents reads rules from expressions, each with any number of rules
// separated by white space: an optional sign (+ or -), a path, and optionally
// "/**" for the whole subtree. The most specific rule decides; without any an
// entity is not selected. No rule at all selects nothing. Properties are
// selected by rules that name them only.
//
// Variables, asterisks anywhere else, characters that a path needs escaped and
// signs without a path are errors.
func ParseContents(expressions ...string) (*Contents, error) { return parseContents(expressions, true) }

// ParseContentsLenient reads rules the way Rerun does: no text is an error,
// one that makes no sense is the name of an entity that hardly exists.
func ParseContentsLenient(expressions ...string) *Contents {
	c, _ := parseContents(expressions, false)
	return c
}

func parseContents(expressions []string, strict bool) (*Contents, error) {
	c := &Contents{rules: map[chunk.EntityPath]contentsRule{chunk.PropertiesPath: {subtree: exclude}}}
	text := strings.Join(expressions, " ")
	sign := ""
	for _, token := range tokens(text) {
		if sign == "" && (token == "+" || token == "-") {
			sign = token
			continue
		}
		rule := token
		if sign == "" && (token[0] == '+' || token[0] == '-') {
			sign, rule = token[:1], token[1:]
		}
		say := include
		if sign == "-" {
			say = exclude
		}
		path, subtree := strings.CutSuffix(rule, "/**")
		if strict {
			if err := checkPath(path); err != nil {
				return nil, fmt.Errorf("%w: %q: %w", ErrContents, token, err)
			}
		}
		p := chunk.ParseEntityPath(path)
		r := c.rules[p]
		if subtree {
			r.subtree = say
		} else {
			r.exact = say
		}
		c.rules[p] = r
		sign = ""
	}
	if strict && sign != "" {
		return nil, fmt.Errorf("%w: %q: a sign needs a path", ErrContents, sign)
	}
	return c, nil
}

// tokens cuts at white space that no backslash escapes.
func tokens(s string) []string {
	var out []string
	start := -1
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case unicode.IsSpace(r):
			if start >= 0 {
				out = append(out, s[start:i])
				start = -1
			}
		case start < 0:
			start = i
		}
		if r == '\\' && i+1 < len(s) {
			_, m := utf8.DecodeRuneInString(s[i+1:])
			n += m
		}
		i += n
	}
	if start >= 0 {
		out = append(out, s[start:])
	}
	return out
}

// checkPath refuses what is no entity path. Superfluous and missing slashes are fine.
func checkPath(path string) error {
	for strings.Contains(path, "//") {
		path = strings.ReplaceAll(path, "//", "/")
	}
	if len(path) > 1 && !strings.HasSuffix(path, `\/`) {
		path = strings.TrimSuffix(path, "/")
	}
	if path == "" {
		return nil // the root's subtree
	}
	_, err := chunk.ParseEntityPathStrict(path)
	return err
}

// Match reports whether the entity is selected.
func (c *Contents) Match(entity chunk.EntityPath) bool {
	if c == nil {
		return !entity.IsProperty()
	}
	if v := c.rules[entity].exact; v != silent {
		return v == include
	}
	for p, ok := entity, true; ok; p, ok = p.Parent() {
		if v := c.rules[p].subtree; v != silent {
			return v == include
		}
	}
	return false
}
