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

// writeRecorder is a connection that records what is written.
type writeRecorder struct {
	net.Conn
	bytes.Buffer
}

func (w *writeRecorder) Write(p []byte) (int, error) { return w.Buffer.Write(p) }
func (w *writeRecorder) Read([]byte) (int, error)    { return 0, io.EOF }

// TestGoAwayIsWrittenBetweenFrames divides net/http's frames into writes at all positions. It checks that
// sendGoAway writes one GOAWAY, between two frames, after the first frame, and not within a header block.
func TestGoAwayIsWrittenBetweenFrames(t *testing.T) {
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
			out := &writeRecorder{}
			fc := &framedConn{Conn: out}
			send := func(p []byte) {
				if n, err := fc.Write(p); n != len(p) || err != nil {
					t.Fatalf("split at %d and %d: Write() = %d, %v, want %d", first, second, n, err, len(p))
				}
			}
			send(all[:first])
			fc.sendGoAway()
			send(all[first:second])
			send(all[second:])
			fc.sendGoAway()
			kinds := frameTypes(t, &out.Buffer)
			position := slices.Index(kinds, http2.FrameGoAway)
			if position < 0 {
				t.Fatalf("split at %d and %d: frames = %v, want a GOAWAY", first, second, kinds)
			}
			rest := slices.Delete(slices.Clone(kinds), position, position+1)
			want := []http2.FrameType{
				http2.FrameSettings, http2.FrameSettings, http2.FrameHeaders, http2.FrameContinuation, http2.FrameContinuation,
				http2.FrameData, http2.FrameHeaders,
			}
			if !slices.Equal(rest, want) || position == 0 || kinds[position-1] == http2.FrameHeaders && position == 3 {
				t.Fatalf("split at %d and %d: frames = %v, want %v with GOAWAY between two frames", first, second, kinds, want)
			}
		}
	}
}

// frameTypes returns the types of all frames in r. http2.Framer fails if another frame is within a header block.
func frameTypes(t *testing.T, r io.Reader) (kinds []http2.FrameType) {
	t.Helper()
	f := http2.NewFramer(io.Discard, r)
	for {
		got, err := f.ReadFrame()
		if err == io.EOF { //nolint:errorlint // the framer returns exactly this error between two frames
			return kinds
		}
		if err != nil {
			t.Fatalf("ReadFrame() after %v: error = %v, want none", kinds, err)
		}
		if goAwayFrame, ok := got.(*http2.GoAwayFrame); ok && (goAwayFrame.LastStreamID != math.MaxInt32 ||
			goAwayFrame.ErrCode != http2.ErrCodeNo) {
			t.Fatalf("GOAWAY frame = %v, want the last stream %d and NO_ERROR", goAwayFrame, math.MaxInt32)
		}
		kinds = append(kinds, got.Header().Type)
	}
}

// TestNoSecondGoAway checks that sendGoAway writes nothing after a GOAWAY
// of net/http, because a second GOAWAY must not have a higher stream number.
func TestNoSecondGoAway(t *testing.T) {
	var plain bytes.Buffer
	f := http2.NewFramer(&plain, nil)
	if err := f.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	if err := f.WriteGoAway(7, http2.ErrCodeNo, nil); err != nil {
		t.Fatal(err)
	}
	out := &writeRecorder{}
	fc := &framedConn{Conn: out}
	if _, err := fc.Write(plain.Bytes()); err != nil {
		t.Fatalf("Write(frames of net/http) error = %v, want none", err)
	}
	fc.sendGoAway()
	if !bytes.Equal(out.Bytes(), plain.Bytes()) {
		t.Errorf("bytes written by net/http and then sendGoAway() = %d, want only net/http's %d", out.Len(), plain.Len())
	}
}
