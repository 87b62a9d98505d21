package functions_test

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/console"
	"github.com/gatewright/gatewright/events"
	"github.com/gatewright/gatewright/functions"
	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/testing/simulations"
)

// varGroup is the environment variable that limits these tests to the operations of one group. `make test
// PKG=variables` sets it to variables. If it is empty, the tests cover all groups.
const varGroup = "GATEWRIGHT_TEST_GROUP"

// projects is the group that creates the project for the objects of all other groups.
const projects = "projects"

// groups returns the product's groups, which are created once for all tests.
var groups = sync.OnceValue(functions.Groups)

// routing returns the routing of fixtures with all groups, which is created once for all tests.
var routing = sync.OnceValue(func() *functionstest.Routing {
	var binds []functionstest.Bind
	for _, g := range groups() {
		binds = append(binds, g.Bind)
	}
	return functionstest.NewRouting(binds...)
})

// newFixture creates an empty fixture of all groups.
func newFixture(t *testing.T) *functionstest.Fixture {
	t.Helper()
	for _, g := range groups() {
		if diff := bindingDiff(g); diff != "" {
			t.Fatal(diff) // otherwise every operation would fail
		}
	}
	return routing().New(t)
}

// samples returns the sample requests of all groups.
func samples(t *testing.T) *events.SampleSet {
	t.Helper()
	sampleSet, err := events.Open(functions.APIGroups())
	if err != nil {
		t.Fatal(err)
	}
	return sampleSet
}

// sharedValues returns the values of the parameters that no group's samples define.
func sharedValues(account string) events.Values {
	return events.Values{
		"accountName": account, "projectName": "shop", "branchName": "main",
		"consoleIcon": console.Embedded().Icon(),
	}
}

// populate creates the objects of groups, or of all groups if none is named, in an account. key is a key of the
// account. populate returns the values of the path parameters that identify the objects.
func populate(
	fx *functionstest.Fixture, sampleSet *events.SampleSet, key, account string, groups ...string,
) events.Values {
	fx.Helper()
	n, err := sampleSet.Values(sharedValues(account))
	if err != nil {
		fx.Fatal(err)
	}
	if err := sampleSet.Setup(fx.Client(key), n, groups...); err != nil {
		fx.Fatal(err)
	}
	return n
}

// populatedFixture is a fixture whose account acme has one object of each kind. newPopulatedFixture creates it in a
// synctest bubble, because the operation of a build waits until all gateways serve the build. Tests use copies.
type populatedFixture struct {
	*functionstest.Fixture
	sampleSet *events.SampleSet
	key       string
	values    events.Values
}

func newPopulatedFixture(t *testing.T) (p populatedFixture) {
	t.Helper()
	p.sampleSet = samples(t)
	synctest.Test(t, func(t *testing.T) {
		p.Fixture = newFixture(t)
		p.key = p.CreateAccount("acme")
		p.values = populate(p.Fixture, p.sampleSet, p.key, "acme")
	})
	return p
}

// callerKey returns the credential with which an operation is called in a copy of the fixture: the account's key, or
// the token of a session if the operation only allows sessions.
func (p populatedFixture) callerKey(fx *functionstest.Fixture, d api.Declaration) string {
	if d.SessionOnly {
		session := fx.CreateSession(p.key)
		fx.Now = fx.Now.Add(time.Second) // so that the operation is the first request of its second
		return session
	}
	return p.key
}

// onlyGroup returns the group to which the tests are limited, or "" for all groups. It fails the test for an unknown
// name, because the tests would then test nothing.
func onlyGroup(t *testing.T) string {
	t.Helper()
	name := os.Getenv(varGroup)
	names := []string{""}
	for _, g := range groups() {
		names = append(names, g.Name)
	}
	for _, f := range functions.Triggered() {
		names = append(names, f.Name) // events call this function, so it has no operations
	}
	if !slices.Contains(names, name) {
		t.Fatalf("%s = %s, want one of %v", varGroup, name, names[1:])
	}
	return name
}

// skipIfSingleGroup skips a test that needs all groups if the tests are limited to one group. `make test` runs it.
func skipIfSingleGroup(t *testing.T) {
	t.Helper()
	if onlyGroup(t) != "" {
		t.Skip("the test needs all groups: make test runs it")
	}
}

// forEachOperation runs a test for every operation for which match returns true, each in a synctest bubble. It skips
// operations that only allow sessions.
func forEachOperation(t *testing.T, match func(api.Declaration) bool, test func(t *testing.T, d api.Declaration)) {
	t.Helper()
	group := onlyGroup(t)
	for _, g := range groups() {
		if group != "" && group != g.Name {
			continue
		}
		for _, d := range g.Declarations() {
			if match(d) && !d.SessionOnly { // keys cannot call it; its group's own tests cover it
				t.Run(d.ID, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { test(t, d) }) })
			}
		}
	}
}

// fewerIfRacing returns a match function for tests that make many sequential calls. With the race detector, it returns
// true for only one in twelve of the operations: they are enough to find a race.
func fewerIfRacing(match func(api.Declaration) bool) func(api.Declaration) bool {
	matched := 0
	return func(d api.Declaration) bool {
		if !match(d) {
			return false
		}
		matched++
		return !simulations.RaceEnabled || matched%12 == 1
	}
}

func anyOperation(api.Declaration) bool { return true }
func needsKey(d api.Declaration) bool   { return !d.Public }
func mutates(d api.Declaration) bool    { return d.Mutates() }
func inDocument(d api.Declaration) bool { return !d.Hidden }

