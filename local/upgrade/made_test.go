package upgrade_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gatewright/gatewright/local/instance"
	"github.com/gatewright/gatewright/shared/pki/pkitest"
	"github.com/gatewright/gatewright/shared/zone"
)

// deploy has a project, with a route at /hello to an upstream, served.
func (w *world) deploy(project, upstream string, inbound ...string) {
	w.Helper()
	b, err := w.p.Deploy(w.Context(), "demo", project, archived(upstream, inbound...))
	if err != nil {
		w.Fatal(err)
	}
	if b.Status != "SUCCESS" {
		w.Fatalf("the build of %s ends with %s: %s", project, b.Status, b.BuildResult)
	}
	w.urls[project] = b.URL
}

// archived is a project with a route at /hello to an upstream.
func archived(upstream string, inbound ...string) []byte {
	policies, _ := json.Marshal(append([]string{}, inbound...)) // texts can be
	return instance.Archive(map[string]string{
		"config/routes.oas.json": fmt.Sprintf(`{"openapi":"3.1.0","info":{"title":"shop","version":"1"},"paths":{"/hello":{"get":{"operationId":"hello","responses":{"200":{"description":"ok"}},
			"x-gateway-route":{"corsPolicy":"none","handler":{"export":"urlRewriteHandler","module":"$import(@gatewright/runtime)","options":{"rewritePattern":%q}},
			"policies":{"inbound":%s}}}}}}`, upstream, policies),
		"config/policies.json": `{"policies":[
			{"name":"key","policyType":"api-key-inbound","handler":{"export":"ApiKeyInboundPolicy","module":"$import(@gatewright/runtime)","options":{"bucketName":"callers"}}},
			{"name":"quota","policyType":"quota-inbound","handler":{"export":"QuotaInboundPolicy","module":"$import(@gatewright/runtime)","options":{"bucketId":"$env(METERING)","meters":{"requests":1}}}}
		],"corsPolicies":[]}`,
	})
}

// project makes one with the variables that deploy's policies name.
func (w *world) project(name, metering string) {
	w.Helper()
	w.ask(http.MethodPost, "/v1/projects", fmt.Sprintf(`{"name":%q}`, name))
	variables := account + "/projects/" + name + "/branches/main/variables"
	w.ask(http.MethodPost, variables, fmt.Sprintf(`{"name":"METERING","isSecret":false,"value":%q}`, metering))
	w.ask(http.MethodPost, variables, fmt.Sprintf(`{"name":"UPSTREAM","isSecret":true,"value":%q}`, w.upstream))
}

// fill makes one of everything.
func (w *world) fill() {
	w.Helper()
	w.sell(bought)
	w.serveDomain()
	w.dig()
	w.deploy("behind", "service://stock/up${pathname}")

	key, said, err := w.command("account", "create", "other")
	if err != nil {
		w.Fatalf("create an account: %v: %s", err, said)
	}
	w.other = key
}

