package inspect

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/reelhouse/reelhouse/chunk"
	"github.com/reelhouse/reelhouse/rrd"
)

// ErrUnread is returned by [Printer.Add] when a message could not be read and
// printing was to stop there.
var ErrUnread = errors.New("could not be read")

// PrintOptions are the options of a [Printer].
type PrintOptions struct {
	Verbose     int               // 0 short column names, 1 full ones, 2 headers of tables, 3 tables
	Entity      *chunk.EntityPath // the only entity whose chunks are shown
	Footers     bool              // show the footers at the end
	FootersLOD  int               // 0 places of chunks, 1 also their times, 2 all
	Transposed  bool              // tables with a line for each column
	FullKeys    bool              // full metadata keys and names
	Raw         bool              // do not migrate
	JSON        bool              // a line of JSON for each message
	StopOnError bool              // stop at the first message that cannot be read
	Strict      bool              // cut-off input is an error
	Report      func(*rrd.Error)
}

// Printer writes what recordings hold, message by message.
type Printer struct {
	w       *bufio.Writer
	o       PrintOptions
	begun   bool
	dec     rrd.Decoder
	footers []footer
}

type footer struct {
	source   string
	manifest *rrd.Manifest
}

// NewPrinter prints to w.
func NewPrinter(w io.Writer, o PrintOptions) *Printer {
	return &Printer{w: bufio.NewWriter(w), o: o}
}

// Add prints a recording. Messages that cannot be read are reported and left
// out, unless the options say to stop there.
func (p *Printer) Add(ctx context.Context, name string, r io.Reader) (err error) {
	defer func() { err = errors.Join(err, p.w.Flush()) }()
	p.begin()
	opt := rrd.ReadOptions{ScanOptions: rrd.ScanOptions{Name: name, Strict: p.o.Strict, Report: p.o.Report}, Reuse: true}
	if p.o.Raw {
		opt.Want = func(*rrd.ArrowMsg) bool { return false }
	}
	var buf rrd.Buffer
	defer buf.Release()
	for item, err := range rrd.Read(ctx, r, opt) {
		if err == nil {
			err = p.print(name, item, &buf)
		}
		if err != nil {
			var e *rrd.Error
			if !errors.As(err, &e) || unreadable(err) {
				return err
			}
			if p.o.StopOnError || p.o.Strict {
				return fmt.Errorf("%w: %w", ErrUnread, err)
			}
			if p.o.Report != nil {
				p.o.Report(e)
			}
			if e.Fatal {
				return nil
			}
		}
	}
	return ctx.Err()
}

// Close prints what comes after all recordings.
func (p *Printer) Close() error {
	p.begin()
	for _, f := range p.footers {
		if err := p.printFooter(f); err != nil {
			return err
		}
	}
	return p.w.Flush()
}

func (p *Printer) begin() {
	if p.begun || p.o.JSON {
		return
	}
	p.begun = true
	what := "after migration to latest Rerun version"
	if p.o.Raw {
		what = "as it was written, without migration"
	}
	fmt.Fprintf(p.w, "Showing data %s\n", what)
}

func (p *Printer) print(name string, item *rrd.Item, buf *rrd.Buffer) error {
	fault := func(err error) error {
		return &rrd.Error{File: name, Offset: item.Offset, Part: rrd.PartChunk, Err: err}
	}
	switch item.Kind {
	case rrd.KindStoreInfo:
		return p.printInfo(&item.Info)
	case rrd.KindActivation:
		a := item.Activation
		if p.o.JSON {
			return p.line(map[string]any{"kind": "activation", "store": a.Blueprint.String(), "make_active": a.MakeActive, "make_default": a.MakeDefault})
		}
		_, err := fmt.Fprintf(p.w, "BlueprintActivationCommand(%s, make_active: %t, make_default: %t)\n", debugStore(a.Blueprint), a.MakeActive, a.MakeDefault)
		return err
	case rrd.KindArrow:
		if item.Chunk != nil {
			return p.printBatch(&item.Arrow, item.Chunk.RecordBatch(), heapSize(item.Chunk))
		}
		b, err := p.dec.Batch(&item.Arrow, buf)
		if err != nil {
			return fault(err)
		}
		return p.printBatch(&item.Arrow, b, int64(item.Arrow.UncompressedSize))
	case rrd.KindEnd:
		if !p.o.Footers {
			return nil
		}
		item.Detach()
		raw, err := item.ParseFooter()
		if err != nil {
			return fault(err)
		}
		for _, r := range raw {
			m, err := r.Decode()
			if err != nil {
				return fault(err)
			}
			p.footers = append(p.footers, footer{name, m})
		}
	}
	return nil
}

