package tunnels_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/functions/projects"
	"github.com/gatewright/gatewright/functions/tunnels"
	"github.com/gatewright/gatewright/shared/core/auth"
)

const path = "/v1/accounts/acme/tunnels"

// configurationBody returns the JSON of a configuration with these services.
func configurationBody(services ...string) string {
	return `{"version":1,"services":[` + strings.Join(services, ",") + `]}`
}

// service returns the JSON of a service that production deployments of the project shop can call.
func service(name string) string {
	const format = `{"name":%q,"endpoint":"http://localhost:8080",` +
		`"configurations":[{"project":"shop","accessibleBy":["production"]}]}`
	return fmt.Sprintf(format, name)
}

// fixture is a functionstest.Fixture. The account acme has the tunnels Office-1 and other, and keys with limited
// permissions.
type fixture struct {
	*functionstest.Fixture
	fullKey, readerKey, shopKey string
	officeID, officeToken       string
	officePath, otherPath       string
}

func newFixture(t *testing.T) fixture {
	t.Helper()
	fx := fixture{Fixture: functionstest.New(t, projects.Bind, tunnels.Bind)}
	fx.fullKey = fx.CreateAccount("acme")
	fx.Call(fx.fullKey, "POST", "/v1/projects", `{"name":"shop"}`).Want(200)
	// An id and a token in the request are ignored.
	created := fx.Call(fx.fullKey, "POST", path, `{"name":"Office-1","tunnelId":"tnl_mine","token":"mine"}`).
		Want(201, `"name":"Office-1"`).JSON()
	fx.officeID, fx.officeToken = created.Text("tunnelId"), created.Text("token")
	fx.officePath = path + "/" + fx.officeID
	fx.otherPath = path + "/" + fx.Call(fx.fullKey, "POST", path, `{"name":"other"}`).Want(201).JSON().Text("tunnelId")
	fx.readerKey = fx.CreateKey("acme", func(p *auth.Permissions) { p.Scopes = []auth.Scope{auth.Tunnels.Read()} })
	fx.shopKey = fx.CreateKey("acme", func(p *auth.Permissions) { p.Projects = []string{"shop"} })
	return fx
}

// TestResponses checks the responses of operations on tunnels.
func TestResponses(t *testing.T) {
	fx := newFixture(t)
	if !strings.HasPrefix(fx.officeID, "tnl_") || len(fx.officeID) != 28 {
		t.Errorf("id of the tunnel = %q, want tnl_… of 28 characters", fx.officeID)
	}
	fx.Run(t, []functionstest.Case{
		{
			"first tunnel of the list", fx.readerKey, "GET", path, "", 200,
			`"data":[{"id":"` + fx.officeID + `","name":"Office-1"},`,
		},
		{"pagination of the list", fx.readerKey, "GET", path, "", 200, `"limit":1000,"offset":0,"total":2`},
		{"list of a limited key", fx.shopKey, "GET", path, "", 200, `"data":[]`},
		{
			"a tunnel", fx.readerKey, "GET", fx.officePath, "", 200,
			`{"tunnelId":"` + fx.officeID + `","name":"Office-1","token":"` + fx.officeToken + `"}`,
		},
		{"missing tunnel", fx.readerKey, "GET", path + "/tnl_0123456789ABCDEFGHIJKLMN", "", 404, "tunnel does not exist"},
		{"name as id", fx.readerKey, "GET", path + "/Office-1", "", 404, "tunnel does not exist"},
		{"a name in use", fx.fullKey, "POST", path, `{"name":"Office-1"}`, 409, "has a tunnel of this name"},
		{"name in another case", fx.fullKey, "POST", path, `{"name":"office-1"}`, 201, "office-1"},
		{"a short name", fx.fullKey, "POST", path, `{"name":"ab"}`, 400, "body.name"},
		{"a long name", fx.fullKey, "POST", path, `{"name":"` + strings.Repeat("a", 25) + `"}`, 400, "body.name"},
		{"name with an underscore", fx.fullKey, "POST", path, `{"name":"a_b"}`, 400, "body.name"},
		{"no name", fx.fullKey, "POST", path, `{}`, 400, "name"},
		{"creation without the scope", fx.readerKey, "POST", path, `{"name":"abc"}`, 403, "tunnels:write"},
		{"creation with a limited key", fx.shopKey, "POST", path, `{"name":"abc"}`, 404, "limited"},
		{"rotation", fx.fullKey, "POST", fx.officePath + "/$rotate-token", "", 200, `"name":"Office-1"`},
		{
			"rotation with an encoded path", fx.fullKey, "POST", fx.officePath + "/%24rotate-token", "", 200,
			`"name":"Office-1"`,
		},
		{"rotation of a missing tunnel", fx.fullKey, "POST", path + "/tnl_0/$rotate-token", "", 404, "tunnel does not exist"},
		{"rotation without the scope", fx.readerKey, "POST", fx.officePath + "/$rotate-token", "", 403, "tunnels:write"},
		{
			"deletion", fx.fullKey, "DELETE", fx.officePath, "", 200,
			`"status":"in-progress","message":"The tunnel is being torn down."`,
		},
		{"deletion of a missing tunnel", fx.fullKey, "DELETE", path + "/tnl_0", "", 404, "tunnel does not exist"},
	})
}

