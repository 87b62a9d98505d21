package analytics

import (
	"net/http"

	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/management/api"
)

// Group is the group of operations of this function.
var Group = api.Group{
	Name:  "analytics",
	Title: "Analytics",
	Description: "How a deployment is called: what gateways have counted, seen within 20 seconds and kept for " +
		"three months.",
	TableAccess: store.TableAccess{
		Reads: []store.KeyPrefix{"analytics", "analytics-calls", "analytics-head", "analytics-new", "deployment"},
	},
	Operations: []api.AnyOperation{recentCalls, statsByStatusCode, graphqlOperations},
}

const deploymentPath = "/v1/deployments/{deploymentName}"

var (
	notFoundErrors = []int{http.StatusNotFound}
	readUses       = []api.Use{api.GetItem, api.Query}
)

var recentCalls = api.Operation[recentCallsIn, recentCallsOut]{
	ID: "AnalyticsService_recentCalls", Method: http.MethodGet, Path: deploymentPath + "/recent-calls",
	Summary: "List the last calls of a deployment",
	Description: "Those of the last 24 hours, the newest first. Of all callers they are exactly the newest; those of " +
		"some consumers are found among the newest 1000 " +
		"of each hour. Calls without a consumer have an empty one.",
	Scope: auth.Analytics.Read(), Invisible: api.InvisibleNotFound,
	Errors: notFoundErrors, Uses: readUses,
}

var statsByStatusCode = api.Operation[statsIn, statsOut]{
	ID: "AnalyticsService_statsByStatusCode", Method: http.MethodGet, Path: deploymentPath + "/stats-by-status-code",
	Summary: "Count the calls of a deployment by status",
	Description: "For each consumer, in all and by time: in steps of 5 minutes for last-hour, an hour for " +
		"last-24-hours, a day for last-7-days and last-30-days, " +
		"and a week, from Monday, for last-3-months, in UTC. A window begins with such a step, or where rows begin that " +
		"are kept for it: 5 minutes, an hour or a day. " +
		"Beyond 1000 pairs of a consumer and a status the most frequent are apart, whatever came first, and the rest " +
		"counts as (other).",
	Scope: auth.Analytics.Read(), Invisible: api.InvisibleNotFound,
	Errors: notFoundErrors, Uses: readUses,
}

var graphqlOperations = api.Operation[graphqlIn, graphqlOut]{
	ID: "AnalyticsService_graphqlOperations", Method: http.MethodGet, Path: deploymentPath + "/graphql-operations",
	Summary: "Measure the GraphQL operations of a deployment",
	Description: "What the policy graphql-analytics-outbound has seen, in all and by operation, the most frequent " +
		"first. Latencies are within 2 % of the exact quantiles. " +
		"Operations without a name are (unnamed). Beyond 200 the most frequent are apart, whatever came first, and the " +
		"rest is counted together as (other): then an operation may be counted " +
		"too low by what of it was among them, never too high.",
	Scope: auth.Analytics.Read(), Invisible: api.InvisibleNotFound,
	Errors: notFoundErrors, Uses: readUses,
}

// DeploymentPath is embedded in the inputs of operations. It is exported because huma skips unexported embedded types.
type DeploymentPath struct {
	DeploymentName string `path:"deploymentName" maxLength:"256" doc:"The deployment's name: the first label of its host name."`
}

// Consumers is embedded in the inputs of operations that can select consumers.
type Consumers struct {
	Consumers []string `query:"consumers,explode" required:"true" minItems:"1" maxItems:"100" maxLength:"256" doc:"Whose calls: names of consumers, or * for everybody's, those without a consumer too. Given once for each." example:"[\"acme\"]"`
}

// Window is embedded in the inputs of operations on a past period.
type Window struct {
	Filter string `query:"filter" required:"true" enum:"last-hour,last-24-hours,last-7-days,last-30-days,last-3-months" doc:"How far back." example:"last-hour"`
}

type recentCallsIn struct {
	DeploymentPath
	Consumers
	Limit int `query:"limit" minimum:"1" default:"20" doc:"The most calls to return. A value over 1000 counts as 1000."`
}

type recentCallsOut = api.Body[recent]

type recent struct {
	Data []call `json:"data" nullable:"false" doc:"The calls, the newest first."`
}

type call struct {
	Consumer   string `json:"consumer" doc:"The consumer whose key was accepted, empty for none." example:"acme"`
	Method     string `json:"method" doc:"The request's method." example:"GET"`
	RoutePath  string `json:"routePath" doc:"The path of the route, with its parameters' names, empty where no route matched." example:"/todos/{id}"`
	StatusCode string `json:"statusCode" doc:"The status that was answered." example:"200"`
	Policy     string `json:"policy" doc:"The policy that answered in place of the handler, by its name in the project, empty for none." example:"key"`
	TimeStamp  string `json:"timeStamp" format:"date-time" doc:"When the request came."`
	City       string `json:"city" doc:"Always empty: nothing here knows where addresses are."`
	Country    string `json:"country" doc:"Always empty: nothing here knows where addresses are."`
}

