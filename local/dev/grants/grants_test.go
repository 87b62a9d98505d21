package grants_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/gatewright/gatewright/local/dev/grants"
)

// template returns a template with one function, whose role has these statements.
func template(statements string) fstest.MapFS {
	return fstest.MapFS{"stack.template.json": &fstest.MapFile{Data: []byte(`{"Resources": {
		"Table": {"Type": "AWS::DynamoDB::Table"}, "RootKey": {"Type": "AWS::KMS::Key"},
		"TheFunction": {"Type": "AWS::Lambda::Function", "Properties": {
			"FunctionName": "the-function", "Role": {"Fn::GetAtt": ["TheRole", "Arn"]}}},
		"OtherRolePolicy": {"Type": "AWS::IAM::Policy", "Properties": {"Roles": [{"Ref": "OtherRole"}],
			"PolicyDocument": {"Statement": [{"Effect": "Allow", "Action": "lambda:InvokeFunction", "Resource": "*"}]}}},
		"ThePolicy": {"Type": "AWS::IAM::Policy", "Properties": {"Roles": [{"Ref": "TheRole"}],
			"PolicyDocument": {"Statement": [` + statements + `]}}}
	}}`)}}
}

// allStatements has every form of statement that the infrastructure uses.
const allStatements = `
	{"Effect": "Allow", "Action": ["dynamodb:GetItem", "dynamodb:PutItem"],
		"Resource": [{"Fn::GetAtt": ["Table", "Arn"]}]},
	{"Effect": "Allow", "Action": "dynamodb:Query",
		"Resource": {"Fn::Join": ["", [{"Fn::GetAtt": ["Table", "Arn"]}, "/index/due"]]}},
	{"Effect": "Allow", "Action": ["s3:GetObject"],
		"Resource": [{"Fn::Join": ["", [
			{"Fn::Sub": "arn:${AWS::Partition}:s3:::the-bucket-${AWS::Region}"}, "/uploads/*"]]}]},
	{"Effect": "Allow", "Action": ["s3:ListBucket"], "Resource": [{"Fn::Sub": "arn:${AWS::Partition}:s3:::the-bucket"}]},
	{"Effect": "Allow", "Action": ["kms:Decrypt", "kms:GenerateDataKeyWithoutPlaintext"],
		"Resource": [{"Fn::GetAtt": ["RootKey", "Arn"]}]},
	{"Effect": "Allow", "Action": ["logs:PutLogEvents"], "Resource": [{"Fn::GetAtt": ["Logs", "Arn"]}]},
	{"Effect": "Allow", "Action": ["xray:PutTraceSegments"], "Resource": ["*"]}`

// allUses is a record of uses that uses every grant of allStatements, except the grants of actions that AWS performs.
const allUses = `{"function":"the-function","action":"dynamodb:GetItem","resource":"table/t"}
{"function":"the-function","action":"dynamodb:PutItem","resource":"table/t"}
{"function":"the-function","action":"dynamodb:Query","resource":"table/t/index/due"}
{"function":"the-function","action":"s3:GetObject","resource":"the-bucket/uploads/upload_1"}
{"function":"the-function","action":"s3:ListBucket","resource":"the-bucket"}
{"function":"the-function","action":"kms:Decrypt","resource":"arn:aws:kms:eu-west-1:000000000000:key/k"}
{"function":"the-function","action":"kms:GenerateDataKeyWithoutPlaintext","resource":"arn:aws:kms:eu-west-1:000000000000:key/k"}
`

// without returns allUses without the lines that contain part.
func without(part string) string {
	var out strings.Builder
	for line := range strings.Lines(allUses) {
		if !strings.Contains(line, part) {
			out.WriteString(line)
		}
	}
	return out.String()
}

