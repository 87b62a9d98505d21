package project_test

import (
	"io/fs"
	"os"
	"testing"

	"github.com/gatewright/gatewright/shared/project"
)

// TestExampleHasTheShapeOfAProject compiles examples/hello but for the options
// of its handlers and policies, which the scenario test deploys for real.
func TestExampleHasTheShapeOfAProject(t *testing.T) {
	root := os.DirFS("../../examples/hello")
	files := project.Files{}
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
	artifact, result := compile(t, files, project.Input{Catalogue: lenient{}})
	if len(result.Errors)+len(result.Warnings) > 0 {
		t.Fatalf("errors %+v, warnings %+v", result.Errors, result.Warnings)
	}
	if len(artifact.Routes) != 3 {
		t.Errorf("%d routes, want 3", len(artifact.Routes))
	}
}

// lenient is a catalogue that knows everything.
type lenient struct{}

func (lenient) CheckHandler(project.Component) []project.Problem { return nil }
func (lenient) CheckPolicy(project.Policy) []project.Problem     { return nil }
func (lenient) DoubtInbound([]project.Policy) map[int]string     { return nil }
