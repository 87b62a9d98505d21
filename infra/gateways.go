package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
)

// What serves deployments, as Settings.Gateway says it: processes alone or beside the function.
const (
	gatewayProcesses = "container"
	gatewayBoth      = "both"
)

// byFunction and byProcess say by what deployments are served.
func (s Settings) byFunction() bool { return s.Gateway != gatewayProcesses }

func (s Settings) byProcess() bool { return s.Gateway == gatewayProcesses || s.Gateway == gatewayBoth }

// Words that mean nothing to an installation without processes, or without the function, that serve
// deployments: whoever says one there believes that it does something.
var (
	wordsOfProcesses = []string{"gatewayTasks", "gatewayTasksMost", "gatewayTaskMemory", "vpc", "subnets", "balancerSubnets"}
	wordsOfFunction  = []string{"gatewayMemory", "gatewayRate", "gatewayBurst", "streaming"}
)

// checkGateway says what is wrong with the words about what serves deployments, a line each.
func (s Settings) checkGateway(given words) error {
	var wrong []error
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }
	if s.HostedZone != "" && (s.GatewayDomain == "" || s.Emulator != "") {
		say("-c hostedZone needs -c gatewayDomain, whose names it leads, and is not for emulators")
	}
	if given["gatewayContainerWeight"] != nil && (s.Gateway != gatewayBoth || s.HostedZone == "") {
		say("-c gatewayContainerWeight is for hostedZone and gateway=both, which have two places to lead clients to: say both, or leave it out")
	}
	if !s.byProcess() {
		for _, name := range wordsOfProcesses {
			if given[name] != nil {
				say("-c %[1]s is for gateways as processes, and gateway=%[2]s has none: say gateway=both to have them beside the function, gateway=container to have them in its place, or leave %[1]s out", name, s.Gateway)
			}
		}
		return errors.Join(wrong...)
	}
	if s.Emulator != "" {
		say("-c gateway=%s is not for emulators: the function serves there", s.Gateway)
	}
	if s.GatewayDomain == "" {
		say("-c gateway=%s needs -c gatewayDomain, whose certificate the processes have", s.Gateway)
	}
	if s.GatewayTasks > s.GatewayTasksMost {
		say("-c gatewayTasks=%d is the fewest, and gatewayTasksMost=%d the most: say gatewayTasksMost=%[1]d or more", s.GatewayTasks, s.GatewayTasksMost)
	}
	for _, name := range wordsOfFunction {
		if given[name] != nil && !s.byFunction() {
			say("-c %[1]s is for the gateway's function, and gateway=%[2]s has none: leave %[1]s out", name, s.Gateway)
		}
	}
	return errors.Join(append(wrong, s.checkNetwork())...)
}

var subnetID = regexp.MustCompile(`^subnet-[0-9a-f]{8,17}$`)

// checkNetwork says what is wrong with a network of the operator's, a line each. Whether its subnets are in two zones, and public
// or not, AWS alone knows.
func (s Settings) checkNetwork() error {
	var wrong []error
	if (s.VPC == "") != (len(s.Subnets) == 0) || s.VPC == "" && len(s.BalancerSubnets) > 0 {
		wrong = append(wrong, errors.New("-c vpc and subnets are said together, and balancerSubnets beside them where those are private"))
	}
	for _, of := range []struct {
		name string
		ids  []string
	}{{"subnets", s.Subnets}, {"balancerSubnets", s.BalancerSubnets}} {
		distinct := slices.Compact(slices.Sorted(slices.Values(of.ids)))
		isNone := func(id string) bool { return !subnetID.MatchString(id) }
		if len(of.ids) > 0 && (len(distinct) < 2 || len(distinct) < len(of.ids) || slices.ContainsFunc(of.ids, isNone)) {
			wrong = append(wrong, fmt.Errorf("-c %s are two or more subnets of the vpc, each once and in zones of their own, such as subnet-0123456789abcdef0", of.name))
		}
	}
	// A public subnet leads out machines with addresses of their own, which tasks behind a load balancer elsewhere have none of.
	if i := slices.IndexFunc(s.Subnets, func(id string) bool { return slices.Contains(s.BalancerSubnets, id) }); i >= 0 {
		wrong = append(wrong, fmt.Errorf("-c subnets and balancerSubnets both have %s: leave balancerSubnets out for tasks in public subnets, or name private ones in subnets", shown(s.Subnets[i])))
	}
	return errors.Join(wrong...)
}
