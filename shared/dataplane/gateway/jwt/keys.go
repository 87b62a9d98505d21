package jwt

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"errors"
	"fmt"
	"slices"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// KeySet is a set of keys. It does not change: new keys of an issuer are another KeySet.
type KeySet struct {
	byID map[string][]*key
	// anonymous are the keys without an ID, and all are all keys.
	anonymous, all []*key
}

// key is a public key, or a secret.
type key struct {
	id string
	// algorithm is the only algorithm of the key, "" for all algorithms of its type.
	algorithm jose.SignatureAlgorithm
	value     any // *rsa.PublicKey, *ecdsa.PublicKey, ed25519.PublicKey or []byte
}

// maxCandidates is the maximum number of keys that are tried for a token. It bounds the cost of a token without a kid.
const maxCandidates = 8

// The sizes of RSA keys that are accepted, in bits. Signatures with shorter keys can be forged, and checking signatures
// with larger keys takes long.
const (
	minRSABits = 2048
	maxRSABits = 8192
)

// Secret returns a KeySet with a secret for the algorithms HS256, HS384 and HS512.
func Secret(secret []byte) *KeySet { return newKeySet([]*key{{value: secret}}) }

func newKeySet(keys []*key) *KeySet {
	s := &KeySet{byID: map[string][]*key{}, all: keys}
	for _, k := range keys {
		if k.id == "" {
			s.anonymous = append(s.anonymous, k)
			continue
		}
		s.byID[k.id] = append(s.byID[k.id], k)
	}
	return s
}

// keyMembers are the members of a JSON Web Key that are read (RFC 7517). Certificates (x5c) are not read.
type keyMembers struct {
	Type       string   `json:"kty"`
	Use        string   `json:"use,omitempty"`
	Operations []string `json:"key_ops,omitempty"`
	Algorithm  string   `json:"alg,omitempty"`
	ID         string   `json:"kid,omitempty"`
	Curve      string   `json:"crv,omitempty"`
	N          string   `json:"n,omitempty"`
	E          string   `json:"e,omitempty"`
	X          string   `json:"x,omitempty"`
	Y          string   `json:"y,omitempty"`
	// Private and Secret are set for a key that is not public.
	Private jsontext.Value `json:"d,omitempty"`
	Secret  jsontext.Value `json:"k,omitempty"`
}

// ErrPrivate is the error of ParseKeys for keys that are not public.
var ErrPrivate = errors.New("jwt: one of the keys is private or a secret")

// ParseKeys returns the public keys of a JSON Web Key Set. It skips keys that are for another use or of an unknown type,
// and keys that are too weak. If the set has a key that is not public, ParseKeys skips this key too, and returns the
// others with ErrPrivate. It returns an error for a set without usable keys.
func ParseKeys(data []byte) (*KeySet, error) {
	var set struct {
		Keys []jsontext.Value `json:"keys"`
	}
	if err := json.Unmarshal(data, &set); err != nil {
		// The error would contain a part of the document.
		return nil, errors.New("jwt: the keys are not a JSON Web Key Set without duplicate names")
	}
	var keys []*key
	var private error
	for _, raw := range set.Keys {
		k, err := parseKey(raw)
		if errors.Is(err, ErrPrivate) {
			private = ErrPrivate
		}
		if err == nil {
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		return nil, errors.Join(errors.New("jwt: the JSON Web Key Set has no public key for signatures"), private)
	}
	return newKeySet(keys), private
}

// parseKey returns a public key for signatures.
func parseKey(raw jsontext.Value) (*key, error) {
	var m keyMembers
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, fmt.Errorf("jwt: read a key: %w", err)
	}
	switch {
	case m.Private != nil || m.Secret != nil:
		return nil, ErrPrivate
	case m.Use != "" && m.Use != "sig", m.Operations != nil && !slices.Contains(m.Operations, "verify"):
		return nil, errors.New("jwt: the key is for another use")
	}
	public, err := json.Marshal(keyMembers{
		Type: m.Type, ID: m.ID, Curve: m.Curve, N: m.N, E: m.E, X: m.X, Y: m.Y,
	})
	if err != nil {
		return nil, fmt.Errorf("jwt: write a key: %w", err)
	}
	var parsed jose.JSONWebKey
	if err := parsed.UnmarshalJSON(public); err != nil {
		return nil, fmt.Errorf("jwt: read a key: %w", err)
	}
	out := &key{id: m.ID, algorithm: jose.SignatureAlgorithm(m.Algorithm), value: parsed.Key}
	switch k := parsed.Key.(type) {
	case *rsa.PublicKey:
		if bits := k.N.BitLen(); bits < minRSABits || bits > maxRSABits {
			return nil, errors.New("jwt: the RSA key is too small or too large")
		}
	case *ecdsa.PublicKey, ed25519.PublicKey:
	default:
		return nil, errors.New("jwt: the key is of another type")
	}
	return out, nil
}

// fits reports whether the key can have made a signature with an algorithm.
func (k *key) fits(algorithm jose.SignatureAlgorithm) bool {
	if k.algorithm != "" && k.algorithm != algorithm {
		return false
	}
	switch value := k.value.(type) {
	case []byte:
		return IsSymmetric(string(algorithm))
	case *rsa.PublicKey:
		return slices.Contains([]jose.SignatureAlgorithm{
			jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512,
		}, algorithm)
	case *ecdsa.PublicKey:
		curves := map[jose.SignatureAlgorithm]string{jose.ES256: "P-256", jose.ES384: "P-384", jose.ES512: "P-521"}
		return curves[algorithm] == value.Curve.Params().Name
	case ed25519.PublicKey:
		return algorithm == jose.EdDSA
	default:
		return false
	}
}

// check returns the payload of a token with a valid signature. found reports whether the set has the key that the token
// names. If found is false, newer keys of the issuer can include it. The error is an ErrInvalid.
func (s *KeySet) check(signed *jose.JSONWebSignature, h header) (payload []byte, found bool, err error) {
	candidates := s.all
	if h.hasKeyID {
		candidates = s.byID[h.keyID]
		if found = len(candidates) > 0; !found {
			candidates = s.anonymous
		}
	}
	tried := 0
	for _, k := range candidates {
		if !k.fits(h.algorithm) {
			continue
		}
		if tried++; tried > maxCandidates {
			return nil, true, invalid("it names no key, and the issuer has too many to try all")
		}
		if payload, err := signed.Verify(k.value); err == nil {
			return payload, true, nil
		}
	}
	if tried == 0 {
		return nil, found, invalid("no key of the issuer is for it")
	}
	return nil, found, invalid("its signature is wrong")
}
