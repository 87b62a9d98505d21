package jwt_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	golangjwt "github.com/golang-jwt/jwt/v5"

	"github.com/gatewright/gatewright/shared/dataplane/gateway/jwt"
)

const (
	issuerName = "https://login.example.com/"
	keysURL    = "https://keys.example.com/jwks"
	audience   = "shop"
)

// newRSAKey returns a key for RS256.
func newRSAKey() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err) // the generator of random numbers does not fail
	}
	return key
}

// newKey returns a key for ES256, which is made quickly.
func newKey() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err) // the generator of random numbers does not fail
	}
	return key
}

// jwks returns a JSON Web Key Set with the public keys by their IDs.
func jwks(keys map[string]any) []byte {
	var set jose.JSONWebKeySet
	for id, key := range keys {
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: key, KeyID: id})
	}
	text, err := json.Marshal(set)
	if err != nil {
		panic(err) // the keys are public
	}
	return text
}

// sign returns a token of a key for ES256.
func sign(t testing.TB, key *ecdsa.PrivateKey, kid string, claims map[string]any) string {
	t.Helper()
	token := golangjwt.NewWithClaims(golangjwt.SigningMethodES256, golangjwt.MapClaims(claims))
	if kid != "" {
		token.Header["kid"] = kid
	}
	text, err := token.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// claims returns the claims of a valid token with these changes. A nil removes a claim.
func claims(now time.Time, changes map[string]any) map[string]any {
	out := map[string]any{
		"iss": issuerName, "aud": audience, "sub": "ada", "iat": now.Unix(), "exp": now.Add(time.Hour).Unix(),
	}
	maps.Copy(out, changes)
	maps.DeleteFunc(out, func(_ string, value any) bool { return value == nil })
	return out
}

// issuer is a fake issuer: a round tripper that returns documents by their addresses.
type issuer struct {
	mu        sync.Mutex
	documents map[string][]byte
	err       error
	delay     time.Duration
	requests  atomic.Int64
}

// RoundTrip returns the document of the request's address.
func (i *issuer) RoundTrip(r *http.Request) (*http.Response, error) {
	i.requests.Add(1)
	i.mu.Lock()
	body, err, delay := i.documents[r.URL.String()], i.err, i.delay
	i.mu.Unlock()
	if delay > 0 {
		select {
		case <-time.After(delay):
		case <-r.Context().Done():
			return nil, context.Cause(r.Context())
		}
	}
	if err != nil {
		return nil, err
	}
	response := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(body))}
	if body == nil {
		response.StatusCode = http.StatusNotFound
	}
	return response, nil
}

// set replaces the document of keysURL, the error and the delay.
func (i *issuer) set(document []byte, err error, delay time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.documents, i.err, i.delay = map[string][]byte{keysURL: document}, err, delay
}

// config returns a configuration that fetches keys from client.
func config(client http.RoundTripper, now func() time.Time) jwt.Config {
	return jwt.Config{
		Account: "a1", Issuer: issuerName, Audiences: []string{audience}, KeysURL: keysURL, Subject: "sub",
		Algorithms: []jose.SignatureAlgorithm{jose.ES256}, Skew: time.Minute, Client: client, Now: now,
	}
}

// verdict is the result of Verify without its texts.
type verdict string

const (
	valid       verdict = "valid"
	invalid     verdict = "invalid"
	unavailable verdict = "unavailable"
)

// verify returns the verdict about a token.
func verify(t testing.TB, v *jwt.Verifier, token string) verdict {
	t.Helper()
	user, err := v.Verify(t.Context(), token)
	switch {
	case err == nil && user != nil:
		return valid
	case errors.Is(err, jwt.ErrInvalid):
		return invalid
	}
	return unavailable
}
