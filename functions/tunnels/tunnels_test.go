package tunnels_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/functions/projects"
	"github.com/gatewright/gatewright/functions/tunnels"
	"github.com/gatewright/gatewright/shared/auth"
)

const path = "/v1/accounts/acme/tunnels"

// put is a configuration with these services.
func put(services ...string) string {
	return `{"version":1,"services":[` + strings.Join(services, ",") + `]}`
}

// service is one that the production of the project shop may call.
func service(name string) string {
	return fmt.Sprintf(`{"name":%q,"endpoint":"http://localhost:8080","configurations":[{"project":"shop","accessibleBy":["production"]}]}`, name)
}

// TestAnswers has what is this group's own: what may be configured, and who gets a name, is in
// package tunnels' tests.
func TestAnswers(t *testing.T) {
	w := functionstest.New(t, projects.Bind, tunnels.Bind)
	full := w.Account("acme")
	w.Call(full, "POST", "/v1/projects", `{"name":"shop"}`).Want(200)
	made := w.Call(full, "POST", path, `{"name":"Office-1","tunnelId":"tnl_mine","token":"mine"}`).Want(201, `"name":"Office-1"`).JSON()
	at, id := path+"/"+made.Text("tunnelId"), made.Text("tunnelId")
	other := path + "/" + w.Call(full, "POST", path, `{"name":"other"}`).Want(201).JSON().Text("tunnelId")
	configuration := at + "/services-configuration"
	begun := w.Call(full, "PUT", configuration, put(service("stock"))).
		Want(200, `"status":"in-progress","message":"The tunnel's services are being provisioned."`).JSON().Text("id")
	if !strings.HasPrefix(begun, "pst_") || len(begun) != 28 || len(id) != 28 || !strings.HasPrefix(id, "tnl_") {
		t.Errorf("the ids are %q and %q", begun, id)
	}
	reader := w.Key("acme", func(p *auth.Permissions) { p.Scopes = []auth.Scope{auth.Tunnels.Read()} })
	own := w.Key("acme", func(p *auth.Permissions) { p.Projects = []string{"shop"} })
	with := func(configurations string) string {
		return put(`{"name":"stock","endpoint":"http://localhost","configurations":` + configurations + `}`)
	}
	var thousand []string
	for n := range 1000 {
		thousand = append(thousand, service(fmt.Sprintf("service-%04d", n)))
	}
	w.Run(t, []functionstest.Case{
		{"the list", reader, "GET", path, "", 200, `"data":[{"id":"` + id + `","name":"Office-1"},`},
		{"its page", reader, "GET", path, "", 200, `"limit":1000,"offset":0,"total":2`},
		{"the list of who is limited", own, "GET", path, "", 200, `"data":[]`},
		{"a tunnel", reader, "GET", at, "", 200, `{"tunnelId":"` + id + `","name":"Office-1","token":"` + made.Text("token") + `"}`},
		{"one that there is not", reader, "GET", path + "/tnl_0123456789ABCDEFGHIJKLMN", "", 404, "tunnel does not exist"},
		{"one by its name", reader, "GET", path + "/Office-1", "", 404, "tunnel does not exist"},
		{"a name in use", full, "POST", path, `{"name":"Office-1"}`, 409, "has a tunnel of this name"},
		{"the name in other letters", full, "POST", path, `{"name":"office-1"}`, 201, "office-1"},
		{"a short name", full, "POST", path, `{"name":"ab"}`, 400, "body.name"},
		{"a long name", full, "POST", path, `{"name":"` + strings.Repeat("a", 25) + `"}`, 400, "body.name"},
		{"an odd name", full, "POST", path, `{"name":"a_b"}`, 400, "body.name"},
		{"no name", full, "POST", path, `{}`, 400, "name"},
		{"one without the scope", reader, "POST", path, `{"name":"abc"}`, 403, "tunnels:write"},
		{"one of a limited key", own, "POST", path, `{"name":"abc"}`, 404, "limited"},
		{"a rotation", full, "POST", at + "/$rotate-token", "", 200, `"name":"Office-1"`},
		{"a rotation, encoded", full, "POST", at + "/%24rotate-token", "", 200, `"name":"Office-1"`},
		{"a rotation of nothing", full, "POST", path + "/tnl_0/$rotate-token", "", 404, "tunnel does not exist"},
		{"a rotation without the scope", reader, "POST", at + "/$rotate-token", "", 403, "tunnels:write"},
		{"a deletion", full, "DELETE", at, "", 200, `"status":"in-progress","message":"The tunnel is being torn down."`},
		{"a deletion of nothing", full, "DELETE", path + "/tnl_0", "", 404, "tunnel does not exist"},
		{"the configuration", reader, "GET", configuration, "", 200, put(service("stock"))},
		{"one that is fresh", reader, "GET", other + "/services-configuration", "", 200, `{"version":1,"services":[]}`},
		{"one of nothing", reader, "GET", path + "/tnl_0/services-configuration", "", 404, "tunnel does not exist"},
		{"its operation", reader, "GET", at + "/provisioning-operations/" + begun, "", 200, `{"id":"` + begun + `","status":"in-progress","message":"The tunnel's services are being provisioned."}`},
		{"its operation, as a teardown", reader, "GET", at + "/teardown-operations/" + begun, "", 404, "operation"},
		{"its operation, of another", reader, "GET", other + "/provisioning-operations/" + begun, "", 404, "operation"},
		{"the same again", full, "PUT", configuration, put(service("stock")), 200, `"id":"` + begun + `"`},
		{"none on a fresh one", full, "PUT", other + "/services-configuration", put(), 200, `"status":"success"`},
		{"version 2", full, "PUT", configuration, `{"version":2,"services":[]}`, 400, "body.version"},
		{"version 0", full, "PUT", configuration, `{"version":0,"services":[]}`, 400, "body.version"},
		{"version 1 as a text", full, "PUT", configuration, `{"version":"1","services":[]}`, 400, "body.version"},
		{"version 1.5", full, "PUT", configuration, `{"version":1.5,"services":[]}`, 400, "body.version"},
		{"no version", full, "PUT", configuration, `{"services":[]}`, 400, "version"},
		{"no services", full, "PUT", configuration, `{"version":1}`, 400, "services"},
		{"services that are null", full, "PUT", configuration, `{"version":1,"services":null}`, 400, "services"},
		{"a service that is a text", full, "PUT", configuration, put(`"stock"`), 400, "body.services[0]"},
		{"a service without an endpoint", full, "PUT", configuration, put(`{"name":"stock","configurations":[]}`), 400, "endpoint"},
		{"a thousand services", full, "PUT", configuration, put(thousand...), 400, "100"},
		{"an endpoint that is none", full, "PUT", configuration, put(`{"name":"stock","endpoint":"localhost","configurations":[]}`), 400, "body.services[0].endpoint: has to begin with http"},
		{"an endpoint with a password", full, "PUT", configuration, put(`{"name":"stock","endpoint":"http://a:b@c","configurations":[]}`), 400, "body.services[0].endpoint: has a user"},
		{"a long endpoint", full, "PUT", configuration, put(`{"name":"stock","endpoint":"http://` + strings.Repeat("a", 2048) + `","configurations":[]}`), 400, "body.services[0].endpoint"},
		{"a name twice", full, "PUT", configuration, put(service("stock"), service("stock")), 400, "body.services[1].name: is the name of services[0] too"},
		{"a name of another's", full, "PUT", other + "/services-configuration", put(service("stock")), 409, "of these names: stock."},
		{"the name in other letters, of a service", full, "PUT", other + "/services-configuration", put(service("Stock")), 200, "in-progress"},
		{"a kind that is none", full, "PUT", configuration, with(`[{"project":"shop","accessibleBy":["staging"]}]`), 400, "body.services[0].configurations[0].accessibleBy[0]"},
		{"a kind in the spelling of environments", full, "PUT", configuration, with(`[{"project":"shop","accessibleBy":["development"]}]`), 400, "accessibleBy[0]"},
		{"all kinds", full, "PUT", configuration, with(`[{"project":"shop","accessibleBy":["working-copy","preview","production"]}]`), 200, "in-progress"},
		{"no kind", full, "PUT", configuration, with(`[{"project":"shop","accessibleBy":[]}]`), 200, "in-progress"},
		{"nobody", full, "PUT", configuration, with(`[]`), 200, "in-progress"},
		{"a project that is not there", full, "PUT", configuration, with(`[{"project":"nope","accessibleBy":[]}]`), 400, "body.services[0].configurations[0].project: the account has no such project"},
		{"a configuration of nothing", full, "PUT", path + "/tnl_0/services-configuration", put(), 404, "tunnel does not exist"},
		{"a configuration of a limited key", own, "PUT", configuration, put(), 404, "tunnel does not exist"},
		{"a configuration without the scope", reader, "PUT", configuration, put(), 403, "tunnels:write"},
		{"more than a body may have", full, "PUT", configuration, put(`{"name":"` + strings.Repeat("a", 1<<20) + `"}`), 413, "larger than"},
	})
}

