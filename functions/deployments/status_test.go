package deployments_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/shared/environment"
)

func TestStatusIsInProgressBeforeTheUpload(t *testing.T) {
	w := newWorld(t)
	id, _ := w.issue("main")
	w.Call(w.full, "GET", statuses+"/"+id, "").
		Want(200, `{"status":"IN_PROGRESS","url":"","steps":{},"buildResult":{"errors":[],"warnings":[]}}`)
}

// TestUnusedAddressEndsInError: a client that polls hears of its mistake.
func TestUnusedAddressEndsInError(t *testing.T) {
	w := newWorld(t)
	id, _ := w.issue("main")
	w.Now = w.Now.Add(21*time.Minute - time.Second)
	w.Call(w.full, "GET", statuses+"/"+id, "").Want(200, `"status":"IN_PROGRESS"`)
	w.Now = w.Now.Add(time.Second)
	w.Call(w.full, "GET", statuses+"/"+id, "").Want(200, `"status":"ERROR","url":""`, "No archive arrived")
}

// TestAddressOfADeletedDeploymentEndsInError at once: what arrives there is thrown away.
func TestAddressOfADeletedDeploymentEndsInError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.deploy("main", good())
		id, _ := w.issue("main")
		name := w.Call(w.full, "GET", list, "").Want(200).JSON().At("data.0").Text("name")
		w.Call(w.full, "DELETE", "/v1/deployments/"+name, "").Want(200)
		w.Call(w.full, "GET", statuses+"/"+id, "").Want(200, `"status":"ERROR"`, "deployment was deleted")
	})
}

func TestSuccessTellsWhereItIsServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.deploy("main", good())
		if s.Text("status") != "SUCCESS" || s.Text("buildId") == "" || s.Len("buildResult.errors") != 0 || s.Len("buildResult.warnings") != 0 {
			t.Errorf("status %s", s)
		}
		shown := w.Call(w.full, "GET", list, "").Want(200).JSON().At("data.0")
		if want := "http://" + shown.Text("name") + ".gateway.test"; s.Text("url") != want || shown.Text("url") != want {
			t.Errorf("it is served at %s, the deployment says %s, want %s", s.Text("url"), shown.Text("url"), want)
		}
		for _, step := range []string{"download", "validate", "build", "deploy"} {
			if at := s.At("steps." + step); at.Text("status") != "SUCCESS" || at.Text("startedOn") == "" || at.Text("finishedOn") == "" || !at.Null("message") {
				t.Errorf("step %s: %s", step, at)
			}
		}
		if s.Len("steps") != 4 {
			t.Errorf("steps %s", s.At("steps"))
		}
	})
}

func TestFailedBuildTellsWhatToCorrect(t *testing.T) {
	for _, c := range []struct {
		name    string
		archive func() ([]byte, error)
		// errors and warnings are files and paths of what is found.
		errors, warnings []string
	}{
		{
			"a project with two mistakes", func() ([]byte, error) { return functionstest.Pack(bad()) },
			[]string{"config/policies.json /policies/0/policyType", "config/routes.oas.json /paths/~1a/get/x-gateway-route/handler/export"},
			[]string{"config/routes.oas.json /paths/~1a/get/x-gateway-route/handler/options/baseUrl"},
		},
		{
			"a timeout beyond the longest", func() ([]byte, error) {
				files := good()
				files["config/routes.oas.json"] = strings.Replace(files["config/routes.oas.json"], `"options":{`, `"options":{"timeoutSeconds":601,`, 1)
				return functionstest.Pack(files)
			},
			[]string{"config/routes.oas.json /paths/~1a/get/x-gateway-route/handler/options/timeoutSeconds"},
			nil,
		},
		{"no routes", func() ([]byte, error) { return functionstest.Pack(map[string]string{"package.json": "{}"}) }, []string{" "}, nil},
		{"no archive", func() ([]byte, error) { return []byte("text"), nil }, []string{" "}, nil},
		{"nothing", func() ([]byte, error) { return nil, nil }, []string{" "}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				archive, err := c.archive()
				if err != nil {
					t.Fatal(err)
				}
				id, address := w.issue("main")
				w.Upload(address, archive)
				s := w.status(id)
				log, err := url.Parse(s.Text("logUrl"))
				if err != nil || log.Scheme == "" || w.Call(w.full, "GET", log.Path, "").Want(200).JSON().Text("buildResult.errors.0.message") == "" {
					t.Errorf("what went wrong is not to be read at %s (%v)", log, err)
				}
				if s.Text("status") != "ERROR" || s.Text("url") != "" || s.Text("buildResult.buildId") != id {
					t.Errorf("status %s", s)
				}
				for _, list := range []string{"buildResult.errors", "buildResult.warnings"} {
					for i, file := range s.Texts(list, "file") {
						if file != "" {
							w.marked(id, s.At(fmt.Sprintf("%s.%d", list, i)))
						}
					}
				}
				for list, want := range map[string][]string{"buildResult.errors": c.errors, "buildResult.warnings": c.warnings} {
					var got []string
					for i, file := range s.Texts(list, "file") {
						got = append(got, file+" "+s.Texts(list, "path")[i])
					}
					if slices.Sort(got); !slices.Equal(got, want) || slices.Contains(s.Texts(list, "message"), "") {
						t.Errorf("%s are %s, want %q", list, s.At(list), want)
					}
				}
				failed := s.At("steps.validate")
				if failed.Text("status") != "ERROR" || failed.Text("message") == "" || !s.Null("steps.build") || !s.Null("steps.deploy") {
					t.Errorf("steps %s", s.At("steps"))
				}
				w.Call(w.full, "GET", list, "").Want(200, `"state":"FAILED"`)
			})
		})
	}
}

func TestFailedBuildLeavesWhatIsServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		first := w.deploy("main", good())
		if s := w.deploy("main", bad()); s.Text("status") != "ERROR" {
			t.Fatalf("status %s", s)
		}
		shown := w.Call(w.full, "GET", list, "").Want(200).JSON()
		if shown.Len("data") != 1 || shown.Text("data.0.state") != "STARTED" || shown.Text("data.0.url") != first.Text("url") {
			t.Errorf("deployments %s", shown)
		}
	})
}

func TestStatuses(t *testing.T) {
	w, main, feature := deployed(t)
	full, reader, other := w.full, w.reader(), w.Account("evil")
	previews, blog := w.limited(nil, environment.Preview), w.limited([]string{"blog"})
	const success = `"status":"SUCCESS"`
	w.Run(t, []functionstest.Case{
		{"an upload", reader, "GET", statuses + "/" + main.statusID, "", 200, success},
		{"with a slash at the end", reader, "GET", statuses + "/" + main.statusID + "/", "", 200, success},
		{"percent-encoded", reader, "GET", statuses + "/" + strings.ReplaceAll(main.statusID, "-", "%2D"), "", 200, success},
		{"of an environment that the key sees", previews, "GET", statuses + "/" + feature.statusID, "", 200, success},
		{"of an environment that it does not see", previews, "GET", statuses + "/" + main.statusID, "", 404, "This upload does not exist"},
		{"of a project that it does not see", blog, "GET", statuses + "/" + main.statusID, "", 404, "project"},
		{"of another project", full, "GET", "/v1/accounts/acme/projects/blog/deployment-status/" + main.statusID, "", 404, "upload"},
		{"of another account", other, "GET", "/v1/accounts/evil/projects/shop/deployment-status/" + main.statusID, "", 404, "upload"},
		{"in another account", other, "GET", statuses + "/" + main.statusID, "", 404, "account"},
		{"of nothing", full, "GET", statuses + "/00000000-0000-4000-8000-000000000000", "", 404, "upload"},
		{"of what is no id", full, "GET", statuses + "/a%2Fb", "", 404, "upload"},
		{"of a deployment's name", full, "GET", statuses + "/" + feature.name, "", 404, "upload"},
		{"of the clean-up after a build", full, "GET", statuses + "/clean-" + feature.name + "-1", "", 404, "upload"},
		{"of a long text", full, "GET", statuses + "/" + strings.Repeat("a", 257), "", 400, "path.statusId"},
		{"of a control character", full, "GET", statuses + "/%00", "", 400, "control characters"},
		{"without an id", full, "GET", statuses, "", 404, "There is no such operation"},
		{"by nobody", "", "GET", statuses + "/" + main.statusID, "", 401, "Bearer"},
	})
}
