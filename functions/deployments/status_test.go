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
	"github.com/gatewright/gatewright/shared/format/environment"
)

func TestStatusIsInProgressBeforeTheUpload(t *testing.T) {
	fx := newFixture(t)
	id, _ := fx.issueUpload("main")
	fx.Call(fx.fullKey, "GET", statusesPath+"/"+id, "").
		Want(200, `{"status":"IN_PROGRESS","url":"","steps":{},"buildResult":{"errors":[],"warnings":[]}}`)
}

// TestUnusedUploadFails checks that the status becomes ERROR if no archive has arrived 21 minutes after the address was
// issued.
func TestUnusedUploadFails(t *testing.T) {
	fx := newFixture(t)
	id, _ := fx.issueUpload("main")
	fx.Now = fx.Now.Add(21*time.Minute - time.Second)
	fx.Call(fx.fullKey, "GET", statusesPath+"/"+id, "").Want(200, `"status":"IN_PROGRESS"`)
	fx.Now = fx.Now.Add(time.Second)
	fx.Call(fx.fullKey, "GET", statusesPath+"/"+id, "").Want(200, `"status":"ERROR","url":""`, "No archive arrived")
}

// TestUploadOfDeletedDeploymentFails checks that the status of an upload becomes ERROR immediately if its deployment is
// deleted.
func TestUploadOfDeletedDeploymentFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newFixture(t)
		fx.deploy("main", validProject())
		id, _ := fx.issueUpload("main")
		name := fx.Call(fx.fullKey, "GET", deploymentsPath, "").Want(200).JSON().At("data.0").Text("name")
		fx.Call(fx.fullKey, "DELETE", "/v1/deployments/"+name, "").Want(200)
		fx.Call(fx.fullKey, "GET", statusesPath+"/"+id, "").Want(200, `"status":"ERROR"`, "deployment was deleted")
	})
}

func TestSuccessReportsURLAndSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newFixture(t)
		s := fx.deploy("main", validProject())
		if s.Text("status") != "SUCCESS" || s.Text("buildId") == "" || s.Len("buildResult.errors") != 0 ||
			s.Len("buildResult.warnings") != 0 {
			t.Errorf("deploy(main) = %s, want SUCCESS with a build id and no findings", s)
		}
		listed := fx.Call(fx.fullKey, "GET", deploymentsPath, "").Want(200).JSON().At("data.0")
		if want := "http://" + listed.Text("name") + ".gateway.test"; s.Text("url") != want || listed.Text("url") != want {
			t.Errorf("url of the status = %s, of the deployment = %s, want %s", s.Text("url"), listed.Text("url"), want)
		}
		for _, step := range []string{"download", "validate", "build", "deploy"} {
			if stepValue := s.At("steps." + step); stepValue.Text("status") != "SUCCESS" || stepValue.Text("startedOn") == "" ||
				stepValue.Text("finishedOn") == "" || !stepValue.IsNull("message") {
				t.Errorf("step %s = %s, want SUCCESS with both times and no message", step, stepValue)
			}
		}
		if s.Len("steps") != 4 {
			t.Errorf("steps = %s, want 4", s.At("steps"))
		}
	})
}

func TestFailedBuildReportsFindings(t *testing.T) {
	for _, c := range []struct {
		name    string
		archive func() ([]byte, error)
		// errors and warnings have the files and paths of the expected findings.
		errors, warnings []string
	}{
		{
			"a project with two mistakes", func() ([]byte, error) { return functionstest.Pack(invalidProject()) },
			[]string{
				"config/policies.json /policies/0/policyType",
				"config/routes.oas.json /paths/~1a/get/x-gateway-route/handler/export",
			},
			[]string{"config/routes.oas.json /paths/~1a/get/x-gateway-route/handler/options/baseUrl"},
		},
		{
			"a timeout beyond the longest", func() ([]byte, error) {
				files := validProject()
				files["config/routes.oas.json"] = strings.Replace(files["config/routes.oas.json"], `"options":{`,
					`"options":{"timeoutSeconds":601,`, 1)
				return functionstest.Pack(files)
			},
			[]string{"config/routes.oas.json /paths/~1a/get/x-gateway-route/handler/options/timeoutSeconds"},
			nil,
		},
		{"no routes", func() ([]byte, error) {
			return functionstest.Pack(map[string]string{"package.json": "{}"})
		}, []string{" "}, nil},
		{"no archive", func() ([]byte, error) { return []byte("text"), nil }, []string{" "}, nil},
		{"empty upload", func() ([]byte, error) { return nil, nil }, []string{" "}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fx := newFixture(t)
				archive, err := c.archive()
				if err != nil {
					t.Fatal(err)
				}
				id, address := fx.issueUpload("main")
				fx.Upload(address, archive)
				s := fx.status(id)
				log, err := url.Parse(s.Text("logUrl"))
				if err != nil || log.Scheme == "" ||
					fx.Call(fx.fullKey, "GET", log.Path, "").Want(200).JSON().Text("buildResult.errors.0.message") == "" {
					t.Errorf("logUrl = %v, %v, want a URL of a status with an error message", log, err)
				}
				if s.Text("status") != "ERROR" || s.Text("url") != "" || s.Text("buildResult.buildId") != id {
					t.Errorf("status = %s, want ERROR of build %s without a URL", s, id)
				}
				for _, member := range []string{"buildResult.errors", "buildResult.warnings"} {
					for i, file := range s.Texts(member, "file") {
						if file != "" {
							fx.checkPosition(id, s.At(fmt.Sprintf("%s.%d", member, i)))
						}
					}
				}
				for member, want := range map[string][]string{"buildResult.errors": c.errors, "buildResult.warnings": c.warnings} {
					var got []string
					for i, file := range s.Texts(member, "file") {
						got = append(got, file+" "+s.Texts(member, "path")[i])
					}
					if slices.Sort(got); !slices.Equal(got, want) || slices.Contains(s.Texts(member, "message"), "") {
						t.Errorf("%s = %s, want %q, each with a message", member, s.At(member), want)
					}
				}
				validateStep := s.At("steps.validate")
				if validateStep.Text("status") != "ERROR" || validateStep.Text("message") == "" || !s.IsNull("steps.build") ||
					!s.IsNull("steps.deploy") {
					t.Errorf("steps = %s, want ERROR with a message in validate and null in build and deploy", s.At("steps"))
				}
				fx.Call(fx.fullKey, "GET", deploymentsPath, "").Want(200, `"state":"FAILED"`)
			})
		})
	}
}

