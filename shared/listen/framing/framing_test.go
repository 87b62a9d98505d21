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

	"github.com/gatewright/gatewright/shared/listen/framing"
)

func scanner() *framing.Scanner {
	return &framing.Scanner{Limits: framing.Limits{Bytes: 64 << 10, Fields: 200}}
}

// follow says where the message that b begins with ends: ok only for a whole one
// that is let through.
func follow(b []byte) (head framing.Head, end int, ok bool) {
	head, done, refusal := scanner().Scan(b)
	if !done || refusal != nil {
		return head, 0, false
	}
	body := head.Body
	n, err := body.Take(b[head.Size:])
	return head, head.Size + n, err == nil && body.Done()
}

// FuzzHead: what is let through is what net/http reads, and it reads as much of it:
// a request never begins where only one of the two sees it. Whatever net/http takes
// is let through, but for what the tables of package listen's tests name.
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
		head, end, ok := follow(b)
		if !ok {
			return
		}
		counted := &counter{r: bytes.NewReader(b)}
		buffered := bufio.NewReader(counted)
		r, err := http.ReadRequest(buffered)
		if err != nil {
			return // it may refuse more: nothing is framed then
		}
		if at := counted.n - buffered.Buffered(); at != head.Size {
			t.Fatalf("the head has %d bytes here and %d there: %q", head.Size, at, b)
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatalf("the body is whole here, there %v: %q", err, b)
		}
		if at := counted.n - buffered.Buffered(); at != end {
			t.Fatalf("the message has %d bytes here and %d there: %q", end, at, b)
		}
		if r.ContentLength >= 0 && int64(len(body)) != r.ContentLength {
			t.Fatalf("%d bytes of %d: %q", len(body), r.ContentLength, b)
		}
		if r.Host != "" && !framing.ValidHost(r.Host) {
			t.Fatalf("the host is %q: %q", r.Host, b)
		}
	})
}

type counter struct {
	r io.Reader
	n int
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += n
	return n, err
}

// TestPiecesDoNotMatter: a head and a body are the same however they come.
func TestPiecesDoNotMatter(t *testing.T) {
	pieces := []string{
		"GET", "POST", " ", "/", "HTTP/1.1", "HTTP/1.0", "\r\n", "\r", "\n", "Host:", "a", ":80", "\r\n\r\n",
		"Content-Length: 3", "Transfer-Encoding: chunked", "0\r\n\r\n", "3\r\nabc\r\n", ";x", "abc", "A: b",
	}
	rapid.Check(t, func(t *rapid.T) {
		b := []byte("POST / HTTP/1.1\r\nHost: a\r\n" + strings.Join(rapid.SliceOf(rapid.SampledFrom(pieces)).Draw(t, "pieces"), ""))
		whole, done, refusal := scanner().Scan(b)
		s := scanner()
		var head framing.Head
		var got bool
		var why *framing.Refusal
		for at := 0; at < len(b) && !got && why == nil; {
			at = min(len(b), at+rapid.IntRange(1, 9).Draw(t, "n"))
			head, got, why = s.Scan(b[:at])
		}
		if got != done || why != refusal || head.Size != whole.Size {
			t.Fatalf("%q: at once %v %v %d, in pieces %v %v %d", b, done, refusal, whole.Size, got, why, head.Size)
		}
		if !done {
			return
		}
		body, rest := whole.Body, b[whole.Size:]
		n, err := body.Take(rest)
		other, at := whole.Body, 0
		var failed error
		for at < n && failed == nil {
			var m int
			m, failed = other.Take(rest[at:min(len(rest), at+rapid.IntRange(1, 3).Draw(t, "m"))])
			if m == 0 {
				break
			}
			at += m
		}
		if err == nil && (at != n || other.Done() != body.Done()) {
			t.Fatalf("%q: the body has %d bytes at once, %d in pieces", rest, n, at)
		}
	})
}

