package functions_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/api"
)

// list is the answer of an operation that is asked for a part of a list.
type list struct {
	Data                 []json.RawMessage
	Limit, Offset, Total int
	Next                 string
	// Pagination is where the audit log has them (contract 1.3).
	Pagination *struct{ Limit, Offset, Total int }
}

// newestOnly are lists of which there is no second page, and why.
var newestOnly = map[string]string{
	"AnalyticsService_recentCalls": "it is the newest of what changes with every request (contract 2.10)",
}

// TestEveryListIsPaged asks for every part of what each list holds, entry by
// entry, and for more than a page may hold.
func TestEveryListIsPaged(t *testing.T) {
	p := newPopulated(t)
	operations, _ := requests(t)
	isList := func(d api.Declaration) bool {
		for _, parameter := range operations[d.ID].Parameters {
			if parameter.In == "query" && parameter.Name == "limit" && newestOnly[d.ID] == "" {
				return true
			}
		}
		return false
	}
	each(t, isList, func(t *testing.T, d api.Declaration) {
		w, n, r := p.Copy(t), maps.Clone(p.names), p.book.Request(d)
		for _, maker := range makers(d) {
			plain := p.book.Request(maker)
			if err := p.book.Steps(w.Client(p.key), n, plain.After); err != nil {
				t.Fatal(err)
			}
			path, body := target(t, maker, plain, n)
			w.Call(p.key, maker.Method, path, body).Want(maker.Status)
		}
		path, body := target(t, d, r, n)
		most := 1000
		ask := func(query string) (out list) {
			t.Helper()
			separator := map[bool]string{true: "&", false: "?"}[strings.Contains(path, "?")]
			a := w.Call(p.key, d.Method, path+separator+query, body).Want(http.StatusOK)
			if err := json.Unmarshal([]byte(a.Body), &out); err != nil {
				t.Fatalf("%v in %s", err, a.Body)
			}
			if in := out.Pagination; in != nil {
				out.Limit, out.Offset, out.Total, most = in.Limit, in.Offset, in.Total, 100
			}
			if out.Data == nil {
				t.Errorf("%s: data is not a list in %s", query, a.Body)
			}
			return out
		}
		all := ask("limit=1001")
		if all.Limit != most || all.Offset != 0 || all.Total != len(all.Data) {
			t.Errorf("a limit of 1001: limit %d, offset %d, total %d, with %d entries", all.Limit, all.Offset, all.Total, len(all.Data))
		}
		if len(all.Data) <= len(makers(d)) {
			t.Fatalf("it has %d entries: make more in the world of the group's samples.json", len(all.Data))
		}
		takesCursors := slices.ContainsFunc(operations[d.ID].Parameters, func(p parameter) bool { return p.Name == "after" })
		for n, next := 0, ""; takesCursors && n < len(all.Data); n++ {
			got := ask("limit=1" + next)
			if len(got.Data) != 1 || string(got.Data[0]) != string(all.Data[n]) || got.Total != len(all.Data) || (got.Next == "") != (n == len(all.Data)-1) {
				t.Fatalf("entry %d by a cursor: got %s, total %d, next %q; the whole list is %s", n, got.Data, got.Total, got.Next, all.Data)
			}
			next = "&after=" + got.Next
		}
		for offset := range len(all.Data) + 1 {
			got, want := ask(fmt.Sprintf("limit=1&offset=%d", offset)), all.Data[offset:min(offset+1, len(all.Data))]
			same := slices.EqualFunc(got.Data, want, func(a, b json.RawMessage) bool { return string(a) == string(b) })
			if !same || got.Limit != 1 || got.Offset != offset || got.Total != len(all.Data) {
				t.Errorf("entry %d alone: got %s, limit %d, offset %d, total %d; the whole list is %s",
					offset, got.Data, got.Limit, got.Offset, got.Total, all.Data)
			}
		}
	})
}

// makers are the operations that make one more entry of a list: what is posted
// to its path.
func makers(d api.Declaration) (out []api.Declaration) {
	for _, g := range groups() {
		for _, other := range g.Declarations() {
			if other.Path == d.Path && other.Method == http.MethodPost {
				out = append(out, other)
			}
		}
	}
	return out
}

// TestEveryListInAnAnswerHasABound: the entries of pages are counted in bytes
// (api.NewList); any other list or map in an answer has to be short by itself,
// for the platform carries 6 MB. Who adds one says here by what.
func TestEveryListInAnAnswerHasABound(t *testing.T) {
	bounds := map[string]string{
		"AnalyticsCallerStats.callsByStatusCode": "900, the statuses there are",
		"AnalyticsGraphqlData.operations":        "some 200, of a name and a type each",
		"AnalyticsRecent.data":                   "1000",
		"AnalyticsStatsData.details":             "some 1000 at each of 32 times",
		"AnalyticsStatsData.stats":               "some 1000, all others are one",
		"AnalyticsTimedStats.callsByStatusCode":  "900, the statuses there are",
		"AuditLog.data":                          "100 records",
		"AuditLogsExported.links":                "1000 records, and 5 MB",
		"AuditLogsActor.metadata":                "nothing writes any",
		"AuditLogsEntry.metadata":                "nothing writes any",
		"AuditLogsEntry.resources":               "what one change names: many keys at once are one entry",
		"AuditLogsResource.metadata":             "a name and where it is (auditMetadata)",
		"Consumer.apiKeys":                       "100, each of at most 5 kB",
		"Consumer.managers":                      "50 with the invites",
		"Consumer.managerInvites":                "50 with the managers",
		"Consumer.tags":                          "5 pairs",
		"KeyBucket.tags":                         "20 pairs",
		"Consumer.metadata":                      "1024 bytes",
		"ConsumersCreatedKeys.data":              "what a request of 1 MiB makes",
		"DeploymentsBuildResult.errors":          "what a build tells",
		"DeploymentsBuildResult.warnings":        "what a build tells",
		"DeploymentsRoute.policies":              "100 (shownPolicies)",
		"DeploymentsStatus.steps":                "the steps of a build",
		"MeteringPlan.meters":                    "50",
		"MeteringSubscription.metadata":          "1024 bytes",
		"MeteringSubscription.planIds":           "10",
		"MeteringSubscription.planExternalIds":   "10",
		"TunnelsConfiguration.services":          "100",
		"TunnelsService.configurations":          "50, and 1000 of all services of a tunnel",
		"TunnelsAccess.accessibleBy":             "3",
		"TunnelsPutService.configurations":       "nothing answers it",
		"TunnelsPutAccess.accessibleBy":          "nothing answers it",
		"Problem.errors":                         "100",
		"CustomDomain.deployments":               "10",
		"AccountKey.environments":                "3",
		"SessionsCaller.environments":            "3",
		"AccountKeysCreatedKey.environments":     "3",
	}
	operations, schemas := requests(t)
	sent := map[string]bool{}
	for _, o := range operations {
		for _, c := range o.RequestBody.Content {
			sent[strings.TrimPrefix(c.Schema.Ref, "#/components/schemas/")] = true
		}
	}
	for name, s := range schemas {
		for field, property := range s.Properties {
			property = property.of(schemas)
			isPage := strings.HasSuffix(name, "List") && field == "data" && s.Properties["total"].Type != nil
			isObject := strings.Contains(fmt.Sprint(property.Type), "object") && len(property.Properties) == 0
			if isPage || sent[name] || !isObject && !strings.Contains(fmt.Sprint(property.Type), "array") {
				continue
			}
			if bounds[name+"."+field] == "" {
				t.Errorf("%s.%s may be of any length: make it a page, or bound it and say by what", name, field)
			}
		}
	}
}
