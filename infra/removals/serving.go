package removals

import (
	"fmt"
	"slices"
	"strings"
)

// servedBy is the word of the stage's file that says what serves deployments: an API with a function behind it, a load balancer
// with processes behind it, or both.
const servedBy = "gateway"

// servesDeployments reports whether a resource of the installation's own stack is of the API of deployments.
func servesDeployments(path, id string) bool { return path == "" && strings.HasPrefix(id, "Gateway") }

// address is the output with where deployments are, the same whatever serves them.
const address = "GatewayAddress"

// Identifiers of the weighted DNS records of what serves deployments.
const (
	ByFunction = "function" // the API's
	ByProcess  = "process"  // the load balancer's
)

// serving is what serves deployments in a stack.
type serving struct {
	byFunction, byProcess bool
	// weights are how many of a hundred clients are led there by records of the stack, by their identifiers; zone is where
	// these are, "" for a stack without.
	weights map[string]float64
	zone    string
	// network is the one that processes are in.
	network string
}

func (s Stack) serving() serving {
	out := serving{weights: map[string]float64{}}
	for path, template := range s.Templates {
		for id, r := range template.Resources {
			switch r.Type {
			case "AWS::ApiGateway::RestApi":
				out.byFunction = out.byFunction || servesDeployments(path, id)
			case "AWS::ElasticLoadBalancingV2::LoadBalancer":
				out.byProcess = out.byProcess || serviceWord(path, id, r) == servedBy
			case "AWS::ElasticLoadBalancingV2::TargetGroup":
				if serviceWord(path, id, r) == servedBy {
					out.network = fmt.Sprint(r.Properties["VpcId"]) // which sorts maps
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

// whatServes adds to removals what is lost when something else serves deployments. The last that serves them may not go, nor what names still
// lead to: CloudFormation removes it a moment after the names lead elsewhere, and clients believe a record for a minute and more.
func whatServes(before, after Stack, all []Removal) []Removal {
	was, is := before.serving(), after.serving()
	was.guard(all, is)
	if was.byProcess && is.byProcess && was.network != is.network {
		all = append(all, Removal{
			Name: "vpc", Lost: "the load balancer of deployments in its network",
			While: "AWS moves none to another", First: servedBy + "=lambda",
		})
	}
	for _, of := range []struct {
		by, what string
		made     bool // what takes them over
		weight   string
	}{
		{ByProcess, "the processes", is.byFunction && !was.byFunction, "100"},
		{ByFunction, "the function", is.byProcess && !was.byProcess, "0"},
	} {
		if there, stays := is.weights[of.by]; stays && of.made && was.weights[of.by] > 0 && there == 0 {
			all = append(all, Removal{
				Name: servedBy, Lost: "the way of every client to " + of.what,
				While: "what they would be led to is made by the same deployment", First: "gatewayContainerWeight=" + of.weight,
			})
		}
	}
	for by, weight := range was.weights {
		_, led := is.weights[by]
		if serves := by == ByFunction && is.byFunction || by == ByProcess && is.byProcess; serves && !led && weight > 0 && is.zone == was.zone {
			all = append(all, Removal{Name: "hostedZone", Lost: fmt.Sprintf("the record of %s by which %g of 100 clients find deployments", was.zone, weight)})
		}
	}
	if was.zone != "" && is.zone != was.zone {
		all = append(all, Removal{Name: "hostedZone", Lost: "the records of " + was.zone + " by which clients find deployments"})
	}
	from, named := before.Templates[""].Outputs[address].Value.(string)
	to, _ := after.Templates[""].Outputs[address].Value.(string)
	name, own := strings.CutPrefix(from, "https://*.")
	switch {
	case !named || !own:
	case from != to && (is.byFunction || is.byProcess):
		all = append(all, Removal{Name: "gatewayDomain", Lost: domainLost("*." + name)})
	case was.byFunction && !is.byFunction: // it goes with the API, and clients' name stays
		all = slices.DeleteFunc(all, func(r Removal) bool { return r.Name == "gatewayDomain" })
	}
	return all
}

// guard says of what serves deployments and goes why it may not go yet.
func (s serving) guard(all []Removal, next serving) {
	for i := range all {
		r := &all[i]
		if r.Name != servedBy {
			continue
		}
		goes, stays, by, weight := s.byProcess && !next.byProcess, s.byFunction && next.byFunction, ByProcess, "0"
		if s.byFunction && !next.byFunction {
			goes, stays, by, weight = true, s.byProcess && next.byProcess, ByFunction, "100"
		}
		switch {
		case goes && !stays:
			r.While, r.First = "nothing else serves deployments", servedBy+"=both"
		case goes && s.weights[by] > 0:
			r.While, r.First = fmt.Sprintf("%g of 100 clients are led there", s.weights[by]), "gatewayContainerWeight="+weight
		}
	}
}

// unmapped are the domain names that would lead to no API any more, or to another one: the name itself may stay, and answers 403. What goes with its
// name is told once.
func unmapped(before, after Stack) (out []Removal) {
	const kind = "AWS::ApiGateway::BasePathMapping"
	for path, template := range before.Templates {
		for id, was := range template.Resources {
			is, there := after.Templates[path].Resources[id]
			leads := there && is.Type == kind && !maybe(was, is) && !after.nestsMaybe(before, path)
			for _, property := range []string{"DomainName", "BasePath", "RestApiId", "Stage"} {
				leads = leads && same(was.Properties[property], is.Properties[property])
			}
			if was.Type != kind || leads {
				continue
			}
			domain := Resource{Properties: map[string]any{"DomainName": was.Properties["DomainName"]}}
			if named, _ := at(was.Properties, "DomainName.Ref").(string); named != "" {
				domain = template.Resources[named]
			}
			out = append(out, Removal{Name: domainWord(path, id, domain), Lost: domainLost(domain.Properties["DomainName"])})
		}
	}
	return out
}

func domainLost(name any) string {
	return fmt.Sprintf("the domain name %v by which clients call", name)
}
