package functions_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/events"
	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/apitools"
	"github.com/gatewright/gatewright/shared/durable"
	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/operation/simulations"
)

// thing is what an account has one of: its kind, by the name of the API's list, and what parameters are called for it.
type thing struct {
	kind  string
	names events.Names
}

// census is all that an account has, as the API shows it: it knows nothing of how the table holds it.
type census struct {
	*functionstest.World
	key    string
	things []thing
}

// lists are those of the API that need a thing of one kind, or none, with the parameters that they give.
var lists = []struct {
	of, kind, path string
	keep           map[string]string
}{
	{"", "accountKeys", "/v1/accounts/acme/account-keys", map[string]string{"accountKeyId": "id"}},
	{"", "keyBuckets", "/v1/accounts/acme/key-buckets", map[string]string{"bucketName": "name", "keyBucketId": "id"}},
	{"keyBuckets", "consumers", "/v1/accounts/acme/key-buckets/{bucketName}/consumers", map[string]string{"consumerName": "name", "consumerId": "id"}},
	{"consumers", "apiKeys", "/v1/accounts/acme/key-buckets/{bucketName}/consumers/{consumerName}/keys", map[string]string{"keyId": "id"}},
	{"consumers", "managers", "/v1/accounts/acme/key-buckets/{bucketName}/consumers/{consumerName}/managers", map[string]string{"managerId": "id"}},
	{"", "projects", "/v1/projects", map[string]string{"projectName": "name"}},
	{"projects", "deployments", "/v1/accounts/acme/projects/{projectName}/deployments", map[string]string{"deploymentName": "name", "branchName": "branchName"}},
	{"projects", "environments", "/v1/environments?accountName=acme&projectName={projectName}", map[string]string{"environmentName": "name", "branchName": "branchName"}},
	{"projects", "variables", "/v1/accounts/acme/projects/{projectName}/branches/main/variables", map[string]string{"variableName": "name", "branchName": "branch"}},
	{"projects", "mtlsCertificates", "/v1/accounts/acme/projects/{projectName}/mtls-certificates", map[string]string{"mtlsCertificateId": "id"}},
	{"", "clientMtlsCaCertificates", "/v1/accounts/acme/client-mtls-ca-certificates", map[string]string{"id": "id"}},
	{"", "customDomains", "/v1/accounts/acme/custom-domains", map[string]string{"hostname": "hostname"}},
	{"", "meteringBuckets", "/v1/metering", map[string]string{"bucketId": "id"}},
	{"meteringBuckets", "plans", "/v1/metering/{bucketId}/plans", map[string]string{"planId": "id"}},
	{"meteringBuckets", "subscriptions", "/v1/metering/{bucketId}/subscriptions", map[string]string{"subscriptionId": "id"}},
	{"", "tunnels", "/v1/accounts/acme/tunnels", map[string]string{"tunnelId": "id"}},
}

func (c *census) get(path string, n events.Names) functionstest.Value {
	for name, text := range n {
		path = strings.ReplaceAll(path, "{"+name+"}", url.PathEscape(text))
	}
	a := c.Call(c.key, http.MethodGet, path, "")
	if a.Status == http.StatusNotFound { // what its list still had is gone, such as in a project that is being deleted
		return functionstest.Value{}
	}
	return a.Want(http.StatusOK).JSON()
}

func (c *census) add(kind string, n events.Names, times int) {
	for range max(0, times) {
		c.things = append(c.things, thing{kind, n})
	}
}