// configureCase returns the case of a request that changes the configuration of Office-1.
func (fx fixture) configureCase(name, body string, status int, want string) functionstest.Case {
	return functionstest.Case{name, fx.fullKey, "PUT", fx.officePath + "/services-configuration", body, status, want}
}

// TestConfigurationResponses checks the responses of operations on the configuration of a tunnel. The tests of
// shared/resource/tunnels cover more configurations.
func TestConfigurationResponses(t *testing.T) {
	fx := newFixture(t)
	configPath := fx.officePath + "/services-configuration"
	operationID := fx.Call(fx.fullKey, "PUT", configPath, configurationBody(service("stock"))).
		Want(200, `"status":"in-progress","message":"The tunnel's services are being provisioned."`).JSON().Text("id")
	if !strings.HasPrefix(operationID, "pst_") || len(operationID) != 28 {
		t.Errorf("id of the operation = %q, want pst_… of 28 characters", operationID)
	}
	fx.Run(t, []functionstest.Case{
		{"configuration", fx.readerKey, "GET", configPath, "", 200, configurationBody(service("stock"))},
		{
			"configuration of a new tunnel", fx.readerKey, "GET", fx.otherPath + "/services-configuration", "", 200,
			`{"version":1,"services":[]}`,
		},
		{
			"configuration of a missing tunnel", fx.readerKey, "GET", path + "/tnl_0/services-configuration", "", 404,
			"tunnel does not exist",
		},
		{
			"provisioning operation", fx.readerKey, "GET", fx.officePath + "/provisioning-operations/" + operationID, "", 200,
			`{"id":"` + operationID + `","status":"in-progress","message":"The tunnel's services are being provisioned."}`,
		},
		{
			"provisioning operation as a teardown", fx.readerKey, "GET", fx.officePath + "/teardown-operations/" + operationID,
			"", 404, "operation",
		},
		{
			"provisioning operation of another tunnel", fx.readerKey, "GET",
			fx.otherPath + "/provisioning-operations/" + operationID, "", 404, "operation",
		},
		fx.configureCase("unchanged configuration", configurationBody(service("stock")), 200, `"id":"`+operationID+`"`),
		{
			"empty configuration of a new tunnel", fx.fullKey, "PUT", fx.otherPath + "/services-configuration",
			configurationBody(), 200, `"status":"success"`,
		},
		fx.configureCase("version 2", `{"version":2,"services":[]}`, 400, "body.version"),
		fx.configureCase("version 0", `{"version":0,"services":[]}`, 400, "body.version"),
		fx.configureCase("version 1 as a text", `{"version":"1","services":[]}`, 400, "body.version"),
		fx.configureCase("version 1.5", `{"version":1.5,"services":[]}`, 400, "body.version"),
		fx.configureCase("no version", `{"services":[]}`, 400, "version"),
		fx.configureCase("no services", `{"version":1}`, 400, "services"),
		fx.configureCase("null as services", `{"version":1,"services":null}`, 400, "services"),
		{
			"change of a missing tunnel's configuration", fx.fullKey, "PUT", path + "/tnl_0/services-configuration",
			configurationBody(), 404, "tunnel does not exist",
		},
		{"change with a limited key", fx.shopKey, "PUT", configPath, configurationBody(), 404, "tunnel does not exist"},
		{"change without the scope", fx.readerKey, "PUT", configPath, configurationBody(), 403, "tunnels:write"},
		fx.configureCase("body over the limit", configurationBody(`{"name":"`+strings.Repeat("a", 1<<20)+`"}`), 413,
			"larger than"),
	})
}

