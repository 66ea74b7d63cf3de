package catalog

import (
	"crypto/rand"
	"encoding/binary"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// Properties are the mutable properties of a segment.
type Properties struct {
	Segment  string
	Values   arrow.RecordBatch // one row of columns property:KEY:COMPONENT
	Revision uint64            // not zero, new with every write
}

type properties struct {
	values   arrow.RecordBatch
	revision uint64
}

// SetProperties replaces the mutable properties of a segment, which need not
// exist, and returns their new revision. If expected is not nil it is the
// revision that they must have; 0 means that there are none.
func (d *Dataset) SetProperties(segmentID string, values arrow.RecordBatch, expected *uint64) (uint64, error) {
	if segmentID == "" {
		return 0, refuse(ErrInvalid, "segment_id is required")
	}
	if values.NumRows() != 1 {
		return 0, refuse(ErrInvalid, "segment properties must be a single row, got %d rows", values.NumRows())
	}
	c := d.catalog
	c.mu.Lock()
	defer c.mu.Unlock()
	if d.gone {
		return 0, unknownID(d.entry.ID)
	}
	have := uint64(0)
	if p := d.props[segmentID]; p != nil {
		have = p.revision
	}
	if expected != nil && *expected != have {
		return 0, refuse(ErrPrecondition, "Properties of segment '%s' were modified concurrently: expected revision %d, found %d", segmentID, *expected, have)
	}
	p := &properties{values: values, revision: have}
	for p.revision == 0 || p.revision == have {
		var b [8]byte
		_, _ = rand.Read(b[:]) // never fails
		p.revision = binary.LittleEndian.Uint64(b[:])
	}
	d.props[segmentID] = p
	return p.revision, nil
}

// Properties are the mutable properties of those of the segments that have some.
func (d *Dataset) Properties(segmentIDs []string) ([]Properties, error) {
	if len(segmentIDs) == 0 {
		return nil, refuse(ErrInvalid, "segment_ids must name at least one segment")
	}
	d.catalog.mu.RLock()
	defer d.catalog.mu.RUnlock()
	var all []Properties
	seen := map[string]bool{}
	for _, id := range segmentIDs {
		if p := d.props[id]; p != nil && !seen[id] {
			seen[id] = true
			all = append(all, Properties{id, p.values, p.revision})
		}
	}
	return all, nil
}

// DeleteProperties removes the mutable properties of a segment, unless they
// have another revision than expected.
func (d *Dataset) DeleteProperties(segmentID string, expected *uint64) {
	c := d.catalog
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := d.props[segmentID]; p != nil && (expected == nil || *expected == p.revision) {
		delete(d.props, segmentID)
	}
}

// Assets is the asset data set of a data set and those of its segments that
// apply to a segment: by their own mutable properties (spec/catalog.md 7). An
// empty segment id asks for those that apply to all.
func (d *Dataset) Assets(segmentID string) (EntryID, []string, error) {
	c := d.catalog
	c.mu.RLock()
	defer c.mu.RUnlock()
	if d.entry.Kind != KindDataset {
		kind := "Blueprint"
		if d.entry.Kind == KindAsset {
			kind = "Asset"
		}
		return EntryID{}, nil, refuse(ErrInvalid, "assets can only be queried on recording datasets, this is a %s dataset", kind)
	}
	a := c.byID[d.details.Assets]
	if a == nil {
		return d.details.Assets, nil, nil
	}
	var ids []string
	for _, s := range a.order {
		if p := a.props[s.id]; p == nil || applies(p.values, segmentID) {
			ids = append(ids, s.id)
		}
	}
	return a.entry.ID, ids, nil
}

func applies(props arrow.RecordBatch, segmentID string) bool {
	mode := textList(props, "property:asset:mode")
	optIn := len(mode) > 0 && mode[0] == "OptIn"
	listed := slices.Contains(textList(props, "property:asset:segments"), segmentID)
	if segmentID == "" {
		return !optIn && len(textList(props, "property:asset:segments")) == 0
	}
	return listed == optIn
}

// textList is the text list in the only row of a column, or nil.
func textList(b arrow.RecordBatch, column string) []string {
	i := b.Schema().FieldIndices(column)
	if len(i) == 0 {
		return nil
	}
	l, ok := b.Column(i[0]).(array.ListLike)
	if !ok || l.IsNull(0) {
		return nil
	}
	from, to := l.ValueOffsets(0)
	var out []string
	for j := int(from); j < int(to); j++ {
		if s, ok := l.ListValues().(array.StringLike); ok && !l.ListValues().IsNull(j) {
			out = append(out, s.Value(j))
		}
	}
	return out
}
