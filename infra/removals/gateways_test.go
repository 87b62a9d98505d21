package removals_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/infra/removals"
)

// These are parts for gatewayTemplate: the two targets that can serve deployments.
const (
	functionTarget = `"GatewayRest1": {"Type": "AWS::ApiGateway::RestApi"}, ` +
		`"GatewayDomain": {"Type": "AWS::ApiGateway::DomainName", "Properties": {"DomainName": "*.apis.example.com"}}`
	processTarget = `"GatewayProcessNestedStack": {"Type": "AWS::CloudFormation::Stack", ` +
		`"Metadata": {"aws:asset:path": "relay.json"}}`
)

// gatewayTemplate returns a template with these resources and the gateway's address at apis.example.com.
func gatewayTemplate(parts ...string) string { return templateAtDomain("apis.example.com", parts...) }

// templateAtDomain returns a template with these resources and the gateway's address at a domain.
func templateAtDomain(domain string, parts ...string) string {
	parts = append(parts, `"F": {"Type": "AWS::Lambda::Function"}`)
	return `{"Resources": {` + strings.Join(parts, ", ") +
		`}, "Outputs": {"GatewayAddress": {"Value": "https://*.` + domain + `"}}}`
}

// weightedRecords returns the DNS records of the function and of the processes, with their weights.
func weightedRecords(function, processes int) string {
	return fmt.Sprintf(`"A": {"Type": "AWS::Route53::RecordSet", `+
		`"Properties": {"HostedZoneId": "Z1", "SetIdentifier": "function", "Weight": %d}}, `+
		`"B": {"Type": "AWS::Route53::RecordSet", `+
		`"Properties": {"HostedZoneId": "Z1", "SetIdentifier": "process", "Weight": %d}}`, function, processes)
}

