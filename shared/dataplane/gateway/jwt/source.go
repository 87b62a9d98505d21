package jwt

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/gatewright/gatewright/shared/base/coalesce"
)

// The times of fetching keys (docs/policies.md#json-web-tokens).
const (
	// refreshAfter is the age of keys after which a request starts to fetch them again, without waiting.
	refreshAfter = 10 * time.Minute
	// usableFor is how long keys are used while the issuer cannot be reached.
	usableFor = time.Hour
	// refetchInterval is the minimum time between two fetches because of unknown keys, and between two refreshes.
	refetchInterval = 30 * time.Second
	// retryInterval is the minimum time between two fetches while there are no keys.
	retryInterval = 5 * time.Second
)

// fetchTimeout limits a fetch, including the discovery of the address.
const fetchTimeout = 5 * time.Second

// maxDocumentBytes is the maximum size of a document of an issuer.
const maxDocumentBytes = 512 << 10

// discoveryPath is the place of the document that names the keys of an issuer (OpenID Connect Discovery 1.0, section 4).
const discoveryPath = "/.well-known/openid-configuration"

// source fetches the keys of an issuer, and caches them. Concurrent requests share one fetch. It is safe for concurrent
// use.
type source struct {
	client          http.RoundTripper
	issuer, keysURL string
	now             func() time.Time

	fetches    coalesce.Group[*KeySet]
	refreshing atomic.Bool // while a refresh runs in the background

	mu     sync.Mutex // guards the fields below
	keys   *KeySet    // nil before the first successful fetch
	digest digest     // of the document with the keys
	// fetchedAt is when the last successful fetch began, and triedAt when the last fetch began.
	fetchedAt, triedAt time.Time
	err                error // of the last fetch
}

// current returns the keys. It fetches them if there are none, or if they are older than usableFor. If they are older than
// refreshAfter, it starts a fetch and returns the present keys.
func (s *source) current(ctx context.Context) (*KeySet, error) {
	now := s.now()
	s.mu.Lock()
	keys, age, sinceTry := s.keys, now.Sub(s.fetchedAt), now.Sub(s.triedAt)
	s.mu.Unlock()
	if keys == nil || age >= usableFor {
		return s.fetch(ctx, retryInterval)
	}
	if age >= refreshAfter && sinceTry >= refetchInterval && s.refreshing.CompareAndSwap(false, true) {
		go func() {
			defer s.refreshing.Store(false)
			// The error is kept for the requests that need newer keys.
			_, _ = s.fetch(context.WithoutCancel(ctx), refetchInterval)
		}()
	}
	return keys, nil
}

// refetch returns new keys for a token whose key is unknown. It fetches keys at most once in refetchInterval. In between,
// it returns the result of the last fetch.
func (s *source) refetch(ctx context.Context) (*KeySet, error) { return s.fetch(ctx, refetchInterval) }

// fetch fetches the keys, unless the last fetch began less than interval ago. Then it returns the result of that fetch.
func (s *source) fetch(ctx context.Context, interval time.Duration) (*KeySet, error) {
	keys, err := s.fetches.Do(ctx, "", fetchTimeout, func(ctx context.Context) (*KeySet, error) {
		started := s.now()
		s.mu.Lock()
		// After a clock was set back, the age of the last fetch is negative.
		if age := started.Sub(s.triedAt); !s.triedAt.IsZero() && age >= 0 && age < interval {
			defer s.mu.Unlock()
			return s.keys, s.err
		}
		s.triedAt = started
		s.mu.Unlock()
		document, keys, err := s.load(ctx)
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.err = err; err != nil {
			return nil, err
		}
		// Verified tokens are valid for a KeySet. So do not replace it if the document has not changed.
		if sum := digest(sha256.Sum256(document)); s.keys == nil || sum != s.digest {
			s.keys, s.digest = keys, sum
		}
		s.fetchedAt = started
		return s.keys, nil
	})
	if err != nil {
		return nil, fmt.Errorf("jwt: the keys of the issuer can't be fetched: %w", err)
	}
	return keys, nil
}

// load fetches the document with the keys.
func (s *source) load(ctx context.Context) ([]byte, *KeySet, error) {
	address := s.keysURL
	if address == "" {
		var err error
		if address, err = s.discover(ctx); err != nil {
			return nil, nil, err
		}
	}
	document, err := s.get(ctx, address)
	if err != nil {
		return nil, nil, fmt.Errorf("get the keys: %w", err)
	}
	keys, err := ParseKeys(document)
	if keys == nil {
		return nil, nil, err
	}
	return document, keys, nil // ParseKeys has skipped keys that are not public
}

// discover returns the address of the keys of the issuer.
func (s *source) discover(ctx context.Context) (string, error) {
	document, err := s.get(ctx, strings.TrimSuffix(s.issuer, "/")+discoveryPath)
	if err != nil {
		return "", fmt.Errorf("get the configuration of the issuer: %w", err)
	}
	var configuration struct {
		Issuer  string `json:"issuer"`
		KeysURL string `json:"jwks_uri"`
	}
	if json.Unmarshal(document, &configuration) != nil {
		return "", errors.New("the configuration of the issuer is not a JSON object without duplicate names")
	}
	if configuration.Issuer != s.issuer {
		return "", errors.New("the configuration of the issuer names another issuer: correct the option issuer")
	}
	if text := CheckURL(configuration.KeysURL); text != "" {
		return "", errors.New("jwks_uri in the configuration of the issuer is not an address of keys: " + text)
	}
	return configuration.KeysURL, nil
}

// get returns the body of a response. Its errors do not contain the address, which can have a secret.
func (s *source) get(ctx context.Context, address string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, errors.New("the address is malformed")
	}
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", "Gatewright")
	response, err := s.client.RoundTrip(request)
	if err != nil {
		return nil, fmt.Errorf("send the request: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the status of the response is %d, want 200 without a redirect", response.StatusCode)
	}
	if encoding := response.Header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return nil, errors.New("the response is compressed, although the request does not allow that")
	}
	document, err := io.ReadAll(io.LimitReader(response.Body, maxDocumentBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read the response: %w", err)
	}
	if len(document) > maxDocumentBytes {
		return nil, fmt.Errorf("the response has more than %d bytes", maxDocumentBytes)
	}
	return document, nil
}

// CheckURL returns "" for an address from which keys can be fetched. Otherwise it returns what to do. An address is
// https. It can be http for a host in a private network, where the names of hosts are not public and nobody on the way can
// replace the keys: the installation's rules for upstreams decide whether a project can call such a host.
func CheckURL(text string) string {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Hostname() == "" || u.Opaque != "" || u.Scheme != "https" && u.Scheme != "http":
		return "write an address such as https://login.example.com"
	case u.User != nil || u.Fragment != "":
		return "write an address without a user and a fragment"
	case u.Scheme == "http" && !isPrivateHost(u.Hostname()):
		return "write an address that begins with https://: http is only for hosts of a private network"
	}
	return ""
}

// privateSuffixes are the ends of names that are not in the public DNS.
var privateSuffixes = []string{".localhost", ".local", ".internal", ".home.arpa"}

// isPrivateHost reports whether a host has a name or an address that does not exist on the Internet.
func isPrivateHost(host string) bool {
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.IsPrivate() || addr.IsLoopback()
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if !strings.Contains(host, ".") {
		return true
	}
	for _, suffix := range privateSuffixes {
		if strings.HasSuffix(host, suffix) {
			return true
		}
	}
	return false
}
