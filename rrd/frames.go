package rrd

import (
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/encoding/protowire"
)

// Frame is a message of a file by its place. Chunks are not read.
type Frame struct {
	Kind   Kind
	Offset int64 // of the message header
	Size   int64 // of the payload behind it

	Info       *StoreInfo  // of KindStoreInfo
	Activation *Activation // of KindActivation
}

// Frames lists the messages of a file that has a footer at its end, by reading
// their headers alone. A file in which anything is out of order gives an error:
// it can only be read from front to back.
func (f *File) Frames() ([]Frame, error) {
	var frames []Frame
	apps := map[appKey]string{}
	for at := int64(0); at < f.size; {
		b, err := f.readAt(at, StreamHeaderSize, PartStreamHeader)
		if err != nil {
			return nil, err
		}
		h, err := ParseStreamHeader(b)
		if err == nil {
			err = h.CheckVersion()
		}
		if err != nil {
			return nil, f.fault(at, PartStreamHeader, err)
		}
		at += StreamHeaderSize
		for kind := KindStoreInfo; kind != KindEnd; {
			if b, err = f.readAt(at, MessageHeaderSize, PartMessageHeader); err != nil {
				return nil, err
			}
			mh := parseMessageHeader(b)
			if kind = mh.kind; kind > KindActivation {
				return nil, f.fault(at, PartMessageHeader, fmt.Errorf("%w %d", ErrUnknownKind, uint64(kind)))
			}
			if mh.len > MaxPayload || int64(mh.len) > f.size-at-MessageHeaderSize {
				return nil, f.fault(at, PartMessageHeader, fmt.Errorf("%w: %d bytes", ErrTooLarge, mh.len))
			}
			fr := Frame{Kind: kind, Offset: at, Size: int64(mh.len)}
			if err := f.readFrame(&fr, h.Version, apps); err != nil {
				return nil, err
			}
			frames = append(frames, fr)
			at += MessageHeaderSize + fr.Size
		}
		if b, err = f.readAt(at, StreamFooterSize, PartStreamFooter); err != nil {
			return nil, err
		}
		if _, ok := parseStreamFooter(b); !ok {
			return nil, f.fault(at, PartStreamFooter, ErrCorruptFooter)
		}
		at += StreamFooterSize
	}
	return frames, nil
}

// readFrame reads the payload of what is not a chunk.
func (f *File) readFrame(fr *Frame, v Version, apps map[appKey]string) error {
	if fr.Kind != KindStoreInfo && fr.Kind != KindActivation {
		return nil
	}
	b, err := f.readAt(fr.Offset+MessageHeaderSize, fr.Size, fr.Kind.part())
	if err != nil {
		return err
	}
	var store *StoreID
	if fr.Kind == KindStoreInfo {
		var info StoreInfo
		if info, err = ParseStoreInfo(b); err == nil {
			info.Version = v
			fr.Info, store = &info, &info.Store
			apps[appKey{store.Kind, store.Recording}] = store.Application
		}
	} else {
		var a Activation
		if a, err = ParseActivation(b); err == nil {
			fr.Activation, store = &a, &a.Blueprint
		}
	}
	if err == nil && store.Application == "" {
		if store.Application = apps[appKey{store.Kind, store.Recording}]; store.Application == "" {
			err = ErrNoApplication
		}
	}
	if err != nil {
		return f.fault(fr.Offset, fr.Kind.part(), err)
	}
	return nil
}

// CopyFrames writes chunks of one store that stand one behind the other in a
// file, byte for byte, headers included. The entries describe them by their
// places there.
func (w *Writer) CopyFrames(src io.ReaderAt, store StoreID, entries []Entry) error {
	if len(entries) == 0 {
		return w.check()
	}
	if err := w.check(); err != nil {
		return err
	}
	store.Application = CleanApplicationID(store.Application)
	if err := w.announce(store); err != nil {
		return err
	}
	w.drain(0)
	from := entries[0].Offset - MessageHeaderSize
	last := &entries[len(entries)-1]
	move := w.pos - from
	w.copyRange(src, from, last.Offset+int64(last.Size)-from)
	if w.opt.NoFooter {
		return w.err
	}
	for i := range entries {
		if w.err != nil {
			break
		}
		e := entries[i]
		e.Offset += move
		w.note(store, &e)
	}
	return w.err
}

// CopyPayload writes a chunk whose message is m but for its payload, which is n
// bytes at offset in src.
func (w *Writer) CopyPayload(m *ArrowMsg, src io.ReaderAt, offset, n int64, e *Entry) error {
	if err := w.check(); err != nil {
		return err
	}
	msg, entry := *m, *e
	msg.Store.Application = CleanApplicationID(msg.Store.Application)
	if err := w.announce(msg.Store); err != nil {
		return err
	}
	w.drain(0)
	msg.ChunkID, msg.HasChunkID = e.ID, true
	msg.Static, msg.HasStatic = e.Static, true
	w.frame(&msg, n, func() { w.copyRange(src, offset, n) }, &entry)
	return w.err
}

// Head is the start of a chunk's message, which tells all but the payload, and
// where that is in the file. A message of another layout than writers use gives
// an error.
func (f *File) Head(fr Frame) (m ArrowMsg, offset, n int64, err error) {
	at := fr.Offset + MessageHeaderSize
	b, err := f.readAt(at, min(fr.Size, 4<<10), PartChunk)
	if err != nil {
		return m, 0, 0, err
	}
	whole := b
	for len(b) > 0 {
		num, typ, k := protowire.ConsumeTag(b)
		if k < 0 {
			break
		}
		if num == 5 && typ == protowire.BytesType {
			size, l := protowire.ConsumeVarint(b[k:])
			used := int64(len(whole) - len(b) + k + l)
			if l < 0 || size > uint64(fr.Size-used) || fr.Size-used-int64(size) > 4<<10 {
				break
			}
			rest := used + int64(size)
			tail, err := f.readAt(at+rest, fr.Size-rest, PartChunk)
			if err != nil {
				return m, 0, 0, err
			}
			head := append(append([]byte(nil), whole[:len(whole)-len(b)]...), tail...)
			err = m.parse(head, nil)
			return m, at + used, int64(size), err
		}
		v := protowire.ConsumeFieldValue(num, typ, b[k:])
		if v < 0 {
			break
		}
		b = b[k+v:]
	}
	return m, 0, 0, f.fault(fr.Offset, PartChunk, fmt.Errorf("%w: no payload behind the store id", ErrProtobuf))
}

const copyBuffer = 256 << 10

// copyRange writes n bytes of src.
func (w *Writer) copyRange(src io.ReaderAt, offset, n int64) {
	b := payloads.get(int(min(n, copyBuffer)))
	defer payloads.put(b)
	for n > 0 && w.err == nil {
		k, err := src.ReadAt(b[:min(n, int64(cap(b)))], offset)
		w.put(b[:k])
		offset, n = offset+int64(k), n-int64(k)
		if err != nil && n > 0 && w.err == nil {
			if errors.Is(err, io.EOF) {
				err = fmt.Errorf("%w: the source got shorter", ErrTruncated)
			}
			w.err = fmt.Errorf("write recording at byte %d: %w", w.pos, err)
		}
	}
}
