package builds

import (
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/resource/deployments"
)

// TestRefusedBuildReportsErrorCountAndFirstFile checks the message of a refused build.
func TestRefusedBuildReportsErrorCountAndFirstFile(t *testing.T) {
	file := deployments.Finding{File: "config/routes.oas.json", Path: "/paths", Message: "x"}
	archive := deployments.Finding{Message: "The archive is no tar file."}
	unlisted := deployments.Finding{Message: "There are 3 more of these."}
	for want, errs := range map[string][]deployments.Finding{
		"built: 1 error.": {archive},
		"built: 1 error, the first in config/routes.oas.json.":  {file},
		"built: 2 errors, the first in config/routes.oas.json.": {archive, file},
		"built: more than 200 errors, the first in config/routes.oas.json.": append(slices.Repeat([]deployments.Finding{file},
			200), unlisted),
	} {
		if got := refusalMessage(errs); !strings.Contains(got, want) || !strings.HasSuffix(got, "what to correct.") {
			t.Errorf("refusalMessage() = %q, want %q, and \"what to correct.\" at the end", got, want)
		}
	}
}
