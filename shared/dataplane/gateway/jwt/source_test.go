package jwt_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/dataplane/gateway/jwt"
)

var errDown = errors.New("the issuer is down")

// TestKeyRotation checks that a token of a new key is valid at once, that unknown keys cause at most one fetch in 30
// seconds, and that a token of a removed key is refused after the keys were fetched again.
func TestKeyRotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, client := newKey(), newKey(), &issuer{}
		client.set(jwks(map[string]any{"one": &first.PublicKey}), nil, 0)
		v := jwt.NewCache().Verifier(config(client, time.Now), nil)
		oldToken := sign(t, first, "one", claims(time.Now(), nil))
		newToken := sign(t, second, "two", claims(time.Now(), nil))
		check := func(name, token string, want verdict, wantRequests int64) {
			t.Helper()
			got := verify(t, v, token)
			synctest.Wait()
			if n := client.requests.Load(); got != want || n != wantRequests {
				t.Errorf("%s at %v: Verify() = %s after %d requests, want %s after %d", name, time.Now(), got, n, want,
					wantRequests)
			}
		}
		check("first key", oldToken, valid, 1)
		check("unknown key", newToken, invalid, 1)
		client.set(jwks(map[string]any{"two": &second.PublicKey}), nil, 0)
		time.Sleep(29 * time.Second)
		check("unknown key, too early", newToken, invalid, 1)
		time.Sleep(time.Second)
		check("new key", newToken, valid, 2)
		check("removed key", oldToken, invalid, 2)
		for range 100 {
			check("unknown keys", sign(t, first, "three", claims(time.Now(), nil)), invalid, 2)
		}
		// The same document keeps verified tokens.
		time.Sleep(10 * time.Minute)
		check("new key, refreshed", newToken, valid, 3)
		check("new key, after the refresh", newToken, valid, 3)
		// A refresh in the background removes the key.
		client.set(jwks(map[string]any{"one": &first.PublicKey}), nil, 0)
		time.Sleep(10 * time.Minute)
		check("removed key, before the refresh", newToken, valid, 4)
		check("removed key, after the refresh", newToken, invalid, 4)
	})
}

// TestKeysWithoutIDRotate checks that keys without IDs are fetched again if no key fits.
func TestKeysWithoutIDRotate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, client := newKey(), newKey(), &issuer{}
		client.set(jwks(map[string]any{"": &first.PublicKey}), nil, 0)
		v := jwt.NewCache().Verifier(config(client, time.Now), nil)
		if got := verify(t, v, sign(t, first, "any", claims(time.Now(), nil))); got != valid {
			t.Errorf("Verify(a kid, a key without ID) = %s, want valid", got)
		}
		client.set(jwks(map[string]any{"": &second.PublicKey}), nil, 0)
		time.Sleep(time.Minute)
		if got := verify(t, v, sign(t, second, "", claims(time.Now(), nil))); got != valid {
			t.Errorf("Verify(new key without ID) = %s, want valid", got)
		}
	})
}

// TestIssuerIsDown checks that known keys serve for an hour after the last fetch, that all other tokens are unavailable
// and not invalid, and that the gateway does not call the issuer for each request.
func TestIssuerIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key, client := newKey(), &issuer{}
		token := sign(t, key, "one", claims(time.Now(), map[string]any{"exp": time.Now().Add(24 * time.Hour).Unix()}))
		unknown := sign(t, newKey(), "two", claims(time.Now(), map[string]any{"exp": time.Now().Add(24 * time.Hour).Unix()}))
		good := jwks(map[string]any{"one": &key.PublicKey})
		client.set(good, errDown, 0)
		v := jwt.NewCache().Verifier(config(client, time.Now), nil)
		for range 100 {
			if got := verify(t, v, token); got != unavailable {
				t.Errorf("Verify() without keys = %s, want unavailable", got)
			}
		}
		if n := client.requests.Load(); n != 1 {
			t.Errorf("requests to the issuer that is down = %d, want 1 in five seconds", n)
		}
		time.Sleep(5 * time.Second)
		client.set(good, nil, 0)
		if got := verify(t, v, token); got != valid {
			t.Errorf("Verify() after the issuer is up = %s, want valid", got)
		}
		client.set(nil, errDown, 0)
		for minutes := range 60 {
			if got := verify(t, v, token); got != valid {
				t.Errorf("Verify(known key) after %d minutes = %s, want valid", minutes, got)
			}
			if minutes > 0 {
				if got := verify(t, v, unknown); got != unavailable {
					t.Errorf("Verify(unknown key) after %d minutes = %s, want unavailable", minutes, got)
				}
			}
			time.Sleep(time.Minute)
		}
		if got := verify(t, v, token); got != unavailable {
			t.Errorf("Verify(known key) after an hour = %s, want unavailable", got)
		}
		if n := client.requests.Load(); n > 130 {
			t.Errorf("requests in an hour = %d, want at most two in a minute", n)
		}
		client.set(good, nil, 0)
		time.Sleep(5 * time.Second)
		if got := verify(t, v, token); got != valid {
			t.Errorf("Verify() after the outage = %s, want valid", got)
		}
	})
}