// walk adds what is of things of a kind.
func (c *census) walk(of string, n events.Names) {
	for _, list := range lists {
		if list.of != of {
			continue
		}
		page := c.get(list.path, n)
		for i := range max(0, page.Len("data")) {
			one, own := page.At(fmt.Sprintf("data.%d", i)), maps.Clone(n)
			for parameter, field := range list.keep {
				own[parameter] = one.Text(field)
			}
			c.add(list.kind, own, 1)
			switch list.kind {
			case "customDomains":
				c.add("customDomainMappings", own, one.Len("deployments"))
				if !one.Null("certificate") {
					c.add("customDomainCertificates", own, 1)
				}
			case "consumers":
				read := c.get(list.path+"/{consumerName}?include-manager-invites=true", own)
				c.add("managerInvites", own, read.Len("managerInvites"))
			case "tunnels":
				c.add("tunnelServices", own, c.get(list.path+"/{tunnelId}/services-configuration", own).Len("services"))
			}
			c.walk(list.kind, own)
		}
	}
}

func censusOf(w *functionstest.World, key string) []thing {
	c := census{World: w, key: key}
	c.walk("", events.Names{})
	return c.things
}

func counted(all []thing) map[string]int {
	out := map[string]int{}
	for _, one := range all {
		out[one.kind]++
	}
	return out
}

