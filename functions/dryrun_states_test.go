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
	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/management/apitools"
	"github.com/gatewright/gatewright/shared/runtime/durable"
	"github.com/gatewright/gatewright/shared/testing/simulations"
)

// apiObject is an object of an account: its kind, which is the name of the API's list, and the values of the path
// parameters that identify it.
type apiObject struct {
	kind   string
	values events.Values
}

// inventory has all objects of an account. It reads them through the API, so it does not depend on the records in the
// table.
type inventory struct {
	*functionstest.Fixture
	key     string
	objects []apiObject
}

// lists are the lists of the API. A list contains objects of one kind. The path of a list below another object has the
// parameters of that object, whose kind is parent. parent is "" for a top-level list. parameters maps each path
// parameter that identifies an object of the list to the field of the entry that contains its value.
var lists = []struct {
	parent, kind, path string
	parameters         map[string]string
}{
	{"", "accountKeys", "/v1/accounts/acme/account-keys", map[string]string{"accountKeyId": "id"}},
	{"", "keyBuckets", "/v1/accounts/acme/key-buckets", map[string]string{"bucketName": "name", "keyBucketId": "id"}},
	{
		"keyBuckets", "consumers", "/v1/accounts/acme/key-buckets/{bucketName}/consumers",
		map[string]string{"consumerName": "name", "consumerId": "id"},
	},
	{
		"consumers", "apiKeys", "/v1/accounts/acme/key-buckets/{bucketName}/consumers/{consumerName}/keys",
		map[string]string{"keyId": "id"},
	},
	{
		"consumers", "managers", "/v1/accounts/acme/key-buckets/{bucketName}/consumers/{consumerName}/managers",
		map[string]string{"managerId": "id"},
	},
	{"", "projects", "/v1/projects", map[string]string{"projectName": "name"}},
	{
		"projects", "deployments", "/v1/accounts/acme/projects/{projectName}/deployments",
		map[string]string{"deploymentName": "name", "branchName": "branchName"},
	},
	{
		"projects", "environments", "/v1/environments?accountName=acme&projectName={projectName}",
		map[string]string{"environmentName": "name", "branchName": "branchName"},
	},
	{
		"projects", "variables", "/v1/accounts/acme/projects/{projectName}/branches/main/variables",
		map[string]string{"variableName": "name", "branchName": "branch"},
	},
	{
		"projects", "mtlsCertificates", "/v1/accounts/acme/projects/{projectName}/mtls-certificates",
		map[string]string{"mtlsCertificateId": "id"},
	},
	{"", "clientMtlsCaCertificates", "/v1/accounts/acme/client-mtls-ca-certificates", map[string]string{"id": "id"}},
	{"", "customDomains", "/v1/accounts/acme/custom-domains", map[string]string{"hostname": "hostname"}},
	{"", "meteringBuckets", "/v1/metering", map[string]string{"bucketId": "id"}},
	{"meteringBuckets", "plans", "/v1/metering/{bucketId}/plans", map[string]string{"planId": "id"}},
	{
		"meteringBuckets", "subscriptions", "/v1/metering/{bucketId}/subscriptions",
		map[string]string{"subscriptionId": "id"},
	},
	{"", "tunnels", "/v1/accounts/acme/tunnels", map[string]string{"tunnelId": "id"}},
}

func (in *inventory) get(path string, n events.Values) functionstest.Value {
	for name, text := range n {
		path = strings.ReplaceAll(path, "{"+name+"}", url.PathEscape(text))
	}
	resp := in.Call(in.key, http.MethodGet, path, "")
	// the parent object no longer exists, such as a project that is being deleted
	if resp.Status == http.StatusNotFound {
		return functionstest.Value{}
	}
	return resp.Want(http.StatusOK).JSON()
}

func (in *inventory) add(kind string, n events.Values, times int) {
	for range max(0, times) {
		in.objects = append(in.objects, apiObject{kind, n})
	}
}

// walk adds the objects below an object. parent is the kind of that object, and n has its parameters.
func (in *inventory) walk(parent string, n events.Values) {
	for _, list := range lists {
		if list.parent != parent {
			continue
		}
		page := in.get(list.path, n)
		for i := range max(0, page.Len("data")) {
			entry, values := page.At(fmt.Sprintf("data.%d", i)), maps.Clone(n)
			for parameter, field := range list.parameters {
				values[parameter] = entry.Text(field)
			}
			in.add(list.kind, values, 1)
			switch list.kind {
			case "customDomains":
				in.add("customDomainMappings", values, entry.Len("deployments"))
				if !entry.IsNull("certificate") {
					in.add("customDomainCertificates", values, 1)
				}
			case "consumers":
				consumer := in.get(list.path+"/{consumerName}?include-manager-invites=true", values)
				in.add("managerInvites", values, consumer.Len("managerInvites"))
			case "tunnels":
				in.add("tunnelServices", values, in.get(list.path+"/{tunnelId}/services-configuration", values).Len("services"))
			}
			in.walk(list.kind, values)
		}
	}
}

