package gateway_test

import (
	"net/http"
	"strings"
	"testing"
)

// validatedResponse is a response of an upstream, with the expected result of its validation.
type validatedResponse struct {
	status int
	body   string
	header [2]string
	// log is a part of the logged line, or "" if there must be none. refused is set if the mode "reject" must replace the
	// response.
	log     string
	refused bool
}

// validatedResponses are responses to a POST of petDescription.
func validatedResponses() map[string]validatedResponse {
	const valid = `{"id": 1, "name": "n", "price": 1}`
	gzip := [2]string{"Content-Encoding", "gzip"}
	return map[string]validatedResponse{
		"valid":              {200, valid, [2]string{}, "", false},
		"valid gzip":         {200, zipped(valid), gzip, "", false},
		"empty, no type":     {200, "", [2]string{"Content-Type", ""}, "", false},
		"wrong property":     {200, `{"id": 1, "name": "n", "price": -1}`, [2]string{}, "body /price", true},
		"missing property":   {200, `{"name": "n", "price": 1}`, [2]string{}, "does not match", true},
		"wrong gzip":         {200, zipped(`{"id": 1, "name": "n", "price": "sesame"}`), gzip, "body /price", true},
		"no body of a type":  {200, "", [2]string{}, "body: must be JSON", true},
		"undocumented":       {202, valid, [2]string{}, "does not match", true},
		"media type":         {200, "hello", [2]string{"Content-Type", "text/plain"}, "does not match", true},
		"stream":             {200, "data: {}\n\n", [2]string{"Content-Type", "text/event-stream"}, "streamed", false},
		"unknown encoding":   {200, "sesame", [2]string{"Content-Encoding", "br"}, "content encoding", false},
		"broken gzip":        {200, "sesame", gzip, "body: must be encoded as its Content-Encoding says", true},
		"cut gzip":           {200, zipped(valid)[:30], gzip, "body: must be encoded", true},
		"a part":             {206, `"name": "n"`, [2]string{}, "partial", false},
		"too large":          {200, `{"id": "` + strings.Repeat("sesame", 200_000) + `"}`, [2]string{}, "too large", false},
		"no JSON":            {200, "sesame", [2]string{}, "does not match", true},
		"duplicate property": {200, `{"id": 1, "id": 1, "name": "n", "price": 1}`, [2]string{}, "body /id", true},
	}
}

// TestResponsesAreValidated checks both modes with responses that match or violate the description.
func TestResponsesAreValidated(t *testing.T) {
	for name, test := range validatedResponses() {
		for _, mode := range []string{"log", "reject"} {
			for _, chunked := range []bool{false, true} {
				v := newValidatedFixture(t, `{}`, `{"mode": "`+mode+`"}`)
				v.respond = func(out http.ResponseWriter, _ *http.Request) {
					out.Header().Set("Content-Type", "application/json")
					if test.header[0] != "" {
						out.Header().Set(test.header[0], test.header[1])
					}
					out.WriteHeader(test.status)
					if chunked {
						out.(http.Flusher).Flush()
					}
					writef(out, "%s", test.body)
				}
				response := v.do(t, http.MethodPost, "/pets/1", validPet, replaced("Accept-Encoding", "gzip"))
				got := body(t, response)
				v.Close() // the line is written when the body has ended
				refused := response.StatusCode == http.StatusBadGateway
				if want := test.refused && mode == "reject"; refused != want {
					t.Errorf("%s, mode %s, chunked %t: status = %d (%s), want refused = %t", name, mode, chunked,
						response.StatusCode, got, want)
				}
				if !refused && (got != test.body || response.StatusCode != test.status) {
					t.Errorf("%s, mode %s, chunked %t: response = %d %.100q, want the upstream's", name, mode, chunked,
						response.StatusCode, got)
				}
				log := v.log.String()
				if test.log == "" && log != "" || !strings.Contains(log, test.log) {
					t.Errorf("%s, mode %s, chunked %t: log = %s, want %q", name, mode, chunked, log, test.log)
				}
				if refused {
					log += got
				}
				if strings.Contains(log, "sesame") {
					t.Errorf("%s, mode %s, chunked %t: log and problem = %s, want no value", name, mode, chunked, log)
				}
			}
		}
	}
}

// TestGatewayProblemsAreNotValidated checks that the problem for an upstream that does not respond passes, although the
// description does not have its status.
func TestGatewayProblemsAreNotValidated(t *testing.T) {
	v := newValidatedFixture(t, `{}`, `{"mode": "reject"}`)
	v.respond = func(out http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) }
	response := v.do(t, http.MethodPost, "/pets/1", validPet)
	if text := body(t, response); response.StatusCode != http.StatusBadGateway || strings.Contains(text, "description") {
		t.Errorf("POST = %d %s, want 502 for the upstream's connection", response.StatusCode, text)
	}
}

// TestSampleRateLimitsTheChecks checks that a response that is not in the sample passes unchecked.
func TestSampleRateLimitsTheChecks(t *testing.T) {
	for rate, want := range map[string]int{"1e-15": http.StatusAccepted, "1": http.StatusBadGateway} {
		v := newValidatedFixture(t, `{}`, `{"mode": "reject", "sampleRate": `+rate+`}`)
		v.respond = func(out http.ResponseWriter, _ *http.Request) { out.WriteHeader(http.StatusAccepted) }
		if got := v.do(t, http.MethodPost, "/pets/1", validPet).StatusCode; got != want {
			t.Errorf("POST with an undocumented response and the sample rate %s: status = %d, want %d", rate, got, want)
		}
	}
}

// TestUpstreamIsRequestedToSendReadableResponses checks that the upstream of a route that validates responses gets no
// Accept-Encoding that the gateway cannot read: otherwise most responses would pass unchecked.
func TestUpstreamIsRequestedToSendReadableResponses(t *testing.T) {
	v := newValidatedFixture(t, `{}`, `{}`)
	for sent, want := range map[string]string{"gzip, br": "gzip", "br": "identity", "zstd;q=1.0, gzip;q=0.5": "gzip"} {
		v.do(t, http.MethodPost, "/pets/1", validPet, replaced("Accept-Encoding", sent))
		if got := v.take(); len(got) != 1 || got[0].header.Get("Accept-Encoding") != want {
			t.Errorf("POST with Accept-Encoding %s: upstream got %v, want one request with %s", sent, got, want)
		}
	}
}
