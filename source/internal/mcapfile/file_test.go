package mcapfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/foxglove/mcap/go/mcap"
)

// writeFile writes a file with two channels and n messages of each.
func writeFile(t testing.TB, n int, o *mcap.WriterOptions) []byte {
	t.Helper()
	var buf bytes.Buffer
	w, err := mcap.NewWriter(&buf, o)
	if err != nil {
		t.Fatal(err)
	}
	check := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	check(w.WriteHeader(&mcap.Header{Profile: "test", Library: "golden"}))
	check(w.WriteSchema(&mcap.Schema{ID: 1, Name: "a/msg/A", Encoding: "ros2msg", Data: []byte("int32 x")}))
	for id, topic := range []string{"/a", "/b"} {
		check(w.WriteChannel(&mcap.Channel{ID: uint16(id), SchemaID: 1, Topic: topic, MessageEncoding: "cdr", Metadata: map[string]string{"k": "v"}}))
	}
	for i := range n {
		for id := range 2 {
			data := fmt.Appendf(nil, "message %d of %d %s", i, id, strings.Repeat("x", i%50))
			check(w.WriteMessage(&mcap.Message{ChannelID: uint16(id), Sequence: uint32(i), LogTime: uint64(100 + i), PublishTime: uint64(i), Data: data}))
		}
	}
	check(w.WriteAttachment(&mcap.Attachment{LogTime: 1, CreateTime: 2, Name: "n", MediaType: "m", DataSize: 3, Data: strings.NewReader("abc")}))
	check(w.WriteMetadata(&mcap.Metadata{Name: "md", Metadata: map[string]string{"b": "2", "a": "1"}}))
	check(w.Close())
	return buf.Bytes()
}

// readAll lists the messages of all blocks and what was wrong with them.
func readAll(f *File) (messages []string, faults []error) {
	r := f.NewReader()
	for i := range f.Blocks {
		data, err := r.Load(&f.Blocks[i])
		if err != nil {
			faults = append(faults, err)
			continue
		}
		err = Records(data, func(op Opcode, content []byte) bool {
			if op == OpMessage {
				m, err := ParseMessage(content)
				if err != nil {
					faults = append(faults, err)
					return true
				}
				messages = append(messages, fmt.Sprintf("%d %d %d %s", m.ChannelID, m.LogTime, m.PublishTime, m.Data))
			}
			return true
		})
		if err != nil {
			faults = append(faults, err)
		}
	}
	return messages, faults
}

