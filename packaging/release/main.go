// Command release puts the files of a release into dist/release, for `make release`:
//
//	make release VERSION=v0.1.0 KEY=~/.ssh/gatewright-release
//
// It first checks that there is something to release (-check): a clean checkout, the tag at its commit, a section of
// CHANGELOG.md and a key. After make has built archives and images, it collects them with their bills of materials, the license
// texts, compose.yaml and the release notes, and writes and signs SHA256SUMS. Two builds of a commit make the same bytes.
//
// It does not publish anything, and it does not change the version: CONTRIBUTING.md says who does.
// Read check.go for what is refused, assemble.go for the files, changelog.go for the release notes and sign.go for the
// signature. The reasons are in docs/decisions/0077-releases-are-signed-with-ssh-keys.md.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gatewright/gatewright/shared/release"
)

func main() {
	o := options{version: release.Version(), printed: os.Stdout}
	var systems, services string
	var check bool
	flag.StringVar(&o.tree, "tree", ".", "the checkout's folder")
	flag.StringVar(&o.built, "built", "dist", "the folder with binaries, archives and images")
	flag.StringVar(&o.out, "out", filepath.Join("dist", "release"), "the folder to write a folder with the release into")
	flag.StringVar(&o.tag, "tag", "", "the tag to release, such as v1.2.3")
	flag.StringVar(&o.key, "key", "", "the file of the SSH key that signs the release, or of its public half if an agent has the key")
	flag.StringVar(&systems, "systems", "", "the systems of archives, with spaces between")
	flag.StringVar(&services, "services", "", "the services that have an image, with spaces between")
	flag.BoolVar(&o.dry, "dry-run", false, "make a release without a tag and without a signature")
	flag.BoolVar(&check, "check", false, "check whether there is something to release, and write nothing")
	flag.Parse()
	o.systems, o.services = strings.Fields(systems), strings.Fields(services)
	if err := run(context.Background(), o, check); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// run checks a release, and puts its files together unless only the check was asked for.
func run(ctx context.Context, o options, checkOnly bool) error {
	notes, err := o.check(ctx)
	if err != nil || checkOnly {
		return err
	}
	return o.assemble(ctx, notes)
}
