package policy

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"sync"
	"time"

	"github.com/gatewright/gatewright/shared/base/bounded"
	"github.com/gatewright/gatewright/shared/format/project"
)

// Memory has what the policies of a process remember about callers: verified passwords, failed sign-ins, messages that
// were received, and responses that were counted. It outlives the sites of deployments, so that neither a new deployment
// nor many deployments make it forget. All its parts are bounded. It is safe for concurrent use.
type Memory struct {
	// secret is random and belongs to this process only. Memory stores only hashes with it (fingerprint).
	secret    [sha256.Size]byte
	now       func() time.Time
	passwords passwordChecks

	mu     sync.Mutex
	scopes map[string]any
}

// maxScopes is the maximum number of policies with a memory: more than the sites of a process have in practice.
const maxScopes = 4096

// NewMemory returns an empty memory.
func NewMemory(now func() time.Time) *Memory {
	m := &Memory{now: now, scopes: map[string]any{}}
	_, _ = rand.Read(m.secret[:]) // never returns an error
	m.passwords.init()
	return m
}

// memoryOf returns the memory of a Setup.
func memoryOf(s *Setup) *Memory {
	if s.Memory == nil {
		return NewMemory(s.Now)
	}
	return s.Memory
}

// scopeName returns the name of a policy's part of the memory. It has the deployment and not the build, so that a new
// build does not reset what was counted.
func scopeName(policyType, name string, i project.Identity) string {
	return policyType + "/" + i.AccountID + "/" + i.Deployment + "/" + name
}

// scopeOf returns the part of the memory with a name. It creates the part if it is missing.
func scopeOf[T any](m *Memory, name string, create func() *T) *T {
	m.mu.Lock()
	defer m.mu.Unlock()
	if found, ok := m.scopes[name].(*T); ok {
		return found
	}
	created := create()
	bounded.Put(m.scopes, name, any(created), maxScopes)
	return created
}

// fingerprint identifies texts, such as a user and a password, within this process.
type fingerprint [sha256.Size]byte

// fingerprint returns the fingerprint of texts. Only equal lists of texts have the same one.
func (m *Memory) fingerprint(texts ...string) fingerprint {
	h := hmac.New(sha256.New, m.secret[:])
	for _, text := range texts {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(text))))
		h.Write([]byte(text))
	}
	return fingerprint(h.Sum(nil))
}

// expiring is a map whose entries end at a time, with at most max entries. Its user holds mu.
type expiring[V any] struct {
	mu      sync.Mutex
	entries map[fingerprint]expiringEntry[V]
	max     int
	sweptAt time.Time
}

type expiringEntry[V any] struct {
	value V
	end   time.Time
}

func newExpiring[V any](maxEntries int) *expiring[V] {
	return &expiring[V]{entries: map[fingerprint]expiringEntry[V]{}, max: maxEntries}
}

// get returns the value of an entry that has not ended, and the zero value otherwise.
func (e *expiring[V]) get(key fingerprint, now time.Time) (value V, ok bool) {
	entry, ok := e.entries[key]
	if !ok || !now.Before(entry.end) {
		return value, false
	}
	return entry.value, true
}

// hasRoom reports whether an entry can be added without removing another one. It removes entries that have ended, at
// most once a second.
func (e *expiring[V]) hasRoom(now time.Time) bool {
	if len(e.entries) < e.max {
		return true
	}
	if age := now.Sub(e.sweptAt); age >= 0 && age < time.Second {
		return false
	}
	e.sweptAt = now
	for key, entry := range e.entries {
		if !now.Before(entry.end) {
			delete(e.entries, key)
		}
	}
	return len(e.entries) < e.max
}

// put sets an entry. If there is no room, it first removes a random entry.
func (e *expiring[V]) put(key fingerprint, value V, now, end time.Time) {
	if _, exists := e.entries[key]; !exists {
		e.hasRoom(now)
	}
	bounded.Put(e.entries, key, expiringEntry[V]{value, end}, e.max)
}

// remove removes an entry. Its caller does not hold mu.
func (e *expiring[V]) remove(key fingerprint) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.entries, key)
}
