package functions_test

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/functions"
	"github.com/gatewright/gatewright/shared/accounts"
	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/environment"
)

// The authorization sweep asks every operation that the declarations list, as
// everyone who must not get an answer. What is foreign has to read, byte for
// byte, like what does not exist: a second world, in which it never existed,
// answers the same request.

// bodies are good bodies of the operations that take one. A new operation that
// takes a body fails the sweep until it has one here.
var bodies = map[string]string{
	"ProjectsService_create":         `{"name":"fresh"}`,
	"DeployService_sources":          `{"accountName":"{accountName}","projectName":"{projectName}","branchName":"main"}`,
	"DeployService_sourceUrl":        `{"accountName":"{accountName}","projectName":"{projectName}","environment":"main"}`,
	"VariablesService_create":        `{"name":"ANOTHER_NAME","isSecret":false,"value":"v"}`,
	"VariablesService_update":        `{"value":"w"}`,
	"ApiKeyBucketsService_create":    `{"name":"fresh-bucket"}`,
	"ApiKeyBucketsService_update":    `{"description":"d"}`,
	"ApiKeyConsumersService_create":  `{"name":"fresh"}`,
	"ApiKeyConsumersService_update":  `{"description":"d"}`,
	"ApiKeyConsumersService_rollKey": `{"expiresOn":"2027-01-01T00:00:00Z"}`,
	"ApiKeyKeysService_create":       `{}`,
	"ApiKeyKeysService_bulkCreate":   `[{}]`,
	"ApiKeyKeysService_update":       `{"description":"d"}`,
	"ApiKeyConsumerManagers_create":  `{"email":"ada@example.com","sub":"ada"}`,
}

// names are what the parameters of paths and bodies are called in a request.
type names map[string]string

// withDefaults adds names that nothing has.
func (n names) withDefaults() names {
	out := names{
		"accountName": "acme", "projectName": "no-such-project", "branchName": "main", "bucketName": "no-such-bucket",
		"consumerName": "no-such-consumer", "keyId": "key_000000000000000000000000", "managerId": "eusr_000000000000000000000000",
		"statusId": "00000000-0000-4000-8000-000000000000", "deploymentName": "no-such-main-0000000", "variableName": "NO_SUCH",
	}
	for k, v := range n {
		out[k] = v
	}
	return out
}

var parameter = regexp.MustCompile(`\{([A-Za-z]+)\}`)

// request fills in an operation's path and body.
func request(t *testing.T, d api.Declaration, n names) (method, path, body string) {
	t.Helper()
	fill := func(text string, escape func(string) string) string {
		return parameter.ReplaceAllStringFunc(text, func(p string) string {
			v, ok := n[strings.Trim(p, "{}")]
			if !ok {
				t.Fatalf("%s has the parameter %s, which the sweep does not know: add it to names", d.ID, p)
			}
			return escape(v)
		})
	}
	if d.TakesBody {
		text, ok := bodies[d.ID]
		if !ok {
			t.Fatalf("%s takes a body: add a good one to bodies", d.ID)
		}
		body = fill(text, func(s string) string { return s })
	}
	return d.Method, fill(d.Path, url.PathEscape), body
}

// each runs a test for every operation that needs credentials, in a bubble whose
// time passes at once: a build waits until every gateway has heard of it.
func each(t *testing.T, test func(t *testing.T, d api.Declaration)) {
	for _, g := range functions.Groups() {
		for _, d := range g.Declarations() {
			if !d.Public {
				t.Run(d.ID, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { test(t, d) })
				})
			}
		}
	}
}

func TestNoKeyGarbageAndExpiredKeysAreRefused(t *testing.T) {
	each(t, func(t *testing.T, d api.Declaration) {
		w := newWorld(t)
		w.account("acme")
		soon := w.now.Add(time.Minute)
		expired := w.key("acme", accounts.Spec{ExpiresOn: &soon, Permissions: auth.Full()})
		w.now = soon
		method, path, body := request(t, d, names{}.withDefaults())
		for name, key := range map[string]string{
			"none": "", "garbage": "garbage", "a consumer key": "gwk_0123456789ABCDEFGHIJKLMNOPQRSTUV_00000000", "an expired key": expired,
		} {
			status, answer := w.send(key, method, path, body)
			if status != http.StatusUnauthorized || !strings.Contains(answer, "Www-Authenticate: Bearer") {
				t.Errorf("%s: %s", name, answer)
			}
		}
	})
}

func TestMissingScopeIsForbiddenAndChangesNothing(t *testing.T) {
	each(t, func(t *testing.T, d api.Declaration) {
		if d.Scope == "" {
			t.Skip("any valid key may call it")
		}
		w := newWorld(t)
		w.account("acme")
		permissions := auth.Full()
		permissions.Scopes = slices.DeleteFunc(permissions.Scopes, func(s auth.Scope) bool {
			return s == d.Scope || s == d.Scope.Resource().Write()
		})
		key := w.key("acme", accounts.Spec{Permissions: permissions})
		before := w.items.Items()
		method, path, body := request(t, d, names{}.withDefaults())
		status, answer := w.send(key, method, path, body)
		if status != http.StatusForbidden || !strings.Contains(answer, string(d.Scope)) {
			t.Fatalf("%s", answer)
		}
		for key := range w.items.Items() {
			if _, was := before[key]; !was && !strings.HasPrefix(key.PK, "audit#") {
				t.Errorf("it wrote %s %s", key.PK, key.SK)
			}
		}
	})
}

