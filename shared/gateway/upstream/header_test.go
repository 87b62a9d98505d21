package upstream

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/gatewright/gatewright/shared/operation/simulations"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/http/httpguts"
)

// The rule by names as CGI would spell them.
var (
	noneOfName  = regexp.MustCompile(`[^A-Z0-9]+`)
	connectionS = regexp.MustCompile(`^(CONNECTION|KEEP_ALIVE|PROXY(_CONNECTION|_AUTHENTICATE|_AUTHORIZATION)?|TE|TRAILER|TRANSFER_ENCODING|UPGRADE|HTTP2_SETTINGS)$`)
	gatewayS    = regexp.MustCompile(`^(FORWARDED|X_FORWARDED_(FOR|HOST|PROTO|PORT|SERVER)|X_REAL_IP|X_REQUEST_ID|TRACEPARENT|TRACESTATE|VIA)$`)
	framingS    = regexp.MustCompile(`^(HOST|CONTENT_LENGTH)$`)
)

// mayPass is the rule in other words: whether a client may send a field upstream,
// given what its Connection fields list.
func mayPass(name string, listed []string, underscores bool) bool {
	cgi := strings.Trim(noneOfName.ReplaceAllString(strings.ToUpper(name), "_"), "_")
	switch {
	case !httpguts.ValidHeaderFieldName(name),
		strings.Contains(name, "_") && !underscores,
		slices.ContainsFunc(listed, func(l string) bool { return strings.EqualFold(l, name) }),
		connectionS.MatchString(cgi),
		gatewayS.MatchString(cgi),
		// As they are these two are ignored, since others say what they say.
		framingS.MatchString(cgi) && name != "Host" && name != "Content-Length":
		return false
	}
	return true
}

// generator makes headers of names that are near to those that matter.
type generator struct{ *rand.Rand }

func (g generator) pick(of ...string) string { return of[g.IntN(len(of))] }

func (g generator) name() string {
	name := g.pick(slices.Concat(hopByHop, ours, misread, []string{
		"Host", "Content-Length", "Content-Type", "Authorization", "Cookie", "Accept", "X-Api-Key", "X-Custom", "Range", "If-Match", "Referer",
		"User-Agent", "X", "", "-", "Te-", "X-Forwarded", "X-Forwarded-For-", "-Via", "Proxy-X", "Via-X", "Forwarded-For", "Set-Cookie",
	})...)
	switch g.IntN(6) {
	case 0:
		name = strings.ToLower(name)
	case 1:
		name = strings.ToUpper(name)
	case 2:
		name = strings.ReplaceAll(name, "-", g.pick("_", ".", "--", "!", " ", ""))
	case 3:
		name += g.pick("_", ".", " ", "\t", ":", "\n", "é", "1")
	}
	return name
}

func (g generator) connection() []string {
	var out []string
	for range g.IntN(3) {
		tokens := make([]string, g.IntN(5))
		for i := range tokens {
			tokens[i] = g.pick("", " ", "\t") + g.pick("close", "keep-alive", "upgrade", g.name(), g.name(), g.name(), "x-custom", ",", "\"X-Custom\"") + g.pick("", " ", "\t")
		}
		out = append(out, strings.Join(tokens, ","))
	}
	return out
}

func tokens(connection []string) []string {
	var out []string
	for _, value := range connection {
		for token := range strings.SplitSeq(value, ",") {
			out = append(out, strings.Trim(token, " \t\r\n"))
		}
	}
	return out
}

