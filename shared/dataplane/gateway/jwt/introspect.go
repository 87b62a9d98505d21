package jwt

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/gatewright/gatewright/shared/base/coalesce"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/pipeline"
)

// Introspector asks the server that has issued a token whether the token is active (RFC 7662). It is for tokens that only
// this server can read. It is safe for concurrent use.
type Introspector struct {
	verifier                  *Verifier // checks the claims of responses
	address, clientID, secret string
	timeout, ttl              time.Duration
	requests                  coalesce.Group[*verified]
}

// Introspection has the options of an Introspector.
type Introspection struct {
	// Address is the address of the server, and ClientID and Secret are the gateway's credentials there.
	Address, ClientID, Secret string
	// Timeout limits a request. A response is used for TTL, and never after the token has expired.
	Timeout, TTL time.Duration
}

// Introspector returns an Introspector. Config has no keys. options identifies the options, as for Verifier.
func (c *Cache) Introspector(config Config, i Introspection, options []byte) *Introspector {
	config.isIntrospection, config.Skew = true, 0
	config.Keys = newKeySet(nil) // no key is fetched
	return &Introspector{
		verifier: c.Verifier(config, append([]byte("introspection:"), options...)), address: i.Address,
		clientID: i.ClientID, secret: i.Secret, timeout: i.Timeout, ttl: i.TTL,
	}
}

// Verify returns the user of an active token. If the token is not active, the error is an ErrInvalid. Any other error means
// that the server could not be asked.
func (i *Introspector) Verify(ctx context.Context, token string) (*pipeline.User, error) {
	if token == "" || len(token) > MaxBytes {
		return nil, invalid("it is empty or too long")
	}
	v := i.verifier
	id := digest(sha256.Sum256(append(v.salt[:], token...)))
	if known := v.cache.get(id); known != nil && known.isValidAt(v.config.Now(), 0) {
		return known.user, nil
	}
	t, err := i.requests.Do(ctx, string(id[:]), i.timeout, func(ctx context.Context) (*verified, error) {
		started := v.config.Now()
		t, err := i.request(ctx, token)
		if err != nil {
			return nil, err
		}
		if latest := started.Add(i.ttl); t.expireAt.IsZero() || t.expireAt.After(latest) {
			t.expireAt = latest
		}
		v.cache.put(id, t)
		return t, nil
	})
	if err != nil {
		return nil, err
	}
	return t.user, nil
}

// request sends a token to the server and checks the claims of the response.
func (i *Introspector) request(ctx context.Context, token string) (*verified, error) {
	form := url.Values{"token": {token}, "token_type_hint": {"access_token"}}.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, i.address, strings.NewReader(form))
	if err != nil {
		return nil, errors.New("jwt: the address of the introspection is malformed")
	}
	request.Header.Set("Accept", "application/json")
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("User-Agent", "Gatewright")
	request.SetBasicAuth(url.QueryEscape(i.clientID), url.QueryEscape(i.secret)) // RFC 6749, section 2.3.1
	response, err := i.verifier.config.Client.RoundTrip(request)
	if err != nil {
		return nil, fmt.Errorf("jwt: send the request for an introspection: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("jwt: the status of the introspection is %d, want 200: check the credentials",
			response.StatusCode)
	}
	document, err := io.ReadAll(io.LimitReader(response.Body, maxDocumentBytes+1))
	if err != nil || len(document) > maxDocumentBytes {
		return nil, errors.New("jwt: the response of the introspection is too large, or broke off")
	}
	var state struct {
		Active *bool `json:"active"`
	}
	if json.Unmarshal(document, &state) != nil || state.Active == nil {
		return nil, errors.New("jwt: the response of the introspection is not a JSON object with active")
	}
	if !*state.Active {
		return nil, invalid("its server says that it is not active")
	}
	return i.verifier.readClaims(document)
}
