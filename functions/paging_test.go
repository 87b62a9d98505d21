package functions_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/management/api"
)

// listResponse is the response of an operation that returns a part of a list.
type listResponse struct {
	Data                 []json.RawMessage
	Limit, Offset, Total int
	Next                 string
	// Pagination has the numbers of the page in the response of the audit log (contract 1.3).
	Pagination *struct{ Limit, Offset, Total int }
}

// unpagedLists are the operations whose lists have only one page, with the reason.
var unpagedLists = map[string]string{
	"AnalyticsService_recentCalls": "it returns the newest calls, which change with every request (contract 2.10)",
}

// TestEveryListIsPaged requests each list in pages of one entry, by offsets and by cursors. The pages must have the
// entries and the total of the whole list. A limit above the maximum must be reduced to the maximum.
func TestEveryListIsPaged(t *testing.T) {
	p := newPopulatedFixture(t)
	operations, _ := readOpenAPI(t)
	isList := func(d api.Declaration) bool {
		for _, parameter := range operations[d.ID].Parameters {
			if parameter.In == "query" && parameter.Name == "limit" && unpagedLists[d.ID] == "" {
				return true
			}
		}
		return false
	}
	forEachOperation(t, isList, func(t *testing.T, d api.Declaration) {
		fx, n, r := p.Copy(t), maps.Clone(p.values), p.sampleSet.Request(d)
		for _, creator := range createOperations(d) {
			request := p.sampleSet.Request(creator)
			if err := p.sampleSet.RunSteps(fx.Client(p.key), n, request.Prerequisites); err != nil {
				t.Fatal(err)
			}
			path, body := requestTarget(t, creator, request, n)
			fx.Call(p.key, creator.Method, path, body).Want(creator.Status)
		}
		path, body := requestTarget(t, d, r, n)
		maxLimit := 1000
		fetch := func(query string) (out listResponse) {
			t.Helper()
			separator := map[bool]string{true: "&", false: "?"}[strings.Contains(path, "?")]
			resp := fx.Call(p.key, d.Method, path+separator+query, body).Want(http.StatusOK)
			if err := json.Unmarshal([]byte(resp.Body), &out); err != nil {
				t.Fatalf("%s: JSON error = %v, want none: %s", query, err, resp.Body)
			}
			if pagination := out.Pagination; pagination != nil {
				out.Limit, out.Offset, out.Total, maxLimit = pagination.Limit, pagination.Offset, pagination.Total, 100
			}
			if out.Data == nil {
				t.Errorf("%s: data in %s is no list, want one", query, resp.Body)
			}
			return out
		}
		whole := fetch("limit=1001")
		if whole.Limit != maxLimit || whole.Offset != 0 || whole.Total != len(whole.Data) {
			t.Errorf("limit=1001 = limit %d, offset %d, total %d, want %d, 0, %d",
				whole.Limit, whole.Offset, whole.Total, maxLimit, len(whole.Data))
		}
		if len(whole.Data) <= len(createOperations(d)) {
			t.Fatalf("%s has %d entries, want more than %d: create more in the group's samples.json",
				d.ID, len(whole.Data), len(createOperations(d)))
		}
		takesCursors := slices.ContainsFunc(operations[d.ID].Parameters, func(p parameter) bool { return p.Name == "after" })
		for n, next := 0, ""; takesCursors && n < len(whole.Data); n++ {
			got := fetch("limit=1" + next)
			if len(got.Data) != 1 || string(got.Data[0]) != string(whole.Data[n]) || got.Total != len(whole.Data) ||
				(got.Next == "") != (n == len(whole.Data)-1) {
				t.Fatalf("entry %d by a cursor = %s, total %d, next %q, want the entry of the whole list %s",
					n, got.Data, got.Total, got.Next, whole.Data)
			}
			next = "&after=" + got.Next
		}
		for offset := range len(whole.Data) + 1 {
			got, want := fetch(fmt.Sprintf("limit=1&offset=%d", offset)), whole.Data[offset:min(offset+1, len(whole.Data))]
			same := slices.EqualFunc(got.Data, want, func(a, b json.RawMessage) bool { return string(a) == string(b) })
			if !same || got.Limit != 1 || got.Offset != offset || got.Total != len(whole.Data) {
				t.Errorf("limit=1&offset=%d = %s, limit %d, offset %d, total %d, want %s with the total %d",
					offset, got.Data, got.Limit, got.Offset, got.Total, want, len(whole.Data))
			}
		}
	})
}

