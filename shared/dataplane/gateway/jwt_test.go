package gateway_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	golangjwt "github.com/golang-jwt/jwt/v5"

	"github.com/gatewright/gatewright/shared/dataplane/gateway"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/upstream"
	"github.com/gatewright/gatewright/shared/format/credential"
	"github.com/gatewright/gatewright/shared/format/project"
)

// tokenIssuer is an issuer with a server for its configuration and its keys.
type tokenIssuer struct {
	URL      string
	key      *ecdsa.PrivateKey
	requests atomic.Int64
	isDown   atomic.Bool
}

func newTokenIssuer(t *testing.T) *tokenIssuer {
	t.Helper()
	i := &tokenIssuer{}
	var err error
	if i.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	i.URL = serve(t, func(w http.ResponseWriter, r *http.Request) {
		i.requests.Add(1)
		var document any
		switch {
		case i.isDown.Load():
			w.WriteHeader(http.StatusBadGateway)
			return
		case r.URL.Path == "/.well-known/openid-configuration":
			document = map[string]string{"issuer": i.URL, "jwks_uri": i.URL + "/keys"}
		case r.URL.Path == "/keys":
			document = jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: &i.key.PublicKey, KeyID: "one"}}}
		default:
			http.NotFound(w, r)
			return
		}
		_ = json.NewEncoder(w).Encode(document)
	}).URL
	return i
}

