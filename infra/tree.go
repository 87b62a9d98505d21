package main

import (
	"crypto/sha256"
	"fmt"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigateway"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// tree is the tree of an API's paths. The management API's tree has its own nested stack, and its
// methods are in several others, so that no stack comes near CloudFormation's limit of 500 resources.
//
// The stack and the logical id of each path and method depend only on the path. CloudFormation creates new resources
// before it deletes old ones, even if a resource has only moved to another stack or has another logical id. API Gateway
// refuses a second resource for the same path, so such an update would fail. With one stack per function, a method
// would move whenever its operation moves to another function.
type tree struct {
	api    constructs.Construct
	cfnAPI awsapigateway.CfnRestApi
	// nested says that the tree is in nested stacks. scopes has these stacks by name.
	nested bool
	scopes map[string]constructs.Construct
	// restID is the id that API Gateway assigns to the API. resources has the ids of the API's resources by their paths.
	restID    *string
	resources map[string]*string
}

func newTree(api constructs.Construct, cfnAPI awsapigateway.CfnRestApi, name string) *tree {
	return &tree{
		api: api, cfnAPI: cfnAPI, nested: name == management,
		scopes: map[string]constructs.Construct{}, restID: cfnAPI.Ref(), resources: map[string]*string{},
	}
}

// pathsStack is the name of the nested stack with the paths. methodsStack begins the names of the nested stacks with
// methods. Both differ from the names of services, which are single words.
const (
	pathsStack   = "the-paths"
	methodsStack = "the-methods"
)

// methodStackCount is the number of stacks for methods. It can never change, because methods would move to other
// stacks. API Gateway allows 300 paths in an API, which have at most about 900 methods. CloudFormation allows 500
// resources and 200 parameters in a stack.
const methodStackCount = 8

// methodsStackOf returns the name of the nested stack with the methods of a path.
func methodsStackOf(path string) string {
	sum := sha256.Sum256([]byte(path))
	return fmt.Sprintf("%s-%d", methodsStack, sum[0]%methodStackCount)
}

// scope returns the scope for a part of the tree: part is pathsStack, or the name of a stack of methods.
func (t *tree) scope(part string) constructs.Construct {
	if !t.nested {
		return t.api
	}
	if t.scopes[part] == nil {
		t.scopes[part] = awscdk.NewNestedStack(t.api, jsii.String(logicalID(part)), &awscdk.NestedStackProps{
			Description: jsii.Sprintf("The tree of the management API: %s", strings.TrimPrefix(part, "the-")),
		})
	}
	return t.scopes[part]
}

// chain makes CloudFormation create the stacks of the tree one after the other, and delete them
// in the opposite order. API Gateway's control plane allows ten calls per second in an account,
// and a method needs three: stacks that are created at the same time would exceed that.
func (t *tree) chain() {
	if !t.nested {
		return
	}
	var previous awscdk.CfnResource
	for _, part := range sortedKeys(t.scopes) {
		if part == pathsStack {
			continue // methods depend on the paths anyway
		}
		nested := awscdk.Stack_Of(t.scopes[part]).NestedStackResource()
		if previous != nil {
			nested.AddDependency(previous)
		}
		previous = nested
	}
}

// resource returns the id of the resource of a path. It creates the resource, and the resources above it, if they do
// not exist yet.
func (t *tree) resource(path string) *string {
	if path == "" || path == "/" {
		return t.cfnAPI.AttrRootResourceId()
	}
	if id, ok := t.resources[path]; ok {
		return id
	}
	i := strings.LastIndexByte(path, '/')
	parent := t.resource(path[:i])
	t.resources[path] = awsapigateway.NewCfnResource(t.scope(pathsStack), jsii.String(pathID(path)),
		&awsapigateway.CfnResourceProps{
			RestApiId: t.restID, ParentId: parent, PathPart: jsii.String(path[i+1:]),
		}).Ref()
	return t.resources[path]
}

// pathID returns the logical id of the resource of a path.
func pathID(path string) string { return "Path" + shortDigest(path) }