// TestFieldsThatPassAreThoseOfTheRule compares the filter with the rule in other
// words, and with the library's proxy, for headers of all kinds.
func TestFieldsThatPassAreThoseOfTheRule(t *testing.T) {
	simulations.Sequential(t)
	g := generator{rand.New(rand.NewPCG(1, 2))}
	passed, stopped := 0, 0
	for range 20_000 {
		in := http.Header{}
		for range g.IntN(8) {
			in[g.name()] = []string{g.pick("1", "trailers", "websocket", "gzip, Trailers;q=0.5")}
		}
		if connection := g.connection(); len(connection) > 0 {
			in["Connection"] = connection
		}
		f := Filter{Underscores: g.IntN(2) == 0}
		before := in.Clone()
		out, upgrade := f.Request(in)
		if diff := cmp.Diff(before, in); diff != "" {
			t.Fatalf("the client's header has changed: %s", diff)
		}
		var listed []string
		for name, values := range in {
			if strings.EqualFold(name, "Connection") {
				listed = append(listed, tokens(values)...)
			}
		}
		want := http.Header{}
		for name, values := range in {
			if mayPass(name, listed, f.Underscores) {
				canonical := http.CanonicalHeaderKey(name)
				want[canonical] = append(want[canonical], values...)
				passed++
			} else {
				stopped++
			}
		}
		if httpguts.HeaderValuesContainsToken(in["Te"], "trailers") {
			want["Te"] = []string{"trailers"}
		}
		for _, h := range []http.Header{out, want} {
			for _, values := range h {
				slices.Sort(values) // two spellings of a name come in any order
			}
		}
		if diff := cmp.Diff(want, out); diff != "" {
			t.Fatalf("%q: %s", in, diff)
		}
		if upgrade != "" && !slices.ContainsFunc(listed, func(l string) bool { return strings.EqualFold(l, "upgrade") }) {
			t.Fatalf("%q: a switch to %q that is not asked for", in, upgrade)
		}
		theirs := sentByPeer(t, before)
		for name := range out {
			if _, there := theirs[name]; !there && name != "Te" && in[name] != nil {
				t.Fatalf("%q: %s passes, and does not pass a ReverseProxy, which leaves %q", in, name, theirs)
			}
		}
	}
	if passed < 10_000 || stopped < 10_000 {
		t.Errorf("%d fields passed, %d did not: the test has become one-sided", passed, stopped)
	}
}

// sentByPeer returns what the library's proxy sends upstream.
func sentByPeer(t *testing.T, in http.Header) (sent http.Header) {
	t.Helper()
	proxy := httputil.ReverseProxy{
		Rewrite: func(*httputil.ProxyRequest) {},
		Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			sent = r.Header
			return nil, io.EOF
		}),
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) {},
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://up.test/", http.NoBody)
	r.Header = in
	if values := in["Upgrade"]; len(values) > 0 && strings.ContainsFunc(values[0], func(r rune) bool { return r < ' ' || r > '~' }) {
		return in
	}
	proxy.ServeHTTP(httptest.NewRecorder(), r)
	return sent
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// FuzzHeader: whatever lines a client sends, the filter does what the rule says,
// and what passes can be written to a connection.
func FuzzHeader(f *testing.F) {
	for _, text := range []string{
		"Connection: close\nX-A: 1", "connection: X-A\nX-A: 1\nx-a: 2", "X_Forwarded_For: 1\nX.Forwarded.For: 2\nx-forwarded-for: 3", "Proxy: http://evil.test",
		"Connection: Via, X-Forwarded-For\nVia: 1.1 gatewright", "Te: trailers\nTE: gzip", "Content_Length: 5", "X-A : 1", ": 1", "\x00: 1", "Keep-Alive: 1\nUpgrade: h2c\nConnection: upgrade",
	} {
		f.Add(text, false)
		f.Add(text, true)
	}
	f.Fuzz(func(t *testing.T, text string, underscores bool) {
		in, listed := http.Header{}, []string(nil)
		for line := range strings.SplitSeq(text, "\n") {
			name, value, _ := strings.Cut(line, ":")
			in[name] = append(in[name], value)
			if strings.EqualFold(name, "Connection") {
				listed = append(listed, tokens([]string{value})...)
			}
		}
		out, _ := Filter{Underscores: underscores}.Request(in)
		for name := range out {
			if name == "Te" {
				continue
			}
			if !slices.ContainsFunc(slices.Collect(keys(in)), func(n string) bool {
				return http.CanonicalHeaderKey(n) == name && mayPass(n, listed, underscores)
			}) {
				t.Errorf("%q passes", name)
			}
		}
		for name := range in {
			if mayPass(name, listed, underscores) && out[http.CanonicalHeaderKey(name)] == nil {
				t.Errorf("%q is gone", name)
			}
		}
	})
}

