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

	"github.com/gatewright/gatewright/shared/testing/deadline"
	"github.com/gatewright/gatewright/shared/testing/simulations"
)

// script is the response that a server sends to the first request. It does not depend on the request.
type script struct {
	method string // of the first request
	bytes  []byte
	// The seed determines where the bytes are split into TCP segments and TLS records.
	seed   uint64
	secure bool // whether our client uses TLS; http.Transport never does
}

// reply is the response to every request except the first one. The response to the first request is the script.
const reply = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nX-Reply: yes\r\n\r\nown"

// outcome is everything about a response that its caller can observe.
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
	Failed        string // where reading failed: "head", "body", or "" for a complete response
}

// isIncomplete reports whether a reader of the script's response would wait for more bytes until the connection is
// closed.
func (s *script) isIncomplete() bool {
	reachedEOF := false
	r := bufio.NewReader(io.MultiReader(bytes.NewReader(s.bytes), readFunc(func([]byte) (int, error) {
		reachedEOF = true
		return 0, io.EOF
	})))
	for {
		response, err := http.ReadResponse(r, &http.Request{Method: s.method})
		if err != nil {
			return reachedEOF
		}
		if response.StatusCode < 100 || response.StatusCode >= 200 || response.StatusCode == http.StatusSwitchingProtocols {
			_, _ = io.Copy(io.Discard, response.Body)
			return reachedEOF
		}
	}
}

type readFunc func([]byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

// recordOutcome does a round trip, including reading the body, and records its outcome.
func recordOutcome(
	r *http.Request, roundTrip func(*http.Request, func(int, http.Header)) (*http.Response, error),
) (o outcome, err error) {
	response, err := roundTrip(r, func(status int, h http.Header) {
		h = h.Clone()
		delete(h, "Connection") // only our code restores this field, see below
		o.Informational = append(o.Informational, fmt.Sprint(status, h))
	})
	if err != nil {
		o.Failed = "head"
		return o, err
	}
	var all []byte
	if response.StatusCode != http.StatusSwitchingProtocols { // after a switch, the body is an open connection
		all, err = io.ReadAll(response.Body)
	}
	_ = response.Body.Close()
	o.Status, o.Proto, o.Header, o.Length, o.Close = response.StatusCode, response.Proto, response.Header,
		response.ContentLength, response.Close
	o.Encoding, o.Trailer = response.TransferEncoding, response.Trailer
	if o.Close {
		// http.Transport removes this field, regardless of the names in it. Our code
		// restores it for CleanResponse (heads.go), so that the two would differ.
		delete(o.Header, "Connection")
	}
	if err != nil {
		// The body that was read before a failure depends on timing, so it is not compared.
		o.Failed, o.Trailer = "body", nil
		return o, err
	}
	o.Body = string(all)
	return o, nil
}

// standardRoundTrip returns http.Transport's round trip as a function that reports informational responses, as our
// function does.
func standardRoundTrip(t *http.Transport) func(*http.Request, func(int, http.Header)) (*http.Response, error) {
	return func(r *http.Request, onInformational func(int, http.Header)) (*http.Response, error) {
		return t.RoundTrip(r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
			Got1xxResponse: func(code int, header textproto.MIMEHeader) error {
				if code != http.StatusContinue {
					onInformational(code, http.Header(header))
				}
				return nil
			},
		})))
	}
}

// stricterCases are the errors of our code for responses that
// http.Transport accepts. Any other difference between the two is a defect.
var stricterCases = map[string]error{
	"a status outside 100 to 599":   errStatus,
	"more than eight 1xx responses": errTooManyInformational,
	"an unrequested switch":         errSwitched,
}

// responseHeaderBytes is the limit of a response's header in these tests.
const responseHeaderBytes = 8 << 10

