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

	"github.com/gatewright/gatewright/shared/testing/simulations"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/http/httpguts"
)

// The patterns of isAllowedByRule match names in the form of CGI variables: in upper case, with underscores.
var (
	nonAlphanumerics = regexp.MustCompile(`[^A-Z0-9]+`)
	connectionFields = regexp.MustCompile(
		`^(CONNECTION|KEEP_ALIVE|PROXY(_CONNECTION|_AUTHENTICATE|_AUTHORIZATION)?|TE|` +
			`TRAILER|TRANSFER_ENCODING|UPGRADE|HTTP2_SETTINGS)$`)
	gatewayFieldPattern = regexp.MustCompile(
		`^(FORWARDED|X_FORWARDED_(FOR|HOST|PROTO|PORT|SERVER)|X_REAL_IP|X_REQUEST_ID|TRACEPARENT|TRACESTATE|VIA)$`)
	framingFields = regexp.MustCompile(`^(HOST|CONTENT_LENGTH)$`)
)

// isAllowedByRule is another implementation of the rule of Filter.Request. It reports whether
// a client's field is sent upstream if the client's Connection fields list these names.
func isAllowedByRule(name string, listed []string, underscores bool) bool {
	cgi := strings.Trim(nonAlphanumerics.ReplaceAllString(strings.ToUpper(name), "_"), "_")
	switch {
	case !httpguts.ValidHeaderFieldName(name),
		strings.Contains(name, "_") && !underscores,
		slices.ContainsFunc(listed, func(l string) bool { return strings.EqualFold(l, name) }),
		connectionFields.MatchString(cgi),
		gatewayFieldPattern.MatchString(cgi),
		// Host and Content-Length in exactly this spelling pass the filter: they are not written from the header.
		framingFields.MatchString(cgi) && name != "Host" && name != "Content-Length":
		return false
	}
	return true
}

// generator creates headers, most of whose names equal or resemble names that the filter handles.
type generator struct{ *rand.Rand }

func (g generator) pick(choices ...string) string { return choices[g.IntN(len(choices))] }

func (g generator) name() string {
	name := g.pick(slices.Concat(hopByHopFields, gatewayFields, misinterpretedFields, []string{
		"Host", "Content-Length", "Content-Type", "Authorization", "Cookie", "Accept", "X-Api-Key", "X-Custom", "Range",
		"If-Match", "Referer",
		"User-Agent", "X", "", "-", "Te-", "X-Forwarded", "X-Forwarded-For-", "-Via", "Proxy-X", "Via-X", "Forwarded-For",
		"Set-Cookie",
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
			tokens[i] = g.pick("", " ", "\t") + g.pick("close", "keep-alive", "upgrade", g.name(), g.name(), g.name(),
				"x-custom", ",", "\"X-Custom\"") + g.pick("", " ", "\t")
		}
		out = append(out, strings.Join(tokens, ","))
	}
	return out
}

// tokens returns the elements of the lists in Connection fields.
func tokens(connection []string) []string {
	var out []string
	for _, value := range connection {
		for token := range strings.SplitSeq(value, ",") {
			out = append(out, strings.Trim(token, " \t\r\n"))
		}
	}
	return out
}

// TestFilterMatchesReferenceImplementation checks, for generated headers, that the filter forwards exactly the fields
// that isAllowedByRule allows, and Te with the value trailers. It also checks that httputil.ReverseProxy forwards all
// of these fields except Te, if their names arrived in canonical form and ReverseProxy accepts the request.
func TestFilterMatchesReferenceImplementation(t *testing.T) {
	simulations.SkipUnderRace(t)
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
		out, unsent, upgrade := f.Request(in)
		if diff := cmp.Diff(before, in); diff != "" {
			t.Fatalf("Request() changed its argument, want it unchanged (-want +got):\n%s", diff)
		}
		var listed []string
		for name, values := range in {
			if strings.EqualFold(name, "Connection") {
				listed = append(listed, tokens(values)...)
			}
		}
		want, wantUnsent := http.Header{}, http.Header{}
		for name, values := range in {
			canonical := http.CanonicalHeaderKey(name)
			if !f.Underscores && strings.Contains(name, "_") && isAllowedByRule(name, nil, true) {
				wantUnsent[canonical] = append(wantUnsent[canonical], values...)
			}
			if isAllowedByRule(name, listed, f.Underscores) {
				want[canonical] = append(want[canonical], values...)
				passed++
			} else {
				stopped++
			}
		}
		if httpguts.HeaderValuesContainsToken(in["Te"], "trailers") {
			want["Te"] = []string{"trailers"}
		}
		for _, h := range []http.Header{out, want, unsent, wantUnsent} {
			for _, values := range h {
				slices.Sort(values) // the values of two spellings of a name come in any order
			}
		}
		if diff := cmp.Diff(want, out); diff != "" {
			t.Fatalf("Request(%q) (-want +got):\n%s", in, diff)
		}
		if len(wantUnsent) == 0 {
			wantUnsent = nil
		}
		if diff := cmp.Diff(wantUnsent, unsent); diff != "" {
			t.Fatalf("Request(%q): unsent (-want +got):\n%s", in, diff)
		}
		if upgrade != "" && !slices.ContainsFunc(listed, func(l string) bool { return strings.EqualFold(l, "upgrade") }) {
			t.Fatalf("Request(%q): upgrade = %q, want none without Connection: upgrade", in, upgrade)
		}
		reference := forwardedByReverseProxy(t, before)
		for name := range out {
			if _, exists := reference[name]; !exists && name != "Te" && in[name] != nil {
				t.Fatalf("Request(%q): %s passes, want it removed as by ReverseProxy, which leaves %q", in, name, reference)
			}
		}
	}
	if passed < 10_000 || stopped < 10_000 {
		t.Errorf("fields forwarded = %d, removed = %d, want at least 10,000 each", passed, stopped)
	}
}

