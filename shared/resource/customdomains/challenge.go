package customdomains

import (
	"context"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/gatewright/gatewright/shared/base/framing"
	"github.com/gatewright/gatewright/shared/core/store"
)

// challengePrefix is the key prefix of challenges. While a certificate is ordered, gateways respond to the certificate
// authority with the hostname's challenge.
const challengePrefix store.KeyPrefix = "custom-domain-challenge"

// challenge contains a gateway's responses to a certificate authority that validates a hostname.
type challenge struct {
	store.UnknownAttributes

	// ID is the id of the custom domain.
	ID string `dynamodbav:"id"`
	// OrderedOn is the time of the order. SealedKey is the sealed private key of the ordered certificate.
	OrderedOn time.Time `dynamodbav:"placedOn"`
	SealedKey []byte    `dynamodbav:"pending"`
	Token     string    `dynamodbav:"token"`
	KeyAuth   string    `dynamodbav:"keyAuth"`
	Chain     string    `dynamodbav:"chain"`
	Key       string    `dynamodbav:"key"`
	TTL       int64     `dynamodbav:"ttl"`
}

func challengeKey(hostname string) store.Key { return challengePrefix.Key(hostname) }

// challengeAge is the maximum age of a cached challenge. Any client may request a challenge at any rate, so the cache
// limits the reads of a gateway to one per hostname and second.
const challengeAge = time.Second

// currentChallenge returns the challenge of a custom domain's hostname, or the zero value if no order is in progress.
func (d *Directory) currentChallenge(ctx context.Context, hostname string) (challenge, error) {
	e, err := d.find(ctx, hostname)
	if err != nil || e == nil {
		return challenge{}, err
	}
	if cached := e.challenge.Load(); cached != nil {
		if age := d.now().Sub(cached.readAt); age >= 0 && age < challengeAge {
			return cached.challenge, nil
		}
	}
	found, err := d.challenges.Do(ctx, hostname+" "+e.change, readTimeout,
		func(ctx context.Context) (*cachedChallenge, error) {
			found := &cachedChallenge{readAt: d.now()}
			if err := d.table.Get(ctx, challengeKey(hostname), &found.challenge); err != nil &&
				!errors.Is(err, store.ErrNotFound) {
				return nil, fmt.Errorf("read the challenge of a custom domain: %w", err)
			}
			if found.challenge.ID != e.host.ID { // the challenge belongs to an earlier custom domain with this hostname
				found.challenge = challenge{}
			}
			e.challenge.Store(found)
			return found, nil
		})
	if err != nil {
		return challenge{}, err
	}
	return found.challenge, nil
}

// cachedChallenge is a challenge with the time when it was read.
type cachedChallenge struct {
	readAt    time.Time
	challenge challenge
}

// Challenge implements handshake.ChallengeSource: it returns the certificate for TLS-ALPN-01 (RFC 8737).
func (d *Directory) Challenge(ctx context.Context, name string) (*tls.Certificate, error) {
	c, err := d.currentChallenge(ctx, name)
	if err != nil || c.Chain == "" {
		return nil, err
	}
	pair, err := tls.X509KeyPair([]byte(c.Chain), []byte(c.Key))
	if err != nil {
		return nil, fmt.Errorf("read the challenge of a custom domain: %w", err)
	}
	return &pair, nil
}

const challengePath = "/.well-known/acme-challenge/"

// Challenges responds to HTTP-01 (RFC 8555, section 8.3) if the request's host has a challenge with this token. It
// passes all other requests to next.
func (d *Directory) Challenges(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, ok := strings.CutPrefix(r.URL.Path, challengePath)
		if !ok || token == "" {
			next.ServeHTTP(w, r)
			return
		}
		c, err := d.currentChallenge(r.Context(), framing.HostName(r.Host))
		if err != nil || subtle.ConstantTimeCompare([]byte(c.Token), []byte(token)) == 0 {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/octet-stream")
		_, _ = io.WriteString(w, c.KeyAuth)
	})
}
