package grants_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/gatewright/gatewright/local/grants"
)

// template has one function with these statements.
func template(statements string) fstest.MapFS {
	return fstest.MapFS{"stack.template.json": &fstest.MapFile{Data: []byte(`{"Resources": {
		"Table": {"Type": "AWS::DynamoDB::Table"}, "RootKey": {"Type": "AWS::KMS::Key"},
		"TheFunction": {"Type": "AWS::Lambda::Function", "Properties": {"FunctionName": "the-function", "Role": {"Fn::GetAtt": ["TheRole", "Arn"]}}},
		"OtherRolePolicy": {"Type": "AWS::IAM::Policy", "Properties": {"Roles": [{"Ref": "OtherRole"}],
			"PolicyDocument": {"Statement": [{"Effect": "Allow", "Action": "lambda:InvokeFunction", "Resource": "*"}]}}},
		"ThePolicy": {"Type": "AWS::IAM::Policy", "Properties": {"Roles": [{"Ref": "TheRole"}], "PolicyDocument": {"Statement": [` + statements + `]}}}
	}}`)}}
}

// all is a policy with every form that the infrastructure writes.
const all = `
	{"Effect": "Allow", "Action": ["dynamodb:GetItem", "dynamodb:PutItem"], "Resource": [{"Fn::GetAtt": ["Table", "Arn"]}]},
	{"Effect": "Allow", "Action": "dynamodb:Query", "Resource": {"Fn::Join": ["", [{"Fn::GetAtt": ["Table", "Arn"]}, "/index/due"]]}},
	{"Effect": "Allow", "Action": ["s3:GetObject"], "Resource": [{"Fn::Join": ["", [{"Fn::Sub": "arn:${AWS::Partition}:s3:::the-bucket-${AWS::Region}"}, "/uploads/*"]]}]},
	{"Effect": "Allow", "Action": ["s3:ListBucket"], "Resource": [{"Fn::Sub": "arn:${AWS::Partition}:s3:::the-bucket"}]},
	{"Effect": "Allow", "Action": ["kms:Decrypt", "kms:GenerateDataKeyWithoutPlaintext"], "Resource": [{"Fn::GetAtt": ["RootKey", "Arn"]}]},
	{"Effect": "Allow", "Action": ["logs:PutLogEvents"], "Resource": [{"Fn::GetAtt": ["Logs", "Arn"]}]},
	{"Effect": "Allow", "Action": ["xray:PutTraceSegments"], "Resource": ["*"]}`

// needed is a record that uses all of it.
const needed = `{"function":"the-function","action":"dynamodb:GetItem","resource":"table/t"}
{"function":"the-function","action":"dynamodb:PutItem","resource":"table/t"}
{"function":"the-function","action":"dynamodb:Query","resource":"table/t/index/due"}
{"function":"the-function","action":"s3:GetObject","resource":"the-bucket/uploads/upload_1"}
{"function":"the-function","action":"s3:ListBucket","resource":"the-bucket"}
{"function":"the-function","action":"kms:Decrypt","resource":"arn:aws:kms:eu-west-1:000000000000:key/k"}
{"function":"the-function","action":"kms:GenerateDataKeyWithoutPlaintext","resource":"arn:aws:kms:eu-west-1:000000000000:key/k"}
`

