// Package release says what release a binary is. Its number is the text of the file VERSION beside this one, and so the
// same wherever a source tree is built: not a tag, not a time, not a machine.
//
// What it is not: the number of any format. What writes data says what form it has (embedded.Format, project.ArtifactFormat),
// and most releases change none.
//
// There is only this file. CONTRIBUTING.md says when VERSION changes.
package release

import (
	_ "embed"
	"runtime"
	"strings"
)

//go:embed VERSION
var version string

// Version is the release in the form of semantic versioning (https://semver.org), such as 1.2.3; 1.2.3-dev is what will be it.
func Version() string { return strings.TrimSpace(version) }

// Built is what the binary was built by and for, as Go says it: go1.26.8 linux/amd64.
func Built() string { return runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH }
