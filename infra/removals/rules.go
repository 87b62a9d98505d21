package removals

import (
	"fmt"
	"slices"
	"strings"
)

// rule is what is told of the resources of a type.
type rule struct {
	// name is by what its owner names the resource, of the path of its stack, its logical id and itself.
	name func(path, id string, r Resource) string
	// lost says what goes with it.
	lost func(r Resource) string
	// fixed are properties of which another value makes another resource, and removes this one.
	fixed []string
	// never are properties, and other types that stand for one, that AWS changes of no resource: the update fails. Each with the word that says it.
	never map[string]string
	// off are properties that are on unless they say false, each with what is lost then.
	off map[string]string
	// protections are properties that keep what there is, each with what it does; a path with dots in it.
	protections map[string]string
}

func logicalID(_, id string, _ Resource) string { return id }

func always(name string) func(string, string, Resource) string {
	return func(string, string, Resource) string { return name }
}

func text(lost string) func(Resource) string { return func(Resource) string { return lost } }

// tables are the types of the table's resource.
var tables = []string{"AWS::DynamoDB::Table", "AWS::DynamoDB::GlobalTable"}

// noticeKey is the key of the topic that sends alarms to a person. It encrypts nothing that is kept.
const noticeKey = "AlarmKey"

// ruleOf gives the rule of a type; false for one whose resources hold nothing that another one would not have.
func ruleOf(kind string) (rule, bool) {
	switch kind {
	case tables[0]:
		return rule{name: logicalID, lost: text("the table with all data"), fixed: []string{"TableName", "KeySchema"}, protections: map[string]string{
			"DeletionProtectionEnabled": "protected", "PointInTimeRecoverySpecification.PointInTimeRecoveryEnabled": "the table's point-in-time recovery",
		}}, true
	case tables[1]:
		return rule{name: logicalID, lost: text("the table with all data"), fixed: []string{"TableName", "KeySchema"}, protections: map[string]string{
			"Replicas.0.DeletionProtectionEnabled": "protected", "Replicas.0.PointInTimeRecoverySpecification.PointInTimeRecoveryEnabled": "the table's point-in-time recovery",
		}}, true
	case "AWS::S3::Bucket":
		return rule{name: logicalID, lost: text("the bucket with all sources and artifacts"), fixed: []string{"BucketName"}, protections: map[string]string{
			"VersioningConfiguration.Status":                       "the bucket's versions",
			"PublicAccessBlockConfiguration.BlockPublicAcls":       "the bucket's block of public access",
			"PublicAccessBlockConfiguration.BlockPublicPolicy":     "the bucket's block of public access",
			"PublicAccessBlockConfiguration.IgnorePublicAcls":      "the bucket's block of public access",
			"PublicAccessBlockConfiguration.RestrictPublicBuckets": "the bucket's block of public access",
		}}, true
	case "AWS::KMS::Key":
		return rule{
			name: logicalID, lost: text("the KMS key without which nothing sealed can be opened"), never: map[string]string{"MultiRegion": "multiRegionKey", "KeySpec": "", "KeyUsage": "", "Origin": ""},
			off:         map[string]string{"Enabled": "the KMS key, which is switched off and without which nothing sealed can be opened,"},
			protections: map[string]string{"EnableKeyRotation": "the yearly rotation of the KMS key"},
		}, true
	case "AWS::SQS::Queue":
		return rule{name: logicalID, lost: text("a queue of what failed for good with what is in it"), fixed: []string{"QueueName"}}, true
	case "AWS::ApiGateway::RestApi":
		return rule{name: apiWord, lost: text(apiLost)}, true
	case "AWS::ApiGateway::Stage": // without which the API answers nobody
		return rule{name: apiWord, lost: text(apiLost), fixed: []string{"RestApiId", "StageName"}}, true
	case "AWS::ApiGateway::DomainName":
		return rule{name: domainWord, lost: func(r Resource) string {
			return domainLost(r.Properties["DomainName"])
		}, fixed: []string{"DomainName"}}, true
	case "AWS::WAFv2::WebACL":
		return rule{name: always("waf"), lost: text("the web ACL that stops floods"), fixed: []string{"Name", "Scope"}}, true
	case "AWS::WAFv2::WebACLAssociation":
		return rule{name: always("waf"), lost: text("the web ACL before an API"), fixed: []string{"ResourceArn"}}, true
	case "AWS::ElasticLoadBalancingV2::LoadBalancer":
		return rule{name: serviceWord, lost: text(balancerLost), fixed: []string{"Name", "Scheme", "Type"}}, true
	case "AWS::ElasticLoadBalancingV2::Listener": // without which it takes no connection
		return rule{name: serviceWord, lost: text(balancerLost), fixed: []string{"LoadBalancerArn"}}, true
	case "AWS::ECS::Service": // without which nobody answers behind it
		return rule{name: serviceWord, lost: text(balancerLost), fixed: []string{"Cluster", "ServiceName", "LaunchType", "SchedulingStrategy"}}, true
	}
	return rule{}, false
}