func TestCompareReportsMissingAndUnusedGrants(t *testing.T) {
	otherFunction := strings.Replace(allUses, `"the-function","action":"kms:Gen`, `"another","action":"kms:Gen`, 1)
	for name, c := range map[string]struct {
		record string
		want   []string // a part of each line of the error
	}{
		"all granted actions used": {allUses, nil},
		"an action without a grant": {
			allUses + `{"function":"the-function","action":"dynamodb:DeleteItem","resource":"table/t"}`,
			[]string{"asks for dynamodb:DeleteItem on table,"},
		},
		"an action on another resource": {
			allUses + `{"function":"the-function","action":"s3:GetObject","resource":"the-bucket/sources/x"}`,
			[]string{"asks for s3:GetObject on bucket/sources/x,"},
		},
		"an index's action on the table": {
			allUses + `{"function":"the-function","action":"dynamodb:Query","resource":"table/t"}`,
			[]string{"asks for dynamodb:Query on table,"},
		},
		"an unknown request": {
			allUses + `{"function":"the-function","action":"*sqs.SendMessageInput","resource":"the-bucket"}`, nil,
		},
		"a function without grants": {
			allUses + `{"function":"another","action":"dynamodb:GetItem","resource":"table/t"}`,
			[]string{"another asks for"},
		},
		"an unused grant on an index": {
			without("index"), []string{"may do dynamodb:Query on table/index/due, and never does"},
		},
		"an unused grant on objects": {
			without("uploads"), []string{"may do s3:GetObject on bucket/uploads/*, and never does"},
		},
		"no uses": {"", []string{
			"GetItem", "PutItem", "Query", "GetObject", "ListBucket", "Decrypt", "GenerateDataKey",
		}},
		"an unused grant on the key": {
			without("Generate"), []string{"GenerateDataKeyWithoutPlaintext on key, and never does"},
		},
		"a data key that only another function has generated": {
			otherFunction, []string{"another asks for kms:GenerateDataKey"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			granted, err := grants.ReadGrants(template(allStatements))
			if err != nil {
				t.Fatal(err)
			}
			used, err := grants.ReadUses(strings.NewReader(c.record), "t", "the-bucket")
			if name == "an unknown request" {
				if err == nil {
					t.Error("ReadUses(unknown request) error = nil, want one")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			err = grants.Compare(granted, used)
			if len(c.want) == 0 {
				if err != nil {
					t.Errorf("Compare() = %v, want nil", err)
				}
				return
			}
			if err == nil {
				t.Fatal("Compare() = nil, want an error")
			}
			found := strings.Split(err.Error(), "\n")
			if len(found) != len(c.want) {
				t.Errorf("Compare() error has the lines %q, want %d lines", found, len(c.want))
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("Compare() error has the lines %q, want one with %q", found, want)
				}
			}
		})
	}
}

func TestRareGrantNeedsNoUse(t *testing.T) {
	granted, err := grants.ReadGrants(template(allStatements))
	if err != nil {
		t.Fatal(err)
	}
	used, err := grants.ReadUses(strings.NewReader(strings.ReplaceAll(allUses, "dynamodb:PutItem", "dynamodb:GetItem")),
		"t", "the-bucket")
	if err != nil {
		t.Fatal(err)
	}
	put := grants.RareGrant{
		Function: "the-function", Grant: grants.Grant{Action: "dynamodb:PutItem", Resource: "table"},
		Reason: "once a year",
	}
	if err := grants.Compare(granted, used, put); err != nil {
		t.Errorf("Compare(a rare grant without a use) = %v, want nil", err)
	}
	put.Grant.Action = "dynamodb:DeleteItem"
	if err := grants.Compare(granted, used, put); err == nil || !strings.Contains(err.Error(), "once a year") {
		t.Errorf("Compare(a rare grant that the role does not have) = %v, want an error with \"once a year\"", err)
	}
}

func TestRequestsToOtherResourcesAreErrors(t *testing.T) {
	for _, line := range []string{
		`{"function":"f","action":"dynamodb:GetItem","resource":"table/t2"}`,
		`{"function":"f","action":"s3:GetObject","resource":"the-bucket-2/uploads/x"}`,
		`{"function":"f","action":"*s3.CopyObjectInput","resource":""}`,
		`no JSON`,
	} {
		if _, err := grants.ReadUses(strings.NewReader(line), "t", "the-bucket"); err == nil {
			t.Errorf("ReadUses(%s) error = nil, want one", line)
		}
	}
}

func TestUnsupportedStatementIsRefused(t *testing.T) {
	for name, statement := range map[string]string{
		"a denial":          `{"Effect": "Deny", "Action": ["s3:GetObject"], "Resource": ["*"]}`,
		"a wildcard action": `{"Effect": "Allow", "Action": ["s3:Get*"], "Resource": ["*"]}`,
		"a condition": `{"Effect": "Allow", "Action": ["s3:GetObject"], "Resource": ["*"], ` +
			`"Condition": {"Bool": {}}}`,
		"a NotAction element": `{"Effect": "Allow", "NotAction": ["s3:GetObject"], "Resource": ["*"]}`,
	} {
		if _, err := grants.ReadGrants(template(statement)); err == nil {
			t.Errorf("ReadGrants(%s) error = nil, want one", name)
		}
	}
	if _, err := grants.ReadGrants(fstest.MapFS{}); err == nil {
		t.Error("ReadGrants(a folder without templates) error = nil, want one")
	}
}

func TestUnknownResourceIsNotCovered(t *testing.T) {
	granted, err := grants.ReadGrants(
		template(`{"Effect": "Allow", "Action": ["dynamodb:GetItem"], "Resource": [{"Fn::GetAtt": ["Other", "Arn"]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	used, err := grants.ReadUses(
		strings.NewReader(`{"function":"the-function","action":"dynamodb:GetItem","resource":"table/t"}`), "t", "the-bucket")
	if err != nil {
		t.Fatal(err)
	}
	if err := grants.Compare(granted, used); err == nil || !strings.Contains(err.Error(), "does not allow") ||
		!strings.Contains(err.Error(), "never does") {
		t.Errorf("Compare() = %v, want a missing and an unused grant", err)
	}
}

// restrictedStatements allow reads with the key prefixes seen and kept, and writes with the key prefix kept.
const restrictedStatements = `
	{"Effect": "Allow", "Action": ["dynamodb:GetItem", "dynamodb:Query"], "Resource": [{"Fn::GetAtt": ["Table", "Arn"]}],
		"Condition": {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["seen", "seen#*", "kept", "kept#*"]}}},
	{"Effect": "Allow", "Action": ["dynamodb:PutItem"], "Resource": [{"Fn::GetAtt": ["Table", "Arn"]}],
		"Condition": {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["kept", "kept#*"]}}}`

func TestComparePrefixesReportsMissingAndUnused(t *testing.T) {
	use := func(action, prefix string) string {
		return `{"function":"the-function","action":"dynamodb:` + action + `","resource":"table/t","space":"` +
			prefix + `"}` + "\n"
	}
	allPrefixes := use("GetItem", "seen") + use("Query", "kept") + use("PutItem", "kept")
	rarePut := grants.RarePrefix{
		Function: "the-function", Action: "dynamodb:PutItem", KeyPrefix: "kept",
		Reason: "once a year",
	}
	notAllowed := rarePut
	notAllowed.KeyPrefix = "seen"
	for name, c := range map[string]struct {
		record string
		rare   []grants.RarePrefix
		want   string // a part of the error, "" for no error
	}{
		"all granted prefixes used": {allPrefixes, nil, ""},
		"a query of an index": {allPrefixes +
			`{"function":"the-function","action":"dynamodb:Query","resource":"table/t/index/due"}`, nil, ""},
		"another prefix": {
			allPrefixes + use("GetItem", "hidden"), nil,
			`asks for dynamodb:GetItem of the space "hidden"`,
		},
		"a write with a grant for reads only": {
			allPrefixes + use("PutItem", "seen"), nil,
			`asks for dynamodb:PutItem of the space "seen"`,
		},
		"a longer prefix": {allPrefixes + use("GetItem", "seen-too"), nil, `"seen-too"`},
		"an empty prefix": {allPrefixes + use("GetItem", ""), nil, `the space ""`},
		"an unused grant for writes": {
			use("GetItem", "seen") + use("Query", "kept"), nil,
			`may do dynamodb:PutItem of the space "kept", and never does`,
		},
		"an unused grant for reads": {
			use("GetItem", "seen") + use("PutItem", "kept"), nil,
			`dynamodb:GetItem, dynamodb:Query of the space "kept"`,
		},
		"a rare write":                 {use("GetItem", "seen") + use("Query", "kept"), []grants.RarePrefix{rarePut}, ""},
		"a rare write without a grant": {allPrefixes, []grants.RarePrefix{notAllowed}, "once a year"},
		"a function without restrictions": {allPrefixes + strings.Replace(use("GetItem", "hidden"), "the-function", "another",
			1), nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			restrictions, err := grants.ReadRestrictions(template(restrictedStatements))
			if err != nil {
				t.Fatal(err)
			}
			used, err := grants.ReadUsedPrefixes(strings.NewReader(c.record))
			if err != nil {
				t.Fatal(err)
			}
			err = grants.ComparePrefixes(restrictions, used, c.rare...)
			if c.want == "" {
				if err != nil {
					t.Errorf("ComparePrefixes() = %v, want nil", err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("ComparePrefixes() = %v, want one line with %q", err, c.want)
			}
		})
	}
}

func TestUnsupportedConditionIsRefused(t *testing.T) {
	leadingKeys := func(patterns string) string {
		return `{"ForAllValues:StringLike": {"dynamodb:LeadingKeys": [` + patterns + `]}}`
	}
	for name, condition := range map[string]string{
		"another operator": `{"StringLike": {"dynamodb:LeadingKeys": ["a", "a#*"]}}`,
		"another key":      `{"ForAllValues:StringLike": {"dynamodb:Attributes": ["a", "a#*"]}}`,
		"two operators": `{"ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["a", "a#*"]}, ` +
			`"Bool": {"aws:SecureTransport": "true"}}`,
		"a wildcard for all keys":             leadingKeys(`"*", "*#*"`),
		"a prefix without a separator":        leadingKeys(`"a", "a*"`),
		"a prefix without its second pattern": leadingKeys(`"a", "a#*", "b"`),
		"an IAM variable":                     leadingKeys(`"${aws:userid}", "${aws:userid}#*"`),
		"a CloudFormation reference":          leadingKeys(`{"Ref": "Table"}, "a#*"`),
	} {
		statement := `{"Effect": "Allow", "Action": ["dynamodb:GetItem"], ` +
			`"Resource": [{"Fn::GetAtt": ["Table", "Arn"]}], "Condition": ` + condition + `}`
		if _, err := grants.ReadRestrictions(template(statement)); err == nil {
			t.Errorf("ReadRestrictions(%s) error = nil, want one", name)
		}
		if _, err := grants.ReadGrants(template(statement)); err == nil {
			t.Errorf("ReadGrants(%s) error = nil, want one", name)
		}
	}
}

// TestOnlyTheRootKeyContextIsAccepted checks that, for actions of KMS only, a condition may require the encryption
// context of the root key.
func TestOnlyTheRootKeyContextIsAccepted(t *testing.T) {
	const context = `{"StringEquals": {"kms:EncryptionContext:gatewright": "root-key"}}`
	for _, tt := range []struct {
		name, action, condition string
		accepted                bool
	}{
		{"the root key's context", "kms:Decrypt", context, true},
		{"another context", "kms:Decrypt", strings.Replace(context, "root-key", "another", 1), false},
		{"StringNotEquals", "kms:Decrypt", strings.Replace(context, "StringEquals", "StringNotEquals", 1), false},
		{"another service", "dynamodb:GetItem", context, false},
	} {
		statement := `{"Effect": "Allow", "Action": ["` + tt.action + `"], ` +
			`"Resource": [{"Fn::GetAtt": ["RootKey", "Arn"]}], "Condition": ` + tt.condition + `}`
		restrictions, err := grants.ReadRestrictions(template(statement))
		if tt.accepted != (err == nil) || len(restrictions) > 0 {
			t.Errorf("%s: ReadRestrictions() = %v, %v, want no restrictions, and the condition accepted: %v", tt.name,
				restrictions, err, tt.accepted)
		}
		if _, err := grants.ReadGrants(template(statement)); tt.accepted != (err == nil) {
			t.Errorf("%s: ReadGrants() error = %v, want the condition accepted: %v", tt.name, err, tt.accepted)
		}
	}
}
