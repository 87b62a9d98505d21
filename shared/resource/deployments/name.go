package deployments

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/auth"
)

// The maximum lengths of names and of their parts. A deployment's name must fit into a DNS label.
const (
	maxProjectChars = 63
	maxBranchBytes  = 255
	maxLabelChars   = 10
	suffixChars     = 7
	maxDNSLabel     = 63
)

// projectPattern is the pattern of project names (contract 1.4). Deployment names match it too.
var projectPattern = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)

// IsProjectName reports whether the name is valid for a project.
func IsProjectName(name string) bool {
	return len(name) <= maxProjectChars && projectPattern.MatchString(name)
}

// ParseProjects parses a comma-separated list of project names. "all" and auth.AllProjects mean all projects.
func ParseProjects(text string) ([]string, error) {
	if text == auth.AllProjects || text == "all" {
		return []string{auth.AllProjects}, nil
	}
	var out []string
	for name := range strings.SplitSeq(text, ",") {
		name = strings.TrimSpace(name)
		if !IsProjectName(name) {
			return nil, errors.New("write * alone for all projects, or a list of names such as shop,blog (a-z, 0-9 and -)")
		}
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out, nil
}

// checkProject rejects an invalid project name. The fault is Unprocessable, because clients then prompt for another name.
func checkProject(name string) error {
	if !IsProjectName(name) {
		return fault.New(fault.Unprocessable, "A project's name has 1 to %d of the characters a-z, 0-9 and -, and neither "+
			"begins nor ends with -. Choose another name.", maxProjectChars)
	}
	return nil
}

func checkBranch(branch string) error {
	switch {
	case branch == "":
		return fault.InvalidField("branchName", "is required: name the branch")
	case len(branch) > maxBranchBytes:
		return fault.InvalidField("branchName", "has more than %d bytes", maxBranchBytes)
	case !utf8.ValidString(branch) || strings.ContainsFunc(branch, unicode.IsControl):
		return fault.InvalidField("branchName", "has control characters or is no UTF-8")
	}
	return nil
}

// label returns the form of a branch in deployment names: at most 10 of the characters a-z, 0-9 and - (prettyBranch in
// contract 1.4).
func label(branch string) string {
	var b strings.Builder
	for _, r := range norm.NFD.String(branch) {
		switch {
		case unicode.Is(unicode.Mn, r):
		case r == '_' || r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r)):
			b.WriteRune(unicode.ToLower(r))
		case !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
	}
	text := strings.ReplaceAll(strings.Trim(b.String(), "-"), "_", "-")
	text = strings.Trim(text[:min(len(text), maxLabelChars)], "-")
	if text == "" {
		return "branch" // the branch has no valid characters
	}
	return text
}

// deploymentName returns the name of a deployment, which ends with digits: 7 random hexadecimal digits. The tombstone
// of a deleted deployment keeps its name reserved, so a branch that is deployed again gets another address. If the
// digits were a hash of project and branch, the new deployment would have the name of the deleted one. A late build,
// event or cleanup of the deleted deployment would then revive or empty the new one.
func deploymentName(project, branch, digits string) string {
	suffix := "-" + label(branch) + "-" + digits
	project = project[:min(len(project), maxDNSLabel-len(suffix))]
	return strings.TrimRight(project, "-") + suffix
}

// suffixOf returns the 7 digits of a deployment's name.
func suffixOf(name string) string { return name[max(0, len(name)-suffixChars):] }