// createOperations returns the operations that add an entry to a list: those with POST and the list's path.
func createOperations(d api.Declaration) (out []api.Declaration) {
	for _, g := range groups() {
		for _, declared := range g.Declarations() {
			if declared.Path == d.Path && declared.Method == http.MethodPost {
				out = append(out, declared)
			}
		}
	}
	return out
}

// TestEveryListInAResponseIsBounded checks that the size of every list and map in responses is limited, because the
// platform only supports responses of 6 MB. api.NewList limits the bytes of a page. Every other list or map needs an
// entry here that names its limit.
func TestEveryListInAResponseIsBounded(t *testing.T) {
	bounds := map[string]string{
		"AnalyticsCallerStats.callsByStatusCode": "900, the number of possible statuses",
		"AnalyticsGraphqlData.operations":        "about 200, each with a name and a type",
		"AnalyticsRecent.data":                   "1000",
		"AnalyticsStatsData.details":             "about 1000 for each of 32 times",
		"AnalyticsStatsData.stats":               "about 1000, and one for all others together",
		"AnalyticsTimedStats.callsByStatusCode":  "900, the number of possible statuses",
		"AuditLog.data":                          "100 records",
		"AuditLogsExported.links":                "1000 records, and 5 MB",
		"AuditLogsActor.metadata":                "no operation writes any",
		"AuditLogsEntry.metadata":                "no operation writes any",
		"AuditLogsEntry.resources":               "the objects of one change: keys of a bulk creation are one entry",
		"AuditLogsResource.metadata":             "a name and where it is (auditMetadata)",
		"Consumer.apiKeys":                       "100, each of at most 5 kB",
		"Consumer.managers":                      "50 with the invites",
		"Consumer.managerInvites":                "50 with the managers",
		"Consumer.tags":                          "5 pairs",
		"KeyBucket.tags":                         "20 pairs",
		"Consumer.metadata":                      "1024 bytes",
		"ConsumersCreatedKeys.data":              "the keys that a request of 1 MiB can create",
		"DeploymentsBuildResult.errors":          "the errors that a build reports",
		"DeploymentsBuildResult.warnings":        "the warnings that a build reports",
		"DeploymentsRoute.policies":              "100 (maxShownPolicies)",
		"DeploymentsStatus.steps":                "the steps of a build",
		"MeteringPlan.meters":                    "50",
		"MeteringSubscription.metadata":          "1024 bytes",
		"MeteringSubscription.planIds":           "10",
		"MeteringSubscription.planExternalIds":   "10",
		"TunnelsConfiguration.services":          "100",
		"TunnelsService.configurations":          "50, and 1000 of all services of a tunnel",
		"TunnelsAccess.accessibleBy":             "3",
		"TunnelsPutService.configurations":       "no response contains it",
		"TunnelsPutAccess.accessibleBy":          "no response contains it",
		"Problem.errors":                         "100",
		"CustomDomain.deployments":               "10",
		"AccountKey.environments":                "3",
		"SessionsCaller.environments":            "3",
		"AccountKeysCreatedKey.environments":     "3",
	}
	operations, schemas := readOpenAPI(t)
	requestSchemas := map[string]bool{}
	for _, o := range operations {
		for _, c := range o.RequestBody.Content {
			requestSchemas[strings.TrimPrefix(c.Schema.Ref, "#/components/schemas/")] = true
		}
	}
	for name, s := range schemas {
		for field, property := range s.Properties {
			property = property.resolve(schemas)
			isPage := strings.HasSuffix(name, "List") && field == "data" && s.Properties["total"].Type != nil
			isObject := strings.Contains(fmt.Sprint(property.Type), "object") && len(property.Properties) == 0
			if isPage || requestSchemas[name] || !isObject && !strings.Contains(fmt.Sprint(property.Type), "array") {
				continue
			}
			if bounds[name+"."+field] == "" {
				t.Errorf("%s.%s has no bound, want a page, or a bound with its reason", name, field)
			}
		}
	}
}
