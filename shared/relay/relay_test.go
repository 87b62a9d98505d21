package relay_test

import (
	"io"
	"net/http"
	"testing"
)

func TestRequestIsPassedOnToTheRelayThatHasTheTunnel(t *testing.T) {
	inWorld(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "at "+r.URL.Path) }), func(w *world) {
		a, b := w.relay("a:443"), w.relay("b:443")
		w.agent("a:443", 2)
		for name, by := range map[string]asks{"its relay": a, "another": b, "a client of its relay": w.client("a:443"), "a client of another": w.client("b:443")} {
			if text, err := w.get(by, "/x"); text != "at /base/x" || err != nil {
				w.Errorf("%s answers %q, %v", name, text, err)
			}
		}
		w.Log(w.logged.String())
	})
}
