package instance

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
)

// KeyRotation rotates through account keys, because each key has a limit of 100 requests a second, which callers do not
// want to measure. It is safe for concurrent use.
type KeyRotation struct {
	keys []string
	next atomic.Uint64
}

// keyCount is the number of account keys. Their limits together allow 10,000 requests per second. The limit of the
// account can be lower: by default, it is 1,000 (docs/limits.md).
const keyCount = 100

// NewKeyRotation creates keyCount account keys that have full access to key buckets, and returns them. The keys do not
// expire.
func (i *Instance) NewKeyRotation(ctx context.Context) (*KeyRotation, error) {
	t := new(KeyRotation)
	for range keyCount {
		key, err := i.newKey(ctx)
		if err != nil {
			return nil, fmt.Errorf("create an account key: %w", err)
		}
		t.keys = append(t.keys, key)
	}
	return t, nil
}

func (i *Instance) newKey(ctx context.Context) (string, error) {
	var created struct{ Key string }
	err := i.RequestJSON(ctx, &created, http.MethodPost, "/v1/accounts/demo/account-keys",
		`{"label":"load","scopes":["key-buckets:write"]}`)
	return created.Key, err
}

// Next returns the next key in the rotation.
func (t *KeyRotation) Next() string { return t.keys[t.next.Add(1)%uint64(len(t.keys))] }
