package commands

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/gatewright/gatewright/client/call"
	"github.com/gatewright/gatewright/client/output"
)

func analyticsResource() resource {
	deployment := positional("deploymentName", "DEPLOYMENT", "shop-main-1a2b3c4")
	consumers := parameter{
		argument: "consumers", flag: "consumer", kind: asList,
		help: "of this consumer alone; everybody's without it",
	}
	since := parameter{
		argument: "filter", flag: "since", help: "how far back", defaultValue: "last-24-hours",
		choices: []string{"last-hour", "last-24-hours", "last-7-days", "last-30-days", "last-3-months"},
	}
	return resource{name: "analytics", short: "How a deployment is called", verbs: []verb{
		{
			name: "calls", short: "List the last calls, the newest first", operation: "AnalyticsService_recentCalls",
			params: []parameter{
				deployment, consumers.withDefault("*"),
				{argument: "limit", flag: "limit", kind: asNumber, help: "how many, up to 1000; 20 without it"},
			},
			table: func(document []byte) func() (output.Grid, error) {
				return columns{"timeStamp", "method", "routePath", "statusCode", "consumer", "policy"}.dataTable(document,
					"Nobody has called it in the last 24 hours.")
			},
		},
		{
			name: "status-codes", short: "Count calls by consumer and status", operation: "AnalyticsService_statsByStatusCode",
			params: []parameter{deployment, consumers.withDefault("*"), since}, table: statusTable,
		},
		{
			name: "graphql", short: "Show how fast GraphQL operations are, and how many have failed",
			operation: "AnalyticsService_graphqlOperations",
			params:    []parameter{deployment, since},
			table: func(document []byte) func() (output.Grid, error) {
				return columns{"operation", "type", "operations", "errors", "p50Ms", "p95Ms", "p99Ms"}.memberTable(document,
					"data.operations", "No GraphQL operation was called.")
			},
		},
	}}
}

// statusTable returns a function that returns a table with one row for each consumer.
func statusTable(document []byte) func() (output.Grid, error) {
	return func() (output.Grid, error) {
		var response struct {
			Data struct {
				Stats []struct {
					Consumer          string
					TotalCalls        json.Number
					CallsByStatusCode []struct {
						StatusCode json.RawMessage
						TotalCalls json.Number
					}
				}
			}
		}
		if err := call.Decode(document, &response); err != nil {
			return output.Grid{}, fmt.Errorf("read the numbers of calls: %w", err)
		}
		g := output.Grid{Columns: []string{"CONSUMER", "CALLS", "BY STATUS"}, Empty: "Nobody has called it."}
		for _, s := range response.Data.Stats {
			var counts []string
			for _, c := range s.CallsByStatusCode {
				counts = append(counts, cellText(c.StatusCode)+": "+c.TotalCalls.String())
			}
			g.Rows = append(g.Rows, []string{s.Consumer, s.TotalCalls.String(), strings.Join(counts, ", ")})
		}
		return g, nil
	}
}
