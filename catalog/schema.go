package catalog

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/reelhouse/reelhouse/chunk"
)

type schemaHash = [sha256.Size]byte

// layerSchema is the schema of layers, shared by all that have the same.
type layerSchema struct {
	hash   schemaHash
	schema *arrow.Schema
	layers int // that use it
}

// Metadata keys that are merged rather than compared.
const (
	keyEmpty     = "rerun:is_semantically_empty"
	keyTombstone = "rerun:is_tombstone"
)

// union merges schemas field by field: the row id, timelines by name, data
// columns by name. The error says which type does not fit.
func union(schemas ...*arrow.Schema) (*arrow.Schema, error) {
	var fields []arrow.Field
	place := map[string]int{}
	for _, s := range schemas {
		for _, f := range s.Fields() {
			i, ok := place[f.Name]
			if !ok {
				place[f.Name] = len(fields)
				fields = append(fields, f)
				continue
			}
			merged, err := mergeField(fields[i], f)
			if err != nil {
				return nil, err
			}
			fields[i] = merged
		}
	}
	return sortFields(fields), nil
}

// sortFields gives the fields of a data set their order and nullability
// (spec/catalog.md 4.3).
func sortFields(fields []arrow.Field) *arrow.Schema {
	fields = slices.Clone(fields)
	for i := range fields {
		fields[i].Nullable = chunk.KindOf(fields[i]) != chunk.ControlColumn
	}
	slices.SortStableFunc(fields, func(a, b arrow.Field) int {
		if c := int(chunk.KindOf(a)) - int(chunk.KindOf(b)); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	return arrow.NewSchema(fields, nil)
}

func mergeField(a, b arrow.Field) (arrow.Field, error) {
	dt, err := mergeType(a.Name, a.Type, b.Type)
	if err != nil {
		return a, err
	}
	a.Type = dt
	a.Nullable = a.Nullable || b.Nullable
	a.Metadata = mergeMetadata(a.Metadata, b.Metadata)
	return a, nil
}

// mergeMetadata keeps what either has. A column is static if it is anywhere,
// and empty only if it is everywhere.
func mergeMetadata(a, b arrow.Metadata) arrow.Metadata {
	if a.Equal(b) {
		return a
	}
	var keys, vals []string
	for i, k := range a.Keys() {
		if k == keyEmpty && b.FindKey(k) < 0 {
			continue
		}
		keys, vals = append(keys, k), append(vals, a.Values()[i])
	}
	for i, k := range b.Keys() {
		if a.FindKey(k) < 0 && k != keyEmpty {
			keys, vals = append(keys, k), append(vals, b.Values()[i])
		}
	}
	return arrow.NewMetadata(keys, vals)
}

// mergeType finds the type that clients widen values of both to: equal ones,
// null and anything, and lists and structs whose parts merge. Clients cannot
// widen what is in fixed-size lists, maps, unions and dictionaries.
func mergeType(field string, a, b arrow.DataType) (arrow.DataType, error) {
	if a.ID() == arrow.NULL {
		return b, nil
	}
	if b.ID() == arrow.NULL || arrow.TypeEqual(a, b) {
		return a, nil
	}
	conflict := fmt.Errorf("fail to merge schema field '%s' because the from data_type = %s does not equal %s", field, b, a)
	if a.ID() != b.ID() {
		return nil, conflict
	}
	switch a := a.(type) {
	case *arrow.ListType:
		f, err := mergeField(a.ElemField(), b.(*arrow.ListType).ElemField())
		if err != nil {
			return nil, err
		}
		return arrow.ListOfField(f), nil
	case *arrow.LargeListType:
		f, err := mergeField(a.ElemField(), b.(*arrow.LargeListType).ElemField())
		if err != nil {
			return nil, err
		}
		return arrow.LargeListOfField(f), nil
	case *arrow.StructType:
		return mergeStruct(a, b.(*arrow.StructType))
	}
	return nil, conflict
}

// mergeStruct has the fields of both. One that is missing in either is null there.
func mergeStruct(a, b *arrow.StructType) (arrow.DataType, error) {
	var fields []arrow.Field
	for _, f := range a.Fields() {
		g, ok := b.FieldByName(f.Name)
		if !ok {
			f.Nullable = true
			fields = append(fields, f)
			continue
		}
		merged, err := mergeField(f, g)
		if err != nil {
			return nil, err
		}
		fields = append(fields, merged)
	}
	for _, f := range b.Fields() {
		if _, ok := a.FieldByName(f.Name); !ok {
			f.Nullable = true
			fields = append(fields, f)
		}
	}
	return arrow.StructOf(fields...), nil
}

// currentSchema is the merged schema of all layers; empty without any. The
// caller holds the catalog's lock.
func (d *Dataset) currentSchema() *arrow.Schema {
	d.cacheMu.Lock()
	defer d.cacheMu.Unlock()
	if d.merged == nil {
		// Every layer was merged with the others when it came, so this cannot fail.
		d.merged, _ = d.mergedWith(nil, nil)
		if d.merged == nil {
			d.merged = arrow.NewSchema(nil, nil)
		}
	}
	return d.merged
}

// mergedWith merges the schemas of all layers and one more, leaving out that of
// a layer that is to be replaced.
func (d *Dataset) mergedWith(more *arrow.Schema, without *layer) (*arrow.Schema, error) {
	all := make([]*arrow.Schema, 0, len(d.schemas)+1)
	for _, s := range d.schemas {
		if without != nil && without.schema == s && s.layers == 1 {
			continue
		}
		all = append(all, s.schema)
	}
	if more != nil {
		all = append(all, more)
	}
	if len(all) == 0 {
		return arrow.NewSchema(nil, nil), nil
	}
	return union(all...)
}