// TestIssuerIsLate checks that concurrent requests share one fetch, that a fetch ends after five seconds, and that known
// keys serve without waiting.
func TestIssuerIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key, client := newKey(), &issuer{}
		good := jwks(map[string]any{"one": &key.PublicKey})
		client.set(good, nil, 4*time.Second)
		v := jwt.NewCache().Verifier(config(client, time.Now), nil)
		token := sign(t, key, "one", claims(time.Now(), nil))
		all := func(want verdict, wantTime time.Duration, wantRequests int64) {
			t.Helper()
			start, before := time.Now(), client.requests.Load()
			var wg sync.WaitGroup
			for range 50 {
				wg.Go(func() {
					if got := verify(t, v, token); got != want || time.Since(start) != wantTime {
						t.Errorf("Verify() = %s after %v, want %s after %v", got, time.Since(start), want, wantTime)
					}
				})
			}
			wg.Wait()
			synctest.Wait()
			if n := client.requests.Load() - before; n != wantRequests {
				t.Errorf("requests to the issuer = %d, want %d", n, wantRequests)
			}
		}
		all(valid, 4*time.Second, 1)
		all(valid, 0, 0)
		time.Sleep(11 * time.Minute)
		client.set(good, nil, time.Hour)
		all(valid, 0, 1)
		time.Sleep(50 * time.Minute) // the keys are too old
		token = sign(t, key, "one", claims(time.Now(), nil))
		all(unavailable, 5*time.Second, 1)
	})
}

// TestIssuerLies checks documents that are not those of the issuer: all of them make tokens unavailable.
func TestIssuerLies(t *testing.T) {
	t.Parallel()
	const discovery = "https://login.example.com/.well-known/openid-configuration"
	key, private, now := newKey(), newKey(), time.Unix(1_900_000_000, 0)
	good := string(jwks(map[string]any{"one": &key.PublicKey}))
	configuration := `{"issuer":"` + issuerName + `","jwks_uri":"` + keysURL + `","x":1}`
	for name, tt := range map[string]struct {
		configuration, keys string
		want                verdict
	}{
		"honest":               {configuration, good, valid},
		"another issuer":       {strings.Replace(configuration, "login", "evil", 1), good, unavailable},
		"issuer without slash": {strings.Replace(configuration, `com/"`, `com"`, 1), good, unavailable},
		"no keys":              {`{"issuer":"` + issuerName + `"}`, good, unavailable},
		"issuer twice": {
			strings.Replace(configuration, `{`, `{"issuer":"x",`, 1), good, unavailable,
		},
		"keys over http": {
			strings.Replace(configuration, "https://keys", "http://keys", 1), good, unavailable,
		},
		"keys in a file": {
			strings.Replace(configuration, "https://keys", "file://keys", 1), good, unavailable,
		},
		"configuration not JSON":  {"<html>", good, unavailable},
		"configuration not found": {"", good, unavailable},
		"configuration too large": {configuration + strings.Repeat(" ", 512<<10), good, unavailable},
		"keys not JSON":           {configuration, "<html>", unavailable},
		"keys too large":          {configuration, good + strings.Repeat(" ", 512<<10), unavailable},
		"keys not found":          {configuration, "", unavailable},
		"keys twice": {
			configuration, strings.Replace(good, `{`, `{"keys":[],`, 1), unavailable,
		},
		"an empty set": {configuration, `{"keys":[]}`, unavailable},
		"a private key": {
			configuration, string(jwks(map[string]any{"one": private})), unavailable,
		},
		"a private key and a public": {
			configuration, string(jwks(map[string]any{"x": private, "one": &key.PublicKey})), valid,
		},
		"a secret": {
			configuration, string(jwks(map[string]any{"one": []byte(strings.Repeat("a", 32))})), unavailable,
		},
		"a key for encryption": {
			configuration, strings.Replace(good, `{"kty"`, `{"use":"enc","kty"`, 1), unavailable,
		},
		"a key for signing": {
			configuration, strings.Replace(good, `"kty"`, `"key_ops":["sign"],"kty"`, 1), unavailable,
		},
		"a key of another alg": {
			configuration, strings.Replace(good, `"kty"`, `"alg":"ES384","kty"`, 1), invalid,
		},
		"unknown keys beside it": {
			configuration, strings.Replace(good, `[`, `[7,{"kty":"X"},{"kty":"EC","crv":"P-256","x":"AA"},`, 1), valid,
		},
		"broken certificate": {
			configuration, strings.Replace(good, `"kty"`, `"x5c":["AAAA"],"kty"`, 1), valid,
		},
		"the kid of two keys": {
			configuration, strings.Replace(good, `[`, `[`+member(t, &private.PublicKey, "one")+`,`, 1), valid,
		},
		"the kid of another type": {configuration, strings.Replace(good, `"one"`, `1`, 1), unavailable},
	} {
		client := &issuer{documents: map[string][]byte{}}
		for address, text := range map[string]string{discovery: tt.configuration, keysURL: tt.keys} {
			if text != "" {
				client.documents[address] = []byte(text)
			}
		}
		c := config(client, func() time.Time { return now })
		c.KeysURL = ""
		if got := verify(t, jwt.NewCache().Verifier(c, nil), sign(t, key, "one", claims(now, nil))); got != tt.want {
			t.Errorf("%s: Verify() = %s, want %s", name, got, tt.want)
		}
	}
}

