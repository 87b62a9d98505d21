package main

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
)

const (
	withACL         = `{"Resources": {"F": {"Type": "AWS::Lambda::Function"}, "ACL": {"Type": "AWS::WAFv2::WebACL"}}}`
	withoutACL      = `{"Resources": {"F": {"Type": "AWS::Lambda::Function"}}}`
	serviceTemplate = `{"Resources": {"S": {"Type": "AWS::ECS::Service"}}}`
)

// taskTemplate is a template with a service whose tasks read their certificate before they start.
const taskTemplate = `{"Resources": {"S": {"Type": "AWS::ECS::Service"}, "T": {"Type": "AWS::ECS::TaskDefinition", "Properties": {"ContainerDefinitions": [{
	"Secrets": [
	{"Name": "GATEWRIGHT_CERTIFICATE", "ValueFrom": {"Fn::Sub":
		"arn:${AWS::Partition}:ssm:${AWS::Region}:${AWS::AccountId}:parameter/gatewright/dev/gateway-certificate"}}]}]}}}}`

// certificateTemplate returns a template with a domain whose certificate is in a region.
func certificateTemplate(region string) string {
	return `{"Resources": {"D": {"Type": "AWS::ApiGateway::DomainName", ` +
		`"Properties": {"RegionalCertificateArn": "arn:aws:acm:` + region + `:000000000000:certificate/c"}}}}`
}

// topicTemplate returns a template with an alarm that notifies a topic in a region.
func topicTemplate(region string) string {
	return `{"Resources": {"A": {"Type": "AWS::CloudWatch::Alarm", "Properties": {"AlarmActions": ["arn:aws:sns:` +
		region + `:000000000000:alarms"]}}}}`
}

// streamTemplate returns a template with a function that reads a stream in a region.
func streamTemplate(region string) string {
	return `{"Resources": {"M": {"Type": "AWS::Lambda::EventSourceMapping", ` +
		`"Properties": {"EventSourceArn": "arn:aws:dynamodb:` + region +
		`:000000000000:table/x/stream/2026-11-25T14:02:00.000"}}}}`
}

// deployCase is a deployment with the installed template, the planned template, the user's input and options, and the
// expected result.
type deployCase struct {
	installed, planned string
	installedLater     string   // the installed template after the first read, if somebody else deploys
	yes, terminal      bool     // whether YES=1 is set, and whether the input is a terminal
	input              string   // what the user types
	remove             string   // the value of REMOVE
	missing            []string // parameters that Parameter Store does not have
	denied             bool     // the parameters cannot be read
	failingStep        string   // the step that fails
	steps              string   // the expected steps, with spaces between
	wantErr            error
	wantOutput         string // a part of the error, or of the output if there is no error
}