func TestUseAndGrantHaveToAgree(t *testing.T) {
	without := func(part string) string {
		var out strings.Builder
		for line := range strings.Lines(needed) {
			if !strings.Contains(line, part) {
				out.WriteString(line)
			}
		}
		return out.String()
	}
	byAnother := strings.Replace(needed, `"the-function","action":"kms:Gen`, `"another","action":"kms:Gen`, 1)
	for name, c := range map[string]struct {
		record string
		want   []string // a part of each finding
	}{
		"all of it":               {needed, nil},
		"an action is missing":    {needed + `{"function":"the-function","action":"dynamodb:DeleteItem","resource":"table/t"}`, []string{"asks for dynamodb:DeleteItem on table,"}},
		"another place":           {needed + `{"function":"the-function","action":"s3:GetObject","resource":"the-bucket/sources/x"}`, []string{"asks for s3:GetObject on bucket/sources/x,"}},
		"the table of an index":   {needed + `{"function":"the-function","action":"dynamodb:Query","resource":"table/t"}`, []string{"asks for dynamodb:Query on table,"}},
		"an unknown request":      {needed + `{"function":"the-function","action":"*sqs.SendMessageInput","resource":"the-bucket"}`, nil},
		"a function without any":  {needed + `{"function":"another","action":"dynamodb:GetItem","resource":"table/t"}`, []string{"another asks for"}},
		"never an index":          {without("index"), []string{"may do dynamodb:Query on table/index/due, and never does"}},
		"never an object":         {without("uploads"), []string{"may do s3:GetObject on bucket/uploads/*, and never does"}},
		"nothing at all":          {"", []string{"GetItem", "PutItem", "Query", "GetObject", "ListBucket", "Decrypt", "GenerateDataKey"}},
		"a key that nobody made":  {without("Generate"), []string{"GenerateDataKeyWithoutPlaintext on key, and never does"}},
		"a key that another made": {byAnother, []string{"another asks for kms:GenerateDataKey"}},
	} {
		t.Run(name, func(t *testing.T) {
			granted, err := grants.Granted(template(all))
			if err != nil {
				t.Fatal(err)
			}
			used, err := grants.Used(strings.NewReader(c.record), "t", "the-bucket")
			if name == "an unknown request" {
				if err == nil {
					t.Error("it is accepted")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			err = grants.Compare(granted, used)
			if len(c.want) == 0 {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil {
				t.Fatal("nothing is found")
			}
			found := strings.Split(err.Error(), "\n")
			if len(found) != len(c.want) {
				t.Errorf("found %q, want %d findings", found, len(c.want))
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("found %q, want one with %q", found, want)
				}
			}
		})
	}
}

func TestRareGrantsNeedNoUseButTheGrant(t *testing.T) {
	granted, err := grants.Granted(template(all))
	if err != nil {
		t.Fatal(err)
	}
	used, err := grants.Used(strings.NewReader(strings.ReplaceAll(needed, "dynamodb:PutItem", "dynamodb:GetItem")), "t", "the-bucket")
	if err != nil {
		t.Fatal(err)
	}
	put := grants.Rare{Function: "the-function", Grant: grants.Grant{Action: "dynamodb:PutItem", Resource: "table"}, Why: "once a year"}
	if err := grants.Compare(granted, used, put); err != nil {
		t.Error(err)
	}
	put.Grant.Action = "dynamodb:DeleteItem"
	if err := grants.Compare(granted, used, put); err == nil || !strings.Contains(err.Error(), "once a year") {
		t.Errorf("a rare grant that is none: %v", err)
	}
}

func TestRequestsToOtherResourcesAreErrors(t *testing.T) {
	for _, line := range []string{
		`{"function":"f","action":"dynamodb:GetItem","resource":"table/t2"}`,
		`{"function":"f","action":"s3:GetObject","resource":"the-bucket-2/uploads/x"}`,
		`{"function":"f","action":"*s3.CopyObjectInput","resource":""}`,
		`no JSON`,
	} {
		if _, err := grants.Used(strings.NewReader(line), "t", "the-bucket"); err == nil {
			t.Errorf("accepted: %s", line)
		}
	}
}

func TestStatementsThatAreNotUnderstoodAreErrors(t *testing.T) {
	for name, statement := range map[string]string{
		"a denial":           `{"Effect": "Deny", "Action": ["s3:GetObject"], "Resource": ["*"]}`,
		"a wildcard":         `{"Effect": "Allow", "Action": ["s3:Get*"], "Resource": ["*"]}`,
		"a condition":        `{"Effect": "Allow", "Action": ["s3:GetObject"], "Resource": ["*"], "Condition": {"Bool": {}}}`,
		"all but one action": `{"Effect": "Allow", "NotAction": ["s3:GetObject"], "Resource": ["*"]}`,
	} {
		if _, err := grants.Granted(template(statement)); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	if _, err := grants.Granted(fstest.MapFS{}); err == nil {
		t.Error("a folder without templates is accepted")
	}
}

func TestResourceOfNoKnownKindIsNotCovered(t *testing.T) {
	granted, err := grants.Granted(template(`{"Effect": "Allow", "Action": ["dynamodb:GetItem"], "Resource": [{"Fn::GetAtt": ["Other", "Arn"]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	used, err := grants.Used(strings.NewReader(`{"function":"the-function","action":"dynamodb:GetItem","resource":"table/t"}`), "t", "the-bucket")
	if err != nil {
		t.Fatal(err)
	}
	if err := grants.Compare(granted, used); err == nil || !strings.Contains(err.Error(), "does not allow") || !strings.Contains(err.Error(), "never does") {
		t.Errorf("found %v", err)
	}
}

const held = `
	{"Effect": "Allow", "Action": ["dynamodb:GetItem", "dynamodb:Query"], "Resource": [{"Fn::GetAtt": ["Table", "Arn"]}],
		"Condition": {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["seen", "seen#*", "kept", "kept#*"]}}},
	{"Effect": "Allow", "Action": ["dynamodb:PutItem"], "Resource": [{"Fn::GetAtt": ["Table", "Arn"]}],
		"Condition": {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["kept", "kept#*"]}}}`

func TestSpacesReachedAndAllowedHaveToAgree(t *testing.T) {
	use := func(action, space string) string {
		return `{"function":"the-function","action":"dynamodb:` + action + `","resource":"table/t","space":"` + space + `"}` + "\n"
	}
	whole := use("GetItem", "seen") + use("Query", "kept") + use("PutItem", "kept")
	seldom := grants.RareSpace{Function: "the-function", Action: "dynamodb:PutItem", Space: "kept", Why: "once a year"}
	stray := seldom
	stray.Space = "seen"
	for name, c := range map[string]struct {
		record string
		rare   []grants.RareSpace
		want   string // part of the one finding, "" for none
	}{
		"all of it":                     {whole, nil, ""},
		"an index":                      {whole + `{"function":"the-function","action":"dynamodb:Query","resource":"table/t/index/due"}`, nil, ""},
		"another space":                 {whole + use("GetItem", "hidden"), nil, `asks for dynamodb:GetItem of the space "hidden"`},
		"a write of what may be read":   {whole + use("PutItem", "seen"), nil, `asks for dynamodb:PutItem of the space "seen"`},
		"a space that begins alike":     {whole + use("GetItem", "seen-too"), nil, `"seen-too"`},
		"no space":                      {whole + use("GetItem", ""), nil, `the space ""`},
		"never written":                 {use("GetItem", "seen") + use("Query", "kept"), nil, `may do dynamodb:PutItem of the space "kept", and never does`},
		"never read":                    {use("GetItem", "seen") + use("PutItem", "kept"), nil, `dynamodb:GetItem, dynamodb:Query of the space "kept"`},
		"rarely written":                {use("GetItem", "seen") + use("Query", "kept"), []grants.RareSpace{seldom}, ""},
		"said to be, and not allowed":   {whole, []grants.RareSpace{stray}, "once a year"},
		"one of a function without any": {whole + strings.Replace(use("GetItem", "hidden"), "the-function", "another", 1), nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			fences, err := grants.Fenced(template(held))
			if err != nil {
				t.Fatal(err)
			}
			reached, err := grants.Reaches(strings.NewReader(c.record))
			if err != nil {
				t.Fatal(err)
			}
			err = grants.CompareSpaces(fences, reached, c.rare...)
			if c.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("found %v, want one with %q", err, c.want)
			}
		})
	}
}

func TestConditionsThatAreNoListOfSpacesAreErrors(t *testing.T) {
	for name, condition := range map[string]string{
		"another operator":             `{"StringLike": {"dynamodb:LeadingKeys": ["a", "a#*"]}}`,
		"another key":                  `{"ForAllValues:StringLike": {"dynamodb:Attributes": ["a", "a#*"]}}`,
		"two operators":                `{"ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["a", "a#*"]}, "Bool": {"aws:SecureTransport": "true"}}`,
		"everything":                   `{"ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["*", "*#*"]}}`,
		"the middle of a name":         `{"ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["a", "a*"]}}`,
		"a half":                       `{"ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["a", "a#*", "b"]}}`,
		"what IAM would fill in":       `{"ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["${aws:userid}", "${aws:userid}#*"]}}`,
		"what CloudFormation fills in": `{"ForAllValues:StringLike": {"dynamodb:LeadingKeys": [{"Ref": "Table"}, "a#*"]}}`,
	} {
		statement := `{"Effect": "Allow", "Action": ["dynamodb:GetItem"], "Resource": [{"Fn::GetAtt": ["Table", "Arn"]}], "Condition": ` + condition + `}`
		if _, err := grants.Fenced(template(statement)); err == nil {
			t.Errorf("%s is accepted as a fence", name)
		}
		if _, err := grants.Granted(template(statement)); err == nil {
			t.Errorf("%s is accepted as a grant", name)
		}
	}
}

func TestTheKeyIsGrantedForTheRootKeyAlone(t *testing.T) {
	const context = `{"StringEquals": {"kms:EncryptionContext:gatewright": "root-key"}}`
	for _, tt := range []struct {
		name, action, condition string
		accepted                bool
	}{
		{"for the root key", "kms:Decrypt", context, true},
		{"for something else", "kms:Decrypt", strings.Replace(context, "root-key", "another", 1), false},
		{"by another operator", "kms:Decrypt", strings.Replace(context, "StringEquals", "StringNotEquals", 1), false},
		{"another service", "dynamodb:GetItem", context, false},
	} {
		statement := `{"Effect": "Allow", "Action": ["` + tt.action + `"], "Resource": [{"Fn::GetAtt": ["RootKey", "Arn"]}], "Condition": ` + tt.condition + `}`
		fences, err := grants.Fenced(template(statement))
		if tt.accepted != (err == nil) || len(fences) > 0 {
			t.Errorf("%s: Fenced() = %v, %v, want it accepted: %v", tt.name, fences, err, tt.accepted)
		}
		if _, err := grants.Granted(template(statement)); tt.accepted != (err == nil) {
			t.Errorf("%s: Granted() fails with %v, want it accepted: %v", tt.name, err, tt.accepted)
		}
	}
}
