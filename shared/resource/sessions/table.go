package sessions

import (
	"time"

	"github.com/gatewright/gatewright/shared/core/store"
)

// sessionPrefix is the key prefix of the sessions, by the hash of their tokens. Each request of a session reads its record.
const sessionPrefix store.KeyPrefix = "session"

func keyOf(hash string) store.Key { return sessionPrefix.Key(hash) }

// record is a session in the table.
type record struct {
	store.UnknownAttributes

	ID        string `dynamodbav:"id"`
	AccountID string `dynamodbav:"accountId"`
	KeyID     string `dynamodbav:"keyId"`
	// Credential is the hash of the text of the session's account key.
	Credential string    `dynamodbav:"credential"`
	CreatedOn  time.Time `dynamodbav:"createdOn"`
	EndsOn     time.Time `dynamodbav:"endsOn"`
	// TTL is the time when the session ends if it is not used again, in seconds since 1970. It is never after EndsOn.
	// The database deletes the record some time after TTL.
	TTL int64 `dynamodbav:"ttl"`
}
