// Package sessions replaces account keys in browsers: a page exchanges the key once for a session, whose token is in a
// cookie that scripts cannot read. If scripts of an attacker run in the page, they can misuse the session while it
// lasts, but they cannot read the key.
//
// A session has the permissions of its key and ends with the key: each request also authenticates the key (package
// accounts). The session itself is read for each request, so that an ended session is invalid everywhere immediately. A
// session ends after IdleTimeout without use, and after MaxLifetime in any case.
//
// A token has 256 random bits and is stored only as a hash, like an account key (package accounts explains why SHA-256
// is sufficient). A token has the form of our credentials (package credential), so that logs do not show it and
// gateways do not send it to upstreams.
//
// The package does not know cookies or browsers. Package api decides which
// requests may use a session. Read this file first, then table.go (the records).
package sessions

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/format/credential"
	"github.com/gatewright/gatewright/shared/resource/accounts"
)

const (
	// IdleTimeout is how long a session lasts without use. It can be up to minExtension less, because shorter
	// extensions are not written.
	IdleTimeout = 30 * time.Minute
	// MaxLifetime is the maximum lifetime of a session.
	MaxLifetime = 12 * time.Hour
	// minExtension is the minimum extension of a session that is written
	// to the table. So there is at most one write per minute and session.
	minExtension = time.Minute
	// recordUseTimeout is the maximum time that the write of a session's use delays the end of a request.
	recordUseTimeout = time.Second

	idDigits = 24
)

// errSessionEnded is the error for a token without a session. It does not reveal whether the session ever existed.
var errSessionEnded = fault.New(fault.Unauthenticated,
	"The session has ended: it was signed out of, idle for %d minutes or open for %d hours, or its account key has "+
		"ended. Sign in again with an account key.",
	int(IdleTimeout.Minutes()), int(MaxLifetime.Hours()))

// errNotExtended means that the session has ended before it was
// extended, or that another process has already extended it.
var errNotExtended = errors.New("sessions: the session's use is noted, or it has ended")

// Service creates sessions, and authenticates requests with
// sessions or with account keys. It is safe for concurrent use.
type Service struct {
	*accounts.Service
	parts installation.Parts
}

// Open returns the Service of an installation. keys authenticates the account keys.
func Open(p installation.Parts, keys *accounts.Service) *Service { return &Service{keys, p} }

// Create creates a session of the caller's key. It returns the session and its token, which is not stored. The
// session ends no later than the key.
func (s *Service) Create(ctx context.Context, caller auth.Principal) (auth.Session, string, error) {
	now := store.Instant(s.parts.Now())
	token := credential.New(credential.SessionToken, s.parts.IDs)
	r := record{
		ID: s.parts.IDs.Ordered("sess", idDigits), AccountID: caller.AccountID, KeyID: caller.KeyID,
		Credential: caller.Credential,
		CreatedOn:  now, EndsOn: now.Add(MaxLifetime),
	}
	if caller.ExpiresOn != nil && caller.ExpiresOn.Before(r.EndsOn) {
		r.EndsOn = *caller.ExpiresOn
	}
	r.TTL = r.expiry(now)
	hash := hashOf(token)
	if err := s.parts.Table.Commit(ctx, store.Create(keyOf(hash), r), audit.Record(ctx, resource(r.ID))); err != nil {
		return auth.Session{}, "", fmt.Errorf("create a session: %w", err)
	}
	return r.session(hash), token, nil
}

// AuthenticateSession returns the principal of a session. It returns Unauthenticated for a token without a session,
// for a session that has ended, and for a session whose key has ended.
func (s *Service) AuthenticateSession(ctx context.Context, token string) (auth.Principal, error) {
	if !credential.WellFormed(credential.SessionToken, token) {
		return auth.Principal{}, errSessionEnded
	}
	hash := hashOf(token)
	var r record
	switch err := s.parts.Table.Get(ctx, keyOf(hash), &r); {
	case errors.Is(err, store.ErrNotFound):
		return auth.Principal{}, errSessionEnded
	case err != nil:
		return auth.Principal{}, fmt.Errorf("read a session: %w", err)
	}
	caller, err := s.AuthenticateHash(ctx, r.Credential)
	if fault.Is(err, fault.Unauthenticated) {
		return auth.Principal{}, errSessionEnded
	}
	if err != nil {
		return auth.Principal{}, err
	}
	session := r.session(hash)
	caller.Session = &session
	return caller, nil
}

// RecordUse records the use of a caller's key and of the caller's session, and extends the session. A request that a
// page sends automatically (auth.Session.Polled) does not extend the session. It writes in the background, because the
// request does not depend on it, and returns a function that waits for the writes.
func (s *Service) RecordUse(ctx context.Context, caller auth.Principal) (wait func()) {
	waitForKey := s.Service.RecordUse(ctx, caller)
	if caller.Session == nil || caller.Session.Polled {
		return waitForKey
	}
	session := *caller.Session
	ttl := record{EndsOn: session.ExpiresOn}.expiry(s.parts.Now())
	if ttl-session.IdleExpiresOn.Unix() < int64(minExtension/time.Second) {
		return waitForKey
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordUseTimeout)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer cancel()
		if err := s.extend(ctx, session.Hash, ttl); err != nil && !errors.Is(err, errNotExtended) {
			s.parts.Log.WarnContext(ctx, "the use of a session was not noted", "session", session.ID, "error", err)
		}
	}()
	return func() {
		waitForKey()
		<-done
	}
}

// extend sets the idle expiry of a session to ttl, in seconds since 1970, unless it is that late already. It does not
// restore a session that has ended meanwhile, even if the session has expired and is not deleted yet.
func (s *Service) extend(ctx context.Context, hash string, ttl int64) error {
	ctx = store.WithoutReadSet(ctx, "a condition on the session's own record fails if the session has ended")
	ttlPath := store.At(store.TTLAttribute)
	return s.parts.Table.Commit(ctx, store.Update(keyOf(hash), store.Set(ttlPath, ttl)).
		If(store.And(store.AtLeast(ttlPath, s.parts.Now().Unix()+1), store.Less(ttlPath, ttl))).Else(errNotExtended))
}

// Delete ends a session.
func (s *Service) Delete(ctx context.Context, session auth.Session) error {
	if err := s.parts.Table.Commit(ctx, store.Delete(keyOf(session.Hash)),
		audit.Record(ctx, resource(session.ID))); err != nil {
		return fmt.Errorf("end a session: %w", err)
	}
	return nil
}

// expiry returns the time when a session expires if now is its last use, in seconds since 1970.
func (r record) expiry(now time.Time) int64 { return min(now.Add(IdleTimeout).Unix(), r.EndsOn.Unix()) }

func (r record) session(hash string) auth.Session {
	return auth.Session{
		ID: r.ID, Hash: hash, CreatedOn: r.CreatedOn, ExpiresOn: r.EndsOn,
		IdleExpiresOn: time.Unix(r.TTL, 0).UTC(),
	}
}

func resource(id string) audit.Resource { return audit.Resource{Type: "session", ID: id} }

func hashOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}
