package heading_test

import (
	"testing"

	"github.com/gatewright/gatewright/shared/format/heading"
)

// TestAnchorsMatchGitHub checks that anchors equal those of GitHub, and are unique.
func TestAnchorsMatchGitHub(t *testing.T) {
	names := heading.Anchors{}
	for _, test := range []struct{ title, want string }{
		{"By curl", "by-curl"},
		{"What is counted, and what is lost", "what-is-counted-and-what-is-lost"},
		{"graphql-analytics-outbound", "graphql-analytics-outbound"},
		{"By curl", "by-curl-1"},
		{"Éclair & co", "éclair--co"},
		{"By curl", "by-curl-2"},
	} {
		if got := names.Next(test.title); got != test.want {
			t.Errorf("Next(%q) = %q, want %q", test.title, got, test.want)
		}
	}
}
