package query

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/reelhouse/reelhouse/chunk"
	"github.com/reelhouse/reelhouse/store"
)

// Errors that callers decide on.
var (
	ErrUnknownIndex        = errors.New("unknown index")
	ErrUnknownColumn       = errors.New("unknown column")
	ErrDuplicateIndexValue = errors.New("index value given twice")
	ErrIndexValues         = errors.New("unsuitable index values")
)

// Query says what to ask. The zero value asks for the static data of all
// entities but properties.
type Query struct {
	// Index is the timeline whose distinct values are the rows. Empty asks for
	// one row of static data.
	Index string
	// Contents selects entities; nil selects all but properties.
	Contents *Contents
	// IncludeEmpty keeps columns in which no chunk has a value.
	IncludeEmpty bool
	// IncludeTombstones keeps the columns that mark clears.
	IncludeTombstones bool
	// FillLatestAt fills cells without a value of their own with the latest
	// earlier one on the index.
	FillLatestAt bool
	// At makes exactly these index values the rows, in any order and without
	// duplicates. Nil takes the rows from the data; empty gives none. See
	// [IndexValues]. Ignored without Index.
	At []int64
	// Range keeps the rows with index values in it. Filling looks before it.
	Range *Range
	// Select picks columns of the result by name, in this order; nil takes all.
	// Rows and filling do not depend on it.
	Select []string
	// BatchRows is the greatest number of rows of a record batch; 0 means 8192.
	BatchRows int
	// Workers is the number of columns worked on at once; 0 means one a processor.
	Workers int
	// Compat reproduces what Rerun 0.41 does where this package knows better:
	// filled cells ignore clears before the row, and an index that is of several
	// kinds is taken to be of the last.
	Compat bool
}

// Range is a range of index values, both ends inclusive.
type Range struct{ Start, End int64 }

// Index columns hold no smaller value: the smallest int64 means static.
const minTime = math.MinInt64 + 1

const (
	defaultBatchRows = 8192

	keyEntity    = chunk.KeyEntityPath
	keyTombstone = "rerun:is_tombstone"
	keyEmpty     = "rerun:is_semantically_empty"
)

// Schema is the schema that the answer of [Run] will have.
func Schema(v store.View, q Query) (*arrow.Schema, error) {
	p, err := newPlan(v.Schema(), q)
	if err != nil {
		return nil, err
	}
	return p.schema, nil
}

// Run starts a query. The reader yields batches by ascending index value and
// is to be used by one goroutine; batches stay valid until they are released.
// Cancelling the context ends it with the context's error.
//
// Errors wrap [ErrUnknownIndex], [ErrUnknownColumn], [ErrDuplicateIndexValue],
// [store.ErrTypeConflict] or what loading chunks returns.
func Run(ctx context.Context, v store.View, q Query) (array.RecordReader, error) {
	p, err := newPlan(v.Schema(), q)
	if err != nil {
		return nil, err
	}
	p.view = v
	return newReader(ctx, p)
}

// plan is a query resolved against a schema, and the view to run it on.
type plan struct {
	Query
	view   store.View
	schema *arrow.Schema
	index  *chunk.Timeline // nil: static
	others []chunk.Timeline
	// columns are the selected component columns in schema order, whether they
	// are in the result or not.
	columns []*store.Column
	absent  []bool // columns that the view does not have; nil: none
	output  []outputColumn
}

// outputColumn says where a column of the result comes from: exactly one of
// the three is used.
type outputColumn struct {
	index  bool // the queried index
	other  int  // position in others, or -1
	column int  // position in columns, or -1
}