// TestDeletedTunnelIsThereForNobody, but its operation, by the answer's id.
func TestDeletedTunnelIsThereForNobody(t *testing.T) {
	w := functionstest.New(t, projects.Bind, tunnels.Bind)
	full := w.Account("acme")
	w.Call(full, "POST", "/v1/projects", `{"name":"shop"}`).Want(200)
	at := path + "/" + w.Call(full, "POST", path, `{"name":"office"}`).Want(201).JSON().Text("tunnelId")
	w.Call(full, "PUT", at+"/services-configuration", put(service("stock"))).Want(200)
	gone := w.Call(full, "DELETE", at, "").Want(200).JSON().Text("id")
	if !strings.HasPrefix(gone, "tst_") || len(gone) != 28 {
		t.Errorf("the id is %q", gone)
	}
	w.Call(full, "GET", path, "").Want(200, `"data":[]`)
	w.Call(full, "GET", at, "").Want(404)
	w.Call(full, "DELETE", at, "").Want(404)
	w.Call(full, "POST", at+"/$rotate-token", "").Want(404)
	w.Call(full, "GET", at+"/services-configuration", "").Want(404)
	w.Call(full, "PUT", at+"/services-configuration", put(service("stock"))).Want(404)
	w.Call(full, "GET", at+"/teardown-operations/"+gone, "").Want(200, `"status":"in-progress"`)
	again := path + "/" + w.Call(full, "POST", path, `{"name":"office"}`).Want(201).JSON().Text("tunnelId")
	w.Call(full, "PUT", again+"/services-configuration", put(service("stock"))).Want(200, "in-progress")
}
