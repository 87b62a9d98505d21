package deployments

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestLabelFollowsContract14 checks the labels that contract 1.4 requires for branches.
func TestLabelFollowsContract14(t *testing.T) {
	for branch, want := range map[string]string{
		"main":                 "main",
		"feature/auth":         "feature-au",
		"Feature//Auth":        "feature-au",
		"déjà-vu":              "deja-vu",
		"under_score":          "under-scor",
		"-x-":                  "x",
		"123456789-abc":        "123456789",
		"a  b!!c":              "a-b-c",
		"日本":                   "branch",
		"_":                    "branch",
		"dependabot/npm/x-1.2": "dependabot",
	} {
		if got := label(branch); got != want {
			t.Errorf("label(%q) = %q, want %q", branch, got, want)
		}
	}
}

func TestDeploymentNamesAreDNSLabels(t *testing.T) {
	dns := regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)
	rapid.Check(t, func(rt *rapid.T) {
		project := rapid.StringMatching(`[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?`).Draw(rt, "project")
		branch := rapid.String().Draw(rt, "branch")
		name := deploymentName(project, branch, "0a1b2c3")
		if len(name) > 63 || !dns.MatchString(name) || !strings.HasSuffix(name, "-0a1b2c3") {
			rt.Fatalf("deploymentName(%q, %q) = %q, want a DNS label with suffix -0a1b2c3", project, branch, name)
		}
		if len(project) <= 44 && !strings.HasPrefix(name, project+"-"+label(branch)) {
			rt.Fatalf("deploymentName(%q, %q) = %q, want prefix %s-%s", project, branch, name, project, label(branch))
		}
	})
}
