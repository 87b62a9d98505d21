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

	"github.com/gatewright/gatewright/shared/gateway/pipeline"
	"github.com/gatewright/gatewright/shared/graphql"
)

// TestBodiesOfGraphQLAreReadUpToTheirBound, whether they tell their length or not.
func TestBodiesOfGraphQLAreReadUpToTheirBound(t *testing.T) {
	t.Parallel()
	const begin, end = `{"query":"{a}","x":"`, `"}`
	for _, size := range []int{graphql.MaxBodyBytes, graphql.MaxBodyBytes + 1} {
		for _, told := range []bool{true, false} {
			text := begin + strings.Repeat("x", size-len(begin)-len(end)) + end
			x := &pipeline.Exchange{
				Context: t.Context(), Method: http.MethodPost, Header: http.Header{"Content-Type": {"application/json"}},
				Body: io.NopCloser(strings.NewReader(text)), ContentLength: -1,
			}
			if told {
				x.ContentLength = int64(len(text))
			}
			status := http.StatusOK
			if refused := (&graphQLReader{}).read(x); refused != nil {
				status = refused.StatusCode
			}
			if want := map[bool]int{true: http.StatusOK, false: http.StatusRequestEntityTooLarge}[size <= graphql.MaxBodyBytes]; status != want {
				t.Errorf("%d bytes, told %t: %d, want %d", size, told, status, want)
			}
		}
	}
}

// TestNoServerFindsAQueryInTheAddress, however it splits, unescapes and folds it: what can't be unescaped may be anything.
func TestNoServerFindsAQueryInTheAddress(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]bool{
		"": true, "page=1&sort=query": true, "queries=1": true, "&&=;": true,
		"query={a}": false, "a=1&query": false, "a;query=1": false, "a=1;b;query=1": false, "QUERY=1": false, "+query+=1": false, "%20query=1": false, "query[]=1": false,
		"query[a][b]=1": false, "%71uery=1": false, "query%5B%5D=1": false, "operationName=A": false, "variables={}": false, "extensions={}": false, "id=1": false,
		"documentId=1": false, "doc_id=1": false, "queryId=1": false, "hash=1": false, "%zz=1": false, "a=1&%": false, "quer%79%": false, "page=%zz": true,
	} {
		if got := leavesQueryToBody(raw); got != want {
			t.Errorf("%q: %t", raw, got)
		}
	}
}

// TestAnswersAreAskedForInWhatIsRead: by gzip where the client takes that, and by nothing else.
func TestAnswersAreAskedForInWhatIsRead(t *testing.T) {
	t.Parallel()
	for accept, want := range map[string]string{
		"": "identity", "br": "identity", "gzip": "gzip", "br, GZIP": "gzip", "gzip;q=0.5": "gzip", "gzip; q=1": "gzip", "br;q=1, gzip;q=0.001": "gzip",
		"gzip;q=0": "identity", "gzip; q=0.000": "identity", "gzip;q= 0 ": "identity", "x-gzip": "identity", "*": "identity",
	} {
		x := &pipeline.Exchange{Header: http.Header{"Accept-Encoding": {accept}}}
		if askReadable(x); len(x.Header["Accept-Encoding"]) != 1 || x.Header["Accept-Encoding"][0] != want {
			t.Errorf("%q: %q, want %q", accept, x.Header["Accept-Encoding"], want)
		}
	}
}

// TestAnswersAreReadWholeUpToABound, and what was read of others is still there.
func TestAnswersAreReadWholeUpToABound(t *testing.T) {
	t.Parallel()
	const text = `{"errors":[{"message":"a text of more than the head's bytes"}]}`
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = io.WriteString(z, text)
	_ = z.Close()
	for _, test := range []struct {
		name   string
		body   io.Reader
		coding []string
		most   int
		good   bool
	}{
		{"of the largest size", strings.NewReader(text), nil, len(text), true},
		{"larger", strings.NewReader(text), nil, len(text) - 1, false},
		{"broken off", io.MultiReader(strings.NewReader(text[:40]), iotest.ErrReader(errors.New("broken"))), nil, 1000, false},
		{"coded as it is", strings.NewReader(text), []string{"identity, "}, 1000, true},
		{"coded", bytes.NewReader(zipped.Bytes()), []string{"GZIP"}, 1000, true},
		{"coded, and larger then", bytes.NewReader(zipped.Bytes()), []string{"gzip"}, len(text) - 1, false},
		{"coded twice", bytes.NewReader(zipped.Bytes()), []string{"gzip, gzip"}, 1000, false},
		{"coded twice, in two fields", bytes.NewReader(zipped.Bytes()), []string{"gzip", "x-gzip"}, 1000, false},
		{"coded by another", strings.NewReader(text), []string{"br"}, 1000, false},
		{"not coded as it says", strings.NewReader(text), []string{"gzip"}, 1000, false},
	} {
		r := &http.Response{Header: http.Header{"Content-Encoding": test.coding}, Body: io.NopCloser(test.body)}
		a, err := openAnswer(r)
		if err == nil {
			a.beginsWithData()
			var whole []byte
			if whole, err = a.whole(int64(test.most)); err == nil && string(whole) != text {
				err = fmt.Errorf("read is %q", whole)
			}
		}
		if (err == nil) != test.good {
			t.Errorf("%s: %v", test.name, err)
		}
		a.restore(r)
		if restored, _ := io.ReadAll(r.Body); !strings.HasPrefix(text, string(restored)) && !bytes.Equal(restored, zipped.Bytes()) || len(restored) < 40 {
			t.Errorf("%s: restored is %q", test.name, restored)
		}
	}
}

// TestOnlyWhatWasExecutedPassesUnread: an answer that begins with data and an object in it has no error of validation.
func TestOnlyWhatWasExecutedPassesUnread(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		`{"data":{"a":1}}`: true, " {\n\t\"data\" : { \"a\":1}}": true,
		`{"data":null,"errors":[]}`: false, `{"data":[]}`: false, `{"errors":[],"data":{}}`: false, `[{"data":{}}]`: false, `{"data"`: false, "": false,
		strings.Repeat(" ", headBytes) + `{"data":{}}`: false, `{"Data":{}}`: false, `{"da\u0074a":{}}`: false,
	} {
		a, err := openAnswer(&http.Response{Header: http.Header{}, Body: io.NopCloser(strings.NewReader(text))})
		if err != nil {
			t.Fatal(err)
		}
		if got := a.beginsWithData(); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
}
