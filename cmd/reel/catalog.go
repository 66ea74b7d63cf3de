package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/spf13/cobra"

	"github.com/reelhouse/reelhouse/catalog"
	"github.com/reelhouse/reelhouse/chunk"
	"github.com/reelhouse/reelhouse/client"
	"github.com/reelhouse/reelhouse/server"
)

// catalogFlags say which server the catalog commands talk to.
type catalogFlags struct {
	url   string
	token string
	json  bool
}

func newCatalogCommand() *cobra.Command {
	var f catalogFlags
	cmd := &cobra.Command{
		Use:   "catalog",
		Short: "Look into a catalog server and change it",
		Long: `Look into a catalog server and change it: list data sets, register recordings, list segments.
The server is any that is compatible with Rerun's; its address is that of --url or of $REEL_URL.`,
		Example: `  reel catalog ls
  reel catalog create lab --url rerun+http://robots.example.org
  reel catalog register lab recordings/ extra.rrd`,
	}
	url := os.Getenv("REEL_URL")
	if url == "" {
		url = fmt.Sprintf("rerun+http://127.0.0.1:%d", server.DefaultPort)
	}
	flags := cmd.PersistentFlags()
	flags.StringVar(&f.url, "url", url, "address of the server")
	flags.StringVar(&f.token, "token", "", "token that lets you in (default: $REDAP_TOKEN)")
	cmd.AddCommand(f.list(), f.create(), f.register(), f.unregister(), f.segments(), f.schema(), f.rename(), f.remove())
	return cmd
}

// with calls a function with a client of the server.
func (f *catalogFlags) with(cmd *cobra.Command, call func(context.Context, *client.Client) error) error {
	u, err := client.ParseURL(f.url)
	if err != nil {
		return usageError{err}
	}
	token := f.token
	if token == "" {
		token = os.Getenv("REDAP_TOKEN")
	}
	c := client.New(u, client.Options{Token: token})
	defer c.Close()
	return call(cmd.Context(), c)
}

// withDataset is with for commands whose first argument is a data set.
func (f *catalogFlags) withDataset(cmd *cobra.Command, name string, call func(context.Context, *client.Dataset) error) error {
	return f.with(cmd, func(ctx context.Context, c *client.Client) error {
		d, err := c.Dataset(ctx, name)
		if err != nil {
			return err
		}
		return call(ctx, d)
	})
}

func (f *catalogFlags) list() *cobra.Command {
	all := false
	cmd := &cobra.Command{
		Use:     "ls",
		Short:   "List data sets and tables",
		Example: "  reel catalog ls --all",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.with(cmd, func(ctx context.Context, c *client.Client) error {
				entries, err := c.Entries(ctx)
				if err != nil {
					return err
				}
				entries = slices.DeleteFunc(entries, func(e client.Entry) bool { return e.Hidden() && !all })
				if f.json {
					return printJSON(cmd.OutOrStdout(), entries)
				}
				t := newTextTable([]string{"name", "kind", "id", "updated"})
				for _, e := range entries {
					t.add([]string{e.Name, e.Kind, e.ID.String(), e.Updated.Local().Format(time.DateTime)})
				}
				return t.write(cmd.OutOrStdout(), outputWidth(cmd.OutOrStdout()))
			})
		},
	}
	cmd.Flags().BoolVarP(&all, "all", "a", false, "also hidden entries, which the server keeps for itself")
	addJSONFlag(cmd, &f.json)
	return cmd
}

func (f *catalogFlags) create() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "create NAME",
		Short:   "Create an empty data set",
		Example: "  reel catalog create lab",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.with(cmd, func(ctx context.Context, c *client.Client) error {
				d, err := c.CreateDataset(ctx, args[0])
				if err != nil {
					return err
				}
				if f.json {
					return printJSON(cmd.OutOrStdout(), d.Entry())
				}
				_, err = fmt.Fprintln(cmd.OutOrStdout(), d.Entry().ID)
				return err
			})
		},
	}
	addJSONFlag(cmd, &f.json)
	return cmd
}