// gatewayRemovals has deployments from one template to another, with their refusals.
var gatewayRemovals = map[string]struct {
	before, after       string
	want, wantIfAllowed []string // a part of each refusal; wantIfAllowed is with REMOVE=gateway,gatewayDomain
}{
	"processes added": {gatewayTemplate(functionTarget), gatewayTemplate(functionTarget, processTarget), nil, nil},
	"function added":  {gatewayTemplate(processTarget), gatewayTemplate(functionTarget, processTarget), nil, nil},
	"function replaced by processes": {
		gatewayTemplate(functionTarget), gatewayTemplate(processTarget),
		[]string{"an API with its address would be removed while nothing else serves deployments: say gateway=both in " +
			"infra/stages/dev.json and deploy that first, and remove it when nobody calls it any more"},
		[]string{"nothing else serves"},
	},
	"processes replaced by the function": {
		gatewayTemplate(processTarget), gatewayTemplate(functionTarget),
		[]string{"a load balancer whose name clients connect to, with what answers behind it, would be removed while " +
			"nothing else"},
		[]string{"nothing else serves"},
	},
	"function removed": {
		gatewayTemplate(functionTarget, processTarget), gatewayTemplate(processTarget),
		[]string{"or say REMOVE=gateway to"},
		nil,
	},
	"processes removed": {
		gatewayTemplate(functionTarget, processTarget), gatewayTemplate(functionTarget),
		[]string{"or say REMOVE=gateway to"},
		nil,
	},
	"function removed while clients use it": {
		gatewayTemplate(functionTarget, processTarget, weightedRecords(10, 90)),
		gatewayTemplate(processTarget, weightedRecords(0, 100)),
		[]string{"while DNS records still send 10 of 100 clients there: say gatewayContainerWeight=100"},
		[]string{"10 of 100"},
	},
	"processes removed while clients use them": {
		gatewayTemplate(functionTarget, processTarget, weightedRecords(99, 1)),
		gatewayTemplate(functionTarget, weightedRecords(100, 0)),
		[]string{"while DNS records still send 1 of 100 clients there: say gatewayContainerWeight=0 "},
		[]string{"1 of 100"},
	},
	"function removed when no client uses it": {
		gatewayTemplate(functionTarget, processTarget, weightedRecords(0, 100)),
		gatewayTemplate(processTarget, weightedRecords(0, 100)),
		[]string{"or say REMOVE=gateway to"},
		nil,
	},
	"all clients routed to a new function": {
		gatewayTemplate(processTarget, weightedRecords(0, 100)),
		gatewayTemplate(functionTarget, processTarget, weightedRecords(100, 0)),
		[]string{"the way of every client to the processes would be " +
			"removed while the new target is created by the same deployment: say gatewayContainerWeight=100 in"},
		[]string{"gatewayContainerWeight=100"},
	},
	"no client routed to a new function": {
		gatewayTemplate(processTarget, weightedRecords(0, 100)),
		gatewayTemplate(functionTarget, processTarget, weightedRecords(0, 100)), nil, nil,
	},
	"all clients routed to new processes": {
		gatewayTemplate(functionTarget, weightedRecords(100, 0)),
		gatewayTemplate(functionTarget, processTarget, weightedRecords(0, 100)),
		[]string{"the way of every client to the function would be removed while"},
		[]string{"gatewayContainerWeight=0"},
	},
	"some clients routed to new processes": {
		gatewayTemplate(functionTarget, weightedRecords(100, 0)),
		gatewayTemplate(functionTarget, processTarget, weightedRecords(70, 30)), nil, nil,
	},
	"record with clients removed": {
		gatewayTemplate(functionTarget, processTarget, weightedRecords(70, 30)),
		gatewayTemplate(functionTarget, processTarget, strings.Split(weightedRecords(70, 30), ", \"B\"")[0]),
		[]string{"the record of Z1 by which 30 of 100 clients find deployments would be removed: leave hostedZone"},
		[]string{"REMOVE=hostedZone"},
	},
	"record without clients removed": {
		gatewayTemplate(functionTarget, processTarget, weightedRecords(100, 0)),
		gatewayTemplate(functionTarget, processTarget, strings.Split(weightedRecords(100, 0), ", \"B\"")[0]), nil, nil,
	},
	"all clients routed to processes": {
		gatewayTemplate(functionTarget, processTarget, weightedRecords(70, 30)),
		gatewayTemplate(functionTarget, processTarget, weightedRecords(0, 100)), nil, nil,
	},
	"another gateway domain": {
		gatewayTemplate(processTarget), templateAtDomain("b.example.com", processTarget),
		[]string{"the domain name *.apis.example.com by which clients call would be removed: leave gatewayDomain"},
		nil,
	},
	"another gateway domain and the function removed": {
		gatewayTemplate(functionTarget, processTarget), templateAtDomain("b.example.com", processTarget),
		[]string{"or say REMOVE=gateway to", "leave gatewayDomain"},
		nil,
	},
	"both targets removed": {
		gatewayTemplate(functionTarget, processTarget), gatewayTemplate(),
		[]string{"a load balancer whose name clients connect to, with what answers behind it, would be removed while " +
			"nothing else", "an API with its address would be removed while nothing else"},
		[]string{"nothing else serves", "nothing else serves"},
	},
}

// TestLastGatewayCannotBeRemoved checks that a gateway target cannot be removed, even with REMOVE, while it is the only
// one or while DNS records route clients to it. It also checks changes of DNS records and of the gateway's domain.
func TestLastGatewayCannotBeRemoved(t *testing.T) {
	for name, tt := range gatewayRemovals {
		all := removals.Diff(newPlan(t, tt.before, relayTemplate, false), newPlan(t, tt.after, relayTemplate, false))
		if got := removals.Refusals(all, nil, "infra/stages/dev.json"); !slices.EqualFunc(got, tt.want, strings.Contains) {
			t.Errorf("%s: Refusals() = %q, want lines with %q", name, got, tt.want)
		}
		if got := removals.Refusals(all, []string{"gateway", "gatewayDomain"},
			"infra/stages/dev.json"); !slices.EqualFunc(got, tt.wantIfAllowed, strings.Contains) {
			t.Errorf("%s: Refusals(REMOVE=gateway,gatewayDomain) = %q, want lines with %q", name, got, tt.wantIfAllowed)
		}
	}
}
