package mtlscertificates_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/functions/mtlscertificates"
	"github.com/gatewright/gatewright/functions/projects"
	"github.com/gatewright/gatewright/shared/base/pki/pkitest"
	"github.com/gatewright/gatewright/shared/core/auth"
)

const (
	shopPath           = "/v1/accounts/acme/projects/shop/mtls-certificates"
	missingProjectPath = "/v1/accounts/acme/projects/gone/mtls-certificates"
)

// body returns the body of a request that creates a certificate. certificate and key are in PEM.
func body(name, certificate, key string, environments ...string) string {
	raw, _ := json.Marshal(map[string]any{
		"name": name, "certificate": certificate, "key": key, "environments": environments,
	})
	return string(raw)
}

func TestResponses(t *testing.T) {
	fx := functionstest.New(t, projects.Bind, mtlscertificates.Bind)
	fullKey := fx.CreateAccount("acme")
	fx.Call(fullKey, "POST", "/v1/projects", `{"name":"shop"}`).Want(200)
	ca := pkitest.CA(t, "CA", fx.Now)
	firstCert, secondCert := ca.Client(t, "one", fx.Now), ca.Client(t, "two", fx.Now)
	createdResp := fx.Call(fullKey, "POST", shopPath,
		body("one", firstCert.PEM(), firstCert.KeyPEM(t), "production")).Want(201)
	var created struct{ ID string }
	if err := json.Unmarshal([]byte(createdResp.Body), &created); err != nil {
		t.Fatal(err)
	}
	certPath := shopPath + "/" + created.ID
	readerKey := fx.CreateKey("acme", func(p *auth.Permissions) { p.Scopes = []auth.Scope{auth.Projects.Read()} })
	fx.Run(t, []functionstest.Case{
		{"second certificate", fullKey, "POST", shopPath, body("two", secondCert.PEM(), secondCert.KeyPEM(t), "preview",
			"development"), 201, `"environments":{"development":true,"preview":true,"production":false}`},
		{
			"a name in use", fullKey, "POST", shopPath, body("one", secondCert.PEM(), secondCert.KeyPEM(t), "preview"), 409,
			"name",
		},
		{
			"key of another certificate", fullKey, "POST", shopPath,
			body("two", secondCert.PEM(), firstCert.KeyPEM(t), "preview"), 400, "body.key",
		},
		{"key as certificate", fullKey, "POST", shopPath, body("two", secondCert.KeyPEM(t), secondCert.KeyPEM(t),
			"preview"), 400, "body.certificate"},
		{
			"creation without environments", fullKey, "POST", shopPath, body("two", secondCert.PEM(), secondCert.KeyPEM(t)), 400,
			"body.environments",
		},
		{
			"an unknown environment", fullKey, "POST", shopPath,
			body("two", secondCert.PEM(), secondCert.KeyPEM(t), "PRODUCTION"), 400, "body.environments",
		},
		{
			"an invalid name", fullKey, "POST", shopPath, body("a-b", secondCert.PEM(), secondCert.KeyPEM(t), "preview"), 400,
			"body.name",
		},
		{
			"missing project", fullKey, "POST", missingProjectPath,
			body("two", secondCert.PEM(), secondCert.KeyPEM(t), "preview"), 404, "project",
		},
		{
			"creation without the scope", readerKey, "POST", shopPath,
			body("two", secondCert.PEM(), secondCert.KeyPEM(t), "preview"), 403, "projects:write",
		},
		{"the list", readerKey, "GET", shopPath, "", 200, `"limit":1000,"offset":0,"total":1`},
		{"list of a missing project", readerKey, "GET", missingProjectPath, "", 404, "project"},
		{"created certificate", readerKey, "GET", certPath, "", 200, `"subject":"CN=one, O=Acme"`},
		{"missing certificate", readerKey, "GET", shopPath + "/cert_0123456789ABCDEFGHIJKLMN", "", 404, "mTLS certificate"},
		{"invalid id", readerKey, "GET", shopPath + "/one", "", 404, "mTLS certificate"},
		{
			"other environments", fullKey, "PATCH", certPath, `{"environments":["preview"]}`, 200,
			`"environments":{"development":false,"preview":true,"production":false}`,
		},
		{
			"change to no environments", fullKey, "PATCH", certPath, `{"environments":[]}`, 200,
			`"environments":{"development":false,"preview":false,"production":false}`,
		},
		{"change without environments", fullKey, "PATCH", certPath, `{"name":"ignored"}`, 400, "environments"},
		{"null as environments", fullKey, "PATCH", certPath, `{"environments":null}`, 400, "environments"},
		{"change to an unknown environment", fullKey, "PATCH", certPath, `{"environments":["staging"]}`, 400, "environments"},
		{"deletion", fullKey, "DELETE", certPath, "", 204, ""},
	})
	responses := createdResp.Dump + fx.Call(fullKey, "GET", shopPath, "").Want(200).Dump + fx.Call(fullKey, "GET",
		certPath,
		"").Want(200).Dump
	if strings.Contains(responses, "BEGIN") {
		t.Error("responses to POST and GET contain BEGIN, want no certificate and no key in them")
	}
}
