package customdomains_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/functions/customdomains"
	"github.com/gatewright/gatewright/functions/deployments"
	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/format/environment"
	shareddeployments "github.com/gatewright/gatewright/shared/resource/deployments"
)

const path = "/v1/accounts/acme/custom-domains"

// newDeployedFixture returns a fixture whose account acme has a deployment, and the deployment's name.
func newDeployedFixture(t *testing.T) (fx *functionstest.Fixture, fullKey, name string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		fx = functionstest.New(t, customdomains.Bind, deployments.Bind)
		fullKey = fx.CreateAccount("acme")
		archive, err := functionstest.Pack(functionstest.Project("http://upstream.test"))
		if err != nil {
			t.Fatal(err)
		}
		fx.Upload(fx.Call(fullKey, "POST", "/v1/deployments/sources",
			`{"accountName":"acme","projectName":"shop","branchName":"main"}`).Want(200).JSON().Text("uploadUrl"), archive)
		name = fx.Call(fullKey, "GET", "/v1/accounts/acme/projects/shop/deployments", "").Want(200).JSON().Text("data.0.name")
	})
	return fx.Copy(t), fullKey, name
}

// TestResponses checks the responses of this group. The tests of shared/resource/customdomains cover more hostnames,
// and the accounts that own them.
func TestResponses(t *testing.T) {
	fx, fullKey, name := newDeployedFixture(t)
	attachBody := `{"hostname":"api.example.com","deploymentName":"` + name + `"`
	readerKey := fx.CreateKey("acme", func(p *auth.Permissions) { p.Scopes = []auth.Scope{auth.CustomDomains.Read()} })
	shopKey := fx.CreateKey("acme", func(p *auth.Permissions) { p.Projects = []string{"shop"} })

	created := fx.Call(fullKey, "POST", path, `{"hostname":"API.example.com","stage":null}`).
		Want(200, `"deploymentName":null,"hostname":"api.example.com","stage":"api"`,
			`"name":"_gatewright.api.example.com","type":"TXT"`, `"cname":null`)
	fx.Call(readerKey, "GET", path, "").
		Want(200, `"deployments":[],"hostname":"api.example.com","provider":"custom","status":"pending"`, `"projectName":""`,
			`"limit":1000,"offset":0,"total":1`)
	fx.DNS = func(string) []string { return nil }
	fx.Call(fullKey, "POST", path+"/api.example.com/verify", "").Want(409, "no TXT record")
	fx.DNS = func(string) []string {
		return []string{"v=spf1 -all", created.JSON().Text("ownershipVerification.value")}
	}
	fx.Call(fullKey, "POST", path+"/API.example.com/verify", "").
		Want(200, `"status":"active","ownershipVerification":null`)
	fx.Run(t, []functionstest.Case{
		{
			"certificate that is not in PEM", fullKey, "PUT", path + "/api.example.com/certificate",
			`{"certificate":"c","key":"k"}`, 400, "body.certificate: is not in PEM",
		},
		{
			"deletion of a missing certificate", fullKey, "DELETE", path + "/api.example.com/certificate", "", 404,
			"no certificate",
		},
		{
			"certificate of a missing domain", fullKey, "DELETE", path + "/b.example.com/certificate", "", 404,
			"custom domain does not exist",
		},
		{
			"deletion of a certificate without the scope", readerKey, "DELETE", path + "/api.example.com/certificate", "", 403,
			"custom-domains:write",
		},
		{"attachment", fullKey, "PATCH", path, attachBody + `}`, 200, `"cname":"` + name + `.gateway.test"`},
		{
			"isDefault false for the only deployment", fullKey, "PATCH", path, attachBody + `,"isDefault":false}`,
			200, name,
		},
		{
			"detachment with nulls", fullKey, "PATCH", path,
			`{"hostname":"api.example.com","deploymentName":null,"isDefault":null}`, 200, `"deploymentName":null`,
		},
		{
			"detachment without a deployment", fullKey, "PATCH", path, `{"hostname":"api.example.com"}`, 200,
			`"ownershipVerification":null,"cname":null`,
		},
		{"an alias", fullKey, "POST", path, `{"hostname":"docs.example.com","isAlias":true}`, 200, "docs"},
		{"duplicate hostname", fullKey, "POST", path, `{"hostname":"api.example.com"}`, 409, "has a custom domain"},
		{"a wildcard", fullKey, "POST", path, `{"hostname":"*.example.com"}`, 400, "body.hostname: is a wildcard"},
		{
			"a deployment's host", fullKey, "POST", path, `{"hostname":"` + name + `.gateway.test"}`, 400,
			"body.hostname: is a name of this installation's own",
		},
		{"another stage", fullKey, "POST", path, `{"hostname":"b.example.com","stage":"portal"}`, 400, "body.stage"},
		{"no hostname", fullKey, "POST", path, `{}`, 400, "hostname"},
		{
			"missing deployment", fullKey, "POST", path,
			`{"hostname":"b.example.com","deploymentName":"shop-main-0000000"}`, 404, "deployment",
		},
		{"creation without the scope", readerKey, "POST", path, `{"hostname":"b.example.com"}`, 403, "custom-domains:write"},
		{"a key of one project", shopKey, "POST", path, `{"hostname":"b.example.com"}`, 404, "limited"},
		{"missing domain", fullKey, "GET", path + "/b.example.com", "", 404, "custom domain"},
		{"invalid hostname", fullKey, "GET", path + "/" + strings.Repeat("a", 300), "", 404, "custom domain"},
		{"deletion of a missing domain", fullKey, "DELETE", path + "?hostname=b.example.com", "", 404, "custom domain"},
		{"deletion without a hostname", fullKey, "DELETE", path, "", 400, "query.hostname"},
		{
			"deletion with a deployment that is not attached", fullKey, "DELETE",
			path + "?hostname=api.example.com&deploymentName=" + name, "", 404, "does not lead to",
		},
	})
	checkAttachedDomain(fx, fullKey, readerKey, name, attachBody)
}