// member returns the JSON of a key in a set.
func member(t *testing.T, key any, id string) string {
	t.Helper()
	text := strings.TrimPrefix(string(jwks(map[string]any{id: key})), `{"keys":[`)
	return strings.TrimSuffix(text, `]}`)
}

// responder is a round tripper that returns a response.
type responder func(r *http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (r responder) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }

// endless is a body without an end.
type endless struct{ read int }

// Read returns spaces.
func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	e.read += len(p)
	return len(p), nil
}

// Close implements io.Closer.
func (*endless) Close() error { return nil }

// TestHostileResponses checks a body without an end, redirects, errors, and a
// compressed body.
func TestHostileResponses(t *testing.T) {
	t.Parallel()
	key, now := newKey(), time.Unix(1_900_000_000, 0)
	good := string(jwks(map[string]any{"one": &key.PublicKey}))
	body := &endless{}
	for name, respond := range map[string]func(*http.Response){
		"endless":    func(r *http.Response) { r.Body = body },
		"redirect":   func(r *http.Response) { r.StatusCode = http.StatusFound; r.Header.Set("Location", keysURL) },
		"error":      func(r *http.Response) { r.StatusCode = http.StatusInternalServerError },
		"compressed": func(r *http.Response) { r.Header.Set("Content-Encoding", "gzip") },
	} {
		client := responder(func(*http.Request) (*http.Response, error) {
			r := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(good))}
			respond(r)
			return r, nil
		})
		c := config(client, func() time.Time { return now })
		if got := verify(t, jwt.NewCache().Verifier(c, nil), sign(t, key, "one", claims(now, nil))); got != unavailable {
			t.Errorf("%s: Verify() = %s, want unavailable", name, got)
		}
	}
	if body.read > 1<<20 {
		t.Errorf("bytes of the endless body that were read = %d, want about 512 KiB", body.read)
	}
}

// TestManyKeys checks sets with many keys: a token that names its key is valid, a token without a kid is refused without
// trying all keys, and 10,000 keys are more than an issuer can have.
func TestManyKeys(t *testing.T) {
	t.Parallel()
	key, now, client := newKey(), time.Unix(1_900_000_000, 0), &issuer{}
	other := member(t, &newKey().PublicKey, "KID")
	for _, tt := range []struct {
		keys          int
		named, noName verdict
	}{
		{7, valid, valid},
		{1000, valid, invalid},
		{10_000, unavailable, unavailable},
	} {
		set := strings.Builder{}
		set.WriteString(`{"keys":[`)
		for i := range tt.keys {
			set.WriteString(strings.Replace(other, "KID", "k"+time.Duration(i).String(), 1) + ",")
		}
		set.WriteString(member(t, &key.PublicKey, "one") + "]}")
		client.set([]byte(set.String()), nil, 0)
		v := jwt.NewCache().Verifier(config(client, func() time.Time { return now }), nil)
		if got := verify(t, v, sign(t, key, "one", claims(now, nil))); got != tt.named {
			t.Errorf("Verify(kid, %d keys) = %s, want %s", tt.keys, got, tt.named)
		}
		if got := verify(t, v, sign(t, key, "", claims(now, nil))); got != tt.noName {
			t.Errorf("Verify(no kid, %d keys) = %s, want %s", tt.keys, got, tt.noName)
		}
	}
}

// TestCheckURL checks from which addresses keys can be fetched.
func TestCheckURL(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"https://login.example.com": true, "https://192.0.2.1:8443/a?b": true, "http://keycloak:8080/realms/a": true,
		"http://localhost:1": true, "http://127.0.0.1": true, "http://10.1.2.3/x": true, "http://[fd00::1]/": true,
		"http://idp.internal": true, "http://idp.svc.cluster.local.": true, "HTTPS://login.example.com": true,
		"http://login.example.com": false, "http://192.0.2.1": false, "http://localhost.example.com": false, "": false,
		"login.example.com": false, "https://": false, "ftp://login.example.com": false,
		"https://a:b@login.example.com": false,
		"https://login.example.com#x":   false, "https:login.example.com": false, "file:///etc/passwd": false,
		"http://169.254.169.254/": false, "https://%zz": false,
	} {
		if got := jwt.CheckURL(text); (got == "") != want {
			t.Errorf("CheckURL(%s) = %q, want an accepted address: %t", text, got, want)
		}
	}
}
