package release_test

import (
	"regexp"
	"testing"

	"github.com/gatewright/gatewright/shared/base/release"
)

// TestVersionIsSemantic checks that the version is a semantic version without capitals and build metadata, so that it
// can be the tag of an image.
func TestVersionIsSemantic(t *testing.T) {
	if v := release.Version(); !regexp.MustCompile(
		`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9a-z]+(\.[0-9a-z]+)*)?$`).MatchString(v) {
		t.Errorf("Version() = %q, want a version such as 1.2.3, or 1.2.3-dev before its release", v)
	}
}
