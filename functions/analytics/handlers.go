package analytics

import (
	"context"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/resource/analytics"
	"github.com/gatewright/gatewright/shared/resource/analytics/counts"
	"github.com/gatewright/gatewright/shared/resource/deployments"
)

// Bind returns the group's routes.
func Bind(p installation.Parts) []api.Route {
	p = Group.Restrict(p)
	h := handlers{deployments.Open(p), counts.NewReader(p.Table, p.Now)}
	return []api.Route{
		recentCalls.HandledBy(h.recentCalls), statsByStatusCode.HandledBy(h.statsByStatusCode),
		graphqlOperations.HandledBy(h.graphqlOperations),
	}
}

type handlers struct {
	deployments *deployments.Service
	reader      *counts.Reader
}

// maxLimit is the maximum number of calls in a response (contract 2.10).
const maxLimit = 1000

// findDeployment returns the name of the deployment in a path. If the caller cannot see the deployment, it returns
// NotFound.
func (h handlers) findDeployment(ctx context.Context, path DeploymentPath) (string, error) {
	found, err := h.deployments.ReadDeployment(ctx, deployments.DeploymentLocator{
		Owner:      auth.OwnerFrom(ctx),
		Deployment: path.DeploymentName,
	})
	return found.Name, err
}

// allConsumers is the value of the parameter consumers that selects the calls of all consumers, and calls without a
// consumer. No consumer has this name.
const allConsumers = "*"

func (c Consumers) callers() counts.Callers {
	return counts.Callers{All: slices.Contains(c.Consumers, allConsumers), Names: c.Consumers}
}

func (h handlers) recentCalls(ctx context.Context, in *recentCallsIn) (*recentCallsOut, error) {
	name, err := h.findDeployment(ctx, in.DeploymentPath)
	if err != nil {
		return nil, err
	}
	found, err := h.reader.Recent(ctx, name, in.callers(), min(in.Limit, maxLimit))
	return api.Respond(func(found []counts.RecentCall) recent { return recent{api.Map(found, viewCall)} })(found, err)
}

func (h handlers) statsByStatusCode(ctx context.Context, in *statsIn) (*statsOut, error) {
	name, err := h.findDeployment(ctx, in.DeploymentPath)
	if err != nil {
		return nil, err
	}
	return api.Respond(viewStats)(h.reader.Statuses(ctx, name, counts.Window(in.Filter), in.callers()))
}

func (h handlers) graphqlOperations(ctx context.Context, in *graphqlIn) (*graphqlOut, error) {
	name, err := h.findDeployment(ctx, in.DeploymentPath)
	if err != nil {
		return nil, err
	}
	return api.Respond(viewOperations)(h.reader.Operations(ctx, name, counts.Window(in.Filter)))
}

func viewCall(c counts.RecentCall) call {
	return call{
		Consumer: c.Consumer, Method: c.Method, RoutePath: c.Route, StatusCode: strconv.Itoa(c.Status), Policy: c.Policy,
		TimeStamp: api.Timestamp(c.At),
	}
}

func viewStats(s counts.Statuses) stats {
	return stats{statsData{
		Stats: api.Map(s.Totals, func(c counts.CallerCount) callerStats {
			return callerStats{Consumer: c.Consumer, TotalCalls: c.Calls, CallsByStatusCode: viewStatuses(c)}
		}),
		Details: api.Map(s.Details, func(c counts.CallerCount) timedStats {
			return timedStats{
				Consumer: c.Consumer, TimeStamp: api.Timestamp(c.At), TotalCalls: c.Calls,
				CallsByStatusCode: viewStatuses(c),
			}
		}),
	}}
}

func viewStatuses(c counts.CallerCount) []statusStat {
	return api.Map(c.ByStatus, func(s counts.StatusCount) statusStat { return statusStat{s.Status, s.Calls} })
}

func viewOperations(o counts.Operations) graphql {
	t := o.Totals
	total := totals{
		Operations: t.Operations, Errors: t.Failed, SuccessRate: 1 - rate(t.Failed, t.Operations),
		P50Ms: milliseconds(t.Total.P50), P95Ms: milliseconds(t.Total.P95), P99Ms: milliseconds(t.Total.P99),
		ResolverP50Ms: milliseconds(t.Resolver.P50), ResolverP95Ms: milliseconds(t.Resolver.P95),
		ResolverP99Ms: milliseconds(t.Resolver.P99),
		ErrorClasses:  viewClasses(t),
	}
	return graphql{graphqlData{total, api.Map(o.Each, viewOperation)}}
}

func viewOperation(o counts.OperationCount) operation {
	return operation{
		Operation: o.Name, Type: o.Type, Operations: o.Operations, Errors: o.Failed, ErrorRate: rate(o.Failed, o.Operations),
		Complexity: complexity{Avg: o.ComplexityAvg, Max: o.ComplexityMax},
		P50Ms:      milliseconds(o.Total.P50), P95Ms: milliseconds(o.Total.P95), P99Ms: milliseconds(o.Total.P99),
		ResolverP50Ms: milliseconds(o.Resolver.P50), ResolverP95Ms: milliseconds(o.Resolver.P95),
		ResolverP99Ms: milliseconds(o.Resolver.P99),
		ErrorClasses:  viewClasses(o),
	}
}

func viewClasses(o counts.OperationCount) classes {
	return classes{
		Syntax: o.Classes[analytics.ClassSyntax], Validation: o.Classes[analytics.ClassValidation],
		Auth:    o.Classes[analytics.ClassAuth],
		Timeout: o.Classes[analytics.ClassTimeout], Resolver: o.Classes[analytics.ClassResolver],
	}
}

// rate returns part/total, or 0 if total is 0.
func rate(part, total int64) float64 {
	if total == 0 {
		return 0
	}
	return float64(part) / float64(total)
}

// milliseconds returns a latency in milliseconds, rounded to the microsecond.
func milliseconds(d time.Duration) float64 {
	return math.Round(float64(d)/float64(time.Microsecond)) / 1000
}