func (f *catalogFlags) register() *cobra.Command {
	layer, policy := "", ""
	cmd := &cobra.Command{
		Use:   "register NAME SOURCE...",
		Short: "Register recordings with a data set",
		Long: `Register recordings with a data set, one segment for each recording. A source is a file, a folder (all
.rrd files below it) or a URL, as the server sees them.`,
		Example: `  reel catalog register lab run1.rrd runs/
  reel catalog register lab labels/ --layer labels --on-duplicate overwrite`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			dup, ok := map[string]client.OnDuplicate{"error": client.FailDuplicates, "skip": client.SkipDuplicates, "overwrite": client.OverwriteDuplicates}[policy]
			if !ok {
				return usageErrorf("--on-duplicate: want error, skip or overwrite, not %q", policy)
			}
			sources, err := registerSources(args[1:], layer)
			if err != nil {
				return err
			}
			return f.withDataset(cmd, args[0], func(ctx context.Context, d *client.Dataset) error {
				done, err := d.Register(ctx, sources, dup)
				if err != nil {
					return err
				}
				return f.printRegistered(cmd, done)
			})
		},
	}
	cmd.Flags().StringVar(&layer, "layer", "", "name of the layer (default: that of the server, base)")
	cmd.Flags().StringVar(&policy, "on-duplicate", "error", "what to do about a layer that a segment has already: error, skip or overwrite")
	addJSONFlag(cmd, &f.json)
	return cmd
}

func registerSources(args []string, layer string) ([]client.Source, error) {
	var sources []client.Source
	for _, a := range args {
		if strings.Contains(a, "://") {
			sources = append(sources, client.Source{URL: a, Layer: layer, Folder: strings.HasSuffix(a, "/")})
			continue
		}
		path, err := filepath.Abs(a)
		if err != nil {
			return nil, err
		}
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		sources = append(sources, client.Source{URL: catalog.FileURL(path), Layer: layer, Folder: info.IsDir()})
	}
	return sources, nil
}

func (f *catalogFlags) printRegistered(cmd *cobra.Command, done []client.Registered) error {
	failed := 0
	for _, r := range done {
		if r.Problem != "" {
			failed++
		}
	}
	if f.json {
		if err := printJSON(cmd.OutOrStdout(), done); err != nil {
			return err
		}
	} else {
		for _, r := range done {
			if r.Problem != "" {
				fmt.Fprintf(cmd.ErrOrStderr(), "reel: %s: %s\n", r.URL, r.Problem)
			}
		}
		if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%d of %d layers registered\n", len(done)-failed, len(done)); err != nil {
			return err
		}
	}
	if failed > 0 {
		return exitCode(1)
	}
	return nil
}

func (f *catalogFlags) unregister() *cobra.Command {
	var segments, layers []string
	cmd := &cobra.Command{
		Use:     "unregister NAME",
		Short:   "Take segments or layers out of a data set; files stay",
		Example: "  reel catalog unregister lab --segment run1 --segment run2",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(segments) == 0 && len(layers) == 0 {
				return usageErrorf("say what to take out with --segment or --layer")
			}
			return f.withDataset(cmd, args[0], func(ctx context.Context, d *client.Dataset) error {
				return d.Unregister(ctx, segments, layers)
			})
		},
	}
	cmd.Flags().StringArrayVar(&segments, "segment", nil, "segment to take out; all if none is named; may be repeated")
	cmd.Flags().StringArrayVar(&layers, "layer", nil, "layer to take out; all if none is named; may be repeated")
	return cmd
}

