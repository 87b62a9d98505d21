package main

import (
	"archive/zip"
	"bytes"
	"context"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/gatewright/gatewright/console"
	"github.com/gatewright/gatewright/shared/testing/gobuild"
)

const (
	product    = "Gatewright"
	modulePath = "github.com/gatewright/gatewright"
)

var (
	// licenseName matches the names of files with the terms of use of a module.
	licenseName = regexp.MustCompile(`(?i)^(licen[cs]es?|copying|unlicense)([-_.].*)?$`)
	// noticeName matches the names of other files that must be distributed with a module.
	noticeName = regexp.MustCompile(`(?i)^(notices?|copyright|patents|third[-_]party[-_](licen[cs]es|notices))([-_.].*)?$`)
	// consoleLicensesName matches the name of the file, in the console's bundle, with the licenses of the bundle's npm
	// packages.
	consoleLicensesName = regexp.MustCompile(`^licenses-[^/]*\.txt$`)
)

// addProduct adds the license and the notices of the product itself. The notices name the parts
// of the repository that others have made, such as the model that searches the documentation.
func (c collection) addProduct(tree string) error {
	for _, name := range []string{"LICENSE", "NOTICE"} {
		raw, err := os.ReadFile(filepath.Join(tree, name)) //nolint:gosec // G304: a file of the checkout
		if err != nil {
			return fmt.Errorf("read the license of the product: %w", err)
		}
		c.add(raw, origin{product, name})
	}
	return nil
}

// addConsole adds the licenses of the npm packages in the console. The build of the console has collected them in the
// bundle.
func (c collection) addConsole(tree string) error {
	bundle, err := os.ReadFile(filepath.Join(tree, "console", console.FileName)) //nolint:gosec // G304: a file of the checkout
	if err != nil {
		return fmt.Errorf("read the bundle of the console: %w: run make console", err)
	}
	files, err := zip.NewReader(bytes.NewReader(bundle), int64(len(bundle)))
	if err != nil {
		return fmt.Errorf("read the bundle of the console: %w: run make console", err)
	}
	for _, f := range files.File {
		if !consoleLicensesName.MatchString(f.Name) {
			continue
		}
		raw, err := fs.ReadFile(files, f.Name)
		if err != nil {
			return fmt.Errorf("read the licenses of the console: %w", err)
		}
		// The name of the file contains a digest. Use an origin without the digest, so that a new bundle does not
		// change the origin.
		c.add(raw, origin{product + " console", "licenses of its npm packages"})
		return nil
	}
	return errors.New("the bundle of the console has no file of licenses: run make console")
}

// system is an operating system and an architecture, as GOOS and GOARCH.
type system struct{ os, arch string }

// addBinaries adds the licenses of all modules, and of all copied libraries, that binaries link. Each binary says for
// which system it was built and which modules it links.
func (c collection) addBinaries(ctx context.Context, tree string, binaries []string) error {
	programPaths, buildInfos := map[system][]string{}, map[system][]*debug.BuildInfo{}
	for _, name := range binaries {
		info, err := buildinfo.ReadFile(name)
		if err != nil {
			return fmt.Errorf("read which modules are in %s: %w", name, err)
		}
		var s system
		for _, setting := range info.Settings {
			switch setting.Key {
			case "GOOS":
				s.os = setting.Value
			case "GOARCH":
				s.arch = setting.Value
			}
		}
		programPaths[s], buildInfos[s] = append(programPaths[s], info.Path), append(buildInfos[s], info)
	}
	if len(programPaths) == 0 {
		return errors.New("no binaries to collect licenses for: name them as arguments")
	}
	for s, paths := range programPaths {
		pkgs, err := goList(ctx, tree, s, paths)
		if err != nil {
			return err
		}
		for _, info := range buildInfos[s] {
			if err := checkModules(info, pkgs); err != nil {
				return err
			}
		}
		if err := c.addPackages(pkgs); err != nil {
			return err
		}
	}
	return nil
}

// listedPackage is a package in the output of go list.
type listedPackage struct {
	ImportPath, Dir, Root string
	Standard              bool
	Module                *listedModule
}

// listedModule is the module of a package.
type listedModule struct {
	Path, Version, Dir string
	Replace            *listedModule
}

// effective returns the module whose files are compiled: the replacement of m, or m if it is not replaced.
func (m *listedModule) effective() *listedModule {
	if m.Replace != nil {
		return m.Replace
	}
	return m
}

