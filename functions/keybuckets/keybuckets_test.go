package keybuckets_test

import (
	"testing"

	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/functions/keybuckets"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/environment"
)

const (
	buckets = "/v1/accounts/acme/key-buckets"
	orders  = buckets + "/orders"
)

// newWorld makes a world in which acme has the bucket orders.
func newWorld(t *testing.T) (w *functionstest.World, full string) {
	t.Helper()
	w = functionstest.New(t, keybuckets.Bind)
	full = w.Account("acme")
	w.Call(full, "POST", buckets, `{"name":"orders","description":"d","tags":{"team":"a"}}`).Want(200)
	return w, full
}

func TestAnswers(t *testing.T) {
	w, full := newWorld(t)
	reader := w.Key("acme", func(p *auth.Permissions) { p.Scopes = []auth.Scope{auth.KeyBuckets.Read()} })
	shop := w.Key("acme", func(p *auth.Permissions) {
		p.Projects, p.Environments = []string{"shop"}, []environment.Kind{environment.Production}
	})
	otherAccount := w.Account("evil")
	w.Run(t, []functionstest.Case{
		{"a bucket", full, "POST", buckets, `{"name":"new-bucket","tags":{"a":"b"}}`, 200, `"name":"new-bucket","tags":{"a":"b"},"isRetrievable":true,"createdOn":"2026-03-14T10:26:53.589Z","updatedOn":"2026-03-14T10:26:53.589Z"}`},
		{"a bucket that forgets", full, "POST", buckets, `{"name":"new-bucket","isRetrievable":false,"description":null}`, 200, `"isRetrievable":false`},
		{"ids and dates are ignored", full, "POST", buckets, `{"name":"new-bucket","id":"mine","createdOn":"never","token":"x"}`, 200, `"id":"bckt_`},
		{"a name in use", full, "POST", buckets, `{"name":"orders"}`, 409, "Choose another name"},
		{"a short name", full, "POST", buckets, `{"name":"abcd"}`, 400, "body.name: expected string to be 5 to 128 characters of a-z, 0-9 and -"},
		{"no name", full, "POST", buckets, `{}`, 400, "body"},
		{"a name of another type", full, "POST", buckets, `{"name":17}`, 400, "body.name"},
		{"a tag of another type", full, "POST", buckets, `{"name":"new-bucket","tags":{"a":1}}`, 400, "body.tags"},
		{"a NUL", full, "POST", buckets, `{"name":"new-bucket","description":"\u0000"}`, 400, "NUL"},
		{"no JSON", full, "POST", buckets, `{`, 400, "JSON"},
		{"an unplaced bucket of a limited key", shop, "POST", buckets, `{"name":"new-bucket"}`, 403, "environmentType"},
		{"a placed bucket of a limited key", shop, "POST", buckets, `{"name":"new-bucket","tags":{"project":"shop","environmentType":"PRODUCTION"}}`, 200, "bckt_"},
		{"the list", reader, "GET", buckets, "", 200, `"limit":1000,"offset":0,"total":1}`},
		{"the list with a slash", reader, "GET", buckets + "/", "", 200, `"name":"orders"`},
		{"the list of a limited key", shop, "GET", buckets, "", 200, `{"data":[],"limit":1000,"offset":0,"total":0}`},
		{"one bucket has its token", reader, "GET", orders, "", 200, `"token":"gwb_`},
		{"an invisible bucket", shop, "GET", orders, "", 404, "cannot see it"},
		{"an absent bucket", full, "GET", buckets + "/absent", "", 404, "cannot see it"},
		{"no name at all", full, "GET", buckets + "/a%2Fb", "", 404, "cannot see it"},
		{"another account", full, "GET", "/v1/accounts/evil/key-buckets/orders", "", 404, "account"},
		{"a foreign bucket", otherAccount, "GET", "/v1/accounts/evil/key-buckets/orders", "", 404, "key bucket"},
		{"new tags", full, "PATCH", orders, `{"tags":{"b":"2"},"name":"ignored"}`, 200, `"name":"orders","description":"d","tags":{"b":"2"}`},
		{"a description cleared", full, "PATCH", orders, `{"description":null}`, 200, `"name":"orders","tags":{"team":"a"}`},
		{"a change without the scope", reader, "PATCH", orders, `{}`, 403, "key-buckets:write"},
		{"a deletion without the scope", reader, "DELETE", orders, "", 403, "key-buckets:write"},
		{"a deletion", full, "DELETE", orders, "", 204, ""},
		{"nobody", "", "GET", orders, "", 401, "Bearer"},
		{"another method", full, "PUT", orders, "{}", 405, "Allow"},
	})
}

func TestDeletedBucketAnswersLikeAnAbsentOne(t *testing.T) {
	w, full := newWorld(t)
	id := w.Call(full, "GET", orders, "").Want(200).JSON().Text("id")
	w.Call(full, "GET", buckets+"/"+id, "").Want(200)
	w.Call(full, "DELETE", buckets+"/"+id, "").Want(204)
	for _, name := range []string{"orders", id} {
		w.Call(full, "GET", buckets+"/"+name, "").Want(404)
	}
	w.Call(full, "POST", buckets, `{"name":"orders"}`).Want(200)
}
