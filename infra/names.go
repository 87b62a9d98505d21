package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigateway"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsroute53"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/gatewright/gatewright/infra/removals"
)

// wholeWeight is what the weights of the records add up to, so that each is a percentage.
const wholeWeight = 100

// newNames leads the name of deployments to what serves them, in the operator's own zone, where the context names one.
//
// The records are weighted in every mode, also the only one: Route 53 takes no record of another kind beside
// weighted ones, and CloudFormation makes the new before it removes the old, so that a move is an update or one more record.
//
// A record is there when what it leads to answers: where both are made by one update, the names would lead to a domain
// without an API otherwise. answering is what the function needs for it; a stack of tasks gives no address before it is whole.
//
// Neither has its target's health looked at. Of API Gateway there is none to look at, and a load balancer counts as healthy
// when each of its groups of targets has a healthy one, of which one is empty between releases (rollout.go).
func newNames(root constructs.Construct, s Settings, domain awsapigateway.CfnDomainName, answering []constructs.IDependable, running []*deployedService) {
	if s.HostedZone == "" {
		return
	}
	record := func(id, by string, weight int, name, zone *string) awsroute53.CfnRecordSet {
		return awsroute53.NewCfnRecordSet(root, &id, &awsroute53.CfnRecordSetProps{
			HostedZoneId: &s.HostedZone, Name: jsii.String(s.domain(gateway)), Type: jsii.String("A"),
			SetIdentifier: &by, Weight: jsii.Number(weight),
			AliasTarget: &awsroute53.CfnRecordSet_AliasTargetProperty{DnsName: name, HostedZoneId: zone, EvaluateTargetHealth: jsii.Bool(false)},
		})
	}
	weight := s.processWeight()
	if domain != nil {
		record("FunctionName", removals.ByFunction, wholeWeight-weight, domain.AttrRegionalDomainName(), domain.AttrRegionalHostedZoneId()).
			Node().AddDependency(answering...)
	}
	for _, of := range running {
		if of.Beside {
			record("ProcessName", removals.ByProcess, weight, of.balancer.resource.AttrDnsName(), of.balancer.resource.AttrCanonicalHostedZoneId())
		}
	}
}

// processWeight is how many of a hundred clients are led to processes.
func (s Settings) processWeight() int {
	switch s.Gateway {
	case gatewayProcesses:
		return wholeWeight
	case gatewayBoth:
		return s.GatewayContainerWeight
	}
	return 0
}

// ledBy is what an output about the name says: who leads it where.
func (s Settings) ledBy(domain string) *string {
	if s.HostedZone != "" && domain == s.domain(gateway) {
		return jsii.Sprintf("%s is led here by a record of %s", domain, s.HostedZone)
	}
	return jsii.Sprintf("Point %s here (a CNAME or an alias record)", domain)
}
