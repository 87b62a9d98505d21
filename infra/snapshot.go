package main

import (
	"encoding/json"
	"fmt"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigateway"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// snapshot is what a deployment of an API holds, and so what its stage serves until
// there is another deployment. Another logical id makes one: it follows from the
// properties themselves, as the template has them, so that none is forgotten that
// is added.
type snapshot struct {
	parts []any                    // properties
	first []constructs.IDependable // are made before it
}

// add has the snapshot hold a resource of these properties.
func (n *snapshot) add(properties any, made awscdk.CfnResource) {
	n.parts = append(n.parts, properties)
	n.first = append(n.first, made)
}

// newStage deploys what the snapshot holds to a stage named after the installation's.
//
// What is removed from an API is removed last, after the snapshot, which still has
// it: until the next one, its function says that there is no such operation.
func (n *snapshot) newStage(f front, s Settings, name string, throttles *[]any) {
	stage := &awsapigateway.CfnStageProps{
		RestApiId: f.rest.Ref(), StageName: jsii.String(s.Stage),
		// What API Gateway tells X-Ray of a request has its whole URL, with the query, and the client's
		// address and user agent. What Lambda tells has none of it.
		TracingEnabled: jsii.Bool(false),
		MethodSettings: throttles,
	}
	logged := newAccessLogs(f, s, name, stage)
	id := deploymentID(f.scope, append([]any{f.properties, stage, s.domain(name)}, n.parts...))
	deployment := awsapigateway.NewCfnDeployment(f.scope, &id, &awsapigateway.CfnDeploymentProps{RestApiId: f.rest.Ref()})
	deployment.Node().AddDependency(n.first...)
	stage.DeploymentId = deployment.Ref()
	made := awsapigateway.NewCfnStage(f.scope, jsii.String("Stage"), stage)
	if logged != nil {
		made.Node().AddDependency(logged)
	}
}

// deploymentID is the logical id of the deployment of an API with these properties.
func deploymentID(scope constructs.Construct, parts []any) string {
	text, err := json.Marshal(awscdk.Stack_Of(scope).Resolve(parts))
	if err != nil {
		panic(fmt.Sprintf("infra: %v", err)) // it comes from JSON
	}
	return "Deployment" + digest(string(text))
}