// forwardedByReverseProxy returns the header that httputil.ReverseProxy sends upstream.
func forwardedByReverseProxy(t *testing.T, in http.Header) (sent http.Header) {
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
	if values := in["Upgrade"]; len(values) > 0 && strings.ContainsFunc(values[0], func(r rune) bool {
		return r < ' ' || r > '~'
	}) {
		return in // ReverseProxy refuses such a request
	}
	proxy.ServeHTTP(httptest.NewRecorder(), r)
	return sent
}

type roundTrip func(*http.Request) (*http.Response, error)

func (t roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

// FuzzHeader checks, for any header lines that a client can send, that the filter
// forwards exactly the fields that isAllowedByRule allows, except Te.
func FuzzHeader(f *testing.F) {
	for _, text := range []string{
		"Connection: close\nX-A: 1", "connection: X-A\nX-A: 1\nx-a: 2",
		"X_Forwarded_For: 1\nX.Forwarded.For: 2\nx-forwarded-for: 3", "Proxy: http://evil.test",
		"Connection: Via, X-Forwarded-For\nVia: 1.1 gatewright", "Te: trailers\nTE: gzip", "Content_Length: 5", "X-A : 1",
		": 1", "\x00: 1", "Keep-Alive: 1\nUpgrade: h2c\nConnection: upgrade",
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
		out, _, _ := Filter{Underscores: underscores}.Request(in)
		for name := range out {
			if name == "Te" {
				continue
			}
			if !slices.ContainsFunc(slices.Collect(headerNames(in)), func(n string) bool {
				return http.CanonicalHeaderKey(n) == name && isAllowedByRule(n, listed, underscores)
			}) {
				t.Errorf("Request(): %q passes, want it removed", name)
			}
		}
		for name := range in {
			if isAllowedByRule(name, listed, underscores) && out[http.CanonicalHeaderKey(name)] == nil {
				t.Errorf("Request(): %q is removed, want it forwarded", name)
			}
		}
	})
}

func headerNames(h http.Header) func(func(string) bool) {
	return func(yield func(string) bool) {
		for name := range h {
			if !yield(name) {
				return
			}
		}
	}
}