// checkAttachedDomain attaches the domain to the deployment, checks which requests are refused then, and deletes both.
func checkAttachedDomain(fx *functionstest.Fixture, fullKey, readerKey, name, attachBody string) {
	fx.Helper()
	fx.Call(fullKey, "PATCH", path, attachBody+`}`).Want(200)
	// The refused requests must not detach the domain.
	fx.Call(fullKey, "PATCH", path, `{"hostname":"api.example.com","isDefault":true}`).Want(400,
		"body.isDefault: goes with deploymentName")
	fx.Call(fullKey, "PATCH", path, `{"hostname":"api.example.com","isDefault":false}`).Want(400,
		"body.isDefault: goes with deploymentName")
	fx.Call(fullKey, "PATCH", path, `{"hostname":"api.example.com","deploymentName":""}`).Want(400, "body.deploymentName")
	fx.Call(fullKey, "POST", path, `{"hostname":"b.example.com","deploymentName":""}`).Want(400, "body.deploymentName")
	fx.Call(readerKey, "GET", path+"/api.example.com", "").
		Want(200, `"projectName":"shop"`, `"branch":"main","environmentType":"PRODUCTION","isDefault":true,"stage":"api"`)
	fx.Call(fullKey, "DELETE", "/v1/deployments/"+name, "").Want(409, "Custom domains lead to the deployment")
	fx.Call(fullKey, "DELETE", path+"?hostname=api.example.com&deploymentName="+name, "").Want(200, "")
	fx.Call(fullKey, "DELETE", path+"?hostname=api.example.com", "").Want(200, "")
	fx.Call(fullKey, "DELETE", "/v1/deployments/"+name, "").Want(200)
}

