package customdomains_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/functions/customdomains"
	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/shared/api"
)

// TestChangesByHostnameAreOnAConditionOfThatHostname, however it is spelled: of two custom domains, a change at the path of both is
// about the one that its body or its query names.
func TestChangesByHostnameAreOnAConditionOfThatHostname(t *testing.T) {
	w, full, name := deployed(t)
	send := func(method, hostname, rest, tag string) functionstest.Answer {
		t.Helper()
		if method == "DELETE" {
			return w.Call(full, method, path+"?hostname="+url.QueryEscape(hostname)+rest, "", "If-Match", tag)
		}
		return w.Call(full, method, path, `{"hostname":"`+hostname+`"`+rest+`}`, "If-Match", tag)
	}
	read := func(hostname string) string {
		t.Helper()
		return w.Call(full, "GET", path+"/"+url.PathEscape(hostname), "").Want(200).Header.Get("ETag")
	}
	tags := map[string]string{}
	for _, hostname := range []string{"one.example.com", "xn--bcher-kva.example"} {
		a := w.Call(full, "POST", path, `{"hostname":"`+hostname+`"}`).Want(200)
		tags[hostname] = read(hostname)
		a.WantHeader("ETag", tags[hostname])
	}
	attach := `,"deploymentName":"` + name + `"`
	send("PATCH", "one.example.com", attach, tags["xn--bcher-kva.example"]).Want(412)
	send("DELETE", "one.example.com", "", tags["xn--bcher-kva.example"]).Want(412)
	for hostname, spelled := range map[string][]string{
		"one.example.com":       {"ONE.example.COM", "one.example.com."},
		"xn--bcher-kva.example": {"b\\u00fccher.example", "BÜCHER.example", "XN--bcher-kva.example"},
	} {
		for _, other := range spelled {
			if refused := w.Call(full, "PATCH", path, `{"hostname":"`+other+`"`+attach+`}`, "If-Match", `"other"`); refused.Status == 404 {
				continue // it is no spelling of it, with a condition or without one
			}
			tag := read(hostname)
			w.Now = w.Now.Add(1e9)
			a := send("PATCH", other, attach, tag).Want(200)
			a.WantHeader("ETag", read(hostname))
			send("PATCH", other, "", tag).Want(412)
			send("PATCH", other, "", read(hostname)).Want(200)
		}
	}
	// The same request with the same key is one change, though what it was about has another ETag since.
	tag := read("one.example.com")
	first := w.Call(full, "PATCH", path, `{"hostname":"one.example.com"`+attach+`}`, "If-Match", tag, "Idempotency-Key", "k").Want(200)
	w.Call(full, "PATCH", path, `{"hostname":"one.example.com"`+attach+`}`, "If-Match", tag, "Idempotency-Key", "k").
		Want(200, strings.TrimSpace(first.Body)).WantHeader("ETag", read("one.example.com"))
	w.Call(full, "PATCH", path, `{"hostname":"one.example.com"}`, "If-Match", tag, "Idempotency-Key", "k").Want(422)
	// A deployment is taken off on a condition too, and the certificate is.
	send("DELETE", "one.example.com", "&deploymentName="+name, tag).Want(412)
	send("DELETE", "one.example.com", "&deploymentName="+name, read("one.example.com")).Want(200)
	w.Call(full, "POST", path+"/one.example.com/verify", "").Want(200).WantHeader("ETag", read("one.example.com"))
	w.Call(full, "PUT", path+"/one.example.com/certificate", `{"certificate":"c","key":"k"}`, "If-Match", tag).Want(400)

	// What does not say which it is about, or names what is not there, is answered as without a condition.
	w.Run(t, []functionstest.Case{
		{"no hostname in the query", full, "DELETE", path, "", 400, "query.hostname"},
		{"no hostname in the body", full, "PATCH", path, `{}`, 400, "hostname"},
	})
	for _, condition := range []string{"*", tag} {
		for _, body := range []string{`{}`, `{"hostname":null}`, `{"hostname":1}`, `{"HOSTNAME":"one.example.com"}`, `{"hostname":"` + strings.Repeat("a", 1025) + `"}`, `{"hostname"`} {
			w.Call(full, "PATCH", path, body, "If-Match", condition).Want(400)
		}
		for _, hostname := range []string{"gone.example.com", "../key-buckets", "one.example.com/certificate", "..", "%2e%2e"} {
			send("PATCH", hostname, "", condition).Want(404, "custom domain")
			send("DELETE", hostname, "", condition).Want(404, "custom domain")
		}
		send("DELETE", "", "", condition).Want(400, "query.hostname")
	}
	send("DELETE", "one.example.com", "", read("one.example.com")).Want(200)
	send("DELETE", "one.example.com", "", tag).Want(404)
	w.Call(full, "GET", path+"/xn--bcher-kva.example", "").Want(200)
}

// TestDryRunsByHostnameShowThatHostname, and answer a request that is wrong what it is answered itself.
func TestDryRunsByHostnameShowThatHostname(t *testing.T) {
	w := functionstest.New(t, customdomains.Bind)
	full := w.Account("acme")
	for _, hostname := range []string{"one.example.com", "two.example.com"} {
		w.Call(full, "POST", path, `{"hostname":"`+hostname+`"}`).Want(200)
	}
	within := api.Within(w.Context(), api.Call{Source: "mcp", DryRun: true})
	tried := w.Within(within, full, "DELETE", path+"?hostname=ONE.example.com", "").Want(200).JSON()
	if tried.Text("before.hostname") != "one.example.com" || !tried.Null("after") {
		t.Errorf("it shows %v", tried)
	}
	for _, body := range []string{`{}`, `{"hostname":"` + strings.Repeat("a", 1025) + `"}`} {
		w.Within(within, full, "PATCH", path, body).Want(400, "body", "hostname")
	}
	w.Within(within, full, "PATCH", path, `{"hostname":".."}`).Want(404, "custom domain")
}
