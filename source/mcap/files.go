package mcap

import (
	"maps"
	"slices"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/reelhouse/reelhouse/chunk"
	"github.com/reelhouse/reelhouse/source/internal/columnar"
	"github.com/reelhouse/reelhouse/source/internal/mcapfile"
)

// Entities of the file itself (spec/readers.md 1.4).
const (
	propertiesPath  chunk.EntityPath = "/__mcap_properties"
	metadataPath    chunk.EntityPath = "/__mcap_metadata"
	attachmentsPath chunk.EntityPath = "/__mcap_attachments"
)

// emitStatic makes a static chunk.
func (s *scan) emitStatic(emit func(*chunk.Chunk), entity chunk.EntityPath, components ...chunk.Component) {
	c, err := chunk.New(entity, nil, components)
	if err != nil {
		s.failOnce("%v", err)
		return
	}
	emit(c)
}

// pairsArray is a KeyValuePairs value for each map.
func pairsArray(maps ...[]mcapfile.Pair) arrow.Array {
	c := columnar.MustNew[*columnar.List](pairsType)
	items := c.Items.(*columnar.Struct)
	keys, values := items.Fields[0].(*columnar.Bytes), items.Fields[1].(*columnar.Bytes)
	for _, m := range maps {
		for _, p := range m {
			keys.AppendString(p.Key)
			values.AppendString(p.Value)
			items.End()
		}
		c.End()
	}
	return columnar.Array(c)
}

// blobArray is a Blob for each slice of bytes.
func blobArray(blobs ...[]byte) arrow.Array {
	c := columnar.MustNew[*columnar.List](blobType)
	items := c.Items.(*columnar.Fixed[uint8])
	for _, b := range blobs {
		items.AppendLE(b)
		c.End()
	}
	return columnar.Array(c)
}

func decodeAttachments(s *scan, emit func(*chunk.Chunk)) {
	data := columnar.MustNew[*columnar.List](blobType)
	types := columnar.MustNew[*columnar.Bytes](arrow.BinaryTypes.String)
	var about [][]mcapfile.Pair
	decimal := func(v uint64) string { return strconv.FormatUint(v, 10) }
	s.file.EachAttachment(func(a *mcapfile.Attachment) {
		err := columnar.Guard(func() error {
			data.Items.(*columnar.Fixed[uint8]).AppendLE(a.Data)
			data.End()
			return nil
		})
		if err != nil {
			data.Truncate(len(about))
			s.failOnce("attachment %q at offset %d: %v", a.Name, a.Offset, err)
			return
		}
		types.AppendString(a.MediaType)
		about = append(about, []mcapfile.Pair{
			{Key: "name", Value: a.Name}, {Key: "media_type", Value: a.MediaType},
			{Key: "log_time", Value: decimal(a.LogTime)}, {Key: "create_time", Value: decimal(a.CreateTime)},
			{Key: "data_size", Value: strconv.Itoa(len(a.Data))}, {Key: "offset", Value: strconv.FormatInt(a.Offset, 10)},
		})
	}, func(err error) { s.failOnce("%v", err) })
	if len(about) == 0 {
		return
	}
	attachment := func(field, component string) chunk.Descriptor {
		return chunk.Descriptor{Archetype: "McapAttachment", Component: field, Type: "rerun.components." + component}
	}
	s.emitStatic(emit, attachmentsPath,
		column(attachment("data", "Blob"), oneRow(columnar.Array(data))),
		column(attachment("media_type", "MediaType"), oneRow(columnar.Array(types))),
		column(attachment("metadata", "KeyValuePairs"), oneRow(pairsArray(about...))),
	)
}

func decodeMetadata(s *scan, emit func(*chunk.Chunk)) {
	merged := map[string]map[string]string{}
	for _, m := range s.file.Metadata {
		name := m.Name
		if name == "" {
			// A component has to have a name.
			name = "metadata"
		}
		if merged[name] == nil {
			merged[name] = map[string]string{}
		}
		for _, p := range m.Pairs {
			if _, ok := merged[name][p.Key]; ok {
				s.warnOnce("metadata %q: the last value of key %q counts", name, p.Key)
			}
			merged[name][p.Key] = p.Value
		}
	}
	if len(merged) == 0 {
		return
	}
	var components []chunk.Component
	for _, name := range slices.Sorted(maps.Keys(merged)) {
		var pairs []mcapfile.Pair
		for _, k := range slices.Sorted(maps.Keys(merged[name])) {
			pairs = append(pairs, mcapfile.Pair{Key: k, Value: merged[name][k]})
		}
		d := chunk.Descriptor{Archetype: "McapMetadata", Component: name, Type: "rerun.components.KeyValuePairs"}
		components = append(components, column(d, listOfOne(pairsArray(pairs))))
	}
	s.emitStatic(emit, metadataPath, components...)
}

