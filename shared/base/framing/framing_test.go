package framing_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gatewright/gatewright/shared/base/framing"
)

func scanner() *framing.Scanner {
	return &framing.Scanner{Limits: framing.Limits{Bytes: 64 << 10, Fields: 200}}
}

// scanMessage returns the head of the message at the beginning of b and the offset
// of its end. ok is true only for a complete message that is accepted.
func scanMessage(b []byte) (head framing.Head, end int, ok bool) {
	head, done, refusal := scanner().Scan(b)
	if !done || refusal != nil {
		return head, 0, false
	}
	body := head.Body
	n, err := body.Consume(b[head.Size:])
	return head, head.Size + n, err == nil && body.Done()
}

// FuzzHead checks messages that both this package and net/http accept. Both must read the same number of bytes for the
// head and for the body, so that they always agree on where the next request begins.
func FuzzHead(f *testing.F) {
	for _, s := range []string{
		"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcGET / HTTP/1.1\r\n",
		"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\nA: b\r\n\r\nGET",
		"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
		"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"GET http://a:80/ HTTP/1.1\r\nHost: b\r\nExpect: 100-continue\r\n\r\n",
		"CONNECT a:80 HTTP/1.1\r\nHost: b\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: [::1]:80\r\nA: b\r\n c\r\n\r\n",
		"GET / HTTP/1.1\nHost: a\n\n",
		"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3  \r\nabc\r\n00\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: A\r\n\r\n0\r\nA:\x80\r\n\r\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		head, end, ok := scanMessage(b)
		if !ok {
			return
		}
		counting := &counter{r: bytes.NewReader(b)}
		buffered := bufio.NewReader(counting)
		r, err := http.ReadRequest(buffered)
		if err != nil {
			return // net/http may refuse further messages: it then reads no request
		}
		if at := counting.n - buffered.Buffered(); at != head.Size {
			t.Fatalf("size of the head = %d, want %d as net/http reads it: %q", head.Size, at, b)
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatalf("error of net/http for the body = %v, want none as scanMessage() accepts it: %q", err, b)
		}
		if at := counting.n - buffered.Buffered(); at != end {
			t.Fatalf("end of the message = %d, want %d as net/http reads it: %q", end, at, b)
		}
		if r.ContentLength >= 0 && int64(len(body)) != r.ContentLength {
			t.Fatalf("length of the body = %d, want the Content-Length %d: %q", len(body), r.ContentLength, b)
		}
		if r.Host != "" && !framing.ValidHost(r.Host) {
			t.Fatalf("ValidHost(%q) = false, want true as in net/http: %q", r.Host, b)
		}
	})
}

// counter counts the bytes that are read from r.
type counter struct {
	r io.Reader
	n int
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += n
	return n, err
}

// TestSplitInputIsReadTheSame checks that a head, and a body that is accepted, are read in the same way if they arrive
// in pieces.
func TestSplitInputIsReadTheSame(t *testing.T) {
	pieces := []string{
		"GET", "POST", " ", "/", "HTTP/1.1", "HTTP/1.0", "\r\n", "\r", "\n", "Host:", "a", ":80", "\r\n\r\n",
		"Content-Length: 3", "Transfer-Encoding: chunked", "0\r\n\r\n", "3\r\nabc\r\n", ";x", "abc", "A: b",
	}
	rapid.Check(t, func(t *rapid.T) {
		b := []byte("POST / HTTP/1.1\r\nHost: a\r\n" +
			strings.Join(rapid.SliceOf(rapid.SampledFrom(pieces)).Draw(t, "pieces"), ""))
		whole, done, refusal := scanner().Scan(b)
		s := scanner()
		var head framing.Head
		var got bool
		var gotRefusal *framing.Refusal
		for at := 0; at < len(b) && !got && gotRefusal == nil; {
			at = min(len(b), at+rapid.IntRange(1, 9).Draw(t, "n"))
			head, got, gotRefusal = s.Scan(b[:at])
		}
		if got != done || gotRefusal != refusal || head.Size != whole.Size {
			t.Fatalf("Scan(%q) in pieces = %v, %v, size %d, want %v, %v, size %d",
				b, got, gotRefusal, head.Size, done, refusal, whole.Size)
		}
		if !done {
			return
		}
		body, rest := whole.Body, b[whole.Size:]
		n, err := body.Consume(rest)
		other, at := whole.Body, 0
		var otherErr error
		for at < n && otherErr == nil {
			var m int
			m, otherErr = other.Consume(rest[at:min(len(rest), at+rapid.IntRange(1, 3).Draw(t, "m"))])
			if m == 0 {
				break
			}
			at += m
		}
		if err == nil && (at != n || other.Done() != body.Done()) {
			t.Fatalf("body of %q in pieces = %d bytes, done %v, want %d bytes, done %v", rest, at, other.Done(), n, body.Done())
		}
	})
}

func TestValidHost(t *testing.T) {
	for _, good := range []string{
		"a", "a.b-c_d.example", "a.", "A", "127.0.0.1", "127.0.0.1:80", "[::1]", "[::1]:80",
		"a:80", "a:", "a:0", "a:65535", "~!$&'()*+,;=",
	} {
		if !framing.ValidHost(good) {
			t.Errorf("ValidHost(%q) = false, want true", good)
		}
	}
	for _, bad := range []string{
		"", ":80", "a:80x", "a:80:90", "a:80/", "a/", "a b", " a", "a\t", "[::1]x", "[::1]80", "[::1", "::1", "[127.0.0.1]",
		"[fe80::1%25eth0]", "[fe80::1%eth0]",
		"[v1.a]", "[]", "u@a", "u:p@a", "a:65536", "a:-1", "a:+1", "a%41", "ä", "a?b", "a#b", "a\\b", "<a>", `"a"`, "a\x00",
		"a\r\n",
	} {
		if framing.ValidHost(bad) {
			t.Errorf("ValidHost(%q) = true, want false", bad)
		}
	}
}

