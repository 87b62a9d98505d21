package main

import (
	"maps"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/gatewright/gatewright/shared/service"
)

// layers is where ECR keeps the layers of images in a region, which whoever starts a task
// reads by addresses that ECR signs ("Amazon ECR interface VPC endpoints" in its user guide).
const layers = "arn:${AWS::Partition}:s3:::prod-${AWS::Region}-starport-layer-bucket/*"

// newEndpoints leads a network's tasks to S3 and DynamoDB within AWS. Endpoints of this kind cost
// nothing, neither by the hour nor by the gigabyte, and those two services alone have them.
func newEndpoints(scope constructs.Construct, name string, d data, of service.Service, vpc *string, routes awsec2.CfnRouteTable) {
	for _, to := range []struct {
		id, service string
		statements  []any
	}{
		{"ObjectsEndpoint", "s3", append(d.reached(of, theResults), anybody(nil, allow([]any{"s3:GetObject"}, awscdk.Fn_Sub(jsii.String(layers), nil))))},
		{"TableEndpoint", "dynamodb", d.reached(of, theTable, theDueIndex)},
	} {
		if of.Upstreams {
			// What projects call may be anybody's bucket or table, public or signed for by their
			// clients. It is called by the same road, and no policy knows which: what a task may do
			// with ours, its role says.
			to.statements = []any{anybody(nil, allow([]any{"*"}, "*"))}
		}
		awsec2.NewCfnVPCEndpoint(scope, &to.id, &awsec2.CfnVPCEndpointProps{
			VpcId: vpc, VpcEndpointType: jsii.String("Gateway"), RouteTableIds: &[]any{routes.Ref()},
			ServiceName:    awscdk.Fn_Sub(jsii.String("com.amazonaws.${AWS::Region}."+to.service), nil),
			PolicyDocument: map[string]any{"Version": "2012-10-17", "Statement": to.statements},
			Tags:           named(name),
		})
	}
}

// reached are statements of what a service's role may do with some places. An endpoint's policy names no
// role: whoever of this account asks there may ask for no more.
func (d data) reached(of service.Service, places ...place) (out []any) {
	var grants []grant
	for _, g := range union(of.Uses) {
		for _, p := range places {
			if g.on == p {
				grants = append(grants, g)
			}
		}
	}
	ours := map[string]any{"StringEquals": map[string]any{"aws:PrincipalAccount": awscdk.Aws_ACCOUNT_ID()}}
	for _, statement := range d.policy(grants, of.Reach) {
		out = append(out, anybody(ours, statement))
	}
	return out
}

// anybody is a statement of an endpoint's policy, nil conditions for none.
func anybody(conditions map[string]any, statement any) any {
	of, _ := statement.(map[string]any)
	of["Principal"] = "*"
	its, _ := of["Condition"].(map[string]any)
	if all := maps.Clone(conditions); all != nil {
		maps.Copy(all, its)
		of["Condition"] = all
	}
	return of
}
