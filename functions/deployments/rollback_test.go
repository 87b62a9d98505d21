package deployments_test

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/shared/core/artifacts"
	"github.com/gatewright/gatewright/shared/format/environment"
	"github.com/gatewright/gatewright/shared/resource/deployments"
)

func TestRollback(t *testing.T) {
	fx, main, feature := newDeployedFixture(t)
	var secondBuild string
	synctest.Test(t, func(t *testing.T) {
		redeployed := fixture{fx.Copy(t), fx.fullKey}
		secondBuild = redeployed.deploy("main", validProject()).Text("buildId")
		fx.Fixture = redeployed.Fixture
	})
	fx.Fixture = fx.Copy(t)
	fullKey, readerKey, otherAccountKey := fx.fullKey, fx.createReaderKey(), fx.CreateAccount("evil")
	previewsKey := fx.createLimitedKey(nil, environment.Preview)
	rollbackPath, historyPath := "/v1/deployments/"+main.name+"/rollback", "/v1/deployments/"+main.name+"/history"
	const notFound = "This deployment does not exist, or this key cannot see it."
	fx.Run(t, []functionstest.Case{
		{"previous build", fullKey, "POST", rollbackPath, "", 200, `"state":"STARTED"`},
		{"empty object", fullKey, "POST", rollbackPath, "{}", 200, `{"name":"` + main.name + `"`},
		{"build id", fullKey, "POST", rollbackPath, `{"to":"` + main.statusID + `"}`, 200, `"state":"STARTED"`},
		{
			"build id in capitals", fullKey, "POST", rollbackPath, `{"to":"` + strings.ToUpper(main.statusID) + `"}`, 200,
			`"state":"STARTED"`,
		},
		{"live build", fullKey, "POST", rollbackPath, `{"to":"` + secondBuild + `"}`, 409, "served already"},
		{"build of another deployment", fullKey, "POST", rollbackPath, `{"to":"` + feature.statusID + `"}`, 404, "build"},
		{"missing build", fullKey, "POST", rollbackPath, `{"to":"0b1e8f1e-7c1d-4a55-9d0c-3f0f4c6f2a11"}`, 404, "build"},
		{"invalid build id", fullKey, "POST", rollbackPath, `{"to":"first"}`, 400, "body.to"},
		{"number as build id", fullKey, "POST", rollbackPath, `{"to":1}`, 400, "body.to"},
		{"empty build id", fullKey, "POST", rollbackPath, `{"to":""}`, 400, "body.to"},
		{"list as body", fullKey, "POST", rollbackPath, `[]`, 400, "body"},
		{"invalid JSON", fullKey, "POST", rollbackPath, `{"to"`, 400, "JSON"},
		{
			"deployment without a previous build", fullKey, "POST", "/v1/deployments/" + feature.name + "/rollback", "", 409,
			"no earlier build",
		},
		{"missing deployment", fullKey, "POST", "/v1/deployments/shop-main-0000000/rollback", "", 404, notFound},
		{"hidden deployment", previewsKey, "POST", rollbackPath, "", 404, notFound},
		{"deployment of another account", otherAccountKey, "POST", rollbackPath, "", 404, notFound},
		{"key without the scope", readerKey, "POST", rollbackPath, "", 403, "deployments:write"},
		{"no key", "", "POST", rollbackPath, "", 401, "Bearer"},

		{
			"first build of the history", readerKey, "GET", historyPath, "", 200,
			`{"data":[{"buildId":"` + secondBuild + `","createdOn":"`,
		},
		{
			"pagination of the history", readerKey, "GET", historyPath, "", 200,
			`"buildId":"` + main.statusID +
				`","createdOn":"2026-03-14T09:26:53.589Z","state":"previous"}],"limit":1000,"offset":0,"total":2}`,
		},
		{
			"page of the history", readerKey, "GET", historyPath + "?limit=1&offset=1", "", 200,
			`"state":"previous"}],"limit":1,"offset":1,"total":2}`,
		},
		{"history of a missing deployment", readerKey, "GET", "/v1/deployments/shop-main-0000000/history", "", 404, notFound},
		{"history of a hidden deployment", previewsKey, "GET", historyPath, "", 404, notFound},
		{"history of another account", otherAccountKey, "GET", historyPath, "", 404, notFound},
	})
}

// TestVariablesTakeEffectOnlyWithABuild checks that a change of a variable has no effect until the next deploy or
// redeploy. It also checks that a rollback restores the values of the earlier build, even if the variable was deleted.
func TestVariablesTakeEffectOnlyWithABuild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newFixture(t)
		const variables = shopPath + "/branches/main/variables"
		fx.Call(fx.fullKey, "POST", "/v1/projects", `{"name":"shop"}`).Want(200)
		fx.Call(fx.fullKey, "POST", variables, `{"name":"WHERE","isSecret":true,"value":"first"}`).Want(201)
		if status := fx.deploy("main", functionstest.Project("http://$env(WHERE).upstream.test")); status.Text(
			"status") != "SUCCESS" {
			t.Fatalf("deploy(main) = %s, want SUCCESS", status)
		}
		name := fx.Call(fx.fullKey, "GET", deploymentsPath, "").Want(200).JSON().Texts("data", "name")[0]
		checkUpstream := func(host string) {
			t.Helper()
			r, err := deployments.Read(t.Context(), fx.Parts.Table, name)
			if err != nil {
				t.Fatal(err)
			}
			a, err := artifacts.Open(fx.Parts).Get(t.Context(), r.Served.Artifact)
			if err != nil {
				t.Fatal(err)
			}
			if text, err := json.Marshal(a); err != nil || !strings.Contains(string(text), "http://"+host+".upstream.test") {
				t.Errorf("served artifact = %s, %v, want the host %s in it", text, err, host)
			}
		}
		checkUpstream("first")
		fx.Call(fx.fullKey, "PATCH", variables+"/WHERE", `{"value":"second"}`).Want(200)
		checkUpstream("first")
		id := fx.Call(fx.fullKey, "POST", "/v1/deployments/"+name+"/deploy", "").Want(200).JSON().Text("deploymentId")
		checkUpstream("first")
		fx.Finish(id)
		checkUpstream("second")
		fx.Call(fx.fullKey, "DELETE", variables+"/WHERE", "").Want(204)
		checkUpstream("second")
		fx.Call(fx.fullKey, "POST", "/v1/deployments/"+name+"/rollback", "").Want(200)
		checkUpstream("first")
	})
}
