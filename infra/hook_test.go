package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/functions"
	"github.com/gatewright/gatewright/functions/releasecheck"
)

// hooks returns the name of the hook's function for each alias that has a release hook, by the alias's address.
func (c creationOrder) hooks() map[string]string {
	out := map[string]string{}
	for address, r := range c.all("AWS::Lambda::Alias") {
		if hook, ok := get(r.UpdatePolicy, "CodeDeployLambdaAliasUpdate", "BeforeAllowTrafficHook").(string); ok {
			out[address] = hook
		}
	}
	return out
}

// functionNamed returns the address of the function with this name in Lambda, or "" if there is none.
func (c creationOrder) functionNamed(name string) string {
	for address, r := range c.all("AWS::Lambda::Function") {
		if r.Properties["FunctionName"] == name {
			return address
		}
	}
	return ""
}

var hookExists = creationRule{
	name: "an alias is moved after its release hook is created, with the policies of the hook's role: CodeDeploy " +
		"calls the hook at the beginning of the first update",
	source: awsDocs + "codedeploy/latest/userguide/reference-appspec-file-structure-hooks.html#appspec-hooks-lambda",
	violations: func(c creationOrder) (violations []string, checked int) {
		for address, name := range c.hooks() {
			checked++
			hook := c.functionNamed(name)
			dependencies := append([]string{hook}, c.policiesOf(c.resolve(hook, c.resource(hook).Properties["Role"]))...)
			if hook == "" || len(dependencies) < 2 || len(c.missingBefore(address, dependencies)) > 0 {
				violations = append(violations, address)
			}
		}
		return violations, checked
	},
	violate: func(c creationOrder) { c.removeDependencies("AWS::Lambda::Alias", "AWS::CloudFormation::Stack") },
}

var hookIsCallable = creationRule{
	name: "the role of a release can call the hook: CodeDeploy calls the hook under this role, and its managed " +
		"policies are only for names that begin with CodeDeployHook_",
	source: awsDocs + "codedeploy/latest/userguide/getting-started-create-service-role.html",
	violations: func(c creationOrder) (violations []string, checked int) {
		for address, name := range c.hooks() {
			checked++
			group := get(c.resource(address).UpdatePolicy, "CodeDeployLambdaAliasUpdate", "DeploymentGroupName")
			allowed := false
			for groupAddress, r := range c.all("AWS::CodeDeploy::DeploymentGroup") {
				if r.Properties["DeploymentGroupName"] == group {
					role := c.resource(c.resolve(groupAddress, r.Properties["ServiceRoleArn"]))
					for _, s := range policyStatements(role) {
						allowed = allowed || slices.Contains(texts(get(s, "Action")), "lambda:InvokeFunction") &&
							strings.HasSuffix(render(get(s, "Resource", 0)), ":function:"+name)
					}
				}
			}
			if !allowed {
				violations = append(violations, address)
			}
		}
		return violations, checked
	},
	violate: func(c creationOrder) {
		for _, r := range c.all("AWS::IAM::Role") {
			delete(r.Properties, "Policies")
		}
	},
}

