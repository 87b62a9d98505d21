package jwt

import (
	"context"
	"encoding/base64"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/gatewright/gatewright/shared/dataplane/gateway/pipeline"
)

// verified is a token whose signature and claims are valid.
type verified struct {
	user *pipeline.User
	// keys are the keys with which the signature was checked.
	keys                *KeySet
	notBefore, expireAt time.Time
}

// isValidAt reports whether a time is in the token's period. skew extends the period at both ends.
func (t *verified) isValidAt(now time.Time, skew time.Duration) bool {
	return now.Before(t.expireAt.Add(skew)) && !now.Before(t.notBefore.Add(-skew))
}

// header has the members of a token's header that decide how it is verified.
type header struct {
	algorithm jose.SignatureAlgorithm
	keyID     string
	hasKeyID  bool
}

// refusedMembers are the members of a header that change how a token is read: extensions that a recipient must know,
// payloads that are not Base64, encryption and compression.
var refusedMembers = []string{"crit", "b64", "enc", "zip"}

// acceptedTypes are the values of typ, in lower case, of tokens for resources. An issuer signs other tokens with the same
// keys, for example for logouts and security events (RFC 8725, section 3.11).
var acceptedTypes = []string{"jwt", "at+jwt", "application/jwt", "application/at+jwt"}

