// Package jwt verifies the JSON Web Tokens (RFC 7519) of requests, and finds the keys of their issuers. The library
// go-jose parses tokens and checks signatures. This package decides which algorithms and keys it may use, and checks the
// claims (docs/decisions/0089-tokens-are-verified-with-go-jose.md).
//
// The package knows neither policies nor responses: package policy has the policies. Its caller passes a round tripper
// that dials only addresses that the installation allows.
//
// Read this file first, then token.go, which verifies a token. keys.go reads keys, source.go fetches and caches the keys of
// an issuer, introspect.go asks an issuer about a token, and cache.go stores verified tokens.
package jwt

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/gatewright/gatewright/shared/dataplane/gateway/pipeline"
)

// MaxBytes is the maximum size of a token. A larger token is refused before it is parsed.
const MaxBytes = 16 << 10

// ErrInvalid is the error of a token that is not valid. Any other error of Verify means that the token cannot be checked
// now. No error contains the token or a value of its claims.
var ErrInvalid = errors.New("jwt: the token is not valid")

// ErrMismatch is an ErrInvalid: the signature of the token is valid and the token has not expired, but the verifier does
// not accept the token because of its issuer, its audience or another claim. So the options of the verifier can be wrong.
var ErrMismatch = fmt.Errorf("%w for this policy", ErrInvalid)

// Config says which tokens a Verifier accepts, and where their keys are.
type Config struct {
	// Account is the ID of the account. Accounts share no fetched keys.
	Account string
	// Issuer is the required claim iss, "" for any issuer.
	Issuer string
	// Audiences are the accepted values of the claim aud: a token needs one of them. nil accepts any audience.
	Audiences []string
	// Keys are the keys. If they are nil, the keys are fetched from KeysURL. If KeysURL is "", it is the jwks_uri of the
	// document at the well-known place of Issuer.
	Keys    *KeySet
	KeysURL string
	// Algorithms are the accepted algorithms. The list is not empty.
	Algorithms []jose.SignatureAlgorithm
	// Skew is the difference that the clocks of the issuer and the gateway can have.
	Skew time.Duration
	// Subject is the name of the claim that becomes the user's Sub.
	Subject string
	// Claims are required claims. A claim needs one of the values. If it is an array, an element needs one of them.
	Claims map[string][]jsontext.Value
	// Client fetches keys. It follows no redirects.
	Client http.RoundTripper
	Now    func() time.Time
	// isIntrospection is set if the claims are those of a response of an Introspector: exp is optional
	// there, and the server has checked nbf and iat with its own clock.
	isIntrospection bool
}

// Verifier verifies tokens. It is safe for concurrent use.
type Verifier struct {
	config Config
	source *source // nil if Config.Keys has the keys
	cache  *Cache
	salt   digest
}

// Verifier returns a Verifier that stores verified tokens and fetched keys in the cache. options identifies the verifier's
// options: two verifiers of an account with the same options share verified tokens. The Cache can be nil.
func (c *Cache) Verifier(config Config, options []byte) *Verifier {
	v := &Verifier{config: config, cache: c}
	v.salt = sha256.Sum256([]byte(strconv.Itoa(len(config.Account)) + ":" + config.Account + string(options)))
	if config.Keys == nil {
		v.source = c.source(config)
	}
	return v
}

// Verify returns the user of a valid token. If the token is not valid, the error is an ErrInvalid. Any other error means
// that the keys could not be fetched.
func (v *Verifier) Verify(ctx context.Context, token string) (*pipeline.User, error) {
	if len(token) > MaxBytes {
		return nil, invalid("it is longer than " + strconv.Itoa(MaxBytes) + " bytes")
	}
	var buffer [2048]byte
	id := digest(sha256.Sum256(append(append(buffer[:0], v.salt[:]...), token...)))
	if known := v.cache.get(id); known != nil && known.isValidAt(v.config.Now(), v.config.Skew) {
		keys, err := v.keys(ctx)
		if err != nil {
			return nil, err
		}
		if keys == known.keys {
			return known.user, nil
		}
	}
	verified, err := v.verify(ctx, token)
	if err != nil {
		return nil, err
	}
	v.cache.put(id, verified)
	return verified.user, nil
}

// keys returns the current keys.
func (v *Verifier) keys(ctx context.Context) (*KeySet, error) {
	if v.source == nil {
		return v.config.Keys, nil
	}
	return v.source.current(ctx)
}

// invalid returns an ErrInvalid with a reason that contains nothing of the token.
func invalid(reason string) error { return fmt.Errorf("%w: %s", ErrInvalid, reason) }

// mismatch returns an ErrMismatch with a reason that contains nothing of the token.
func mismatch(reason string) error { return fmt.Errorf("%w: %s", ErrMismatch, reason) }

// Asymmetric returns the algorithms for keys of an issuer.
func Asymmetric() []string {
	return []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
}

// IsSymmetric reports whether an algorithm needs a shared secret.
func IsSymmetric(algorithm string) bool { return strings.HasPrefix(algorithm, "HS") }

// SecretBytes returns the minimum size of the secret for an algorithm (RFC 7518, section 3.2).
func SecretBytes(algorithm string) int {
	bits, err := strconv.Atoi(strings.TrimPrefix(algorithm, "HS"))
	if err != nil {
		return 0 // an asymmetric algorithm
	}
	return bits / 8
}
