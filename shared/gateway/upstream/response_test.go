package upstream

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatewright/gatewright/internal/deadline"
	"github.com/gatewright/gatewright/shared/operation/simulations"
)

// script is what a server sends behind a request, whatever it is.
type script struct {
	method string
	bytes  []byte
	// cuts and records are where its writes and its TLS records end, pseudo-random
	// by this seed.
	seed   uint64
	secure bool // over TLS, for our round trip
}

// reply answers the request behind the script's, on whatever connection.
const reply = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nX-Reply: yes\r\n\r\nown"

// outcome is what a caller sees of a response.
type outcome struct {
	Informational []string
	Status        int
	Proto         string
	Header        http.Header
	Length        int64
	Encoding      []string
	Close         bool
	Body          string
	Trailer       http.Header
	Failed        string // "" for a whole response, "head" or "body"
}

// needsMore reports whether a script is no complete answer, so that a reader
// waits for more of it until the connection ends.
func (s *script) needsMore() bool {
	ended := false
	r := bufio.NewReader(io.MultiReader(bytes.NewReader(s.bytes), readFunc(func([]byte) (int, error) {
		ended = true
		return 0, io.EOF
	})))
	for {
		response, err := http.ReadResponse(r, &http.Request{Method: s.method})
		if err != nil {
			return ended
		}
		if response.StatusCode < 100 || response.StatusCode >= 200 || response.StatusCode == http.StatusSwitchingProtocols {
			_, _ = io.Copy(io.Discard, response.Body)
			return ended
		}
	}
}

type readFunc func([]byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

// see does a round trip and takes down all of it.
func see(r *http.Request, trip func(*http.Request, func(int, http.Header)) (*http.Response, error)) (o outcome, err error) {
	response, err := trip(r, func(status int, h http.Header) {
		h = h.Clone()
		delete(h, "Connection") // as below
		o.Informational = append(o.Informational, fmt.Sprint(status, h))
	})
	if err != nil {
		o.Failed = "head"
		return o, err
	}
	var all []byte
	if response.StatusCode != http.StatusSwitchingProtocols { // then it is a connection, and open
		all, err = io.ReadAll(response.Body)
	}
	_ = response.Body.Close()
	o.Status, o.Proto, o.Header, o.Length, o.Close = response.StatusCode, response.Proto, response.Header, response.ContentLength, response.Close
	o.Encoding, o.Trailer = response.TransferEncoding, response.Trailer
	if o.Close {
		// http.Transport takes this field away with all that it lists; ours puts it
		// back for CleanResponse (heads.go).
		delete(o.Header, "Connection")
	}
	if err != nil {
		// How much was read before it failed is a matter of timing.
		o.Failed, o.Trailer = "body", nil
		return o, err
	}
	o.Body = string(all)
	return o, nil
}

// standard is http.Transport's round trip; it tells of 1xx responses as ours
// does.
func standard(t *http.Transport) func(*http.Request, func(int, http.Header)) (*http.Response, error) {
	return func(r *http.Request, tell func(int, http.Header)) (*http.Response, error) {
		return t.RoundTrip(r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
			Got1xxResponse: func(code int, header textproto.MIMEHeader) error {
				if code != http.StatusContinue {
					tell(code, http.Header(header))
				}
				return nil
			},
		})))
	}
}

// The ways in which ours is stricter than http.Transport. Anything else that
// differs is a defect.
var stricter = map[string]error{
	"a status outside 100 to 599":   errStatus,
	"more than eight 1xx responses": errTooManyInformational,
	"a switch that nobody asked":    errSwitched,
}

const responseHeaderBytes = 8 << 10

// compare plays a script to our round trip and to http.Transport. It answers
// how ours was stricter, "" for not at all, and what both saw.
func compare(t testing.TB, s script, server, client *tls.Config) (how string, got outcome) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline.Long())
	defer cancel()
	ask := func(scheme, method string) *http.Request {
		return (&http.Request{Method: method, URL: &url.URL{Scheme: scheme, Host: "up.test", Path: "/"}, Header: http.Header{}, Host: "up.test"}).WithContext(ctx)
	}

	theirs := newPeer(script{method: s.method, bytes: s.bytes, seed: s.seed}, nil)
	transport := &http.Transport{DialContext: theirs.inMemory, DisableCompression: true, DisableKeepAlives: true, MaxResponseHeaderBytes: responseHeaderBytes}
	want, theirErr := see(ask("http", s.method), standard(transport))

	ours := newPeer(s, server)
	d := &direct{maxHeaderBytes: responseHeaderBytes}
	d.pool = pool{dial: ours.dial, tls: client, tlsTime: 20 * time.Second, perHost: 4, most: 4}
	trip := func(r *http.Request, tell func(int, http.Header)) (*http.Response, error) {
		return d.send(way{account: "demo"}, 20*time.Second, r, tell)
	}
	scheme := "http"
	if s.secure {
		scheme = "https"
	}
	got, err := see(ask(scheme, s.method), trip)

	report := func(format string, args ...any) {
		t.Helper()
		t.Errorf("%s %q, seed %d, TLS %v: %s", s.method, s.bytes, s.seed, s.secure, fmt.Sprintf(format, args...))
	}
	if ctx.Err() != nil {
		report("nobody ended it: ours %v, theirs %v", err, theirErr)
	}
	if !reflect.DeepEqual(got, want) {
		for name, sentinel := range stricter {
			if errors.Is(err, sentinel) {
				how = name
			}
		}
		if how == "" {
			report("ours %+v (%v)\ntheirs %+v (%v)", got, err, want, theirErr)
		}
	}

	// All of the script is there before the next request goes out.
	<-ours.wrote
	next, err := see(ask(scheme, http.MethodGet), trip)
	if err != nil || next.Body != "own" || next.Status != 200 || next.Header.Get("X-Reply") != "yes" || len(next.Informational) > 0 {
		report("the next request's answer is %+v, %v", next, err)
	}
	d.pool.close()
	cancel()
	ours.wg.Wait()
	return how, got
}

