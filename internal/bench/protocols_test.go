package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestOnlyWhatIsAskedForIsMeasured: an answer by another protocol than the row says, or another than the upstream's, ends the run.
func TestOnlyWhatIsAskedForIsMeasured(t *testing.T) {
	_, client := localTLS()
	for name, c := range map[string]struct {
		speaksHTTP2 bool
		answer      http.Handler
		want        map[int]bool // by the major version that is asked by
	}{
		"both protocols":  {true, answers(), map[int]bool{1: true, 2: true}},
		"HTTP/1.1 alone":  {false, answers(), map[int]bool{1: true, 2: false}},
		"another answer":  {true, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "x") }), map[int]bool{1: false, 2: false}},
		"another status":  {true, http.NotFoundHandler(), map[int]bool{1: false, 2: false}},
		"an answer apart": {true, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }), map[int]bool{1: false, 2: false}},
	} {
		s := httptest.NewUnstartedServer(c.answer)
		s.EnableHTTP2 = c.speaksHTTP2
		s.StartTLS()
		for _, spoken := range spokens {
			err := spoken.ask(t.Context(), spoken.transports(client), s.Listener.Addr().String(), 100)
			if (err == nil) != c.want[spoken.major] {
				t.Errorf("%s, by %s: %v", name, spoken.name, err)
			}
		}
		s.Close()
	}
}