// What is lost with one resource of several that serve together, and with all of them: it is told once.
const (
	apiLost      = "an API with its address"
	balancerLost = "a load balancer whose name clients connect to, with what answers behind it,"
)

// apiWord is the word of the stage's file that has an API removed: the management API is always there.
func apiWord(path, id string, _ Resource) string {
	if servesDeployments(path, id) {
		return servedBy
	}
	return id
}

// domainWord is the word of the stage's file that gives an API its domain name: deployments are labels before theirs.
func domainWord(_, _ string, r Resource) string {
	if name, _ := r.Properties["DomainName"].(string); strings.HasPrefix(name, "*.") {
		return "gatewayDomain"
	}
	return "apiDomain"
}

// serviceWord is the word that brings a service, each of which has a nested stack.
func serviceWord(path, _ string, _ Resource) string {
	if strings.HasPrefix(path, "Relay") {
		return "relayDomain"
	}
	return servedBy
}

// removalsOf gives what is lost of one resource by what becomes of it; of no type is one that is not there any more.
func removalsOf(path, id string, was, is Resource) (out []Removal) {
	r, watched := ruleOf(was.Type)
	if !watched || path == "" && id == noticeKey {
		return nil
	}
	name := r.name(path, id, was)
	switch {
	case is.Type != was.Type && slices.Contains(tables, was.Type) && slices.Contains(tables, is.Type):
		return []Removal{{Name: "table", Lost: "the table would be another kind of table", Final: true}}
	case is.Type != was.Type:
		return []Removal{{Name: name, Lost: r.lost(was)}}
	}
	for property, word := range r.never {
		if word == "" {
			word = property
		}
		if !same(was.Properties[property], is.Properties[property]) {
			out = append(out, Removal{Name: word, Lost: fmt.Sprintf("the %s of %s would be another", word, id), Final: true})
		}
	}
	for _, property := range r.fixed {
		if !same(was.Properties[property], is.Properties[property]) {
			out = append(out, Removal{Name: name, Lost: r.lost(was)})
		}
	}
	for property, what := range r.off {
		if !off(was.Properties[property]) && off(is.Properties[property]) {
			out = append(out, Removal{Name: id, Lost: what})
		}
	}
	if was.Type == "AWS::WAFv2::WebACL" {
		out = append(out, weaker(was, is)...)
	}
	for property, what := range r.protections {
		if what != "protected" && on(at(was.Properties, property)) && !on(at(is.Properties, property)) {
			out = append(out, Removal{Name: id, Lost: what})
		}
	}
	return out
}

// same reports whether two values of a property are: what is not said is false, and a text of a boolean is one.
func same(a, b any) bool {
	said := func(v any) string {
		if v == nil {
			v = false
		}
		return fmt.Sprint(v) // which sorts maps
	}
	return said(a) == said(b)
}

// on reports whether a property is switched on.
func on(v any) bool { return v == true || v == "true" || v == "Enabled" }

// off reports whether a property is switched off.
func off(v any) bool { return v == false || v == "false" }

// weaker gives the rules of a web ACL that are there no more, or do something else with a request than before.
func weaker(was, is Resource) (out []Removal) {
	rules := func(r Resource) map[string]any {
		all := map[string]any{}
		list, _ := r.Properties["Rules"].([]any)
		for _, rule := range list {
			all[fmt.Sprint(at(rule, "Name"))] = at(rule, "Action")
		}
		return all
	}
	now := rules(is)
	for name, does := range rules(was) {
		if action, there := now[name]; !there || !same(does, action) {
			out = append(out, Removal{Name: "waf", Lost: fmt.Sprintf("the rule %s of the web ACL, or what it does,", name)})
		}
	}
	return out
}

// at is the value at a path of names and of places in lists.
func at(v any, path string) any {
	for step := range strings.SplitSeq(path, ".") {
		switch in := v.(type) {
		case map[string]any:
			v = in[step]
		case []any:
			if len(in) == 0 || step != "0" {
				return nil
			}
			v = in[0]
		default:
			return nil
		}
	}
	return v
}

// protects reports whether a resource is kept when its stack goes, or cannot be deleted.
func protects(r Resource) bool {
	if strings.HasPrefix(r.DeletionPolicy, "Retain") {
		return true
	}
	rules, _ := ruleOf(r.Type)
	for property, what := range rules.protections {
		if what == "protected" && on(at(r.Properties, property)) {
			return true
		}
	}
	return false
}