func keys(h http.Header) func(func(string) bool) {
	return func(yield func(string) bool) {
		for name := range h {
			if !yield(name) {
				return
			}
		}
	}
}

// TestCanonicalNamesAreKnownByEveryByte: names that are taken for canonical get no
// second look, so each of them has to be as net/http would write it.
func TestCanonicalNamesAreKnownByEveryByte(t *testing.T) {
	rule := regexp.MustCompile(`^[A-Z0-9][a-z0-9]*(-[A-Z0-9][a-z0-9]*)*$`)
	canonical := 0
	for b := range 256 {
		c := string([]byte{byte(b)})
		for _, name := range []string{"", c, c + "x", "X" + c, "X" + c + "x", "X" + c + "X", "X-" + c, "X-" + c + "x", "X-X" + c} {
			got := isCanonical(name)
			if want := rule.MatchString(name); got != want {
				t.Errorf("%q is canonical: %v, want %v", name, got, want)
			}
			if got && http.CanonicalHeaderKey(name) != name {
				t.Errorf("net/http does not write %q so", name)
			}
			if got {
				canonical++
			}
		}
	}
	if canonical < 200 {
		t.Errorf("%d names are canonical: the test has become one-sided", canonical)
	}
}

// TestNamesAreReservedByTheirLettersAndDigits, whatever stands between and around
// them: what is none of both divides words, and only that.
func TestNamesAreReservedByTheirLettersAndDigits(t *testing.T) {
	for b := range 128 {
		c := string([]byte{byte(b)})
		divides := noneOfName.MatchString(strings.ToUpper(c))
		for _, name := range []string{"via" + c, c + "via", "_via" + c, "x" + c + "real" + c + "ip", "_" + c + "_host"} {
			if got := Reserved(name); got != divides {
				t.Errorf("%q is reserved: %v, want %v", name, got, divides)
			}
		}
	}
}

// TestTheFilterIsLinear: to list as many names as there are fields costs about
// what the fields cost. Work for each pair of them would cost some 200 times as much.
func TestTheFilterIsLinear(t *testing.T) {
	const n = 4_000
	in, list := make(http.Header, n), make([]string, n)
	for i := range n {
		list[i] = fmt.Sprintf("x-hop-%d", i)
		in[fmt.Sprintf("X-Other-%d", i)] = []string{"1"}
	}
	fastest := func() time.Duration {
		least := time.Hour
		for range 3 {
			start := time.Now()
			Filter{}.Request(in)
			least = min(least, time.Since(start))
		}
		return least
	}
	without := fastest()
	in["Connection"] = []string{strings.Join(list, ",")}
	if ratio := float64(fastest()) / float64(without); ratio > 40 {
		t.Errorf("with all names listed it costs %.0f times as much", ratio)
	}
}

