package jwt_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json/jsontext"
	golangjwt "github.com/golang-jwt/jwt/v5"

	"github.com/gatewright/gatewright/shared/dataplane/gateway/jwt"
)

// TestHeaders checks headers that change how a token is read. Each token has a valid signature for its header.
func TestHeaders(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_900_000_000, 0)
	key := newKey()
	client := &issuer{}
	client.set(jwks(map[string]any{"one": &key.PublicKey}), nil, 0)
	v := jwt.NewCache().Verifier(config(client, func() time.Time { return now }), nil)
	payload := `{"iss":"` + issuerName + `","aud":"shop","sub":"ada","exp":1900003600}`
	encode := base64.RawURLEncoding.EncodeToString
	signedWith := func(header, payload string) string {
		text := encode([]byte(header)) + "." + encode([]byte(payload))
		signature, err := golangjwt.SigningMethodES256.Sign(text, key)
		if err != nil {
			t.Fatal(err)
		}
		return text + "." + encode(signature)
	}
	embedded, err := (&jose.JSONWebKey{Key: &newKey().PublicKey}).MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		header, payload string
		want            verdict
	}{
		{`{"alg":"ES256","kid":"one"}`, payload, valid},
		{`{"alg":"ES256"}`, payload, valid},
		{`{"alg":"ES256","kid":"one","typ":"at+JWT"}`, payload, valid},
		{`{"alg":"ES256","kid":"one","x":{"a":1}}`, payload, valid},
		{`{"alg":"ES256","kid":"one","jwk":` + string(embedded) + `,"jku":"https://evil.example"}`, payload, valid},
		{`{"alg":"ES256","kid":"one","typ":"logout+jwt"}`, payload, invalid},
		{`{"alg":"ES256","kid":"one","typ":7}`, payload, invalid},
		{`{"alg":"ES256","kid":"one","crit":["exp"]}`, payload, invalid},
		{`{"alg":"ES256","kid":"one","crit":["b64"],"b64":true}`, payload, invalid},
		{`{"alg":"ES256","kid":"one","b64":false}`, payload, invalid},
		{`{"alg":"ES256","kid":"one","b64":true}`, payload, invalid},
		{`{"alg":"ES256","kid":"one","cty":"JWT"}`, payload, invalid},
		{`{"alg":"ES256","kid":"one","zip":"DEF"}`, payload, invalid},
		{`{"alg":"ES256","kid":"one","enc":"A128GCM"}`, payload, invalid},
		{`{"alg":"ES256","kid":7}`, payload, invalid},
		{`{"alg":"ES256","kid":"one","alg":"ES256"}`, payload, invalid},
		{`{"alg":"none","alg":"ES256","kid":"one"}`, payload, invalid},
		{`{"alg":"ES256","kid":"one","x":{"a":1,"a":2}}`, payload, invalid},
		{`{"alg":"ES256","kid":"one"} {}`, payload, invalid},
		{`["ES256"]`, payload, invalid},
		{`null`, payload, invalid},
		{`{"alg":"ES256","kid":"one"}`, strings.Replace(payload, `"sub"`, `"sub":"eve","sub"`, 1), invalid},
		{`{"alg":"ES256","kid":"one"}`, strings.Replace(payload, `{`, `{"x":{"a":1,"a":1},`, 1), invalid},
		{`{"alg":"ES256","kid":"one"}`, `null`, invalid},
		{`{"alg":"ES256","kid":"one"}`, `[]`, invalid},
		{`{"alg":"ES256","kid":"one"}`, payload + "\xff", invalid},
		{`{"alg":"ES256","kid":"one"}`, strings.Replace(payload, "ada", "\xff", 1), invalid},
	} {
		if got := verify(t, v, signedWith(tt.header, tt.payload)); got != tt.want {
			t.Errorf("Verify(%s . %s) = %s, want %s", tt.header, tt.payload, got, tt.want)
		}
	}
	good := signedWith(`{"alg":"ES256","kid":"one"}`, payload)
	for _, text := range []string{
		"", ".", "..", "...", good + ".", "." + good, good + ".a.b", good + "=", good + "\n",
		strings.Replace(good, ".", ".\n", 1),
		`{"payload":"` + strings.ReplaceAll(good, ".", `","x":"`) + `"}`,
	} {
		if got := verify(t, v, text); got != invalid {
			t.Errorf("Verify(%q) = %s, want invalid", text, got)
		}
	}
}

