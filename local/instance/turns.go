package instance

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
)

// Turns are account keys that take turns: each has a limit of 100 requests a second,
// which is not what is measured here. It is safe for concurrent use.
type Turns struct {
	keys  []string
	asked atomic.Uint64
}

// turns is how many account keys take turns: enough for 10,000 requests a second.
const turns = 100

// Turns makes account keys that may do everything with key buckets. They work for as
// long as the product's data are there.
func (i *Instance) Turns(ctx context.Context) (*Turns, error) {
	t := new(Turns)
	for range turns {
		key, err := i.newKey(ctx)
		if err != nil {
			return nil, fmt.Errorf("make an account key: %w", err)
		}
		t.keys = append(t.keys, key)
	}
	return t, nil
}

func (i *Instance) newKey(ctx context.Context) (string, error) {
	var made struct{ Key string }
	err := i.Into(ctx, &made, http.MethodPost, "/v1/accounts/demo/account-keys", `{"label":"load","scopes":["key-buckets:write"]}`)
	return made.Key, err
}

// Next gives the key whose turn it is.
func (t *Turns) Next() string { return t.keys[t.asked.Add(1)%uint64(len(t.keys))] }
