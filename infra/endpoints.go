package main

import (
	"maps"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/gatewright/gatewright/shared/runtime/service"
)

// imageLayersARN matches the objects of ECR that contain the layers of images in a region. To start a task,
// ECS reads them through URLs that ECR signs ("Amazon ECR interface VPC endpoints" in its user guide).
const imageLayersARN = "arn:${AWS::Partition}:s3:::prod-${AWS::Region}-starport-layer-bucket/*"

// newEndpoints creates VPC gateway endpoints, so that a network's traffic to S3 and DynamoDB stays within AWS. AWS
// charges for gateway endpoints neither per hour nor per gigabyte. AWS has gateway endpoints only for these two
// services.
func newEndpoints(
	scope constructs.Construct, name string, d data, svc service.Service, vpc *string, routes awsec2.CfnRouteTable,
) {
	for _, endpoint := range []struct {
		id, service string
		statements  []any
	}{
		{"ObjectsEndpoint", "s3", append(d.endpointStatements(svc, targetArtifacts),
			withAnyPrincipal(nil, allow([]any{"s3:GetObject"}, awscdk.Fn_Sub(jsii.String(imageLayersARN), nil))))},
		{"TableEndpoint", "dynamodb", d.endpointStatements(svc, targetTable, targetDueIndex)},
	} {
		if svc.CallsUpstreams {
			// A project's upstream can be any bucket or table that is public, or for which the project's clients sign
			// their requests. Requests to upstreams use the same endpoint as the installation's own requests, and the
			// endpoint's policy cannot distinguish them. The role of the task limits the access to the installation's
			// data.
			endpoint.statements = []any{withAnyPrincipal(nil, allow([]any{"*"}, "*"))}
		}
		awsec2.NewCfnVPCEndpoint(scope, &endpoint.id, &awsec2.CfnVPCEndpointProps{
			VpcId: vpc, VpcEndpointType: jsii.String("Gateway"), RouteTableIds: &[]any{routes.Ref()},
			ServiceName:    awscdk.Fn_Sub(jsii.String("com.amazonaws.${AWS::Region}."+endpoint.service), nil),
			PolicyDocument: map[string]any{"Version": "2012-10-17", "Statement": endpoint.statements},
			Tags:           nameTags(name),
		})
	}
}

// endpointStatements returns statements with the permissions that a service's role has on targets. An endpoint's policy
// names no role: it grants all callers of this account the same permissions.
func (d data) endpointStatements(svc service.Service, targets ...grantTarget) (out []any) {
	var grants []grant
	for _, g := range uniqueGrants(svc.Uses) {
		for _, target := range targets {
			if g.target == target {
				grants = append(grants, g)
			}
		}
	}
	sameAccount := map[string]any{"StringEquals": map[string]any{"aws:PrincipalAccount": awscdk.Aws_ACCOUNT_ID()}}
	for _, statement := range d.policyStatements(grants, svc.TableAccess) {
		out = append(out, withAnyPrincipal(sameAccount, statement))
	}
	return out
}

// withAnyPrincipal changes a statement so that it allows every principal under the conditions, and returns it. It adds
// no conditions if they are nil.
func withAnyPrincipal(conditions map[string]any, statement any) any {
	out, _ := statement.(map[string]any)
	out["Principal"] = "*"
	existing, _ := out["Condition"].(map[string]any)
	if merged := maps.Clone(conditions); merged != nil {
		maps.Copy(merged, existing)
		out["Condition"] = merged
	}
	return out
}
