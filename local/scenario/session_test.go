package scenario_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// session signs in as a page of the API's own origin does, asks by the session, and signs out: what the browser sends
// decides whether the session counts, and the API's front hands it on wherever the functions are.
func (s *story) session(t *testing.T) {
	t.Helper()
	const path = "/v1/session"
	ask := func(status int, method, cookie, site, key string) *http.Response {
		t.Helper()
		s.done = append(s.done, method+" "+path)
		r, err := http.NewRequestWithContext(t.Context(), method, s.in.api+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{"Cookie": cookie, "Sec-Fetch-Site": site, "Authorization": key} {
			if value != "" {
				r.Header.Set(name, value)
			}
		}
		out, err := patient(s.in.client.Do, r)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = out.Body.Close() }()
		text, err := io.ReadAll(out.Body)
		if err != nil || out.StatusCode != status {
			t.Fatalf("%s %s answers %d, want %d: %s, %v", method, path, out.StatusCode, status, text, err)
		}
		if strings.Contains(string(text), "gws_") {
			t.Errorf("%s %s answers the session's token in its body", method, path)
		}
		return out
	}
	made := ask(http.StatusCreated, http.MethodPost, "", "same-origin", "Bearer "+s.in.key)
	cookies := made.Cookies()
	if len(cookies) != 1 || !cookies[0].HttpOnly || !cookies[0].Secure || cookies[0].SameSite != http.SameSiteStrictMode || cookies[0].Path != "/" || cookies[0].Domain != "" {
		t.Fatalf("the session's cookie is %v", made.Header.Values("Set-Cookie"))
	}
	cookie := cookies[0].Name + "=" + cookies[0].Value
	ask(http.StatusOK, http.MethodGet, cookie, "same-origin", "")
	for _, site := range []string{"", "same-site", "cross-site", "none"} {
		ask(http.StatusUnauthorized, http.MethodGet, cookie, site, "")
	}
	ask(http.StatusConflict, http.MethodDelete, "", "same-origin", "Bearer "+s.in.key)
	ask(http.StatusNoContent, http.MethodDelete, cookie, "same-origin", "")
	ask(http.StatusUnauthorized, http.MethodGet, cookie, "same-origin", "")
}
