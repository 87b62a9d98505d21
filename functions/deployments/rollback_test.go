package deployments_test

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/shared/artifacts"
	"github.com/gatewright/gatewright/shared/deployments"
	"github.com/gatewright/gatewright/shared/environment"
)

func TestRollback(t *testing.T) {
	w, main, feature := deployed(t)
	var second string
	synctest.Test(t, func(t *testing.T) {
		live := world{w.Copy(t), w.full}
		second = live.deploy("main", good()).Text("buildId")
		w.World = live.World
	})
	w.World = w.Copy(t)
	full, reader, other := w.full, w.reader(), w.Account("evil")
	previews := w.limited(nil, environment.Preview)
	back, history := "/v1/deployments/"+main.name+"/rollback", "/v1/deployments/"+main.name+"/history"
	const absent = "This deployment does not exist, or this key cannot see it."
	w.Run(t, []functionstest.Case{
		{"to the one before", full, "POST", back, "", 200, `"state":"STARTED"`},
		{"by an empty object", full, "POST", back, "{}", 200, `{"name":"` + main.name + `"`},
		{"by its id", full, "POST", back, `{"to":"` + main.statusID + `"}`, 200, `"state":"STARTED"`},
		{"by its id in capitals", full, "POST", back, `{"to":"` + strings.ToUpper(main.statusID) + `"}`, 200, `"state":"STARTED"`},
		{"to the live one", full, "POST", back, `{"to":"` + second + `"}`, 409, "served already"},
		{"to another deployment's", full, "POST", back, `{"to":"` + feature.statusID + `"}`, 404, "build"},
		{"to none", full, "POST", back, `{"to":"0b1e8f1e-7c1d-4a55-9d0c-3f0f4c6f2a11"}`, 404, "build"},
		{"to no id", full, "POST", back, `{"to":"first"}`, 400, "body.to"},
		{"to a number", full, "POST", back, `{"to":1}`, 400, "body.to"},
		{"to nothing by an empty id", full, "POST", back, `{"to":""}`, 400, "body.to"},
		{"by a list", full, "POST", back, `[]`, 400, "body"},
		{"by no JSON", full, "POST", back, `{"to"`, 400, "JSON"},
		{"where nothing was before", full, "POST", "/v1/deployments/" + feature.name + "/rollback", "", 409, "no earlier build"},
		{"of no deployment", full, "POST", "/v1/deployments/shop-main-0000000/rollback", "", 404, absent},
		{"out of sight", previews, "POST", back, "", 404, absent},
		{"of another account's", other, "POST", back, "", 404, absent},
		{"without the scope", reader, "POST", back, "", 403, "deployments:write"},
		{"by nobody", "", "POST", back, "", 401, "Bearer"},

		{"the history", reader, "GET", history, "", 200, `{"data":[{"buildId":"` + second + `","createdOn":"`},
		{"the history's rest", reader, "GET", history, "", 200, `"buildId":"` + main.statusID + `","createdOn":"2026-03-14T09:26:53.589Z","state":"previous"}],"limit":1000,"offset":0,"total":2}`},
		{"a page of it", reader, "GET", history + "?limit=1&offset=1", "", 200, `"state":"previous"}],"limit":1,"offset":1,"total":2}`},
		{"the history of no deployment", reader, "GET", "/v1/deployments/shop-main-0000000/history", "", 404, absent},
		{"the history out of sight", previews, "GET", history, "", 404, absent},
		{"another account's history", other, "GET", history, "", 404, absent},
	})
}

// TestVariablesReachADeploymentByABuildAlone: a change waits for the next deploy or
// redeploy, and what was built keeps its values when a rollback returns to it, though
// the variable is gone.
func TestVariablesReachADeploymentByABuildAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		const variables = shop + "/branches/main/variables"
		w.Call(w.full, "POST", "/v1/projects", `{"name":"shop"}`).Want(200)
		w.Call(w.full, "POST", variables, `{"name":"WHERE","isSecret":true,"value":"first"}`).Want(201)
		if status := w.deploy("main", functionstest.Project("http://$env(WHERE).upstream.test")); status.Text("status") != "SUCCESS" {
			t.Fatal(status)
		}
		name := w.Call(w.full, "GET", list, "").Want(200).JSON().Texts("data", "name")[0]
		serves := func(host string) {
			t.Helper()
			r, err := deployments.Read(t.Context(), w.Parts.Table, name)
			if err != nil {
				t.Fatal(err)
			}
			a, err := artifacts.Open(w.Parts).Get(t.Context(), r.Served.Artifact)
			if err != nil {
				t.Fatal(err)
			}
			if text, err := json.Marshal(a); err != nil || !strings.Contains(string(text), "http://"+host+".upstream.test") {
				t.Errorf("served is %s, %v, want %s", text, err, host)
			}
		}
		serves("first")
		w.Call(w.full, "PATCH", variables+"/WHERE", `{"value":"second"}`).Want(200)
		serves("first")
		id := w.Call(w.full, "POST", "/v1/deployments/"+name+"/deploy", "").Want(200).JSON().Text("deploymentId")
		serves("first")
		w.Finish(id)
		serves("second")
		w.Call(w.full, "DELETE", variables+"/WHERE", "").Want(204)
		serves("second")
		w.Call(w.full, "POST", "/v1/deployments/"+name+"/rollback", "").Want(200)
		serves("first")
	})
}
