package arrowipc

import "fmt"

// SchemaValue is the value of a key of the schema metadata of a stream, nil
// without that key. It points into the stream, of which only the schema message
// is looked at; nothing is allocated.
func SchemaValue(stream []byte, key string) (value []byte, err error) {
	defer guard("schema", 0, &err)
	var m message
	ok, err := readMessage(stream, 0, &m)
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, m.fail("schema", errTruncated)
	case m.kind != headerSchema:
		return nil, m.fail("schema", fmt.Errorf("stream starts with message type %d", m.kind))
	}
	pos, n := m.header.vector(2, 4, 4)
	for i := range n {
		kv := m.flat.table(m.deref(pos + 4*i))
		at, size := kv.strRange(0)
		if m.err == nil && string(m.b[at:at+size]) == key {
			at, size = kv.strRange(1)
			value = m.b[at : at+size : at+size]
		}
		if m.err != nil {
			return nil, m.fail("schema", m.err)
		}
		if value != nil {
			return value, nil
		}
	}
	return nil, nil
}