// TestLongTokensAreRefused checks that tokens of 1 MB are refused before they are parsed: no key is fetched for them.
func TestLongTokensAreRefused(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_900_000_000, 0)
	key, client := newKey(), &issuer{}
	client.set(jwks(map[string]any{"one": &key.PublicKey}), nil, 0)
	v := jwt.NewCache().Verifier(config(client, func() time.Time { return now }), nil)
	token := sign(t, key, "one", claims(now, map[string]any{"x": strings.Repeat("x", 1<<20)}))
	if got := verify(t, v, token); got != invalid || client.requests.Load() != 0 {
		t.Errorf("Verify(1 MB) = %s with %d requests, want invalid without a request", got, client.requests.Load())
	}
	if got := verify(t, v, strings.Repeat(".", jwt.MaxBytes+1)); got != invalid {
		t.Errorf("Verify(dots) = %s, want invalid", got)
	}
}

// TestClaims checks the user of a token, and required claims.
func TestClaims(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_900_000_000, 0)
	key, client := newKey(), &issuer{}
	client.set(jwks(map[string]any{"one": &key.PublicKey}), nil, 0)
	for name, tt := range map[string]struct {
		change   func(*jwt.Config)
		claims   map[string]any
		want     verdict
		sub      string
		scopes   []string
		mismatch bool
	}{
		"plain": {want: valid, sub: "ada"},
		"scope": {
			claims: map[string]any{"scope": "read  write"}, want: valid, sub: "ada", scopes: []string{"read", "write"},
		},
		"scp": {
			claims: map[string]any{"scp": []string{"a", "b"}}, want: valid, sub: "ada", scopes: []string{"a", "b"},
		},
		"scp as a text": {
			claims: map[string]any{"scp": "a b"}, want: valid, sub: "ada", scopes: []string{"a", "b"},
		},
		"scope malformed": {claims: map[string]any{"scope": 7, "scp": []any{1}}, want: valid, sub: "ada"},
		"another subject": {
			change: func(c *jwt.Config) { c.Subject = "email" }, claims: map[string]any{"email": "a@example.com"}, want: valid,
			sub: "a@example.com",
		},
		"a number as the subject": {claims: map[string]any{"sub": 17}, want: valid, sub: "17"},
		"a fraction as subject":   {claims: map[string]any{"sub": 1.5}, want: invalid, mismatch: true},
		"no subject":              {claims: map[string]any{"sub": nil}, want: invalid, mismatch: true},
		"an empty subject":        {claims: map[string]any{"sub": ""}, want: invalid, mismatch: true},
		"a long subject": {
			claims: map[string]any{"sub": strings.Repeat("a", 1025)}, want: invalid, mismatch: true,
		},
		"the required claim": {
			change: requires(`"acme"`), claims: map[string]any{"tenant": "acme"}, want: valid, sub: "ada",
		},
		"one of two values": {
			change: requires(`"acme"`, `7`), claims: map[string]any{"tenant": 7.0}, want: valid, sub: "ada",
		},
		"in a list": {
			change: requires(`"acme"`), claims: map[string]any{"tenant": []any{1, "acme"}}, want: valid, sub: "ada",
		},
		"another value": {
			change: requires(`"acme"`), claims: map[string]any{"tenant": "acm"}, want: invalid, mismatch: true,
		},
		"another type": {
			change: requires(`"7"`), claims: map[string]any{"tenant": 7}, want: invalid, mismatch: true,
		},
		"deep in a list": {
			change: requires(`"a"`), claims: map[string]any{"tenant": []any{[]any{"a"}}}, want: invalid, mismatch: true,
		},
		"the claim is missing": {change: requires(`"acme"`), want: invalid, mismatch: true},
		"an issuer, no required": {
			change: func(c *jwt.Config) { c.Issuer = "" }, claims: map[string]any{"iss": "x"}, want: valid, sub: "ada",
		},
		"no audience required": {
			change: func(c *jwt.Config) { c.Audiences = nil }, claims: map[string]any{"aud": nil}, want: valid, sub: "ada",
		},
		"an audience of numbers": {
			claims: map[string]any{"aud": []any{audience, 1}}, want: invalid, mismatch: true,
		},
		"exp of the year 12000": {claims: map[string]any{"exp": 316516723200}, want: valid, sub: "ada"},
		"exp before all years":  {claims: map[string]any{"exp": -1e300}, want: invalid},
	} {
		c := config(client, func() time.Time { return now })
		if tt.change != nil {
			tt.change(&c)
		}
		user, err := jwt.NewCache().Verifier(c, nil).Verify(t.Context(), sign(t, key, "one", claims(now, tt.claims)))
		if (err == nil) != (tt.want == valid) || err != nil && !errors.Is(err, jwt.ErrInvalid) ||
			errors.Is(err, jwt.ErrMismatch) != tt.mismatch {
			t.Errorf("%s: Verify() error = %v, want %s, mismatch: %t", name, err, tt.want, tt.mismatch)
			continue
		}
		if err == nil && (user.Sub != tt.sub || !slices.Equal(user.Scopes, tt.scopes)) {
			t.Errorf("%s: Verify() = %q with the scopes %q, want %q and %q", name, user.Sub, user.Scopes, tt.sub, tt.scopes)
		}
	}
}