// requestTarget returns the path with the query, and the body, of a request with the values n of parameters.
func requestTarget(t *testing.T, d api.Declaration, r events.Request, n events.Values) (path, body string) {
	t.Helper()
	path, body, err := r.Target(d, n)
	if err != nil {
		t.Fatal(err)
	}
	return path, body
}

// variants returns the valid requests of an operation. The first one is the plain request.
func variants(sampleSet *events.SampleSet, d api.Declaration) []events.Request {
	r := sampleSet.Request(d)
	return append([]events.Request{r}, r.Variants...)
}

// sendValid sends one of the valid requests of an operation to a copy of the fixture. It returns the copy, the
// response, and the values of the request's parameters. The field Uses of the copy has only the uses of this request.
func (p populatedFixture) sendValid(
	t *testing.T, d api.Declaration, r events.Request, headers ...string,
) (*functionstest.Fixture, functionstest.Response, events.Values) {
	t.Helper()
	fx, n := p.Copy(t), maps.Clone(p.values)
	if err := p.sampleSet.RunSteps(fx.Client(p.key), n, r.Prerequisites); err != nil {
		t.Fatal(err)
	}
	path, body := requestTarget(t, d, r, n)
	fx.Now = fx.Now.AddDate(0, 0, 1) // so that its audit record is on another day
	fx.Restart()
	key := p.callerKey(fx, d)
	fx.Uses.Clear()
	resp := fx.Call(key, d.Method, path, body, headers...)
	if resp.Status != d.Status {
		t.Fatalf("valid request %s %s = %d %s, want %d: correct it in the group's samples.json",
			path, body, resp.Status, resp.Body, d.Status)
	}
	return fx, resp, n
}

// TestEveryValidRequestSucceeds checks that the owner of the objects can call every operation on them. Otherwise the
// authorization sweep (sweep_test.go) would compare responses for objects that do not exist.
func TestEveryValidRequestSucceeds(t *testing.T) {
	p := newPopulatedFixture(t)
	forEachOperation(t, anyOperation, func(t *testing.T, d api.Declaration) {
		for _, r := range variants(p.sampleSet, d) {
			p.sendValid(t, d, r)
		}
	})
}

// TestSamplesCreateEveryObject checks that the setup steps of each group create the objects that the group's parameters
// identify. Otherwise an object would be missing in both fixtures of the authorization sweep, and the sweep would
// compare nothing. It only searches records that the group's own steps have created, because an earlier record can
// contain the same text.
func TestSamplesCreateEveryObject(t *testing.T) {
	sampleSet := samples(t)
	synctest.Test(t, func(t *testing.T) {
		fx := newFixture(t)
		key := fx.CreateAccount("acme")
		n, err := sampleSet.Values(sharedValues("acme"))
		if err != nil {
			t.Fatal(err)
		}
		created := map[string]bool{}
		for _, g := range groups() {
			before := fx.Items.Snapshot()
			if err := sampleSet.Setup(fx.Client(key), n, g.Name); err != nil {
				t.Fatal(err)
			}
			for _, d := range g.Declarations() {
				for _, name := range objectParameters(d) {
					if created[name] {
						continue // this group or an earlier one created it
					}
					created[name] = true
					switch {
					case n[name] == "":
						t.Errorf("%s: {%s} has no value, want one from events/%s/samples.json", d.ID, name, g.Name)
					case hasText(t, before, n[name]):
						t.Errorf("%s: {%s} = %q is in the table before the setup of %s, want a name that only this setup uses",
							d.ID, name, n[name], g.Name)
					case !hasText(t, fx.Items.Snapshot(), n[name]):
						t.Errorf("%s: {%s} = %q is not in the table after the setup, want a step in events/%s/samples.json "+
							"that creates it", d.ID, name, n[name], g.Name)
					}
				}
			}
		}
	})
}

// hasText reports whether a text is a part of a table key or a whole value in a table, apart from audit records.
func hasText(t *testing.T, items table, text string) bool {
	t.Helper()
	for key, item := range items {
		if audit.IsRecord(key) {
			continue
		}
		for _, part := range strings.Split(key.PK+"#"+key.SK, "#") {
			if part == text {
				return true
			}
		}
		raw, err := json.Marshal(item)
		if err != nil {
			t.Fatal(err)
		}
		var record any
		if err := json.Unmarshal(raw, &record); err != nil {
			t.Fatal(err)
		}
		if containsValue(record, text) {
			return true
		}
	}
	return false
}

// containsValue reports whether a text is a whole value, or the name of a value, in a record that was decoded from
// JSON.
func containsValue(record any, text string) bool {
	contains := func(v any) bool { return containsValue(v, text) }
	switch v := record.(type) {
	case string:
		return v == text
	case []any:
		return slices.ContainsFunc(v, contains)
	case map[string]any:
		_, ok := v[text]
		return ok || slices.ContainsFunc(slices.Collect(maps.Values(v)), contains)
	}
	return false
}

// objectParameters returns the path parameters of an operation that identify an object that must exist. These are all
// parameters except scope parameters. Operations that are hidden from the document have none: their pages are part of
// the binary and belong to no account.
func objectParameters(d api.Declaration) []string {
	if d.Hidden {
		return nil
	}
	return slices.DeleteFunc(events.Parameters(d), isScopeParameter)
}

// isScopeParameter reports whether a parameter names the account, project or branch to which an object belongs.
func isScopeParameter(parameter string) bool {
	return parameter == "accountName" || parameter == "projectName" || parameter == "branchName"
}
