package main

import (
	"bufio"
	"encoding/csv"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"golang.org/x/term"

	"github.com/reelhouse/reelhouse/store"
)

type outputFormat uint8

const (
	formatTable outputFormat = iota
	formatCSV
	formatJSONLines
	formatParquet
	formatArrow     // the stream format
	formatArrowFile // the file format, which can be read at random
)

// tableRows is how many rows a table on a terminal has if nothing is said.
const tableRows = 100

// outputWidth is the number of columns of a terminal; 0 if w is none.
func outputWidth(w io.Writer) int {
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		if n, _, err := term.GetSize(int(f.Fd())); err == nil {
			return n
		}
	}
	n, _ := strconv.Atoi(os.Getenv("COLUMNS")) // 0 unless set
	return n
}

// writeRows prints an answer, at most limit rows of it if limit is not 0.
func writeRows(w io.Writer, rd array.RecordReader, format outputFormat, limit int64, width int, note io.Writer) error {
	var err error
	more := false
	switch format {
	case formatCSV:
		err = writeCSV(w, rd, limit)
	case formatJSONLines:
		err = writeJSONLines(w, rd, limit)
	case formatParquet:
		err = writeParquet(w, rd, limit)
	case formatArrow, formatArrowFile:
		err = writeArrow(w, rd, limit, format == formatArrowFile)
	default:
		more, err = writeTable(w, rd, limit, width)
	}
	if err == nil && more {
		fmt.Fprintf(note, "reel: these are the first %d rows; --limit 0 prints all\n", limit)
	}
	return err
}

// batches calls f for every batch, cut to the limit; more tells that rows were left out.
func batches(rd array.RecordReader, limit int64, f func(arrow.RecordBatch) error) (more bool, err error) {
	left := limit
	for rd.Next() {
		b := rd.RecordBatch()
		if limit > 0 {
			if left == 0 && b.NumRows() > 0 {
				return true, nil
			}
			if b.NumRows() > left {
				b, more = b.NewSlice(0, left), true
				defer b.Release()
			}
			left -= b.NumRows()
		}
		if err := f(b); err != nil {
			return false, err
		}
		if more {
			return true, nil
		}
	}
	return false, rd.Err()
}

func writeCSV(w io.Writer, rd array.RecordReader, limit int64) error {
	out := csv.NewWriter(w)
	row := make([]string, rd.Schema().NumFields())
	for i, f := range rd.Schema().Fields() {
		row[i] = f.Name
	}
	if err := out.Write(row); err != nil {
		return err
	}
	var buf []byte
	_, err := batches(rd, limit, func(b arrow.RecordBatch) error {
		for i := range int(b.NumRows()) {
			for k, col := range b.Columns() {
				row[k] = ""
				if col.IsValid(i) {
					buf = appendText(buf[:0], col, i)
					row[k] = string(buf)
				}
			}
			if err := out.Write(row); err != nil {
				return err
			}
		}
		return nil
	})
	out.Flush()
	if err != nil {
		return err
	}
	return out.Error()
}

