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
	with    = `{"Resources": {"F": {"Type": "AWS::Lambda::Function"}, "ACL": {"Type": "AWS::WAFv2::WebACL"}}}`
	without = `{"Resources": {"F": {"Type": "AWS::Lambda::Function"}}}`
	serving = `{"Resources": {"S": {"Type": "AWS::ECS::Service"}}}`
)

// tasks read their certificate before they start.
const tasks = `{"Resources": {"S": {"Type": "AWS::ECS::Service"}, "T": {"Type": "AWS::ECS::TaskDefinition", "Properties": {"ContainerDefinitions": [{"Secrets": [
	{"Name": "GATEWRIGHT_CERTIFICATE", "ValueFrom": {"Fn::Sub": "arn:${AWS::Partition}:ssm:${AWS::Region}:${AWS::AccountId}:parameter/gatewright/dev/gateway-certificate"}}]}]}}}}`

// certified has a domain with a certificate of a region.
func certified(region string) string {
	return `{"Resources": {"D": {"Type": "AWS::ApiGateway::DomainName", "Properties": {"RegionalCertificateArn": "arn:aws:acm:` + region + `:000000000000:certificate/c"}}}}`
}

// told has an alarm that tells a topic of a region, and streamed a function that is told by a stream of one.
func told(region string) string {
	return `{"Resources": {"A": {"Type": "AWS::CloudWatch::Alarm", "Properties": {"AlarmActions": ["arn:aws:sns:` + region + `:000000000000:alarms"]}}}}`
}

func streamed(region string) string {
	return `{"Resources": {"M": {"Type": "AWS::Lambda::EventSourceMapping", "Properties": {"EventSourceArn": "arn:aws:dynamodb:` + region + `:000000000000:table/x/stream/2026-11-25T14:02:00.000"}}}}`
}

