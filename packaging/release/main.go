// Command release collects the files of a release in a folder of dist/release, for `make release`:
//
//	make release VERSION=v0.1.0 KEY=~/.ssh/gatewright-release
//
// It first checks whether it can make the release (-check): the checkout is clean, its commit has the tag, this machine builds as
// others do, CHANGELOG.md has a section for the version, and the key signs a trial. After make has built archives and images, it
// collects them with their bills of materials, the license texts, compose.yaml and the release notes. Then it writes SHA256SUMS
// and signs it. Two builds of a commit have the same bytes.
//
// It does not publish anything, and it does not change the version: CONTRIBUTING.md says how a maintainer does both.
// Read check.go for the checks, assemble.go for the files, changelog.go for the release notes and sign.go for the
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
	o := options{version: release.Version(), printed: os.Stdout, settings: goSettings}
	var systems, services string
	var check bool
	flag.StringVar(&o.tree, "tree", ".", "the checkout's folder")
	flag.StringVar(&o.built, "built", "dist", "the folder with binaries, archives and images")
	flag.StringVar(&o.out, "out", filepath.Join("dist", "release"), "the folder in which to create the folder of the release")
	flag.StringVar(&o.tag, "tag", "", "the tag to release, such as v1.2.3")
	flag.StringVar(&o.key, "key", "", "the file of the SSH key that signs the release, or of the public key if an agent has the private key")
	flag.StringVar(&systems, "systems", "", "the systems to release for, separated by spaces, such as linux-amd64")
	flag.StringVar(&services, "services", "", "the services with an image of their own, separated by spaces")
	flag.BoolVar(&o.dry, "dry-run", false, "need no tag and no key, and write no signature")
	flag.BoolVar(&check, "check", false, "only check whether the release can be made, and write nothing")
	flag.Parse()
	o.systems, o.services, o.key = strings.Fields(systems), strings.Fields(services), expanded(o.key)
	if err := run(context.Background(), o, check); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// run checks a release. Unless checkOnly is true, it then writes the files of the release.
func run(ctx context.Context, o options, checkOnly bool) error {
	notes, err := o.check(ctx)
	switch {
	case err != nil:
		return err
	case checkOnly && o.dry:
		return nil
	case checkOnly:
		return o.trySignature(ctx)
	}
	return o.assemble(ctx, notes)
}

// expanded returns a path with the home folder for ~ in front of it, which few shells replace in KEY=~/key.
func expanded(file string) string {
	within, ok := strings.CutPrefix(file, "~/")
	if home, err := os.UserHomeDir(); ok && err == nil {
		return filepath.Join(home, within)
	}
	return file
}
