package framing_test

import (
	"bufio"
	"net/http"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gatewright/gatewright/shared/base/framing"
)

// TestCheckHTTP1AgreesWithScanner checks that the same rules apply to a
// request that net/http has parsed itself, and that its head ends at the same byte.
func TestCheckHTTP1AgreesWithScanner(t *testing.T) {
	first := []string{
		"GET / HTTP/1.1", "POST / HTTP/1.1", "GET / HTTP/1.0", "GET * HTTP/1.1", "GET http://a/ HTTP/1.1",
		"GET ftp://a/ HTTP/1.1", "CONNECT a:80 HTTP/1.1", "GET a HTTP/1.1",
	}
	fields := []string{
		"Host: a", "Host: a:80x", "host: b", "Host:", "A: b", " folded", "\tfolded", "Content-Length: 3", "content-length: 3",
		"Content-Length: 03",
		"Transfer-Encoding: chunked", "transfer-encoding: Chunked", "Expect: x", "Expect: 100-continue", "Expect:", "A : b",
		"A",
	}
	ends := []string{"\r\n", "\r\n", "\r\n", "\r\n", "\r\n", "\n"}
	counts := map[bool]int{}
	rapid.Check(t, func(t *rapid.T) {
		var text strings.Builder
		text.WriteString(rapid.SampledFrom(first).Draw(t, "first") + rapid.SampledFrom(ends).Draw(t, "end"))
		for _, field := range append([]string{"Host: a"},
			rapid.SliceOfN(rapid.SampledFrom(fields), 0, 3).Draw(t, "fields")...) {
			text.WriteString(field + rapid.SampledFrom(ends).Draw(t, "end"))
		}
		text.WriteString("\r\nabcGET / HTTP/1.1\r\nHost: a\r\n\r\n")
		raw := text.String()
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(raw)))
		if err != nil {
			return
		}
		limits := framing.Limits{Bytes: 64 << 10, Fields: 200}
		head, _, want := (&framing.Scanner{Limits: limits}).Scan([]byte(raw))
		size, got := limits.CheckHTTP1(r, []byte(raw))
		if (got == nil) != (want == nil) {
			t.Fatalf("CheckHTTP1(%q) = %+v, want %+v like Scan()", raw, got, want)
		}
		if want == nil && size != head.Size {
			t.Fatalf("CheckHTTP1(%q) size = %d, want %d", raw, size, head.Size)
		}
		counts[want == nil]++
	})
	if !t.Failed() && (counts[true] == 0 || counts[false] == 0) {
		t.Errorf("Scan() accepts %d heads and refuses %d, want some of each", counts[true], counts[false])
	}
}
