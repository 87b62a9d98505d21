package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/internal/bench/load"
)

// TestExpensiveBodiesAreUnique checks that each body has a placeholder, which makes each request unique. The product
// caches parsed documents, and the refusal of a cached document costs nothing. Each body must also be JSON of at most 1
// MB.
func TestExpensiveBodiesAreUnique(t *testing.T) {
	for _, r := range expensiveBodies() {
		if !strings.Contains(r.body, load.Placeholder) {
			t.Errorf("expensiveBodies() %s: the body has no %q, want one, so that each request is unique", r.name,
				load.Placeholder)
		}
		if len(r.body) > 1<<20 {
			t.Errorf("%s: the request has %d bytes, want 1 MB at most", r.name, len(r.body))
		}
		if !json.Valid([]byte(r.body)) {
			t.Errorf("expensiveBodies() %s: the body is not JSON, want JSON", r.name)
		}
	}
}
