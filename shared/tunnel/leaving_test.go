package tunnel

import (
	"context"
	"net/http"
	"net/http/httptrace"
	"testing"
)

// TestAnswerThatIsComingIsTaken plays what happens to a request, one letter each: the client (l)eaves,
// the first byte of an (a)nswer or of a (h)int is there, the answer is handed (o)ver.
func TestAnswerThatIsComingIsTaken(t *testing.T) {
	for _, c := range []struct {
		events           string
		cancelled, taken bool
	}{
		{"", false, true},
		{"l", true, false},
		{"a", false, true},
		{"al", false, false}, // its bytes would be forgotten
		{"alo", false, false},
		{"ao", false, true},
		{"aol", true, true},
		{"ah", false, true},
		{"ahl", true, false},
		{"alh", true, false},
	} {
		client, leave := context.WithCancel(t.Context())
		r, err := http.NewRequestWithContext(client, http.MethodGet, "http://service.test/", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		var a asking
		out, stop := a.watch(r)
		taken, over := false, false
		for _, event := range c.events {
			trace := httptrace.ContextClientTrace(out.Context())
			switch event {
			case 'l':
				a.leave()
			case 'a':
				trace.GotFirstResponseByte()
			case 'h':
				_ = trace.Got1xxResponse(http.StatusEarlyHints, nil)
			case 'o':
				taken, over = a.answered(), true
			}
		}
		if !over {
			taken = a.answered()
		}
		if cancelled := out.Context().Err() != nil; cancelled != c.cancelled || taken != c.taken {
			t.Errorf("%q: cancelled %v, taken %v", c.events, cancelled, taken)
		}
		stop()
		leave()
	}
}
