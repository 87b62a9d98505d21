package main

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/infra/removals"
)

// bothTargets returns a context with overrides and gateway=both: the function and processes serve deployments.
func bothTargets(overrides map[string]string) map[string]string {
	out := minimalContext(map[string]string{"gateway": "both"})
	maps.Copy(out, overrides)
	return out
}

// invalidGatewaySettings are contexts whose settings of the gateway are invalid or contradict each other, and a part of
// the error.
var invalidGatewaySettings = map[string]struct {
	context map[string]string
	want    string
}{
	"too many tasks": {
		bothTargets(map[string]string{"gatewayTasks": "51"}), "-c gatewayTasks is a whole number between 1 and 50",
	},
	"no tasks": {
		bothTargets(map[string]string{"gatewayTasks": "0"}), "-c gatewayTasks is a whole number between 1 and 50",
	},
	"text as the number of tasks": {bothTargets(map[string]string{"gatewayTasks": "two"}), "-c gatewayTasks is a whole"},
	"more tasks than the maximum": {
		bothTargets(map[string]string{"gatewayTasks": "12"}),
		"-c gatewayTasks=12 is more than gatewayTasksMost=10: set gatewayTasksMost to 12 or more",
	},
	"maximum number of tasks without processes": {
		minimalContext(map[string]string{"gatewayTasksMost": "3"}), "-c gatewayTasksMost is for gateways as processes",
	},
	"network without processes": {
		minimalContext(map[string]string{"vpc": "vpc-01234567"}), "-c vpc is for gateways as processes",
	},
	"invalid id of a network": {bothTargets(map[string]string{"vpc": "mine"}), "-c vpc is the id of a VPC"},
	"a network without subnets": {
		bothTargets(map[string]string{"vpc": "vpc-01234567"}), "-c vpc and -c subnets need each other",
	},
	"subnets without a network": {
		bothTargets(map[string]string{"subnets": "subnet-00000001 subnet-00000002"}), "-c vpc and -c subnets need each other",
	},
	"one subnet": {
		bothTargets(map[string]string{"vpc": "vpc-01234567", "subnets": "subnet-00000001"}),
		"-c subnets are two or more subnets of the vpc",
	},
	"one subnet twice": {
		bothTargets(map[string]string{"vpc": "vpc-01234567", "subnets": "subnet-00000001 subnet-00000001"}),
		"-c subnets are two or more",
	},
	"invalid id of a subnet": {
		bothTargets(map[string]string{"vpc": "vpc-01234567", "subnets": "subnet-00000001 10.0.0.0/24"}),
		"-c subnets are two or more",
	},
	"one subnet for the load balancer": {
		bothTargets(map[string]string{
			"vpc": "vpc-01234567", "subnets": "subnet-00000001 subnet-00000002", "balancerSubnets": "subnet-00000003",
		}),
		"-c balancerSubnets are two or more",
	},
	"subnet for tasks and load balancer": {
		bothTargets(map[string]string{
			"vpc": "vpc-01234567", "subnets": "subnet-00000001 subnet-00000002",
			"balancerSubnets": "subnet-00000002 subnet-00000003",
		}),
		`-c subnets and balancerSubnets both have "subnet-00000002": leave balancerSubnets out`,
	},
	"too many subnets": {
		bothTargets(map[string]string{"vpc": "vpc-01234567", "subnets": strings.Repeat("subnet-00000001 ", 17)}),
		"-c subnets is a list of texts, 16 at most",
	},
	"invalid id of a hosted zone": {
		minimalContext(map[string]string{"hostedZone": "example.com"}),
		"-c hostedZone is the id of a hosted zone of Route 53",
	},
	"hosted zone without a gateway domain": {
		map[string]string{"hostedZone": "Z1", "gatewayUrl": "https://{deployment}.example.com"},
		"-c hostedZone needs -c gatewayDomain",
	},
	"hosted zone on an emulator": {
		minimalContext(map[string]string{"hostedZone": "Z1", "emulator": miniStack, "architecture": "x86_64"}),
		"-c hostedZone needs -c gatewayDomain, whose DNS records it gets, and is not for emulators",
	},
	"weight without a hosted zone": {
		bothTargets(map[string]string{"gatewayContainerWeight": "10"}),
		"-c gatewayContainerWeight is for hostedZone and gateway=both",
	},
	"weight with one target": {
		minimalContext(map[string]string{"gateway": "container", "hostedZone": "Z1", "gatewayContainerWeight": "10"}),
		"-c gatewayContainerWeight is for hostedZone and gateway=both",
	},
	"weight above 100": {
		bothTargets(map[string]string{"hostedZone": "Z1", "gatewayContainerWeight": "101"}),
		"-c gatewayContainerWeight is a whole number between 0 and 100",
	},
	"processes on an emulator": {
		bothTargets(map[string]string{"emulator": miniStack}), "-c gateway=both is not for emulators",
	},
	"processes without a gateway domain": {
		map[string]string{"gateway": "both", "gatewayUrl": "https://{deployment}.example.com"},
		"-c gateway=both needs -c gatewayDomain",
	},
	"invalid memory of tasks": {bothTargets(map[string]string{"gatewayTaskMemory": "600"}), "-c gatewayTaskMemory is one"},
	"limit that is no number": {
		bothTargets(map[string]string{"gatewayConnectionsPerAddress": "many"}),
		"-c gatewayConnectionsPerAddress: GATEWRIGHT_CONNECTIONS_PER_ADDRESS is no number",
	},
	"limit without processes": {
		minimalContext(map[string]string{"gatewayConnectionsPerAddress": "100"}), "which this context does not have",
	},
	"tasks without processes": {
		minimalContext(map[string]string{"gatewayTasks": "2"}),
		"-c gatewayTasks is for gateways as processes, and gateway=lambda has none: say gateway=both",
	},
	"memory of tasks without processes": {
		minimalContext(map[string]string{"gateway": "lambda", "gatewayTaskMemory": "512"}),
		"-c gatewayTaskMemory is for gateways as processes",
	},
	"streaming without a function": {
		minimalContext(map[string]string{"gateway": "container", "streaming": "true"}),
		"-c streaming is for the gateway's function, and gateway=container has none: leave streaming out",
	},
	"throttle without a function": {
		minimalContext(map[string]string{"gateway": "container", "gatewayRate": "10"}),
		"-c gatewayRate is for the gateway's function",
	},
	"unknown mode": {minimalContext(map[string]string{"gateway": "ec2"}), "-c gateway is one of lambda, container, both"},
	"API domain without a certificate": {
		map[string]string{"gateway": "container", "gatewayDomain": "apis.example.com", "apiDomain": "api.example.com"},
		"-c certificateArn is needed",
	},
	"gateway domain without a certificate": {
		map[string]string{"gateway": "both", "gatewayDomain": "apis.example.com"}, "-c certificateArn is needed",
	},
}