// TestForeignAccountReadsLikeAnAbsentOne asks for another account by its name.
func TestForeignAccountReadsLikeAnAbsentOne(t *testing.T) {
	each(t, func(t *testing.T, d api.Declaration) {
		_, path, body := request(t, d, names{"accountName": "globex"}.withDefaults())
		if !strings.Contains(path+body, "globex") {
			t.Skip("it names no account")
		}
		compare(t, d, func(w *world) string { return w.account("acme") }, func(w *world) names {
			return populate(w, w.account("globex"), "globex").with("accountName", "globex")
		})
	})
}

// TestForeignObjectsReadLikeAbsentOnes asks for another account's things under
// one's own account, and by names that hold no account at all.
func TestForeignObjectsReadLikeAbsentOnes(t *testing.T) {
	each(t, func(t *testing.T, d api.Declaration) {
		if !namesAnObject(d) {
			t.Skip("it names no object")
		}
		compare(t, d, func(w *world) string { return w.account("acme") }, func(w *world) names {
			return populate(w, w.account("globex"), "globex")
		})
	})
}

// TestInvisibleProjectsReadLikeAbsentOnes asks, with a key that is limited to
// another project, for things of a project of the same account.
func TestInvisibleProjectsReadLikeAbsentOnes(t *testing.T) {
	each(t, func(t *testing.T, d api.Declaration) {
		if !namesAnObject(d) && !strings.Contains(d.Path, "{projectName}") {
			t.Skip("it names no object")
		}
		var full string
		compare(t, d, func(w *world) string {
			full = w.account("acme")
			return w.key("acme", accounts.Spec{Permissions: auth.Permissions{
				Projects: []string{"blog"}, Environments: environment.Kinds(), Scopes: auth.Scopes(),
			}})
		}, func(w *world) names { return populate(w, full, "acme") })
	})
}

// namesAnObject reports whether the operation addresses something that has to
// exist, beside an account and a project.
func namesAnObject(d api.Declaration) bool {
	for _, p := range []string{"{bucketName}", "{consumerName}", "{statusId}", "{deploymentName}", "{variableName}"} {
		if strings.Contains(d.Path, p) {
			return true
		}
	}
	return false
}

// compare makes two worlds in which the caller is the same, puts the others'
// things into one of them, and asks both for those.
func compare(t *testing.T, d api.Declaration, caller func(*world) string, others func(*world) names) {
	t.Helper()
	with, without := newWorld(t), newWorld(t)
	key := caller(with)
	if k := caller(without); k != key {
		t.Fatal("the two worlds do not begin alike")
	}
	n := others(with).withDefaults()
	method, path, body := request(t, d, n)
	before := with.items.Items()
	with.now = with.now.Add(time.Hour) // a restarted world's first record has the id of an earlier one
	without.now = with.now
	with.restart()
	without.restart()
	status, foreign := with.send(key, method, path, body)
	_, absent := without.send(key, method, path, body)
	if foreign != absent {
		t.Errorf("it tells the foreign from the absent:\n%s\n%s", foreign, absent)
	}
	if status != http.StatusNotFound {
		t.Errorf("%s %s: %s", method, path, foreign)
	}
	after := with.items.Items()
	for key, item := range before {
		if len(after[key]) != len(item) {
			t.Errorf("it changed %s %s", key.PK, key.SK)
		}
	}
}

func (n names) with(name, value string) names {
	n[name] = value
	return n
}

// populate gives an account one of everything and answers their names.
func populate(w *world, key, account string) names {
	w.t.Helper()
	n := names{"projectName": "shop", "variableName": "A_NAME", "bucketName": "shop-production", "consumerName": "ada"}
	n["statusId"], n["deploymentName"] = w.deploy(key, account, "shop", "main")
	prefix := "/v1/accounts/" + account
	w.ask(key, http.MethodPost, prefix+"/projects/shop/branches/main/variables", `{"name":"A_NAME","isSecret":true,"value":"v"}`)
	consumers := prefix + "/key-buckets/shop-production/consumers"
	w.ask(key, http.MethodPost, consumers, `{"name":"ada"}`)
	n["keyId"], _ = w.ask(key, http.MethodPost, consumers+"/ada/keys", `{}`)["id"].(string)
	n["managerId"], _ = w.ask(key, http.MethodPost, consumers+"/ada/managers", `{"email":"a@example.com","sub":"a"}`)["id"].(string)
	return n
}

// TestSweepCanFail keeps the sweep honest: what it compares does exist in the
// one world, and its owner sees it.
func TestSweepCanFail(t *testing.T) { synctest.Test(t, seesItsOwn) }

func seesItsOwn(t *testing.T) {
	w := newWorld(t)
	key := w.account("acme")
	n := populate(w, key, "acme").withDefaults()
	for _, g := range functions.Groups() {
		for _, d := range g.Declarations() {
			if d.Public || d.Method != http.MethodGet {
				continue
			}
			method, path, body := request(t, d, n)
			if status, answer := w.send(key, method, path, body); status != http.StatusOK {
				t.Errorf("%s: %s", d.ID, answer)
			}
		}
	}
	if len(w.items.Items()) < 10 {
		t.Error("the world is empty")
	}
}
