package consumers_test

import (
	"testing"

	"github.com/gatewright/gatewright/functions/consumers"
	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/functions/keybuckets"
	"github.com/gatewright/gatewright/shared/accounts"
	"github.com/gatewright/gatewright/shared/keys"
)

const (
	list  = "/v1/accounts/acme/key-buckets/orders/consumers"
	alice = list + "/alice"
)

// world is one in which acme has the bucket orders and in it the consumer
// alice.
type world struct {
	*functionstest.World
	// full is acme's full-access key.
	full     string
	account  string // its id
	verifier *keys.Verifier
}

func newWorld(t *testing.T) world {
	t.Helper()
	w := world{World: functionstest.New(t, keybuckets.Bind, consumers.Bind)}
	w.full = w.Account("acme")
	account, err := accounts.Open(w.Parts).Find(t.Context(), "acme")
	if err != nil {
		t.Fatal(err)
	}
	w.account, w.verifier = account.ID, keys.OpenVerifier(w.Parts)
	w.Call(w.full, "POST", "/v1/accounts/acme/key-buckets", `{"name":"orders"}`).Want(200)
	w.Call(w.full, "POST", list, `{"name":"alice","description":"first","tags":{"org":"1"},"metadata":{"plan":3},
		"managers":["new@example.com",{"email":"Boss@example.com","sub":"boss","id":"ignored"}]}`).Want(200)
	return w
}

// opens reports whether a gateway that looks in orders takes a key.
func (w world) opens(key string) bool {
	w.Helper()
	_, err := w.verifier.Verify(w.Context(), keys.BucketRef{AccountID: w.account, Name: "orders"}, key)
	return err == nil
}
