package functions_test

import (
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/events"
	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/format/environment"
	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/resource/accounts"
)

// The authorization sweep sends requests to every declared operation as each kind of caller that must be refused. For a
// resource that the caller cannot see, the response must have the same bytes as for a missing resource. So each request
// is also sent to a second fixture, without these resources.

func TestInvalidKeysAreUnauthorized(t *testing.T) {
	p := newPopulatedFixture(t)
	forEachOperation(t, needsKey, func(t *testing.T, d api.Declaration) {
		fx := p.Copy(t)
		expiry := fx.Now.Add(time.Minute)
		expiredKey := fx.CreateKeyWith("acme", accounts.Spec{ExpiresOn: &expiry, Permissions: auth.Full()})
		fx.Now = expiry
		path, body := requestTarget(t, d, p.sampleSet.Request(d), p.values)
		before := fx.Items.Snapshot()
		for name, key := range map[string]string{
			"none": "", "garbage": "garbage", "a consumer key": "gwk_0123456789ABCDEFGHIJKLMNOPQRSTUV_00000000",
			"an expired key": expiredKey,
		} {
			resp := fx.Call(key, d.Method, path, body)
			if resp.Status != http.StatusUnauthorized || resp.Header.Get("WWW-Authenticate") != "Bearer" {
				t.Errorf("%s %s with %s = %s, want 401 with WWW-Authenticate: Bearer", d.Method, path, name, resp.Dump)
			}
		}
		assertUnchanged(t, before, fx.Items.Snapshot())
	})
}

func TestMissingScopeIsForbiddenAndChangesNothing(t *testing.T) {
	p := newPopulatedFixture(t)
	forEachOperation(t, func(d api.Declaration) bool { return d.Scope != "" }, func(t *testing.T, d api.Declaration) {
		fx := p.Copy(t)
		key := fx.CreateKey("acme", func(p *auth.Permissions) {
			p.Scopes = slices.DeleteFunc(p.Scopes, func(s auth.Scope) bool {
				return s == d.Scope || s == d.Scope.Resource().Write()
			})
		})
		before := fx.Items.Snapshot()
		path, body := requestTarget(t, d, p.sampleSet.Request(d), p.values)
		fx.Call(key, d.Method, path, body).Want(http.StatusForbidden, string(d.Scope))
		assertUnchanged(t, before, fx.Items.Snapshot())
		assertRefusalRecorded(fx, d, before)
	})
}

// TestDeclaredScopeIsSufficient checks that a key with no other scope than the declared one can call an operation.
func TestDeclaredScopeIsSufficient(t *testing.T) {
	p := newPopulatedFixture(t)
	forEachOperation(t, needsKey, func(t *testing.T, d api.Declaration) {
		fx := p.Copy(t)
		key := fx.CreateKey("acme", func(p *auth.Permissions) { p.Scopes = []auth.Scope{d.Scope} })
		if d.Scope == "" {
			key = fx.CreateKey("acme", func(p *auth.Permissions) { p.Scopes = nil })
		}
		path, body := requestTarget(t, d, p.sampleSet.Request(d), p.values)
		fx.Call(key, d.Method, path, body).Want(d.Status)
	})
}

func TestOperationsDeclareResponseForHiddenResources(t *testing.T) {
	sampleSet := samples(t)
	for _, g := range groups() {
		for _, d := range g.Declarations() {
			switch {
			case d.Public:
				if d.Invisible != (api.Invisible{}) {
					t.Errorf("%s: Invisible = %+v, want none for a public operation", d.ID, d.Invisible)
				}
			case d.Invisible.Project == 0 || d.Invisible.Environment == 0:
				t.Errorf("%s: Invisible = %+v, want api.InvisibleNotFound, api.InvisibleOmitted or two statuses",
					d.ID, d.Invisible)
			// sessions do not belong to a project
			case d.Mutates() && d.Invisible.Project < http.StatusMultipleChoices && !d.KeyOnly && !d.SessionOnly:
				t.Errorf("%s: Invisible.Project = %d, want the status of a refusal for a change", d.ID, d.Invisible.Project)
			}
			for _, r := range variants(sampleSet, d) {
				if parameters := namedObjects(d, r); len(parameters) > 0 && !d.Public && d.Invisible != api.InvisibleNotFound {
					t.Errorf("%s names %v: Invisible = %+v, want api.InvisibleNotFound", d.ID, parameters, d.Invisible)
				}
			}
		}
	}
}

// unauthorizedCaller is a kind of caller that cannot see the objects of the operations.
type unauthorizedCaller struct {
	name string
	// limit limits the permissions of the caller's key, which belongs to acme. nil means full access.
	limit func(*auth.Permissions)
	// owner is the account that owns the objects.
	owner string
	// visible are the groups whose objects the caller can see.
	visible []string
	// accountName is the account name in the paths of requests.
	accountName string
	// status returns the expected status of an operation, or 0 if the caller is allowed to call it. The responses of
	// the two fixtures must be equal in both cases.
	status func(d api.Declaration, r events.Request, path, body string) int
}