var hookCanReport = creationRule{
	name: "a hook can read the deployment, call each version that is released, and report its status: otherwise " +
		"CodeDeploy, and the update, wait for an hour",
	source: awsDocs + "codedeploy/latest/userguide/auth-and-access-control-permissions-reference.html",
	violations: func(c creationOrder) (violations []string, checked int) {
		for address, name := range c.hooks() {
			checked++
			hook := c.functionNamed(name)
			releasedFunction := render(c.find(refID(c.resource(address).Properties["FunctionName"])).Properties["FunctionName"])
			missing := map[string]bool{
				"codedeploy:GetDeployment deploymentgroup:gatewright-dev/*":                        true,
				"codedeploy:GetApplicationRevision application:gatewright-dev":                     true,
				"codedeploy:PutLifecycleEventHookExecutionStatus deploymentgroup:gatewright-dev/*": true,
				"lambda:InvokeFunction function:" + releasedFunction + ":*":                        true,
			}
			for _, policy := range c.policiesOf(c.resolve(hook, c.resource(hook).Properties["Role"])) {
				statements, _ := get(c.resource(policy).Properties, "PolicyDocument", "Statement").([]any)
				for _, s := range statements {
					for _, action := range texts(get(s, "Action")) {
						for _, arn := range texts(get(s, "Resource")) {
							_, name, _ := strings.Cut(arn, ":${AWS::AccountId}:")
							delete(missing, action+" "+name)
						}
					}
				}
			}
			for permission := range missing {
				violations = append(violations, address+": "+permission)
			}
		}
		return violations, checked
	},
	violate: func(c creationOrder) {
		for _, statement := range c.statements() {
			if slices.Contains(texts(statement["Action"]), "codedeploy:PutLifecycleEventHookExecutionStatus") {
				statement["Action"] = []any{"codedeploy:GetDeployment"}
			}
		}
	},
}

// policyStatements returns the statements of the policies within a role.
func policyStatements(role resource) (out []any) {
	policies, _ := role.Properties["Policies"].([]any)
	for _, p := range policies {
		statements, _ := get(p, "PolicyDocument", "Statement").([]any)
		out = append(out, statements...)
	}
	return out
}

// TestHookIsNotReleasedThroughCodeDeploy checks that CodeDeploy does not release the hook: otherwise the hook would
// have to check itself. The hook exists only in AWS, and reserves no concurrency.
func TestHookIsNotReleasedThroughCodeDeploy(t *testing.T) {
	for name, context := range map[string]map[string]string{
		"canary": nil, "no canary": unreservedContext,
		"emulator": {"emulator": miniStack},
	} {
		a := synthesize(t, minimalContext(context))
		hook := a.find(logicalID(releasecheck.Function.Name) + "Function")
		if (hook.Type != "") != (context["emulator"] == "") {
			t.Errorf("%s: the hook exists: %v, want %v: only in AWS", name, hook.Type != "", hook.Type == "")
		}
		if hook.Properties["ReservedConcurrentExecutions"] != nil {
			t.Errorf("%s: the hook reserves %v calls at once, want none", name, hook.Properties["ReservedConcurrentExecutions"])
		}
		for _, kind := range []string{"AWS::Lambda::Alias", "AWS::Lambda::Version", "AWS::CodeDeploy::DeploymentGroup"} {
			for id := range a.all(kind) {
				if strings.HasPrefix(id, logicalID(releasecheck.Function.Name)) {
					t.Errorf("%s: the hook has %s, a %s, want none", name, id, kind)
				}
			}
		}
	}
}

// TestEveryFunctionIsInOneList checks that each folder for which make builds a binary is in exactly one of the lists
// that deploy it. The package functions must not import those of awsOnly.
func TestEveryFunctionIsInOneList(t *testing.T) {
	lists := map[string]int{}
	for _, g := range functions.Groups() {
		lists[g.Name]++
	}
	for _, f := range functions.Triggered() {
		lists[f.Name]++
	}
	for _, f := range awsOnly() {
		lists[f.Name]++
	}
	mains, err := filepath.Glob("../functions/*/lambda/main.go")
	if err != nil {
		t.Fatal(err)
	}
	built := map[string]int{}
	for _, path := range mains {
		built[filepath.Base(filepath.Dir(filepath.Dir(path)))] = 1
	}
	if !maps.Equal(lists, built) {
		t.Errorf("functions in the lists Groups, Triggered and awsOnly = %v, want each folder of functions with a "+
			"lambda once: %v", lists, built)
	}
	for _, f := range awsOnly() {
		if strings.Contains(readFile(t, "../functions/functions.go"), `functions/`+f.Name+`"`) {
			t.Errorf("package functions imports %s, want no import, since the server would link it", f.Name)
		}
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
