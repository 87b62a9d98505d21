package deployments_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gatewright/gatewright/functions/deployments"
	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/functions/projects"
	"github.com/gatewright/gatewright/functions/variables"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/format/environment"
)

const (
	sources         = "/v1/deployments/sources"
	sourceURLPath   = "/v1/deployments/source-url"
	shopPath        = "/v1/accounts/acme/projects/shop"
	statusesPath    = shopPath + "/deployment-status"
	deploymentsPath = shopPath + "/deployments"
)

// fixture is a functionstest.Fixture with the account acme, which has no projects.
type fixture struct {
	*functionstest.Fixture
	// fullKey is acme's full-access key.
	fullKey string
}

func newFixture(t *testing.T) fixture {
	t.Helper()
	fx := functionstest.New(t, projects.Bind, variables.Bind, deployments.Bind)
	return fixture{fx, fx.CreateAccount("acme")}
}

// createLimitedKey creates a key of acme that can see some projects and kinds of environment. nil means all.
func (fx fixture) createLimitedKey(projects []string, kinds ...environment.Kind) string {
	fx.Helper()
	return fx.CreateKey("acme", func(p *auth.Permissions) {
		if projects != nil {
			p.Projects = projects
		}
		if kinds != nil {
			p.Environments = kinds
		}
	})
}

// createReaderKey creates a key of acme that only has the scope for reading.
func (fx fixture) createReaderKey() string {
	fx.Helper()
	return fx.CreateKey("acme", func(p *auth.Permissions) { p.Scopes = []auth.Scope{auth.Deployments.Read()} })
}

// issueUpload requests an upload address for a branch of shop.
func (fx fixture) issueUpload(branch string) (statusID, address string) {
	fx.Helper()
	issued := fx.Call(fx.fullKey, "POST", sources, `{"accountName":"acme","projectName":"shop","branchName":"`+
		branch+`"}`).Want(200).JSON()
	return issued.Text("deploymentId"), issued.Text("uploadUrl")
}

// deploy builds files for a branch of shop and returns the status of the build.
func (fx fixture) deploy(branch string, files map[string]string) functionstest.Value {
	fx.Helper()
	id, address := fx.issueUpload(branch)
	archive, err := functionstest.Pack(files)
	if err != nil {
		fx.Fatal(err)
	}
	fx.Upload(address, archive)
	return fx.status(id)
}

// status returns the status of an upload.
func (fx fixture) status(id string) functionstest.Value {
	fx.Helper()
	return fx.Call(fx.fullKey, "GET", statusesPath+"/"+id, "").Want(200).JSON()
}

// validProject returns a project without errors.
func validProject() map[string]string { return functionstest.Project("http://upstream.test") }

// invalidProject returns a project with two errors and a variable that is not set.
func invalidProject() map[string]string {
	files := validProject()
	files["config/policies.json"] = `{"policies":[{"name":"limit","policyType":"none-such",
		"handler":{"export":"X","module":"$import(@gatewright/runtime)","options":{}}}]}`
	files["config/routes.oas.json"] = strings.NewReplacer("urlForwardHandler", "none-such", "http://upstream.test",
		"http://upstream.test/$env(UNSET)").
		Replace(files["config/routes.oas.json"])
	return files
}

// deployedBuild has the name of a branch's deployment, and the statusId of its upload.
type deployedBuild struct{ name, statusID string }

// newDeployedFixture returns a fixture with deployments of the branches main and feature/x of shop.
func newDeployedFixture(t *testing.T) (fx fixture, main, feature deployedBuild) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		fx = newFixture(t)
		main.statusID = fx.deploy("main", validProject()).Text("buildId")
		feature.statusID = fx.deploy("feature/x", validProject()).Text("buildId")
		names := fx.Call(fx.fullKey, "GET", deploymentsPath, "").Want(200).JSON().Texts("data", "name")
		main.name, feature.name = names[0], names[1]
	})
	fx.Fixture = fx.Copy(t)
	return fx, main, feature
}
