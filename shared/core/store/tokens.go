package store

import (
	"slices"
	"strconv"
	"sync"
	"time"
)

// tokens keeps the tokens of running commits in the table itself, for a database that forgets them
// when it restarts (docs/decisions/0022-what-the-embedded-dynamodb-lacks.md). Each commit also
// writes its token into a separate item, on the condition that the item does not already contain
// this token. If that condition is false, the commit was made before and only its reply was lost.
//
// There are few such items (slots): one for each concurrent commit
// of a process. The slot of a commit that has ended is used again.
type tokens struct {
	process string
	now     func() time.Time

	mu   sync.Mutex
	free []int // the slots that no running commit uses
	used int   // the number of slots that were ever used
}

// tokenPrefix is the key prefix of slots: items with the tokens of running commits. After
// a restart of a database that forgets tokens, the slot shows whether the commit was made.
const tokenPrefix KeyPrefix = "commit-token"

// IsToken reports whether the key is of a slot with a token. Other packages can ignore such items.
func IsToken(key Key) bool { return tokenPrefix.Parts(key.PK) != nil }

// tokenRecord is the item of a slot.
type tokenRecord struct {
	UnknownAttributes

	Token string `dynamodbav:"token"`
	TTL   int64  `dynamodbav:"ttl"`
}

// tokenLifetime is the time from a write of a slot until the slot's item expires, so that the slots of a process that
// has ended are deleted. It is far longer than any commit takes.
const tokenLifetime = time.Hour

// withToken returns writes and, as the last write, the write that stores token in a slot. The caller must call release
// when the commit has ended.
func (t *tokens) withToken(token string, writes []Write) (out []Write, release func()) {
	slot := t.acquire()
	write := Put(tokenPrefix.Key(t.process, strconv.Itoa(slot)),
		tokenRecord{Token: token, TTL: t.now().Add(tokenLifetime).Unix()}).
		If(NotEqual(At("token"), token))
	return append(slices.Clip(writes), write), func() { t.release(slot) }
}

// alreadyCommitted reports whether a transaction was refused because the same
// transaction was committed before. writes is the result of withToken.
func (t *tokens) alreadyCommitted(writes []Write, refused *ConditionError) bool {
	return t != nil && slices.Contains(refused.Failed, len(writes)-1)
}

func (t *tokens) acquire() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.free); n > 0 {
		slot := t.free[n-1]
		t.free = t.free[:n-1]
		return slot
	}
	t.used++
	return t.used - 1
}

func (t *tokens) release(slot int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.free = append(t.free, slot)
}
