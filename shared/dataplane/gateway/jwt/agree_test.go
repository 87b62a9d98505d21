package jwt_test

import (
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	golangjwt "github.com/golang-jwt/jwt/v5"

	"github.com/gatewright/gatewright/shared/dataplane/gateway/jwt"
)

// generator generates tokens, most of them invalid in one of many ways.
type generator struct {
	t       *testing.T
	random  *rand.Rand
	now     time.Time
	keys    map[string]*ecdsa.PrivateKey // of the issuer, by kid
	foreign *ecdsa.PrivateKey
	rsa     *rsa.PrivateKey // a key of the issuer with the kid "rsa"
}

// signed returns a token with these claims, of a key that the kid names.
func (g *generator) signed(method golangjwt.SigningMethod, key any, kid string, claims map[string]any) string {
	token := golangjwt.NewWithClaims(method, golangjwt.MapClaims(claims))
	if kid != "" {
		token.Header["kid"] = kid
	}
	text, err := token.SignedString(key)
	if err != nil {
		g.t.Fatal(err)
	}
	return text
}

// changedHeader returns a token with another header and the same signature.
func changedHeader(token, header string) string {
	_, rest, _ := strings.Cut(token, ".")
	return base64.RawURLEncoding.EncodeToString([]byte(header)) + "." + rest
}

// around returns a number of seconds that differs from middle by at most three.
func (g *generator) around(middle int) time.Duration {
	return time.Duration(middle+g.random.IntN(7)-3) * time.Second
}

// next returns a token and the name of its kind.
func (g *generator) next() (kind, token string) {
	kid := []string{"one", "two"}[g.random.IntN(2)]
	key := g.keys[kid]
	good := func(changes map[string]any) string {
		return g.signed(golangjwt.SigningMethodES256, key, kid, claims(g.now, changes))
	}
	publicBytes, _ := x509.MarshalPKIXPublicKey(&g.rsa.PublicKey) // no error: the key is valid
	publicPEM := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: publicBytes})
	switch g.random.IntN(20) {
	case 0:
		return "expired around the skew", good(map[string]any{"exp": g.now.Add(g.around(-60)).Unix()})
	case 1:
		return "not yet valid around the skew", good(map[string]any{"nbf": g.now.Add(g.around(60)).Unix()})
	case 2:
		return "issued around the skew", good(map[string]any{"iat": g.now.Add(g.around(60)).Unix()})
	case 3:
		return "another audience", good(map[string]any{"aud": []string{"shops", "sho", ""}[g.random.IntN(3)]})
	case 4:
		return "audiences", good(map[string]any{"aud": []string{"other", []string{audience, "x"}[g.random.IntN(2)]}})
	case 5:
		return "another issuer", good(map[string]any{"iss": "https://login.example.com"})
	case 6:
		return "a claim is missing", good(map[string]any{[]string{"exp", "iss", "aud", "iat"}[g.random.IntN(4)]: nil})
	case 7:
		text := []byte(good(nil))
		position := g.random.IntN(len(text) - 2) // the last character can have bits without a meaning
		text[position] = "ABCDEFGHabcdefgh0123-_."[g.random.IntN(23)]
		return "a changed character", string(text)
	case 8:
		algorithm := []string{"RS256", "ES384", "HS256", "none", "None", "", "ES256K"}[g.random.IntN(7)]
		return "a swapped algorithm", changedHeader(good(nil), `{"typ":"JWT","alg":"`+algorithm+`","kid":"`+kid+`"}`)
	case 9:
		return "an unknown kid", g.signed(golangjwt.SigningMethodES256, key, "three", claims(g.now, nil))
	case 10:
		return "a foreign key", g.signed(golangjwt.SigningMethodES256, g.foreign, kid, claims(g.now, nil))
	case 11:
		return "the kid of another key", g.signed(golangjwt.SigningMethodES256, g.keys["one"], "two", claims(g.now, nil))
	case 12:
		return "none", g.signed(golangjwt.SigningMethodNone, golangjwt.UnsafeAllowNoneSignatureType, kid, claims(g.now, nil))
	case 13:
		return "HS256 with a public key", g.signed(golangjwt.SigningMethodHS256,
			[][]byte{publicBytes, publicPEM, g.rsa.N.Bytes()}[g.random.IntN(3)], "rsa", claims(g.now, nil))
	case 14:
		return "RSA", g.signed(golangjwt.SigningMethodRS256, g.rsa, "rsa", claims(g.now, nil))
	case 15:
		return "no kid", g.signed(golangjwt.SigningMethodES256, key, "", claims(g.now, nil))
	case 16:
		text := good(nil)
		return "cut off", text[:g.random.IntN(len(text))]
	case 17:
		return "a text as a time", good(map[string]any{[]string{"exp", "nbf", "iat"}[g.random.IntN(3)]: "1"})
	default:
		return "valid", good(map[string]any{"scope": "read write", "n": g.random.Int()})
	}
}

// TestAgreesWithAnotherLibrary compares the verdicts about 5,000 generated tokens with those of golang-jwt.
func TestAgreesWithAnotherLibrary(t *testing.T) {
	t.Parallel()
	g := &generator{
		t: t, random: rand.New(rand.NewPCG(1, 2)), now: time.Unix(1_900_000_000, 0),
		keys: map[string]*ecdsa.PrivateKey{"one": newKey(), "two": newKey()}, foreign: newKey(), rsa: newRSAKey(),
	}
	public := map[string]any{
		"one": &g.keys["one"].PublicKey, "two": &g.keys["two"].PublicKey, "rsa": &g.rsa.PublicKey,
	}
	client := &issuer{}
	client.set(jwks(public), nil, 0)
	c := config(client, func() time.Time { return g.now })
	c.Algorithms = []jose.SignatureAlgorithm{jose.ES256, jose.RS256}
	v := jwt.NewCache().Verifier(c, nil)
	parser := golangjwt.NewParser(golangjwt.WithValidMethods([]string{"ES256", "RS256"}), golangjwt.WithIssuer(issuerName),
		golangjwt.WithAudience(audience), golangjwt.WithLeeway(time.Minute), golangjwt.WithExpirationRequired(),
		golangjwt.WithIssuedAt(), golangjwt.WithTimeFunc(func() time.Time { return g.now }))
	keyOf := func(token *golangjwt.Token) (any, error) {
		kid, has := token.Header["kid"]
		if !has {
			return golangjwt.VerificationKeySet{Keys: []golangjwt.VerificationKey{public["one"], public["two"]}}, nil
		}
		id, _ := kid.(string)
		if key, known := public[id]; known {
			return key, nil
		}
		return nil, errors.New("unknown key")
	}
	counts := map[verdict]int{}
	for range 5000 {
		kind, token := g.next()
		want := valid
		if _, err := parser.Parse(token, keyOf); err != nil {
			want = invalid
		}
		got := verify(t, v, token)
		if got != want {
			t.Errorf("Verify(%s: %s) = %s, want %s, as golang-jwt says", kind, token, got, want)
		}
		if again := verify(t, v, token); again != got {
			t.Errorf("second Verify(%s: %s) = %s, want %s as before", kind, token, again, got)
		}
		counts[got]++
	}
	if counts[valid] < 500 || counts[invalid] < 500 {
		t.Errorf("verdicts = %v, want at least 500 valid and 500 invalid tokens", counts)
	}
}
