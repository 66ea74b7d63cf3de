package inspect

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/reelhouse/reelhouse/chunk"
	"github.com/reelhouse/reelhouse/rrd"
)

// StatsOptions are the options of [Stats.Add].
type StatsOptions struct {
	NoDecode        bool // count only what shows without decoding chunks
	ContinueOnError bool // pass over chunks that cannot be decompressed
	Strict          bool // any deviation is an error
	Report          func(*rrd.Error)
	Progress        func(n int64)
}

// Stats counts what recordings hold. The zero value is empty. Memory grows by
// some bytes a chunk.
type Stats struct {
	decoded   bool
	chunks    int
	rows      span
	indexes   span
	columns   span
	static    int
	bare      int // chunks without components
	entities  map[chunk.EntityPath]*entityStats
	timelines map[string]int
	component map[string]int
	sizes     [4][]int64 // of each chunk: stored, uncompressed, schema, data
	manifests []*rrd.Manifest
	indexed   bool // a footer named manifests
}

type entityStats struct {
	chunks   int
	unsorted map[string]bool // by timeline
}

// Add counts a recording. Messages that cannot be read are reported and left
// out; only those that cannot be decompressed are an error.
func (s *Stats) Add(ctx context.Context, name string, r io.Reader, o StatsOptions) error {
	opt := rrd.ReadOptions{ScanOptions: rrd.ScanOptions{Name: name, Strict: o.Strict, Report: o.Report}, Reuse: true}
	if o.NoDecode {
		opt.Want = func(*rrd.ArrowMsg) bool { return false }
	} else {
		s.decoded = true
	}
	for item, err := range rrd.Read(ctx, r, opt) {
		if err == nil && item.Kind == rrd.KindArrow {
			err = checkStored(name, item, o)
		}
		if err != nil {
			var e *rrd.Error
			if !errors.As(err, &e) || o.Strict || unreadable(err) {
				return err
			}
			undecompressed := errors.Is(err, rrd.ErrLZ4) || errors.Is(err, rrd.ErrCompression)
			if undecompressed && !o.ContinueOnError {
				return err
			}
			if o.Report != nil {
				o.Report(e)
			}
			if e.Fatal {
				return nil
			}
			continue
		}
		switch item.Kind {
		case rrd.KindArrow:
			s.addSizes(&item.Arrow)
			if item.Chunk != nil {
				s.addChunk(item.Chunk)
			}
		case rrd.KindEnd:
			s.addFooter(name, &item.Message, o)
		}
		if o.Progress != nil {
			o.Progress(item.Size())
		}
	}
	return ctx.Err()
}

// unreadable reports whether the input itself failed, not what it holds.
func unreadable(err error) bool { return errors.As(err, new(*fs.PathError)) }

// checkStored refuses payloads that do not say how they are stored, and, where
// chunks are not decoded, those that do not decompress.
func checkStored(name string, item *rrd.Item, o StatsOptions) error {
	m := &item.Arrow
	fault := func(err error) error {
		return &rrd.Error{File: name, Offset: item.Offset, Part: rrd.PartChunk, Err: err}
	}
	if m.Compression == rrd.CompressionUnspecified && !o.ContinueOnError {
		return fault(fmt.Errorf("%w: %d", rrd.ErrCompression, m.Compression))
	}
	if o.NoDecode && m.Compression == rrd.CompressionLZ4 {
		if n, ok := lz4Size(m.Payload); !ok || uint64(n) > m.UncompressedSize || m.UncompressedSize > 255*uint64(len(m.Payload)) {
			return fault(rrd.ErrLZ4)
		}
	}
	return nil
}

func (s *Stats) addSizes(m *rrd.ArrowMsg) {
	stored := int64(len(m.Payload))
	full := stored
	head := m.Payload
	if m.Compression == rrd.CompressionLZ4 {
		full = int64(m.UncompressedSize)
		var start [8]byte
		head = start[:lz4Start(&start, m.Payload)]
	}
	// A payload starts with a marker and the length of the schema.
	var schema int64
	if len(head) >= 8 {
		schema = min(int64(binary.LittleEndian.Uint32(head[4:])), full)
	}
	for i, n := range [4]int64{stored, full, schema, full - schema} {
		s.sizes[i] = append(s.sizes[i], n)
	}
	s.chunks++
}