func (f *catalogFlags) segments() *cobra.Command {
	var columns []string
	format := ""
	cmd := &cobra.Command{
		Use:     "segments NAME",
		Short:   "Print the table of segments of a data set",
		Example: "  reel catalog segments lab --select rerun_segment_id,rerun_num_chunks",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			formats := map[string]outputFormat{"table": formatTable, "csv": formatCSV, "jsonl": formatJSONLines}
			form, ok := formats[format]
			if !ok {
				return usageErrorf("--format: want table, csv or jsonl, not %q", format)
			}
			return f.withDataset(cmd, args[0], func(ctx context.Context, d *client.Dataset) error {
				batches, err := d.Segments(ctx, columns...)
				if err != nil {
					return err
				}
				if len(batches) == 0 {
					return errors.New("the server sent no table")
				}
				rd, err := array.NewRecordReader(batches[0].Schema(), batches)
				if err != nil {
					return err
				}
				defer rd.Release()
				out := cmd.OutOrStdout()
				return writeRows(out, rd, form, 0, outputWidth(out), cmd.ErrOrStderr())
			})
		},
	}
	cmd.Flags().StringSliceVar(&columns, "select", nil, "columns to print, in this order")
	cmd.Flags().StringVar(&format, "format", "table", "format: table, csv or jsonl")
	return cmd
}

// schemaColumn is a column of a data set as it is printed.
type schemaColumn struct {
	Name      string `json:"name"`
	Kind      string `json:"kind"` // control, index or data
	Type      string `json:"type"`
	Entity    string `json:"entity,omitempty"`
	Component string `json:"component,omitempty"`
	Archetype string `json:"archetype,omitempty"`
	Static    bool   `json:"static,omitempty"`
}

func (f *catalogFlags) schema() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "schema NAME",
		Short:   "Print the columns of a data set",
		Example: "  reel catalog schema lab --json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.withDataset(cmd, args[0], func(ctx context.Context, d *client.Dataset) error {
				s, err := d.Schema(ctx)
				if err != nil {
					return err
				}
				columns := schemaColumns(s)
				if f.json {
					return printJSON(cmd.OutOrStdout(), columns)
				}
				t := newTextTable([]string{"column", "kind", "type", "static"})
				for _, c := range columns {
					static := ""
					if c.Static {
						static = "yes"
					}
					t.add([]string{c.Name, c.Kind, c.Type, static})
				}
				return t.write(cmd.OutOrStdout(), outputWidth(cmd.OutOrStdout()))
			})
		},
	}
	addJSONFlag(cmd, &f.json)
	return cmd
}

func schemaColumns(s *arrow.Schema) []schemaColumn {
	kinds := map[chunk.ColumnKind]string{chunk.ControlColumn: "control", chunk.IndexColumn: "index", chunk.DataColumn: "data"}
	columns := make([]schemaColumn, 0, s.NumFields())
	for _, field := range s.Fields() {
		c := schemaColumn{Name: field.Name, Kind: kinds[chunk.KindOf(field)], Type: field.Type.String()}
		if chunk.KindOf(field) == chunk.DataColumn {
			d := chunk.DescriptorOf(field)
			c.Component, c.Archetype = d.Component, d.Archetype
			c.Entity, _ = field.Metadata.GetValue(chunk.KeyEntityPath)
			static, _ := field.Metadata.GetValue(chunk.KeyStatic)
			c.Static = static == "true"
		}
		columns = append(columns, c)
	}
	return columns
}

func (f *catalogFlags) rename() *cobra.Command {
	return &cobra.Command{
		Use:     "rename NAME NEW",
		Short:   "Give a data set another name",
		Example: "  reel catalog rename lab lab-2026",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.with(cmd, func(ctx context.Context, c *client.Client) error {
				e, err := c.Entry(ctx, args[0])
				if err != nil {
					return err
				}
				return c.Rename(ctx, e, args[1])
			})
		},
	}
}

func (f *catalogFlags) remove() *cobra.Command {
	return &cobra.Command{
		Use:     "rm NAME...",
		Short:   "Delete data sets; recordings stay",
		Example: "  reel catalog rm lab",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.with(cmd, func(ctx context.Context, c *client.Client) error {
				for _, name := range args {
					e, err := c.Entry(ctx, name)
					if err != nil {
						return err
					}
					if err := c.Delete(ctx, e); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
}