// TestInvalidGatewaySettingsAreRefused checks that each invalid setting causes an error of one line. Processes need no
// certificate of ACM, so a context without one is valid.
func TestInvalidGatewaySettingsAreRefused(t *testing.T) {
	for name, tt := range invalidGatewaySettings {
		_, err := settingsFrom(tt.context)
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: settingsFrom() error = %v, want one line with %q", name, err, tt.want)
		}
	}
	if _, err := settingsFrom(map[string]string{"gateway": "container", "gatewayDomain": "apis.example.com"}); err != nil {
		t.Errorf("settingsFrom(processes without a certificate of ACM) = %v, want no error", err)
	}
}

// settingsFrom returns the settings of a context.
func settingsFrom(context map[string]string) (Settings, error) {
	return settingsFromContext(func(name string) any {
		if v, ok := context[name]; ok {
			return v
		}
		return nil
	})
}

// stackOfContext synthesizes the installation of a context, and returns its stack in the form that `make deploy`
// compares.
func stackOfContext(t *testing.T, context map[string]string) removals.Stack {
	t.Helper()
	a := synthesizeFew(t, minimalContext(context))
	names := a.stackIDs()
	out := removals.Stack{Templates: map[string]removals.Template{}, Protected: true}
	for file, raw := range a.raw {
		var tmpl removals.Template
		if err := json.Unmarshal(raw, &tmpl); err != nil {
			t.Fatal(err)
		}
		out.Templates[names[file]] = tmpl
	}
	return out
}

// These are the two hints in a refusal: deploy with both targets first, or allow the removal by its name.
const (
	deployFirst = "say gateway=both in infra/stages/dev.json and deploy that first"
	removeHint  = "or say REMOVE=gateway"
)

