package clientcas

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gatewright/gatewright/shared/base/bounded"
	"github.com/gatewright/gatewright/shared/base/coalesce"
	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/base/pki"
	"github.com/gatewright/gatewright/shared/core/store"
)

const (
	// Staleness is the maximum time that a gateway uses the previous set of CAs after an account has changed its CAs.
	// If its state of an account is older, a gateway first checks whether the set has changed. A check takes one
	// small read. While checks of an account fail, Verify returns their error for all its clients.
	Staleness = 2 * time.Second
	// readTimeout limits a check, so that a change takes effect within 5 s in any case.
	readTimeout = 2 * time.Second
	// retryDelay is the pause after a failed check.
	retryDelay = time.Second
	// maxAccounts and maxVerdicts are the maximum numbers of cached accounts and of cached verdicts of each account.
	maxAccounts = 4096
	maxVerdicts = 4096
	// refusalTTL is how long a refusal is cached.
	refusalTTL = 5 * time.Second
	// maxSignatures is the maximum number of signatures that are verified to find the trusted intermediates.
	// x509 has the same limit for a path.
	maxSignatures = 100
	// maxHintBytes is the maximum size of the CA names in a handshake. A handshake with 64 KiB or more fails. The limit
	// is lower because of clients: Java accepts messages of up to 32 KiB.
	maxHintBytes = 16 << 10
)

// errUntrusted is the error for every chain that is not trusted, for any reason.
var errUntrusted = fault.New(fault.Unauthenticated, "The client's certificate leads to none of the account's CAs.")

// Trust decides for a gateway which clients' certificates an account trusts. It is safe for concurrent use.
//
// Call Verify for each request, and not only for each connection: a connection,
// or a TLS session that is resumed, may be older than the deletion of a CA.
type Trust struct {
	table        *store.Table
	now          func() time.Time
	singleflight coalesce.Group[*cachedAccount]

	mu     sync.Mutex
	cached map[string]*cachedAccount
}

// NewTrust returns a Trust over a table.
func NewTrust(table *store.Table, now func() time.Time) *Trust {
	return &Trust{table: table, now: now, cached: map[string]*cachedAccount{}}
}

// cachedAccount is the cached state of an account. It is replaced, never modified, except for its verdicts.
type cachedAccount struct {
	version int64
	// checkedAt is the time when the check began.
	checkedAt time.Time
	// err is the error of the last check, nil for none.
	err error
	*pool
}

// pool is a set of CAs with the cached verdicts on clients' chains.
type pool struct {
	roots *x509.CertPool // nil for no CA
	// hints are the roots whose names a handshake contains. They are nil for no CA, and empty if all names together
	// are too long. hintBytes is the total size of the names.
	hints     *x509.CertPool
	hintBytes int
	cas       []*x509.Certificate
	names     map[string]bool // the names of cas, as pki.Name returns them

	mu       sync.Mutex
	verdicts map[chainHash]verdict
}

// chainHash is the hash of a client's chain (hashChain).
type chainHash [sha256.Size]byte

// verdict is the result of verifying a chain. It is valid from the time from, and before the time until.
type verdict struct {
	trusted     bool
	from, until time.Time
}

// Hints returns the CAs of an account whose names a handshake should contain. It returns nil for an account
// without CAs, and an empty pool if all their names together are too long. The caller must not change the pool.
func (t *Trust) Hints(ctx context.Context, accountID string) (*x509.CertPool, error) {
	account, err := t.cachedState(ctx, accountID)
	if err != nil {
		return nil, err
	}
	return account.hints, nil
}

// Verify returns nil if a client's chain leads to one of the account's current CAs and the client's certificate is for
// clients. chain begins with the client's own certificate. For any other chain, Verify returns a fault of the kind
// fault.Unauthenticated. It returns any other error if the result is unknown.
func (t *Trust) Verify(ctx context.Context, accountID string, chain []*x509.Certificate) error {
	account, err := t.cachedState(ctx, accountID)
	if err != nil {
		return err
	}
	if account.roots == nil || len(chain) == 0 || len(chain) > pki.MaxChain {
		return errUntrusted
	}
	now, hash := t.now(), hashChain(chain)
	v, ok := account.find(hash)
	if !ok || now.Before(v.from) || !now.Before(v.until) {
		v = account.verify(chain, now)
		account.store(hash, v)
	}
	if !v.trusted {
		return errUntrusted
	}
	return nil
}

// hashChain returns the hash of a chain. It hashes the lengths of the certificates, too, so that different chains with
// the same concatenated bytes have different hashes.
func hashChain(chain []*x509.Certificate) (out chainHash) {
	h := sha256.New()
	for _, c := range chain {
		//nolint:gosec // G115: a handshake's message is shorter
		h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(c.Raw))))
		h.Write(c.Raw)
	}
	h.Sum(out[:0])
	return out
}