// readHeader returns the header of a token in the compact serialization.
func (v *Verifier) readHeader(token string) (header, error) {
	encoded, rest, _ := strings.Cut(token, ".")
	if strings.Count(rest, ".") != 1 || strings.ContainsAny(token, "\r\n") {
		return header{}, invalid("it has not three parts")
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(encoded)
	if err != nil {
		return header{}, invalid("its header is not Base64")
	}
	var members map[string]jsontext.Value
	if json.Unmarshal(raw, &members) != nil || members == nil {
		return header{}, invalid("its header is not a JSON object without duplicate names")
	}
	for _, name := range refusedMembers {
		if _, exists := members[name]; exists {
			return header{}, invalid("its header has a member that this gateway refuses")
		}
	}
	if content, exists := text(members["cty"]); exists && strings.EqualFold(content, "JWT") {
		return header{}, invalid("it contains another token")
	}
	if value, exists := members["typ"]; exists {
		kind, isText := text(value)
		if !isText || !slices.Contains(acceptedTypes, strings.ToLower(kind)) {
			return header{}, invalid("its type is not JWT or at+jwt")
		}
	}
	algorithm, _ := text(members["alg"])
	h := header{algorithm: jose.SignatureAlgorithm(algorithm)}
	if !slices.Contains(v.config.Algorithms, h.algorithm) {
		return header{}, invalid("its algorithm is not one of the policy's")
	}
	if value, exists := members["kid"]; exists {
		if h.keyID, h.hasKeyID = text(value); !h.hasKeyID {
			return header{}, invalid("its kid is not a text")
		}
	}
	return h, nil
}

// verify checks the signature and the claims of a token.
func (v *Verifier) verify(ctx context.Context, token string) (*verified, error) {
	h, err := v.readHeader(token)
	if err != nil {
		return nil, err
	}
	signed, err := jose.ParseSignedCompact(token, v.config.Algorithms)
	if err != nil {
		return nil, invalid("it is not a signed token")
	}
	keys, err := v.keys(ctx)
	if err != nil {
		return nil, err
	}
	payload, found, err := keys.check(signed, h)
	if err != nil && !found && v.source != nil {
		// The issuer may have a new key.
		var refetched *KeySet
		if refetched, err = v.source.refetch(ctx); err != nil {
			return nil, err
		}
		keys = refetched
		payload, _, err = keys.check(signed, h)
	}
	if err != nil {
		return nil, err
	}
	t, err := v.readClaims(payload)
	if err != nil {
		return nil, err
	}
	t.keys = keys
	return t, nil
}

// readClaims checks the claims of a token whose signature is valid.
func (v *Verifier) readClaims(payload []byte) (*verified, error) {
	var claims map[string]jsontext.Value
	if json.Unmarshal(payload, &claims) != nil || claims == nil {
		return nil, invalid("its claims are not a JSON object without duplicate names")
	}
	t, err := v.readTimes(claims)
	if err != nil {
		return nil, err
	}
	if issuer, exists := claims["iss"]; exists || v.config.Issuer != "" {
		if name, isText := text(issuer); !isText || v.config.Issuer != "" && name != v.config.Issuer {
			return nil, mismatch("iss is not the issuer of the policy")
		}
	}
	if audience, exists := claims["aud"]; exists || v.config.Audiences != nil {
		names, valid := texts(audience)
		if !valid || v.config.Audiences != nil && !slices.ContainsFunc(names, v.isAudience) {
			return nil, mismatch("aud has no audience of the policy")
		}
	}
	for name, values := range v.config.Claims {
		if !hasClaim(claims[name], values) {
			return nil, mismatch("a claim has not the value that the policy requires")
		}
	}
	t.user = &pipeline.User{Data: payload, Scopes: scopes(claims)}
	if t.user.Sub, err = subject(claims[v.config.Subject]); err != nil {
		return nil, err
	}
	return t, nil
}

func (v *Verifier) isAudience(name string) bool { return slices.Contains(v.config.Audiences, name) }

// readTimes checks the times of a token.
func (v *Verifier) readTimes(claims map[string]jsontext.Value) (*verified, error) {
	now := v.config.Now()
	expireAt, valid := numericDate(claims["exp"])
	if _, exists := claims["exp"]; !valid && (exists || !v.config.isIntrospection) {
		return nil, invalid("it has no valid exp")
	}
	t := verified{expireAt: expireAt}
	for _, name := range []string{"nbf", "iat"} {
		value, exists := claims[name]
		if !exists || v.config.isIntrospection {
			continue
		}
		date, valid := numericDate(value)
		if !valid {
			return nil, invalid("its " + name + " is not a time")
		}
		if date.After(t.notBefore) {
			t.notBefore = date
		}
	}
	hasExpired := valid && !now.Before(t.expireAt.Add(v.config.Skew))
	if hasExpired || now.Before(t.notBefore.Add(-v.config.Skew)) {
		return nil, invalid("it has expired, or is not valid yet")
	}
	return &t, nil
}

// maxSeconds is the last second of the year 9999. Later times are read as this one.
const maxSeconds = 253402300799

// numericDate returns the time of a number of seconds since 1970 (RFC 7519, section 2), in whole seconds.
func numericDate(value jsontext.Value) (time.Time, bool) {
	if value.Kind() != '0' {
		return time.Time{}, false
	}
	seconds, err := strconv.ParseFloat(string(value), 64)
	if err != nil {
		return time.Time{}, false
	}
	return time.Unix(int64(math.Trunc(max(-maxSeconds, min(seconds, maxSeconds)))), 0), true
}

// maxSubject is the maximum size of a user's Sub in bytes.
const maxSubject = 1024

// subject returns the user's Sub: the value of a text, or of a whole number.
func subject(value jsontext.Value) (string, error) {
	sub, isText := text(value)
	if value.Kind() == '0' {
		number, err := strconv.ParseInt(string(value), 10, 64)
		sub, isText = strconv.FormatInt(number, 10), err == nil
	}
	if !isText || sub == "" || len(sub) > maxSubject {
		return "", mismatch("the claim with the subject is not a text of 1 to " + strconv.Itoa(maxSubject) + " bytes")
	}
	return sub, nil
}

// scopes returns the scopes of a token: those of the text scope (RFC 9068), and those of scp, a text or an array.
func scopes(claims map[string]jsontext.Value) (out []string) {
	for _, name := range []string{"scope", "scp"} {
		all, _ := texts(claims[name])
		for _, part := range all {
			out = append(out, strings.Fields(part)...)
		}
	}
	return out
}

// hasClaim reports whether a claim, or an element of a claim that is an array, has one of the values.
func hasClaim(claim jsontext.Value, values []jsontext.Value) bool {
	elements := []jsontext.Value{claim}
	if claim.Kind() == '[' && json.Unmarshal(claim, &elements) != nil {
		return false
	}
	return slices.ContainsFunc(elements, func(element jsontext.Value) bool {
		canonical := element.Clone()
		return canonical.Canonicalize() == nil && slices.ContainsFunc(values, func(value jsontext.Value) bool {
			return string(value) == string(canonical)
		})
	})
}

// text returns the value of a JSON string.
func text(value jsontext.Value) (out string, isText bool) {
	if value.Kind() != '"' {
		return "", false
	}
	return out, json.Unmarshal(value, &out) == nil
}

// texts returns the value of a JSON string as a list, or that of an array of strings.
func texts(value jsontext.Value) (out []string, valid bool) {
	if one, isText := text(value); isText {
		return []string{one}, true
	}
	if value.Kind() != '[' {
		return nil, false
	}
	return out, json.Unmarshal(value, &out) == nil
}
