// Package sessions has what stands for an account key in a browser: the key is exchanged once for a session, whose token
// a cookie holds that no script reads. What a page can lose is a session of minutes, and never the key.
//
// A session may what its key may, and ends with it: each request looks for the key, too, as package accounts does by the
// key's text. The session itself is read each time, so that one that was ended is over everywhere at once. It ends after
// Idle without a request, and after Life in any case.
//
// A token has 256 random bits, and is stored as a hash alone, as an account key is (package accounts says why SHA-256
// suffices). It has the form of our credentials (package credential), so that no log shows it and no gateway sends it to an
// upstream.
//
// What it is not: it knows no cookie, and no browser; package api decides for which requests a session counts. Read this
// file first; table.go says where records stand.
package sessions

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/gatewright/gatewright/shared/accounts"
	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/credential"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/store"
)

const (
	// Idle is how long a session lasts without being used.
	Idle = 30 * time.Minute
	// Life is how long one lasts however much it is used.
	Life = 12 * time.Hour
	// noted is how much later its end has to be for a use to be written: once a minute at most.
	noted = time.Minute
	// noteTimeout bounds how long a request is kept from its end by the note of its session's use.
	noteTimeout = time.Second

	idDigits = 24
)

// errEnded is the answer to a token of no session that there is: whether there ever was one nobody learns.
var errEnded = fault.New(fault.Unauthenticated,
	"The session has ended: it was signed out of, idle for %d minutes or open for %d hours, or its account key has ended. Sign in again with an account key.",
	int(Idle.Minutes()), int(Life.Hours()))

// errOver says that a session whose use was to be noted has ended meanwhile, or that another process was quicker.
var errOver = errors.New("sessions: the session's use is noted, or it has ended")

// Service makes sessions, and recognises them and account keys. It is safe for concurrent use.
type Service struct {
	*accounts.Service
	parts installation.Parts
}

// Open makes the Service of an installation, whose keys are those of keys.
func Open(p installation.Parts, keys *accounts.Service) *Service { return &Service{keys, p} }

// Create makes a session of the key by which the caller asks, and gives its token, which is stored nowhere. It ends
// no later than the key.
func (s *Service) Create(ctx context.Context, by auth.Principal) (auth.Session, string, error) {
	now := store.Instant(s.parts.Now())
	token := credential.New(credential.SessionToken, s.parts.IDs)
	r := record{
		ID: s.parts.IDs.Ordered("sess", idDigits), AccountID: by.AccountID, KeyID: by.KeyID, Credential: by.Credential,
		CreatedOn: now, EndsOn: now.Add(Life),
	}
	if by.ExpiresOn != nil && by.ExpiresOn.Before(r.EndsOn) {
		r.EndsOn = *by.ExpiresOn
	}
	r.TTL = r.ends(now)
	hash := hashOf(token)
	if err := s.parts.Table.Commit(ctx, store.Create(keyOf(hash), r), audit.Record(ctx, resource(r.ID))); err != nil {
		return auth.Session{}, "", fmt.Errorf("create a session: %w", err)
	}
	return r.session(hash), token, nil
}

// AuthenticateSession returns who asks by a session. Fault: Unauthenticated for a token of none, for one that has ended, and
// for one whose key has.
func (s *Service) AuthenticateSession(ctx context.Context, token string) (auth.Principal, error) {
	if !credential.WellFormed(credential.SessionToken, token) {
		return auth.Principal{}, errEnded
	}
	hash := hashOf(token)
	var r record
	switch err := s.parts.Table.Get(ctx, keyOf(hash), &r); {
	case errors.Is(err, store.ErrNotFound):
		return auth.Principal{}, errEnded
	case err != nil:
		return auth.Principal{}, fmt.Errorf("read a session: %w", err)
	}
	by, err := s.Recognise(ctx, r.Credential)
	if fault.Is(err, fault.Unauthenticated) {
		return auth.Principal{}, errEnded
	}
	if err != nil {
		return auth.Principal{}, err
	}
	session := r.session(hash)
	by.Session = &session
	return by, nil
}

// NoteUse notes that a caller's key is used, and that their session is, whose end it moves. It is made beside what the request does, which does
// not depend on it, and gives what waits for its end.
func (s *Service) NoteUse(ctx context.Context, by auth.Principal) (wait func()) {
	key := s.Service.NoteUse(ctx, by)
	if by.Session == nil || by.Session.Polled {
		return key
	}
	session := *by.Session
	ttl := record{EndsOn: session.EndsOn}.ends(s.parts.Now())
	if ttl-session.IdleOn.Unix() < int64(noted/time.Second) {
		return key
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTimeout)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer cancel()
		if err := s.extend(ctx, session.Hash, ttl); err != nil && !errors.Is(err, errOver) {
			s.parts.Log.WarnContext(ctx, "the use of a session was not noted", "session", session.ID, "error", err)
		}
	}()
	return func() {
		key()
		<-done
	}
}

// extend moves the end of a session to ttl. One that has ended meanwhile does not come back, whether it was ended or has run out and
// nothing has deleted it yet.
func (s *Service) extend(ctx context.Context, hash string, ttl int64) error {
	ctx = store.Undecided(ctx, "the session's own record says whether it is there")
	end := store.At(store.TTLAttribute)
	return s.parts.Table.Commit(ctx, store.Update(keyOf(hash), store.Set(end, ttl)).
		If(store.And(store.AtLeast(end, s.parts.Now().Unix()+1), store.Less(end, ttl))).Else(errOver))
}

// Delete ends a session.
func (s *Service) Delete(ctx context.Context, of auth.Session) error {
	if err := s.parts.Table.Commit(ctx, store.Delete(keyOf(of.Hash)), audit.Record(ctx, resource(of.ID))); err != nil {
		return fmt.Errorf("end a session: %w", err)
	}
	return nil
}

// ends is when the session ends that is used now, in seconds since 1970.
func (r record) ends(now time.Time) int64 { return min(now.Add(Idle).Unix(), r.EndsOn.Unix()) }

func (r record) session(hash string) auth.Session {
	return auth.Session{ID: r.ID, Hash: hash, CreatedOn: r.CreatedOn, EndsOn: r.EndsOn, IdleOn: time.Unix(r.TTL, 0).UTC()}
}

func resource(id string) audit.Resource { return audit.Resource{Type: "session", ID: id} }

func hashOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}
