package certificates

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

	"github.com/gatewright/gatewright/shared/bounded"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/flight"
	"github.com/gatewright/gatewright/shared/pki"
	"github.com/gatewright/gatewright/shared/store"
)

const (
	// Staleness is how long after a change of an account's CAs a gateway may go by what
	// was before: it looks that often whether the set has changed, with one small read
	// for each account that is in use. While it cannot look, nobody is let in.
	Staleness = 2 * time.Second
	// readTimeout bounds a look, so that a change holds within 5 s whatever happens.
	readTimeout = 2 * time.Second
	// pauseAfter is how long nobody looks again after a look in vain.
	pauseAfter = time.Second
	// maxAccounts and maxVerdicts bound what is remembered: of accounts, and of chains
	// of each.
	maxAccounts = 4096
	maxVerdicts = 4096
	// refusedFor is how long a refusal is remembered.
	refusedFor = 5 * time.Second
	// maxSignatures is how many are tried to see which intermediates are vouched for, as
	// many as x509 tries for a path.
	maxSignatures = 100
	// maxHintBytes bounds the names of CAs in a handshake. It has to stay below 64 KiB,
	// past which there is no handshake, and is what clients take as a rule: 32 KiB of
	// Java's, with the rest of the message.
	maxHintBytes = 16 << 10
)

// errUntrusted is of a chain that leads to none of the account's CAs, whatever the
// reason.
var errUntrusted = fault.New(fault.Unauthenticated, "The client's certificate leads to none of the account's CAs.")

// Trust tells which clients' certificates an account trusts, for a gateway. It is safe
// for concurrent use.
//
// It is asked for each request, and not for each connection alone: a connection, or a
// TLS session that is resumed, may be older than the removal of a CA.
type Trust struct {
	table   *store.Table
	now     func() time.Time
	flights flight.Group[*trusted]

	mu    sync.Mutex
	known map[string]*trusted
}

// NewTrust makes a Trust over a table.
func NewTrust(table *store.Table, now func() time.Time) *Trust {
	return &Trust{table: table, now: now, known: map[string]*trusted{}}
}

// trusted is what is known of an account. It is replaced, never changed, but for its
// verdicts.
type trusted struct {
	version int64
	// looked is when the look began that it is of.
	looked time.Time
	// failure is why the last look had no answer.
	failure error
	*pool
}

// pool is a set of CAs and what was found out by it.
type pool struct {
	roots *x509.CertPool // nil for no CA
	// hints are the roots whose names go along in a handshake, nil for no CA.
	hints     *x509.CertPool
	hintBytes int
	cas       []*x509.Certificate
	names     map[string]bool // of cas, as pki.Name has them

	mu       sync.Mutex
	verdicts map[chainHash]verdict
}

type chainHash [sha256.Size]byte

type verdict struct {
	trusted     bool
	from, until time.Time
}

// Hints gives the CAs of an account whose names go along in a handshake: nil for an
// account without CAs, and none where all their names are too long. The caller must
// not change them.
func (t *Trust) Hints(ctx context.Context, accountID string) (*x509.CertPool, error) {
	its, err := t.of(ctx, accountID)
	if err != nil {
		return nil, err
	}
	return its.hints, nil
}

// Verify answers nil if a client's chain, its own certificate first, leads to one of
// the account's CAs now and is for clients, a fault of the kind fault.Unauthenticated if
// it does not, and any other error if nobody knows.
func (t *Trust) Verify(ctx context.Context, accountID string, chain []*x509.Certificate) error {
	its, err := t.of(ctx, accountID)
	if err != nil {
		return err
	}
	if its.roots == nil || len(chain) == 0 || len(chain) > pki.MaxChain {
		return errUntrusted
	}
	now, hash := t.now(), hashOf(chain)
	v, ok := its.find(hash)
	if !ok || now.Before(v.from) || !now.Before(v.until) {
		v = its.judge(chain, now)
		its.remember(hash, v)
	}
	if !v.trusted {
		return errUntrusted
	}
	return nil
}

// hashOf names a chain: the lengths keep two chains apart whose bytes are the same.
func hashOf(chain []*x509.Certificate) (out chainHash) {
	h := sha256.New()
	for _, c := range chain {
		h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(c.Raw)))) //nolint:gosec // G115: a handshake's message is shorter
		h.Write(c.Raw)
	}
	h.Sum(out[:0])
	return out
}

