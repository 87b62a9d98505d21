package mcp

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/gateway/pipeline"
)

// TestUnzippedAnswersAreBounded while they are unzipped: a kilobyte of an answer can be a megabyte.
func TestUnzippedAnswersAreBounded(t *testing.T) {
	t.Parallel()
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = io.CopyN(z, zeros{}, 64*maxAnswerBytes)
	_ = z.Close()
	all := zipped.Len()
	a := read(&http.Response{
		StatusCode: http.StatusOK, ContentLength: -1, Body: io.NopCloser(&zipped),
		Header: http.Header{"Content-Encoding": {"gzip"}, "Content-Type": {"text/plain"}},
	})
	if a.ok() || len(a.data) > 0 || zipped.Len() < all/2 {
		t.Errorf("the answer is %d %q, of %d bytes %d were read", a.status, a.fault, all, all-zipped.Len())
	}
}

type zeros struct{}

// Read implements io.Reader.
func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// TestWhatIsNoTextIsBinary, whatever an answer says of it or does not.
func TestWhatIsNoTextIsBinary(t *testing.T) {
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
		text, binary := decoded([]byte(test.data), test.mediaType, test.charset)
		if binary != test.binary || string(text) != test.text {
			t.Errorf("%q of %q: got %q, %t", test.data, test.mediaType, text, binary)
		}
	}
}

// TestArgumentsMakeNoEndlessAddress, by the path or by the query.
func TestArgumentsMakeNoEndlessAddress(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", maxTargetBytes)
	for _, test := range [][2]string{{"/" + long, ""}, {"/a", long}, {"/" + long[:maxTargetBytes/2], long[:maxTargetBytes/2]}} {
		c := &caller{server: &Server{}}
		if err := c.aim(&pipeline.Exchange{}, test[0], test[1]); err == nil {
			t.Errorf("a path of %d and a query of %d bytes are taken", len(test[0]), len(test[1]))
		}
	}
	if err := (&caller{server: &Server{}}).aim(&pipeline.Exchange{}, "/a", "b=c"); err != nil {
		t.Error(err)
	}
}

// TestArgumentsOfAPromptAreBoundedTogether: each is a text, in which values do not count.
func TestArgumentsOfAPromptAreBoundedTogether(t *testing.T) {
	t.Parallel()
	list := "[1" + strings.Repeat(",1", 30_000) + "]"
	types := map[string]string{"a": "array", "b": "array"}
	if _, raw, err := promptArguments(map[string]string{"a": list}, types); err != nil || string(raw) != `{"a":`+list+`}` {
		t.Errorf("one list: %v", err)
	}
	if _, _, err := promptArguments(map[string]string{"a": list, "b": list}, types); err == nil || !strings.Contains(err.Error(), "fewer at once") {
		t.Errorf("two lists: %v", err)
	}
}
