package health_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gatewright/gatewright/shared/runtime/service/health"
)

func TestDrainingProcessIsUnavailable(t *testing.T) {
	for ready, want := range map[bool]struct {
		status int
		text   string
	}{true: {http.StatusOK, "ok\n"}, false: {http.StatusServiceUnavailable, "draining\n"}} {
		w := httptest.NewRecorder()
		health.Respond(w, ready)
		if w.Code != want.status || w.Body.String() != want.text || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("Respond(ready %v) = %d %q, Cache-Control %q, want %d %q, no-store", ready, w.Code, w.Body,
				w.Header().Get("Cache-Control"), want.status, want.text)
		}
	}
}
