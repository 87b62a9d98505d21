package mcp

import (
	"strings"
	"testing"
)

// TestHintsMatchMethodSemantics checks that the hints in a tool's annotations match the method's semantics (RFC 9110,
// section 9.2): clients repeat idempotent calls, and make read-only calls without asking the user.
func TestHintsMatchMethodSemantics(t *testing.T) {
	t.Parallel()
	for method, want := range map[string]string{
		"GET": "reads, repeats", "HEAD": "reads, repeats", "OPTIONS": "reads, repeats", "TRACE": "reads, repeats",
		"PUT": "repeats, destroys", "DELETE": "repeats, destroys", "POST": "destroys", "PATCH": "destroys",
		"QUERY": "reads, repeats", "COPY": "destroys",
	} {
		h, got := annotationsOf(method), []string(nil)
		for _, hint := range []struct {
			name  string
			isSet bool
		}{{"reads", h.ReadOnlyHint}, {"repeats", h.IdempotentHint}, {"destroys", *h.DestructiveHint}} {
			if hint.isSet {
				got = append(got, hint.name)
			}
		}
		if text := strings.Join(got, ", "); text != want {
			t.Errorf("annotationsOf(%s) = %s, want %s", method, text, want)
		}
		if !*h.OpenWorldHint {
			t.Errorf("annotationsOf(%s): OpenWorldHint = false, want true", method)
		}
	}
}