// verify verifies a chain. A positive verdict is valid as long as each certificate of the path that was found is
// valid. A refusal is valid for refusalTTL.
func (p *pool) verify(chain []*x509.Certificate, now time.Time) verdict {
	refused := verdict{from: now, until: now.Add(refusalTTL)}
	if !pki.CanSign(chain[0]) {
		return refused
	}
	intermediates := x509.NewCertPool()
	trusted, _ := p.trustedIntermediates(chain[1:])
	for _, c := range trusted {
		intermediates.AddCert(c)
	}
	paths, err := chain[0].Verify(x509.VerifyOptions{
		Roots: p.roots, Intermediates: intermediates, CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return refused
	}
	v := verdict{trusted: true, from: paths[0][0].NotBefore, until: paths[0][0].NotAfter}
	for _, c := range paths[0][1:] {
		if c.NotBefore.After(v.from) {
			v.from = c.NotBefore
		}
		if c.NotAfter.Before(v.until) {
			v.until = c.NotAfter
		}
	}
	return v
}

// trustedIntermediates returns those of a client's intermediates that are signed by one of the CAs, or by another
// trusted intermediate. The other intermediates cannot be part of a path, but x509 would verify up to a hundred
// signatures with keys that a stranger has chosen. This would take half a second with RSA of 8192 bits and a large
// exponent.
//
// No returned intermediate has the name of one of the account's CAs, unless it is signed by a certificate with the same
// name: routes identify their clients' issuers by these names. remaining is the number of signatures that may still be
// verified.
func (p *pool) trustedIntermediates(chain []*x509.Certificate) (out []*x509.Certificate, remaining int) {
	signers, remaining := slices.Clone(p.cas), maxSignatures
	chain = slices.Clone(chain)
	for i := 0; i < len(signers) && len(chain) > 0; i++ {
		signer := signers[i]
		chain = slices.DeleteFunc(chain, func(c *x509.Certificate) bool {
			selfIssued := bytes.Equal(c.RawSubject, signer.RawSubject)
			if !bytes.Equal(c.RawIssuer, signer.RawSubject) || !selfIssued && p.names[pki.Name(c.RawSubject)] || remaining == 0 {
				return false
			}
			remaining--
			if c.CheckSignatureFrom(signer) != nil {
				return false
			}
			signers = append(signers, c)
			return true
		})
	}
	return signers[len(p.cas):], remaining
}

func (p *pool) find(hash chainHash) (verdict, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	v, ok := p.verdicts[hash]
	return v, ok
}

func (p *pool) store(hash chainHash, v verdict) {
	p.mu.Lock()
	defer p.mu.Unlock()
	bounded.Put(p.verdicts, hash, v, maxVerdicts)
}

// cachedState returns the cached state of an account. If the state is too old, cachedState refreshes it first.
func (t *Trust) cachedState(ctx context.Context, accountID string) (*cachedAccount, error) {
	account := t.find(accountID)
	if now := t.now(); account != nil {
		switch age := now.Sub(account.checkedAt); {
		case age < 0: // the clock was set back, so the real age is not known: refresh
		case account.err == nil && age < Staleness:
			return account, nil
		case account.err != nil && age < retryDelay:
			return nil, account.err
		}
	}
	return t.singleflight.Do(ctx, accountID, readTimeout, func(ctx context.Context) (*cachedAccount, error) {
		account := t.refresh(ctx, accountID, t.find(accountID))
		t.store(accountID, account)
		return account, account.err
	})
}

func (t *Trust) find(accountID string) *cachedAccount {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.cached[accountID]
}

func (t *Trust) store(accountID string, account *cachedAccount) {
	t.mu.Lock()
	defer t.mu.Unlock()
	bounded.Put(t.cached, accountID, account, maxAccounts)
}

// refresh returns the new state of an account. It reads the version of the set, and also the set if its version has
// changed. If a read fails, the state has the error. The set is read after the version, so it may be newer than the
// version. In this case, the next refresh reads the set again.
func (t *Trust) refresh(ctx context.Context, accountID string, before *cachedAccount) *cachedAccount {
	account := &cachedAccount{checkedAt: t.now()}
	current, err := readSet(ctx, t.table, accountID)
	if err != nil {
		account.err = err
		return account
	}
	account.version = current.Version
	if before != nil && before.err == nil && before.version == current.Version {
		account.pool = before.pool
		return account
	}
	account.pool = &pool{verdicts: map[chainHash]verdict{}}
	if current.Count == 0 {
		return account
	}
	all, err := records(ctx, t.table, accountID)
	if err != nil {
		account.err = err
		return account
	}
	for _, r := range all {
		c, err := x509.ParseCertificate(r.Certificate)
		if err != nil {
			account.err = fmt.Errorf("read the stored certificate of the CA %s: %w", r.ID, err)
			return account
		}
		account.add(c)
	}
	return account
}

// add adds a CA to a pool that is not in use yet.
func (p *pool) add(c *x509.Certificate) {
	if p.roots == nil {
		p.roots, p.hints, p.names = x509.NewCertPool(), x509.NewCertPool(), map[string]bool{}
	}
	p.roots.AddCert(c)
	p.cas = append(p.cas, c)
	p.names[pki.Name(c.RawSubject)] = true
	if slices.ContainsFunc(p.cas[:len(p.cas)-1], func(o *x509.Certificate) bool {
		return bytes.Equal(o.RawSubject, c.RawSubject)
	}) {
		return // hints already contain its name
	}
	// Hints contain the names of all CAs or of none: a client does not present a certificate if its CA is missing in
	// the list.
	if p.hintBytes += len(c.RawSubject); p.hintBytes > maxHintBytes {
		p.hints = x509.NewCertPool()
		return
	}
	p.hints.AddCert(c)
}
