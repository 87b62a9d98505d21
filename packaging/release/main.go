// Command release collects the files of a release in a folder of dist/release, for `make release`:
//
//	make release VERSION=v0.1.0 KEY=~/.ssh/gatewright-release
//
// It first checks whether it can make the release (-check): the checkout is clean, its commit has the tag, this machine
// uses the settings for releases, CHANGELOG.md has a section for the version, and the key can sign. After make has
// built the archives and images, the command collects them with their bills of materials, the license texts,
// compose.yaml and the release notes. Then it writes SHA256SUMS and signs it. Two builds of a commit have the same
// bytes.
//
// It does not publish anything, and it does not change the version: CONTRIBUTING.md says how a maintainer publishes a
// release and changes the version. Read check.go for the checks, assemble.go for the files, changelog.go for the
// release notes and sign.go for the signature. The reasons are in
// docs/decisions/0077-releases-are-signed-with-ssh-keys.md.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gatewright/gatewright/shared/base/release"
)

func main() {
	o := options{version: release.Version(), output: os.Stdout, settings: goSettings}
	var systems, services string
	var check bool
	flag.StringVar(&o.tree, "tree", ".", "the checkout's folder")
	flag.StringVar(&o.buildDir, "built", "dist", "the folder with binaries, archives and images")
	flag.StringVar(&o.out, "out", filepath.Join("dist", "release"),
		"the folder in which to create the folder of the release")
	flag.StringVar(&o.tag, "tag", "", "the tag to release, such as v1.2.3")
	flag.StringVar(&o.key, "key", "", "the file of the SSH key that signs the release, or of the public key if an agent "+
		"has the private key")
	flag.StringVar(&systems, "systems", "", "the systems to release for, separated by spaces, such as linux-amd64")
	flag.StringVar(&services, "services", "", "the services with an image of their own, separated by spaces")
	flag.BoolVar(&o.dryRun, "dry-run", false, "need no tag and no key, and write no signature")
	flag.BoolVar(&check, "check", false, "only check whether the release can be made, and write nothing")
	flag.Parse()
	o.systems, o.services, o.key = strings.Fields(systems), strings.Fields(services), expandHome(o.key)
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
	case checkOnly && o.dryRun:
		return nil
	case checkOnly:
		return o.trySignature(ctx)
	}
	return o.assemble(ctx, notes)
}

// expandHome replaces ~ at the beginning of a path with the home folder, because few shells do that in KEY=~/key.
func expandHome(file string) string {
	relative, ok := strings.CutPrefix(file, "~/")
	if home, err := os.UserHomeDir(); ok && err == nil {
		return filepath.Join(home, relative)
	}
	return file
}