// namedObjects returns the parameters in the path, the query or the body of a request that identify an object that must
// exist.
func namedObjects(d api.Declaration, r events.Request) []string {
	return slices.DeleteFunc(append(events.Parameters(d), r.Parameters()...), isScopeParameter)
}

func unauthorizedCallers() []unauthorizedCaller {
	hiddenProject := func(d api.Declaration, _ events.Request, _, _ string) int { return d.Invisible.Project }
	hiddenEnvironment := func(d api.Declaration, _ events.Request, _, _ string) int { return d.Invisible.Environment }
	previewsOnly := func(p *auth.Permissions) { p.Environments = []environment.Kind{environment.Preview} }
	return []unauthorizedCaller{
		{
			name: "another account by its name", owner: "globex", accountName: "globex",
			status: func(d api.Declaration, r events.Request, path, body string) int {
				if strings.Contains(path+body, "globex") || len(namedObjects(d, r)) > 0 {
					return http.StatusNotFound
				}
				return 0
			},
		},
		{
			name: "another account's objects with the caller's account name", owner: "globex", accountName: "acme",
			status: func(d api.Declaration, r events.Request, path, body string) int {
				if len(namedObjects(d, r)) > 0 {
					return http.StatusNotFound
				}
				return 0
			},
		},
		{
			name: "a key of another project", owner: "acme", accountName: "acme", status: hiddenProject,
			limit: func(p *auth.Permissions) { p.Projects = []string{"blog"} },
		},
		{
			name: "a key of no project", owner: "acme", accountName: "acme", status: hiddenProject,
			limit: func(p *auth.Permissions) { p.Projects, p.Environments = []string{}, []environment.Kind{} },
		},
		{
			name: "a key of another kind of environment", owner: "acme", accountName: "acme", visible: []string{projects},
			status: hiddenEnvironment, limit: previewsOnly,
		},
		{
			name: "a key of the project, but another kind of environment", owner: "acme", accountName: "acme",
			visible: []string{projects},
			status: func(d api.Declaration, r events.Request, path, body string) int {
				if strings.Contains(body, "shop-next") {
					return http.StatusForbidden // the caller could not see the new project
				}
				return d.Invisible.Environment
			},
			limit: func(p *auth.Permissions) { p.Projects = []string{"shop"}; previewsOnly(p) },
		},
	}
}

// visibilityFixtures are two fixtures that differ only in the objects that the caller cannot see, which only
// withObjects has.
type visibilityFixtures struct {
	withObjects, withoutObjects *functionstest.Fixture
	key                         string
	values                      events.Values
}

// newFixtures returns the two fixtures for a caller. Both have the objects that the caller can see.
func (c unauthorizedCaller) newFixtures(t *testing.T, sampleSet *events.SampleSet) (out visibilityFixtures) {
	t.Helper()
	setup := func(t *testing.T) (fx *functionstest.Fixture, key, fullKey string) {
		fx = newFixture(t)
		fullKey = fx.CreateAccount("acme")
		key = fx.CreateKey("acme", c.limit)
		if len(c.visible) > 0 {
			populate(fx, sampleSet, fullKey, "acme", c.visible...)
		}
		return fx, key, fullKey
	}
	synctest.Test(t, func(t *testing.T) {
		withObjects, key, fullKey := setup(t)
		withoutObjects, otherKey, _ := setup(t)
		if key != otherKey {
			t.Fatalf("keys of the two fixtures = %s and %s, want the same key", key, otherKey)
		}
		if c.owner != "acme" {
			fullKey = withObjects.CreateAccount(c.owner)
		}
		var remaining []string
		for _, g := range groups() {
			if !slices.Contains(c.visible, g.Name) {
				remaining = append(remaining, g.Name)
			}
		}
		out = visibilityFixtures{
			withObjects: withObjects, withoutObjects: withoutObjects, key: key,
			values: populate(withObjects, sampleSet, fullKey, c.owner, remaining...),
		}
	})
	out.values["accountName"] = c.accountName
	return out
}

