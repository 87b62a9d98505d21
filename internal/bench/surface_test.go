package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/internal/bench/load"
)

// TestExpensiveRequestsAreNewOnes: the product remembers documents that it has parsed, and a remembered refusal costs
// nothing.
func TestExpensiveRequestsAreNewOnes(t *testing.T) {
	for _, r := range expensive() {
		if !strings.Contains(r.body, load.Placeholder) {
			t.Errorf("%s: the request has no place for a number", r.name)
		}
		if len(r.body) > 1<<20 {
			t.Errorf("%s: the request has %d bytes, want 1 MB at most", r.name, len(r.body))
		}
		if !json.Valid([]byte(r.body)) {
			t.Errorf("%s: the request is not JSON", r.name)
		}
	}
}
