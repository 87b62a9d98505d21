package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/gatewright/gatewright/infra/removals"
)

// hasType reports whether a stack, or one that is nested in it, has a resource of a type.
func hasType(s removals.Stack, kind string) bool {
	for _, r := range resources(s) {
		if r.Type == kind {
			return true
		}
	}
	return false
}

// logRole checks the role under which API Gateway writes the logs of all APIs of an account in a region. An installation sets it
// ("accessLogs": "own") or relies on it ("account").
func logRole(ctx context.Context, p preflight) (findings []string, err error) {
	const account = "AWS::ApiGateway::Account"
	logs := func(s removals.Stack) bool {
		for _, r := range resources(s) {
			if r.Type == "AWS::ApiGateway::Stage" && r.Properties["AccessLogSetting"] != nil {
				return true
			}
		}
		return false
	}
	sets := hasType(p.planned, account)
	if !logs(p.planned) || logs(p.deployed) && sets == hasType(p.deployed, account) {
		return nil, nil
	}
	var reply struct {
		Role string `json:"cloudwatchRoleArn"`
	}
	if err := p.read(ctx, &reply, "apigateway", "get-account"); err != nil {
		return nil, err
	}
	// A first deployment that failed leaves the role of the installation itself: CloudFormation named it after the stack.
	own := strings.Contains(reply.Role, ":role/gatewright-"+p.stage+"-LogWriterRole-")
	switch {
	case sets && reply.Role != "" && !own:
		return []string{fmt.Sprintf(`API Gateway writes the logs of all APIs of this account in %s under the role %s, which this deployment would replace: add the line "accessLogs": "account" to %s`, p.region, reply.Role, p.file())}, nil
	case !sets && reply.Role == "":
		return []string{fmt.Sprintf(`API Gateway has no role in %s under which it writes access logs: remove "accessLogs" from %s, so that the installation sets one, or set it to "none"`, p.region, p.file())}, nil
	}
	return nil, nil
}

// budgetType checks that CloudFormation creates budgets in the region. It does not do so everywhere.
func budgetType(ctx context.Context, p preflight) (findings []string, err error) {
	const budget = "AWS::Budgets::Budget"
	if !hasType(p.planned, budget) || hasType(p.deployed, budget) {
		return nil, nil
	}
	var reply struct{ TypeName string }
	err = p.read(ctx, &reply, "cloudformation", "describe-type", "--type", "RESOURCE", "--type-name", budget)
	switch {
	case failedWith(err, "TypeNotFoundException"):
		return []string{fmt.Sprintf("CloudFormation creates no budgets in %s: remove monthlyBudget from %s, and create a budget in the billing console", p.region, p.file())}, nil
	case err != nil:
		return nil, err
	}
	return nil, nil
}
