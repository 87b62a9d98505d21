package mcp

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/base/framing"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/pipeline"
)

// TestDecompressedResponsesAreBounded checks that the limit applies to
// decompressed bytes: a kilobyte of a response can become a megabyte.
func TestDecompressedResponsesAreBounded(t *testing.T) {
	t.Parallel()
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = io.CopyN(z, zeros{}, 64*maxResponseBytes)
	_ = z.Close()
	size := zipped.Len()
	got := readResponse(&http.Response{
		StatusCode: http.StatusOK, ContentLength: -1, Body: io.NopCloser(&zipped),
		Header: http.Header{"Content-Encoding": {"gzip"}, "Content-Type": {"text/plain"}},
	})
	if got.ok() || len(got.data) > 0 || zipped.Len() < size/2 {
		t.Errorf("readResponse(gzip of %d bytes): status = %d, fault = %q, %d bytes read, want a fault before half is read",
			size, got.status, got.fault, size-zipped.Len())
	}
}

type zeros struct{}

// Read implements io.Reader.
func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// TestNonTextIsBinary checks which response data counts as binary,
// for several content types and charsets, and without a content type.
func TestNonTextIsBinary(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		data, mediaType, charset string
		binary                   bool
		text                     string
	}{
		{"a", "", "", false, "a"},
		{"a\x00b", "", "", true, "a\x00b"},
		{"\xff\xfe", "", "", true, "\xff\xfe"},
		{"a", "image/png", "", true, "a"},
		{"", "image/png", "", false, ""},
		{"\xe9", "text/plain", "iso-8859-1", false, "é"},
		{"\xe9", "image/png", "iso-8859-1", true, "\xe9"},
		{"\xef\xbb\xbfa", "application/json", "", false, "a"},
	} {
		text, binary := decodeText([]byte(test.data), test.mediaType, test.charset)
		if binary != test.binary || string(text) != test.text {
			t.Errorf("decodeText(%q, %q, %q) = %q, binary %t, want %q, %t",
				test.data, test.mediaType, test.charset, text, binary, test.text, test.binary)
		}
	}
}

// TestTargetLengthIsLimited checks that a call is refused if its path is longer than a client's own path can be, or if
// its path and query together are too long.
func TestTargetLengthIsLimited(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", maxTargetBytes)
	for _, test := range [][2]string{
		{"/" + long[:framing.DefaultMaxPathBytes], ""},
		{"/a", long},
		{"/" + long[:framing.DefaultMaxPathBytes-1], long[:maxTargetBytes-framing.DefaultMaxPathBytes+1]},
	} {
		c := &caller{server: &Server{}}
		if err := c.setTarget(&pipeline.Exchange{}, test[0], test[1]); err == nil {
			t.Errorf("setTarget(path of %d bytes, query of %d bytes) = nil, want an error", len(test[0]), len(test[1]))
		}
	}
	path, query := "/"+long[:framing.DefaultMaxPathBytes-1], long[:maxTargetBytes-framing.DefaultMaxPathBytes]
	if err := (&caller{server: &Server{}}).setTarget(&pipeline.Exchange{}, path, query); err != nil {
		t.Errorf("setTarget(path of %d bytes, query of %d bytes) error = %v, want none", len(path), len(query), err)
	}
}

// TestPromptArgumentsAreLimitedInTotal checks the limit on the number of values in all arguments of a prompt
// together. Each argument is a string, and the count of a request's values does not include values within strings.
func TestPromptArgumentsAreLimitedInTotal(t *testing.T) {
	t.Parallel()
	list := "[1" + strings.Repeat(",1", 30_000) + "]"
	types := map[string]string{"a": "array", "b": "array"}
	if _, raw, err := promptArguments(map[string]string{"a": list}, types); err != nil || string(raw) != `{"a":`+list+`}` {
		t.Errorf("promptArguments(one list) = %.40s (%d bytes), %v, want %.40s (%d bytes) and no error",
			raw, len(raw), err, `{"a":`+list+`}`, len(`{"a":`+list+`}`))
	}
	if _, _, err := promptArguments(map[string]string{"a": list, "b": list}, types); err == nil ||
		!strings.Contains(err.Error(), "fewer at once") {
		t.Errorf("promptArguments(two lists) error = %v, want it to ask for fewer at once", err)
	}
}