// compareWithTransport plays a script to our client and to http.Transport. It returns our client's
// outcome, and the key of stricterCases if our client was stricter, "" otherwise. Any other difference fails the test.
func compareWithTransport(t testing.TB, s script, server, client *tls.Config) (stricterCase string, got outcome) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline.Timeout())
	defer cancel()
	newRequest := func(scheme, method string) *http.Request {
		return (&http.Request{
			Method: method, URL: &url.URL{Scheme: scheme, Host: "up.test", Path: "/"},
			Header: http.Header{}, Host: "up.test",
		}).WithContext(ctx)
	}

	standardServer := newScriptedServer(script{method: s.method, bytes: s.bytes, seed: s.seed}, nil)
	transport := &http.Transport{
		DialContext: standardServer.dialMemory, DisableCompression: true, DisableKeepAlives: true,
		MaxResponseHeaderBytes: responseHeaderBytes,
	}
	want, wantErr := recordOutcome(newRequest("http", s.method), standardRoundTrip(transport))

	directServer := newScriptedServer(s, server)
	d := &direct{maxHeaderBytes: responseHeaderBytes}
	d.pool = pool{dial: directServer.dial, tls: client, tlsTimeout: 20 * time.Second, perHost: 4, maxIdle: 4}
	roundTrip := func(r *http.Request, onInformational func(int, http.Header)) (*http.Response, error) {
		return d.send(identity{account: "demo"}, 20*time.Second, r, onInformational)
	}
	scheme := "http"
	if s.secure {
		scheme = "https"
	}
	got, err := recordOutcome(newRequest(scheme, s.method), roundTrip)

	report := func(format string, args ...any) {
		t.Helper()
		t.Errorf("%s %q, seed %d, TLS %t: %s; want what http.Transport does",
			s.method, s.bytes, s.seed, s.secure, fmt.Sprintf(format, args...))
	}
	if ctx.Err() != nil {
		report("the round trips did not end in time (ours %v, theirs %v)", err, wantErr)
	}
	if !reflect.DeepEqual(got, want) {
		for name, sentinel := range stricterCases {
			if errors.Is(err, sentinel) {
				stricterCase = name
			}
		}
		if stricterCase == "" {
			report("ours %+v (%v)\ntheirs %+v (%v)", got, err, want, wantErr)
		}
	}

	// Wait until the whole script was written before sending the next request.
	<-directServer.written
	next, err := recordOutcome(newRequest(scheme, http.MethodGet), roundTrip)
	if err != nil || next.Body != "own" || next.Status != 200 || next.Header.Get("X-Reply") != "yes" ||
		len(next.Informational) > 0 {
		report("the response to the next request = %+v, %v, want the text of reply", next, err)
	}
	d.pool.close()
	cancel()
	directServer.wg.Wait()
	return stricterCase, got
}

// certificates returns the TLS configurations of a server and of a client that trusts it.
func certificates(t testing.TB) (server, client *tls.Config) {
	t.Helper()
	trusted := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(trusted.Close)
	client = onlyHTTP1(trusted.Client().Transport.(*http.Transport).TLSClientConfig)
	client.ServerName = "example.com"
	return &tls.Config{Certificates: trusted.TLS.Certificates, MinVersion: tls.VersionTLS12}, client
}

// TestResponsesMatchHTTPTransport checks that our code and http.Transport read generated responses in the same way,
// except for stricterCases. By default there are 50,000 responses. Our code receives one in 100 of them over TLS.
// Then its bytes are split into TLS records, and the records are split independently into TCP segments.
func TestResponsesMatchHTTPTransport(t *testing.T) {
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
				stricterCase, got := compareWithTransport(t, s, server, client)
				mu.Lock()
				switch {
				case stricterCase != "":
					kinds["stricter: "+stricterCase]++
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
			t.Errorf("responses of the kind %q = %d, want at least %d: %v", kind, kinds[kind], count/100, kinds)
		}
	}
	for name := range stricterCases {
		if kinds["stricter: "+name] < count/1_000 {
			t.Errorf("responses of the stricter case %q = %d, want at least %d: %v",
				name, kinds["stricter: "+name], count/1_000, kinds)
		}
	}
	t.Log(kinds)
}

// responseMaker generates valid and invalid responses.
type responseMaker struct {
	*rand.Rand
	out               strings.Builder
	eol, body         string
	chunked, trailers bool
}

func (m *responseMaker) pick(texts ...string) string { return texts[m.IntN(len(texts))] }

// sometimes returns the text in one of twelve cases, and "" otherwise.
func (m *responseMaker) sometimes(text string) string {
	if m.IntN(12) == 0 {
		return text
	}
	return ""
}

