// Package scaffold creates a project's folder from a template, or from a description of an API. In the latter case, the
// operations of the API become routes.
//
// It does not check the project (package validate) and sends nothing. It overwrites no file: it creates all files, or
// none.
//
// Read scaffold.go first, then describe.go, which adds routes to descriptions. text.go reads descriptions, and
// indent.go indents them. swagger.go and the files whose names begin with swagger convert Swagger 2.0. servers.go
// chooses the servers to which routes forward. security.go maps security schemes to policies, and tokens.go those for
// JSON Web Tokens. pathitems.go writes out references between paths, and files.go copies the files of references. The
// files of the template are in the folder template.
package scaffold

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/gatewright/gatewright/client/exit"
	"github.com/gatewright/gatewright/shared/base/disk"
	"github.com/gatewright/gatewright/shared/format/project"
)

//go:embed template template/.gatewrightignore
var template embed.FS

// These are the files of a project that describe its routes and its policies.
const (
	RoutesFile   = "config/routes.oas.json"
	PoliciesFile = "config/policies.json"

	settingsFile = "gatewright.jsonc"
)

// DefaultUpstream is the upstream in a template if the user does not specify one.
const DefaultUpstream = "https://upstream.example.com"

// TemplateFiles returns the files of the template by their paths in the project's folder. Their routes forward to
// upstream.
func TemplateFiles(upstream string) (map[string][]byte, error) {
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

// UseDescription replaces the routes and policies of the template by those of a description. It also sets the setting
// security: the build refuses operations that are open although the description requires authentication, unless there
// are such operations already.
func UseDescription(files map[string][]byte, routes Routes) {
	files[RoutesFile] = routes.Text
	maps.Copy(files, routes.Files)
	delete(files, PoliciesFile)
	if routes.Policies != nil {
		files[PoliciesFile] = routes.Policies
	}
	setting := "reported"
	if routes.IsSecured {
		setting = "enforced"
	}
	const comment = "  // What the build does with an operation that is open although the description requires " +
		"authentication:\n  // \"enforced\" refuses it, \"reported\" warns.\n"
	before, _, _ := strings.Cut(string(files[settingsFile]), "\n}")
	files[settingsFile] = []byte(before + "\n" + comment + `  "security": "` + setting + "\",\n}\n")
}

// checkUpstream returns an error for an address to which routes cannot forward.
func checkUpstream(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" ||
		u.Fragment != "" {
		return exit.WithCode(exit.Usage, errors.New("an upstream's address is one such as https://upstream.example.com/v1, "+
			"without user, query and fragment"))
	}
	return nil
}

// WriteFiles writes files to a folder, and creates the folder if necessary. If one of the files exists, or any routes file,
// it writes no file and returns an error with the names of the existing files. After a failure, it removes all files and
// folders that it has created.
func WriteFiles(folder string, files map[string][]byte) error {
	names := slices.Sorted(maps.Keys(files))
	var existing []string
	for _, name := range names {
		if _, err := os.Lstat(filepath.Join(folder, filepath.FromSlash(name))); err == nil {
			existing = append(existing, name)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return exit.WithCode(exit.Usage, fmt.Errorf("look at %s in %s: %w", name, folder, disk.Cause(err)))
		}
	}
	others, err := os.ReadDir(filepath.Join(folder, configFolder))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return exit.WithCode(exit.Usage, fmt.Errorf("look at %s in %s: %w", configFolder, folder, disk.Cause(err)))
	}
	for _, e := range others {
		if name := path.Join(configFolder, e.Name()); project.IsRoutesFile(name) && !slices.Contains(existing, name) {
			existing = append(existing, name)
		}
	}
	if len(existing) > 0 {
		return exit.WithCode(exit.Conflict, fmt.Errorf("%s has %s already, and nothing is written over: name another folder",
			folder, strings.Join(existing, ", ")))
	}
	var created []string
	for _, name := range names {
		path := filepath.Join(folder, filepath.FromSlash(name))
		created = append(created, missingFolders(filepath.Dir(path))...)
		if err := createFile(path, files[name]); err != nil {
			for _, path := range slices.Backward(created) {
				_ = os.Remove(path) // the removal of a folder that is not empty fails
			}
			return fmt.Errorf("write %s in %s: %w", name, folder, disk.Cause(err))
		}
		created = append(created, path)
	}
	return nil
}

// missingFolders returns those of the folder and its parents that do not exist, outermost first.
func missingFolders(folder string) (all []string) {
	parent := filepath.Dir(folder)
	if _, err := os.Lstat(folder); !errors.Is(err, fs.ErrNotExist) || parent == folder {
		return nil
	}
	return append(missingFolders(parent), folder)
}

// createFile writes a new file. If it fails, it removes the file.
func createFile(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // G301: a project is not secret
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644) //nolint:gosec // G302, G304: not secret, and named by the user
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err != nil {
		_ = os.Remove(path)
	}
	return err
}