// TestIsCanonicalForAllBytes compares isCanonical with a regular expression. It also checks that each name for which
// isCanonical is true, and which is therefore not checked further, is in net/http's canonical form.
func TestIsCanonicalForAllBytes(t *testing.T) {
	rule := regexp.MustCompile(`^[A-Z0-9][a-z0-9]*(-[A-Z0-9][a-z0-9]*)*$`)
	canonical := 0
	for b := range 256 {
		c := string([]byte{byte(b)})
		for _, name := range []string{
			"", c, c + "x", "X" + c, "X" + c + "x", "X" + c + "X", "X-" + c, "X-" + c + "x",
			"X-X" + c,
		} {
			got := isCanonical(name)
			if want := rule.MatchString(name); got != want {
				t.Errorf("isCanonical(%q) = %t, want %t", name, got, want)
			}
			if got && http.CanonicalHeaderKey(name) != name {
				t.Errorf("isCanonical(%q) = true, want false, since net/http writes it %q", name, http.CanonicalHeaderKey(name))
			}
			if got {
				canonical++
			}
		}
	}
	if canonical < 200 {
		t.Errorf("canonical names = %d, want at least 200", canonical)
	}
}

// TestReservedIgnoresSeparators checks that a reserved name stays reserved with any ASCII characters other than letters
// and digits between and around its words, because all of these count as separators. With another letter or digit, it
// is not reserved.
func TestReservedIgnoresSeparators(t *testing.T) {
	for b := range 128 {
		c := string([]byte{byte(b)})
		isSeparator := nonAlphanumerics.MatchString(strings.ToUpper(c))
		for _, name := range []string{"via" + c, c + "via", "_via" + c, "x" + c + "real" + c + "ip", "_" + c + "_host"} {
			if got := Reserved(name); got != isSeparator {
				t.Errorf("Reserved(%q) = %t, want %t", name, got, isSeparator)
			}
		}
	}
}

// TestFilterTimeIsLinear checks that the filter takes at most 40 times as long if a Connection field
// lists as many names as there are fields. Usually its time about doubles. Comparing each name with
// each field would take about 200 times as long.
func TestFilterTimeIsLinear(t *testing.T) {
	const n = 4_000
	in, list := make(http.Header, n), make([]string, n)
	for i := range n {
		list[i] = fmt.Sprintf("x-hop-%d", i)
		in[fmt.Sprintf("X-Other-%d", i)] = []string{"1"}
	}
	fastest := func() time.Duration {
		fastestTime := time.Hour
		for range 3 {
			start := time.Now()
			Filter{}.Request(in)
			fastestTime = min(fastestTime, time.Since(start))
		}
		return fastestTime
	}
	without := fastest()
	in["Connection"] = []string{strings.Join(list, ",")}
	if ratio := float64(fastest()) / float64(without); ratio > 40 {
		t.Errorf("Request() with all names listed takes %.0f times as long, want at most 40", ratio)
	}
}

func TestTrailersExcludeControlFields(t *testing.T) {
	in := http.Header{}
	for _, name := range []string{
		"X-Sum", "Server-Timing", "Authorization", "Cookie", "Set-Cookie", "Host", "Content-Length", "Transfer-Encoding",
		"Connection", "Via", "X-Forwarded-For",
		"X_forwarded_for", "X_sum", "Proxy", "If-Match", "Content-Type", "Range", "Te", "Traceparent", "X-Listed", "Upgrade",
		"X.Real.Ip", "Location", "Cache-Control",
	} {
		in[name] = nil
	}
	for name, test := range map[string]struct {
		filter Filter
		want   []string
	}{
		"strict":      {Filter{}, []string{"Server-Timing", "X-Sum"}},
		"underscores": {Filter{Underscores: true}, []string{"Server-Timing", "X-Sum", "X_sum"}},
	} {
		got := slices.Sorted(headerNames(test.filter.Trailer(in, []string{"close, x-listed"})))
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: Trailer() (-want +got):\n%s", name, diff)
		}
	}
	if got := (Filter{}).Trailer(http.Header{"Cookie": nil}, nil); got != nil {
		t.Errorf("Trailer(only Cookie) = %v, want nil", got)
	}
}

func TestTrailersAreFilledAtEOF(t *testing.T) {
	from, to := http.Header{"X-A": nil, "X-B": nil}, http.Header{"X-A": nil}
	body := FillTrailer(io.NopCloser(iotest.OneByteReader(strings.NewReader("ab"))), to, from)
	for range 2 {
		if _, err := body.Read(make([]byte, 1)); err != nil || to["X-A"] != nil {
			t.Fatalf("Read() before the end: trailer = %v, error = %v, want none", to, err)
		}
	}
	from["X-A"], from["X-B"] = []string{"1"}, []string{"2"}
	if _, err := body.Read(make([]byte, 1)); err != io.EOF || to.Get("X-A") != "1" || len(to) != 1 {
		t.Errorf("Read() at the end: trailer = %v, error = %v, want X-A 1 and EOF", to, err)
	}
}

