package accounts

import (
	"context"
	"errors"
	"time"

	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/store"
)

// recordUseTimeout is the maximum time for which a request waits until the use of its key is recorded.
const recordUseTimeout = time.Second

// errUseRecorded means that another process has already recorded the use, or that the key was revoked.
var errUseRecorded = errors.New("accounts: the key's use is noted, or the key is gone")

// RecordUse records that the key of an authenticated caller is used today. If this process has not recorded it yet,
// RecordUse starts a write in the background. It returns a function that waits for that write, because the process may
// be frozen after the response. At most one write per key and day succeeds, and no request depends on it: if a write
// fails, a request after cacheTTL or in another process repeats it.
//
// RecordUse also adds the keys of earlier releases to the list, because those releases had no list. Such a key is in
// the list before the first request with it continues, unless the write fails.
func (s *Service) RecordUse(ctx context.Context, caller auth.Principal) (wait func()) {
	sum, day := caller.Credential, s.parts.Now().UTC().Format(time.DateOnly)
	key, due := s.cache.claimUse(sum, day)
	if !due {
		return func() {}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordUseTimeout)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer cancel()
		if err := s.writeUse(ctx, sum, key, day); err != nil && !errors.Is(err, errUseRecorded) {
			s.parts.Log.WarnContext(ctx, "the use of an account key was not noted", "key", key.ID, "error", err)
		}
	}()
	wait = func() { <-done }
	if key.Form == 0 && key.LastUsedOn == "" {
		wait()
	}
	return wait
}

// writeUse writes the day to the key. It also writes the key with all its contents to the account's list. It does not
// restore a key that was revoked in the meantime: it then returns errUseRecorded.
func (s *Service) writeUse(ctx context.Context, sum string, k Key, day string) error {
	ctx = store.WithoutReadSet(ctx, "a condition on the key's own record fails if the key was revoked")
	lastUsedOn := store.At("lastUsedOn")
	k.LastUsedOn = ""
	k = k.toRecord()
	changes := []store.Change{store.Set(lastUsedOn, day)}
	if k.TTL > 0 {
		changes = append(changes, store.Set(store.At(store.TTLAttribute), k.TTL))
	}
	return s.parts.Table.Commit(ctx,
		store.Update(credentialKey(sum), changes...).If(store.Or(store.Lacks(lastUsedOn), store.Less(lastUsedOn, day))).Else(
			errUseRecorded),
		store.Upsert(entryKey(k.AccountID, k.ID),
			append(changes, store.Set(store.At("key"), k), store.Set(store.At("hash"), sum))...))
}