func TestTrailersHoldNothingThatDecides(t *testing.T) {
	in := http.Header{}
	for _, name := range []string{
		"X-Sum", "Server-Timing", "Authorization", "Cookie", "Set-Cookie", "Host", "Content-Length", "Transfer-Encoding", "Connection", "Via", "X-Forwarded-For",
		"X_forwarded_for", "X_sum", "Proxy", "If-Match", "Content-Type", "Range", "Te", "Traceparent", "X-Listed", "Upgrade", "X.Real.Ip", "Location", "Cache-Control",
	} {
		in[name] = nil
	}
	for name, test := range map[string]struct {
		filter Filter
		want   []string
	}{
		"strict": {Filter{}, []string{"Server-Timing", "X-Sum"}}, "underscores": {Filter{Underscores: true}, []string{"Server-Timing", "X-Sum", "X_sum"}},
	} {
		got := slices.Sorted(keys(test.filter.Trailer(in, []string{"close, x-listed"})))
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if got := (Filter{}).Trailer(http.Header{"Cookie": nil}, nil); got != nil {
		t.Errorf("nothing is left, and it is %v", got)
	}
}

func TestTrailersAreFilledAtTheEndAlone(t *testing.T) {
	from, to := http.Header{"X-A": nil, "X-B": nil}, http.Header{"X-A": nil}
	body := FillTrailer(io.NopCloser(iotest.OneByteReader(strings.NewReader("ab"))), to, from)
	for range 2 {
		if _, err := body.Read(make([]byte, 1)); err != nil || to["X-A"] != nil {
			t.Fatalf("before the end: %v, %v", to, err)
		}
	}
	from["X-A"], from["X-B"] = []string{"1"}, []string{"2"}
	if _, err := body.Read(make([]byte, 1)); err != io.EOF || to.Get("X-A") != "1" || len(to) != 1 {
		t.Errorf("at the end: %v, %v", to, err)
	}
}

func TestResponsesLoseWhatTheyList(t *testing.T) {
	r := &http.Response{
		StatusCode: http.StatusOK, ProtoMajor: 1, ContentLength: -1, Body: io.NopCloser(strings.NewReader("x")),
		Header:  http.Header{"Connection": {"close, X-Listed", "x-more"}, "X-Listed": {"1"}, "X-More": {"1"}, "X-Kept": {"1"}, "Set-Cookie": {"a=1", "b=2"}, "Keep-Alive": {"1"}},
		Trailer: http.Header{"X-Listed": nil, "X-Sum": nil, "Content-Length": nil, "Set-Cookie": nil},
	}
	CleanResponse(r)
	if diff := cmp.Diff(http.Header{"X-Kept": {"1"}, "Set-Cookie": {"a=1", "b=2"}}, r.Header); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(http.Header{"X-Sum": nil}, r.Trailer); diff != "" {
		t.Error(diff)
	}
	// What was not announced comes with the end of the body.
	r.Trailer["X-More"], r.Trailer["Transfer-Encoding"], r.Trailer["X-Late"] = []string{"1"}, []string{"chunked"}, []string{"1"}
	if _, err := io.ReadAll(r.Body); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(http.Header{"X-Sum": nil, "X-Late": {"1"}}, r.Trailer); diff != "" {
		t.Error(diff)
	}
	for status, want := range map[int]string{200: "5", 204: "", 103: "", 304: "5"} {
		h := http.Header{"Content-Length": {"5"}}
		CleanHeader(h, status)
		if got := h.Get("Content-Length"); got != want {
			t.Errorf("status %d: the length is %q", status, got)
		}
	}
}

// TestWhichBodiesEndInTrailers: those that may are watched to their end, and the
// others stay as they are, a connection that has switched protocols most of all.
func TestWhichBodiesEndInTrailers(t *testing.T) {
	const ok, switched = http.StatusOK, http.StatusSwitchingProtocols
	for name, test := range map[string]struct {
		status, major int
		length        int64
		announced     bool
		watched       bool
	}{
		"in chunks":          {ok, 1, -1, false, true},
		"announced":          {ok, 1, -1, true, true},
		"of a length":        {ok, 1, 1, false, false},
		"of no length":       {ok, 1, 0, false, false},
		"length and trailer": {ok, 1, 1, true, true},
		"HTTP/2":             {ok, 2, 1, false, true},
		"HTTP/2 of none":     {ok, 2, 0, false, true},
		"HTTP/2 unknown":     {ok, 2, -1, false, true},
		"HTTP/3":             {ok, 3, 1, false, true},
		"switched":           {switched, 1, -1, false, false},
	} {
		body := io.NopCloser(strings.NewReader("x"))
		r := http.Response{StatusCode: test.status, ProtoMajor: test.major, ContentLength: test.length, Header: http.Header{}, Body: body}
		if test.announced {
			r.Trailer = http.Header{"X-Sum": nil}
		}
		CleanResponse(&r)
		if watched := r.Body != body; watched != test.watched {
			t.Errorf("%s: watched: %v", name, watched)
		}
	}
	none := http.Response{StatusCode: ok, ProtoMajor: 1, ContentLength: -1, Header: http.Header{}, Body: http.NoBody}
	if CleanResponse(&none); none.Body != http.NoBody {
		t.Error("where there is no body its end is watched")
	}
}