func (m *responseMaker) line(parts ...string) {
	m.out.WriteString(strings.Join(parts, "") + m.eol)
}

func (m *responseMaker) writeInformational() {
	informational := 0
	if m.IntN(6) == 0 {
		informational = m.IntN(12)
	}
	for range informational {
		m.line("HTTP/1.1 ", m.pick("100 Continue", "103 Early Hints", "103 Early Hints", "102 Processing", "199 Odd", "150"))
		if m.IntN(2) == 0 {
			m.line("X-Early: ", m.pick("1", "2"))
		}
		m.line(m.sometimes("Content-Length: 5"))
		m.out.WriteString(m.sometimes(m.eol))
	}
}

func (m *responseMaker) writeStatus() {
	proto := m.pick("HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/1.0",
		m.sometimes("HTTP/2.0")+"HTTP/1.1", m.sometimes("http/1.1")+"HTTP/1.1")
	status := m.pick("200 OK", "200 OK", "200 OK", "200", "204 No Content", "304 Not Modified", "302 Found",
		"404 Not Found", "500 Oops", "206 Partial Content", "205 Reset Content",
		m.pick("200 OK", "101 Switching Protocols", "000 Zero", "099 Early", "600 Late", "999 Last", "20 Short", "2000 Long",
			"-12 Minus", "abc", "", "+20 Plus", "426 Upgrade Required"))
	m.line(proto, " ", status)
}

// length returns a value for Content-Length, usually the length of the body.
func (m *responseMaker) length() string {
	switch m.IntN(14) {
	case 0:
		return m.pick("", "-1", "+4", "0x4", "4 ", " 4", "4, 4", "99999999999999999999", "04", "4;", "\x00")
	case 1:
		return fmt.Sprint(len(m.body) + m.IntN(4)) // the body ends early
	case 2:
		return fmt.Sprint(max(0, len(m.body)-m.IntN(4))) // bytes follow the body
	default:
		return fmt.Sprint(len(m.body))
	}
}

// framing returns header fields that determine where the body ends.
func (m *responseMaker) framing() []string {
	var fields []string
	switch m.IntN(8) {
	case 0, 1, 2:
		fields = append(fields, "Content-Length: "+m.length())
		if m.IntN(6) == 0 {
			fields = append(fields, "Content-Length: "+m.length())
		}
	case 3, 4, 5:
		m.chunked = true
		fields = append(fields, m.pick("Transfer-Encoding", "Transfer-Encoding", "transfer-encoding")+": "+m.pick("chunked",
			"chunked", "chunked", "Chunked", m.sometimes("gzip, ")+"chunked", m.sometimes("identity")+"chunked"))
		if m.IntN(8) == 0 {
			fields = append(fields, m.pick("Transfer-Encoding: chunked", "Content-Length: "+m.length(),
				"Transfer-Encoding: identity"))
		}
	case 6: // the body ends with the connection
	case 7:
		fields = append(fields, "Content-Length: "+m.length(), "Transfer-Encoding: chunked")
		m.chunked = m.IntN(2) == 0
	}
	return fields
}

func (m *responseMaker) writeFields() {
	fields := m.framing()
	m.trailers = m.chunked && m.IntN(3) == 0
	if m.trailers && m.IntN(3) > 0 {
		fields = append(fields, "Trailer: "+m.pick("X-Sum", "X-Sum, X-Other", "Content-Length", "", "X Sum"))
	}
	for range m.IntN(4) {
		fields = append(fields, m.pick("X-A: 1", "X-A: 2", "Content-Type: text/plain", "Set-Cookie: a=b",
			"Connection: keep-alive", "Connection: close", "Connection: close, keep-alive",
			"Keep-Alive: timeout=5", "Upgrade: h2c", "Connection: Upgrade", "X-Empty:", "X-Spaces:   a  ", "x-lower: 1",
			"Content-Encoding: gzip", "Date: x",
			m.pick("X-A: 1", "X-Fold: a\r\n b", "No-Colon", ": no name", "X-Space : 1", "X-Ctl: \x01", "X-\x80: y", " X-Lead: 1",
				"X-Nul: \x00", "X-Long: "+strings.Repeat("y", 9_000), "X-Cr: a\rb")))
	}
	m.Shuffle(len(fields), func(i, j int) { fields[i], fields[j] = fields[j], fields[i] })
	for _, field := range fields {
		m.line(field)
	}
	m.line()
}