func (p *Printer) line(v any) error {
	enc := json.NewEncoder(p.w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

func (p *Printer) printInfo(info *rrd.StoreInfo) error {
	if p.o.JSON {
		return p.line(map[string]any{"kind": "store_info", "store": info.Store.String(), "version": info.Version.String(), "source": sourceText(info.Source)})
	}
	v := info.Version
	_, err := fmt.Fprintf(p.w, `StoreInfo {
    store_id: StoreId(
        %s,
        %s,
        %s,
    ),
    store_source: %s,
    store_version: Some(
        CrateVersion {
            major: %d,
            minor: %d,
            patch: %d,
            meta: %s,
        },
    ),
}
`, info.Store.Kind, quoted(info.Store.Application), quoted(info.Store.Recording), sourceText(info.Source), v.Major, v.Minor, v.Patch, metaText(v.Meta))
	return err
}

// sourceText is the source of a store as a nested value.
func sourceText(s rrd.Source) string {
	switch s.Kind {
	case rrd.SourceCSDK:
		return "CSdk"
	case rrd.SourcePythonSDK:
		major, minor, patch, suffix, err := s.PythonVersion()
		if err != nil {
			return "PythonSdk"
		}
		return fmt.Sprintf("PythonSdk(\n        %d.%d.%d%s,\n    )", major, minor, patch, suffix)
	case rrd.SourceRustSDK:
		rustc, llvm, err := s.RustVersions()
		if err != nil {
			return "RustSdk"
		}
		return fmt.Sprintf("RustSdk {\n        rustc_version: %s,\n        llvm_version: %s,\n    }", quoted(rustc), quoted(llvm))
	case rrd.SourceFile:
		kind, err := s.FileKind()
		names := map[int]string{1: "Cli", 2: "Uri", 3: "DragAndDrop", 4: "FileDialog", 5: "Sdk"}
		if err != nil || names[kind] == "" {
			return "File"
		}
		return fmt.Sprintf("File {\n        file_source: %s,\n    }", names[kind])
	case rrd.SourceViewer:
		return "Viewer"
	case rrd.SourceOther:
		return fmt.Sprintf("Other(\n        %s,\n    )", quoted(string(s.Extra)))
	}
	return "Unknown"
}

// metaText is the pre-release part of a version (spec/rrd.md 1.1).
func metaText(meta uint8) string {
	n := meta & 63
	switch meta >> 6 {
	case 1:
		return fmt.Sprintf("Some(\n                Rc(\n                    %d,\n                ),\n            )", n)
	case 2:
		return fmt.Sprintf("Some(\n                Alpha(\n                    %d,\n                ),\n            )", n)
	case 3:
		return fmt.Sprintf("Some(\n                DevAlpha {\n                    alpha: %d,\n                    commit: None,\n                },\n            )", n)
	}
	return "None"
}

func quoted(s string) string { return strconv.Quote(s) }

// described is what the line of a chunk says.
type described struct {
	Kind       string   `json:"kind"`
	Store      string   `json:"store"`
	ID         string   `json:"id"`
	Entity     string   `json:"entity_path"`
	Rows       int64    `json:"num_rows"`
	Bytes      int64    `json:"bytes"`
	Timelines  []string `json:"timelines"`
	Components []string `json:"components"`
}

func (p *Printer) printBatch(m *rrd.ArrowMsg, b arrow.RecordBatch, size int64) error {
	d := describe(b)
	d.Store, d.Bytes = m.Store.String(), size
	if p.o.Entity != nil && chunk.ParseEntityPath(d.Entity) != *p.o.Entity {
		return nil
	}
	if p.o.JSON {
		return p.line(d)
	}
	id := d.ID
	if !strings.HasPrefix(id, "chunk_") {
		id = "chunk_" + id
	}
	fmt.Fprintf(p.w, "Chunk(%s) with %s rows (%s) - %s - ", id, formatCount(int(d.Rows)), formatBytes(float64(size)), d.Entity)
	if p.o.Verbose >= 2 {
		_, err := fmt.Fprintf(p.w, "\n%s\n\n", chunk.FormatBatch(b, nil, p.format()))
		return err
	}
	columns := d.Components
	if p.o.Verbose == 1 {
		columns = make([]string, len(d.Components))
		for i, c := range d.Components {
			columns[i] = d.Entity + "@" + c
		}
	}
	_, err := fmt.Fprintf(p.w, "data columns: [%s]\n", strings.Join(columns, " "))
	return err
}

func (p *Printer) format() chunk.FormatOptions {
	return chunk.FormatOptions{Width: -1, FullKeys: p.o.FullKeys, FullNames: p.o.FullKeys, NoRows: p.o.Verbose < 3, Transposed: p.o.Transposed}
}

// describe reads the metadata of a batch, of any version.
func describe(b arrow.RecordBatch) described {
	get := func(md arrow.Metadata, key string) string {
		if v, ok := md.GetValue("rerun:" + key); ok {
			return v
		}
		v, _ := md.GetValue("rerun." + key)
		return v
	}
	md := b.Schema().Metadata()
	d := described{Kind: "chunk", ID: get(md, "id"), Entity: get(md, "entity_path"), Rows: b.NumRows(), Timelines: []string{}, Components: []string{}}
	for _, f := range b.Schema().Fields() {
		switch get(f.Metadata, "kind") {
		case "control", "row_id":
		case "index", "time":
			d.Timelines = append(d.Timelines, f.Name)
		default:
			d.Components = append(d.Components, f.Name)
		}
	}
	return d
}

// placeColumns is how many columns of a manifest say what and where a chunk is.
const placeColumns = 7

// footerChars is how much is shown of a value of a manifest: ids in full, the start of paths.
const footerChars = 32

func (p *Printer) printFooter(f footer) error {
	b := f.manifest.Batch()
	var fields []arrow.Field
	var columns []arrow.Array
	for i, field := range b.Schema().Fields() {
		_, component := field.Metadata.GetValue(chunk.KeyComponent)
		_, timeline := field.Metadata.GetValue("rerun:index")
		if p.o.FootersLOD >= 2 || i < placeColumns || p.o.FootersLOD == 1 && timeline && !component {
			fields = append(fields, field)
			columns = append(columns, b.Column(i))
		}
	}
	hash := hex.EncodeToString(f.manifest.Hash[:])
	if p.o.JSON {
		for row := range f.manifest.Len() {
			e := f.manifest.Entry(row)
			err := p.line(map[string]any{
				"kind": "footer", "source": f.source, "schema_sha256": hash, "store": f.manifest.Store.String(), "id": e.ID.String(),
				"entity_path": e.Entity, "is_static": e.Static, "num_rows": e.NumRows,
				"offset": e.Offset, "bytes": e.Size, "bytes_uncompressed": e.UncompressedSize,
			})
			if err != nil {
				return err
			}
		}
		return nil
	}
	shown := newBatch(fields, columns, b.NumRows())
	o := chunk.FormatOptions{Width: -1, MaxChars: footerChars}
	_, err := fmt.Fprintln(p.w, chunk.FormatBatch(shown, []string{"source: " + quoted(f.source), "schema_sha_256: " + hash}, o))
	return err
}

func newBatch(fields []arrow.Field, columns []arrow.Array, rows int64) arrow.RecordBatch {
	return array.NewRecordBatch(arrow.NewSchema(fields, nil), columns, rows)
}