// deployCases has deployments by name. Without YES=1, a deployment needs a terminal and the answer yes.
var deployCases = map[string]deployCase{
	"answer yes": {
		installed: withACL, planned: withACL, terminal: true, input: "yes\n",
		steps:      "synth diff deploy",
		wantOutput: "Deploy this to gatewright-dev in eu-west-1 of the AWS account 000000000000? Type yes: ",
	},
	"answer no": {
		installed: withACL, planned: withACL, terminal: true, input: "no\n",
		steps: "synth diff", wantErr: errRefused, wantOutput: "the answer was not yes",
	},
	"answer y": {
		installed: withACL, planned: withACL, terminal: true, input: "y\n",
		steps: "synth diff", wantErr: errRefused,
	},
	"empty answer": {
		installed: withACL, planned: withACL, terminal: true, input: "\n",
		steps: "synth diff", wantErr: errRefused,
	},
	"answer that begins with yes": {
		installed: withACL, planned: withACL, terminal: true, input: "yes, but\n",
		steps: "synth diff", wantErr: errRefused,
	},
	"end of the input": {
		installed: withACL, planned: withACL, terminal: true, steps: "synth diff",
		wantErr: errRefused,
	},
	"no terminal": {
		installed: withACL, planned: withACL, input: "yes\n", wantErr: errRefused,
		wantOutput: "there is no terminal to ask at: look at make diff STAGE=dev, and say YES=1",
	},
	"no terminal, YES=1": {installed: withACL, planned: withACL, yes: true, steps: "synth diff deploy"},
	"first deployment": {
		planned: withACL, yes: true, steps: "synth deploy",
		wantOutput: "There is no gatewright-dev in eu-west-1 yet: all of its 2 resources are new, which make diff " +
			"STAGE=dev lists.",
	},
	"first deployment with the answer no": {
		planned: withACL, terminal: true, input: "no\n", steps: "synth",
		wantErr: errRefused, wantOutput: "the answer was not yes",
	},
	"removal of the web ACL": {
		installed: withACL, planned: withoutACL, terminal: true, input: "yes\n",
		steps: "synth", wantErr: errRefused, wantOutput: "the web ACL that stops floods would be removed: leave waf in " +
			"infra/stages/dev.json as it was, or say REMOVE=waf",
	},
	"removal with only YES=1": {
		installed: withACL, planned: withoutACL, yes: true, steps: "synth",
		wantErr: errRefused, wantOutput: "REMOVE=waf",
	},
	"allowed removal": {
		installed: withACL, planned: withoutACL, yes: true, remove: "waf",
		steps: "synth diff deploy", wantOutput: "the web ACL that stops floods will be removed, as REMOVE=waf says.",
	},
	"allowed removal with an empty answer": {
		installed: withACL, planned: withoutACL, terminal: true, input: "\n",
		remove: "waf", steps: "synth diff", wantErr: errRefused,
	},
	"REMOVE with other names": {
		installed: withACL, planned: withoutACL, yes: true, remove: "wfa,apiDomain",
		steps: "synth", wantErr: errRefused, wantOutput: "REMOVE=waf",
	},
	"REMOVE of a missing resource": {
		installed: withoutACL, planned: withoutACL, yes: true, remove: "waf",
		steps: "synth diff deploy", wantOutput: "REMOVE=waf names nothing that this deployment removes.",
	},
	"service whose image is uploaded": {
		installed: serviceTemplate, planned: serviceTemplate, yes: true,
		steps: "synth diff images deploy",
	},
	"service with the answer no": {
		installed: serviceTemplate, planned: serviceTemplate, terminal: true,
		input: "no\n", steps: "synth diff", wantErr: errRefused,
	},
	"failing synthesis": {
		installed: withACL, planned: withACL, yes: true, failingStep: "synth",
		steps: "synth", wantOutput: "make the templates",
	},
	"failing diff": {
		installed: withACL, planned: withACL, yes: true, failingStep: "diff",
		steps: "synth diff", wantOutput: "show the difference",
	},
	"failing upload of images": {
		installed: serviceTemplate, planned: serviceTemplate, yes: true,
		failingStep: "images", steps: "synth diff images", wantOutput: "upload the images",
	},
	"failing deployment": {
		installed: withACL, planned: withACL, yes: true, failingStep: "deploy",
		steps: "synth diff deploy", wantOutput: "deploy gatewright-dev",
	},
	"concurrent deployment": {
		installed: withoutACL, planned: withoutACL, installedLater: withACL,
		terminal: true, input: "yes\n", steps: "synth diff", wantErr: errRefused,
		wantOutput: "somebody has deployed meanwhile",
	},
	"concurrent deployment during the upload of images": {
		installed: serviceTemplate, planned: serviceTemplate, installedLater: withACL,
		yes: true, steps: "synth diff images", wantErr: errRefused,
		wantOutput: "gatewright-dev is another than the one that was shown",
	},
	"certificate of the same region": {
		installed: withACL, planned: certificateTemplate("eu-west-1"), remove: "waf",
		yes: true, steps: "synth diff deploy",
	},
	"certificate of another region": {
		installed: withACL, planned: certificateTemplate("us-east-1"), remove: "waf",
		yes: true, steps: "synth", wantErr: errRefused,
		wantOutput: "certificateArn is of us-east-1, and the installation's region is eu-west-1",
	},
	"topic of the same region": {
		installed: withACL, planned: topicTemplate("eu-west-1"), remove: "waf", yes: true,
		steps: "synth diff deploy",
	},
	"topic of another region": {
		installed: withACL, planned: topicTemplate("us-east-1"), remove: "waf", yes: true,
		steps: "synth", wantErr: errRefused,
		wantOutput: "alarmTopic is of us-east-1, and the installation's region is eu-west-1: name a topic of SNS there",
	},
	"stream of another region": {
		installed: withACL, planned: streamTemplate("us-east-1"), remove: "waf",
		yes: true, steps: "synth", wantErr: errRefused,
		wantOutput: "tableStream is of us-east-1, and the installation's region is eu-west-1",
	},
	"stream of the stack's table": {
		installed: withACL,
		planned: `{"Resources": {"M": {"Type": "AWS::Lambda::EventSourceMapping", ` +
			`"Properties": {"EventSourceArn": {"Fn::GetAtt": ["Table", "StreamArn"]}}}}}`,
		remove: "waf", yes: true, steps: "synth diff deploy",
	},
	"tasks with a certificate": {
		installed: serviceTemplate, planned: taskTemplate, yes: true,
		steps: "synth diff images deploy",
	},
	"tasks without a certificate": {
		installed: serviceTemplate, planned: taskTemplate,
		missing: []string{"/gatewright/dev/gateway-certificate"}, yes: true, steps: "synth", wantErr: errRefused,
		wantOutput: "the service gateway has no certificate, without which its tasks do not start: keep one by make " +
			"service-certificate SERVICE=gateway STAGE=dev",
	},
	"unreadable parameters": {
		installed: serviceTemplate, planned: taskTemplate, denied: true, yes: true,
		steps: "synth diff images deploy", wantOutput: "The certificate of services could not be checked, which needs " +
			"ssm:GetParameters (AccessDenied: no). The deployment goes on.",
	},
	"alarm without actions": {
		installed: withACL,
		planned:   `{"Resources": {"A": {"Type": "AWS::CloudWatch::Alarm", "Properties": {"AlarmActions": []}}}}`,
		remove:    "waf", yes: true, steps: "synth diff deploy",
	},
	"unreadable installed template": {
		installed: "broken", planned: withACL, yes: true, steps: "synth",
		wantOutput: "it is no JSON",
	},
}