// TestSecondDeployment attaches a custom domain to several deployments. The caller must be able to choose which one is
// served, with isDefault, and responses must show the choice.
func TestSecondDeployment(t *testing.T) {
	fx, fullKey, first := newDeployedFixture(t)
	var record shareddeployments.Record
	if err := fx.Parts.Table.Get(t.Context(), shareddeployments.Key(first), &record); err != nil {
		t.Fatal(err)
	}
	const second, third = "shop-next-0123abc", "blog-main-0123abc"
	secondRecord, thirdRecord := record, record
	thirdRecord.Name, thirdRecord.Project = third, "blog"
	secondRecord.Name, secondRecord.Branch, secondRecord.Kind = second, "next", environment.Preview
	if err := fx.Parts.Table.Commit(t.Context(), store.Put(shareddeployments.Key(second), secondRecord),
		store.Put(shareddeployments.Key(third), thirdRecord),
		store.Put(store.ProjectKey(record.AccountID, "blog"), shareddeployments.Project{
			ID: "p-blog", AccountID: record.AccountID, Name: "blog",
		})); err != nil {
		t.Fatal(err)
	}
	send := func(method, fields string) functionstest.Response {
		return fx.Call(fullKey, method, path, `{"hostname":"api.example.com",`+fields+`}`)
	}
	// servedBy returns the beginning of a response that shows the deployment that is served.
	servedBy := func(name string) string { return `{"deploymentName":"` + name + `","hostname"` }
	send("POST", `"deploymentName":"`+first+`"`).Want(200, servedBy(first))
	send("POST", `"deploymentName":"`+second+`","isDefault":false`).Want(200, servedBy(first))
	send("POST", `"deploymentName":"`+third+`","isDefault":true`).Want(200, servedBy(third))
	send("PATCH", `"deploymentName":"`+second+`","isDefault":false`).Want(200, servedBy(third))
	send("PATCH", `"deploymentName":"`+third+`","isDefault":false`).Want(409, "Make another one the default")
	send("PATCH", `"deploymentName":"`+second+`","isDefault":true`).Want(200, servedBy(second))
	fx.Now = fx.Now.Add(time.Hour)
	send("PATCH", `"deploymentName":"`+first+`"`).Want(200, servedBy(first))
	fx.Call(fullKey, "GET", path+"/api.example.com", "").Want(200, `"projectName":"shop"`,
		`"deployments":[{"deploymentName":"`+
			first+`","branch":"main","environmentType":"PRODUCTION","isDefault":true,"stage":"api","cname":"`+
			first+`.gateway.test"},{"deploymentName":"`+second+
			`","branch":"next","environmentType":"PREVIEW","isDefault":false,"stage":"api","cname":"`+second+`.gateway.test"}`,
		`"provider":"custom"`,
		`"createdOn":"2026-03-14T10:26:53.589Z","updatedOn":"2026-03-14T11:26:53.589Z"`)
	fx.Call(fullKey, "POST", path, `{"hostname":"docs.example.com","deploymentName":"`+
		first+`","stage":"dev-portal","isAlias":true}`).Want(200, `"stage":"dev-portal"`)
	fx.Call(fullKey, "GET", path+"/docs.example.com", "").Want(200, `"isDefault":true,"stage":"dev-portal"`,
		`"provider":"alias"`)
}

func TestPendingCertificate(t *testing.T) {
	fx := functionstest.New(t, customdomains.Bind)
	fullKey := fx.CreateAccount("acme")
	fx.Parts.Config.ACMEDirectory = "https://ca.test/directory"
	fx.Restart()
	fx.Call(fullKey, "POST", path, `{"hostname":"api.example.com"}`).Want(200)
	fx.Call(fullKey, "POST", path+"/api.example.com/verify", "").
		Want(200, `"certificate":{"source":"acme","status":"pending","issuer":null,"validFrom":null,"validTo":null,`+
			`"renewsOn":"2026-03-14T09:26:53.589Z","message":null}`)
	fx.Call(fullKey, "DELETE", path+"/api.example.com/certificate", "").Want(409, "Upload one")
}