func (m *responseMaker) writeChunks() {
	for _, chunk := range splitRandomly([]byte(m.body), m.Rand) {
		size := fmt.Sprintf(m.pick("%x", "%x", "%x", "%x", "%X", "0%x"), len(chunk))
		if m.IntN(25) == 0 {
			size = m.pick("", "g", "-1", size+" ", " "+size, "0x"+size, size+"f", "fffffffffffffffff", size+";a=b", size+";",
				size+"\x00", size+";"+strings.Repeat("z", 5_000))
		}
		m.out.WriteString(size + m.pick("\r\n", "\r\n", "\r\n", "\r\n", m.eol) + string(chunk) + m.pick("\r\n", "\r\n",
			"\r\n", "\r\n", "\r\n", "\r\n", m.sometimes("x")+"\r\n"))
	}
	m.out.WriteString(m.pick("0\r\n", "0\r\n", "0\r\n", "0\r\n", "000\r\n", "0;x=y\r\n", m.sometimes("0")+"0\r\n"))
	if m.trailers {
		for range m.IntN(3) {
			m.out.WriteString(m.pick("X-Sum: 1\r\n", "X-Other: 2\r\n", "Content-Length: 7\r\n", "Transfer-Encoding: chunked\r\n",
				"X-Sum: 3\r\n", "bad\r\n", "X-Big: "+strings.Repeat("t", 5_000)+"\r\n"))
		}
	}
	m.out.WriteString(m.pick("\r\n", "\r\n", "\r\n", "\r\n", "\r\n", "\n"))
}

// generate generates a response. Some responses are cut off, have a changed byte, or are followed by unsolicited bytes.
func generate(random *rand.Rand) script {
	m := &responseMaker{Rand: random, eol: "\r\n"}
	if m.IntN(15) == 0 {
		m.eol = "\n"
	}
	m.writeInformational()
	m.writeStatus()
	m.body = strings.Repeat(m.pick("x", "HTTP/1.1 200 OK\r\n\r\n", "0\r\n\r\n"), m.IntN(6)) + m.pick("", "text")
	if m.IntN(20) == 0 {
		m.body = strings.Repeat("long ", m.IntN(8_000))
	}
	m.writeFields()
	if m.chunked {
		m.writeChunks()
	} else {
		m.out.WriteString(m.body)
	}
	switch m.IntN(6) { // unsolicited bytes
	case 0:
		m.out.WriteString(m.pick("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong", "x", "\r\n",
			"HTTP/1.1 408 Request Timeout\r\n\r\n", "HTTP/1.1 100 Continue\r\n\r\n"))
	}
	all := []byte(m.out.String())
	switch m.IntN(12) {
	case 0:
		all = all[:m.IntN(len(all)+1)] // the response is cut off
	case 1:
		if len(all) > 0 && m.IntN(2) == 0 {
			all[m.IntN(len(all))] = byte(m.IntN(256))
		}
	}
	return script{method: m.pick("GET", "GET", "GET", "HEAD", "OPTIONS", "DELETE"), bytes: all, seed: m.Uint64()}
}

// FuzzResponse checks that our code and http.Transport read any bytes as the same response, except for stricterCases.
func FuzzResponse(f *testing.F) {
	server, client := certificates(f)
	random := rand.New(rand.NewPCG(1, 10))
	for range 200 {
		s := generate(random)
		f.Add(s.method == http.MethodHead, s.bytes, s.seed, random.IntN(4) == 0)
	}
	f.Fuzz(func(t *testing.T, head bool, all []byte, seed uint64, secure bool) {
		if len(all) > 64<<10 {
			t.Skip() // more than the buffer of a socket holds
		}
		s := script{method: http.MethodGet, bytes: slices.Clone(all), seed: seed, secure: secure}
		if head {
			s.method = http.MethodHead
		}
		compareWithTransport(t, s, server, client)
	})
}