// goOn has operations go on: those that wait for days do not come to their end.
func goOn(t *testing.T, w *functionstest.World) *functionstest.World {
	t.Helper()
	engine, err := durable.Engine(w.Parts)
	if err != nil {
		t.Fatal(err)
	}
	for range 4 {
		all, err := engine.List(w.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range all {
			if r.Ended() {
				continue
			}
			if _, err := engine.Run(w.Context(), r.ID); err != nil {
				t.Fatal(err)
			}
		}
		w.Now = w.Now.Add(time.Hour)
	}
	return w
}

// forked is a copy whose random numbers are those of n, so that two of one n draw the same and one of another n others.
func forked(t *testing.T, w *functionstest.World, n uint64) *functionstest.World {
	t.Helper()
	c := w.Copy(t)
	c.Parts.Random = rand.NewChaCha8(sha256.Sum256(fmt.Append(nil, n)))
	c.Parts.IDs = ids.NewSource(c.Parts.Random, c.Parts.Now)
	c.Restart()
	return c
}

// changeOf draws a change of what there is, or of what is nowhere.
func changeOf(t *testing.T, random *rand.Rand, p populated, all []thing, changes []api.Declaration) trial {
	t.Helper()
	d := changes[random.IntN(len(changes))]
	good := variants(p.book, d)
	r := good[random.IntN(len(good))]
	n := maps.Clone(p.names)
	for _, parameter := range append(events.Parameters(d), r.Placeholders()...) {
		var fit []thing
		for _, one := range all {
			if one.names[parameter] != "" {
				fit = append(fit, one)
			}
		}
		if len(fit) > 0 && random.IntN(6) > 0 {
			maps.Copy(n, fit[random.IntN(len(fit))].names)
		}
	}
	if random.IntN(2) == 0 {
		r.Names = nil
	}
	path, body := target(t, d, r, n)
	for _, own := range []string{"-internal", "acme-mobile", "warehouse", "docs."} {
		body = strings.ReplaceAll(body, own, []string{"", "x-", "y-"}[random.IntN(3)]+own)
	}
	return trial{key: p.key, d: d, path: path, body: body}
}

// readerOf is the tool that reads what a path is about, by all tools there are.
func readerOf(tools map[string]*apitools.Tool, path string) *apitools.Tool {
	for tools["GET "+path] == nil && path != "" {
		path = path[:max(0, strings.LastIndexByte(path, '/'))]
	}
	return tools["GET "+path]
}

// manyStates is how many changes are tried; `make fuzz` has more. Under the race detector they are few: one thing happens at a time.
func manyStates(t *testing.T) int {
	t.Helper()
	if simulations.Racing {
		return 16
	}
	return 96 + *violations/50
}

// TestADryRunTellsWhatItsChangeDoesInManyStates tries changes one after the other, each by a call of its tool, and makes
// each then in two more worlds of the same past: what is told is what comes, of deletions by all that the API shows before and after,
// what is refused is refused alike, and a trial changes nothing, and nothing of its change after it.
func TestADryRunTellsWhatItsChangeDoesInManyStates(t *testing.T) {
	together(t) // what goes with a thing is counted in the lists of all groups
	p, tools := newPopulated(t), toolsByOperation(t)
	var changes []api.Declaration
	for _, g := range groups() {
		for _, d := range g.Declarations() {
			if d.Mutates() && isTool(d) && (only(t) == "" || only(t) == g.Name) {
				changes = append(changes, d)
			}
		}
	}
	tried, done := 0, 0
	synctest.Test(t, func(t *testing.T) {
		start := p.Copy(t)
		watcher, next := start.Key("acme", nil), start
		watching := censusOf(start.Copy(t), watcher)[0].names["accountKeyId"] // the newest is first
		random := rand.New(rand.NewPCG(*violationSeed, 0))
		for i := range manyStates(t) {
			if i%12 == 0 {
				next = start.Copy(t)
			}
			all := censusOf(next.Copy(t), watcher)
			c := changeOf(t, random, p, all, changes)
			tool := tools[c.d.Method+" "+c.d.Path]
			arguments, ok := argumentsFor(tool, c.path, c.body)
			if !ok || strings.Contains(c.path, watching) {
				continue
			}
			tried++
			n := random.Uint64()
			trial, made := forked(t, next, n), forked(t, next, n)
			c.World, c.items, c.objects = trial, trial.Items.Snapshot(), objectsOf(trial)
			dry := maps.Clone(arguments)
			dry["dryRun"] = true
			told := callTool(t, trial, c.key, tool.Name, dry)
			c.left()
			got := callTool(t, made, c.key, tool.Name, arguments)
			if told.unfit != got.unfit || told.isError != got.isError || got.isError && (told.text != got.text || !sameJSON(told.answer, got.answer)) {
				t.Errorf("%s %s: a trial is answered %s, and the change %s", c.path, c.body, told.text, got.text)
			}
			if got.unfit || got.isError {
				continue
			}
			done++
			var what api.DryRun
			if err := json.Unmarshal(told.answer, &what); err != nil {
				t.Fatal(err)
			}
			c.World = made
			if after, read := c.readAt(t); read && c.d.Method != http.MethodDelete {
				if masked, _ := readerOf(tools, c.d.Path).Mask(after); !sameJSON(masked, what.After) {
					t.Errorf("%s %s: told %s, and read %s", c.path, c.body, what.After, masked)
				}
			}
			records := recorded(made, c.items)
			if len(records) == 1 && what.AuditRecord != nil {
				records[0].TTL = 0
			}
			if (len(records) == 1) != (what.AuditRecord != nil) || len(records) == 1 && !reflect.DeepEqual(encoded(t, records[0]), encoded(t, what.AuditRecord)) {
				t.Errorf("%s %s: told %s, and recorded %s", c.path, c.body, encoded(t, what.AuditRecord), encoded(t, records))
			}
			if again := callTool(t, trial, c.key, tool.Name, arguments); again.isError || again.unfit {
				t.Errorf("%s %s: after its trial the change is answered %s", c.path, c.body, again.text)
			}
			before := counted(censusOf(goOn(t, next.Copy(t)), watcher))
			if c.d.Method == http.MethodDelete && maps.Equal(before, counted(all)) { // or operations of before remove some of it
				gone := before
				for kind, n := range counted(censusOf(goOn(t, made.Copy(t)), watcher)) {
					gone[kind] -= n
				}
				for _, counts := range []map[string]int{gone, what.Removes} {
					maps.DeleteFunc(counts, func(_ string, n int) bool { return n == 0 })
				}
				if !maps.Equal(gone, what.Removes) {
					t.Errorf("%s: told %v, and gone are %v", c.path, what.Removes, gone)
				}
			}
			next = made
			if random.IntN(2) == 0 {
				goOn(t, next)
			}
			if t.Failed() {
				return
			}
		}
	})
	t.Logf("%d changes were tried, %d of them made", tried, done)
	if done < tried/4 {
		t.Errorf("of %d changes %d were made: too few to tell", tried, done)
	}
}
