package jwt_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/dataplane/gateway/jwt"
)

// TestIntrospection checks the verdict for each response of the server, how long it is used, and the request.
func TestIntrospection(t *testing.T) {
	const active = `{"active":true,"sub":"ada","iss":"` + issuerName + `","aud":"shop","scope":"read"`
	for name, tt := range map[string]struct {
		status int
		body   string // EXP is a time in 30 s, and PAST one 30 s ago
		want   verdict
		usable time.Duration // how long the response is used
	}{
		"active":              {200, active + `}`, valid, time.Minute},
		"active until soon":   {200, active + `,"exp":EXP}`, valid, 30 * time.Second},
		"active, but expired": {200, active + `,"exp":PAST}`, invalid, 0},
		"not active":          {200, `{"active":false}`, invalid, 0},
		"active as a text":    {200, `{"active":"true","sub":"ada"}`, unavailable, 0},
		"active twice":        {200, `{"active":false,"active":true,"sub":"ada"}`, unavailable, 0},
		"not said":            {200, `{}`, unavailable, 0},
		"not JSON":            {200, `<html>`, unavailable, 0},
		"without a subject":   {200, strings.Replace(active, `"sub":"ada",`, "", 1) + `}`, invalid, 0},
		"another audience":    {200, strings.Replace(active, "shop", "shoe", 1) + `}`, invalid, 0},
		"another issuer":      {200, strings.Replace(active, "login", "evil", 1) + `}`, invalid, 0},
		"wrong credentials":   {401, `{"active":true,"sub":"ada"}`, unavailable, 0},
		"too large":           {200, active + `}` + strings.Repeat(" ", 512<<10), unavailable, 0},
		"down":                {0, "", unavailable, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			requests := 0
			body := strings.NewReplacer("EXP", fmt.Sprint(time.Now().Add(30*time.Second).Unix()),
				"PAST", fmt.Sprint(time.Now().Add(-30*time.Second).Unix())).Replace(tt.body)
			client := responder(func(r *http.Request) (*http.Response, error) {
				requests++
				form, _ := io.ReadAll(r.Body)
				user, password, _ := r.BasicAuth()
				if values, err := url.ParseQuery(string(form)); err != nil || values.Get("token") != "a+token/" ||
					user != "gate%3Away" || password != "s%C3%A9cret" {
					t.Errorf("%s: request of %s:%s with %s, want the encoded credentials and the token", name, user, password, form)
				}
				if tt.status == 0 {
					return nil, errDown
				}
				return &http.Response{
					StatusCode: tt.status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)),
				}, nil
			})
			i := jwt.NewCache().Introspector(config(client, time.Now), jwt.Introspection{
				Address: "https://login.example.com/introspect", ClientID: "gate:way", Secret: "sécret",
				Timeout: 2 * time.Second, TTL: time.Minute,
			}, nil)
			check := func(wantRequests int) {
				t.Helper()
				user, err := i.Verify(t.Context(), "a+token/")
				got := unavailable
				if err == nil && user.Sub == "ada" && len(user.Scopes) == 1 {
					got = valid
				} else if errors.Is(err, jwt.ErrInvalid) {
					got = invalid
				}
				if got != tt.want || requests != wantRequests {
					t.Errorf("%s: Verify() = %s (%v) after %d requests, want %s after %d", name, got, err, requests, tt.want,
						wantRequests)
				}
			}
			check(1)
			if tt.usable > 0 {
				time.Sleep(tt.usable - time.Second)
				check(1)
				time.Sleep(time.Second)
				if strings.Contains(tt.body, "EXP") {
					tt.want = invalid // the server repeats its response
				}
				check(2)
			}
		})
	}
}
