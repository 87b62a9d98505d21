package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigateway"
	"github.com/aws/aws-cdk-go/awscdk/v2/awswafv2"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// domain returns the domain name of an API, or "" if clients use the address that API Gateway assigns.
func (s Settings) domain(api string) string {
	switch {
	case api == management:
		return s.APIDomain
	case s.GatewayDomain != "":
		return "*." + s.GatewayDomain // the wildcard stands for the name of a deployment
	}
	return ""
}

// newDomain creates the domain name of an API. It returns nil if the settings have no domain for the API, and for an
// emulator. The owner of the zone creates the DNS record, and finds the target of the record in an output of the stack.
// newDNSRecords creates only the record of the gateway's domain, if the settings name its zone.
func newDomain(
	scope constructs.Construct, s Settings, name string, cfnAPI awsapigateway.CfnRestApi,
) awsapigateway.CfnDomainName {
	domain := s.domain(name)
	if domain == "" || s.Emulator != "" {
		return nil
	}
	d := awsapigateway.NewCfnDomainName(scope, jsii.String("Domain"), &awsapigateway.CfnDomainNameProps{
		DomainName: &domain, RegionalCertificateArn: &s.CertificateARN,
		SecurityPolicy:        jsii.String("TLS_1_2"),
		EndpointConfiguration: &awsapigateway.CfnDomainName_EndpointConfigurationProperty{Types: jsii.Strings("REGIONAL")},
	})
	mapping := awsapigateway.NewCfnBasePathMapping(scope, jsii.String("DomainMapping"),
		&awsapigateway.CfnBasePathMappingProps{
			DomainName: d.Ref(), RestApiId: cfnAPI.Ref(), Stage: jsii.String(s.Stage),
		})
	mapping.Node().AddDependency(scope.Node().FindChild(jsii.String("Stage")))
	awscdk.NewCfnOutput(scope, jsii.String("DomainTarget"), &awscdk.CfnOutputProps{
		Description: s.dnsDescription(domain), Value: d.AttrRegionalDomainName(),
	})
	return d
}

// requestsPer5Minutes is the number of requests from one address that the web ACL allows in floodSeconds. The product's
// own limits are finer. This limit bounds the cost of a flood of requests.
const requestsPer5Minutes = 10_000

// newWAF creates a web ACL for an API, if the settings request it.
func newWAF(scope constructs.Construct, s Settings, cfnAPI awsapigateway.CfnRestApi) {
	if !s.WAF {
		return
	}
	visibility := func(name string) *awswafv2.CfnWebACL_VisibilityConfigProperty {
		return &awswafv2.CfnWebACL_VisibilityConfigProperty{
			CloudWatchMetricsEnabled: jsii.Bool(true), SampledRequestsEnabled: jsii.Bool(false), MetricName: &name,
		}
	}
	acl := awswafv2.NewCfnWebACL(scope, jsii.String("WebACL"), &awswafv2.CfnWebACLProps{
		Scope:            jsii.String("REGIONAL"),
		DefaultAction:    &awswafv2.CfnWebACL_DefaultActionProperty{Allow: &awswafv2.CfnWebACL_AllowActionProperty{}},
		VisibilityConfig: visibility("gatewright-" + s.Stage),
		Rules: &[]any{&awswafv2.CfnWebACL_RuleProperty{
			Name: jsii.String("flood"), Priority: jsii.Number(0),
			Action: &awswafv2.CfnWebACL_RuleActionProperty{Block: &awswafv2.CfnWebACL_BlockActionProperty{}},
			Statement: &awswafv2.CfnWebACL_StatementProperty{RateBasedStatement: &awswafv2.CfnWebACL_RateBasedStatementProperty{
				AggregateKeyType: jsii.String("IP"), Limit: jsii.Number(requestsPer5Minutes),
			}},
			VisibilityConfig: visibility("flood"),
		}},
	})
	association := awswafv2.NewCfnWebACLAssociation(scope, jsii.String("WebACLAssociation"),
		&awswafv2.CfnWebACLAssociationProps{
			WebAclArn: acl.AttrArn(),
			ResourceArn: awscdk.Fn_Join(jsii.String(""), &[]*string{
				jsii.String("arn:"), awscdk.Aws_PARTITION(), jsii.String(":apigateway:"), awscdk.Aws_REGION(),
				jsii.String("::/restapis/"), cfnAPI.Ref(), jsii.String("/stages/" + s.Stage),
			}),
		})
	association.Node().AddDependency(scope.Node().FindChild(jsii.String("Stage")))
}
