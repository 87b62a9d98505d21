package customdomains_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/functions/customdomains"
	"github.com/gatewright/gatewright/functions/deployments"
	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/shared/auth"
	shareddeployments "github.com/gatewright/gatewright/shared/deployments"
	"github.com/gatewright/gatewright/shared/environment"
	"github.com/gatewright/gatewright/shared/store"
)

const path = "/v1/accounts/acme/custom-domains"

// deployed is a world whose account acme has a deployment.
func deployed(t *testing.T) (w *functionstest.World, full, name string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w = functionstest.New(t, customdomains.Bind, deployments.Bind)
		full = w.Account("acme")
		archive, err := functionstest.Pack(functionstest.Project("http://upstream.test"))
		if err != nil {
			t.Fatal(err)
		}
		w.Upload(w.Call(full, "POST", "/v1/deployments/sources", `{"accountName":"acme","projectName":"shop","branchName":"main"}`).Want(200).JSON().Text("uploadUrl"), archive)
		name = w.Call(full, "GET", "/v1/accounts/acme/projects/shop/deployments", "").Want(200).JSON().Text("data.0.name")
	})
	return w.Copy(t), full, name
}

// TestAnswers has what is this group's own: which hostnames there are, and who gets one, is in
// package customdomains' tests.
func TestAnswers(t *testing.T) {
	w, full, name := deployed(t)
	attach := `{"hostname":"api.example.com","deploymentName":"` + name + `"`
	reader := w.Key("acme", func(p *auth.Permissions) { p.Scopes = []auth.Scope{auth.CustomDomains.Read()} })
	own := w.Key("acme", func(p *auth.Permissions) { p.Projects = []string{"shop"} })

	made := w.Call(full, "POST", path, `{"hostname":"API.example.com","stage":null}`).
		Want(200, `"deploymentName":null,"hostname":"api.example.com","stage":"api"`, `"name":"_gatewright.api.example.com","type":"TXT"`, `"cname":null`)
	w.Call(reader, "GET", path, "").
		Want(200, `"deployments":[],"hostname":"api.example.com","provider":"custom","status":"pending"`, `"projectName":""`, `"limit":1000,"offset":0,"total":1`)
	w.DNS = func(string) []string { return nil }
	w.Call(full, "POST", path+"/api.example.com/verify", "").Want(409, "no TXT record")
	w.DNS = func(string) []string { return []string{"v=spf1 -all", made.JSON().Text("ownershipVerification.value")} }
	w.Call(full, "POST", path+"/API.example.com/verify", "").Want(200, `"status":"active","ownershipVerification":null`)
	w.Run(t, []functionstest.Case{
		{"a certificate of nobody", full, "PUT", path + "/api.example.com/certificate", `{"certificate":"c","key":"k"}`, 400, "body.certificate: is not in PEM"},
		{"a deletion of no certificate", full, "DELETE", path + "/api.example.com/certificate", "", 404, "no certificate"},
		{"one of nobody's", full, "DELETE", path + "/b.example.com/certificate", "", 404, "custom domain does not exist"},
		{"one without the scope for it", reader, "DELETE", path + "/api.example.com/certificate", "", 403, "custom-domains:write"},
		{"an attachment", full, "PATCH", path, attach + `}`, 200, `"cname":"` + name + `.gateway.test"`},
		{"one that leaves another served, of which there is none", full, "PATCH", path, attach + `,"isDefault":false}`, 200, name},
		{"a detachment in more words", full, "PATCH", path, `{"hostname":"api.example.com","deploymentName":null,"isDefault":null}`, 200, `"deploymentName":null`},
		{"a detachment of nothing", full, "PATCH", path, `{"hostname":"api.example.com"}`, 200, `"ownershipVerification":null,"cname":null`},
		{"an alias", full, "POST", path, `{"hostname":"docs.example.com","isAlias":true}`, 200, "docs"},
		{"the hostname again", full, "POST", path, `{"hostname":"api.example.com"}`, 409, "has a custom domain"},
		{"a wildcard", full, "POST", path, `{"hostname":"*.example.com"}`, 400, "body.hostname: is a wildcard"},
		{"a deployment's host", full, "POST", path, `{"hostname":"` + name + `.gateway.test"}`, 400, "body.hostname: is a name of this installation's own"},
		{"another stage", full, "POST", path, `{"hostname":"b.example.com","stage":"portal"}`, 400, "body.stage"},
		{"no hostname", full, "POST", path, `{}`, 400, "hostname"},
		{"a deployment that is not there", full, "POST", path, `{"hostname":"b.example.com","deploymentName":"shop-main-0000000"}`, 404, "deployment"},
		{"one without the scope", reader, "POST", path, `{"hostname":"b.example.com"}`, 403, "custom-domains:write"},
		{"a key of one project", own, "POST", path, `{"hostname":"b.example.com"}`, 404, "limited"},
		{"what is not there", full, "GET", path + "/b.example.com", "", 404, "custom domain"},
		{"what nothing is called", full, "GET", path + "/" + strings.Repeat("a", 300), "", 404, "custom domain"},
		{"a deletion of what is not there", full, "DELETE", path + "?hostname=b.example.com", "", 404, "custom domain"},
		{"one without a hostname", full, "DELETE", path, "", 400, "query.hostname"},
		{"a mapping that is not there", full, "DELETE", path + "?hostname=api.example.com&deploymentName=" + name, "", 404, "does not lead to"},
	})
	w.Call(full, "PATCH", path, attach+`}`).Want(200)
	// What is no wish to detach it leaves it attached.
	w.Call(full, "PATCH", path, `{"hostname":"api.example.com","isDefault":true}`).Want(400, "body.isDefault: goes with deploymentName")
	w.Call(full, "PATCH", path, `{"hostname":"api.example.com","isDefault":false}`).Want(400, "body.isDefault: goes with deploymentName")
	w.Call(full, "PATCH", path, `{"hostname":"api.example.com","deploymentName":""}`).Want(400, "body.deploymentName")
	w.Call(full, "POST", path, `{"hostname":"b.example.com","deploymentName":""}`).Want(400, "body.deploymentName")
	w.Call(reader, "GET", path+"/api.example.com", "").
		Want(200, `"projectName":"shop"`, `"branch":"main","environmentType":"PRODUCTION","isDefault":true,"stage":"api"`)
	w.Call(full, "DELETE", "/v1/deployments/"+name, "").Want(409, "Custom domains lead to the deployment")
	w.Call(full, "DELETE", path+"?hostname=api.example.com&deploymentName="+name, "").Want(200, "")
	w.Call(full, "DELETE", path+"?hostname=api.example.com", "").Want(200, "")
	w.Call(full, "DELETE", "/v1/deployments/"+name, "").Want(200)
}

