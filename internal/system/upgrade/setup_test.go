package upgrade_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gatewright/gatewright/internal/system/instance"
	"github.com/gatewright/gatewright/shared/base/pki/pkitest"
	"github.com/gatewright/gatewright/shared/runtime/localdns"
)

// deploy deploys a project with a route at /hello to an upstream.
func (fx *fixture) deploy(project, upstream string, inbound ...string) {
	fx.Helper()
	b, err := fx.p.Deploy(fx.Context(), "demo", project, projectArchive(upstream, inbound...))
	if err != nil {
		fx.Fatal(err)
	}
	if b.Status != "SUCCESS" {
		fx.Fatalf("the build of %s has ended with %s, want SUCCESS: %s", project, b.Status, b.BuildResult)
	}
	fx.urls[project] = b.URL
}

// projectArchive returns the archive of a project with a route at /hello to an upstream.
func projectArchive(upstream string, inbound ...string) []byte {
	policies, _ := json.Marshal(append([]string{}, inbound...)) // strings always encode
	return instance.Archive(map[string]string{
		"config/routes.oas.json": fmt.Sprintf(
			`{"openapi":"3.1.0","info":{"title":"shop","version":"1"},"paths":{"/hello":{"get":{
			"operationId":"hello","responses":{"200":{"description":"ok"}},
			"x-gateway-route":{"corsPolicy":"none",
			"handler":{"export":"urlRewriteHandler","module":"$import(@gatewright/runtime)","options":{"rewritePattern":%q}},
			"policies":{"inbound":%s}}}}}}`, upstream, policies),
		"config/policies.json": `{"policies":[
			{"name":"key","policyType":"api-key-inbound","handler":{"export":"ApiKeyInboundPolicy",
				"module":"$import(@gatewright/runtime)","options":{"bucketName":"callers"}}},
			{"name":"quota","policyType":"quota-inbound","handler":{"export":"QuotaInboundPolicy",
				"module":"$import(@gatewright/runtime)","options":{"bucketId":"$env(METERING)","meters":{"requests":1}}}}
		],"corsPolicies":[]}`,
	})
}

// createProject creates a project with the variables that the policies in deploy use.
func (fx *fixture) createProject(name, metering string) {
	fx.Helper()
	fx.ask(http.MethodPost, "/v1/projects", fmt.Sprintf(`{"name":%q}`, name))
	variables := account + "/projects/" + name + "/branches/main/variables"
	fx.ask(http.MethodPost, variables, fmt.Sprintf(`{"name":"METERING","isSecret":false,"value":%q}`, metering))
	fx.ask(http.MethodPost, variables, fmt.Sprintf(`{"name":"UPSTREAM","isSecret":true,"value":%q}`, fx.upstream))
}

// fill creates one object of each kind.
func (fx *fixture) fill() {
	fx.Helper()
	fx.createSubscription(boughtUnits)
	fx.serveDomain()
	fx.createTunnel()
	fx.deploy("behind", "service://stock/up${pathname}")

	key, output, err := fx.command("account", "create", "other")
	if err != nil {
		fx.Fatalf("create an account: %v: %s", err, output)
	}
	fx.other = key
}

