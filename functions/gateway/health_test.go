package gateway

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestHealthIsBadFromTheSignalOn at the clients' port too, and nothing else is.
func TestHealthIsBadFromTheSignalOn(t *testing.T) {
	p := &process{gateway: &Service{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) })}}
	ask := func(path string) int {
		w := httptest.NewRecorder()
		p.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w.Code
	}
	if got := ask(Beside.Health); got != http.StatusAccepted {
		t.Errorf("it is %d", got)
	}
	p.Leave()
	if health, other := ask(Beside.Health), ask("/x"); health != http.StatusServiceUnavailable || other != http.StatusAccepted {
		t.Errorf("then it is %d, and others are answered %d", health, other)
	}
}
