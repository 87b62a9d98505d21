package servercert

import (
	"crypto/tls"
	"sync"
	"time"
)

// renewalMargin is the remaining validity at which a certificate should already have been replaced.
// autocert, like tools that write certificate files, starts renewals 30 days before the expiry.
const renewalMargin = 10 * 24 * time.Hour

// expiryWarnings stores, for each name, the time of the last warning that its certificate expires soon.
type expiryWarnings struct {
	mu       sync.Mutex
	warnedAt map[string]time.Time
}

// shouldWarn reports whether to warn now that the certificate of a name expires soon. It returns true at most once a
// day for each name. It ignores certificates with a lifetime of less than twice renewalMargin, which would expire soon
// for most of their lifetime.
func (e *expiryWarnings) shouldWarn(name string, cert *tls.Certificate, now time.Time) bool {
	if cert.Leaf == nil || cert.Leaf.NotAfter.Sub(now) > renewalMargin ||
		cert.Leaf.NotAfter.Sub(cert.Leaf.NotBefore) < 2*renewalMargin {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if now.Sub(e.warnedAt[name]) < 24*time.Hour {
		return false
	}
	if e.warnedAt == nil {
		e.warnedAt = map[string]time.Time{}
	}
	e.warnedAt[name] = now
	return true
}
