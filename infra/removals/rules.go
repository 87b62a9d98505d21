package removals

import (
	"fmt"
	"slices"
	"strings"
)

// rule describes the resources of a type.
type rule struct {
	// name returns the name under which the operator knows a resource. Its arguments are the path of the resource's stack,
	// the logical id and the resource.
	name func(path, id string, r Resource) string
	// loss describes what is lost with the resource.
	loss func(r Resource) string
	// replaceOnChange are properties whose change replaces the resource, so that the old resource is removed.
	replaceOnChange []string
	// immutable has the properties that AWS cannot change: an update with another value fails. The map's value is the
	// setting that controls the property, or "" if the setting has the property's name.
	immutable map[string]string
	// onByDefault has the properties that are on unless they are false. The map's value describes what is lost when the
	// property is switched off.
	onByDefault map[string]string
	// protections has the properties that protect data, as paths with dots. The map's value describes the protection
	// that is lost. It is "protected" for a property that isProtected checks.
	protections map[string]string
}

// logicalID names a resource by its logical id.
func logicalID(_, id string, _ Resource) string { return id }

// constantName returns a function that returns the given name for each resource.
func constantName(name string) func(string, string, Resource) string {
	return func(string, string, Resource) string { return name }
}

// constantText returns a function that returns the text loss for each resource.
func constantText(loss string) func(Resource) string { return func(Resource) string { return loss } }

// tableTypes are the types of the table's resource.
var tableTypes = []string{"AWS::DynamoDB::Table", "AWS::DynamoDB::GlobalTable"}

// alarmKeyID is the logical id of the KMS key for the topic that sends alarms to a person. This key encrypts no stored
// data, so it can be removed.
const alarmKeyID = "AlarmKey"

// ruleOf returns the rule of a type of resources, or false if the type has no rule. servingRemovals and unmappedDomains
// find losses of types without a rule.
func ruleOf(kind string) (rule, bool) {
	switch kind {
	case tableTypes[0]:
		return rule{
			name: logicalID, loss: constantText("the table with all data"),
			replaceOnChange: []string{"TableName", "KeySchema"}, protections: map[string]string{
				"DeletionProtectionEnabled":                                   "protected",
				"PointInTimeRecoverySpecification.PointInTimeRecoveryEnabled": "the table's point-in-time recovery",
			},
		}, true
	case tableTypes[1]:
		return rule{
			name: logicalID, loss: constantText("the table with all data"),
			replaceOnChange: []string{"TableName", "KeySchema"}, protections: map[string]string{
				"Replicas.0.DeletionProtectionEnabled":                                   "protected",
				"Replicas.0.PointInTimeRecoverySpecification.PointInTimeRecoveryEnabled": "the table's point-in-time recovery",
			},
		}, true
	case "AWS::S3::Bucket":
		return rule{
			name: logicalID, loss: constantText("the bucket with all sources and artifacts"),
			replaceOnChange: []string{"BucketName"}, protections: map[string]string{
				"VersioningConfiguration.Status":                       "the bucket's versions",
				"PublicAccessBlockConfiguration.BlockPublicAcls":       "the bucket's block of public access",
				"PublicAccessBlockConfiguration.BlockPublicPolicy":     "the bucket's block of public access",
				"PublicAccessBlockConfiguration.IgnorePublicAcls":      "the bucket's block of public access",
				"PublicAccessBlockConfiguration.RestrictPublicBuckets": "the bucket's block of public access",
			},
		}, true
	case "AWS::KMS::Key":
		return rule{
			name: logicalID, loss: constantText("the KMS key without which nothing sealed can be opened"),
			immutable: map[string]string{"MultiRegion": "multiRegionKey", "KeySpec": "", "KeyUsage": "", "Origin": ""},
			onByDefault: map[string]string{"Enabled": "the KMS key, which is switched off and without which nothing sealed " +
				"can be opened,"},
			protections: map[string]string{"EnableKeyRotation": "the yearly rotation of the KMS key"},
		}, true
	case "AWS::SQS::Queue":
		return rule{
			name: logicalID, loss: constantText("a queue of what failed for good with what is in it"),
			replaceOnChange: []string{"QueueName"},
		}, true
	case "AWS::ApiGateway::RestApi":
		return rule{name: apiSetting, loss: constantText(apiLoss)}, true
	case "AWS::ApiGateway::Stage": // without a stage the API does not respond
		return rule{name: apiSetting, loss: constantText(apiLoss), replaceOnChange: []string{"RestApiId", "StageName"}}, true
	case "AWS::ApiGateway::DomainName":
		return rule{name: domainSetting, loss: func(r Resource) string {
			return domainLoss(r.Properties["DomainName"])
		}, replaceOnChange: []string{"DomainName"}}, true
	case "AWS::WAFv2::WebACL":
		return rule{
			name: constantName("waf"), loss: constantText("the web ACL that stops floods"),
			replaceOnChange: []string{"Name", "Scope"},
		}, true
	case "AWS::WAFv2::WebACLAssociation":
		return rule{
			name: constantName("waf"), loss: constantText("the web ACL before an API"),
			replaceOnChange: []string{"ResourceArn"},
		}, true
	case "AWS::ElasticLoadBalancingV2::LoadBalancer":
		return rule{
			name: serviceSetting, loss: constantText(balancerLoss),
			replaceOnChange: []string{"Name", "Scheme", "Type"},
		}, true
	case "AWS::ElasticLoadBalancingV2::Listener": // without a listener the balancer accepts no connection
		return rule{name: serviceSetting, loss: constantText(balancerLoss), replaceOnChange: []string{"LoadBalancerArn"}},
			true
	case "AWS::ECS::Service": // without the service the balancer has no targets
		return rule{
			name: serviceSetting, loss: constantText(balancerLoss),
			replaceOnChange: []string{"Cluster", "ServiceName", "LaunchType", "SchedulingStrategy"},
		}, true
	}
	return rule{}, false
}

// Each of these texts is the loss for several resources that serve together. If several of them are removed, the loss
// is reported once.
const (
	apiLoss      = "an API with its address"
	balancerLoss = "a load balancer whose name clients connect to, with what answers behind it,"
)

// apiSetting returns the setting whose change can remove an API. No setting removes the management API: for it,
// apiSetting returns the logical id.
func apiSetting(path, id string, _ Resource) string {
	if servesDeployments(path, id) {
		return gatewaySetting
	}
	return id
}

// domainSetting returns the setting with the domain name of an API. The domain name of deployments begins with a
// wildcard.
func domainSetting(_, _ string, r Resource) string {
	if name, _ := r.Properties["DomainName"].(string); strings.HasPrefix(name, "*.") {
		return "gatewayDomain"
	}
	return "apiDomain"
}

// serviceSetting returns the setting that creates a service. Each service has a nested stack.
func serviceSetting(path, _ string, _ Resource) string {
	if strings.HasPrefix(path, "Relay") {
		return "relayDomain"
	}
	return gatewaySetting
}

// removalsOf returns what is removed when a resource changes from old to current. If the resource is deleted, current
// is the zero Resource, which has no type.
func removalsOf(path, id string, old, current Resource) (out []Removal) {
	r, ok := ruleOf(old.Type)
	if !ok || path == "" && id == alarmKeyID {
		return nil
	}
	name := r.name(path, id, old)
	switch {
	case current.Type != old.Type && slices.Contains(tableTypes, old.Type) && slices.Contains(tableTypes, current.Type):
		return []Removal{{Name: "table", Loss: "the table would be another kind of table", Impossible: true}}
	case current.Type != old.Type:
		return []Removal{{Name: name, Loss: r.loss(old)}}
	}
	for property, setting := range r.immutable {
		if setting == "" {
			setting = property
		}
		if !sameValue(old.Properties[property], current.Properties[property]) {
			out = append(out, Removal{
				Name: setting, Loss: fmt.Sprintf("the %s of %s would be another", setting, id),
				Impossible: true,
			})
		}
	}
	for _, property := range r.replaceOnChange {
		if !sameValue(old.Properties[property], current.Properties[property]) {
			out = append(out, Removal{Name: name, Loss: r.loss(old)})
		}
	}
	for property, loss := range r.onByDefault {
		if !disabled(old.Properties[property]) && disabled(current.Properties[property]) {
			out = append(out, Removal{Name: id, Loss: loss})
		}
	}
	if old.Type == "AWS::WAFv2::WebACL" {
		out = append(out, weakenedRules(old, current)...)
	}
	for property, loss := range r.protections {
		if loss != "protected" && enabled(valueAt(old.Properties, property)) &&
			!enabled(valueAt(current.Properties, property)) {
			out = append(out, Removal{Name: id, Loss: loss})
		}
	}
	return out
}

// sameValue reports whether two values of a property are equal. A missing value equals false, and a boolean equals its
// text, such as "true".
func sameValue(a, b any) bool {
	render := func(v any) string {
		if v == nil {
			v = false
		}
		return fmt.Sprint(v) // fmt sorts maps
	}
	return render(a) == render(b)
}

// enabled reports whether a property is switched on.
func enabled(v any) bool { return v == true || v == "true" || v == "Enabled" }

// disabled reports whether a property is switched off.
func disabled(v any) bool { return v == false || v == "false" }

// weakenedRules returns a removal for each rule of a web ACL that is removed or has another action.
func weakenedRules(old, current Resource) (out []Removal) {
	rules := func(r Resource) map[string]any {
		all := map[string]any{}
		list, _ := r.Properties["Rules"].([]any)
		for _, rule := range list {
			all[fmt.Sprint(valueAt(rule, "Name"))] = valueAt(rule, "Action")
		}
		return all
	}
	currentRules := rules(current)
	for name, oldAction := range rules(old) {
		if action, exists := currentRules[name]; !exists || !sameValue(oldAction, action) {
			out = append(out, Removal{Name: "waf", Loss: fmt.Sprintf("the rule %s of the web ACL, or what it does,", name)})
		}
	}
	return out
}

// valueAt returns the value at a path of member names and list indexes. The only index that it supports is 0.
func valueAt(v any, path string) any {
	for step := range strings.SplitSeq(path, ".") {
		switch node := v.(type) {
		case map[string]any:
			v = node[step]
		case []any:
			if len(node) == 0 || step != "0" {
				return nil
			}
			v = node[0]
		default:
			return nil
		}
	}
	return v
}

// isProtected reports whether a resource is kept when its stack is deleted, or cannot be deleted.
func isProtected(r Resource) bool {
	if strings.HasPrefix(r.DeletionPolicy, "Retain") {
		return true
	}
	rules, _ := ruleOf(r.Type)
	for property, effect := range rules.protections {
		if effect == "protected" && enabled(valueAt(r.Properties, property)) {
			return true
		}
	}
	return false
}