func newPlan(s *store.Schema, q Query) (*plan, error) {
	p := &plan{Query: q}
	if p.BatchRows <= 0 {
		p.BatchRows = defaultBatchRows
	}
	if p.Workers <= 0 {
		p.Workers = runtime.GOMAXPROCS(0)
	}
	if q.Index != "" {
		t, ok := s.Index(q.Index)
		if !ok {
			return nil, fmt.Errorf("%w: %q", ErrUnknownIndex, q.Index)
		}
		if err := s.IndexConflict(q.Index); err != nil && !q.Compat {
			return nil, err
		}
		p.index = &t
		var err error
		if p.At, err = sortedValues(q.At); err != nil {
			return nil, err
		}
	}
	var fields []arrow.Field
	for _, t := range s.Indexes {
		out := outputColumn{index: p.index != nil && t.Name == p.index.Name, other: -1, column: -1}
		if !out.index {
			out.other = len(p.others)
			p.others = append(p.others, t)
		}
		p.output = append(p.output, out)
		fields = append(fields, t.Field(false))
	}
	for i := range s.Components {
		c := &s.Components[i]
		switch {
		case !q.Contents.Match(c.Entity), c.Tombstone && !q.IncludeTombstones, c.Empty && !q.IncludeEmpty, p.index == nil && !c.Static:
			continue
		}
		if err := c.Conflict(); err != nil {
			return nil, err
		}
		p.output = append(p.output, outputColumn{other: -1, column: len(p.columns)})
		p.columns = append(p.columns, c)
		fields = append(fields, columnField(c))
	}
	if q.Select != nil {
		if err := p.project(&fields); err != nil {
			return nil, err
		}
	}
	p.schema = arrow.NewSchema(fields, nil)
	return p, nil
}

// project keeps the selected columns.
func (p *plan) project(fields *[]arrow.Field) error {
	var out []outputColumn
	var kept []arrow.Field
	for i, name := range p.Select {
		if slices.Contains(p.Select[:i], name) {
			return fmt.Errorf("column %q is selected twice", name)
		}
		at := slices.IndexFunc(*fields, func(f arrow.Field) bool { return f.Name == name })
		if at < 0 {
			return fmt.Errorf("%w: %q", ErrUnknownColumn, name)
		}
		out, kept = append(out, p.output[at]), append(kept, (*fields)[at])
	}
	p.output, *fields = out, kept
	return nil
}

func columnField(c *store.Column) arrow.Field {
	more := []string{keyEntity, string(c.Entity)}
	for _, flag := range []struct {
		key string
		on  bool
	}{{chunk.KeyStatic, c.Static}, {keyTombstone, c.Tombstone}, {keyEmpty, c.Empty}} {
		if flag.on {
			more = append(more, flag.key, "true")
		}
	}
	f := c.Field(c.Type, more...)
	f.Name = c.Name()
	return f
}

// sortedValues checks given index values; nil stays nil.
func sortedValues(at []int64) ([]int64, error) {
	if at == nil {
		return nil, nil
	}
	out := make([]int64, len(at))
	for i, v := range at {
		out[i] = max(v, minTime)
	}
	slices.Sort(out)
	for i := 1; i < len(out); i++ {
		if out[i] == out[i-1] {
			return nil, fmt.Errorf("%w: %d", ErrDuplicateIndexValue, out[i])
		}
	}
	return out, nil
}

// IndexValues takes values for [Query.At] from arrays of int64, timestamps or
// durations. Nulls are dropped. Timestamps and durations are converted to
// nanoseconds if kind is not a sequence; compat takes them as raw integers, as
// Rerun does. Other types and values beyond int64 wrap [ErrIndexValues].
func IndexValues(kind chunk.TimeKind, compat bool, arrays ...arrow.Array) ([]int64, error) {
	out := []int64{}
	for _, a := range arrays {
		var at func(i int) int64
		mul := int64(1)
		scale := func(u arrow.TimeUnit) {
			if !compat && kind != chunk.Sequence {
				mul = int64(u.Multiplier())
			}
		}
		switch a := a.(type) {
		case *array.Int64:
			at = a.Value
		case *array.Timestamp:
			scale(a.DataType().(*arrow.TimestampType).Unit)
			at = func(i int) int64 { return int64(a.Value(i)) }
		case *array.Duration:
			scale(a.DataType().(*arrow.DurationType).Unit)
			at = func(i int) int64 { return int64(a.Value(i)) }
		default:
			return nil, fmt.Errorf("%w: type %s", ErrIndexValues, a.DataType())
		}
		for i := range a.Len() {
			if a.IsNull(i) {
				continue
			}
			v := at(i)
			if v > math.MaxInt64/mul || v < math.MinInt64/mul {
				return nil, fmt.Errorf("%w: %d %s does not fit nanoseconds", ErrIndexValues, v, a.DataType())
			}
			out = append(out, v*mul)
		}
	}
	return out, nil
}