// createSubscription creates a subscription with which a consumer has bought units, and the project shop, whose quota
// counts them. The project also has certificates, and a separate key bucket.
func (fx *fixture) createSubscription(units int) {
	fx.Helper()
	metering := fx.text(fx.ask(http.MethodPost, "/v1/metering", ""), "id")
	plan := fx.text(fx.ask(http.MethodPost, "/v1/metering/"+metering+"/plans",
		fmt.Sprintf(`{"label":"Pro","planExternalId":"pro","meters":{"requests":{"max":%d}}}`, units)), "id")
	fx.subscription = "/v1/metering/" + metering + "/subscriptions/" +
		fx.text(fx.ask(http.MethodPost, "/v1/metering/"+metering+"/subscriptions", fmt.Sprintf(
			`{"planIds":[%q],"planExternalIds":["pro"],"status":"active","type":"periodic","renewalStrategy":"yearly",
			"region":"us-east1","customerKey":"acme","customerExternalId":"cus_1","subscriptionExternalId":"sub_1"}`,
			plan)), "id")

	callers := account + "/key-buckets/callers"
	fx.ask(http.MethodPost, account+"/key-buckets", `{"name":"callers","tags":{"team":"blue"}}`)
	fx.ask(http.MethodPost, account+"/key-buckets", `{"name":"written"}`)
	fx.ask(http.MethodPost, callers+"/consumers?with-api-key=true",
		`{"name":"acme","metadata":{"plan":"gold"},"tags":{"region":"eu"}}`)
	fx.ask(http.MethodPost, callers+"/consumers/acme/keys", `{"description":"another","expiresOn":"2101-01-01T00:00:00Z"}`)
	keys, _ := fx.ask(http.MethodGet, callers+"/consumers/acme/keys?key-format=visible", "")["data"].([]any)
	if len(keys) != 2 {
		fx.Fatalf("GET …/keys = %v, want 2 keys", keys)
	}
	first, _ := keys[1].(map[string]any)
	fx.key = fx.text(first, "key")

	fx.createProject("shop", metering)
	fx.deploy("shop", "${env.UPSTREAM}/up${pathname}", "key", "quota")
	ca := pkitest.CA(fx, "Partners", time.Now())
	fx.ask(http.MethodPost, account+"/client-mtls-ca-certificates",
		fmt.Sprintf(`{"name":"partners","certificate":%q}`, ca.PEM()))
	leaf := ca.Client(fx, "gateway", time.Now())
	fx.ask(http.MethodPost, account+"/projects/shop/mtls-certificates",
		fmt.Sprintf(`{"name":"gateway","certificate":%q,"key":%q,"environments":["production"]}`, leaf.PEM(),
			leaf.KeyPEM(fx)))
	fx.ask(http.MethodPost, account+"/account-keys", `{"label":"ci","scopes":["deployments:write"]}`)
}

// serveDomain makes the custom domain serve the project shop.
func (fx *fixture) serveDomain() {
	fx.Helper()
	domain := fx.ask(http.MethodPost, account+"/custom-domains", fmt.Sprintf(`{"hostname":%q}`, hostname))
	record, _ := domain["ownershipVerification"].(map[string]any)
	line := fmt.Sprintf("_gatewright.%s TXT %s\n", hostname, fx.text(record, "value"))
	if err := os.WriteFile(filepath.Join(fx.p.Data(), localdns.FileName), []byte(line), 0o600); err != nil {
		fx.Fatal(err)
	}
	fx.ask(http.MethodPost, account+"/custom-domains/"+hostname+"/verify", "")
	deployments, _ := fx.ask(http.MethodGet, account+"/projects/shop/deployments", "")["data"].([]any)
	deployed, _ := deployments[0].(map[string]any)
	fx.ask(http.MethodPatch, account+"/custom-domains", fmt.Sprintf(`{"hostname":%q,"deploymentName":%q}`, hostname,
		fx.text(deployed, "name")))
}

// createTunnel creates a tunnel to the upstream, which the project "behind" can use.
func (fx *fixture) createTunnel() {
	fx.Helper()
	created := fx.ask(http.MethodPost, account+"/tunnels", `{"name":"office"}`)
	fx.token = fx.text(created, "token")
	fx.createProject("behind", fx.metering())
	office := account + "/tunnels/" + fx.text(created, "tunnelId")
	operation := fx.ask(http.MethodPut, office+"/services-configuration",
		fmt.Sprintf(`{"version":1,"services":[{"name":"stock","endpoint":%q,
			"configurations":[{"project":"behind","accessibleBy":["production"]}]}]}`, fx.upstream))
	fx.until("the tunnel's services are provisioned", func() bool {
		return fx.ask(http.MethodGet, office+"/provisioning-operations/"+fx.text(operation, "id"), "")["status"] == "success"
	})
}

// metering returns the id of the metering bucket of the subscription.
func (fx *fixture) metering() string { return strings.Split(fx.subscription, "/")[3] }

// work creates more objects that depend on the objects from fill.
func (fx *fixture) work(name string) {
	fx.Helper()
	fx.createProject(name, fx.metering())
	fx.deploy(name, "${env.UPSTREAM}/up${pathname}", "key")
	fx.ask(http.MethodPost, account+"/key-buckets/callers/consumers?with-api-key=true", fmt.Sprintf(`{"name":%q}`, name))
	fx.ask(http.MethodPatch, account+"/key-buckets/callers/consumers/acme", fmt.Sprintf(`{"description":%q}`, name))
}
