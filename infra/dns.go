package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigateway"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsroute53"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/gatewright/gatewright/infra/removals"
)

// totalWeight is the sum of the weights of the records, so that each weight is a percentage.
const totalWeight = 100

// newDNSRecords creates DNS records in the operator's zone, if the settings name one. The records point the gateway's
// domain name to the targets that serve deployments: the function's API and the load balancer of the processes.
//
// All records are weighted, even a single one: Route 53 allows no other kind of record next to weighted ones, and
// CloudFormation creates new records before it deletes old ones. So clients can be moved by changing a weight, or by
// adding a record.
//
// A record is created after its target responds. Otherwise the name would point to a domain without an API for a while,
// if one update creates both the record and the target. dependencies are the resources that must exist before the
// function can respond. The record of the load balancer needs no such list: the load balancer is in a nested stack, and
// the record can read its address only when that stack is complete.
//
// No record evaluates the health of its target. API Gateway has no health to evaluate. A load balancer counts as
// healthy only if each of its target groups has a healthy target, but one of its groups is empty between releases
// (rollout.go).
func newDNSRecords(
	root constructs.Construct, s Settings, domain awsapigateway.CfnDomainName, dependencies []constructs.IDependable,
	running []*deployedService,
) {
	if s.HostedZone == "" {
		return
	}
	record := func(id, identifier string, weight int, name, zone *string) awsroute53.CfnRecordSet {
		return awsroute53.NewCfnRecordSet(root, &id, &awsroute53.CfnRecordSetProps{
			HostedZoneId: &s.HostedZone, Name: jsii.String(s.domain(gateway)), Type: jsii.String("A"),
			SetIdentifier: &identifier, Weight: jsii.Number(weight),
			AliasTarget: &awsroute53.CfnRecordSet_AliasTargetProperty{
				DnsName: name, HostedZoneId: zone,
				EvaluateTargetHealth: jsii.Bool(false),
			},
		})
	}
	weight := s.processWeight()
	if domain != nil {
		record("FunctionName", removals.FunctionRecord, totalWeight-weight, domain.AttrRegionalDomainName(),
			domain.AttrRegionalHostedZoneId()).
			Node().AddDependency(dependencies...)
	}
	for _, svc := range running {
		if svc.AlsoFunction {
			record("ProcessName", removals.ProcessRecord, weight, svc.balancer.resource.AttrDnsName(),
				svc.balancer.resource.AttrCanonicalHostedZoneId())
		}
	}
}

// processWeight returns the percentage of clients that the records send to processes.
func (s Settings) processWeight() int {
	switch s.Gateway {
	case gatewayProcesses:
		return totalWeight
	case gatewayBoth:
		return s.GatewayContainerWeight
	}
	return 0
}

// dnsDescription returns the description of the stack output that contains the target of domain. The description says
// whether this stack or the operator creates the DNS record.
func (s Settings) dnsDescription(domain string) *string {
	if s.HostedZone != "" && domain == s.domain(gateway) {
		return jsii.Sprintf("%s is led here by a record of %s", domain, s.HostedZone)
	}
	return jsii.Sprintf("Point %s here (a CNAME or an alias record)", domain)
}
