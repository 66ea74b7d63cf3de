// Package catalog holds the domain of a catalog server: data sets with their
// segments, layers and tasks, blueprint and asset data sets, mutable segment
// properties, staged uploads and live recordings.
//
// A [Catalog] has entries. An entry that is a data set is used through a
// [Dataset]. Recordings are registered, not loaded: their footers become an
// index in memory of which chunks there are, where they lie and what they
// cover, and [Catalog.Fetch] reads chunks by range, encoded as they stand in
// the file. Tables that clients see (segments, manifest, candidates of a query)
// are Arrow record batches.
//
// All methods may be called concurrently. Every change of what a catalog knows
// happens in one of few functions under one lock, so that a durable form can
// be put behind them. Facts are from spec/catalog.md.
package catalog