// TestDeploymentNeedsConfirmation checks the steps, the error and the output of each deployment in deployCases. Without
// a confirmation, or with a removal that is not allowed, nothing is deployed.
func TestDeploymentNeedsConfirmation(t *testing.T) {
	for name, tt := range deployCases {
		t.Run(name, func(t *testing.T) {
			var steps []string
			var out bytes.Buffer
			dir := t.TempDir()
			f := &fakeAccount{
				template: tt.installed, nextTemplate: tt.installedLater,
				parameters: map[string]string{"/gatewright/dev/gateway-certificate": "sealed"},
			}
			if tt.installed != "" {
				f.status = types.StackStatusUpdateComplete
			}
			for _, name := range tt.missing {
				delete(f.parameters, name)
			}
			if tt.denied {
				f.errs = map[string]error{"ssm get-parameters": errors.New("AccessDenied:\nno")}
			}
			runStep := func(step string) error {
				steps = append(steps, step)
				if tt.failingStep == step {
					return errors.New("exit status 1")
				}
				return nil
			}
			d := deployment{
				stage: "dev", allowedRemovals: strings.Fields(strings.ReplaceAll(tt.remove, ",", " ")), yes: tt.yes,
				terminal: tt.terminal, in: strings.NewReader(tt.input), out: &out,
				app: "dist/stacks", output: dir, synthArgs: []string{"-c", "stage=dev"},
				connectAWS:   f.account,
				runAWS:       f.runAWS,
				region:       func(context.Context) (string, error) { return "eu-west-1", nil },
				uploadImages: func(context.Context) error { return runStep("images") },
				cdk: func(_ context.Context, args ...string) error {
					// diff and deploy use the synthesized templates, and do not run the app again.
					if want := map[string]string{
						"synth": "dist/stacks", "diff": dir,
						"deploy": dir,
					}[args[0]]; args[slices.Index(args, "--app")+1] != want {
						t.Errorf("cdk %q, want the app %s", args, want)
					}
					if args[0] == "synth" && !strings.HasSuffix(strings.Join(args, " "), " -c stage=dev") {
						t.Errorf("cdk %q, want -c stage=dev at the end", args)
					}
					if args[0] == "synth" {
						writeFile(t, dir, "manifest.json",
							`{"artifacts": {"gatewright-dev": {"properties": {"templateFile": "t.json"}}}}`)
						writeFile(t, dir, "t.json", tt.planned)
					}
					return runStep(args[0])
				},
			}
			err := d.deploy(t.Context())
			if got := strings.Join(steps, " "); got != tt.steps {
				t.Errorf("deploy() steps = %q, want %q", got, tt.steps)
			}
			if failed := tt.wantErr != nil || tt.failingStep != "" || tt.installed == "broken"; (err != nil) != failed ||
				errors.Is(err, errRefused) != (tt.wantErr != nil) {
				t.Errorf("deploy() error = %v, want an error: %v, a refusal: %v", err, failed, tt.wantErr != nil)
			}
			output := out.String()
			if err != nil {
				output = err.Error()
			}
			if !strings.Contains(output, tt.wantOutput) {
				t.Errorf("error or output of deploy() = %q, want %q in it", output, tt.wantOutput)
			}
		})
	}
}

// TestInvalidYESIsRefused checks that values of YES other than 1, such as 0, are refused and do not confirm.
func TestInvalidYESIsRefused(t *testing.T) {
	for _, yes := range []string{"0", "no", "yes", "true", " 1"} {
		if err := run(t.Context(), []string{"-yes", yes, "-stage", "dev"}); !errors.Is(err, errRefused) {
			t.Errorf("run(-yes %q) = %v, want %v", yes, err, errRefused)
		}
	}
}
