package counts

import (
	"testing"
)

// TestRowsWithoutSubtractedCountsAreRead reads a row of an earlier release, which has no subtracted parts of counts
// (see counter). All subtracted parts must be 0.
func TestRowsWithoutSubtractedCountsAreRead(t *testing.T) {
	t.Parallel()
	data := append([]byte{formatPlain},
		`{"c":{"acme":{"200":3},"(other)":{"404":2}},"o":[{"n":"(other)","y":"query","k":2,"t":"","r":""},`+
			`{"n":"List","y":"query","k":7,"t":"","r":""}]}`...)
	got, err := unpackTally(data)
	if err != nil {
		t.Fatalf("unpackTally(row of an earlier release) error = %v, want none", err)
	}
	if n := got.calls[caller{"acme", 200}]; n != (counter{count: 3}) || len(got.calls) != 1 || got.otherCalls[404] != 2 {
		t.Errorf("calls = %v and others %v, want 3 of acme with 200 and 2 others with 404", got.calls, got.otherCalls)
	}
	if m := got.operations[operation{"List", "query"}]; m == nil || m.counter != (counter{count: 7}) ||
		len(got.operations) != 1 {
		t.Errorf("List = %+v of %d operations, want the count 7 of 1 operation", m, len(got.operations))
	}
	if other := got.otherOperations["query"]; other == nil || other.counter != (counter{count: 2}) {
		t.Errorf("other queries = %+v, want the count 2", other)
	}
}
