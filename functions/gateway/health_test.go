package gateway

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestHealthFailsWhileDraining checks that after AnnounceShutdown the health check at the clients' port fails, while
// other paths are still served.
func TestHealthFailsWhileDraining(t *testing.T) {
	p := &process{gateway: &Service{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusAccepted)
	})}}
	get := func(path string) int {
		w := httptest.NewRecorder()
		p.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w.Code
	}
	if got := get(ProcessService.Health); got != http.StatusAccepted {
		t.Errorf("GET health = %d, want 202", got)
	}
	p.AnnounceShutdown()
	if health, otherStatus := get(ProcessService.Health), get("/x"); health != http.StatusServiceUnavailable ||
		otherStatus != http.StatusAccepted {
		t.Errorf("after AnnounceShutdown() GET health = %d and GET /x = %d, want 503 and 202", health, otherStatus)
	}
}
