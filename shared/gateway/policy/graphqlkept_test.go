package policy

import (
	"bytes"
	"compress/gzip"
	"io"
	"sync"
	"testing"
)

// TestKeptBodiesAreClosedWhileRead, as transports do where an answer comes before its request has been sent whole. The race detector looks on.
func TestKeptBodiesAreClosedWhileRead(t *testing.T) {
	t.Parallel()
	text := bytes.Repeat([]byte("x"), 10_000)
	for range 100 {
		var told [][]byte
		b := &keptBody{ReadCloser: io.NopCloser(bytes.NewReader(text)), most: 5_000, ended: func(kept []byte) { told = append(told, kept) }}
		var all sync.WaitGroup
		all.Go(func() {
			piece := make([]byte, 7)
			for {
				if _, err := b.Read(piece); err != nil {
					return
				}
			}
		})
		all.Go(func() { _ = b.Close() })
		all.Wait()
		if len(told) != 1 || len(told[0]) > 5_000 {
			t.Fatalf("told %d times, of %d bytes", len(told), len(b.kept))
		}
	}
}

// TestUnzippedBeginningIsBounded: what is looked at of an answer may unzip to a thousand times as much.
func TestUnzippedBeginningIsBounded(t *testing.T) {
	t.Parallel()
	const scan = 1 << 10
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = z.Write(bytes.Repeat([]byte("x"), 100*scan))
	_ = z.Close()
	c := &counted{p: &graphQLAnalytics{scan: scan}, encoding: "gzip"}
	if n := len(c.plain(zipped.Bytes())); n != scan {
		t.Errorf("%d bytes are looked at, of %d at most", n, scan)
	}
}
