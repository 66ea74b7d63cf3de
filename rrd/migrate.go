package rrd

import "github.com/apache/arrow-go/v18/arrow"

// Migrate brings a chunk's batch of an older writer into the current form.
func Migrate(b arrow.RecordBatch) (arrow.RecordBatch, error) { return b, nil }

func migrateManifestSchema(s *arrow.Schema) (*arrow.Schema, bool) { return s, false }

func migrateManifestBatch(b arrow.RecordBatch) arrow.RecordBatch { return b }