func open(t testing.TB, b []byte, o Options) *File {
	t.Helper()
	f, err := Open(bytes.NewReader(b), int64(len(b)), o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

var layouts = map[string]mcap.WriterOptions{
	"zstd":       {Chunked: true, ChunkSize: 500, Compression: mcap.CompressionZSTD},
	"lz4":        {Chunked: true, ChunkSize: 500, Compression: mcap.CompressionLZ4, IncludeCRC: true},
	"plain":      {Chunked: true, ChunkSize: 500, IncludeCRC: true},
	"unchunked":  {IncludeCRC: true},
	"no index":   {Chunked: true, ChunkSize: 500, SkipMessageIndexing: true, SkipChunkIndex: true, SkipStatistics: true},
	"no summary": {Chunked: true, ChunkSize: 500, SkipRepeatedSchemas: true, SkipRepeatedChannelInfos: true, SkipStatistics: true},
	"one chunk":  {Chunked: true, ChunkSize: 1 << 20, Compression: mcap.CompressionLZ4},
}

// Every layout of a file gives the same messages.
func TestLayouts(t *testing.T) {
	for name, o := range layouts {
		t.Run(name, func(t *testing.T) {
			f := open(t, writeFile(t, 100, &o), Options{})
			messages, faults := readAll(f)
			if len(messages) != 200 || len(faults) > 0 {
				t.Fatalf("%d messages, faults %v", len(messages), faults)
			}
			if messages[3] != "1 101 1 message 1 of 1 x" {
				t.Errorf("message 3 is %q", messages[3])
			}
			if len(f.Channels) != 2 || f.Channels[1].Topic != "/b" || f.Channels[1].Schema == nil || f.Channels[1].Schema.Name != "a/msg/A" {
				t.Errorf("channels %+v", f.Channels)
			}
			if f.Header != (Header{"test", f.Header.Library}) {
				t.Errorf("header %+v", f.Header)
			}
			if s := f.Statistics; s != nil && (s.MessageCount != 200 || s.StartTime != 100 || s.EndTime != 199) {
				t.Errorf("statistics %+v", s)
			}
			if len(f.Metadata) != 1 || f.Metadata[0].Pairs[0] != (Pair{"a", "1"}) {
				t.Errorf("metadata %+v", f.Metadata)
			}
			n := 0
			f.EachAttachment(func(a *Attachment) {
				n++
				if a.Name != "n" || string(a.Data) != "abc" {
					t.Errorf("attachment %+v", a)
				}
			}, func(err error) { t.Error(err) })
			if n != 1 {
				t.Errorf("%d attachments", n)
			}
		})
	}
}

// A file that is cut anywhere gives the messages before the cut, and no more
// than the records of one chunk are lost.
func TestCut(t *testing.T) {
	for name, o := range layouts {
		t.Run(name, func(t *testing.T) {
			b := writeFile(t, 60, &o)
			all, _ := readAll(open(t, b, Options{}))
			most := 0
			for cut := len(Magic); cut < len(b); cut += 1 + len(b)/400 {
				f := open(t, b[:cut], Options{Recover: true})
				messages, _ := readAll(f)
				if len(messages) > len(all) {
					t.Fatalf("cut at %d: %d messages", cut, len(messages))
				}
				for i := range messages {
					if messages[i] != all[i] {
						t.Fatalf("cut at %d: message %d is %q", cut, i, messages[i])
					}
				}
				most = max(most, len(messages))
				if _, err := Open(bytes.NewReader(b[:cut]), int64(cut), Options{}); !errors.Is(err, ErrSummary) {
					t.Fatalf("cut at %d: error %v without recovery", cut, err)
				}
			}
			if most != len(all) {
				t.Errorf("at most %d of %d messages recovered", most, len(all))
			}
		})
	}
}

// A flipped bit is noticed where there is a checksum, and never kills.
func TestFlip(t *testing.T) {
	o := layouts["plain"]
	b := writeFile(t, 30, &o)
	all, _ := readAll(open(t, b, Options{}))
	known := map[string]bool{}
	for _, m := range all {
		known[m] = true
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		c := bytes.Clone(b)
		c[r.IntN(len(c))] ^= 1 << r.IntN(8)
		f, err := Open(bytes.NewReader(c), int64(len(c)), Options{Recover: true})
		if err != nil {
			continue
		}
		messages, faults := readAll(f)
		for _, m := range messages {
			if !known[m] && len(faults) == 0 && len(f.Warnings) == 0 {
				t.Fatalf("damaged message without a word: %q", m)
			}
		}
	}
}

func TestBadCRC(t *testing.T) {
	o := layouts["lz4"]
	b := writeFile(t, 30, &o)
	f := open(t, b, Options{})
	at := f.Blocks[1].Offset + prefixLen + 24
	binary.LittleEndian.PutUint32(b[at:], 1)
	data, err := f.NewReader().Load(&f.Blocks[1])
	if !errors.Is(err, ErrCRC) || len(data) == 0 {
		t.Errorf("error %v with %d bytes", err, len(data))
	}
}

// A chunk that claims to be huge is refused before memory is taken.
func TestHugeSizes(t *testing.T) {
	for _, name := range []string{"plain", "lz4", "zstd"} {
		o := layouts[name]
		b := writeFile(t, 30, &o)
		f := open(t, b, Options{})
		for _, size := range []uint64{1 << 31, 1 << 40, 1<<64 - 1} {
			c := bytes.Clone(b)
			binary.LittleEndian.PutUint64(c[f.Blocks[0].Offset+prefixLen+16:], size)
			g := open(t, c, Options{})
			r := g.NewReader()
			if _, err := r.Load(&g.Blocks[0]); err == nil {
				t.Errorf("%s: no error for a size of %d", name, size)
			}
			if cap(r.plain) > 1<<26 {
				t.Errorf("%s: %d bytes reserved for a size of %d", name, cap(r.plain), size)
			}
		}
	}
}

type failingReader struct {
	*bytes.Reader
	after int64
}

func (r failingReader) ReadAt(b []byte, off int64) (int, error) {
	if off > r.after {
		return 0, errors.New("disk on fire")
	}
	return r.Reader.ReadAt(b, off)
}

func TestReadError(t *testing.T) {
	o := layouts["unchunked"]
	b := writeFile(t, 30, &o)
	_, err := Open(failingReader{bytes.NewReader(b), 4}, int64(len(b)), Options{Recover: true})
	if err == nil || !strings.Contains(err.Error(), "disk on fire") {
		t.Errorf("error %v", err)
	}
	if _, err := Open(bytes.NewReader(nil), 0, Options{Recover: true}); !errors.Is(err, ErrNotMCAP) {
		t.Errorf("empty file: error %v", err)
	}
}

func TestLinkedLZ4(t *testing.T) {
	// A frame whose second block copies from the first one.
	frame := binary.LittleEndian.AppendUint32(nil, lz4Magic)
	frame = append(frame, 0x40, 0x40, 0) // version 1, linked blocks, 64 KiB
	block := func(b []byte, stored uint32) {
		frame = binary.LittleEndian.AppendUint32(frame, uint32(len(b))|stored)
		frame = append(frame, b...)
	}
	block([]byte("abcdefgh"), 1<<31)
	// No literals, match of 4+4 at distance 8; then five literals as the end.
	block([]byte{0x04, 8, 0, 0x50, '1', '2', '3', '4', '5'}, 0)
	frame = append(frame, 0, 0, 0, 0)
	r := &Reader{}
	out, err := r.unlz4(frame, 21)
	if err != nil || string(out) != "abcdefghabcdefgh12345" {
		t.Errorf("got %q, %v", out, err)
	}
}

func FuzzMCAPFile(f *testing.F) {
	for _, o := range layouts {
		f.Add(writeFile(f, 5, &o))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		file, err := Open(bytes.NewReader(b), int64(len(b)), Options{Recover: true})
		if err != nil {
			return
		}
		readAll(file)
		file.EachAttachment(func(*Attachment) {}, func(error) {})
	})
}

func BenchmarkLoad(b *testing.B) {
	for name, o := range layouts {
		o.ChunkSize = 1 << 20
		b.Run(name, func(b *testing.B) {
			data := writeFile(b, 100_000, &o)
			f := open(b, data, Options{})
			r := f.NewReader()
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				for i := range f.Blocks {
					if _, err := r.Load(&f.Blocks[i]); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