func listObjects(fx *functionstest.Fixture, key string) []apiObject {
	c := inventory{Fixture: fx, key: key}
	c.walk("", events.Values{})
	return c.objects
}

func countByKind(objects []apiObject) map[string]int {
	out := map[string]int{}
	for _, obj := range objects {
		out[obj.kind]++
	}
	return out
}

// runOperations runs durable operations for some time. Operations that wait for days do not end.
func runOperations(t *testing.T, fx *functionstest.Fixture) *functionstest.Fixture {
	t.Helper()
	engine, err := durable.Engine(fx.Parts)
	if err != nil {
		t.Fatal(err)
	}
	for range 4 {
		operations, err := engine.List(fx.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range operations {
			if r.Ended() {
				continue
			}
			if _, err := engine.Run(fx.Context(), r.ID); err != nil {
				t.Fatal(err)
			}
		}
		fx.Now = fx.Now.Add(time.Hour)
	}
	return fx
}

// fork returns a copy of a fixture whose random numbers depend on n: copies with the same n use the same random
// numbers.
func fork(t *testing.T, fx *functionstest.Fixture, n uint64) *functionstest.Fixture {
	t.Helper()
	c := fx.Copy(t)
	c.Parts.Random = rand.NewChaCha8(sha256.Sum256(fmt.Append(nil, n)))
	c.Parts.IDs = ids.NewSource(c.Parts.Random, c.Parts.Now)
	c.Restart()
	return c
}

// randomChange returns a random change of an object that exists or is missing.
func randomChange(
	t *testing.T, random *rand.Rand, p populatedFixture, objects []apiObject, changes []api.Declaration,
) dryRunTest {
	t.Helper()
	d := changes[random.IntN(len(changes))]
	requests := variants(p.sampleSet, d)
	r := requests[random.IntN(len(requests))]
	n := maps.Clone(p.values)
	for _, parameter := range append(events.Parameters(d), r.Parameters()...) {
		var candidates []apiObject
		for _, candidate := range objects {
			if candidate.values[parameter] != "" {
				candidates = append(candidates, candidate)
			}
		}
		if len(candidates) > 0 && random.IntN(6) > 0 {
			maps.Copy(n, candidates[random.IntN(len(candidates))].values)
		}
	}
	if random.IntN(2) == 0 {
		r.Values = nil
	}
	path, body := requestTarget(t, d, r, n)
	for _, text := range []string{"-internal", "acme-mobile", "warehouse", "docs."} {
		body = strings.ReplaceAll(body, text, []string{"", "x-", "y-"}[random.IntN(3)]+text)
	}
	return dryRunTest{key: p.key, d: d, path: path, body: body}
}

// readTool returns the tool that reads the resource with a path. If there is none, it returns the tool for the closest
// resource above.
func readTool(tools map[string]*apitools.Tool, path string) *apitools.Tool {
	for tools["GET "+path] == nil && path != "" {
		path = path[:max(0, strings.LastIndexByte(path, '/'))]
	}
	return tools["GET "+path]
}

// changeCount returns the number of random changes that the test chooses. The flag -violations increases it. With the
// race detector, few are enough, because the test is sequential.
func changeCount(t *testing.T) int {
	t.Helper()
	if simulations.RaceEnabled {
		return 16
	}
	return 96 + *randomViolations/50
}

// checkReport compares the report of a dry run with the state that is read after the change, and with the audit record
// of the change. The change was made in dt.Fixture.
func (dt dryRunTest) checkReport(t *testing.T, tools map[string]*apitools.Tool, report api.DryRunResult) {
	t.Helper()
	if after, read := dt.readObject(t); read && dt.d.Method != http.MethodDelete {
		if masked, _ := readTool(tools, dt.d.Path).Mask(after); !sameJSON(masked, report.After) {
			t.Errorf("%s %s: after = %s, want what a read returns: %s", dt.path, dt.body, report.After, masked)
		}
	}
	records := newAuditRecords(dt.Fixture, dt.items)
	if len(records) == 1 && report.AuditRecord != nil {
		records[0].TTL = 0
	}
	if (len(records) == 1) != (report.AuditRecord != nil) || len(records) == 1 &&
		!reflect.DeepEqual(encodeJSON(t, records[0]), encodeJSON(t, report.AuditRecord)) {
		t.Errorf("%s %s: auditRecord = %s, want that of the change: %s",
			dt.path, dt.body, encodeJSON(t, report.AuditRecord), encodeJSON(t, records))
	}
}

// checkRemoved compares the report of a deletion's dry run with the objects that the deletion has removed. before and
// after have the numbers of objects before and after the deletion.
func (dt dryRunTest) checkRemoved(t *testing.T, before, after map[string]int, report api.DryRunResult) {
	t.Helper()
	removed := before
	for kind, n := range after {
		removed[kind] -= n
	}
	for _, counts := range []map[string]int{removed, report.Removes} {
		maps.DeleteFunc(counts, func(_ string, n int) bool { return n == 0 })
	}
	if !maps.Equal(removed, report.Removes) {
		t.Errorf("%s: removes = %v, want %v", dt.path, report.Removes, removed)
	}
}

// TestDryRunMatchesChangeInManyStates makes random changes one after the other. For each change, it creates two
// fixtures with the same history. It makes a dry run with a tool call in the first fixture, and the change in the
// second. The dry run must report the effects of the change. For deletions, it must report all objects that the API no
// longer shows. Dry run and change must be refused in the same way, and the dry run must change nothing. If the
// change succeeds, it must then also succeed in the first fixture, after the dry run.
func TestDryRunMatchesChangeInManyStates(t *testing.T) {
	skipIfSingleGroup(t) // the counts of removed objects need the lists of all groups
	p, tools := newPopulatedFixture(t), toolsByOperation(t)
	var changes []api.Declaration
	for _, g := range groups() {
		for _, d := range g.Declarations() {
			if d.Mutates() && isTool(d) && (onlyGroup(t) == "" || onlyGroup(t) == g.Name) {
				changes = append(changes, d)
			}
		}
	}
	attempts, succeeded := 0, 0
	synctest.Test(t, func(t *testing.T) {
		start := p.Copy(t)
		watcherKey, current := start.CreateKey("acme", nil), start
		watcherID := listObjects(start.Copy(t), watcherKey)[0].values["accountKeyId"] // the first is the newest
		random := rand.New(rand.NewPCG(*violationSeed, 0))
		for i := range changeCount(t) {
			if i%12 == 0 {
				current = start.Copy(t)
			}
			objects := listObjects(current.Copy(t), watcherKey)
			c := randomChange(t, random, p, objects, changes)
			tool := tools[c.d.Method+" "+c.d.Path]
			arguments, ok := argumentsForRequest(tool, c.path, c.body)
			if !ok || strings.Contains(c.path, watcherID) {
				continue
			}
			attempts++
			n := random.Uint64()
			dryRunFixture, changedFixture := fork(t, current, n), fork(t, current, n)
			c.Fixture, c.items, c.objects = dryRunFixture, dryRunFixture.Items.Snapshot(), objectDigests(dryRunFixture)
			dryArguments := maps.Clone(arguments)
			dryArguments["dryRun"] = true
			dryResult := callTool(t, dryRunFixture, c.key, tool.Name, dryArguments)
			c.assertUnchanged()
			got := callTool(t, changedFixture, c.key, tool.Name, arguments)
			if dryResult.invalidArguments != got.invalidArguments || dryResult.isError != got.isError ||
				got.isError && (dryResult.text != got.text || !sameJSON(dryResult.response, got.response)) {
				t.Errorf("%s %s: dry run = %s with the response %s, want the result of the change, %s with the response %s",
					c.path, c.body, dryResult.text, dryResult.response, got.text, got.response)
			}
			if got.invalidArguments || got.isError {
				continue
			}
			succeeded++
			var report api.DryRunResult
			if err := json.Unmarshal(dryResult.response, &report); err != nil {
				t.Fatal(err)
			}
			c.Fixture = changedFixture
			c.checkReport(t, tools, report)
			if repeated := callTool(t, dryRunFixture, c.key, tool.Name, arguments); repeated.isError ||
				repeated.invalidArguments {
				t.Errorf("%s %s after its dry run = %s, want success", c.path, c.body, repeated.text)
			}
			before := countByKind(listObjects(runOperations(t, current.Copy(t)), watcherKey))
			// This check is skipped if durable operations of earlier changes remove objects too.
			if c.d.Method == http.MethodDelete && maps.Equal(before, countByKind(objects)) {
				c.checkRemoved(t, before, countByKind(listObjects(runOperations(t, changedFixture.Copy(t)), watcherKey)), report)
			}
			current = changedFixture
			if random.IntN(2) == 0 {
				runOperations(t, current)
			}
			if t.Failed() {
				return
			}
		}
	})
	t.Logf("%d changes were tried, %d of them made", attempts, succeeded)
	if succeeded < attempts/4 {
		t.Errorf("%d of %d changes succeeded, want a quarter or more", succeeded, attempts)
	}
}
