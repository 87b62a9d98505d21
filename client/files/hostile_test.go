package files_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/client/call"
	"github.com/gatewright/gatewright/client/files"
)

// foreignAPI is an API with objects whose names have no characters that are valid in names of environment variables.
type foreignAPI struct{ fakeAPI }

const noLetters = "\u00e9\u4e2d-\u202e"

func (f *foreignAPI) List(_ context.Context, name string, _ map[string]any) ([]byte, error) {
	switch name {
	case "ProjectsService_list", "EnvironmentsService_list", "VariablesService_list", "MtlsCertificatesService_list":
		return json.Marshal(map[string]any{"data": []any{map[string]any{
			"id": noLetters, "name": noLetters, "environmentName": noLetters, "branchName": noLetters, "isSecret": true,
		}}})
	}
	return []byte(`{"data":[]}`), nil
}

// TestNamesWithoutLettersAreExported checks that each secret gets a reference with a valid name, even if the names of
// objects have no characters that are valid there.
func TestNamesWithoutLettersAreExported(t *testing.T) {
	t.Parallel()
	e, err := files.Export(t.Context(), &foreignAPI{}, []string{"projects"})
	if err != nil {
		t.Fatal(err)
	}
	text, err := e.YAML()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"fromEnv: UNNAMED\n", "fromEnv: MAIN\n"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("YAML() =\n%s\nwant %q", text, want)
		}
	}
}

// deletingAPI is an API that responds to the deletion of a project with the body status.
type deletingAPI struct {
	*fakeAPI
	status string
}

func (d *deletingAPI) Call(ctx context.Context, name string, arguments map[string]any) (*call.Response, error) {
	if name == "DeploymentsService_list" { // an operation that counts objects of a project to delete
		return ok(map[string]any{"total": 0}), nil
	}
	resp, err := d.fakeAPI.Call(ctx, name, arguments)
	if err == nil && name == "ProjectsService_delete" {
		resp.Body = []byte(d.status)
	}
	return resp, err
}

// TestDeletionWithUnknownStatusFails checks that Apply returns an error if a deletion has an unknown status.
func TestDeletionWithUnknownStatusFails(t *testing.T) {
	t.Parallel()
	for status, want := range map[string]string{
		``: "", `{"id":"op_1","status":"success"}`: "",
		`{"id":"op_1","status":"error","message":"half way"}`: "half way",
		`{"id":"op_1","status":7}`:                            "the kind number", `{"id":"op_1"}`: "is no status",
		`{"id":"op_1","status":"gone"}`: "is no status", `[]`: "the kind array",
	} {
		f := newFakeAPI(t, "a")
		mustApply(t, f, "projects: [{name: garden}]")
		api := &deletingAPI{f, status}
		desired, err := files.Read(t.Context(), writeTemp(t, "complete: [projects]"))
		if err != nil {
			t.Fatal(err)
		}
		p, err := files.Compare(t.Context(), api, desired, files.Options{
			Prune: true, Getenv: testGetenv, Now: testNow,
			Installation: f.name,
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := files.Apply(t.Context(), api, p, applyOptions(f, "")); (err == nil) != (want == "") ||
			err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("Apply() of a deletion with the response %s: error = %v, want %q", status, err, want)
		}
	}
}
