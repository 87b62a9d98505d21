package release_test

import (
	"regexp"
	"testing"

	"github.com/gatewright/gatewright/shared/release"
)

// TestVersionIsSemantic, and so can be a tag of an image, a part of a file's name and of a label.
func TestVersionIsSemantic(t *testing.T) {
	if v := release.Version(); !regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9a-z]+(\.[0-9a-z]+)*)?$`).MatchString(v) {
		t.Errorf("shared/release/VERSION has %q: write one such as 1.2.3, or 1.2.3-dev for what will be it", v)
	}
}