// TestServiceResponses checks the responses to configurations with valid and invalid services.
func TestServiceResponses(t *testing.T) {
	fx := newFixture(t)
	fx.Call(fx.fullKey, "PUT", fx.officePath+"/services-configuration", configurationBody(service("stock"))).Want(200)
	withConfigurations := func(configurations string) string {
		return configurationBody(`{"name":"stock","endpoint":"http://localhost","configurations":` + configurations + `}`)
	}
	var manyServices []string
	for n := range 1000 {
		manyServices = append(manyServices, service(fmt.Sprintf("service-%04d", n)))
	}
	fx.Run(t, []functionstest.Case{
		fx.configureCase("text as service", configurationBody(`"stock"`), 400, "body.services[0]"),
		fx.configureCase("a service without an endpoint", configurationBody(`{"name":"stock","configurations":[]}`), 400,
			"endpoint"),
		fx.configureCase("a thousand services", configurationBody(manyServices...), 400, "100"),
		fx.configureCase("endpoint without a scheme",
			configurationBody(`{"name":"stock","endpoint":"localhost","configurations":[]}`), 400,
			"body.services[0].endpoint: has to begin with http"),
		fx.configureCase("an endpoint with a password",
			configurationBody(`{"name":"stock","endpoint":"http://a:b@c","configurations":[]}`), 400,
			"body.services[0].endpoint: has a user"),
		fx.configureCase("a long endpoint",
			configurationBody(`{"name":"stock","endpoint":"http://`+strings.Repeat("a", 2048)+`","configurations":[]}`), 400,
			"body.services[0].endpoint"),
		fx.configureCase("duplicate name", configurationBody(service("stock"), service("stock")), 400,
			"body.services[1].name: is the name of services[0] too"),
		{
			"name of another tunnel's service", fx.fullKey, "PUT", fx.otherPath + "/services-configuration",
			configurationBody(service("stock")), 409, "of these names: stock.",
		},
		{
			"name of another tunnel's service in another case", fx.fullKey, "PUT", fx.otherPath + "/services-configuration",
			configurationBody(service("Stock")), 200, "in-progress",
		},
		fx.configureCase("unknown environment type",
			withConfigurations(`[{"project":"shop","accessibleBy":["staging"]}]`), 400,
			"body.services[0].configurations[0].accessibleBy[0]"),
		fx.configureCase("development instead of working-copy",
			withConfigurations(`[{"project":"shop","accessibleBy":["development"]}]`), 400, "accessibleBy[0]"),
		fx.configureCase("all environment types",
			withConfigurations(`[{"project":"shop","accessibleBy":["working-copy","preview","production"]}]`), 200,
			"in-progress"),
		fx.configureCase("no environment types", withConfigurations(`[{"project":"shop","accessibleBy":[]}]`), 200,
			"in-progress"),
		fx.configureCase("no projects", withConfigurations(`[]`), 200, "in-progress"),
		fx.configureCase("missing project", withConfigurations(`[{"project":"nope","accessibleBy":[]}]`), 400,
			"body.services[0].configurations[0].project: the account has no such project"),
	})
}

// TestDeletedTunnelIsNotFound checks that a deleted tunnel is not found, and that its name can be used again. Only its
// teardown operation can still be read, by the id in the response to the deletion.
func TestDeletedTunnelIsNotFound(t *testing.T) {
	fx := functionstest.New(t, projects.Bind, tunnels.Bind)
	fullKey := fx.CreateAccount("acme")
	fx.Call(fullKey, "POST", "/v1/projects", `{"name":"shop"}`).Want(200)
	tunnelPath := path + "/" + fx.Call(fullKey, "POST", path, `{"name":"office"}`).Want(201).JSON().Text("tunnelId")
	fx.Call(fullKey, "PUT", tunnelPath+"/services-configuration", configurationBody(service("stock"))).Want(200)
	operationID := fx.Call(fullKey, "DELETE", tunnelPath, "").Want(200).JSON().Text("id")
	if !strings.HasPrefix(operationID, "tst_") || len(operationID) != 28 {
		t.Errorf("id of the operation = %q, want tst_… of 28 characters", operationID)
	}
	fx.Call(fullKey, "GET", path, "").Want(200, `"data":[]`)
	fx.Call(fullKey, "GET", tunnelPath, "").Want(404)
	fx.Call(fullKey, "DELETE", tunnelPath, "").Want(404)
	fx.Call(fullKey, "POST", tunnelPath+"/$rotate-token", "").Want(404)
	fx.Call(fullKey, "GET", tunnelPath+"/services-configuration", "").Want(404)
	fx.Call(fullKey, "PUT", tunnelPath+"/services-configuration", configurationBody(service("stock"))).Want(404)
	fx.Call(fullKey, "GET", tunnelPath+"/teardown-operations/"+operationID, "").Want(200, `"status":"in-progress"`)
	recreatedPath := path + "/" + fx.Call(fullKey, "POST", path, `{"name":"office"}`).Want(201).JSON().Text("tunnelId")
	fx.Call(fullKey, "PUT", recreatedPath+"/services-configuration", configurationBody(service("stock"))).Want(200,
		"in-progress")
}