// gatewayChanges are changes from one context to another, and the refusals of their deployment. A nil context has only
// the minimal settings.
var gatewayChanges = []struct {
	from, to map[string]string
	want     []string // a part of each refusal
}{
	{map[string]string{"gateway": "lambda"}, map[string]string{"gateway": "both"}, nil},
	{map[string]string{"gateway": "container"}, map[string]string{"gateway": "both"}, nil},
	{map[string]string{"gateway": "both"}, map[string]string{"gateway": "both", "gatewayTasks": "3"}, nil},
	{map[string]string{"gateway": "lambda"}, map[string]string{"gateway": "container"}, []string{deployFirst}},
	{map[string]string{"gateway": "container"}, map[string]string{"gateway": "lambda"}, []string{deployFirst}},
	{map[string]string{"gateway": "both"}, map[string]string{"gateway": "container"}, []string{removeHint}},
	{map[string]string{"gateway": "both"}, map[string]string{"gateway": "lambda"}, []string{removeHint}},
	{
		map[string]string{"gateway": "both", "hostedZone": "Z1", "gatewayContainerWeight": "90"},
		map[string]string{"gateway": "container", "hostedZone": "Z1"},
		[]string{"DNS records still send 10 of 100 clients there: say gatewayContainerWeight=100"},
	},
	{
		map[string]string{"gateway": "both", "hostedZone": "Z1", "gatewayContainerWeight": "90"},
		map[string]string{"gateway": "lambda", "hostedZone": "Z1"},
		[]string{"DNS records still send 90 of 100 clients there: say gatewayContainerWeight=0"},
	},
	{
		map[string]string{"gateway": "both", "hostedZone": "Z1", "gatewayContainerWeight": "100"},
		map[string]string{"gateway": "container", "hostedZone": "Z1"},
		[]string{removeHint},
	},
	{
		map[string]string{"gateway": "both", "hostedZone": "Z1"},
		map[string]string{"gateway": "lambda", "hostedZone": "Z1"},
		[]string{removeHint},
	},
	{
		map[string]string{"gateway": "both"},
		map[string]string{
			"gateway": "both", "vpc": "vpc-01234567",
			"subnets": "subnet-00000001 subnet-00000002",
		},
		[]string{
			"while AWS cannot move a load balancer to another network: say gateway=lambda in infra/stages/dev.json and " +
				"deploy that first",
		},
	},
	{
		map[string]string{"gateway": "container", "hostedZone": "Z1"},
		map[string]string{"gateway": "both", "hostedZone": "Z1"},
		[]string{"created by the same deployment: say gatewayContainerWeight=100"},
	},
	{
		map[string]string{"gateway": "container", "hostedZone": "Z1"},
		map[string]string{"gateway": "both", "hostedZone": "Z1", "gatewayContainerWeight": "100"},
		nil,
	},
	{map[string]string{"hostedZone": "Z1"}, map[string]string{
		"gateway": "both", "hostedZone": "Z1",
		"gatewayContainerWeight": "100",
	}, []string{"created by the same deployment: say gatewayContainerWeight=0"}},
	{map[string]string{"hostedZone": "Z1"}, map[string]string{
		"gateway": "both", "hostedZone": "Z1",
		"gatewayContainerWeight": "30",
	}, nil},
	{
		map[string]string{"hostedZone": "Z1"},
		nil,
		[]string{"the records of Z1 by which clients find deployments would be removed: leave hostedZone"},
	},
	{map[string]string{"hostedZone": "Z1"}, map[string]string{"hostedZone": "Z2"}, []string{"leave hostedZone"}},
	{nil, map[string]string{"hostedZone": "Z1"}, nil},
	{
		map[string]string{"gateway": "container"},
		map[string]string{"gateway": "container", "gatewayDomain": "others.example.com"},
		[]string{"*.apis.example.com by which clients call would be removed: leave gatewayDomain"},
	},
}

// TestGatewayModeChangesGoThroughBoth checks which changes of the gateway's targets, network, domain and DNS records a
// deployment refuses. No deployment removes a target while it is the only one, or while DNS records send clients to it,
// even if the operator allows all removals. Any other removal is refused only until the operator allows it.
func TestGatewayModeChangesGoThroughBoth(t *testing.T) {
	for _, tt := range gatewayChanges {
		lines := removals.Refusals(removals.Diff(stackOfContext(t, tt.from), stackOfContext(t, tt.to)), nil,
			"infra/stages/dev.json")
		if !slices.EqualFunc(lines, tt.want, strings.Contains) {
			t.Errorf("Refusals(from %v to %v) = %q, want lines with %q", tt.from, tt.to, lines, tt.want)
		}
		allowed := removals.Refusals(removals.Diff(stackOfContext(t, tt.from), stackOfContext(t, tt.to)),
			[]string{"gateway", "gatewayDomain", "hostedZone"}, "infra/stages/dev.json")
		// A refusal that requires another setting of the gateway remains. The others are only about removals.
		stillRefused := len(tt.want) > 0 && strings.Contains(tt.want[0], "say gateway")
		if stillRefused != (len(allowed) > 0) {
			t.Errorf("Refusals(from %v to %v, all allowed) = %q, want a refusal: %v", tt.from, tt.to, allowed, stillRefused)
		}
	}
}
