package rrd

import "io"

// ResumeWriter continues a stream that was ended: w is positioned at offset,
// where its End message was, and manifests are those of its footer. The new
// footer covers both parts.
func ResumeWriter(w io.Writer, opt WriterOptions, offset int64, manifests []*Manifest) *Writer {
	wr := NewWriter(w, opt)
	wr.w.Reset(w) // drops the stream header, which is there already
	wr.pos = offset
	for _, m := range manifests {
		b := wr.builder[m.Store]
		if b == nil {
			b = NewManifestBuilder(m.Store)
			wr.builder[m.Store] = b
			wr.order = append(wr.order, b)
			wr.known[m.Store] = true
		}
		for i := range m.Len() {
			e := m.Entry(i)
			b.Add(&e)
		}
	}
	return wr
}
