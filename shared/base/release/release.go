// Package release has the version of a binary. The version is the text of the file VERSION in this folder. It is the
// same wherever a source tree is built, because it does not depend on a tag, a time or a machine.
//
// It is not the version of a data format. Code that writes data has its own format version (embedded.Format,
// project.ArtifactFormat). Most releases change no format.
//
// This is the only file. CONTRIBUTING.md says when VERSION changes.
package release

import (
	_ "embed"
	"runtime"
	"strings"
)

//go:embed VERSION
var version string

// Version returns the version in the form of semantic versioning
// (https://semver.org), such as 1.2.3. 1.2.3-dev is a build before the release 1.2.3.
func Version() string { return strings.TrimSpace(version) }

// Toolchain returns the Go version that built the binary and its target, in Go's notation: go1.26.8 linux/amd64.
func Toolchain() string { return runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH }
