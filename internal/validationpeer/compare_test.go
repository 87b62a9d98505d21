package validationpeer_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/testing/simulations"
)

// generatedRequests is the number of requests in make test. make nightly sends maxRequests.
const (
	generatedRequests = 5000
	maxRequests       = 20_000
)

// reason is a reason why one side accepts a request and the other refuses it.
type reason struct {
	Reason string `json:"reason"`
	// Accepts is the side that accepts the request: "gateway" or "openapi-core".
	Accepts string `json:"accepts"`
	// Error is a regular expression for the errors of the side that refuses the request.
	Error string `json:"error"`
	// Change is a regular expression for the labels of the request, or "" for all requests.
	Change string `json:"change,omitempty"`
	// Right is the side that is right, or "both", and Source is the sentence that says so.
	Right  string `json:"right"`
	Source string `json:"source"`

	errors, changes *regexp.Regexp
	count           int
}

// readReasons returns the listed reasons.
func readReasons(t *testing.T) []*reason {
	t.Helper()
	raw, err := os.ReadFile("testdata/reasons.json")
	if err != nil {
		t.Fatal(err)
	}
	var all []*reason
	if err := json.Unmarshal(raw, &all); err != nil {
		t.Fatal(err)
	}
	for _, r := range all {
		r.errors, r.changes = regexp.MustCompile("(?s)"+r.Error), regexp.MustCompile("(?s)"+r.Change)
	}
	return all
}

// find returns the reason for an error of the side that refuses a request, or nil.
func find(all []*reason, accepts, refusal string, r *request) *reason {
	for _, listed := range all {
		if listed.Accepts == accepts && listed.errors.MatchString(refusal) && listed.changes.MatchString(r.String()) {
			return listed
		}
	}
	return nil
}

// TestGatewayAndPeerAgree generates requests with a fixed seed, and compares the results of the gateway with those of
// openapi-core. Results that differ need a listed reason for each error.
func TestGatewayAndPeerAgree(t *testing.T) {
	p := startPeer(t)
	gateway := connect(t)
	operations := readOperations(t)
	random := rand.New(rand.NewPCG(37, 1))
	requests := make([]*request, min(simulations.Runs(generatedRequests), maxRequests))
	for i := range requests {
		requests[i] = generate(random, operations)
	}
	written := make(chan error, 1)
	go func() { written <- p.write(requests) }()
	reasons := readReasons(t)
	counts := map[string]int{}
	agreed := map[string]int{} // by operation and result
	for _, r := range requests {
		status, ours := gateway.send(t, r)
		theirs, err := p.read()
		if err != nil {
			t.Fatalf("%s: openapi-core: %v, want a result", r, err)
		}
		counts[fmt.Sprintf("gateway %t, openapi-core %t", len(ours) == 0, len(theirs) == 0)]++
		if len(r.labels) == 0 && len(ours) > 0 {
			t.Errorf("%s %s %q %q: status = %d, %q, want 204 for a valid request", r.method, r.target(), r.fields, r.body,
				status, ours)
		}
		accepts, refusals := "gateway", theirs
		switch {
		case status >= 500:
			t.Errorf("%s: status = %d, want 204 or 4xx", r, status)
			continue
		case (len(ours) == 0) == (len(theirs) == 0):
			agreed[fmt.Sprintf("%s accepted=%t", r.id, len(ours) == 0)]++
			continue
		case len(theirs) == 0:
			accepts, refusals = "openapi-core", ours
		}
		for _, refusal := range refusals {
			if listed := find(reasons, accepts, refusal, r); listed != nil {
				listed.count++
			} else {
				t.Errorf("%s: only the %s accepts %s %s %q %q, want the same result or a listed reason: %s", r, accepts,
					r.method, r.target(), r.fields, r.body, refusal)
			}
		}
	}
	if err := <-written; err != nil {
		t.Errorf("write to openapi-core: %v, want success", err)
	}
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("peer.py: %v, want success", err)
	}
	for _, op := range operations {
		if len(requests) < generatedRequests {
			break
		}
		for _, accepted := range []bool{true, false} {
			if result := fmt.Sprintf("%s accepted=%t", op.id, accepted); agreed[result] == 0 {
				t.Errorf("%d requests: %s by both 0 times, want 1 or more", len(requests), result)
			}
		}
	}
	var table strings.Builder
	for _, listed := range reasons {
		fmt.Fprintf(&table, "\n%6d %s: %s", listed.count, listed.Accepts, listed.Reason)
	}
	t.Logf("%d requests: %v%s", len(requests), counts, table.String())
}
