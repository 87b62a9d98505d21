package health_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gatewright/gatewright/shared/service/health"
)

func TestProcessThatDrainsTakesNoNewWork(t *testing.T) {
	for ready, want := range map[bool]struct {
		status int
		text   string
	}{true: {http.StatusOK, "ok\n"}, false: {http.StatusServiceUnavailable, "draining\n"}} {
		w := httptest.NewRecorder()
		health.Answer(w, ready)
		if w.Code != want.status || w.Body.String() != want.text || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("ready %v: %d %q, which caches keep by %q", ready, w.Code, w.Body, w.Header().Get("Cache-Control"))
		}
	}
}
