package catalog

import (
	"time"
	"unicode/utf8"

	"github.com/reelhouse/reelhouse/chunk"
)

// EntryID names an entry for as long as it exists.
type EntryID = chunk.TUID

// Kind is the kind of an entry, numbered as on the wire.
type Kind uint8

// The kinds of entries that exist.
const (
	KindDataset   Kind = 1
	KindTable     Kind = 3
	KindBlueprint Kind = 5 // a data set of blueprints
	KindAsset     Kind = 6 // a data set of assets
)

// Entry is what every entry has.
type Entry struct {
	ID               EntryID
	Name             string
	Kind             Kind
	Created, Updated time.Time
}

// Details are the companions and defaults of a data set.
type Details struct {
	Blueprints EntryID // the data set of its blueprints; zero if none
	Assets     EntryID // the data set of its assets; zero if none

	// Segments of the blueprint data set; nil if none. They need not exist.
	DefaultBlueprint      *string
	DefaultTableBlueprint *string
}

// Filter selects entries. Every set field must match.
type Filter struct {
	ID   *EntryID
	Name *string
	// Kinds are the kinds to look at; nil means data sets, blueprint data sets and tables.
	Kinds []Kind
}

func (f *Filter) matches(e *Entry) bool {
	if f.ID != nil && *f.ID != e.ID || f.Name != nil && *f.Name != e.Name {
		return false
	}
	if f.Kinds == nil {
		return e.Kind != KindAsset
	}
	for _, k := range f.Kinds {
		if k == e.Kind {
			return true
		}
	}
	return false
}

// EntriesTable is the name of the system table that lists all entries.
const EntriesTable = "__entries"

const maxName = 180

// checkName applies the rules for entry names (spec/catalog.md 1.3).
func checkName(name string) error {
	if name == "" {
		return refuse(ErrInvalid, "invalid entry name: name '' must not be empty")
	}
	if len(name) > maxName {
		return refuse(ErrInvalid, "invalid entry name: name '%s' exceeds maximum length of %d characters (got %d)", name, maxName, len(name))
	}
	if !utf8.ValidString(name) {
		return refuse(ErrInvalid, "invalid entry name: name is not UTF-8")
	}
	for _, r := range name {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
		case r == '_', r == '-', r == '.', r == '[', r == ']', r == ':', r == ' ':
		default:
			return refuse(ErrInvalid, "invalid entry name: name '%s' contains invalid character '%c'", name, r)
		}
	}
	return nil
}