// certificates are a server's and its client's configuration.
func certificates(t testing.TB) (server, client *tls.Config) {
	t.Helper()
	trusted := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(trusted.Close)
	client = onlyHTTP1(trusted.Client().Transport.(*http.Transport).TLSClientConfig)
	client.ServerName = "example.com"
	return &tls.Config{Certificates: trusted.TLS.Certificates, MinVersion: tls.VersionTLS12}, client
}

// TestResponsesAreReadAsHTTPTransportReadsThem plays 50,000 generated responses,
// one in 100 of them over TLS, where its records are cut as well.
func TestResponsesAreReadAsHTTPTransportReadsThem(t *testing.T) {
	server, client := certificates(t)
	count := simulations.Runs(50_000)
	var mu sync.Mutex
	kinds := map[string]int{}
	var wg sync.WaitGroup
	const workers = 4
	for worker := range workers {
		wg.Go(func() {
			for i := worker; i < count && !t.Failed(); i += workers {
				random := rand.New(rand.NewPCG(uint64(i), 9))
				s := generate(random)
				s.secure = i/workers%100 == 0
				how, got := compare(t, s, server, client)
				mu.Lock()
				switch {
				case how != "":
					kinds["stricter: "+how]++
				case got.Failed != "":
					kinds["failed in its "+got.Failed]++
				default:
					kinds[fmt.Sprintf("%dxx", got.Status/100)]++
				}
				if len(got.Trailer) > 0 {
					kinds["with trailers"]++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for _, kind := range []string{"2xx", "3xx", "5xx", "failed in its head", "failed in its body", "with trailers"} {
		if kinds[kind] < count/100 {
			t.Errorf("%d of the kind %q: the test has become one-sided: %v", kinds[kind], kind, kinds)
		}
	}
	for name := range stricter {
		if kinds["stricter: "+name] < count/1_000 {
			t.Errorf("%q was not seen: %v", name, kinds)
		}
	}
	t.Log(kinds)
}

// generate writes a response as servers do, and as they should not.
func generate(random *rand.Rand) script {
	pick := func(texts ...string) string { return texts[random.IntN(len(texts))] }
	rarely := func(text string) string {
		if random.IntN(12) == 0 {
			return text
		}
		return ""
	}
	var b strings.Builder
	eol := "\r\n"
	if random.IntN(15) == 0 {
		eol = "\n"
	}
	line := func(parts ...string) { b.WriteString(strings.Join(parts, "") + eol) }

	informational := 0
	if random.IntN(6) == 0 {
		informational = random.IntN(12)
	}
	for range informational {
		line("HTTP/1.1 ", pick("100 Continue", "103 Early Hints", "103 Early Hints", "102 Processing", "199 Odd", "150"))
		if random.IntN(2) == 0 {
			line("X-Early: ", pick("1", "2"))
		}
		line(rarely("Content-Length: 5"))
		b.WriteString(rarely(eol))
	}
	proto := pick("HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/1.0", rarely("HTTP/2.0")+"HTTP/1.1", rarely("http/1.1")+"HTTP/1.1")
	status := pick("200 OK", "200 OK", "200 OK", "200", "204 No Content", "304 Not Modified", "302 Found", "404 Not Found", "500 Oops", "206 Partial Content", "205 Reset Content",
		pick("200 OK", "101 Switching Protocols", "000 Zero", "099 Early", "600 Late", "999 Last", "20 Short", "2000 Long", "-12 Minus", "abc", "", "+20 Plus", "426 Upgrade Required"))
	line(proto, " ", status)

	body := strings.Repeat(pick("x", "HTTP/1.1 200 OK\r\n\r\n", "0\r\n\r\n"), random.IntN(6)) + pick("", "text")
	if random.IntN(20) == 0 {
		body = strings.Repeat("long ", random.IntN(8_000))
	}
	length := func() string {
		switch random.IntN(14) {
		case 0:
			return pick("", "-1", "+4", "0x4", "4 ", " 4", "4, 4", "99999999999999999999", "04", "4;", "\x00")
		case 1:
			return fmt.Sprint(len(body) + random.IntN(4)) // the end comes early
		case 2:
			return fmt.Sprint(max(0, len(body)-random.IntN(4))) // there is more
		default:
			return fmt.Sprint(len(body))
		}
	}
	chunked := false
	var fields []string
	switch random.IntN(8) {
	case 0, 1, 2:
		fields = append(fields, "Content-Length: "+length())
		if random.IntN(6) == 0 {
			fields = append(fields, "Content-Length: "+length())
		}
	case 3, 4, 5:
		chunked = true
		fields = append(fields, pick("Transfer-Encoding", "Transfer-Encoding", "transfer-encoding")+": "+pick("chunked", "chunked", "chunked", "Chunked", rarely("gzip, ")+"chunked", rarely("identity")+"chunked"))
		if random.IntN(8) == 0 {
			fields = append(fields, pick("Transfer-Encoding: chunked", "Content-Length: "+length(), "Transfer-Encoding: identity"))
		}
	case 6: // until the connection ends
	case 7:
		fields = append(fields, "Content-Length: "+length(), "Transfer-Encoding: chunked")
		chunked = random.IntN(2) == 0
	}
	trailers := chunked && random.IntN(3) == 0
	if trailers && random.IntN(3) > 0 {
		fields = append(fields, "Trailer: "+pick("X-Sum", "X-Sum, X-Other", "Content-Length", "", "X Sum"))
	}
	for range random.IntN(4) {
		fields = append(fields, pick("X-A: 1", "X-A: 2", "Content-Type: text/plain", "Set-Cookie: a=b", "Connection: keep-alive", "Connection: close", "Connection: close, keep-alive",
			"Keep-Alive: timeout=5", "Upgrade: h2c", "Connection: Upgrade", "X-Empty:", "X-Spaces:   a  ", "x-lower: 1", "Content-Encoding: gzip", "Date: x",
			pick("X-A: 1", "X-Fold: a\r\n b", "No-Colon", ": no name", "X-Space : 1", "X-Ctl: \x01", "X-\x80: y", " X-Lead: 1", "X-Nul: \x00", "X-Long: "+strings.Repeat("y", 9_000), "X-Cr: a\rb")))
	}
	random.Shuffle(len(fields), func(i, j int) { fields[i], fields[j] = fields[j], fields[i] })
	for _, field := range fields {
		line(field)
	}
	line()

	if !chunked {
		b.WriteString(body)
	} else {
		for _, chunk := range cut([]byte(body), random) {
			size := fmt.Sprintf(pick("%x", "%x", "%x", "%x", "%X", "0%x"), len(chunk))
			if random.IntN(25) == 0 {
				size = pick("", "g", "-1", size+" ", " "+size, "0x"+size, size+"f", "fffffffffffffffff", size+";a=b", size+";", size+"\x00", size+";"+strings.Repeat("z", 5_000))
			}
			b.WriteString(size + pick("\r\n", "\r\n", "\r\n", "\r\n", eol) + string(chunk) + pick("\r\n", "\r\n", "\r\n", "\r\n", "\r\n", "\r\n", rarely("x")+"\r\n"))
		}
		b.WriteString(pick("0\r\n", "0\r\n", "0\r\n", "0\r\n", "000\r\n", "0;x=y\r\n", rarely("0")+"0\r\n"))
		if trailers {
			for range random.IntN(3) {
				b.WriteString(pick("X-Sum: 1\r\n", "X-Other: 2\r\n", "Content-Length: 7\r\n", "Transfer-Encoding: chunked\r\n", "X-Sum: 3\r\n", "bad\r\n", "X-Big: "+strings.Repeat("t", 5_000)+"\r\n"))
			}
		}
		b.WriteString(pick("\r\n", "\r\n", "\r\n", "\r\n", "\r\n", "\n"))
	}
	switch random.IntN(6) { // what nobody asked for
	case 0:
		b.WriteString(pick("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong", "x", "\r\n", "HTTP/1.1 408 Request Timeout\r\n\r\n", "HTTP/1.1 100 Continue\r\n\r\n"))
	}
	all := []byte(b.String())
	switch random.IntN(12) {
	case 0:
		all = all[:random.IntN(len(all)+1)] // an early end
	case 1:
		if len(all) > 0 && random.IntN(2) == 0 {
			all[random.IntN(len(all))] = byte(random.IntN(256))
		}
	}
	return script{method: pick("GET", "GET", "GET", "HEAD", "OPTIONS", "DELETE"), bytes: all, seed: random.Uint64()}
}

// FuzzResponse compares our reading of any bytes with http.Transport's.
func FuzzResponse(f *testing.F) {
	server, client := certificates(f)
	random := rand.New(rand.NewPCG(1, 10))
	for range 200 {
		s := generate(random)
		f.Add(s.method == http.MethodHead, s.bytes, s.seed, random.IntN(4) == 0)
	}
	f.Fuzz(func(t *testing.T, head bool, all []byte, seed uint64, secure bool) {
		if len(all) > 64<<10 {
			t.Skip() // more than a pair of sockets holds
		}
		s := script{method: http.MethodGet, bytes: slices.Clone(all), seed: seed, secure: secure}
		if head {
			s.method = http.MethodHead
		}
		compare(t, s, server, client)
	})
}