// requires returns a change of a configuration: the claim tenant needs one of the values.
func requires(values ...string) func(*jwt.Config) {
	return func(c *jwt.Config) {
		c.Claims = map[string][]jsontext.Value{}
		for _, value := range values {
			c.Claims["tenant"] = append(c.Claims["tenant"], jsontext.Value(value))
		}
	}
}

// TestErrorsHaveNoClaims checks that no error contains a part of the token or a value of the options.
func TestErrorsHaveNoClaims(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_900_000_000, 0)
	key, client := newKey(), &issuer{}
	client.set(jwks(map[string]any{"one": &key.PublicKey}), nil, 0)
	for _, change := range []map[string]any{
		{"iss": "hidden-value"}, {"aud": "hidden-value"}, {"sub": map[string]any{"hidden-value": 1}}, {"exp": "hidden-value"},
	} {
		token := sign(t, key, "one", claims(now, change))
		_, err := jwt.NewCache().Verifier(config(client, func() time.Time { return now }), nil).Verify(t.Context(), token)
		if err == nil || strings.Contains(err.Error(), "hidden") || strings.Contains(err.Error(), token[:20]) {
			t.Errorf("Verify(%v) error = %v, want one without the claim and the token", change, err)
		}
	}
}

// TestSecret checks tokens with a shared secret: they need no issuer.
func TestSecret(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_900_000_000, 0)
	secret := []byte(strings.Repeat("s", 64)) // long enough for HS512, too
	c := config(nil, func() time.Time { return now })
	c.Keys, c.Algorithms = jwt.Secret(secret), []jose.SignatureAlgorithm{jose.HS256}
	v := jwt.NewCache().Verifier(c, nil)
	for i, tt := range []struct {
		method golangjwt.SigningMethod
		key    any
		want   verdict
	}{
		{golangjwt.SigningMethodHS256, secret, valid},
		{golangjwt.SigningMethodHS512, secret, invalid}, // not an algorithm of the policy
		{golangjwt.SigningMethodHS256, []byte("another"), invalid},
		{golangjwt.SigningMethodES256, newKey(), invalid},
	} {
		token, err := golangjwt.NewWithClaims(tt.method, golangjwt.MapClaims(claims(now, nil))).SignedString(tt.key)
		if err != nil {
			t.Fatal(err)
		}
		if got := verify(t, v, token); got != tt.want {
			t.Errorf("Verify(token %d, %s) = %s, want %s", i, tt.method.Alg(), got, tt.want)
		}
	}
}

