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

// tree is the tree of an API's paths. The management API's stands in a nested
// stack of its own, and its methods in several others, so that no stack comes near
// CloudFormation's 500 resources.
//
// Which stack a part is in, and what it is called there, follows from its path
// alone. CloudFormation makes what is new before it removes what is not there any
// more, also of a part that has only moved or got another name: API Gateway refuses
// the second of a path. A stack for each function would move a method with its
// operation.
type tree struct {
	api    constructs.Construct
	rest   awsapigateway.CfnRestApi
	nested bool
	scopes map[string]constructs.Construct
	// restID is the id of the API, and resources are those of the resources of paths.
	restID    *string
	resources map[string]*string
}

func newTree(api constructs.Construct, rest awsapigateway.CfnRestApi, name string) *tree {
	return &tree{
		api: api, rest: rest, nested: name == management,
		scopes: map[string]constructs.Construct{}, restID: rest.Ref(), resources: map[string]*string{},
	}
}

// Names of nested stacks. No service has such: names of services are single words.
const (
	paths   = "the-paths"
	methods = "the-methods"
)

// methodStacks is how many stacks share the methods, for ever: a path of another
// number may move. API Gateway takes 300 paths of an API, which have some 900 methods
// at most; a stack takes 500 resources and 200 parameters.
const methodStacks = 8

// methodsOf is the name of the nested stack with the methods of a path.
func methodsOf(path string) string {
	sum := sha256.Sum256([]byte(path))
	return fmt.Sprintf("%s-%d", methods, sum[0]%methodStacks)
}

// scope is where a part of the tree belongs: paths, or a stack of methods.
func (t *tree) scope(part string) constructs.Construct {
	if !t.nested {
		return t.api
	}
	if t.scopes[part] == nil {
		t.scopes[part] = awscdk.NewNestedStack(t.api, jsii.String(exported(part)), &awscdk.NestedStackProps{
			Description: jsii.Sprintf("The tree of the management API: %s", strings.TrimPrefix(part, "the-")),
		})
	}
	return t.scopes[part]
}

// chain makes CloudFormation create the stacks of the tree one after the other, and delete them in the opposite order. API Gateway's control
// plane takes ten calls a second of an account, and a method needs three: stacks that are created at the same time would exceed that.
func (t *tree) chain() {
	if !t.nested {
		return
	}
	var before awscdk.CfnResource
	for _, part := range sortedKeys(t.scopes) {
		if part == paths {
			continue // methods need the paths anyway
		}
		of := awscdk.Stack_Of(t.scopes[part]).NestedStackResource()
		if before != nil {
			of.AddDependency(before)
		}
		before = of
	}
}

// resource makes the resource of a path, and those above it, unless it is
// there, and gives its id.
func (t *tree) resource(path string) *string {
	if path == "" || path == "/" {
		return t.rest.AttrRootResourceId()
	}
	if id, ok := t.resources[path]; ok {
		return id
	}
	i := strings.LastIndexByte(path, '/')
	parent := t.resource(path[:i])
	t.resources[path] = awsapigateway.NewCfnResource(t.scope(paths), jsii.String(pathID(path)), &awsapigateway.CfnResourceProps{
		RestApiId: t.restID, ParentId: parent, PathPart: jsii.String(path[i+1:]),
	}).Ref()
	return t.resources[path]
}

// pathID is what the resource of a path is called in its stack.
func pathID(path string) string { return "Path" + digest(path) }
