package policy

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/gatewright/gatewright/shared/dataplane/gateway/pipeline"
	"github.com/gatewright/gatewright/shared/format/graphql"
)

// TestGraphQLBodySizeIsLimited checks the limit for bodies with and without a declared length.
func TestGraphQLBodySizeIsLimited(t *testing.T) {
	t.Parallel()
	const begin, end = `{"query":"{a}","x":"`, `"}`
	for _, size := range []int{graphql.MaxBodyBytes, graphql.MaxBodyBytes + 1} {
		for _, declaresLength := range []bool{true, false} {
			text := begin + strings.Repeat("x", size-len(begin)-len(end)) + end
			x := &pipeline.Exchange{
				Context: t.Context(), Method: http.MethodPost, Header: http.Header{"Content-Type": {"application/json"}},
				Body: io.NopCloser(strings.NewReader(text)), ContentLength: -1,
			}
			if declaresLength {
				x.ContentLength = int64(len(text))
			}
			status := http.StatusOK
			if refused := (&graphQLReader{}).read(x); refused != nil {
				status = refused.StatusCode
			}
			if want := map[bool]int{
				true:  http.StatusOK,
				false: http.StatusRequestEntityTooLarge,
			}[size <= graphql.MaxBodyBytes]; status != want {
				t.Errorf("read(body of %d bytes, length declared: %t) status = %d, want %d (200 if accepted)", size,
					declaresLength, status, want)
			}
		}
	}
}

// TestGraphQLParametersInURLAreRefused checks GraphQL's parameter names with every separator, escape and letter case. A
// query string with a name that can't be unescaped is refused, because this name may be such a parameter.
func TestGraphQLParametersInURLAreRefused(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]bool{
		"": true, "page=1&sort=query": true, "queries=1": true, "&&=;": true,
		"query={a}": false, "a=1&query": false, "a;query=1": false, "a=1;b;query=1": false, "QUERY=1": false,
		"+query+=1": false, "%20query=1": false, "query[]=1": false,
		"query[a][b]=1": false, "%71uery=1": false, "query%5B%5D=1": false, "operationName=A": false, "variables={}": false,
		"extensions={}": false, "id=1": false,
		"documentId=1": false, "doc_id=1": false, "queryId=1": false, "hash=1": false, "%zz=1": false, "a=1&%": false,
		"quer%79%": false, "page=%zz": true,
	} {
		if got := isHarmlessQuery(raw); got != want {
			t.Errorf("isHarmlessQuery(%q) = %t, want %t", raw, got, want)
		}
	}
}

// TestUpstreamMayOnlyUseReadableEncodings checks that the upstream is
// offered no encoding but gzip, and gzip only if the client accepts it.
func TestUpstreamMayOnlyUseReadableEncodings(t *testing.T) {
	t.Parallel()
	for accept, want := range map[string]string{
		"": "identity", "br": "identity", "gzip": "gzip", "br, GZIP": "gzip", "gzip;q=0.5": "gzip", "gzip; q=1": "gzip",
		"br;q=1, gzip;q=0.001": "gzip",
		"gzip;q=0":             "identity", "gzip; q=0.000": "identity", "gzip;q= 0 ": "identity", "x-gzip": "identity",
		"*": "identity",
	} {
		x := &pipeline.Exchange{Header: http.Header{"Accept-Encoding": {accept}}}
		if requestReadableEncoding(x); len(x.Header["Accept-Encoding"]) != 1 || x.Header["Accept-Encoding"][0] != want {
			t.Errorf("requestReadableEncoding(%q): Accept-Encoding = %q, want %q", accept, x.Header["Accept-Encoding"], want)
		}
	}
}

// TestResponsesAreReadUpToTheLimit checks that a response is read up to the limit,
// and that restore lets the body of every response begin again at its first byte.
func TestResponsesAreReadUpToTheLimit(t *testing.T) {
	t.Parallel()
	const text = `{"errors":[{"message":"a text of more than the head's bytes"}]}`
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = io.WriteString(z, text)
	_ = z.Close()
	for _, test := range []struct {
		name    string
		body    io.Reader
		coding  []string
		limit   int
		isValid bool
	}{
		{"a body of the largest size", strings.NewReader(text), nil, len(text), true},
		{"a body over the largest size", strings.NewReader(text), nil, len(text) - 1, false},
		{
			"a body that breaks off", io.MultiReader(strings.NewReader(text[:40]), iotest.ErrReader(errors.New("broken"))), nil,
			1000, false,
		},
		{"an identity encoding", strings.NewReader(text), []string{"identity, "}, 1000, true},
		{"gzip", bytes.NewReader(zipped.Bytes()), []string{"GZIP"}, 1000, true},
		{"gzip over the largest size", bytes.NewReader(zipped.Bytes()), []string{"gzip"}, len(text) - 1, false},
		{"gzip twice", bytes.NewReader(zipped.Bytes()), []string{"gzip, gzip"}, 1000, false},
		{"gzip twice, in two fields", bytes.NewReader(zipped.Bytes()), []string{"gzip", "x-gzip"}, 1000, false},
		{"brotli", strings.NewReader(text), []string{"br"}, 1000, false},
		{"plain text declared as gzip", strings.NewReader(text), []string{"gzip"}, 1000, false},
	} {
		r := &http.Response{Header: http.Header{"Content-Encoding": test.coding}, Body: io.NopCloser(test.body)}
		gr, err := openResponse(r)
		if err == nil {
			gr.startsWithData()
			var whole []byte
			if whole, err = gr.readAll(int64(test.limit)); err == nil && string(whole) != text {
				err = fmt.Errorf("body = %q, want the whole response", whole)
			}
		}
		if (err == nil) != test.isValid {
			t.Errorf("openResponse(%s) and readAll(%d) error = %v, want success: %t", test.name, test.limit, err, test.isValid)
		}
		gr.restore(r)
		if restored, _ := io.ReadAll(r.Body); !strings.HasPrefix(text, string(restored)) &&
			!bytes.Equal(restored, zipped.Bytes()) || len(restored) < 40 {
			t.Errorf("restore(%s): body = %q, want a prefix of the response of at least 40 bytes", test.name, restored)
		}
	}
}

// TestResponsesWithDataAreRecognized checks which responses begin with an object as their data. The operations of these
// responses were executed, so they have no validation errors, and need not be read further.
func TestResponsesWithDataAreRecognized(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		`{"data":{"a":1}}`: true, " {\n\t\"data\" : { \"a\":1}}": true,
		`{"data":null,"errors":[]}`: false, `{"data":[]}`: false, `{"errors":[],"data":{}}`: false, `[{"data":{}}]`: false,
		`{"data"`: false, "": false,
		strings.Repeat(" ", prefixBytes) + `{"data":{}}`: false, `{"Data":{}}`: false, `{"da\u0074a":{}}`: false,
	} {
		gr, err := openResponse(&http.Response{Header: http.Header{}, Body: io.NopCloser(strings.NewReader(text))})
		if err != nil {
			t.Fatal(err)
		}
		if got := gr.startsWithData(); got != want {
			t.Errorf("startsWithData(%q) = %t, want %t", text, got, want)
		}
	}
}
