package mcp

import "testing"

// TestHintsAreWhatAMethodPromises (RFC 9110, section 9.2): clients repeat what is idempotent, and ask nobody before they
// read.
func TestHintsAreWhatAMethodPromises(t *testing.T) {
	t.Parallel()
	for method, want := range map[string]string{
		"GET": "reads, repeats", "HEAD": "reads, repeats", "OPTIONS": "reads, repeats", "TRACE": "reads, repeats",
		"PUT": "repeats, destroys", "DELETE": "repeats, destroys", "POST": "destroys", "PATCH": "destroys", "QUERY": "destroys",
	} {
		h, got := hints(method), ""
		for _, hint := range []struct {
			name string
			is   bool
		}{{"reads", h.ReadOnlyHint}, {"repeats", h.IdempotentHint}, {"destroys", *h.DestructiveHint}} {
			if hint.is {
				got += ", " + hint.name
			}
		}
		if got != ", "+want || !*h.OpenWorldHint {
			t.Errorf("%s is %s, want %s", method, got, want)
		}
	}
}
