package files_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/client/call"
	"github.com/gatewright/gatewright/client/files"
)

// foreign is an API whose names have no letter that the name of a variable or of a file may have.
type foreign struct{ fake }

const noLetters = "\u00e9\u4e2d-\u202e"

func (f *foreign) List(_ context.Context, name string, _ map[string]any) ([]byte, error) {
	switch name {
	case "ProjectsService_list", "EnvironmentsService_list", "VariablesService_list", "MtlsCertificatesService_list":
		return json.Marshal(map[string]any{"data": []any{map[string]any{
			"id": noLetters, "name": noLetters, "environmentName": noLetters, "branchName": noLetters, "isSecret": true,
		}}})
	}
	return []byte(`{"data":[]}`), nil
}

// TestNamesWithoutLettersAreExported: each secret has a place of its own to come from, whatever the API calls what it is of.
func TestNamesWithoutLettersAreExported(t *testing.T) {
	t.Parallel()
	e, err := files.Export(t.Context(), &foreign{}, []string{"projects"})
	if err != nil {
		t.Fatal(err)
	}
	text, err := e.YAML()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"fromEnv: UNNAMED\n", "fromEnv: MAIN\n"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("it has no %q:\n%s", want, text)
		}
	}
}

// deleting has what was asked to go say a thing of its own.
type deleting struct {
	*fake
	says string
}

func (d *deleting) Named(ctx context.Context, name string, arguments map[string]any) (*call.Answer, error) {
	if name == "DeploymentsService_list" { // which go with a project
		return ok(map[string]any{"total": 0}), nil
	}
	answer, err := d.fake.Named(ctx, name, arguments)
	if err == nil && name == "ProjectsService_delete" {
		answer.Body = []byte(d.says)
	}
	return answer, err
}

// TestDeletionThatSaysNothingOfItsEndIsNoSuccess: what is neither under way nor over was not done as far as anybody knows.
func TestDeletionThatSaysNothingOfItsEndIsNoSuccess(t *testing.T) {
	t.Parallel()
	for says, want := range map[string]string{
		``: "", `{"id":"op_1","status":"success"}`: "",
		`{"id":"op_1","status":"error","message":"half way"}`: "half way",
		`{"id":"op_1","status":7}`:                            "the kind number", `{"id":"op_1"}`: "is no status", `{"id":"op_1","status":"gone"}`: "is no status", `[]`: "the kind array",
	} {
		f := newFake(t, "a")
		applied(t, f, "projects: [{name: garden}]")
		api := &deleting{f, says}
		read, err := files.Read(t.Context(), written(t, "complete: [projects]"))
		if err != nil {
			t.Fatal(err)
		}
		p, err := files.Compare(t.Context(), api, read, files.Options{Prune: true, Getenv: getenv, Now: now, Installation: f.name})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := files.Apply(t.Context(), api, p, applying(f, "")); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", says, err)
		}
	}
}
