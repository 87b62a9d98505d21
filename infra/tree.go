package main

import (
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigateway"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// tree is the tree of an API's paths. The management API's stands in a nested
// stack of its own, and the methods of each function in another, so that no
// stack comes near CloudFormation's 500 resources.
//
// It is so from the first route on, and no path ever moves to another stack:
// it would be made there before it is removed here, which API Gateway refuses.
type tree struct {
	api       constructs.Construct
	rest      awsapigateway.CfnRestApi
	nested    bool
	scopes    map[string]constructs.Construct
	resources map[string]awsapigateway.CfnResource
}

func newTree(api constructs.Construct, rest awsapigateway.CfnRestApi, name string) *tree {
	return &tree{
		api: api, rest: rest, nested: name == management,
		scopes: map[string]constructs.Construct{}, resources: map[string]awsapigateway.CfnResource{},
	}
}

// paths is the name of the nested stack of resources. No function has it: names
// of functions are single words.
const paths = "the-paths"

// scope is where a part of the tree belongs: a function's, or paths.
func (t *tree) scope(part string) constructs.Construct {
	if !t.nested {
		return t.api
	}
	if t.scopes[part] == nil {
		t.scopes[part] = awscdk.NewNestedStack(t.api, jsii.String(exported(part)), &awscdk.NestedStackProps{
			Description: jsii.Sprintf("Routes of the management API: %s", part),
		})
	}
	return t.scopes[part]
}

// resource makes the resource of a path, and those above it, unless it is
// there, and gives its id.
func (t *tree) resource(path string) *string {
	if path == "" || path == "/" {
		return t.rest.AttrRootResourceId()
	}
	if r, ok := t.resources[path]; ok {
		return r.Ref()
	}
	i := strings.LastIndexByte(path, '/')
	parent := t.resource(path[:i])
	t.resources[path] = awsapigateway.NewCfnResource(t.scope(paths), jsii.String("Path"+digest(path)), &awsapigateway.CfnResourceProps{
		RestApiId: t.rest.Ref(), ParentId: parent, PathPart: jsii.String(path[i+1:]),
	})
	return t.resources[path].Ref()
}