func TestHeadAllocatesNothing(t *testing.T) {
	head := []byte("GET /repos/octo/hello/issues/42?state=open HTTP/1.1\r\nHost: " +
		"shop-main-0123abc.localhost:9001\r\nUser-Agent: curl/8\r\n" +
		"Accept: */*\r\nAuthorization: Bearer 0123456789\r\nContent-Length: 5\r\n\r\nhello")
	if n := testing.AllocsPerRun(100, func() {
		if _, _, ok := scanMessage(head); !ok {
			t.Fatal("scanMessage() = false, want true")
		}
	}); n > 1 { // the Scanner that the test creates
		t.Errorf("allocations per scan = %v, want at most 1", n)
	}
}

func BenchmarkHead(b *testing.B) {
	head := []byte("GET /repos/octo/hello/issues/42?state=open HTTP/1.1\r\nHost: " +
		"shop-main-0123abc.localhost:9001\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64)\r\n" +
		"Accept: */*\r\nAccept-Encoding: gzip\r\nAccept-Language: en\r\nX-A: b\r\nCookie: a=b; c=d\r\nReferer: " +
		"http://a/b/c\r\nAuthorization: Bearer 0123456789\r\n\r\n")
	s := framing.Scanner{Limits: framing.Limits{Bytes: 64 << 10, Fields: 200}}
	b.ReportAllocs()
	for b.Loop() {
		sc := s
		if _, done, _ := sc.Scan(head); !done {
			b.Fatal("Scan() = not done, want done")
		}
	}
}

// TestChunkOverheadIsBounded checks the bound of the framing of chunks, which depends on the number and size of the
// chunks. A body within the bound is accepted, however long it is, and net/http reads it to its end. A body with more
// framing is refused.
func TestChunkOverheadIsBounded(t *testing.T) {
	const head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
	chunk := func(size int, padding string) string {
		return fmt.Sprintf("%x%s\r\n%s\r\n", size, padding, strings.Repeat("x", size))
	}
	for name, tc := range map[string]struct {
		chunks []string
		pass   bool
	}{
		"padding of each chunk":      {slices.Repeat([]string{chunk(1, "       ")}, 100_000), true},
		"an extension of each chunk": {slices.Repeat([]string{chunk(1, ";n=123456789")}, 100_000), true},
		"extensions in proportion to the data": {
			slices.Repeat([]string{chunk(1000, ";"+strings.Repeat("x", 2000))}, 1000), true,
		},
		"long extensions, and much data": {slices.Repeat([]string{chunk(1, ";"+strings.Repeat("x", 3000)), chunk(1500, "")},
			100), true},
		"long extensions, and little data":      {slices.Repeat([]string{chunk(1, ";"+strings.Repeat("x", 3000))}, 6), false},
		"padding of each chunk above the limit": {slices.Repeat([]string{chunk(1, strings.Repeat(" ", 20))}, 6000), false},
		"a line that is too long":               {[]string{chunk(100_000, ";"+strings.Repeat("x", 4000))}, false},
		"padding that is too long":              {[]string{chunk(100_000, strings.Repeat(" ", 4000))}, false},
		"the longest line":                      {[]string{chunk(0x10000, ";"+strings.Repeat("x", 3994))}, true},
		"long extensions after much data": {append([]string{chunk(100_000, "")},
			slices.Repeat([]string{chunk(1, ";"+strings.Repeat("x", 3000))}, 6)...), false},
	} {
		b := []byte(head + strings.Join(tc.chunks, "") + "0\r\n\r\n")
		if _, end, ok := scanMessage(b); ok != tc.pass || ok && end != len(b) {
			t.Errorf("%s: scanMessage() = end %d, accepted %t, want accepted %t (end %d if accepted)",
				name, end, ok, tc.pass, len(b))
		}
	}
	t.Run("net/http reads accepted bodies", rapid.MakeCheck(func(t *rapid.T) {
		var chunks []string
		for range rapid.IntRange(0, 60).Draw(t, "chunks") {
			size := rapid.SampledFrom([]int{1, 1, 2, 10, 400}).Draw(t, "size")
			padding := rapid.SampledFrom([]int{0, 10, 15, 800, 2000, 3990, 3999}).Draw(t, "padding")
			chunks = append(chunks,
				chunk(size, rapid.SampledFrom([]string{";", " "}).Draw(t, "separator")+strings.Repeat(" ", padding)))
		}
		b := []byte(head + strings.Join(chunks, "") + "0\r\n\r\n")
		if _, end, ok := scanMessage(b); !ok {
			return
		} else if end != len(b) {
			t.Fatalf("scanMessage() = end %d, want %d", end, len(b))
		}
		r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(b)))
		if err != nil {
			t.Fatalf("http.ReadRequest(accepted message) error = %v, want none", err)
		}
		if _, err := io.ReadAll(r.Body); err != nil {
			t.Fatalf("error of net/http for an accepted message of %d bytes = %v, want none", len(b), err)
		}
	}))
}
