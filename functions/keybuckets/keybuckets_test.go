package keybuckets_test

import (
	"testing"

	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/functions/keybuckets"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/format/environment"
)

const (
	bucketsPath = "/v1/accounts/acme/key-buckets"
	ordersPath  = bucketsPath + "/orders"
)

// newFixture returns a fixture whose account acme has the bucket orders.
func newFixture(t *testing.T) (fx *functionstest.Fixture, fullKey string) {
	t.Helper()
	fx = functionstest.New(t, keybuckets.Bind)
	fullKey = fx.CreateAccount("acme")
	fx.Call(fullKey, "POST", bucketsPath, `{"name":"orders","description":"d","tags":{"team":"a"}}`).Want(200)
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
			"a bucket", fullKey, "POST", bucketsPath, `{"name":"new-bucket","tags":{"a":"b"}}`, 200,
			`"name":"new-bucket","tags":{"a":"b"},"isRetrievable":true,"createdOn":"2026-03-14T10:26:53.589Z",` +
				`"updatedOn":"2026-03-14T10:26:53.589Z"}`,
		},
		{
			"bucket with keys that cannot be retrieved", fullKey, "POST", bucketsPath,
			`{"name":"new-bucket","isRetrievable":false,"description":null}`, 200, `"isRetrievable":false`,
		},
		{
			"id, date and token, which are ignored", fullKey, "POST", bucketsPath,
			`{"name":"new-bucket","id":"mine","createdOn":"never","token":"x"}`, 200, `"id":"bckt_`,
		},
		{"a name in use", fullKey, "POST", bucketsPath, `{"name":"orders"}`, 409, "Choose another name"},
		{
			"a short name", fullKey, "POST", bucketsPath, `{"name":"abcd"}`, 400,
			"body.name: expected string to be 5 to 128 characters of a-z, 0-9 and -",
		},
		{"no name", fullKey, "POST", bucketsPath, `{}`, 400, "body"},
		{"number as name", fullKey, "POST", bucketsPath, `{"name":17}`, 400, "body.name"},
		{"number as tag", fullKey, "POST", bucketsPath, `{"name":"new-bucket","tags":{"a":1}}`, 400, "body.tags"},
		{"a NUL", fullKey, "POST", bucketsPath, `{"name":"new-bucket","description":"\u0000"}`, 400, "NUL"},
		{"no JSON", fullKey, "POST", bucketsPath, `{`, 400, "JSON"},
		{
			"bucket without a project by a limited key", shopKey, "POST", bucketsPath, `{"name":"new-bucket"}`, 403,
			"environmentType",
		},
		{
			"bucket of a project by a limited key", shopKey, "POST", bucketsPath,
			`{"name":"new-bucket","tags":{"project":"shop","environmentType":"PRODUCTION"}}`, 200, "bckt_",
		},
		{"the list", readerKey, "GET", bucketsPath, "", 200, `"limit":1000,"offset":0,"total":1}`},
		{"the list, with a path that ends in a slash", readerKey, "GET", bucketsPath + "/", "", 200, `"name":"orders"`},
		{"the list of a limited key", shopKey, "GET", bucketsPath, "", 200, `{"data":[],"limit":1000,"offset":0,"total":0}`},
		{"bucket with its token", readerKey, "GET", ordersPath, "", 200, `"token":"gwb_`},
		{"hidden bucket", shopKey, "GET", ordersPath, "", 404, "cannot see it"},
		{"missing bucket", fullKey, "GET", bucketsPath + "/absent", "", 404, "cannot see it"},
		{"invalid name", fullKey, "GET", bucketsPath + "/a%2Fb", "", 404, "cannot see it"},
		{"another account", fullKey, "GET", "/v1/accounts/evil/key-buckets/orders", "", 404, "account"},
		{"bucket of another account", otherAccountKey, "GET", "/v1/accounts/evil/key-buckets/orders", "", 404, "key bucket"},
		{
			"new tags, with a name that is ignored", fullKey, "PATCH", ordersPath, `{"tags":{"b":"2"},"name":"ignored"}`, 200,
			`"name":"orders","description":"d","tags":{"b":"2"}`,
		},
		{
			"cleared description", fullKey, "PATCH", ordersPath, `{"description":null}`, 200,
			`"name":"orders","tags":{"team":"a"}`,
		},
		{"a change without the scope", readerKey, "PATCH", ordersPath, `{}`, 403, "key-buckets:write"},
		{"a deletion without the scope", readerKey, "DELETE", ordersPath, "", 403, "key-buckets:write"},
		{"a deletion", fullKey, "DELETE", ordersPath, "", 204, ""},
		{"no key", "", "GET", ordersPath, "", 401, "Bearer"},
		{"another method", fullKey, "PUT", ordersPath, "{}", 405, "Allow"},
	})
}

// TestDeletedBucketLooksMissing also checks that the name of the bucket can be used again.
func TestDeletedBucketLooksMissing(t *testing.T) {
	fx, fullKey := newFixture(t)
	id := fx.Call(fullKey, "GET", ordersPath, "").Want(200).JSON().Text("id")
	fx.Call(fullKey, "GET", bucketsPath+"/"+id, "").Want(200)
	fx.Call(fullKey, "DELETE", bucketsPath+"/"+id, "").Want(204)
	for _, name := range []string{"orders", id} {
		fx.Call(fullKey, "GET", bucketsPath+"/"+name, "").Want(404)
	}
	fx.Call(fullKey, "POST", bucketsPath, `{"name":"orders"}`).Want(200)
}