// TestHiddenResourcesLookMissing calls each operation as each unauthorizedCaller, in a fixture with the objects that
// the caller cannot see and in one without them. Both responses must be equal.
func TestHiddenResourcesLookMissing(t *testing.T) {
	sampleSet := samples(t)
	for _, c := range unauthorizedCallers() {
		t.Run(c.name, func(t *testing.T) {
			fixtures := c.newFixtures(t, sampleSet)
			forEachOperation(t, fewerIfRacing(needsKey), func(t *testing.T, d api.Declaration) {
				for i, r := range variants(sampleSet, d) {
					path, body := requestTarget(t, d, r, fixtures.values)
					want := c.status(d, r, path, body)
					if len(r.Prerequisites) > 0 && i > 0 {
						continue // only the owner can create the objects that a variant needs
					}
					if i > 0 && len(namedObjects(d, r)) == 0 && !strings.Contains(path+body, "globex") {
						want = 0 // a variant can be about another object than the plain request
					}
					withObjects, withoutObjects := fixtures.withObjects.Copy(t), fixtures.withoutObjects.Copy(t)
					// the objects of the caller's account are in both fixtures
					before, withoutBefore := withObjects.Items.Snapshot(), withoutObjects.Items.Snapshot()
					hidden := withObjects.Call(fixtures.key, d.Method, path, body)
					missing := withoutObjects.Call(fixtures.key, d.Method, path, body)
					if hidden.Dump != missing.Dump {
						t.Errorf("response for a hidden object =\n%s\nwant as for a missing one\n%s", hidden.Dump, missing.Dump)
					}
					if want != 0 && hidden.Status != want && (want >= http.StatusMultipleChoices || hidden.Status != d.Status) {
						t.Errorf("%s %s %s = %s, want %d as declared by Invisible", d.Method, path, body, hidden.Dump, want)
					}
					after := withObjects.Items.Snapshot()
					if hidden.Status >= http.StatusMultipleChoices {
						assertUnchanged(t, before, after)
						assertRefusalRecorded(withObjects, d, before)
					}
					for key, item := range before {
						if _, isShared := withoutBefore[key]; !isShared && c.owner != "acme" && !reflect.DeepEqual(item, after[key]) {
							t.Errorf("%s changed %s %s of another account, want no change", d.ID, key.PK, key.SK)
						}
					}
				}
			})
		})
	}
}

// TestOtherAccountsDoNotAffectResponses calls each operation as an account with all objects, in a fixture with and in
// one without another account that has objects with the same names. The responses must have the same bytes, and the
// objects of the other account must not change.
func TestOtherAccountsDoNotAffectResponses(t *testing.T) {
	sampleSet := samples(t)
	var single, shared *functionstest.Fixture
	var key string
	var values events.Values
	synctest.Test(t, func(t *testing.T) {
		setup := func() (fx *functionstest.Fixture) {
			fx = newFixture(t)
			key = fx.CreateAccount("acme")
			values = populate(fx, sampleSet, key, "acme")
			return fx
		}
		single, shared = setup(), setup()
		populate(shared, sampleSet, shared.CreateAccount("globex"), "globex")
	})
	initial := single.Items.Snapshot()
	forEachOperation(t, needsKey, func(t *testing.T, d api.Declaration) {
		for _, r := range append(variants(sampleSet, d), sampleSet.CreationRequests(d)...) {
			send := func(fx *functionstest.Fixture) string {
				n := maps.Clone(values)
				if err := sampleSet.RunSteps(fx.Client(key), n, r.Prerequisites); err != nil {
					t.Fatal(err)
				}
				path, body := requestTarget(t, d, r, n)
				fx.Restart()
				return fx.Call(key, d.Method, path, body).Dump
			}
			sharedCopy := shared.Copy(t)
			before := sharedCopy.Items.Snapshot()
			if got, want := send(sharedCopy), send(single.Copy(t)); got != want {
				t.Errorf("response with the objects of another account =\n%s\nwant as without them\n%s", got, want)
			}
			after := sharedCopy.Items.Snapshot()
			for itemKey, item := range before {
				if _, isOwn := initial[itemKey]; !isOwn && !reflect.DeepEqual(item, after[itemKey]) {
					t.Errorf("%s changed %s %s of another account, want no change", d.ID, itemKey.PK, itemKey.SK)
				}
			}
		}
	})
}

// TestBadInputIsRefusedAndRecorded checks that the response to an invalid body is 400, and that the audit record says
// that the change was refused.
func TestBadInputIsRefusedAndRecorded(t *testing.T) {
	p := newPopulatedFixture(t)
	forEachOperation(t, func(d api.Declaration) bool { return d.TakesBody }, func(t *testing.T, d api.Declaration) {
		fx := p.Copy(t)
		path, _ := requestTarget(t, d, p.sampleSet.Request(d), p.values)
		for _, body := range []string{`{`, `"text"`, `17`, `{"a":1,"a":2}`} {
			fx.Restart()
			fx.Now = fx.Now.Add(time.Second)
			before := fx.Items.Snapshot()
			fx.Call(p.key, d.Method, path, body).Want(http.StatusBadRequest)
			assertUnchanged(t, before, fx.Items.Snapshot())
			assertRefusalRecorded(fx, d, before)
		}
	})
}
