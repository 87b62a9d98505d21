package instance

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
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
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, i.API+"/v1/accounts/demo/account-keys",
		strings.NewReader(`{"label":"load","scopes":["key-buckets:write"]}`))
	if err != nil {
		return "", err
	}
	r.Header.Set("Authorization", "Bearer "+i.Key)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusCreated {
		return "", fmt.Errorf("status %d", answer.StatusCode)
	}
	var made struct{ Key string }
	err = json.NewDecoder(answer.Body).Decode(&made)
	return made.Key, err
}

// Next gives the key whose turn it is.
func (t *Turns) Next() string { return t.keys[t.asked.Add(1)%uint64(len(t.keys))] }