// token returns a token of the issuer for the audience "shop", with more claims.
func (i *tokenIssuer) token(t *testing.T, more map[string]any) string {
	t.Helper()
	claims := golangjwt.MapClaims{
		"iss": i.URL, "aud": "shop", "sub": "ada", "exp": time.Now().Add(time.Hour).Unix(), "private": "a-private-value",
	}
	for name, value := range more {
		claims[name] = value
	}
	token := golangjwt.NewWithClaims(golangjwt.SigningMethodES256, claims)
	token.Header["kid"] = "one"
	text, err := token.SignedString(i.key)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// tokenArtifact returns an artifact with routes for tokens that send the request's header to an upstream.
func tokenArtifact(backend, issuer string) *project.Artifact {
	handler := component("urlForwardHandler", map[string]any{
		"baseUrl": backend, "userHeaders": map[string]any{"sub": "X-User-Sub", "data": "X-User-Data"},
	})
	a := artifact(route("GET /x", handler, "jwt"), route("GET /optional", handler, "optional"),
		route("GET /scopes", handler, "jwt", "scopes"), route("GET /option", handler, "reader"),
		route("GET /optional-scopes", handler, "optional", "scopes"), route("GET /key-scopes", handler, "keys", "scopes"))
	declare(a, "jwt", "open-id-jwt-auth-inbound", map[string]any{"issuer": issuer, "audience": "shop"})
	declare(a, "optional", "open-id-jwt-auth-inbound",
		map[string]any{"issuer": issuer, "audience": []string{"shop", "x"}, "optional": "true"})
	declare(a, "reader", "open-id-jwt-auth-inbound",
		map[string]any{"issuer": issuer, "audience": "shop", "requiredScopes": []string{"read", "list"}})
	declare(a, "scopes", "jwt-scopes-inbound", map[string]any{"scopes": []string{"read"}})
	declare(a, "keys", "api-key-inbound", map[string]any{"bucketName": "b"})
	return a
}

// TestTokens checks the responses to requests with and without tokens, and what the upstream gets.
func TestTokens(t *testing.T) {
	i := newTokenIssuer(t)
	h := newFixture(t, tokenArtifact(serve(t, headers).URL, i.URL))
	const bare, bad = "Bearer", `Bearer error="invalid_token"`
	const missing = `Bearer error="insufficient_scope", scope="read list"`
	good := i.token(t, map[string]any{"scope": "read"})
	unsigned, err := golangjwt.NewWithClaims(golangjwt.SigningMethodNone, golangjwt.MapClaims{"sub": "ada"}).
		SignedString(golangjwt.UnsafeAllowNoneSignatureType)
	if err != nil {
		t.Fatal(err)
	}
	details := map[string]bool{}
	for _, tt := range []struct {
		path, authorization string
		status              int
		challenge, sub      string
	}{
		{"/x", "", 401, bare, ""},
		{"/x", "Basic YTpi", 401, bare, ""},
		{"/x", "Bearer", 401, bad, ""},
		{"/x", "Bearer " + unsigned, 401, bad, ""},
		{"/x", "Bearer " + good + "x", 401, bad, ""},
		{"/x", "Bearer " + i.token(t, map[string]any{"aud": "a-private-audience"}), 401, bad, ""},
		{"/x", "Bearer " + i.token(t, map[string]any{"exp": 1}), 401, bad, ""},
		{"/x", "Bearer " + good + ", Bearer " + good, 401, bad, ""},
		{"/x", "Bearer " + strings.Repeat("a", 17<<10), 401, bad, ""},
		{"/x", "Bearer " + good, 200, "", "ada"},
		{"/x", "bearer  " + good, 200, "", "ada"},
		{"/optional", "", 200, "", ""},
		{"/optional", "Basic YTpi", 200, "", ""},
		{"/optional", "Bearer " + unsigned, 401, bad, ""},
		{"/optional", "Bearer " + good, 200, "", "ada"},
		{"/scopes", "Bearer " + good, 200, "", "ada"},
		{"/scopes", "Bearer " + i.token(t, nil), 403, `Bearer error="insufficient_scope", scope="read"`, ""},
		{"/option", "Bearer " + i.token(t, map[string]any{"scp": []string{"list", "read"}}), 200, "", "ada"},
		{"/option", "Bearer " + good, 403, missing, ""},
		{"/optional-scopes", "", 401, bare, ""},
	} {
		response := h.do(t, "GET", tt.path, func(r *http.Request) {
			if tt.authorization != "" {
				r.Header.Set("Authorization", tt.authorization)
			}
		})
		body, _ := io.ReadAll(response.Body)
		name := tt.path + " " + tt.authorization[:min(len(tt.authorization), 30)]
		if got := response.Header.Get("WWW-Authenticate"); response.StatusCode != tt.status || got != tt.challenge {
			t.Errorf("GET %s: status = %d, WWW-Authenticate = %q, want %d and %q: %s", name, response.StatusCode, got,
				tt.status, tt.challenge, body)
		}
		if response.StatusCode != http.StatusOK {
			if tt.challenge == bad {
				var problem struct{ Detail string }
				_ = json.Unmarshal(body, &problem) // a wrong body has no detail
				details[problem.Detail] = true
			}
			continue
		}
		got := http.Header{}
		if err := json.Unmarshal(body, &got); err != nil {
			t.Fatal(err)
		}
		if got.Get("X-User-Sub") != tt.sub || got.Get("Authorization") != tt.authorization ||
			tt.sub != "" && !strings.Contains(got.Get("X-User-Data"), `"iss":"`+i.URL) {
			t.Errorf("GET %s: header at the upstream = %v, want the user %q with the claims, and the token", name, got, tt.sub)
		}
	}
	if len(details) != 1 {
		t.Errorf("details of bad tokens = %v, want one text for all", details)
	}
	if n := i.requests.Load(); n != 2 {
		t.Errorf("requests to the issuer = %d, want 2: all policies share its keys", n)
	}
	if log := h.log.String(); strings.Contains(log, "a-private") || strings.Contains(log, good) ||
		!strings.Contains(log, "aud has no audience") {
		t.Errorf("log = %s, want the reason of a wrong audience, without claims and tokens", log)
	}
}

// TestTokensOfAnUnreachableIssuer checks that tokens are neither valid nor invalid if the keys cannot be fetched: because
// the issuer is down, and because the installation does not allow its address.
func TestTokensOfAnUnreachableIssuer(t *testing.T) {
	i := newTokenIssuer(t)
	for name, tt := range map[string]struct {
		isDown bool
		set    setting
		log    string
	}{
		"down": {true, func(*gateway.Config, *upstream.Options) {}, "status of the response is 502"},
		"an address that is not allowed": {false, func(_ *gateway.Config, o *upstream.Options) {
			o.Guard = upstream.Guard{AllowPrivate: true, Refuse: []netip.AddrPort{
				netip.MustParseAddrPort(strings.TrimPrefix(i.URL, "http://")),
			}}
		}, "does not allow the address"},
	} {
		i.isDown.Store(tt.isDown)
		h := newFixture(t, tokenArtifact(serve(t, headers).URL, i.URL), tt.set)
		token := i.token(t, nil)
		response := h.do(t, "GET", "/x", header("Authorization", "Bearer "+token))
		if log := h.log.String(); response.StatusCode != http.StatusServiceUnavailable || !strings.Contains(log, tt.log) ||
			strings.Contains(log, token) {
			t.Errorf("%s: GET /x: status = %d, log = %s, want 503 and %q", name, response.StatusCode, log, tt.log)
		}
	}
}

// TestScopesNeedAToken checks that the user of an API key has no scopes.
func TestScopesNeedAToken(t *testing.T) {
	h, validKey := newKeyFixture(t, map[string]any{"bucketName": "my-bucket"})
	a := h.deployments["shop.test"].Artifact
	declare(a, "scopes", "jwt-scopes-inbound", map[string]any{"scopes": []string{"read"}})
	a.Routes[0].Inbound = append(slices.Clone(a.Routes[0].Inbound), "scopes")
	if r := h.do(t, "GET", "/x", header("Authorization", "Bearer "+validKey)); r.StatusCode != http.StatusForbidden {
		t.Errorf("GET /x with a key: status = %d, want 403", r.StatusCode)
	}
}

// TestIntrospectedTokens checks that the policy asks the server once, that later policies see the scopes, and that API keys
// are not sent to the server.
func TestIntrospectedTokens(t *testing.T) {
	var requests atomic.Int64
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		user, password, _ := r.BasicAuth()
		_ = json.NewEncoder(w).Encode(map[string]any{
			"active": r.FormValue("token") == "opaque" && user == "gateway" && password == "secret",
			"sub":    "ada", "scope": "read",
		})
	}).URL
	a := artifact(route("GET /x", forward(serve(t, headers).URL), "token", "scopes"))
	declare(a, "token", "oauth-introspection-inbound",
		map[string]any{"url": server, "clientId": "gateway", "clientSecret": "secret", "timeoutSeconds": 30})
	declare(a, "scopes", "jwt-scopes-inbound", map[string]any{"scopes": []string{"read"}})
	h := newFixture(t, a)
	for _, tt := range []struct {
		token    string
		status   int
		requests int64
	}{
		{"opaque", 200, 1}, {"opaque", 200, 1}, {"other", 401, 2}, {newKey(credential.ConsumerKey), 401, 2},
	} {
		response := h.do(t, "GET", "/x", header("Authorization", "Bearer "+tt.token))
		if n := requests.Load(); response.StatusCode != tt.status || n != tt.requests {
			t.Errorf("GET /x with %s: status = %d after %d requests to the server, want %d after %d", tt.token,
				response.StatusCode, n, tt.status, tt.requests)
		}
	}
}

