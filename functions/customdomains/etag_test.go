package customdomains_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/functions/customdomains"
	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/shared/management/api"
)

// TestIfMatchAppliesToHostname checks that If-Match is compared with the ETag of the custom domain that the body or the
// query names, in any spelling of the hostname. The path does not name the custom domain.
func TestIfMatchAppliesToHostname(t *testing.T) {
	fx, fullKey, name := newDeployedFixture(t)
	send := func(method, hostname, fields, tag string) functionstest.Response {
		t.Helper()
		if method == "DELETE" {
			return fx.Call(fullKey, method, path+"?hostname="+url.QueryEscape(hostname)+fields, "", "If-Match", tag)
		}
		return fx.Call(fullKey, method, path, `{"hostname":"`+hostname+`"`+fields+`}`, "If-Match", tag)
	}
	etag := func(hostname string) string {
		t.Helper()
		return fx.Call(fullKey, "GET", path+"/"+url.PathEscape(hostname), "").Want(200).Header.Get("ETag")
	}
	tags := map[string]string{}
	for _, hostname := range []string{"one.example.com", "xn--bcher-kva.example"} {
		resp := fx.Call(fullKey, "POST", path, `{"hostname":"`+hostname+`"}`).Want(200)
		tags[hostname] = etag(hostname)
		resp.WantHeader("ETag", tags[hostname])
	}
	attachFields := `,"deploymentName":"` + name + `"`
	send("PATCH", "one.example.com", attachFields, tags["xn--bcher-kva.example"]).Want(412)
	send("DELETE", "one.example.com", "", tags["xn--bcher-kva.example"]).Want(412)
	for hostname, spellings := range map[string][]string{
		"one.example.com":       {"ONE.example.COM", "one.example.com."},
		"xn--bcher-kva.example": {"b\\u00fccher.example", "BÜCHER.example", "XN--bcher-kva.example"},
	} {
		for _, spelling := range spellings {
			refused := fx.Call(fullKey, "PATCH", path, `{"hostname":"`+spelling+`"`+attachFields+`}`, "If-Match",
				`"other"`)
			if refused.Status == 404 {
				continue // The API does not accept this spelling of the hostname, with or without If-Match.
			}
			tag := etag(hostname)
			fx.Now = fx.Now.Add(time.Second)
			resp := send("PATCH", spelling, attachFields, tag).Want(200)
			resp.WantHeader("ETag", etag(hostname))
			send("PATCH", spelling, "", tag).Want(412)
			send("PATCH", spelling, "", etag(hostname)).Want(200)
		}
	}
	// A repeat with the same Idempotency-Key gets the first response, even if the ETag of the domain has changed since.
	tag := etag("one.example.com")
	first := fx.Call(fullKey, "PATCH", path, `{"hostname":"one.example.com"`+attachFields+`}`, "If-Match", tag,
		"Idempotency-Key", "k").Want(200)
	fx.Call(fullKey, "PATCH", path, `{"hostname":"one.example.com"`+attachFields+`}`, "If-Match", tag, "Idempotency-Key",
		"k").
		Want(200, strings.TrimSpace(first.Body)).WantHeader("ETag", etag("one.example.com"))
	fx.Call(fullKey, "PATCH", path, `{"hostname":"one.example.com"}`, "If-Match", tag, "Idempotency-Key", "k").Want(422)
	// If-Match also applies to the detachment of a deployment and to the removal of the certificate.
	send("DELETE", "one.example.com", "&deploymentName="+name, tag).Want(412)
	send("DELETE", "one.example.com", "&deploymentName="+name, etag("one.example.com")).Want(200)
	fx.Call(fullKey, "POST", path+"/one.example.com/verify", "").Want(200).WantHeader("ETag", etag("one.example.com"))
	fx.Call(fullKey, "PUT", path+"/one.example.com/certificate", `{"certificate":"c","key":"k"}`, "If-Match",
		tag).Want(400)

	// Without a hostname, or with an unknown one, If-Match does not change the response.
	fx.Run(t, []functionstest.Case{
		{"no hostname in the query", fullKey, "DELETE", path, "", 400, "query.hostname"},
		{"no hostname in the body", fullKey, "PATCH", path, `{}`, 400, "hostname"},
	})
	for _, condition := range []string{"*", tag} {
		for _, body := range []string{
			`{}`, `{"hostname":null}`, `{"hostname":1}`, `{"HOSTNAME":"one.example.com"}`,
			`{"hostname":"` + strings.Repeat("a", 1025) + `"}`, `{"hostname"`,
		} {
			fx.Call(fullKey, "PATCH", path, body, "If-Match", condition).Want(400)
		}
		for _, hostname := range []string{
			"gone.example.com", "../key-buckets", "one.example.com/certificate", "..",
			"%2e%2e",
		} {
			send("PATCH", hostname, "", condition).Want(404, "custom domain")
			send("DELETE", hostname, "", condition).Want(404, "custom domain")
		}
		send("DELETE", "", "", condition).Want(400, "query.hostname")
	}
	send("DELETE", "one.example.com", "", etag("one.example.com")).Want(200)
	send("DELETE", "one.example.com", "", tag).Want(404)
	fx.Call(fullKey, "GET", path+"/xn--bcher-kva.example", "").Want(200)
}

// TestDryRunShowsHostname checks that the dry run of a deletion shows the custom domain that the query names. The dry
// run of an invalid request must be refused as the request is.
func TestDryRunShowsHostname(t *testing.T) {
	fx := functionstest.New(t, customdomains.Bind)
	fullKey := fx.CreateAccount("acme")
	for _, hostname := range []string{"one.example.com", "two.example.com"} {
		fx.Call(fullKey, "POST", path, `{"hostname":"`+hostname+`"}`).Want(200)
	}
	dryRunCtx := api.WithCall(fx.Context(), api.Call{Source: "mcp", DryRun: true})
	report := fx.CallContext(dryRunCtx, fullKey, "DELETE", path+"?hostname=ONE.example.com", "").Want(200).JSON()
	if report.Text("before.hostname") != "one.example.com" || !report.IsNull("after") {
		t.Errorf("dry run of DELETE = %v, want one.example.com before and nothing after", report)
	}
	for _, body := range []string{`{}`, `{"hostname":"` + strings.Repeat("a", 1025) + `"}`} {
		fx.CallContext(dryRunCtx, fullKey, "PATCH", path, body).Want(400, "body", "hostname")
	}
	fx.CallContext(dryRunCtx, fullKey, "PATCH", path, `{"hostname":".."}`).Want(404, "custom domain")
}
