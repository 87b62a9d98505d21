package sessions

import (
	"time"

	"github.com/gatewright/gatewright/shared/store"
)

// space has the sessions by the hash of their tokens. Each request of a session reads its record.
const space store.Space = "session"

func keyOf(hash string) store.Key { return space.Key(hash) }

// record is a session as the table holds it.
type record struct {
	store.Rest

	ID        string `dynamodbav:"id"`
	AccountID string `dynamodbav:"accountId"`
	KeyID     string `dynamodbav:"keyId"`
	// Credential is the hash of the text of its account key.
	Credential string    `dynamodbav:"credential"`
	CreatedOn  time.Time `dynamodbav:"createdOn"`
	EndsOn     time.Time `dynamodbav:"endsOn"`
	// TTL is when it ends unless it is used before, which is no later than EndsOn: from then on the table has it no more.
	TTL int64 `dynamodbav:"ttl"`
}