func TestHostIsANameOrAnAddressWithOrWithoutAPort(t *testing.T) {
	for _, good := range []string{"a", "a.b-c_d.example", "a.", "A", "127.0.0.1", "127.0.0.1:80", "[::1]", "[::1]:80", "a:80", "a:", "a:0", "a:65535", "~!$&'()*+,;="} {
		if !framing.ValidHost(good) {
			t.Errorf("%q is refused", good)
		}
	}
	for _, bad := range []string{
		"", ":80", "a:80x", "a:80:90", "a:80/", "a/", "a b", " a", "a\t", "[::1]x", "[::1]80", "[::1", "::1", "[127.0.0.1]", "[fe80::1%25eth0]", "[fe80::1%eth0]",
		"[v1.a]", "[]", "u@a", "u:p@a", "a:65536", "a:-1", "a:+1", "a%41", "ä", "a?b", "a#b", "a\\b", "<a>", `"a"`, "a\x00", "a\r\n",
	} {
		if framing.ValidHost(bad) {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestAHeadCostsNoMemory(t *testing.T) {
	head := []byte("GET /repos/octo/hello/issues/42?state=open HTTP/1.1\r\nHost: shop-main-0123abc.localhost:9001\r\nUser-Agent: curl/8\r\n" +
		"Accept: */*\r\nAuthorization: Bearer 0123456789\r\nContent-Length: 5\r\n\r\nhello")
	if n := testing.AllocsPerRun(100, func() {
		if _, _, ok := follow(head); !ok {
			t.Fatal("refused")
		}
	}); n > 1 { // the scanner of this test
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkHead(b *testing.B) {
	head := []byte("GET /repos/octo/hello/issues/42?state=open HTTP/1.1\r\nHost: shop-main-0123abc.localhost:9001\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64)\r\n" +
		"Accept: */*\r\nAccept-Encoding: gzip\r\nAccept-Language: en\r\nX-A: b\r\nCookie: a=b; c=d\r\nReferer: http://a/b/c\r\nAuthorization: Bearer 0123456789\r\n\r\n")
	s := framing.Scanner{Limits: framing.Limits{Bytes: 64 << 10, Fields: 200}}
	b.ReportAllocs()
	for b.Loop() {
		again := s
		if _, done, _ := again.Scan(head); !done {
			b.Fatal("refused")
		}
	}
}

// TestWhatFramesChunksIsBoundedByThem: as much of it as a body has chunks and bytes
// passes however long the body is, more does not, and net/http reads to its end
// whatever passes.
func TestWhatFramesChunksIsBoundedByThem(t *testing.T) {
	const head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
	chunk := func(size int, behind string) string {
		return fmt.Sprintf("%x%s\r\n%s\r\n", size, behind, strings.Repeat("x", size))
	}
	for name, tc := range map[string]struct {
		chunks []string
		pass   bool
	}{
		"padding of each":                {slices.Repeat([]string{chunk(1, "       ")}, 100_000), true},
		"an extension of each":           {slices.Repeat([]string{chunk(1, ";n=123456789")}, 100_000), true},
		"one in proportion":              {slices.Repeat([]string{chunk(1000, ";"+strings.Repeat("x", 2000))}, 1000), true},
		"a long one, and much":           {slices.Repeat([]string{chunk(1, ";"+strings.Repeat("x", 3000)), chunk(1500, "")}, 100), true},
		"long ones for nothing":          {slices.Repeat([]string{chunk(1, ";"+strings.Repeat("x", 3000))}, 6), false},
		"a little more for each":         {slices.Repeat([]string{chunk(1, strings.Repeat(" ", 20))}, 6000), false},
		"a line that is too long":        {[]string{chunk(100_000, ";"+strings.Repeat("x", 4000))}, false},
		"padding that is too long":       {[]string{chunk(100_000, strings.Repeat(" ", 4000))}, false},
		"the longest line":               {[]string{chunk(0x10000, ";"+strings.Repeat("x", 3994))}, true},
		"nothing saved by what was sent": {append([]string{chunk(100_000, "")}, slices.Repeat([]string{chunk(1, ";"+strings.Repeat("x", 3000))}, 6)...), false},
	} {
		b := []byte(head + strings.Join(tc.chunks, "") + "0\r\n\r\n")
		if _, end, ok := follow(b); ok != tc.pass || ok && end != len(b) {
			t.Errorf("%s: %d bytes of %d, whole %v", name, end, len(b), ok)
		}
	}
	t.Run("no more than net/http reads", rapid.MakeCheck(func(t *rapid.T) {
		var chunks []string
		for range rapid.IntRange(0, 60).Draw(t, "chunks") {
			size := rapid.SampledFrom([]int{1, 1, 2, 10, 400}).Draw(t, "size")
			behind := rapid.SampledFrom([]int{0, 10, 15, 800, 2000, 3990, 3999}).Draw(t, "behind")
			chunks = append(chunks, chunk(size, rapid.SampledFrom([]string{";", " "}).Draw(t, "by")+strings.Repeat(" ", behind)))
		}
		b := []byte(head + strings.Join(chunks, "") + "0\r\n\r\n")
		if _, end, ok := follow(b); !ok {
			return
		} else if end != len(b) {
			t.Fatalf("%d bytes of %d", end, len(b))
		}
		r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(b)))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(r.Body); err != nil {
			t.Fatalf("%d bytes pass, and net/http says %v", len(b), err)
		}
	}))
}
