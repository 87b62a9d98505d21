package scenario_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// session signs in as a page of the API's own origin does, sends requests with the session, and signs out. Whether a
// session is valid also depends on headers that the browser sends, so each platform must forward them to the functions.
func (w *walkthrough) session(t *testing.T) {
	t.Helper()
	const path = "/v1/session"
	ask := func(status int, method, cookie, site, key string) *http.Response {
		t.Helper()
		w.operations = append(w.operations, method+" "+path)
		r, err := http.NewRequestWithContext(t.Context(), method, w.inst.api+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{"Cookie": cookie, "Sec-Fetch-Site": site, "Authorization": key} {
			if value != "" {
				r.Header.Set(name, value)
			}
		}
		resp, err := retryThrottled(w.inst.client.Do, r)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		text, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != status {
			t.Fatalf("%s %s: status = %d, want %d: %s, error %v", method, path, resp.StatusCode, status, text, err)
		}
		if strings.Contains(string(text), "gws_") {
			t.Errorf("%s %s: the body contains the session's token, want none", method, path)
		}
		return resp
	}
	created := ask(http.StatusCreated, http.MethodPost, "", "same-origin", "Bearer "+w.inst.key)
	cookies := created.Cookies()
	if len(cookies) != 1 {
		t.Fatalf("POST %s sets %d cookies, want 1: %v", path, len(cookies), created.Header.Values("Set-Cookie"))
	}
	if c := cookies[0]; !c.HttpOnly || !c.Secure || c.SameSite != http.SameSiteStrictMode {
		t.Fatalf("the cookie is %v, want HttpOnly, Secure and SameSite=Strict", c)
	}
	if c := cookies[0]; c.Path != "/" || c.Domain != "" {
		t.Fatalf("the cookie's path is %q and its domain is %q, want \"/\" and none", c.Path, c.Domain)
	}
	cookie := cookies[0].Name + "=" + cookies[0].Value
	ask(http.StatusOK, http.MethodGet, cookie, "same-origin", "")
	for _, site := range []string{"", "same-site", "cross-site", "none"} {
		ask(http.StatusUnauthorized, http.MethodGet, cookie, site, "")
	}
	ask(http.StatusConflict, http.MethodDelete, "", "same-origin", "Bearer "+w.inst.key)
	ask(http.StatusNoContent, http.MethodDelete, cookie, "same-origin", "")
	ask(http.StatusUnauthorized, http.MethodGet, cookie, "same-origin", "")
}