func decodeRecordingInfo(s *scan, emit func(*chunk.Chunk)) {
	if st := s.file.Statistics; st != nil {
		s.emitStatic(emit, propertiesPath,
			column(of("RecordingInfo", "start_time", "Timestamp"), numbersOf(arrow.PrimitiveTypes.Int64, clampTime(st.StartTime))))
		return
	}
	// Without statistics the peer writes a row that says nothing.
	row := chunk.NewTUID()
	if c, err := chunk.Assemble(chunk.NewTUID(), propertiesPath, row[:], nil, nil); err == nil {
		emit(c)
	}
}

func decodeStatistics(s *scan, emit func(*chunk.Chunk)) {
	st := s.file.Statistics
	if st == nil {
		s.warnOnce("the file has no statistics")
		return
	}
	count := func(field string, v uint64) chunk.Component {
		return column(of("McapStatistics", field, "Count"), numbersOf(arrow.PrimitiveTypes.Uint64, v))
	}
	moment := func(field string, v uint64) chunk.Component {
		return column(of("McapStatistics", field, "Timestamp"), numbersOf(arrow.PrimitiveTypes.Int64, clampTime(v)))
	}
	counts := columnar.MustNew[*columnar.List](arrow.ListOfNonNullable(arrow.StructOf(
		arrow.Field{Name: "channel_id", Type: arrow.PrimitiveTypes.Uint16},
		arrow.Field{Name: "message_count", Type: arrow.PrimitiveTypes.Uint64},
	)))
	items := counts.Items.(*columnar.Struct)
	for _, id := range slices.Sorted(maps.Keys(st.ChannelMessageCounts)) {
		items.Fields[0].(*columnar.Fixed[uint16]).Append(id)
		items.Fields[1].(*columnar.Fixed[uint64]).Append(st.ChannelMessageCounts[id])
		items.End()
	}
	counts.End()
	s.emitStatic(emit, propertiesPath,
		count("message_count", st.MessageCount), count("schema_count", uint64(st.SchemaCount)), count("channel_count", uint64(st.ChannelCount)),
		count("attachment_count", uint64(st.AttachmentCount)), count("metadata_count", uint64(st.MetadataCount)), count("chunk_count", uint64(st.ChunkCount)),
		moment("message_start_time", st.StartTime), moment("message_end_time", st.EndTime),
		column(of("McapStatistics", "channel_message_counts", "ChannelMessageCounts"), listOfOne(columnar.Array(counts))),
	)
}

func decodeSchemas(s *scan, emit func(*chunk.Chunk)) {
	for _, c := range s.file.Channels {
		if !s.wants(c) {
			continue
		}
		text := func(archetype, field, v string) chunk.Component {
			return column(of(archetype, field, "Text"), texts(v))
		}
		id := func(archetype, component string, v uint16) chunk.Component {
			return column(of(archetype, "id", component), numbersOf(arrow.PrimitiveTypes.Uint16, v))
		}
		components := []chunk.Component{
			id("McapChannel", "ChannelId", c.ID), text("McapChannel", "topic", c.Topic),
			text("McapChannel", "message_encoding", c.MessageEncoding),
			column(of("McapChannel", "metadata", "KeyValuePairs"), listOfOne(pairsArray(c.Metadata))),
		}
		if sc := c.Schema; sc != nil {
			components = append(components,
				id("McapSchema", "SchemaId", sc.ID), text("McapSchema", "name", sc.Name), text("McapSchema", "encoding", sc.Encoding),
				column(of("McapSchema", "data", "Blob"), listOfOne(blobArray(sc.Data))))
		}
		s.emitStatic(emit, chunk.ParseEntityPath(c.Topic), components...)
	}
}

// rawName is the name of the decoder that takes every channel.
const rawName = "raw"

// newRaw keeps messages as they are.
func newRaw(*scan, *mcapfile.Channel) (channelDecoder, error) { return rawDecoder{}, nil }

type rawDecoder struct{}

func (rawDecoder) begin(messages, size int) batch {
	b := &rawBatch{data: columnar.MustNew[*columnar.List](blobType)}
	b.data.Items.(*columnar.Fixed[uint8]).Grow(size)
	return b
}

type rawBatch struct{ data *columnar.List }

func (b *rawBatch) add(m *mcapfile.Message) error {
	b.data.Items.(*columnar.Fixed[uint8]).AppendLE(m.Data)
	b.data.End()
	return nil
}

func (b *rawBatch) undo(rows int) { b.data.Truncate(rows) }

func (b *rawBatch) finish(o *output) {
	o.temporal(o.entity, o.times(), column(of("McapMessage", "data", "Blob"), listOfOne(columnar.Array(b.data))))
}
