package variables

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gatewright/gatewright/shared/base/fault"
)

// The limits of names and values (contract 1.4 and 2.7).
const (
	// MaxValueBytes is the maximum size of a value: 5 KiB.
	MaxValueBytes = 5 << 10
	// MaxNameChars is the maximum length of a name. The contract has no limit, but the table limits the length of keys.
	MaxNameChars   = 256
	maxBranchBytes = 255
)

// Names with the first two prefixes are reserved for the product. Names with publicPrefix are an exception: projects
// may use them.
const (
	reservedPrefix       = "GATEWRIGHT_"
	hiddenReservedPrefix = "__GATEWRIGHT"
	publicPrefix         = "GATEWRIGHT_PUBLIC_"
)

// namePattern is SCREAMING_SNAKE_CASE (specification 8).
var namePattern = regexp.MustCompile(`^[A-Z][A-Z0-9_]*$`)

// problems collects the validation errors of an input. No error repeats the name or
// the value: a value may be a secret, and a name may contain a secret by mistake.
type problems struct{ fault.Fields }

func (p *problems) check(field, message string) {
	if message != "" {
		p.Add(field, "%s", message)
	}
}

// Each of the following functions returns the validation error of its argument, or "" if the argument is valid.

func nameError(name string) string {
	reserved := strings.HasPrefix(name, reservedPrefix) && !strings.HasPrefix(name, publicPrefix)
	switch {
	case reserved || strings.HasPrefix(name, hiddenReservedPrefix):
		return "begins with a reserved prefix: begin it with " + publicPrefix + ", or with something other than " +
			reservedPrefix
	case !namePattern.MatchString(name):
		return "has to be SCREAMING_SNAKE_CASE: the characters A-Z, 0-9 and _, a letter first"
	case len(name) > MaxNameChars:
		return fmt.Sprintf("has more than %d characters", MaxNameChars)
	}
	return ""
}

func valueError(value string) string {
	switch {
	case len(value) > MaxValueBytes:
		return fmt.Sprintf("has more than %d bytes", MaxValueBytes)
	case !utf8.ValidString(value) || strings.ContainsRune(value, 0):
		return "has to be UTF-8 text without NUL characters; encode binary data as base64"
	}
	return ""
}

func branchError(branch string) string {
	switch {
	case branch == "" || len(branch) > maxBranchBytes:
		return fmt.Sprintf("has to have 1 to %d bytes", maxBranchBytes)
	case !utf8.ValidString(branch) || strings.ContainsFunc(branch, unicode.IsControl):
		return "has control characters or is no UTF-8"
	}
	return ""
}
