package deployments_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gatewright/gatewright/functions/deployments"
	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/functions/projects"
	"github.com/gatewright/gatewright/functions/variables"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/environment"
)

const (
	sources   = "/v1/deployments/sources"
	sourceURL = "/v1/deployments/source-url"
	shop      = "/v1/accounts/acme/projects/shop"
	statuses  = shop + "/deployment-status"
	list      = shop + "/deployments"
)

// world is one whose account acme has nothing yet.
type world struct {
	*functionstest.World
	// full is acme's full-access key.
	full string
}

func newWorld(t *testing.T) world {
	t.Helper()
	w := functionstest.New(t, projects.Bind, variables.Bind, deployments.Bind)
	return world{w, w.Account("acme")}
}

// limited makes a key of acme's that sees some projects and kinds of
// environment; nil stands for all.
func (w world) limited(projects []string, kinds ...environment.Kind) string {
	w.Helper()
	return w.Key("acme", func(p *auth.Permissions) {
		if projects != nil {
			p.Projects = projects
		}
		if kinds != nil {
			p.Environments = kinds
		}
	})
}

// reader makes a key of acme's that changes nothing.
func (w world) reader() string {
	w.Helper()
	return w.Key("acme", func(p *auth.Permissions) { p.Scopes = []auth.Scope{auth.Deployments.Read()} })
}

// issue asks for an upload address for a branch of shop.
func (w world) issue(branch string) (statusID, address string) {
	w.Helper()
	made := w.Call(w.full, "POST", sources, `{"accountName":"acme","projectName":"shop","branchName":"`+branch+`"}`).Want(200).JSON()
	return made.Text("deploymentId"), made.Text("uploadUrl")
}

// deploy builds a project for a branch of shop and gives what became of it.
func (w world) deploy(branch string, files map[string]string) functionstest.Value {
	w.Helper()
	id, address := w.issue(branch)
	archive, err := functionstest.Pack(files)
	if err != nil {
		w.Fatal(err)
	}
	w.Upload(address, archive)
	return w.status(id)
}

// status asks how an upload goes.
func (w world) status(id string) functionstest.Value {
	w.Helper()
	return w.Call(w.full, "GET", statuses+"/"+id, "").Want(200).JSON()
}

// good is a project without a mistake.
func good() map[string]string { return functionstest.Project("http://upstream.test") }

// bad is a project with two mistakes and a variable that nobody has set.
func bad() map[string]string {
	files := good()
	files["config/policies.json"] = `{"policies":[{"name":"limit","policyType":"none-such",
		"handler":{"export":"X","module":"$import(@gatewright/runtime)","options":{}}}]}`
	files["config/routes.oas.json"] = strings.NewReplacer("urlForwardHandler", "none-such", "http://upstream.test", "http://upstream.test/$env(UNSET)").
		Replace(files["config/routes.oas.json"])
	return files
}

// served is what a branch's deployment is called, and its upload.
type served struct{ name, statusID string }

// deployed is a world in which main and feature/x of shop are served.
func deployed(t *testing.T) (w world, main, feature served) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w = newWorld(t)
		main.statusID = w.deploy("main", good()).Text("buildId")
		feature.statusID = w.deploy("feature/x", good()).Text("buildId")
		names := w.Call(w.full, "GET", list, "").Want(200).JSON().Texts("data", "name")
		main.name, feature.name = names[0], names[1]
	})
	w.World = w.Copy(t)
	return w, main, feature
}