// goList returns all packages that programs link on a system. programPaths are the import paths of the programs.
func goList(ctx context.Context, tree string, s system, programPaths []string) ([]listedPackage, error) {
	args := append([]string{"list", "-deps", "-json=ImportPath,Dir,Root,Standard,Module"}, programPaths...)
	cmd := exec.CommandContext(ctx, "go", args...) //nolint:gosec // G204: the go command, of packages of the product
	cmd.Dir, cmd.Env = tree, append(gobuild.Environ(), "GOOS="+s.os, "GOARCH="+s.arch)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list the packages of %s: %w: %s", strings.Join(programPaths, ", "), err, stderr.Bytes())
	}
	var pkgs []listedPackage
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listedPackage
		switch err := d.Decode(&p); {
		case errors.Is(err, io.EOF):
			return pkgs, nil
		case err != nil:
			return nil, fmt.Errorf("read the list of packages: %w", err)
		}
		pkgs = append(pkgs, p)
	}
}

// checkModules returns an error if a binary contains a module that the checkout does not link, because such a binary
// was built from another checkout.
func checkModules(info *debug.BuildInfo, pkgs []listedPackage) error {
	known := map[string]bool{}
	for _, p := range pkgs {
		if p.Module != nil {
			known[p.Module.effective().Path+" "+p.Module.effective().Version] = true
		}
	}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		if !known[m.Path+" "+m.Version] {
			return fmt.Errorf("the binary of %s contains %s %s, which this checkout does not link: build it again from "+
				"this checkout", info.Path, m.Path, m.Version)
		}
	}
	return nil
}

// addPackages adds the license texts in the root folders of the packages' modules, and in all folders between the root
// folders and the packages. It leaves out the product's root folder, which addProduct reads. Some modules contain
// packages of other authors, with licenses in the folders of these packages. addPackages returns an error if a module's
// source is not on this machine, or has no license in its root folder.
func (c collection) addPackages(pkgs []listedPackage) error {
	folders := map[string]owner{}
	for _, p := range pkgs {
		o := ownerOf(p)
		if o.root == "" {
			return fmt.Errorf("the source of %s is not on this machine: run go mod download", p.ImportPath)
		}
		for folder := p.Dir; folders[folder].name == ""; folder = filepath.Dir(folder) {
			if folder == o.root && o.name == modulePath {
				break // addProduct adds the texts of the product itself
			}
			folders[folder] = o
			if folder == o.root || folder == filepath.Dir(folder) {
				break
			}
		}
	}
	licensed := map[string]bool{}
	for folder, o := range folders {
		found, err := c.addFolder(folder, o)
		if err != nil {
			return err
		}
		licensed[o.name] = licensed[o.name] || found && folder == o.root
	}
	var missing []string
	for name, found := range licensed {
		if !found && name != modulePath {
			missing = append(missing, name)
		}
	}
	slices.Sort(missing)
	if len(missing) > 0 {
		return fmt.Errorf("no license file (LICENSE, COPYING) in the root folder of %s: ask the authors for one, or use "+
			"another module", strings.Join(missing, ", "))
	}
	return nil
}

// owner is a module, or the standard library.
type owner struct {
	// name is the path of the module with its version, or the name of the standard library.
	name string
	// root is the folder with the owner's license.
	root string
}

// ownerOf returns the owner of a package.
func ownerOf(p listedPackage) owner {
	switch {
	case p.Standard:
		return owner{"the Go standard library", p.Root}
	case p.Module.Path == modulePath:
		return owner{modulePath, p.Module.Dir}
	}
	m := p.Module.effective()
	return owner{m.Path + " " + m.Version, m.Dir}
}

// addFolder adds the license and notice texts in a folder of an owner. It reports whether one of them is a license.
func (c collection) addFolder(folder string, o owner) (licensed bool, err error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return false, fmt.Errorf("look for the license of %s: %w", o.name, err)
	}
	for _, e := range entries {
		isLicense := licenseName.MatchString(e.Name())
		if e.IsDir() || path.Ext(e.Name()) == ".go" || !isLicense && !noticeName.MatchString(e.Name()) {
			continue
		}
		file := filepath.Join(folder, e.Name())
		raw, err := os.ReadFile(file) //nolint:gosec // G304: a file of a module
		if err != nil {
			return false, fmt.Errorf("read a license of %s: %w", o.name, err)
		}
		if len(bytes.TrimSpace(raw)) == 0 {
			continue
		}
		relative, err := filepath.Rel(o.root, file)
		if err != nil {
			return false, fmt.Errorf("read a license of %s: %w", o.name, err)
		}
		c.add(raw, origin{o.name, filepath.ToSlash(relative)})
		licensed = licensed || isLicense
	}
	return licensed, nil
}