func (s *Stats) addChunk(c *chunk.Chunk) {
	if s.entities == nil {
		s.entities = map[chunk.EntityPath]*entityStats{}
		s.timelines = map[string]int{}
		s.component = map[string]int{}
	}
	e := s.entities[c.EntityPath()]
	if e == nil {
		// The path points into memory that is used again.
		e = &entityStats{unsorted: map[string]bool{}}
		s.entities[chunk.EntityPath(strings.Clone(string(c.EntityPath())))] = e
	}
	e.chunks++
	for _, t := range c.Timelines() {
		count(s.timelines, t.Name)
		if was, ok := e.unsorted[t.Name]; !ok {
			e.unsorted[strings.Clone(t.Name)] = !t.Sorted
		} else if !was && !t.Sorted {
			e.unsorted[t.Name] = true
		}
	}
	for _, m := range c.Components() {
		count(s.component, m.Component)
	}
	if c.IsStatic() {
		s.static++
	}
	if len(c.Components()) == 0 {
		s.bare++
	}
	s.rows.add(c.NumRows())
	s.indexes.add(len(c.Timelines()))
	s.columns.add(len(c.Components()))
}

func count(m map[string]int, key string) {
	n, ok := m[key]
	if !ok {
		key = strings.Clone(key)
	}
	m[key] = n + 1
}

func (s *Stats) addFooter(name string, m *rrd.Message, o StatsOptions) {
	fault := func(err error) {
		if o.Report != nil {
			o.Report(&rrd.Error{File: name, Offset: m.Offset, Part: rrd.PartFooter, Err: err})
		}
	}
	m.Detach()
	raw, err := m.ParseFooter()
	if err != nil {
		fault(err)
		return
	}
	s.indexed = s.indexed || len(raw) > 0
	for _, r := range raw {
		man, err := r.Decode()
		if err != nil {
			fault(err)
			continue
		}
		s.manifests = append(s.manifests, man)
	}
}

// span is the range and sum of some counts.
type span struct{ lo, hi, sum, n int }

func (s *span) add(v int) {
	if s.n == 0 || v < s.lo {
		s.lo = v
	}
	s.hi = max(s.hi, v)
	s.sum += v
	s.n++
}

// Summary is what was counted so far, ready to be printed.
type Summary struct {
	Chunks  int             `json:"num_chunks"`
	Decoded *DecodedSummary `json:"decoded,omitempty"` // nil if nothing was decoded

	Stored       Sizes `json:"compressed"`
	Uncompressed Sizes `json:"uncompressed"`
	Schema       Sizes `json:"schema"` // uncompressed
	Data         Sizes `json:"data"`   // uncompressed

	Indexes []ChunkIndex `json:"chunk_indexes"`
	indexed bool         // there were chunk indexes, if perhaps no good ones
}

// DecodedSummary is what shows only in decoded chunks.
type DecodedSummary struct {
	Entities          map[chunk.EntityPath]int `json:"chunks_per_entity"`
	Timelines         map[string]int           `json:"chunks_per_index"`
	Components        map[string]int           `json:"chunks_per_component"`
	WithoutComponents int                      `json:"num_chunks_without_components"`
	Static            int                      `json:"num_static"`
	Rows              Range                    `json:"rows"`           // a chunk
	NumIndexes        Range                    `json:"num_indexes"`    // a chunk
	NumComponents     Range                    `json:"num_components"` // a chunk

	// Unsorted has, for each entity with a chunk that some timeline is not
	// sorted in, all its timelines and whether they are unsorted.
	Unsorted map[chunk.EntityPath]map[string]bool `json:"unsorted"`
}

// Range is the smallest, the greatest and the sum of counts.
type Range struct {
	Min int `json:"min"`
	Max int `json:"max"`
	Sum int `json:"sum"`
}

// Sizes are the sum and some quantiles of sizes in bytes.
type Sizes struct {
	Total int64 `json:"total"`
	Min   int64 `json:"min"`
	Max   int64 `json:"max"`
	P50   int64 `json:"p50"`
	P90   int64 `json:"p90"`
	P95   int64 `json:"p95"`
	P99   int64 `json:"p99"`
	P999  int64 `json:"p999"`
}