// TestSecondDeployment: which one is served is the caller's choice, and what is shown says which it is.
func TestSecondDeployment(t *testing.T) {
	w, full, first := deployed(t)
	var r shareddeployments.Record
	if err := w.Parts.Table.Get(t.Context(), shareddeployments.Key(first), &r); err != nil {
		t.Fatal(err)
	}
	const second, third = "shop-next-0123abc", "blog-main-0123abc"
	other := r
	other.Name, other.Project = third, "blog"
	r.Name, r.Branch, r.Kind = second, "next", environment.Preview
	if err := w.Parts.Table.Commit(t.Context(), store.Put(shareddeployments.Key(second), r), store.Put(shareddeployments.Key(third), other),
		store.Put(store.ProjectKey(r.AccountID, "blog"), shareddeployments.Project{ID: "p-blog", AccountID: r.AccountID, Name: "blog"})); err != nil {
		t.Fatal(err)
	}
	send := func(method, rest string) functionstest.Answer {
		return w.Call(full, method, path, `{"hostname":"api.example.com",`+rest+`}`)
	}
	served := func(name string) string { return `{"deploymentName":"` + name + `","hostname"` }
	send("POST", `"deploymentName":"`+first+`"`).Want(200, served(first))
	send("POST", `"deploymentName":"`+second+`","isDefault":false`).Want(200, served(first))
	send("POST", `"deploymentName":"`+third+`","isDefault":true`).Want(200, served(third))
	send("PATCH", `"deploymentName":"`+second+`","isDefault":false`).Want(200, served(third))
	send("PATCH", `"deploymentName":"`+third+`","isDefault":false`).Want(409, "Make another one the default")
	send("PATCH", `"deploymentName":"`+second+`","isDefault":true`).Want(200, served(second))
	w.Now = w.Now.Add(time.Hour)
	send("PATCH", `"deploymentName":"`+first+`"`).Want(200, served(first))
	w.Call(full, "GET", path+"/api.example.com", "").Want(200, `"projectName":"shop"`,
		`"deployments":[{"deploymentName":"`+first+`","branch":"main","environmentType":"PRODUCTION","isDefault":true,"stage":"api","cname":"`+first+`.gateway.test"},{"deploymentName":"`+second+
			`","branch":"next","environmentType":"PREVIEW","isDefault":false,"stage":"api","cname":"`+second+`.gateway.test"}`, `"provider":"custom"`,
		`"createdOn":"2026-03-14T10:26:53.589Z","updatedOn":"2026-03-14T11:26:53.589Z"`)
	w.Call(full, "POST", path, `{"hostname":"docs.example.com","deploymentName":"`+first+`","stage":"dev-portal","isAlias":true}`).Want(200, `"stage":"dev-portal"`)
	w.Call(full, "GET", path+"/docs.example.com", "").Want(200, `"isDefault":true,"stage":"dev-portal"`, `"provider":"alias"`)
}

func TestCertificateToCome(t *testing.T) {
	w := functionstest.New(t, customdomains.Bind)
	full := w.Account("acme")
	w.Parts.Config.ACMEDirectory = "https://ca.test/directory"
	w.Restart()
	w.Call(full, "POST", path, `{"hostname":"api.example.com"}`).Want(200)
	w.Call(full, "POST", path+"/api.example.com/verify", "").
		Want(200, `"certificate":{"source":"acme","status":"pending","issuer":null,"validFrom":null,"validTo":null,"renewsOn":"2026-03-14T09:26:53.589Z","message":null}`)
	w.Call(full, "DELETE", path+"/api.example.com/certificate", "").Want(409, "Upload one")
}
