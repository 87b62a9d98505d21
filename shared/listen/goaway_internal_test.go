package listen

import (
	"bytes"
	"io"
	"math"
	"net"
	"slices"
	"testing"

	"golang.org/x/net/http2"
)

// written is a connection that keeps what is written.
type written struct {
	net.Conn
	bytes.Buffer
}

func (w *written) Write(p []byte) (int, error) { return w.Buffer.Write(p) }
func (w *written) Read([]byte) (int, error)    { return 0, io.EOF }

// TestGoAwayStandsBetweenFrames, wherever net/http's writes are divided, and where it may: behind the first frame, and not
// within a head. It is written once.
func TestGoAwayStandsBetweenFrames(t *testing.T) {
	var plain bytes.Buffer
	f := http2.NewFramer(&plain, nil)
	for _, err := range []error{
		f.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 100}),
		f.WriteSettingsAck(),
		f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte("a")}),
		f.WriteContinuation(1, false, []byte("b")),
		f.WriteContinuation(1, true, []byte("c")),
		f.WriteData(1, true, bytes.Repeat([]byte("d"), 300)),
		f.WriteHeaders(http2.HeadersFrameParam{StreamID: 3, BlockFragment: []byte("e"), EndHeaders: true, EndStream: true}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	all := plain.Bytes()
	for first := range len(all) + 1 {
		for _, second := range []int{first, min(first+4, len(all)), min(first+20, len(all))} {
			out := &written{}
			its := &frames{Conn: out}
			send := func(p []byte) {
				if n, err := its.Write(p); n != len(p) || err != nil {
					t.Fatalf("%d of %d bytes are written: %v", n, len(p), err)
				}
			}
			send(all[:first])
			its.leave()
			send(all[first:second])
			send(all[second:])
			its.leave()
			kinds := kindsOf(t, &out.Buffer)
			at := slices.Index(kinds, http2.FrameGoAway)
			if at < 0 {
				t.Fatalf("divided at %d and %d: nothing is said in %v", first, second, kinds)
			}
			rest := slices.Delete(slices.Clone(kinds), at, at+1)
			want := []http2.FrameType{
				http2.FrameSettings, http2.FrameSettings, http2.FrameHeaders, http2.FrameContinuation, http2.FrameContinuation, http2.FrameData, http2.FrameHeaders,
			}
			if !slices.Equal(rest, want) || at == 0 || kinds[at-1] == http2.FrameHeaders && at == 3 {
				t.Fatalf("divided at %d and %d: %v", first, second, kinds)
			}
		}
	}
}

// kindsOf reads frames to their end, by a reader that refuses what may not stand within a head.
func kindsOf(t *testing.T, r io.Reader) (kinds []http2.FrameType) {
	t.Helper()
	f := http2.NewFramer(io.Discard, r)
	for {
		got, err := f.ReadFrame()
		if err == io.EOF { //nolint:errorlint // it is that very one between frames
			return kinds
		}
		if err != nil {
			t.Fatalf("after %v: %v", kinds, err)
		}
		if away, ok := got.(*http2.GoAwayFrame); ok && (away.LastStreamID != math.MaxInt32 || away.ErrCode != http2.ErrCodeNo) {
			t.Fatalf("it says %v", away)
		}
		kinds = append(kinds, got.Header().Type)
	}
}

// TestGoAwayOfNetHTTPIsTheLast: a later one may name no higher stream.
func TestGoAwayOfNetHTTPIsTheLast(t *testing.T) {
	var plain bytes.Buffer
	f := http2.NewFramer(&plain, nil)
	if err := f.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	if err := f.WriteGoAway(7, http2.ErrCodeNo, nil); err != nil {
		t.Fatal(err)
	}
	out := &written{}
	its := &frames{Conn: out}
	if _, err := its.Write(plain.Bytes()); err != nil {
		t.Fatal(err)
	}
	its.leave()
	if !bytes.Equal(out.Bytes(), plain.Bytes()) {
		t.Errorf("%d bytes are written, and not %d", out.Len(), plain.Len())
	}
}