func TestFailedBuildKeepsServedDeployment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newFixture(t)
		first := fx.deploy("main", validProject())
		if s := fx.deploy("main", invalidProject()); s.Text("status") != "ERROR" {
			t.Fatalf("deploy(main) of an invalid project = %s, want ERROR", s)
		}
		listed := fx.Call(fx.fullKey, "GET", deploymentsPath, "").Want(200).JSON()
		if listed.Len("data") != 1 || listed.Text("data.0.state") != "STARTED" ||
			listed.Text("data.0.url") != first.Text("url") {
			t.Errorf("GET %s = %s, want 1 STARTED deployment at %s", deploymentsPath, listed, first.Text("url"))
		}
	})
}

func TestStatusResponses(t *testing.T) {
	fx, main, feature := newDeployedFixture(t)
	fullKey, readerKey, otherAccountKey := fx.fullKey, fx.createReaderKey(), fx.CreateAccount("evil")
	previewsKey, blogKey := fx.createLimitedKey(nil, environment.Preview), fx.createLimitedKey([]string{"blog"})
	const success = `"status":"SUCCESS"`
	fx.Run(t, []functionstest.Case{
		{"upload", readerKey, "GET", statusesPath + "/" + main.statusID, "", 200, success},
		{"slash at the end", readerKey, "GET", statusesPath + "/" + main.statusID + "/", "", 200, success},
		{
			"percent-encoded", readerKey, "GET", statusesPath + "/" + strings.ReplaceAll(main.statusID, "-", "%2D"), "", 200,
			success,
		},
		{"visible environment type", previewsKey, "GET", statusesPath + "/" + feature.statusID, "", 200, success},
		{
			"hidden environment type", previewsKey, "GET", statusesPath + "/" + main.statusID, "", 404,
			"This upload does not exist",
		},
		{"hidden project", blogKey, "GET", statusesPath + "/" + main.statusID, "", 404, "project"},
		{
			"upload of another project", fullKey, "GET", "/v1/accounts/acme/projects/blog/deployment-status/" + main.statusID,
			"", 404, "upload",
		},
		{
			"upload of another account", otherAccountKey, "GET",
			"/v1/accounts/evil/projects/shop/deployment-status/" + main.statusID, "", 404, "upload",
		},
		{"in another account", otherAccountKey, "GET", statusesPath + "/" + main.statusID, "", 404, "account"},
		{"missing upload", fullKey, "GET", statusesPath + "/00000000-0000-4000-8000-000000000000", "", 404, "upload"},
		{"invalid id", fullKey, "GET", statusesPath + "/a%2Fb", "", 404, "upload"},
		{"deployment name as id", fullKey, "GET", statusesPath + "/" + feature.name, "", 404, "upload"},
		{"id of a clean-up", fullKey, "GET", statusesPath + "/clean-" + feature.name + "-1", "", 404, "upload"},
		{"too long id", fullKey, "GET", statusesPath + "/" + strings.Repeat("a", 257), "", 400, "path.statusId"},
		{"control character as id", fullKey, "GET", statusesPath + "/%00", "", 400, "control characters"},
		{"empty id", fullKey, "GET", statusesPath, "", 404, "There is no such operation"},
		{"no key", "", "GET", statusesPath + "/" + main.statusID, "", 401, "Bearer"},
	})
}
