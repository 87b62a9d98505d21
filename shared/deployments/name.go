package deployments

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/fault"
)

// Bounds of names. A deployment's name is a DNS label and has to fit one.
const (
	maxProjectChars = 63
	maxBranchBytes  = 255
	maxLabelChars   = 10
	suffixChars     = 7
	maxDNSLabel     = 63
)

// projectPattern is that of contract 1.4.
var projectPattern = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)

// IsProjectName reports whether a project may have the name.
func IsProjectName(name string) bool {
	return len(name) <= maxProjectChars && projectPattern.MatchString(name)
}

// ParseProjects reads a comma-separated list of projects' names, or "all".
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

// checkProject refuses a name that no project may have. The kind of the fault
// is Unprocessable: clients ask for another name then.
func checkProject(name string) error {
	if !IsProjectName(name) {
		return fault.New(fault.Unprocessable, "A project's name has 1 to %d of the characters a-z, 0-9 and -, and neither begins nor ends with -. Choose another name.", maxProjectChars)
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

// label is a branch as it stands in names (prettyBranch of contract 1.4): at
// most 10 of the characters a-z, 0-9 and -.
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
		return "branch" // nothing of it can stand in a name
	}
	return text
}

// deploymentName makes the name of a deployment from 7 hexadecimal digits. They
// are random, and the tombstone of a deleted deployment keeps its name taken.
// Builds, events and clean-ups may come late: with digits that are a hash of
// project and branch, a late one would revive or empty the deployment that was
// made anew under the name. The price: such a branch gets another address.
func deploymentName(project, branch, digits string) string {
	rest := "-" + label(branch) + "-" + digits
	project = project[:min(len(project), maxDNSLabel-len(rest))]
	return strings.TrimRight(project, "-") + rest
}

// suffixOf are the 7 digits of a deployment's name.
func suffixOf(name string) string { return name[max(0, len(name)-suffixChars):] }
