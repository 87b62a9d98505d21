package customdomains

import (
	"context"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/gatewright/gatewright/shared/store"
)

// challenge is how gateways answer an authority that looks whether a hostname is ours.
type challenge struct {
	// Order is the operation whose it is, and Pending the sealed key of what it has ordered.
	Order   string `dynamodbav:"order"`
	Pending []byte `dynamodbav:"pending"`
	Token   string `dynamodbav:"token"`
	KeyAuth string `dynamodbav:"keyAuth"`
	Chain   string `dynamodbav:"chain"`
	Key     string `dynamodbav:"key"`
	TTL     int64  `dynamodbav:"ttl"`
}

// challenge reads the challenge of a hostname that is served, the zero value for none. It is read
// for each that asks: there are few, and what is there changes within seconds.
func (d *Directory) challenge(ctx context.Context, hostname string) (c challenge, err error) {
	if its, err := d.find(ctx, hostname); err != nil || its == nil {
		return challenge{}, err
	}
	if err := d.table.Get(ctx, challengeKey(hostname), &c); err != nil && !errors.Is(err, store.ErrNotFound) {
		return challenge{}, fmt.Errorf("read the challenge of a custom domain: %w", err)
	}
	return c, nil
}

// Challenge implements handshake.Challenged: the answer to TLS-ALPN-01 (RFC 8737).
func (d *Directory) Challenge(ctx context.Context, name string) (*tls.Certificate, error) {
	c, err := d.challenge(ctx, name)
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
		host := strings.ToLower(r.Host)
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		c, err := d.challenge(r.Context(), host)
		if err != nil || c.Token == "" || subtle.ConstantTimeCompare([]byte(c.Token), []byte(token)) == 0 {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/octet-stream")
		_, _ = io.WriteString(w, c.KeyAuth)
	})
}