// ChunkIndex describes the manifest of a store.
type ChunkIndex struct {
	Store        rrd.StoreID `json:"-"`
	StoreText    string      `json:"store"`
	Chunks       int         `json:"num_chunks"`
	Static       int         `json:"num_static_chunks"`
	Entities     int         `json:"num_entity_paths"`
	Columns      int         `json:"num_columns"`
	SchemaFields int         `json:"schema_num_fields"`
	SchemaHash   string      `json:"schema_sha256"`
	Stored       int64       `json:"chunk_bytes"`
	Uncompressed int64       `json:"chunk_bytes_uncompressed"`

	// LeastTemporal is how many temporal chunks would do if all chunks of one
	// entity and one set of timelines were joined up to TargetSize.
	Temporal      int `json:"num_temporal_chunks"`
	LeastTemporal int `json:"least_temporal_chunks"`
}

// TargetSize is the uncompressed size that chunks are best joined up to for
// reading from an object store.
const TargetSize = 2 << 20

// Summary sums up what was counted so far.
func (s *Stats) Summary() *Summary {
	sum := &Summary{Chunks: s.chunks, Indexes: []ChunkIndex{}, indexed: s.indexed}
	for i, to := range []*Sizes{&sum.Stored, &sum.Uncompressed, &sum.Schema, &sum.Data} {
		*to = sizesOf(s.sizes[i])
	}
	if s.decoded {
		d := &DecodedSummary{
			Entities: map[chunk.EntityPath]int{}, Timelines: s.timelines, Components: s.component,
			WithoutComponents: s.bare, Static: s.static,
			Rows: s.rows.summary(), NumIndexes: s.indexes.summary(), NumComponents: s.columns.summary(),
			Unsorted: map[chunk.EntityPath]map[string]bool{},
		}
		for path, e := range s.entities {
			d.Entities[path] = e.chunks
			for _, unsorted := range e.unsorted {
				if unsorted {
					d.Unsorted[path] = e.unsorted
				}
			}
		}
		sum.Decoded = d
	}
	for _, m := range s.manifests {
		sum.Indexes = append(sum.Indexes, indexSummary(m))
	}
	return sum
}

func (s *span) summary() Range { return Range{s.lo, s.hi, s.sum} }

func sizesOf(sizes []int64) Sizes {
	if len(sizes) == 0 {
		return Sizes{}
	}
	sorted := slices.Sorted(slices.Values(sizes))
	s := Sizes{Min: sorted[0], Max: sorted[len(sorted)-1]}
	for _, n := range sorted {
		s.Total += n
	}
	at := func(permille int) int64 { return sorted[min(len(sorted)*permille/1000, len(sorted)-1)] }
	s.P50, s.P90, s.P95, s.P99, s.P999 = at(500), at(900), at(950), at(990), at(999)
	return s
}

func indexSummary(m *rrd.Manifest) ChunkIndex {
	x := ChunkIndex{
		Store: m.Store, StoreText: m.Store.String(), Chunks: m.Len(),
		Columns: int(m.Batch().NumCols()), SchemaFields: m.Schema().NumFields(), SchemaHash: hex.EncodeToString(m.Hash[:]),
	}
	entities := map[chunk.EntityPath]bool{}
	type group struct {
		entity    chunk.EntityPath
		timelines string
	}
	temporal := map[group]uint64{}
	var key []byte
	for i := range m.Len() {
		entities[m.Entity(i)] = true
		x.Stored += m.Size(i)
		x.Uncompressed += int64(m.UncompressedSize(i))
		if m.IsStatic(i) {
			x.Static++
			continue
		}
		x.Temporal++
		key = key[:0]
		timelines := m.Timelines()
		for k := range timelines {
			if _, _, ok := timelines[k].Range(i); ok {
				key = binary.AppendUvarint(key, uint64(k))
			}
		}
		temporal[group{m.Entity(i), string(key)}] += m.UncompressedSize(i)
	}
	for _, n := range temporal {
		x.LeastTemporal += int((n + TargetSize - 1) / TargetSize)
	}
	x.Entities = len(entities)
	return x
}
