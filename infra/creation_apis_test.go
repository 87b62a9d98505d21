package main

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// apiCreationRules are the creation rules of API Gateway.
var apiCreationRules = []creationRule{
	{
		name:   "a web ACL is associated with a stage after the stage is created",
		source: awsDocs + "AWSCloudFormation/latest/TemplateReference/aws-resource-wafv2-webaclassociation.html",
		violations: func(c creationOrder) (violations []string, checked int) {
			for address := range c.all("AWS::WAFv2::WebACLAssociation") {
				checked++
				if !slices.ContainsFunc(slices.Collect(maps.Keys(c.createdBefore(address))), func(address string) bool {
					return c.resource(address).Type == "AWS::ApiGateway::Stage"
				}) {
					violations = append(violations, address)
				}
			}
			return violations, checked
		},
		violate: func(c creationOrder) { c.removeDependencies("AWS::WAFv2::WebACLAssociation", "AWS::ApiGateway::Stage") },
	},
	{
		name: "stacks with many resources of API Gateway are created one after the other: its control plane accepts " +
			"ten calls per second in an account",
		source: awsDocs + "apigateway/latest/developerguide/limits.html#api-gateway-control-service-limits-table",
		violations: func(c creationOrder) (violations []string, checked int) {
			const smallStack = 10 // API Gateway accepts a burst of 40 calls, which is enough for this number of resources
			files := map[string]int{}
			for address, r := range c.allResources() {
				if strings.HasPrefix(r.Type, "AWS::ApiGateway::") && c.stackResource[fileOf(address)] != "" {
					files[fileOf(address)]++
				}
			}
			large := slices.DeleteFunc(slices.Sorted(maps.Keys(files)), func(file string) bool {
				return files[file] <= smallStack
			})
			for i, one := range large {
				for _, other := range large[i+1:] {
					checked++
					if !c.createdBefore(c.stackResource[one])[c.stackResource[other]] &&
						!c.createdBefore(c.stackResource[other])[c.stackResource[one]] {
						violations = append(violations, c.stackResource[one]+" and "+c.stackResource[other])
					}
				}
			}
			return violations, checked
		},
		violate: func(c creationOrder) {
			c.removeDependencies("AWS::CloudFormation::Stack", "AWS::CloudFormation::Stack")
		},
	},
	{
		name: "each path of a REST API has a function: for other paths, API Gateway parses a bearer token as a " +
			"signature, and repeats it in a 403",
		source: awsDocs + "apigateway/latest/developerguide/supported-gateway-response-types.html",
		violations: func(c creationOrder) (violations []string, checked int) {
			matched := map[string]bool{} // APIs and paths with a method ANY
			for _, r := range c.all("AWS::ApiGateway::Method") {
				if r.Properties["HttpMethod"] == anyMethod {
					matched[refID(r.Properties["RestApiId"])+" "+c.pathOf(r.Properties["ResourceId"])] = true
				}
			}
			for address := range c.all("AWS::ApiGateway::RestApi") {
				for _, path := range []string{"/", "/" + greedyVariable} {
					checked++
					if !matched[idOf(address)+" "+path] {
						violations = append(violations, address+" "+path)
					}
				}
			}
			return violations, checked
		},
		violate: func(c creationOrder) {
			for address, r := range c.all("AWS::ApiGateway::Method") {
				if c.pathOf(r.Properties["ResourceId"]) == "/"+greedyVariable {
					delete(c.stacks[fileOf(address)].Resources, idOf(address))
				}
			}
		},
	},
	{
		name: "each API has its own gateway responses, which repeat no error text, header or body of a request, and have " +
			"a Retry-After for throttles",
		source: awsDocs + "apigateway/latest/developerguide/supported-gateway-response-types.html",
		violations: func(c creationOrder) (violations []string, checked int) {
			kinds := map[string]map[string]bool{}
			for address, r := range c.all("AWS::ApiGateway::GatewayResponse") {
				checked++
				api, kind := refID(r.Properties["RestApiId"]), fmt.Sprint(r.Properties["ResponseType"])
				if kinds[api] == nil {
					kinds[api] = map[string]bool{}
				}
				kinds[api][kind] = true
				text := fmt.Sprint(get(r.Properties, "ResponseTemplates", "application/json"))
				if strings.Contains(text, "$context.error") || strings.Contains(text, "$input") ||
					strings.Contains(text, "$method") {
					violations = append(violations, address+" repeats the request")
				}
				if r.Properties["StatusCode"] == "429" && get(r.Properties, "ResponseParameters",
					"gatewayresponse.header.Retry-After") == nil {
					violations = append(violations, address+" has no Retry-After")
				}
			}
			for address := range c.all("AWS::ApiGateway::RestApi") {
				for _, kind := range []string{
					"DEFAULT_4XX", "DEFAULT_5XX", "INVALID_SIGNATURE", "MISSING_AUTHENTICATION_TOKEN",
					"THROTTLED", "WAF_FILTERED",
				} {
					if !kinds[idOf(address)][kind] {
						violations = append(violations, address+" has no "+kind)
					}
				}
			}
			return violations, checked
		},
		violate: func(c creationOrder) {
			for _, r := range c.all("AWS::ApiGateway::GatewayResponse") {
				if parameters, ok := r.Properties["ResponseParameters"].(map[string]any); ok {
					delete(parameters, "gatewayresponse.header.Retry-After")
				}
			}
		},
	},
	{
		name: "a method accepts at most as many simultaneous requests as its function has concurrency: API Gateway " +
			"responds 500 to a call that Lambda refuses",
		source: awsDocs + "lambda/latest/dg/services-apigateway.html#services-apigateway-errors",
		violations: func(c creationOrder) (violations []string, checked int) {
			for address, r := range c.all("AWS::ApiGateway::Stage") {
				maxBurst := math.Inf(1) // the smallest reservation of the functions behind the stage's methods
				for _, method := range c.all("AWS::ApiGateway::Method") {
					if refID(method.Properties["RestApiId"]) == refID(r.Properties["RestApiId"]) {
						if reserved, ok := c.find(c.integratedFunction(method)).Properties["ReservedConcurrentExecutions"].(float64); ok {
							maxBurst = min(maxBurst, reserved)
						}
					}
				}
				settings, _ := r.Properties["MethodSettings"].([]any)
				for _, item := range settings {
					checked++
					if burst, ok := get(item, "ThrottlingBurstLimit").(float64); !ok || burst > maxBurst {
						violations = append(violations, fmt.Sprintf("%s, %v", address, get(item, "ResourcePath")))
					}
				}
			}
			return violations, checked
		},
		violate: func(c creationOrder) {
			for _, r := range c.all("AWS::ApiGateway::Stage") {
				item, _ := get(r.Properties, "MethodSettings", 0).(map[string]any)
				item["ThrottlingBurstLimit"] = 1000.0
			}
		},
	},
	{
		name: "no method setting of a stage is for the method ANY: API Gateway refuses the stage with \"Invalid " +
			"method setting path\"",
		source: awsDocs + "apigateway/latest/api/API_UpdateStage.html",
		violations: func(c creationOrder) (violations []string, checked int) {
			for address, r := range c.all("AWS::ApiGateway::Stage") {
				settings, _ := r.Properties["MethodSettings"].([]any)
				for _, item := range settings {
					checked++
					if get(item, "HttpMethod") == anyMethod {
						violations = append(violations, fmt.Sprintf("%s, %v", address, get(item, "ResourcePath")))
					}
				}
			}
			return violations, checked
		},
		violate: func(c creationOrder) {
			for _, r := range c.all("AWS::ApiGateway::Stage") {
				item, _ := get(r.Properties, "MethodSettings", 0).(map[string]any)
				item["HttpMethod"] = anyMethod
			}
		},
	},
	{
		name: "a stage with access logs is created after API Gateway's role for logs is set: otherwise it refuses the " +
			"stage",
		source: awsDocs + "apigateway/latest/developerguide/set-up-logging.html",
		violations: func(c creationOrder) (violations []string, checked int) {
			for address, r := range c.all("AWS::ApiGateway::Stage") {
				if r.Properties["AccessLogSetting"] == nil {
					continue
				}
				checked++
				if !slices.ContainsFunc(slices.Collect(maps.Keys(c.createdBefore(address))), func(address string) bool {
					return c.resource(address).Type == "AWS::ApiGateway::Account"
				}) {
					violations = append(violations, address)
				}
			}
			return violations, checked
		},
		violate: func(c creationOrder) { c.removeDependencies("AWS::ApiGateway::Stage", "AWS::ApiGateway::Account") },
	},
}
