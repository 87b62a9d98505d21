package consumers_test

import (
	"testing"

	"github.com/gatewright/gatewright/functions/consumers"
	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/functions/keybuckets"
	"github.com/gatewright/gatewright/shared/resource/accounts"
	"github.com/gatewright/gatewright/shared/resource/keys"
)

const (
	consumersPath = "/v1/accounts/acme/key-buckets/orders/consumers"
	alicePath     = consumersPath + "/alice"
)

// fixture is a functionstest.Fixture whose account acme has the bucket orders with the consumer alice.
type fixture struct {
	*functionstest.Fixture
	// fullKey is acme's full-access key.
	fullKey   string
	accountID string // acme's id
	verifier  *keys.Verifier
}

func newFixture(t *testing.T) fixture {
	t.Helper()
	fx := fixture{Fixture: functionstest.New(t, keybuckets.Bind, consumers.Bind)}
	fx.fullKey = fx.CreateAccount("acme")
	account, err := accounts.Open(fx.Parts).Find(t.Context(), "acme")
	if err != nil {
		t.Fatal(err)
	}
	fx.accountID, fx.verifier = account.ID, keys.OpenVerifier(fx.Parts)
	fx.Call(fx.fullKey, "POST", "/v1/accounts/acme/key-buckets", `{"name":"orders"}`).Want(200)
	fx.Call(fx.fullKey, "POST", consumersPath, `{"name":"alice","description":"first","tags":{"org":"1"},
		"metadata":{"plan":3},
		"managers":["new@example.com",{"email":"Boss@example.com","sub":"boss","id":"ignored"}]}`).Want(200)
	return fx
}

// accepts reports whether a gateway that uses the bucket orders accepts a key.
func (fx fixture) accepts(key string) bool {
	fx.Helper()
	_, err := fx.verifier.Verify(fx.Context(), keys.BucketRef{AccountID: fx.accountID, Name: "orders"}, key)
	return err == nil
}