// TestListedResponseFieldsAreRemoved checks that CleanResponse removes the fields that a Connection field lists, and
// the other fields of one connection, from the header and from the trailer. It also checks which responses keep a
// Content-Length.
func TestListedResponseFieldsAreRemoved(t *testing.T) {
	r := &http.Response{
		StatusCode: http.StatusOK, ProtoMajor: 1, ContentLength: -1, Body: io.NopCloser(strings.NewReader("x")),
		Header: http.Header{
			"Connection": {"close, X-Listed", "x-more"}, "X-Listed": {"1"}, "X-More": {"1"}, "X-Kept": {"1"},
			"Set-Cookie": {"a=1", "b=2"}, "Keep-Alive": {"1"},
		},
		Trailer: http.Header{"X-Listed": nil, "X-Sum": nil, "Content-Length": nil, "Set-Cookie": nil},
	}
	CleanResponse(r)
	if diff := cmp.Diff(http.Header{"X-Kept": {"1"}, "Set-Cookie": {"a=1", "b=2"}}, r.Header); diff != "" {
		t.Errorf("CleanResponse(): header (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(http.Header{"X-Sum": nil}, r.Trailer); diff != "" {
		t.Errorf("CleanResponse(): trailer (-want +got):\n%s", diff)
	}
	// Undeclared trailer fields arrive with the end of the body.
	r.Trailer["X-More"], r.Trailer["Transfer-Encoding"], r.Trailer["X-Late"] = []string{"1"}, []string{"chunked"},
		[]string{"1"}
	if _, err := io.ReadAll(r.Body); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(http.Header{"X-Sum": nil, "X-Late": {"1"}}, r.Trailer); diff != "" {
		t.Errorf("CleanResponse(): trailer after the body was read (-want +got):\n%s", diff)
	}
	for status, want := range map[int]string{200: "5", 204: "", 103: "", 304: "5"} {
		h := http.Header{"Content-Length": {"5"}}
		CleanHeader(h, status)
		if got := h.Get("Content-Length"); got != want {
			t.Errorf("CleanHeader(status %d): Content-Length = %q, want %q", status, got, want)
		}
	}
}

// TestBodiesWithTrailersAreWatched checks that bodies that can have trailers are wrapped, so that the trailers are
// cleaned at their end. All other bodies stay unchanged, most importantly a connection that has switched protocols.
func TestBodiesWithTrailersAreWatched(t *testing.T) {
	const ok, switched = http.StatusOK, http.StatusSwitchingProtocols
	for name, test := range map[string]struct {
		status, major int
		length        int64
		announced     bool
		watched       bool
	}{
		"chunked":                   {ok, 1, -1, false, true},
		"chunked with a trailer":    {ok, 1, -1, true, true},
		"a length":                  {ok, 1, 1, false, false},
		"a length of 0":             {ok, 1, 0, false, false},
		"length and trailer":        {ok, 1, 1, true, true},
		"HTTP/2":                    {ok, 2, 1, false, true},
		"HTTP/2 with a length of 0": {ok, 2, 0, false, true},
		"HTTP/2 without a length":   {ok, 2, -1, false, true},
		"HTTP/3":                    {ok, 3, 1, false, true},
		"a switch of protocols":     {switched, 1, -1, false, false},
	} {
		body := io.NopCloser(strings.NewReader("x"))
		r := http.Response{
			StatusCode: test.status, ProtoMajor: test.major, ContentLength: test.length, Header: http.Header{},
			Body: body,
		}
		if test.announced {
			r.Trailer = http.Header{"X-Sum": nil}
		}
		CleanResponse(&r)
		if watched := r.Body != body; watched != test.watched {
			t.Errorf("CleanResponse(%s): body watched = %t, want %t", name, watched, test.watched)
		}
	}
	none := http.Response{StatusCode: ok, ProtoMajor: 1, ContentLength: -1, Header: http.Header{}, Body: http.NoBody}
	if CleanResponse(&none); none.Body != http.NoBody {
		t.Errorf("CleanResponse(no body): body = %v, want http.NoBody", none.Body)
	}
}
