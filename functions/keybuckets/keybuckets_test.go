package keybuckets_test

import (
	"testing"

	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/functions/keybuckets"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/format/environment"
)

const (
	bucketsURL = "/v1/accounts/acme/key-buckets"
	ordersURL  = bucketsURL + "/orders"
)

// newFixture returns a fixture whose account acme has the bucket orders.
func newFixture(t *testing.T) (fx *functionstest.Fixture, fullKey string) {
	t.Helper()
	fx = functionstest.New(t, keybuckets.Bind)
	fullKey = fx.CreateAccount("acme")
	fx.Call(fullKey, "POST", bucketsURL, `{"name":"orders","description":"d","tags":{"team":"a"}}`).Want(200)
	return fx, fullKey
}

func TestResponses(t *testing.T) {
	fx, fullKey := newFixture(t)
	readerKey := fx.CreateKey("acme", func(p *auth.Permissions) { p.Scopes = []auth.Scope{auth.KeyBuckets.Read()} })
	shopKey := fx.CreateKey("acme", func(p *auth.Permissions) {
		p.Projects, p.Environments = []string{"shop"}, []environment.Kind{environment.Production}
	})
	otherAccountKey := fx.CreateAccount("evil")
	fx.Run(t, []functionstest.Case{
		{
			"a bucket", fullKey, "POST", bucketsURL, `{"name":"new-bucket","tags":{"a":"b"}}`, 200,
			`"name":"new-bucket","tags":{"a":"b"},"isRetrievable":true,"createdOn":"2026-03-14T10:26:53.589Z",` +
				`"updatedOn":"2026-03-14T10:26:53.589Z"}`,
		},
		{
			"bucket with keys that cannot be retrieved", fullKey, "POST", bucketsURL,
			`{"name":"new-bucket","isRetrievable":false,"description":null}`, 200, `"isRetrievable":false`,
		},
		{
			"ignored ids and dates", fullKey, "POST", bucketsURL,
			`{"name":"new-bucket","id":"mine","createdOn":"never","token":"x"}`, 200, `"id":"bckt_`,
		},
		{"a name in use", fullKey, "POST", bucketsURL, `{"name":"orders"}`, 409, "Choose another name"},
		{
			"a short name", fullKey, "POST", bucketsURL, `{"name":"abcd"}`, 400,
			"body.name: expected string to be 5 to 128 characters of a-z, 0-9 and -",
		},
		{"no name", fullKey, "POST", bucketsURL, `{}`, 400, "body"},
		{"a name of another type", fullKey, "POST", bucketsURL, `{"name":17}`, 400, "body.name"},
		{"a tag of another type", fullKey, "POST", bucketsURL, `{"name":"new-bucket","tags":{"a":1}}`, 400, "body.tags"},
		{"a NUL", fullKey, "POST", bucketsURL, `{"name":"new-bucket","description":"\u0000"}`, 400, "NUL"},
		{"no JSON", fullKey, "POST", bucketsURL, `{`, 400, "JSON"},
		{
			"bucket without a project by a limited key", shopKey, "POST", bucketsURL, `{"name":"new-bucket"}`, 403,
			"environmentType",
		},
		{
			"bucket of a project by a limited key", shopKey, "POST", bucketsURL,
			`{"name":"new-bucket","tags":{"project":"shop","environmentType":"PRODUCTION"}}`, 200, "bckt_",
		},
		{"the list", readerKey, "GET", bucketsURL, "", 200, `"limit":1000,"offset":0,"total":1}`},
		{"the list with a slash", readerKey, "GET", bucketsURL + "/", "", 200, `"name":"orders"`},
		{"the list of a limited key", shopKey, "GET", bucketsURL, "", 200, `{"data":[],"limit":1000,"offset":0,"total":0}`},
		{"bucket with its token", readerKey, "GET", ordersURL, "", 200, `"token":"gwb_`},
		{"hidden bucket", shopKey, "GET", ordersURL, "", 404, "cannot see it"},
		{"missing bucket", fullKey, "GET", bucketsURL + "/absent", "", 404, "cannot see it"},
		{"invalid name", fullKey, "GET", bucketsURL + "/a%2Fb", "", 404, "cannot see it"},
		{"another account", fullKey, "GET", "/v1/accounts/evil/key-buckets/orders", "", 404, "account"},
		{"bucket of another account", otherAccountKey, "GET", "/v1/accounts/evil/key-buckets/orders", "", 404, "key bucket"},
		{
			"new tags", fullKey, "PATCH", ordersURL, `{"tags":{"b":"2"},"name":"ignored"}`, 200,
			`"name":"orders","description":"d","tags":{"b":"2"}`,
		},
		{
			"cleared description", fullKey, "PATCH", ordersURL, `{"description":null}`, 200,
			`"name":"orders","tags":{"team":"a"}`,
		},
		{"a change without the scope", readerKey, "PATCH", ordersURL, `{}`, 403, "key-buckets:write"},
		{"a deletion without the scope", readerKey, "DELETE", ordersURL, "", 403, "key-buckets:write"},
		{"a deletion", fullKey, "DELETE", ordersURL, "", 204, ""},
		{"no key", "", "GET", ordersURL, "", 401, "Bearer"},
		{"another method", fullKey, "PUT", ordersURL, "{}", 405, "Allow"},
	})
}

func TestDeletedBucketLooksMissing(t *testing.T) {
	fx, fullKey := newFixture(t)
	id := fx.Call(fullKey, "GET", ordersURL, "").Want(200).JSON().Text("id")
	fx.Call(fullKey, "GET", bucketsURL+"/"+id, "").Want(200)
	fx.Call(fullKey, "DELETE", bucketsURL+"/"+id, "").Want(204)
	for _, name := range []string{"orders", id} {
		fx.Call(fullKey, "GET", bucketsURL+"/"+name, "").Want(404)
	}
	fx.Call(fullKey, "POST", bucketsURL, `{"name":"orders"}`).Want(200)
}