func writeJSONLines(w io.Writer, rd array.RecordReader, limit int64) error {
	out := bufio.NewWriterSize(w, 1<<16)
	keys := make([][]byte, rd.Schema().NumFields())
	for i, f := range rd.Schema().Fields() {
		keys[i] = append(appendQuoted(nil, f.Name), ':')
	}
	var buf []byte
	_, err := batches(rd, limit, func(b arrow.RecordBatch) error {
		for i := range int(b.NumRows()) {
			buf = append(buf[:0], '{')
			for k, col := range b.Columns() {
				if k > 0 {
					buf = append(buf, ',')
				}
				buf = append(buf, keys[k]...)
				buf = appendJSON(buf, col, i)
			}
			if _, err := out.Write(append(buf, "}\n"...)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return out.Flush()
}

func writeArrow(w io.Writer, rd array.RecordReader, limit int64, file bool) error {
	var out interface {
		Write(arrow.RecordBatch) error
		Close() error
	}
	opts := []ipc.Option{ipc.WithSchema(rd.Schema())}
	if file {
		var err error
		if out, err = ipc.NewFileWriter(w, opts...); err != nil {
			return err
		}
	} else {
		out = ipc.NewWriter(w, opts...)
	}
	if _, err := batches(rd, limit, out.Write); err != nil {
		return err
	}
	return out.Close()
}

func writeParquet(w io.Writer, rd array.RecordReader, limit int64) error {
	schema, plain := plainDurations(rd.Schema())
	props := parquet.NewWriterProperties(parquet.WithCompression(compress.Codecs.Zstd), parquet.WithCreatedBy("reel "+version()))
	out, err := pqarrow.NewFileWriter(schema, struct{ io.Writer }{w}, props, pqarrow.NewArrowWriterProperties(pqarrow.WithStoreSchema()))
	if err != nil {
		return fmt.Errorf("parquet: %w", err)
	}
	if _, err := batches(rd, limit, func(b arrow.RecordBatch) error { return out.WriteBuffered(plain(b)) }); err != nil {
		return fmt.Errorf("parquet: %w", err)
	}
	return out.Close()
}

// plainDurations makes columns of durations, which Parquet does not have, ones
// of integers that say their unit in metadata.
func plainDurations(schema *arrow.Schema) (*arrow.Schema, func(arrow.RecordBatch) arrow.RecordBatch) {
	fields := slices.Clone(schema.Fields())
	var at []int
	for i, f := range fields {
		if d, ok := f.Type.(*arrow.DurationType); ok {
			md := f.Metadata.ToMap()
			md["duration_unit"] = d.Unit.String()
			fields[i].Type, fields[i].Metadata = arrow.PrimitiveTypes.Int64, arrow.MetadataFrom(md)
			at = append(at, i)
		}
	}
	md := schema.Metadata()
	plain := arrow.NewSchema(fields, &md)
	return plain, func(b arrow.RecordBatch) arrow.RecordBatch {
		cols := slices.Clone(b.Columns())
		for _, i := range at {
			d := cols[i].Data()
			cols[i] = array.MakeFromData(array.NewData(arrow.PrimitiveTypes.Int64, d.Len(), d.Buffers(), nil, d.NullN(), d.Offset()))
		}
		return array.NewRecordBatch(plain, cols, b.NumRows())
	}
}

// printColumns lists what can be asked for.
func printColumns(w io.Writer, s *store.Schema, json bool) error {
	type column struct {
		Name          string `json:"name"`
		Kind          string `json:"kind"` // index or data
		Type          string `json:"type"`
		Entity        string `json:"entity,omitempty"`
		Archetype     string `json:"archetype,omitempty"`
		Component     string `json:"component,omitempty"`
		ComponentType string `json:"component_type,omitempty"`
		Static        bool   `json:"static,omitempty"`
		Empty         bool   `json:"semantically_empty,omitempty"`
		Tombstone     bool   `json:"tombstone,omitempty"`
	}
	cols := []column{}
	for _, t := range s.Indexes {
		cols = append(cols, column{Name: t.Name, Kind: "index", Type: t.Kind.String()})
	}
	for i := range s.Components {
		c := &s.Components[i]
		cols = append(cols, column{
			Name: c.Name(), Kind: "data", Type: typeText(c.Type.(*arrow.ListType).Elem()), Entity: string(c.Entity),
			Archetype: c.Archetype, Component: c.Component, ComponentType: c.Descriptor.Type, Static: c.Static, Empty: c.Empty, Tombstone: c.Tombstone,
		})
	}
	if json {
		return printJSON(w, cols)
	}
	t := newTextTable([]string{"column", "type", ""})
	for _, c := range cols {
		note := ""
		switch {
		case c.Kind == "index":
			note = "index"
		case c.Static:
			note = "static"
		case c.Tombstone:
			note = "tombstone"
		case c.Empty:
			note = "empty"
		}
		t.add([]string{c.Name, c.Type, note})
	}
	return t.write(w, outputWidth(w))
}
