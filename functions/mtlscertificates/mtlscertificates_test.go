package mtlscertificates_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/functions/mtlscertificates"
	"github.com/gatewright/gatewright/functions/projects"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/pki/pkitest"
)

const (
	shop = "/v1/accounts/acme/projects/shop/mtls-certificates"
	gone = "/v1/accounts/acme/projects/gone/mtls-certificates"
)

func body(name, text, key string, environments ...string) string {
	raw, _ := json.Marshal(map[string]any{"name": name, "certificate": text, "key": key, "environments": environments})
	return string(raw)
}

func TestAnswers(t *testing.T) {
	w := functionstest.New(t, projects.Bind, mtlscertificates.Bind)
	full := w.Account("acme")
	w.Call(full, "POST", "/v1/projects", `{"name":"shop"}`).Want(200)
	ca := pkitest.CA(t, "CA", w.Now)
	one, two := ca.Client(t, "one", w.Now), ca.Client(t, "two", w.Now)
	made := w.Call(full, "POST", shop, body("one", one.PEM(), one.KeyPEM(t), "production")).Want(201)
	var its struct{ ID string }
	if err := json.Unmarshal([]byte(made.Body), &its); err != nil {
		t.Fatal(err)
	}
	at := shop + "/" + its.ID
	reader := w.Key("acme", func(p *auth.Permissions) { p.Scopes = []auth.Scope{auth.Projects.Read()} })
	w.Run(t, []functionstest.Case{
		{"another one", full, "POST", shop, body("two", two.PEM(), two.KeyPEM(t), "preview", "development"), 201, `"environments":{"development":true,"preview":true,"production":false}`},
		{"a name in use", full, "POST", shop, body("one", two.PEM(), two.KeyPEM(t), "preview"), 409, "name"},
		{"another's key", full, "POST", shop, body("two", two.PEM(), one.KeyPEM(t), "preview"), 400, "body.key"},
		{"the key for the certificate", full, "POST", shop, body("two", two.KeyPEM(t), two.KeyPEM(t), "preview"), 400, "body.certificate"},
		{"no environment", full, "POST", shop, body("two", two.PEM(), two.KeyPEM(t)), 400, "body.environments"},
		{"an unknown environment", full, "POST", shop, body("two", two.PEM(), two.KeyPEM(t), "PRODUCTION"), 400, "body.environments"},
		{"a bad name", full, "POST", shop, body("a-b", two.PEM(), two.KeyPEM(t), "preview"), 400, "body.name"},
		{"a project that is not there", full, "POST", gone, body("two", two.PEM(), two.KeyPEM(t), "preview"), 404, "project"},
		{"one without the scope", reader, "POST", shop, body("two", two.PEM(), two.KeyPEM(t), "preview"), 403, "projects:write"},
		{"the list", reader, "GET", shop, "", 200, `"limit":1000,"offset":0,"total":1`},
		{"the list of a project that is not there", reader, "GET", gone, "", 404, "project"},
		{"what was made", reader, "GET", at, "", 200, `"subject":"CN=one, O=Acme"`},
		{"what was never made", reader, "GET", shop + "/cert_0123456789ABCDEFGHIJKLMN", "", 404, "mTLS certificate"},
		{"what nothing is called", reader, "GET", shop + "/one", "", 404, "mTLS certificate"},
		{"other environments", full, "PATCH", at, `{"environments":["preview"]}`, 200, `"environments":{"development":false,"preview":true,"production":false}`},
		{"no environments", full, "PATCH", at, `{"environments":[]}`, 200, `"environments":{"development":false,"preview":false,"production":false}`},
		{"nothing", full, "PATCH", at, `{"name":"ignored"}`, 400, "environments"},
		{"null", full, "PATCH", at, `{"environments":null}`, 400, "environments"},
		{"a new environment that is none", full, "PATCH", at, `{"environments":["staging"]}`, 400, "environments"},
		{"its end", full, "DELETE", at, "", 204, ""},
	})
	whole := made.Whole + w.Call(full, "GET", shop, "").Want(200).Whole + w.Call(full, "GET", at, "").Want(200).Whole
	if strings.Contains(whole, "BEGIN") {
		t.Error("a certificate or a key comes back")
	}
}
