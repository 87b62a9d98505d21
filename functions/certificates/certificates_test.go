package certificates_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/functions/certificates"
	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/shared/base/pki/pkitest"
	"github.com/gatewright/gatewright/shared/core/auth"
)

const path = "/v1/accounts/acme/client-mtls-ca-certificates"

// body returns the body of a request with the PEM text of a certificate.
func body(name, certificate string) string {
	raw, _ := json.Marshal(map[string]string{"name": name, "certificate": certificate})
	return string(raw)
}

// TestResponses checks the responses of this group. The tests of package clientcas cover more invalid certificates.
func TestResponses(t *testing.T) {
	fx := functionstest.New(t, certificates.Bind)
	fullKey := fx.CreateAccount("acme")
	ca, otherCA := pkitest.CA(t, "Partners", fx.Now), pkitest.CA(t, "Other", fx.Now)
	createdResp := fx.Call(fullKey, "POST", path, body("partners", ca.PEM())).Want(201)
	var created struct{ ID string }
	if err := json.Unmarshal([]byte(createdResp.Body), &created); err != nil {
		t.Fatal(err)
	}
	readerKey := fx.CreateKey("acme", func(p *auth.Permissions) { p.Scopes = []auth.Scope{auth.CACertificates.Read()} })
	shopKey := fx.CreateKey("acme", func(p *auth.Permissions) { p.Projects = []string{"shop"} })
	fx.Run(t, []functionstest.Case{
		{"another CA", fullKey, "POST", path, body("devices", otherCA.PEM()), 201, `"subject":"CN=Other, O=Acme"`},
		{"the same CA", fullKey, "POST", path, body("devices", ca.PEM()), 409, "already"},
		{"a name in use", fullKey, "POST", path, body("partners", otherCA.PEM()), 409, "name"},
		{"a reserved word", fullKey, "POST", path, body("Class", otherCA.PEM()), 400, "body.name"},
		{"an invalid name", fullKey, "POST", path, body("1st", otherCA.PEM()), 400, "body.name"},
		{"a private key", fullKey, "POST", path, body("devices", otherCA.KeyPEM(t)), 400, "private key"},
		{
			"certificate of a client", fullKey, "POST", path, body("devices", otherCA.Client(t, "c", fx.Now).PEM()), 400,
			"body.certificate",
		},
		{
			"too large certificate", fullKey, "POST", path, body("devices", strings.Repeat("a", 16385)), 400,
			"body.certificate",
		},
		{"body over the limit", fullKey, "POST", path, body("devices", strings.Repeat("a", 1<<20)), 413, ""},
		{"no certificate", fullKey, "POST", path, `{"name":"devices"}`, 400, "certificate"},
		{"creation without the scope", readerKey, "POST", path, body("devices", otherCA.PEM()), 403, "ca-certificates:write"},
		{"the list", readerKey, "GET", path, "", 200, `"limit":1000,"offset":0,"total":1`},
		{
			"page of the list", readerKey, "GET", path + "?offset=1&limit=5", "", 200,
			`{"data":[],"limit":5,"offset":1,"total":1}`,
		},
		{
			"created certificate", readerKey, "GET", path + "/" + created.ID, "", 200,
			`"name":"partners","certificateInfo":{"subject":"CN=Partners, O=Acme"`,
		},
		{"missing certificate", fullKey, "GET", path + "/mtlsca_0123456789ABCDEFGHIJKLMN", "", 404, "CA certificate"},
		{"invalid id", fullKey, "GET", path + "/partners", "", 404, "CA certificate"},
		{"a key of one project", shopKey, "GET", path + "/" + created.ID, "", 404, "CA certificate"},
		{"another name", fullKey, "PATCH", path + "/" + created.ID, `{"name":"suppliers"}`, 200, `"name":"suppliers"`},
		{
			"another certificate, which is ignored", fullKey, "PATCH", path + "/" + created.ID, body("suppliers", otherCA.PEM()),
			200, "CN=Partners",
		},
		{
			"change of a missing CA", fullKey, "PATCH", path + "/mtlsca_0123456789ABCDEFGHIJKLMN", `{"name":"a"}`, 404,
			"CA certificate",
		},
		{"deletion of a missing CA", fullKey, "DELETE", path + "/x", "", 404, "CA certificate"},
	})
	firstTag := createdResp.Header.Get("ETag")
	fx.Call(fullKey, "PATCH", path+"/"+created.ID, `{"name":"b"}`, "If-Match", firstTag).Want(200)
	fx.Call(fullKey, "PATCH", path+"/"+created.ID, `{"name":"c"}`, "If-Match", firstTag).Want(412)
	fx.Call(fullKey, "DELETE", path+"/"+created.ID, "", "If-Match", firstTag).Want(412)
	current := fx.Call(fullKey, "GET", path+"/"+created.ID, "").Want(200)
	fx.Call(fullKey, "DELETE", path+"/"+created.ID, "", "If-Match", current.Header.Get("ETag")).Want(204)
	if list := fx.Call(fullKey, "GET", path, "").Want(200); strings.Contains(createdResp.Dump+current.Dump+list.Dump,
		"BEGIN") {
		t.Error("responses to POST and GET contain BEGIN, want no certificate in them")
	}
}
