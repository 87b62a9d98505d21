package accounts

import (
	"context"
	"errors"
	"time"

	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/store"
)

// noteTimeout bounds how long a request is kept from its end by the note of its
// key's use.
const noteTimeout = time.Second

// errNoted says that another process was quicker, or that the key was revoked.
var errNoted = errors.New("accounts: the key's use is noted, or the key is gone")

// NoteUse notes that the key of a caller whom Authenticate has let pass is used today. It
// begins to, where nobody has yet, beside what the request does, and gives what
// waits for its end: the process may be frozen as soon as the request is answered.
// There is at most one write a day and key, and none that the request depends on:
// one that fails is made with a later request.
//
// It is also what lists the keys of earlier releases, which had no list: such a key is
// there from its first use on, before its request goes on.
func (s *Service) NoteUse(ctx context.Context, by auth.Principal) (wait func()) {
	sum, day := by.Credential, s.parts.Now().UTC().Format(time.DateOnly)
	key, due := s.cache.claimNote(sum, day)
	if !due {
		return func() {}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTimeout)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer cancel()
		if err := s.note(ctx, sum, key, day); err != nil && !errors.Is(err, errNoted) {
			s.parts.Log.WarnContext(ctx, "the use of an account key was not noted", "key", key.ID, "error", err)
		}
	}()
	wait = func() { <-done }
	if key.Form == 0 && key.LastUsedOn == "" {
		wait()
	}
	return wait
}

// note writes the day with the key, and the key's entry of the list with all that
// it holds. A key that was revoked meanwhile does not come back.
func (s *Service) note(ctx context.Context, sum string, k Key, day string) error {
	ctx = store.Undecided(ctx, "the key's own record says whether it is there")
	last := store.At("lastUsedOn")
	k.LastUsedOn = ""
	k = k.stored()
	used := []store.Change{store.Set(last, day)}
	if k.TTL > 0 {
		used = append(used, store.Set(store.At(store.TTLAttribute), k.TTL))
	}
	return s.parts.Table.Commit(ctx,
		store.Update(credentialKey(sum), used...).If(store.Or(store.Lacks(last), store.Less(last, day))).Else(errNoted),
		store.Upsert(keyKey(k.AccountID, k.ID), append(used, store.Set(store.At("key"), k), store.Set(store.At("hash"), sum))...))
}
