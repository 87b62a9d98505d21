package store

import (
	"slices"
	"strconv"
	"sync"
	"time"
)

// tokens keeps the tokens of running commits in the table itself, for a
// database that forgets them when it restarts
// (docs/decisions/0022-what-the-embedded-dynamodb-lacks.md). Each commit also
// writes its token into an item of its own, on the condition that it does not
// stand there yet: when that condition is false, the commit was made before and
// only its reply was lost.
//
// The items are few: one for each commit that runs at a time, and a slot whose
// commit has ended is used again.
type tokens struct {
	process string
	now     func() time.Time

	mu   sync.Mutex
	free []int
	used int
}

// tokenSpace has a slot of a process for each commit that runs: it tells, after
// a restart of a database that forgets tokens, whether the commit was made.
const tokenSpace Space = "commit-token"

// IsToken reports whether a key is of a process's slot, which tells nobody else anything.
func IsToken(key Key) bool { return tokenSpace.PartsOf(key.PK) != nil }

// tokenRecord is the item of a slot.
type tokenRecord struct {
	Rest

	Token string `dynamodbav:"token"`
	TTL   int64  `dynamodbav:"ttl"`
}

// tokenLifetime is far longer than any commit takes. The slots of a process
// that has ended expire then.
const tokenLifetime = time.Hour

// guard adds the write that keeps token. done is to be called when the commit
// has ended.
func (k *tokens) guard(token string, writes []Write) (guarded []Write, done func()) {
	slot := k.take()
	write := Put(tokenSpace.Key(k.process, strconv.Itoa(slot)), tokenRecord{Token: token, TTL: k.now().Add(tokenLifetime).Unix()}).
		If(NotEqual(At("token"), token))
	return append(slices.Clip(writes), write), func() { k.release(slot) }
}

// made reports whether a transaction that guard made was refused because it
// had been made before.
func (k *tokens) made(guarded []Write, refused *ConditionError) bool {
	return k != nil && slices.Contains(refused.Failed, len(guarded)-1)
}

func (k *tokens) take() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	if n := len(k.free); n > 0 {
		slot := k.free[n-1]
		k.free = k.free[:n-1]
		return slot
	}
	k.used++
	return k.used - 1
}

func (k *tokens) release(slot int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.free = append(k.free, slot)
}