type statsIn struct {
	DeploymentPath
	Consumers
	Window
}

type statsOut = api.Body[stats]

type stats struct {
	Data statsData `json:"data" doc:"The counts."`
}

type statsData struct {
	Stats   []callerStats `json:"stats" nullable:"false" doc:"Each consumer's calls in the window, the most first."`
	Details []timedStats  `json:"details" nullable:"false" doc:"The same by time, the earliest first. Times without calls are left out."`
}

type callerStats struct {
	Consumer          string       `json:"consumer" doc:"The consumer, empty for calls without one." example:"acme"`
	TotalCalls        int64        `json:"totalCalls" doc:"How many calls there were."`
	CallsByStatusCode []statusStat `json:"callsByStatusCode" nullable:"false" doc:"The same by status, in rising order."`
}

type timedStats struct {
	Consumer          string       `json:"consumer" doc:"The consumer, empty for calls without one." example:"acme"`
	TimeStamp         string       `json:"timeStamp" format:"date-time" doc:"When the time begins in which they were made."`
	TotalCalls        int64        `json:"totalCalls" doc:"How many calls there were."`
	CallsByStatusCode []statusStat `json:"callsByStatusCode" nullable:"false" doc:"The same by status, in rising order."`
}

type statusStat struct {
	StatusCode string `json:"statusCode" doc:"The status." example:"200"`
	TotalCalls int64  `json:"totalCalls" doc:"How many calls were answered with it."`
}

type graphqlIn struct {
	DeploymentPath
	Window
}

type graphqlOut = api.Body[graphql]

type graphql struct {
	Data graphqlData `json:"data" doc:"What was measured."`
}

type graphqlData struct {
	Totals     totals      `json:"totals" doc:"All operations together."`
	Operations []operation `json:"operations" nullable:"false" doc:"Each of them, the most frequent first."`
}

type totals struct {
	Operations    int64   `json:"operations" doc:"How many there were."`
	Errors        int64   `json:"errors" doc:"How many of them failed."`
	SuccessRate   float64 `json:"successRate" doc:"The share of those that did not fail, from 0 to 1; 1 where there were none."`
	P50Ms         float64 `json:"p50Ms" doc:"The median of the latency, up to the answer's head, in milliseconds."`
	P95Ms         float64 `json:"p95Ms" doc:"What 95 % of the latencies are not above."`
	P99Ms         float64 `json:"p99Ms" doc:"What 99 % of the latencies are not above."`
	ResolverP50Ms float64 `json:"resolverP50Ms" doc:"The same of the time that the upstream took."`
	ResolverP95Ms float64 `json:"resolverP95Ms" doc:"The same of the time that the upstream took."`
	ResolverP99Ms float64 `json:"resolverP99Ms" doc:"The same of the time that the upstream took."`
	ErrorClasses  classes `json:"errorClasses" doc:"How many operations had an error of each kind. One may have several."`
}

type classes struct {
	Syntax     int64 `json:"syntax" doc:"The document does not parse."`
	Validation int64 `json:"validation" doc:"The document asks for what the schema or a limit does not allow."`
	Auth       int64 `json:"auth" doc:"The caller is not known, or may not."`
	Timeout    int64 `json:"timeout" doc:"The upstream did not answer in time."`
	Resolver   int64 `json:"resolver" doc:"Any other error of the upstream's."`
}

type operation struct {
	Operation     string     `json:"operation" doc:"The operation's name." example:"ListTodos"`
	Type          string     `json:"type" enum:"query,mutation,subscription," doc:"The operation's type, empty for documents that do not parse."`
	Operations    int64      `json:"operations" doc:"How often it was asked for."`
	Errors        int64      `json:"errors" doc:"How often it failed."`
	ErrorRate     float64    `json:"errorRate" doc:"The share of those that failed, from 0 to 1."`
	Complexity    complexity `json:"complexity" doc:"What it asked for, by the counting of graphql-complexity-limit-inbound."`
	P50Ms         float64    `json:"p50Ms" doc:"As in totals."`
	P95Ms         float64    `json:"p95Ms" doc:"As in totals."`
	P99Ms         float64    `json:"p99Ms" doc:"As in totals."`
	ResolverP50Ms float64    `json:"resolverP50Ms" doc:"As in totals."`
	ResolverP95Ms float64    `json:"resolverP95Ms" doc:"As in totals."`
	ResolverP99Ms float64    `json:"resolverP99Ms" doc:"As in totals."`
	ErrorClasses  classes    `json:"errorClasses" doc:"As in totals."`
}

type complexity struct {
	Avg float64 `json:"avg" doc:"The average."`
	Max int64   `json:"max" doc:"The largest."`
}