// tokenOptions has options of the policies for tokens, and of the policy that asks a service.
func tokenOptions() []namedOptions {
	const key = `{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",` +
		`"y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"`
	long := strings.Repeat("s", 64)
	return []namedOptions{
		{"open-id-jwt-auth-inbound", `{}`},
		{"open-id-jwt-auth-inbound", `{"issuer":"https://login.example.com/","audience":"shop"}`},
		{"open-id-jwt-auth-inbound", `{"issuer":"login.example.com","audience":["shop","admin"]}`},
		{"open-id-jwt-auth-inbound", `{"issuer":"http://keycloak:8080/realms/a"}`},
		{"open-id-jwt-auth-inbound", `{"issuer":"http://login.example.com","audience":""}`},
		{"open-id-jwt-auth-inbound", `{"issuer":"https://login.example.com?x","audience":[]}`},
		{"open-id-jwt-auth-inbound", `{"jwkUrl":"https://login.example.com/keys","audience":7}`},
		{"open-id-jwt-auth-inbound", `{"jwkUrl":"http://login.example.com/keys","issuer":"us"}`},
		{"open-id-jwt-auth-inbound", `{"jwkUrl":"https://login.example.com/keys","jwks":{},"secret":"a"}`},
		{"open-id-jwt-auth-inbound", `{"jwks":{"keys":[` + key + `}]},"issuer":"us"}`},
		{"open-id-jwt-auth-inbound", `{"jwks":"{\"keys\":[` + strings.ReplaceAll(key, `"`, `\"`) + `}]}"}`},
		{"open-id-jwt-auth-inbound", `{"jwks":{"keys":[` + key + `,"d":"AA"}]}}`},
		{"open-id-jwt-auth-inbound", `{"jwks":null}`},
		{"open-id-jwt-auth-inbound", `{"jwks":{"keys":[{"kty":"oct","k":"c2VjcmV0"}]}}`},
		{"open-id-jwt-auth-inbound", `{"jwks":{"keys":[]}}`},
		{"open-id-jwt-auth-inbound", `{"secret":"` + long + `"}`},
		{"open-id-jwt-auth-inbound", `{"secret":"` + long + `","algorithms":["HS256","HS512","RS256"]}`},
		{"open-id-jwt-auth-inbound", `{"secret":"short"}`},
		{"open-id-jwt-auth-inbound", `{"issuer":"https://login.example.com","algorithms":["ES256","HS256","none"]}`},
		{"open-id-jwt-auth-inbound", `{"issuer":"https://login.example.com","algorithms":["ES256","HS256"]}`},
		{"open-id-jwt-auth-inbound", `{"issuer":"https://login.example.com","algorithms":[]}`},
		{
			"open-id-jwt-auth-inbound",
			`{"issuer":"https://login.example.com","claims":{"a":"b","c":[1,true],"d":{},"e":[],"f/g":[null]}}`,
		},
		{
			"open-id-jwt-auth-inbound",
			`{"issuer":"https://login.example.com","subject":"","requiredScopes":["a","b c","\"",""],"clockSkewSeconds":601}`,
		},
		{"open-id-jwt-auth-inbound", `{"issuer":"https://login.example.com","claims":{},"requiredScopes":[]}`},
		{"auth-request-inbound", `{"url":"https://auth.example.com/check","sendHeaders":[],"copyHeaders":["X-User"]}`},
		{"auth-request-inbound", `{}`},
		{"auth-request-inbound", `{"url":"http://auth.example.com","sendHeaders":["a b"],"copyHeaders":["Via","Host"]}`},
		{"auth-request-inbound", `{"url":"https://auth.example.com","timeoutSeconds":31}`},
		{
			"oauth-introspection-inbound",
			`{"url":"https://login.example.com/introspect","clientId":"a","clientSecret":"b","audience":"shop"}`,
		},
		{"oauth-introspection-inbound", `{}`},
		{
			"oauth-introspection-inbound",
			`{"url":"http://login.example.com/","clientId":"a","clientSecret":"b","claims":{},"audience":"","cacheSeconds":61}`,
		},
		{
			"oauth-introspection-inbound",
			`{"url":"http://login.example.com/","clientId":"a","clientSecret":"b","claims":{},"audience":""}`,
		},
		{"jwt-scopes-inbound", `{"scopes":["read","a:b"]}`},
		{"jwt-scopes-inbound", `{}`},
		{"jwt-scopes-inbound", `{"scopes":[]}`},
		{"jwt-scopes-inbound", `{"scopes":["read write","é"]}`},
	}
}