// TestClocksTenMinutesOff checks tokens of an issuer whose clock is ten minutes fast or slow, with a skew of one and of
// ten minutes.
func TestClocksTenMinutesOff(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_900_000_000, 0)
	key, client := newKey(), &issuer{}
	client.set(jwks(map[string]any{"one": &key.PublicKey}), nil, 0)
	for _, tt := range []struct {
		off, skew time.Duration
		want      verdict
	}{
		{10 * time.Minute, time.Minute, invalid},
		{10 * time.Minute, 10 * time.Minute, valid},
		{-10 * time.Minute, time.Minute, invalid}, // it has expired 5 minutes ago
		{-10 * time.Minute, 10 * time.Minute, valid},
	} {
		c := config(client, func() time.Time { return now })
		c.Skew = tt.skew
		at := now.Add(tt.off)
		token := sign(t, key, "one", map[string]any{
			"iss": issuerName, "aud": audience, "sub": "ada", "iat": at.Unix(), "nbf": at.Unix(),
			"exp": at.Add(5 * time.Minute).Unix(),
		})
		if got := verify(t, jwt.NewCache().Verifier(c, nil), token); got != tt.want {
			t.Errorf("Verify(clock %v off, skew %v) = %s, want %s", tt.off, tt.skew, got, tt.want)
		}
	}
}

// TestVerifiedTokenExpires checks that a token that was verified before is refused after it has expired, and that the
// tokens of one verifier are not valid for another one.
func TestVerifiedTokenExpires(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_900_000_000, 0)
	key, client := newKey(), &issuer{}
	client.set(jwks(map[string]any{"one": &key.PublicKey}), nil, 0)
	cache := jwt.NewCache()
	c := config(client, func() time.Time { return now })
	v := cache.Verifier(c, []byte("1"))
	token := sign(t, key, "one", claims(now, map[string]any{"exp": now.Add(5 * time.Minute).Unix()}))
	for _, tt := range []struct {
		after time.Duration
		want  verdict
	}{
		{0, valid},
		{5*time.Minute + 59*time.Second, valid},
		{time.Second, invalid},
		{-time.Second, valid},
		{-10 * time.Minute, invalid}, // the clock was set back to a time before the token was issued
	} {
		now = now.Add(tt.after)
		if got := verify(t, v, token); got != tt.want {
			t.Errorf("Verify() at %v = %s, want %s", now.UTC(), got, tt.want)
		}
	}
	now = now.Add(5 * time.Minute)
	c.Audiences = []string{"other"}
	if got := verify(t, cache.Verifier(c, []byte("2")), token); got != invalid {
		t.Errorf("Verify() for another audience = %s, want invalid", got)
	}
}

// TestRepeatedTokenCostsLittle checks that a token that was verified before needs no signature check: at most three
// allocations, and the same user.
func TestRepeatedTokenCostsLittle(t *testing.T) {
	now := time.Unix(1_900_000_000, 0)
	key, client := newKey(), &issuer{}
	client.set(jwks(map[string]any{"one": &key.PublicKey}), nil, 0)
	v := jwt.NewCache().Verifier(config(client, func() time.Time { return now }), nil)
	token := sign(t, key, "one", claims(now, nil))
	first, err := v.Verify(t.Context(), token)
	if err != nil {
		t.Fatal(err)
	}
	allocations := testing.AllocsPerRun(100, func() {
		if user, err := v.Verify(t.Context(), token); user != first || err != nil {
			t.Fatalf("Verify() = %p, %v, want the user %p of the first call", user, err, first)
		}
	})
	if allocations > 3 {
		t.Errorf("Verify() of a repeated token makes %v allocations, want at most 3", allocations)
	}
}

// BenchmarkVerify measures a token that was verified before, and one that was not.
func BenchmarkVerify(b *testing.B) {
	now := time.Now()
	key, client := newKey(), &issuer{}
	client.set(jwks(map[string]any{"one": &key.PublicKey}), nil, 0)
	for _, cached := range []bool{true, false} {
		b.Run(fmt.Sprintf("cached=%t", cached), func(b *testing.B) {
			var cache *jwt.Cache
			if cached {
				cache = jwt.NewCache()
			}
			v, token := cache.Verifier(config(client, time.Now), nil), sign(b, key, "one", claims(now, nil))
			for b.Loop() {
				if _, err := v.Verify(b.Context(), token); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
