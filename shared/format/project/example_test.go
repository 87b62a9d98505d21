package project_test

import (
	"io/fs"
	"os"
	"testing"

	"github.com/gatewright/gatewright/shared/format/project"
)

// TestExamplesCompile compiles the examples. It does not check the options of their
// handlers and policies: the scenario tests do that when they deploy the examples.
func TestExamplesCompile(t *testing.T) {
	for name, routes := range map[string]int{"hello": 3, "library": 7} {
		root, files := os.DirFS("../../../examples/"+name), project.Files{}
		err := fs.WalkDir(root, ".", func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			data, err := fs.ReadFile(root, path)
			files[path] = data
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		artifact, result := compile(t, files, project.Input{Catalog: lenient{}})
		if len(result.Errors)+len(result.Warnings) > 0 {
			t.Fatalf("%s: errors %+v, warnings %+v, want none", name, result.Errors, result.Warnings)
		}
		if len(artifact.Routes) != routes {
			t.Errorf("%s: %d routes, want %d", name, len(artifact.Routes), routes)
		}
	}
}

// lenient is a catalog that accepts everything.
type lenient struct{}

func (lenient) CheckHandler(project.Component) []project.Problem { return nil }
func (lenient) CheckPolicy(project.Policy) []project.Problem     { return nil }
func (lenient) UsedVariables(project.Policy) []string            { return nil }

func (lenient) Members(project.Policy) (names []string, expands bool) { return nil, false }

func (lenient) CheckMembers(project.Policy, []project.Policy) []project.Problem { return nil }

func (lenient) Unprotected(project.SecurityScheme, []string, []project.Policy) string {
	return ""
}

func (lenient) WarnInbound([]project.Policy) map[int]string { return nil }

// Validates implements project.Catalog.
func (lenient) WarnDescribed(project.Policy, *project.RequestDescription, project.ResponseDescription) string {
	return ""
}

func (lenient) Validates(string) (request, responses bool) { return false, false }

func (lenient) PolicyModule(string) string { return "$import(@gatewright/runtime)" }

func (lenient) CredentialHeader(project.Policy) string { return "" }

func (lenient) IsReservedHeader(string) bool { return false }
