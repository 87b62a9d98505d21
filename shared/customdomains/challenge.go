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

	"github.com/gatewright/gatewright/shared/listen/framing"
	"github.com/gatewright/gatewright/shared/store"
)

// challenge is how gateways answer an authority that looks whether a hostname is ours.
type challenge struct {
	store.Rest

	// ID is the custom domain's whose it is.
	ID string `dynamodbav:"id"`
	// Pending is the sealed key of what was ordered on PlacedOn.
	PlacedOn time.Time `dynamodbav:"placedOn"`
	Pending  []byte    `dynamodbav:"pending"`
	Token    string    `dynamodbav:"token"`
	KeyAuth  string    `dynamodbav:"keyAuth"`
	Chain    string    `dynamodbav:"chain"`
	Key      string    `dynamodbav:"key"`
	TTL      int64     `dynamodbav:"ttl"`
}

// challengeAge is how old what is known of a hostname's challenge may be. Anybody may ask for it, as
// often as they like; so a hostname costs a read in that time at most.
const challengeAge = time.Second

// challengeOf gives the challenge of a hostname that is served, the zero value for none.
func (d *Directory) challengeOf(ctx context.Context, hostname string) (challenge, error) {
	its, err := d.find(ctx, hostname)
	if err != nil || its == nil {
		return challenge{}, err
	}
	if known := its.challenge.Load(); known != nil {
		if age := d.now().Sub(known.looked); age >= 0 && age < challengeAge {
			return known.challenge, nil
		}
	}
	found, err := d.challenges.Do(ctx, hostname+" "+its.change, readTimeout, func(ctx context.Context) (*lookedUp, error) {
		found := &lookedUp{looked: d.now()}
		if err := d.table.Get(ctx, challengeKey(hostname), &found.challenge); err != nil && !errors.Is(err, store.ErrNotFound) {
			return nil, fmt.Errorf("read the challenge of a custom domain: %w", err)
		}
		if found.challenge.ID != its.host.ID { // of one that the hostname was before
			found.challenge = challenge{}
		}
		its.challenge.Store(found)
		return found, nil
	})
	if err != nil {
		return challenge{}, err
	}
	return found.challenge, nil
}

// lookedUp is a challenge as it was at a time.
type lookedUp struct {
	looked    time.Time
	challenge challenge
}

// Challenge implements handshake.Challenged: the answer to TLS-ALPN-01 (RFC 8737).
func (d *Directory) Challenge(ctx context.Context, name string) (*tls.Certificate, error) {
	c, err := d.challengeOf(ctx, name)
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

// Challenges answers HTTP-01 (RFC 8555, section 8.3) before a handler, where a challenge is under
// way at the host; all else is the handler's.
func (d *Directory) Challenges(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, ok := strings.CutPrefix(r.URL.Path, challengePath)
		if !ok || token == "" {
			next.ServeHTTP(w, r)
			return
		}
		c, err := d.challengeOf(r.Context(), framing.HostName(r.Host))
		if err != nil || subtle.ConstantTimeCompare([]byte(c.Token), []byte(token)) == 0 {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/octet-stream")
		_, _ = io.WriteString(w, c.KeyAuth)
	})
}
