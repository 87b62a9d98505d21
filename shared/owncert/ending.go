package owncert

import (
	"crypto/tls"
	"sync"
	"time"
)

// late is how long before its end a certificate should have been replaced: autocert begins 30 days
// before it, and so do those who write files.
const late = 10 * 24 * time.Hour

// ending remembers of which certificates it was told that they end soon.
type ending struct {
	mu   sync.Mutex
	told map[string]time.Time
}

// soon reports once a day, for each name, that a certificate ends soon which should have been replaced. One that is for some days
// alone never should have.
func (e *ending) soon(name string, its *tls.Certificate, now time.Time) bool {
	if its.Leaf == nil || its.Leaf.NotAfter.Sub(now) > late || its.Leaf.NotAfter.Sub(its.Leaf.NotBefore) < 2*late {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if now.Sub(e.told[name]) < 24*time.Hour {
		return false
	}
	if e.told == nil {
		e.told = map[string]time.Time{}
	}
	e.told[name] = now
	return true
}
