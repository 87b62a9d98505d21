package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/gatewright/gatewright/infra/removals"
)

// hasType reports whether a stack or one of its nested stacks has a resource of a type.
func hasType(s removals.Stack, kind string) bool {
	for _, r := range resources(s) {
		if r.Type == kind {
			return true
		}
	}
	return false
}

// logRoleFindings checks the role under which API Gateway writes the logs of all APIs of an account in a region. An
// installation sets it ("accessLogs": "own") or relies on it ("account").
func logRoleFindings(ctx context.Context, p preflight) (findings []string, err error) {
	const accountType = "AWS::ApiGateway::Account"
	hasAccessLogs := func(s removals.Stack) bool {
		for _, r := range resources(s) {
			if r.Type == "AWS::ApiGateway::Stage" && r.Properties["AccessLogSetting"] != nil {
				return true
			}
		}
		return false
	}
	setsRole := hasType(p.planned, accountType)
	if !hasAccessLogs(p.planned) || hasAccessLogs(p.deployed) && setsRole == hasType(p.deployed, accountType) {
		return nil, nil
	}
	var reply struct {
		Role string `json:"cloudwatchRoleArn"`
	}
	if err := p.query(ctx, &reply, "apigateway", "get-account"); err != nil {
		return nil, err
	}
	// A first deployment that failed leaves the role that the installation's stack has created. CloudFormation named
	// the role after the stack.
	isOwn := strings.Contains(reply.Role, ":role/gatewright-"+p.stage+"-LogWriterRole-")
	switch {
	case setsRole && reply.Role != "" && !isOwn:
		return []string{
			fmt.Sprintf(
				`API Gateway writes the logs of all APIs of this account in %s under the role %s, which this deployment would `+
					`replace: add the line "accessLogs": "account" to %s`, p.region, reply.Role, p.stageFile()),
		}, nil
	case !setsRole && reply.Role == "":
		return []string{
			fmt.Sprintf(
				`API Gateway has no role in %s under which it writes access logs: remove "accessLogs" from %s, so that the `+
					`installation sets one, or set it to "none"`, p.region, p.stageFile()),
		}, nil
	}
	return nil, nil
}

// budgetTypeFindings checks that CloudFormation supports budgets in the region. Some regions do not have this type.
func budgetTypeFindings(ctx context.Context, p preflight) (findings []string, err error) {
	const budget = "AWS::Budgets::Budget"
	if !hasType(p.planned, budget) || hasType(p.deployed, budget) {
		return nil, nil
	}
	var reply struct{ TypeName string }
	err = p.query(ctx, &reply, "cloudformation", "describe-type", "--type", "RESOURCE", "--type-name", budget)
	switch {
	case hasErrorCode(err, "TypeNotFoundException"):
		return []string{fmt.Sprintf("CloudFormation creates no budgets in %s: remove monthlyBudget from %s, and create a "+
			"budget in the billing console", p.region, p.stageFile())}, nil
	case err != nil:
		return nil, err
	}
	return nil, nil
}
