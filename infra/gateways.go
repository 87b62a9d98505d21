package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
)

// These are values of Settings.Gateway, which says what serves deployments: only processes, or processes and the
// function.
const (
	gatewayProcesses = "container"
	gatewayBoth      = "both"
)

// servedByFunction reports whether the function behind API Gateway serves deployments.
func (s Settings) servedByFunction() bool { return s.Gateway != gatewayProcesses }

// servedByProcesses reports whether processes serve deployments. The function can serve them at the same time.
func (s Settings) servedByProcesses() bool {
	return s.Gateway == gatewayProcesses || s.Gateway == gatewayBoth
}

// processSettings have an effect only if processes serve deployments, and functionSettings only if the function serves
// them. A setting without an effect is an error, because the operator expects an effect.
var (
	processSettings = []string{
		"gatewayTasks", "gatewayTasksMost", "gatewayTaskMemory", "vpc", "subnets",
		"balancerSubnets",
	}
	functionSettings = []string{"gatewayMemory", "gatewayRate", "gatewayBurst", "streaming"}
)

// checkGateway returns an error with a line for each invalid setting about what serves deployments. values has the
// settings that are set, without the defaults.
func (s Settings) checkGateway(values settingValues) error {
	var errs []error
	addError := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if s.HostedZone != "" && (s.GatewayDomain == "" || s.Emulator != "") {
		addError("-c hostedZone needs -c gatewayDomain, whose DNS records it gets, and is not for emulators")
	}
	if values["gatewayContainerWeight"] != nil && (s.Gateway != gatewayBoth || s.HostedZone == "") {
		addError("-c gatewayContainerWeight is for hostedZone and gateway=both, which divide clients between two targets: " +
			"set both, or leave it out")
	}
	if !s.servedByProcesses() {
		for _, name := range processSettings {
			if values[name] != nil {
				addError("-c %[1]s is for gateways as processes, and gateway=%[2]s has none: say gateway=both to have them "+
					"beside the function, gateway=container to have them in its place, or leave %[1]s out", name, s.Gateway)
			}
		}
		return errors.Join(errs...)
	}
	if s.Emulator != "" {
		addError("-c gateway=%s is not for emulators: the function serves there", s.Gateway)
	}
	if s.GatewayDomain == "" {
		addError("-c gateway=%s needs -c gatewayDomain, whose certificate the processes have", s.Gateway)
	}
	if s.GatewayTasks > s.GatewayTasksMost {
		addError("-c gatewayTasks=%d is more than gatewayTasksMost=%d: set gatewayTasksMost to %[1]d or more",
			s.GatewayTasks, s.GatewayTasksMost)
	}
	for _, name := range functionSettings {
		if values[name] != nil && !s.servedByFunction() {
			addError("-c %[1]s is for the gateway's function, and gateway=%[2]s has none: leave %[1]s out", name, s.Gateway)
		}
	}
	return errors.Join(append(errs, s.checkNetwork())...)
}

// subnetID matches the id of a subnet.
var subnetID = regexp.MustCompile(`^subnet-[0-9a-f]{8,17}$`)

// checkNetwork returns an error with a line for each invalid setting of the operator's
// network. Only AWS knows whether its subnets are in two zones, and public or not.
func (s Settings) checkNetwork() error {
	var errs []error
	if (s.VPC == "") != (len(s.Subnets) == 0) || s.VPC == "" && len(s.BalancerSubnets) > 0 {
		errs = append(errs, errors.New("-c vpc and -c subnets need each other: set both, and also balancerSubnets if the "+
			"subnets are private"))
	}
	for _, setting := range []struct {
		name string
		ids  []string
	}{{"subnets", s.Subnets}, {"balancerSubnets", s.BalancerSubnets}} {
		distinct := slices.Compact(slices.Sorted(slices.Values(setting.ids)))
		isInvalid := func(id string) bool { return !subnetID.MatchString(id) }
		if len(setting.ids) > 0 && (len(distinct) < 2 || len(distinct) < len(setting.ids) ||
			slices.ContainsFunc(setting.ids, isInvalid)) {
			errs = append(errs, fmt.Errorf("-c %s are two or more subnets of the vpc, each once and in zones of their own, "+
				"such as subnet-0123456789abcdef0", setting.name))
		}
	}
	// A public subnet routes traffic out only for machines with public addresses. Tasks in other subnets than the load
	// balancer's have no public addresses.
	if i := slices.IndexFunc(s.Subnets, func(id string) bool { return slices.Contains(s.BalancerSubnets, id) }); i >= 0 {
		errs = append(errs, fmt.Errorf("-c subnets and balancerSubnets both have %s: leave balancerSubnets out for tasks "+
			"in public subnets, or name private ones in subnets", quoted(s.Subnets[i])))
	}
	return errors.Join(errs...)
}
