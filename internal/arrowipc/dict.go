package arrowipc

import (
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// dictValues are the values of one dictionary: what a dictionary batch brought
// and the deltas since, joined when a record batch asks for them.
type dictValues struct {
	parts []*array.Data
}

// dictionary takes in a dictionary batch. Its values are checked like those of
// any array.
func (r *reader) dictionary(m *message) error {
	id := m.header.i64(0, 0)
	delta := m.header.bool(2)
	rb, ok := m.header.table(1)
	if m.err != nil {
		return m.err
	}
	if !ok {
		return errors.New("dictionary batch without data")
	}
	at := -1
	for i := range r.info.dicts {
		if r.info.dicts[i].id == id {
			at = i
			break
		}
	}
	if at < 0 {
		return fmt.Errorf("no field uses dictionary %d", id)
	}
	f := &r.info.dicts[at]
	var l loader
	rows, err := l.init(r, m, rb, f.nodes, 1)
	if err != nil {
		return err
	}
	l.dict = at + 1 // dictionaries within the values come next
	d, err := l.load(f.value)
	if err == nil && d.Len() != rows {
		err = fmt.Errorf("%d values in a batch of %d", d.Len(), rows)
	}
	if err != nil {
		return &Error{Part: "dictionary", Offset: int64(l.at), Err: err}
	}
	d.Retain() // ours, so that releasing arrays never empties it
	if r.dicts == nil {
		r.dicts = make([]dictValues, len(r.info.dicts))
	}
	v := &r.dicts[at]
	if !delta {
		v.parts = nil
	} else if len(v.parts) == 0 {
		return fmt.Errorf("delta for dictionary %d, which is not there yet", id)
	}
	v.parts = append(v.parts, d)
	return nil
}

// dictionaryOf returns the current values for a dictionary field.
func (r *reader) dictionaryOf(at int) (*array.Data, error) {
	f := &r.info.dicts[at]
	for i := range r.dicts {
		// The first field with an id holds the values for all with that id.
		if r.info.dicts[i].id != f.id {
			continue
		}
		v := &r.dicts[i]
		if len(v.parts) == 0 {
			break
		}
		if i != at && !arrow.TypeEqual(r.info.dicts[i].value, f.value) {
			return nil, fmt.Errorf("dictionary %d is used with two types", f.id)
		}
		if len(v.parts) > 1 {
			if err := r.join(v); err != nil {
				return nil, err
			}
		}
		return v.parts[0], nil
	}
	return nil, fmt.Errorf("dictionary %d is missing", f.id)
}

// join merges the deltas of a dictionary. A stream with many deltas between
// many batches copies over and over, so the copying is bounded.
func (r *reader) join(v *dictValues) error {
	arrays := make([]arrow.Array, len(v.parts))
	for i, p := range v.parts {
		r.joined += int64(p.SizeInBytes())
		arrays[i] = array.MakeFromData(p)
	}
	if r.joined > 64*int64(len(r.stream))+1<<24 {
		return errors.New("dictionary deltas beyond all measure")
	}
	all, err := array.Concatenate(arrays, memory.DefaultAllocator)
	if err != nil {
		return fmt.Errorf("joining dictionary deltas: %w", err)
	}
	v.parts = append(v.parts[:0:0], all.Data().(*array.Data))
	return nil
}
