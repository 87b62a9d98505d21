// Package scaffold makes a project's folder: of a template, or of a description of an API, whose operations become routes.
//
// What it is not: it checks no project (package validate), and sends nothing. Nothing that is there is written over: either all files are made,
// or none.
//
// Read scaffold.go first, then describe.go, which reads descriptions; the files of the template are in template.
package scaffold

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/gatewright/gatewright/client/exit"
	"github.com/gatewright/gatewright/shared/disk"
)

//go:embed template template/.gatewrightignore
var template embed.FS

// The files of a project that describe its routes and its policies.
const (
	RoutesFile   = "config/routes.oas.json"
	PoliciesFile = "config/policies.json"
)

// DefaultUpstream stands in a template where nobody names an upstream.
const DefaultUpstream = "https://upstream.example.com"

// Files are those of the template, by their paths below the project's folder, with routes that forward to an upstream.
func Files(upstream string) (map[string][]byte, error) {
	if upstream == "" {
		upstream = DefaultUpstream
	}
	if err := checkUpstream(upstream); err != nil {
		return nil, err
	}
	quoted, err := jsontext.AppendQuote(nil, upstream)
	if err != nil {
		return nil, fmt.Errorf("write the upstream's address: %w", err)
	}
	all := map[string][]byte{}
	err = fs.WalkDir(template, "template", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := template.ReadFile(path)
		all[strings.TrimPrefix(path, "template/")] = []byte(strings.ReplaceAll(string(text), `"UPSTREAM"`, string(quoted)))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the template: %w", err)
	}
	return all, nil
}

// checkUpstream refuses what no route forwards to.
func checkUpstream(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return exit.With(exit.Usage, errors.New("an upstream's address is one such as https://upstream.example.com/v1, without user, query and fragment"))
	}
	return nil
}

// Make writes files into a folder, which is made where it is not there. Where one of them is there, none is written: the error names those. Of what
// cannot be written whole nothing stays, and no folder that was made for it.
func Make(folder string, files map[string][]byte) error {
	names := slices.Sorted(maps.Keys(files))
	var there []string
	for _, name := range names {
		if _, err := os.Lstat(filepath.Join(folder, filepath.FromSlash(name))); err == nil {
			there = append(there, name)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return exit.With(exit.Usage, fmt.Errorf("look at %s in %s: %w", name, folder, disk.Cause(err)))
		}
	}
	if len(there) > 0 {
		return exit.With(exit.Conflict, fmt.Errorf("%s has %s already, and nothing is written over: name another folder", folder, strings.Join(there, ", ")))
	}
	var made []string
	for _, name := range names {
		path := filepath.Join(folder, filepath.FromSlash(name))
		made = append(made, missing(filepath.Dir(path))...)
		if err := create(path, files[name]); err != nil {
			for _, path := range slices.Backward(made) {
				_ = os.Remove(path) // a folder that has anything by now stays
			}
			return fmt.Errorf("write %s in %s: %w", name, folder, disk.Cause(err))
		}
		made = append(made, path)
	}
	return nil
}

// missing are the folders that are not there of those that a folder is in, the outermost first, and itself.
func missing(folder string) (all []string) {
	above := filepath.Dir(folder)
	if _, err := os.Lstat(folder); !errors.Is(err, fs.ErrNotExist) || above == folder {
		return nil
	}
	return append(missing(above), folder)
}

// create writes a new file, whole or not at all.
func create(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // G301: a project is no secret
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644) //nolint:gosec // G302, G304: a project is no secret, and its user names it
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err != nil {
		_ = os.Remove(path)
	}
	return err
}