// TestNothingIsDeployedWithoutAYes, or without the name of what goes.
func TestNothingIsDeployedWithoutAYes(t *testing.T) {
	for name, tt := range map[string]struct {
		installed, made string
		then            string // what is installed once that was read
		yes, terminal   bool
		answer          string
		remove          string
		none            []string // parameters that there are not
		untold          bool     // whether there are may not be asked
		fails           string   // the command of the CDK that fails
		did             string   // the commands
		code            error
		says            string // in the error, or else in the output
	}{
		"yes":                             {installed: with, made: with, terminal: true, answer: "yes\n", did: "synth diff deploy", says: "Deploy this to gatewright-dev in eu-west-1 of the AWS account 000000000000? Type yes: "},
		"no":                              {installed: with, made: with, terminal: true, answer: "no\n", did: "synth diff", code: errRefused, says: "the answer was not yes"},
		"y":                               {installed: with, made: with, terminal: true, answer: "y\n", did: "synth diff", code: errRefused},
		"a return":                        {installed: with, made: with, terminal: true, answer: "\n", did: "synth diff", code: errRefused},
		"a yes that goes on":              {installed: with, made: with, terminal: true, answer: "yes, but\n", did: "synth diff", code: errRefused},
		"the end":                         {installed: with, made: with, terminal: true, did: "synth diff", code: errRefused},
		"no terminal":                     {installed: with, made: with, answer: "yes\n", code: errRefused, says: "there is no terminal to ask at: look at make diff STAGE=dev, and say YES=1"},
		"no terminal, YES=1":              {installed: with, made: with, yes: true, did: "synth diff deploy"},
		"the first time":                  {made: with, yes: true, did: "synth deploy", says: "There is no gatewright-dev in eu-west-1 yet: all of its 2 resources are new, which make diff STAGE=dev lists."},
		"the first time, and no":          {made: with, terminal: true, answer: "no\n", did: "synth", code: errRefused, says: "the answer was not yes"},
		"the web ACL would go":            {installed: with, made: without, terminal: true, answer: "yes\n", did: "synth", code: errRefused, says: "the web ACL that stops floods would be removed: leave waf in infra/stages/dev.json as it was, or say REMOVE=waf"},
		"YES=1 is none to that":           {installed: with, made: without, yes: true, did: "synth", code: errRefused, says: "REMOVE=waf"},
		"it may go":                       {installed: with, made: without, yes: true, remove: "waf", did: "synth diff deploy", says: "the web ACL that stops floods will be removed, as REMOVE=waf says."},
		"it may go, if somebody says yes": {installed: with, made: without, terminal: true, answer: "\n", remove: "waf", did: "synth diff", code: errRefused},
		"something else may go":           {installed: with, made: without, yes: true, remove: "wfa,apiDomain", did: "synth", code: errRefused, says: "REMOVE=waf"},
		"it is gone already":              {installed: without, made: without, yes: true, remove: "waf", did: "synth diff deploy", says: "REMOVE=waf names nothing that this deployment removes."},
		"a service's image comes first":   {installed: serving, made: serving, yes: true, did: "synth diff images deploy"},
		"no image without a yes":          {installed: serving, made: serving, terminal: true, answer: "no\n", did: "synth diff", code: errRefused},
		"no templates":                    {installed: with, made: with, yes: true, fails: "synth", did: "synth", says: "make the templates"},
		"no difference":                   {installed: with, made: with, yes: true, fails: "diff", did: "synth diff", says: "show the difference"},
		"no images":                       {installed: serving, made: serving, yes: true, fails: "images", did: "synth diff images", says: "upload the images"},
		"it goes wrong":                   {installed: with, made: with, yes: true, fails: "deploy", did: "synth diff deploy", says: "deploy gatewright-dev"},
		"somebody else has deployed":      {installed: without, made: without, then: with, terminal: true, answer: "yes\n", did: "synth diff", code: errRefused, says: "somebody has deployed meanwhile"},
		"while images were uploaded":      {installed: serving, made: serving, then: with, yes: true, did: "synth diff images", code: errRefused, says: "gatewright-dev is another than the one that was shown"},
		"a certificate of this region":    {installed: with, made: certified("eu-west-1"), remove: "waf", yes: true, did: "synth diff deploy"},
		"a certificate of another region": {installed: with, made: certified("us-east-1"), remove: "waf", yes: true, did: "synth", code: errRefused, says: "certificateArn is of us-east-1, and the installation's region is eu-west-1"},
		"a topic of this region":          {installed: with, made: told("eu-west-1"), remove: "waf", yes: true, did: "synth diff deploy"},
		"a topic of another region":       {installed: with, made: told("us-east-1"), remove: "waf", yes: true, did: "synth", code: errRefused, says: "alarmTopic is of us-east-1, and the installation's region is eu-west-1: name a topic of SNS there"},
		"a stream of another region":      {installed: with, made: streamed("us-east-1"), remove: "waf", yes: true, did: "synth", code: errRefused, says: "tableStream is of us-east-1, and the installation's region is eu-west-1"},
		"a stream of the stack's own":     {installed: with, made: `{"Resources": {"M": {"Type": "AWS::Lambda::EventSourceMapping", "Properties": {"EventSourceArn": {"Fn::GetAtt": ["Table", "StreamArn"]}}}}}`, remove: "waf", yes: true, did: "synth diff deploy"},
		"tasks with a certificate":        {installed: serving, made: tasks, yes: true, did: "synth diff images deploy"},
		"tasks without one":               {installed: serving, made: tasks, none: []string{"/gatewright/dev/gateway-certificate"}, yes: true, did: "synth", code: errRefused, says: "the service gateway has no certificate, without which its tasks do not start: keep one by make service-certificate SERVICE=gateway STAGE=dev"},
		"who may not ask for it":          {installed: serving, made: tasks, untold: true, yes: true, did: "synth diff images deploy", says: "The certificate of services could not be checked, which needs ssm:GetParameters (AccessDenied: no). The deployment goes on."},
		"an alarm that tells nobody":      {installed: with, made: `{"Resources": {"A": {"Type": "AWS::CloudWatch::Alarm", "Properties": {"AlarmActions": []}}}}`, remove: "waf", yes: true, did: "synth diff deploy"},
		"what is there cannot be read":    {installed: "broken", made: with, yes: true, did: "synth", says: "it is no JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			var did []string
			var out bytes.Buffer
			dir := t.TempDir()
			there := &fake{template: tt.installed, then: tt.then, parameters: map[string]string{"/gatewright/dev/gateway-certificate": "sealed"}}
			if tt.installed != "" {
				there.status = types.StackStatusUpdateComplete
			}
			for _, name := range tt.none {
				delete(there.parameters, name)
			}
			if tt.untold {
				there.fails = map[string]error{"ssm get-parameters": errors.New("AccessDenied:\nno")}
			}
			do := func(what string) error {
				did = append(did, what)
				if tt.fails == what {
					return errors.New("exit status 1")
				}
				return nil
			}
			d := deployment{
				stage: "dev", wanted: strings.Fields(strings.ReplaceAll(tt.remove, ",", " ")), yes: tt.yes, terminal: tt.terminal, in: strings.NewReader(tt.answer), out: &out,
				app: "dist/stacks", output: dir, context: []string{"-c", "stage=dev"},
				aws:    there.account,
				ask:    there.ask,
				region: func(context.Context) (string, error) { return "eu-west-1", nil },
				images: func(context.Context) error { return do("images") },
				cdk: func(_ context.Context, args ...string) error {
					// What was looked at is what is shown and deployed: the folder of the templates, and the app no second time.
					if want := map[string]string{"synth": "dist/stacks", "diff": dir, "deploy": dir}[args[0]]; args[slices.Index(args, "--app")+1] != want {
						t.Errorf("%v is of another app than %s", args, want)
					}
					if args[0] == "synth" && !strings.HasSuffix(strings.Join(args, " "), " -c stage=dev") {
						t.Errorf("%v has no context", args)
					}
					if args[0] == "synth" {
						writeFile(t, dir, "manifest.json", `{"artifacts": {"gatewright-dev": {"properties": {"templateFile": "t.json"}}}}`)
						writeFile(t, dir, "t.json", tt.made)
					}
					return do(args[0])
				},
			}
			err := d.deploy(t.Context())
			if got := strings.Join(did, " "); got != tt.did {
				t.Errorf("it did %q, want %q", got, tt.did)
			}
			if failed := tt.code != nil || tt.fails != "" || tt.installed == "broken"; (err != nil) != failed || errors.Is(err, errRefused) != (tt.code != nil) {
				t.Errorf("error %v, want one of the kind %v", err, tt.code)
			}
			said := out.String()
			if err != nil {
				said = err.Error()
			}
			if !strings.Contains(said, tt.says) {
				t.Errorf("it says %q, want %q", said, tt.says)
			}
		})
	}
}

// TestYESIsOneOrNothing: what somebody means by YES=0 is no yes.
func TestYESIsOneOrNothing(t *testing.T) {
	for _, yes := range []string{"0", "no", "yes", "true", " 1"} {
		if err := run(t.Context(), []string{"-yes", yes, "-stage", "dev"}); !errors.Is(err, errRefused) {
			t.Errorf("YES=%s: %v", yes, err)
		}
	}
}
