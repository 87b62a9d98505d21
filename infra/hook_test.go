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

// hooks returns the hook of each alias that CodeDeploy moves, by the alias' name.
func (c creation) hooks() map[string]string {
	out := map[string]string{}
	for at, r := range c.all("AWS::Lambda::Alias") {
		if hook, ok := get(r.UpdatePolicy, "CodeDeployLambdaAliasUpdate", "BeforeAllowTrafficHook").(string); ok {
			out[at] = hook
		}
	}
	return out
}

// functionNamed returns the function that Lambda calls by a name, "" if there is none.
func (c creation) functionNamed(name string) string {
	for at, r := range c.all("AWS::Lambda::Function") {
		if r.Properties["FunctionName"] == name {
			return at
		}
	}
	return ""
}

var hookIsThere = creationRule{
	name:   "an alias is moved after the hook of its release is there, with the policies of its role: CodeDeploy calls it at the beginning of the first update",
	source: awsDocs + "codedeploy/latest/userguide/reference-appspec-file-structure-hooks.html#appspec-hooks-lambda",
	broken: func(c creation) (broken []string, looked int) {
		for at, name := range c.hooks() {
			looked++
			hook := c.functionNamed(name)
			first := append([]string{hook}, c.policiesOf(c.named(hook, c.resource(hook).Properties["Role"]))...)
			if hook == "" || len(first) < 2 || len(c.missing(at, first)) > 0 {
				broken = append(broken, at)
			}
		}
		return broken, looked
	},
	undo: func(c creation) { c.forget("AWS::Lambda::Alias", "AWS::CloudFormation::Stack") },
}

var hookMayBeCalled = creationRule{
	name:   "the role of a release may call the hook: CodeDeploy calls it under that role, and its managed policies are for names that begin with CodeDeployHook_",
	source: awsDocs + "codedeploy/latest/userguide/getting-started-create-service-role.html",
	broken: func(c creation) (broken []string, looked int) {
		for at, name := range c.hooks() {
			looked++
			group := get(c.resource(at).UpdatePolicy, "CodeDeployLambdaAliasUpdate", "DeploymentGroupName")
			may := false
			for of, r := range c.all("AWS::CodeDeploy::DeploymentGroup") {
				if r.Properties["DeploymentGroupName"] == group {
					role := c.resource(c.named(of, r.Properties["ServiceRoleArn"]))
					for _, s := range policyStatements(role) {
						may = may || slices.Contains(texts(get(s, "Action")), "lambda:InvokeFunction") && strings.HasSuffix(render(get(s, "Resource", 0)), ":function:"+name)
					}
				}
			}
			if !may {
				broken = append(broken, at)
			}
		}
		return broken, looked
	},
	undo: func(c creation) {
		for _, r := range c.all("AWS::IAM::Role") {
			delete(r.Properties, "Policies")
		}
	},
}

var hookMayReport = creationRule{
	name: "a hook may read the deployment, call each version that is released, and report its status: " +
		"CodeDeploy waits an hour for a hook that does not, and the update with it",
	source: awsDocs + "codedeploy/latest/userguide/auth-and-access-control-permissions-reference.html",
	broken: func(c creation) (broken []string, looked int) {
		for at, name := range c.hooks() {
			looked++
			hook := c.functionNamed(name)
			released := render(c.find(unreferred(c.resource(at).Properties["FunctionName"])).Properties["FunctionName"])
			missing := map[string]bool{
				"codedeploy:GetDeployment deploymentgroup:gatewright-dev/*": true, "codedeploy:GetApplicationRevision application:gatewright-dev": true,
				"codedeploy:PutLifecycleEventHookExecutionStatus deploymentgroup:gatewright-dev/*": true, "lambda:InvokeFunction function:" + released + ":*": true,
			}
			for _, policy := range c.policiesOf(c.named(hook, c.resource(hook).Properties["Role"])) {
				list, _ := get(c.resource(policy).Properties, "PolicyDocument", "Statement").([]any)
				for _, s := range list {
					for _, action := range texts(get(s, "Action")) {
						for _, on := range texts(get(s, "Resource")) {
							_, name, _ := strings.Cut(on, ":${AWS::AccountId}:")
							delete(missing, action+" "+name)
						}
					}
				}
			}
			for what := range missing {
				broken = append(broken, at+": "+what)
			}
		}
		return broken, looked
	},
	undo: func(c creation) {
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
		list, _ := get(p, "PolicyDocument", "Statement").([]any)
		out = append(out, list...)
	}
	return out
}

// TestTheHookReleasesNothingOfItsOwn: it would have to check itself.
func TestTheHookReleasesNothingOfItsOwn(t *testing.T) {
	for name, context := range map[string]map[string]string{"with a canary": nil, "without one": unfenced, "an emulator": {"emulator": miniStack}} {
		a := synthesise(t, needed(context))
		hook := a.find(exported(releasecheck.Function.Name) + "Function")
		if (hook.Type != "") != (context["emulator"] == "") {
			t.Errorf("%s: the hook is %q, want one in AWS alone", name, hook.Type)
		}
		if hook.Properties["ReservedConcurrentExecutions"] != nil {
			t.Errorf("%s: the hook reserves %v calls at once, want none", name, hook.Properties["ReservedConcurrentExecutions"])
		}
		for _, kind := range []string{"AWS::Lambda::Alias", "AWS::Lambda::Version", "AWS::CodeDeploy::DeploymentGroup"} {
			for id := range a.all(kind) {
				if strings.HasPrefix(id, exported(releasecheck.Function.Name)) {
					t.Errorf("%s: the hook has %s, a %s", name, id, kind)
				}
			}
		}
	}
}

// TestEveryLambdaIsInOneList: make builds a binary of each folder, and one of the lists has it deployed.
func TestEveryLambdaIsInOneList(t *testing.T) {
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
		t.Errorf("functions in the lists Groups, Triggered and awsOnly = %v, want each folder of functions with a lambda once: %v", lists, built)
	}
	for _, f := range awsOnly() {
		if strings.Contains(readFile(t, "../functions/functions.go"), `functions/`+f.Name+`"`) {
			t.Errorf("package functions imports %s, which the server would link", f.Name)
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
