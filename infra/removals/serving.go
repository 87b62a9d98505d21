package removals

import (
	"fmt"
	"slices"
	"strings"
)

// gatewaySetting is the name of the setting that selects what serves deployments: an API with a function, a load
// balancer with processes, or both.
const gatewaySetting = "gateway"

// servesDeployments reports whether a resource of the installation's own stack belongs to the API of deployments.
func servesDeployments(path, id string) bool { return path == "" && strings.HasPrefix(id, "Gateway") }

// gatewayAddressOutput is the output with the address of deployments. The output has the same name whether a function
// or processes serve deployments.
const gatewayAddressOutput = "GatewayAddress"

// These are the identifiers of the weighted DNS records for deployments.
const (
	FunctionRecord = "function" // the record of the API
	ProcessRecord  = "process"  // the record of the load balancer
)

// servingState describes what serves deployments in a stack.
type servingState struct {
	byFunction, byProcess bool
	// weights has the percentage of clients that the stack's DNS records send to each target, by the identifiers of the
	// records. zone is the zone of the records, or "" if there are none.
	weights map[string]float64
	zone    string
	// network is the VPC of the processes.
	network string
}

// servingState finds what serves deployments in the templates of a stack.
func (s Stack) servingState() servingState {
	out := servingState{weights: map[string]float64{}}
	for path, template := range s.Templates {
		for id, r := range template.Resources {
			switch r.Type {
			case "AWS::ApiGateway::RestApi":
				out.byFunction = out.byFunction || servesDeployments(path, id)
			case "AWS::ElasticLoadBalancingV2::LoadBalancer":
				out.byProcess = out.byProcess || serviceSetting(path, id, r) == gatewaySetting
			case "AWS::ElasticLoadBalancingV2::TargetGroup":
				if serviceSetting(path, id, r) == gatewaySetting {
					out.network = fmt.Sprint(r.Properties["VpcId"]) // fmt sorts maps
				}
			case "AWS::Route53::RecordSet":
				identifier, _ := r.Properties["SetIdentifier"].(string)
				out.weights[identifier], _ = r.Properties["Weight"].(float64)
				out.zone, _ = r.Properties["HostedZoneId"].(string)
			}
		}
	}
	return out
}

// servingRemovals adds to found what is lost when the target that serves deployments changes. It sets a Blocker if the
// removed target is the only one, or if DNS records still send clients to it. It drops the removal of the gateway's
// domain name if the name continues to lead to processes. CloudFormation would remove the target shortly after it has
// changed the records, but clients cache records for a minute or more.
func servingRemovals(before, after Stack, found []Removal) []Removal {
	old, current := before.servingState(), after.servingState()
	old.blockRemovals(found, current)
	if old.byProcess && current.byProcess && old.network != current.network {
		found = append(found, Removal{
			Name: "vpc", Loss: "the load balancer of deployments in its network",
			Blocker: "AWS cannot move a load balancer to another network", Prerequisite: gatewaySetting + "=lambda",
		})
	}
	for _, target := range []struct {
		identifier, label string
		createsOther      bool   // this update creates the other target
		weight            string // the gatewayContainerWeight to deploy after both targets exist
	}{
		{ProcessRecord, "the processes", current.byFunction && !old.byFunction, "100"},
		{FunctionRecord, "the function", current.byProcess && !old.byProcess, "0"},
	} {
		if newWeight, exists := current.weights[target.identifier]; exists && target.createsOther &&
			old.weights[target.identifier] > 0 && newWeight == 0 {
			found = append(found, Removal{
				Name: gatewaySetting, Loss: "the way of every client to " + target.label,
				Blocker:      "the new target is created by the same deployment",
				Prerequisite: "gatewayContainerWeight=" + target.weight,
			})
		}
	}
	for identifier, weight := range old.weights {
		_, hasRecord := current.weights[identifier]
		serves := identifier == FunctionRecord && current.byFunction || identifier == ProcessRecord && current.byProcess
		if serves && !hasRecord && weight > 0 && current.zone == old.zone {
			found = append(found, Removal{Name: "hostedZone", Loss: fmt.Sprintf("the record of %s by which %g of 100 clients "+
				"find deployments", old.zone, weight)})
		}
	}
	if old.zone != "" && current.zone != old.zone {
		found = append(found,
			Removal{Name: "hostedZone", Loss: "the records of " + old.zone + " by which clients find deployments"})
	}
	from, isText := before.Templates[""].Outputs[gatewayAddressOutput].Value.(string)
	to, _ := after.Templates[""].Outputs[gatewayAddressOutput].Value.(string)
	name, isWildcard := strings.CutPrefix(from, "https://*.")
	switch {
	case !isText || !isWildcard:
	case from != to && (current.byFunction || current.byProcess):
		found = append(found, Removal{Name: "gatewayDomain", Loss: domainLoss("*." + name)})
	case old.byFunction && !current.byFunction: // the name now points to the processes
		found = slices.DeleteFunc(found, func(r Removal) bool { return r.Name == "gatewayDomain" })
	}
	return found
}

// blockRemovals sets the Blocker and the Prerequisite of those removals in found that cannot be made yet. next is the
// state after the update.
func (s servingState) blockRemovals(found []Removal, next servingState) {
	for i := range found {
		r := &found[i]
		if r.Name != gatewaySetting {
			continue
		}
		removed, remains := s.byProcess && !next.byProcess, s.byFunction && next.byFunction
		identifier, weight := ProcessRecord, "0"
		if s.byFunction && !next.byFunction {
			removed, remains, identifier, weight = true, s.byProcess && next.byProcess, FunctionRecord, "100"
		}
		switch {
		case removed && !remains:
			r.Blocker, r.Prerequisite = "nothing else serves deployments", gatewaySetting+"=both"
		case removed && s.weights[identifier] > 0:
			r.Blocker, r.Prerequisite = fmt.Sprintf("DNS records still send %g of 100 clients there", s.weights[identifier]),
				"gatewayContainerWeight="+weight
		}
	}
}

// unmappedDomains returns a removal for each domain name that would no longer be mapped to its API. Without a mapping,
// the domain name itself may remain, but API Gateway responds with 403. If the mapping is removed together with the
// domain name, Diff reports only one removal.
func unmappedDomains(before, after Stack) (out []Removal) {
	const kind = "AWS::ApiGateway::BasePathMapping"
	for path, template := range before.Templates {
		for id, old := range template.Resources {
			current, exists := after.Templates[path].Resources[id]
			mapped := exists && current.Type == kind && !becomesConditional(old, current) &&
				!after.nestedBecomesConditional(before, path)
			for _, property := range []string{"DomainName", "BasePath", "RestApiId", "Stage"} {
				mapped = mapped && sameValue(old.Properties[property], current.Properties[property])
			}
			if old.Type != kind || mapped {
				continue
			}
			domain := Resource{Properties: map[string]any{"DomainName": old.Properties["DomainName"]}}
			if ref, _ := valueAt(old.Properties, "DomainName.Ref").(string); ref != "" {
				domain = template.Resources[ref]
			}
			out = append(out, Removal{Name: domainSetting(path, id, domain), Loss: domainLoss(domain.Properties["DomainName"])})
		}
	}
	return out
}

// domainLoss describes the loss of a domain name.
func domainLoss(name any) string {
	return fmt.Sprintf("the domain name %v by which clients call", name)
}
