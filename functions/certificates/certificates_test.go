package certificates_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/functions/certificates"
	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/pki/pkitest"
)

const path = "/v1/accounts/acme/client-mtls-ca-certificates"

func body(name, text string) string {
	raw, _ := json.Marshal(map[string]string{"name": name, "certificate": text})
	return string(raw)
}

// TestAnswers has what is this group's own: every mistake in a certificate is in
// package certificates' tests.
func TestAnswers(t *testing.T) {
	w := functionstest.New(t, certificates.Bind)
	full := w.Account("acme")
	ca, other := pkitest.CA(t, "Partners", w.Now), pkitest.CA(t, "Other", w.Now)
	made := w.Call(full, "POST", path, body("partners", ca.PEM())).Want(201)
	var its struct{ ID string }
	if err := json.Unmarshal([]byte(made.Body), &its); err != nil {
		t.Fatal(err)
	}
	reader := w.Key("acme", func(p *auth.Permissions) { p.Scopes = []auth.Scope{auth.CACertificates.Read()} })
	own := w.Key("acme", func(p *auth.Permissions) { p.Projects = []string{"shop"} })
	w.Run(t, []functionstest.Case{
		{"another CA", full, "POST", path, body("devices", other.PEM()), 201, `"subject":"CN=Other, O=Acme"`},
		{"the same again", full, "POST", path, body("devices", ca.PEM()), 409, "already"},
		{"a name in use", full, "POST", path, body("partners", other.PEM()), 409, "name"},
		{"a reserved word", full, "POST", path, body("Class", other.PEM()), 400, "body.name"},
		{"a bad name", full, "POST", path, body("1st", other.PEM()), 400, "body.name"},
		{"a private key", full, "POST", path, body("devices", other.KeyPEM(t)), 400, "private key"},
		{"a client's certificate", full, "POST", path, body("devices", other.Client(t, "c", w.Now).PEM()), 400, "body.certificate"},
		{"too much", full, "POST", path, body("devices", strings.Repeat("a", 16385)), 400, "body.certificate"},
		{"far too much", full, "POST", path, body("devices", strings.Repeat("a", 1<<20)), 413, ""},
		{"no certificate", full, "POST", path, `{"name":"devices"}`, 400, "certificate"},
		{"one without the scope", reader, "POST", path, body("devices", other.PEM()), 403, "ca-certificates:write"},
		{"the list", reader, "GET", path, "", 200, `"limit":1000,"offset":0,"total":1`},
		{"a part of it", reader, "GET", path + "?offset=1&limit=5", "", 200, `{"data":[],"limit":5,"offset":1,"total":1}`},
		{"what was made", reader, "GET", path + "/" + its.ID, "", 200, `"name":"partners","certificateInfo":{"subject":"CN=Partners, O=Acme"`},
		{"what was never made", full, "GET", path + "/mtlsca_0123456789ABCDEFGHIJKLMN", "", 404, "CA certificate"},
		{"what is no id", full, "GET", path + "/partners", "", 404, "CA certificate"},
		{"a key of one project", own, "GET", path + "/" + its.ID, "", 404, "CA certificate"},
		{"another name", full, "PATCH", path + "/" + its.ID, `{"name":"suppliers"}`, 200, `"name":"suppliers"`},
		{"another certificate, which is ignored", full, "PATCH", path + "/" + its.ID, body("suppliers", other.PEM()), 200, "CN=Partners"},
		{"a CA that is not there", full, "PATCH", path + "/mtlsca_0123456789ABCDEFGHIJKLMN", `{"name":"a"}`, 404, "CA certificate"},
		{"what nothing is called", full, "DELETE", path + "/x", "", 404, "CA certificate"},
	})
	tag := made.Header.Get("ETag")
	w.Call(full, "PATCH", path+"/"+its.ID, `{"name":"b"}`, "If-Match", tag).Want(200)
	w.Call(full, "PATCH", path+"/"+its.ID, `{"name":"c"}`, "If-Match", tag).Want(412)
	w.Call(full, "DELETE", path+"/"+its.ID, "", "If-Match", tag).Want(412)
	one := w.Call(full, "GET", path+"/"+its.ID, "").Want(200)
	w.Call(full, "DELETE", path+"/"+its.ID, "", "If-Match", one.Header.Get("ETag")).Want(204)
	if list := w.Call(full, "GET", path, "").Want(200); strings.Contains(made.Whole+one.Whole+list.Whole, "BEGIN") {
		t.Error("a certificate comes back")
	}
}
