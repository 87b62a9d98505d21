package main

import (
	"encoding/json"
	"fmt"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigateway"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// snapshot has the content of one deployment of an API. The API's stage serves this content until the next deployment.
// The logical id of the deployment is derived from the properties of the API, its stage and its resources, so that
// every change of them creates a new deployment.
type snapshot struct {
	parts        []any                    // properties of the API's resources
	dependencies []constructs.IDependable // these are created before the deployment
}

// add adds a resource with these properties.
func (sn *snapshot) add(properties any, cfnResource awscdk.CfnResource) {
	sn.parts = append(sn.parts, properties)
	sn.dependencies = append(sn.dependencies, cfnResource)
}

// newStage deploys the snapshot to a stage of the API, which has the name of the installation's stage. throttles are
// the settings of the stage's methods.
//
// CloudFormation deletes removed resources of an API last, after the deployment of the snapshot. Removed routes
// therefore still respond for a while: their function reports that the operation does not exist.
func (sn *snapshot) newStage(api restAPI, s Settings, name string, throttles *[]any) {
	stage := &awsapigateway.CfnStageProps{
		RestApiId: api.cfnAPI.Ref(), StageName: jsii.String(s.Stage),
		// API Gateway would send the whole URL of a request with its query, and the client's address and user agent, to
		// X-Ray. Lambda sends none of that.
		TracingEnabled: jsii.Bool(false),
		MethodSettings: throttles,
	}
	logDependency := addAccessLog(api, s, name, stage)
	id := deploymentID(api.scope, append([]any{api.properties, stage, s.domain(name)}, sn.parts...))
	cfnDeployment := awsapigateway.NewCfnDeployment(api.scope, &id,
		&awsapigateway.CfnDeploymentProps{RestApiId: api.cfnAPI.Ref()})
	cfnDeployment.Node().AddDependency(sn.dependencies...)
	stage.DeploymentId = cfnDeployment.Ref()
	cfnStage := awsapigateway.NewCfnStage(api.scope, jsii.String("Stage"), stage)
	if logDependency != nil {
		cfnStage.Node().AddDependency(logDependency)
	}
}

// deploymentID returns the logical id of the deployment of an API with these properties.
func deploymentID(scope constructs.Construct, parts []any) string {
	text, err := json.Marshal(awscdk.Stack_Of(scope).Resolve(parts))
	if err != nil {
		panic(fmt.Sprintf("infra: %v", err)) // Resolve returns only values of JSON
	}
	return "Deployment" + shortDigest(string(text))
}