// judge verifies a chain. The answer holds as long as each certificate of the path
// that was found is valid.
func (p *pool) judge(chain []*x509.Certificate, now time.Time) verdict {
	refused := verdict{from: now, until: now.Add(refusedFor)}
	if !pki.MaySign(chain[0]) {
		return refused
	}
	intermediates := x509.NewCertPool()
	vouched, _ := p.vouched(chain[1:])
	for _, c := range vouched {
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

// vouched are those of a client's intermediates that one of the CAs has signed, or one
// that is vouched for itself. Others lead nowhere, but have x509 try a hundred
// signatures by keys that a stranger has chosen: half a second with RSA of 8192 bits
// and a large exponent.
//
// None of them has the name of one of the account's CAs, which routes know their
// clients' issuers by, unless that CA itself has signed it. left is what remains of
// maxSignatures.
func (p *pool) vouched(chain []*x509.Certificate) (out []*x509.Certificate, left int) {
	signers, left := slices.Clone(p.cas), maxSignatures
	chain = slices.Clone(chain)
	for i := 0; i < len(signers) && len(chain) > 0; i++ {
		by := signers[i]
		chain = slices.DeleteFunc(chain, func(c *x509.Certificate) bool {
			itself := bytes.Equal(c.RawSubject, by.RawSubject)
			if !bytes.Equal(c.RawIssuer, by.RawSubject) || !itself && p.names[pki.Name(c.RawSubject)] || left == 0 {
				return false
			}
			left--
			if c.CheckSignatureFrom(by) != nil {
				return false
			}
			signers = append(signers, c)
			return true
		})
	}
	return signers[len(p.cas):], left
}

func (p *pool) find(hash chainHash) (verdict, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	v, ok := p.verdicts[hash]
	return v, ok
}

func (p *pool) remember(hash chainHash, v verdict) {
	p.mu.Lock()
	defer p.mu.Unlock()
	bounded.Put(p.verdicts, hash, v, maxVerdicts)
}

// of gives what is known of an account, and looks where that is too old.
func (t *Trust) of(ctx context.Context, accountID string) (*trusted, error) {
	its := t.find(accountID)
	if now := t.now(); its != nil {
		switch age := now.Sub(its.looked); {
		case age < 0: // the clock was set back: it is unknown how old it is
		case its.failure == nil && age < Staleness:
			return its, nil
		case its.failure != nil && age < pauseAfter:
			return nil, its.failure
		}
	}
	return t.flights.Do(ctx, accountID, readTimeout, func(ctx context.Context) (*trusted, error) {
		its := t.look(ctx, accountID, t.find(accountID))
		t.keep(accountID, its)
		return its, its.failure
	})
}

func (t *Trust) find(accountID string) *trusted {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.known[accountID]
}

func (t *Trust) keep(accountID string, its *trusted) {
	t.mu.Lock()
	defer t.mu.Unlock()
	bounded.Put(t.known, accountID, its, maxAccounts)
}

// look reads the version of the set, and the set where that is another than before. It
// is read behind its version: at worst it is newer, and is read once more.
func (t *Trust) look(ctx context.Context, accountID string, before *trusted) *trusted {
	its := &trusted{looked: t.now()}
	current, err := readSet(ctx, t.table, accountID)
	if err != nil {
		its.failure = err
		return its
	}
	its.version = current.Version
	if before != nil && before.failure == nil && before.version == current.Version {
		its.pool = before.pool
		return its
	}
	its.pool = &pool{verdicts: map[chainHash]verdict{}}
	if current.Count == 0 {
		return its
	}
	all, err := records(ctx, t.table, accountID)
	if err != nil {
		its.failure = err
		return its
	}
	for _, r := range all {
		c, err := x509.ParseCertificate(r.Certificate)
		if err != nil {
			its.failure = fmt.Errorf("read the stored certificate of the CA %s: %w", r.ID, err)
			return its
		}
		its.add(c)
	}
	return its
}

// add takes a CA into a pool that nobody uses yet.
func (p *pool) add(c *x509.Certificate) {
	if p.roots == nil {
		p.roots, p.hints, p.names = x509.NewCertPool(), x509.NewCertPool(), map[string]bool{}
	}
	p.roots.AddCert(c)
	p.cas = append(p.cas, c)
	p.names[pki.Name(c.RawSubject)] = true
	if slices.ContainsFunc(p.cas[:len(p.cas)-1], func(o *x509.Certificate) bool { return bytes.Equal(o.RawSubject, c.RawSubject) }) {
		return // its name is told already
	}
	// All of them or none: a client shows nothing that it does not find its CA for.
	if p.hintBytes += len(c.RawSubject); p.hintBytes > maxHintBytes {
		p.hints = x509.NewCertPool()
		return
	}
	p.hints.AddCert(c)
}