// sell has a consumer buy units of a project, which has all that projects have.
func (w *world) sell(units int) {
	w.Helper()
	metering := w.text(w.ask(http.MethodPost, "/v1/metering", ""), "id")
	plan := w.text(w.ask(http.MethodPost, "/v1/metering/"+metering+"/plans", fmt.Sprintf(`{"label":"Pro","planExternalId":"pro","meters":{"requests":{"max":%d}}}`, units)), "id")
	w.subscription = "/v1/metering/" + metering + "/subscriptions/" + w.text(w.ask(http.MethodPost, "/v1/metering/"+metering+"/subscriptions", fmt.Sprintf(
		`{"planIds":[%q],"planExternalIds":["pro"],"status":"active","type":"periodic","renewalStrategy":"yearly","region":"us-east1","customerKey":"acme","customerExternalId":"cus_1","subscriptionExternalId":"sub_1"}`, plan)), "id")

	callers := account + "/key-buckets/callers"
	w.ask(http.MethodPost, account+"/key-buckets", `{"name":"callers","tags":{"team":"blue"}}`)
	w.ask(http.MethodPost, account+"/key-buckets", `{"name":"written"}`)
	w.ask(http.MethodPost, callers+"/consumers?with-api-key=true", `{"name":"acme","metadata":{"plan":"gold"},"tags":{"region":"eu"}}`)
	w.ask(http.MethodPost, callers+"/consumers/acme/keys", `{"description":"another","expiresOn":"2101-01-01T00:00:00Z"}`)
	keys, _ := w.ask(http.MethodGet, callers+"/consumers/acme/keys?key-format=visible", "")["data"].([]any)
	if len(keys) != 2 {
		w.Fatalf("the consumer has the keys %v", keys)
	}
	first, _ := keys[1].(map[string]any)
	w.key = w.text(first, "key")

	w.project("shop", metering)
	w.deploy("shop", "${env.UPSTREAM}/up${pathname}", "key", "quota")
	ca := pkitest.CA(w, "Partners", time.Now())
	w.ask(http.MethodPost, account+"/client-mtls-ca-certificates", fmt.Sprintf(`{"name":"partners","certificate":%q}`, ca.PEM()))
	leaf := ca.Client(w, "gateway", time.Now())
	w.ask(http.MethodPost, account+"/projects/shop/mtls-certificates",
		fmt.Sprintf(`{"name":"gateway","certificate":%q,"key":%q,"environments":["production"]}`, leaf.PEM(), leaf.KeyPEM(w)))
	w.ask(http.MethodPost, account+"/account-keys", `{"label":"ci","scopes":["deployments:write"]}`)
}

// serveDomain has the custom domain lead to the project shop.
func (w *world) serveDomain() {
	w.Helper()
	domain := w.ask(http.MethodPost, account+"/custom-domains", fmt.Sprintf(`{"hostname":%q}`, hostname))
	record, _ := domain["ownershipVerification"].(map[string]any)
	line := fmt.Sprintf("_gatewright.%s TXT %s\n", hostname, w.text(record, "value"))
	if err := os.WriteFile(filepath.Join(w.p.Data(), zone.Name), []byte(line), 0o600); err != nil {
		w.Fatal(err)
	}
	w.ask(http.MethodPost, account+"/custom-domains/"+hostname+"/verify", "")
	deployments, _ := w.ask(http.MethodGet, account+"/projects/shop/deployments", "")["data"].([]any)
	deployed, _ := deployments[0].(map[string]any)
	w.ask(http.MethodPatch, account+"/custom-domains", fmt.Sprintf(`{"hostname":%q,"deploymentName":%q}`, hostname, w.text(deployed, "name")))
}

// dig makes a tunnel to the upstream, which the project behind may call.
func (w *world) dig() {
	w.Helper()
	made := w.ask(http.MethodPost, account+"/tunnels", `{"name":"office"}`)
	w.token = w.text(made, "token")
	w.project("behind", w.metering())
	office := account + "/tunnels/" + w.text(made, "tunnelId")
	begun := w.ask(http.MethodPut, office+"/services-configuration",
		fmt.Sprintf(`{"version":1,"services":[{"name":"stock","endpoint":%q,"configurations":[{"project":"behind","accessibleBy":["production"]}]}]}`, w.upstream))
	w.until("the tunnel's services are there", func() bool {
		return w.ask(http.MethodGet, office+"/provisioning-operations/"+w.text(begun, "id"), "")["status"] == "success"
	})
}

// metering is the id of the bucket in which units are sold.
func (w *world) metering() string { return strings.Split(w.subscription, "/")[3] }

// work makes more, which needs what was made before.
func (w *world) work(name string) {
	w.Helper()
	w.project(name, w.metering())
	w.deploy(name, "${env.UPSTREAM}/up${pathname}", "key")
	w.ask(http.MethodPost, account+"/key-buckets/callers/consumers?with-api-key=true", fmt.Sprintf(`{"name":%q}`, name))
	w.ask(http.MethodPatch, account+"/key-buckets/callers/consumers/acme", fmt.Sprintf(`{"description":%q}`, name))
}
