package arrowipc

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"pgregory.net/rapid"
)

func TestRoundTrip(t *testing.T) {
	var d Decoder
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		r := rand.New(rand.NewPCG(seed, 1))
		want := genBatch(r, rapid.Bool().Draw(t, "sliced"))
		stream, err := AppendBatch(nil, want)
		if err != nil {
			t.Fatal(err)
		}
		for _, decode := range []func([]byte) (arrow.RecordBatch, error){Batch, d.Batch} {
			got, err := decode(stream)
			if err != nil {
				t.Fatal(err, want.Schema())
			}
			sameBatch(t, got, want)
			// What was decoded encodes to the same bytes.
			again, err := AppendBatch(nil, got)
			if err != nil {
				t.Fatal(err)
			}
			if string(again) != string(stream) {
				t.Fatalf("encoding is not stable for %s", want.Schema())
			}
		}
		// At any alignment.
		shifted := append(make([]byte, 1+seed%7), stream...)[1+seed%7:]
		got, err := Batch(shifted)
		if err != nil {
			t.Fatal(err)
		}
		sameBatch(t, got, want)
	})
}

func TestAgainstArrowGo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		r := rand.New(rand.NewPCG(seed, 2))
		want := genBatch(r, false)
		var opts []ipc.Option
		switch rapid.IntRange(0, 2).Draw(t, "codec") {
		case 1:
			opts = append(opts, ipc.WithLZ4())
		case 2:
			opts = append(opts, ipc.WithZstd())
		}
		got, err := Batch(encodeArrowGo(t, want, opts...))
		if err != nil {
			t.Fatal(err, want.Schema())
		}
		sameBatch(t, got, want)
		stream, err := AppendBatch(nil, want)
		if err != nil {
			t.Fatal(err)
		}
		sameBatch(t, decodeArrowGo(t, stream), want)
	})
}

// tb is what testing.TB and rapid.T share.
type tb interface {
	Fatalf(string, ...any)
	Fatal(...any)
	Helper()
}

func sameBatch(t tb, got, want arrow.RecordBatch) {
	t.Helper()
	if !got.Schema().Equal(want.Schema()) {
		t.Fatalf("schema\n got %s\nwant %s", got.Schema(), want.Schema())
	}
	if got.NumRows() != want.NumRows() {
		t.Fatalf("rows: got %d, want %d", got.NumRows(), want.NumRows())
	}
	for i := range int(want.NumCols()) {
		if !array.Equal(got.Column(i), want.Column(i)) {
			t.Fatalf("column %d (%s)\n got %s\nwant %s", i, want.Schema().Field(i).Type, got.Column(i), want.Column(i))
		}
	}
}

// touch visits every value of an array by arrow-go's own accessors.
func touch(a arrow.Array) {
	for i := range a.Len() {
		if a.IsValid(i) {
			text(func() {
				_ = a.ValueStr(i)
				_ = a.GetOneForMarshal(i)
			})
		}
	}
	text(func() { _ = a.String() })
	_ = a.NullN()
	switch a := a.(type) {
	case array.ListLike:
		for i := range a.Len() {
			from, to := a.ValueOffsets(i)
			if a.IsValid(i) {
				array.NewSlice(a.ListValues(), from, to).Release()
			}
		}
		touch(a.ListValues())
	case *array.Struct:
		for i := range a.NumField() {
			touch(a.Field(i))
		}
	case array.Union:
		for i := range a.NumFields() {
			touch(a.Field(i))
		}
	case *array.Dictionary:
		touch(a.Dictionary())
		touch(a.Indices())
	case *array.RunEndEncoded:
		touch(a.Values())
		a.LogicalValuesArray().Release()
	}
}

// text runs an accessor that may go through JSON, where arrow-go panics on
// legal values: a half-precision NaN within a list, for one.
func text(f func()) {
	defer func() {
		if p := recover(); p != nil && !strings.Contains(fmt.Sprint(p), "json: error") {
			panic(p)
		}
	}()
	f()
}

func isInternal(err error) bool { return errors.Is(err, errInternal) }
