package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/testing/readme"
)

// TestAWSCommandsAreFound checks that awsCommands finds AWS
// commands in code spans and in blocks, but not our own commands.
func TestAWSCommandsAreFound(t *testing.T) {
	got := awsCommands(strings.Join([]string{
		"Ask `aws lambda get-account-settings --query A`, or `make diff`; `aws kms enable-key` and",
		"`aws configure export-credentials --format env`.",
		"",
		"```sh",
		`aws dynamodb delete-table --table-name "$copy"`,
		"old=us-east-1",
		`old=$(aws kms list-keys --query 'Keys[?f(a) | [0]]' --limit "$(named A | b)" | sort)`,
		`named() { aws s3 ls "$1"; }`,
		`until [ "$(aws s3 ls "$copy")" = x ]; do sleep 1; done`,
		"aws s3 \\",
		"  ls && aws s3 cp a b",
		"```",
		"",
		"    aws sns create-topic --name x",
		"The aws of before.",
	}, "\n"))
	want := []string{
		"aws lambda get-account-settings --query A", "aws kms enable-key",
		`aws dynamodb delete-table --table-name "$copy"`,
		`aws kms list-keys --query 'Keys[?f(a) | [0]]' --limit "$(named A | b)"`,
		`aws s3 ls "$1"`, `aws s3 ls "$copy"`, "aws s3 \\\n  ls", "aws s3 cp a b",
		"aws sns create-topic --name x",
	}
	if !slices.Equal(got, want) {
		t.Errorf("awsCommands(page) = %q, want %q", got, want)
	}
}

// untested contains the commands in docs/aws.md that no test runs unchanged
// and that the AWS command line does not parse, with the reasons.
var untested = map[string]string{
	"make deploy STAGE=dev": "redeployUnchanged runs the program behind it, which has nobody to ask there",
	"make bootstrap BOOTSTRAP='--cloudformation-execution-policies arn:aws:iam::ACCOUNT:policy/gatewright-cloudformation'": "an emulator enforces no policy: TestBootstrapPassesItsOptions of internal/system/scenario runs the recipe",
	"dist/gatewright login https://api.example.com": "an emulator has no domain names: TestCommandLinePages of " +
		"internal/system/scenario types such commands of the client",
	"dist/gatewright whoami": "the same",
	`echo '{"openapi": "3.1.0", "info": {"title": "First", "version": "1"}, "servers": [{"url": "https://api.example.com"}], "paths": {"/openapi": {"get": {"responses": {"200": {"description": "OK"}}}}}}' | dist/gatewright init first --from -`: "the same",
	`url=$(dist/gatewright deploy first --branch main)`:                                                             "the same",
	`curl --include "$url/openapi"`:                                                                                 "the same",
	"make deploy STAGE=production REMOVE=Table CONTEXT='-c canary=false'":                                           "an emulator has no CodeDeploy: restoring deploys by the CDK",
	"make restore-aws STAGE=production AT=2026-11-25T14:02:00Z":                                                     "an emulator has no moment of the past: restoring runs the program behind it with a backup",
	"make restore-aws STAGE=production AT=2026-11-25T14:02:00Z DRY=1":                                               "the same",
	"make service-certificate SERVICE=relay DOMAIN=relay.example.com CHAIN=fullchain.pem KEY=privkey.pem STAGE=dev": "no service is deployed on an emulator: tests of infra/certificate run the program behind it",
	`AWS_REGION=$region dist/gatewright-server export-data /elsewhere/deleted.data --key-file /elsewhere/deleted.key --table "$(kept Table)" --bucket "$(kept Bucket)" --kms-key "$(kept RootKey)"`: "MiniStack forgets what a deleted stack had: the move types the same command with other names",
	`printf 'Authorization: Bearer %s' "$KEY" | curl --fail-with-body --header @- --connect-to "api.example.com:443:$api:443" https://api.example.com/v1/who-am-i`:                                  "an emulator has no domain names",
	`curl --include --connect-to "$deployment.apis.example.com:443:$gateway:443" "https://$deployment.apis.example.com/"`:                                                                           "the same",
}

// TestEveryPageCommandIsTested checks that each command of the page is run by
// MiniStack's suite, parsed by the AWS command line, or listed in untested.
func TestEveryPageCommandIsTested(t *testing.T) {
	path := filepath.Join("..", "..", "..", "docs", "aws.md")
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("operator.go")
	if err != nil {
		t.Fatal(err)
	}
	tested := testedCommands(string(source))
	steps, err := readme.ReadSteps(path, moveHeading, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range steps {
		for _, command := range blockCommands("```sh\n" + s.Commands + "\n```") {
			tested[command] = tested[command] || i < moveSteps && i != stepVerify
		}
	}
	commands := blockCommands(string(page))
	if len(commands) < 25 {
		t.Fatalf("docs/aws.md has %d commands in blocks, want 25 at least: %q", len(commands), commands)
	}
	for _, command := range commands {
		if len(awsCommands(command)) == 0 && !tested[command] && !tested[normalizeCommand(command)] &&
			untested[command] == "" {
			t.Errorf("docs/aws.md has the untested command\n%s\nwant it in operator.go, or a reason in untested", command)
		}
	}
	for command := range untested {
		if !slices.Contains(commands, command) || tested[command] || tested[normalizeCommand(command)] ||
			len(awsCommands(command)) > 0 {
			t.Errorf("untested has %s, which docs/aws.md lacks or a test runs, want it removed", command)
		}
	}
}

// TestBlockCommandsAreFound checks that blockCommands finds the commands in the blocks of a page, and that
// testedCommands finds the make commands in a source file of the suite, except those that must fail.
func TestBlockCommandsAreFound(t *testing.T) {
	got := blockCommands("Type `make run`:\n\n        make deploy STAGE=dev\n\n```json\n    make " +
		"no\n```\n\n```sh\nold=a new=b\nx=$(aws y)\nmake z \\\n  --a b\n```\n")
	if want := []string{"make deploy STAGE=dev", "x=$(aws y)", "make z --a b"}; !slices.Equal(got, want) {
		t.Errorf("blockCommands(page) = %q, want %q", got, want)
	}
	tested := testedCommands(
		`s.runMake(ctx, &out, "keys", "NAME=typed", "REVOKE="+id); s.expectFailure(ctx, "why", "gone"); ` +
			`s.unfinishedOperations(ctx, "operations")`)
	for command, want := range map[string]bool{
		"make keys NAME=acme REVOKE=akey_1 STAGE=dev": true, "make keys NAME=acme STAGE=dev": false,
		"make operations STAGE=dev": true, "make gone STAGE=dev": false,
	} {
		if tested[normalizeCommand(command)] != want {
			t.Errorf("tested[normalizeCommand(%q)] = %t, want %t", command, !want, want)
		}
	}
}

var (
	indentedPattern   = regexp.MustCompile(`^ {4,}((?:make|aws) .+)$`)
	assignmentPattern = regexp.MustCompile(`^([a-z]+=[^ $]*( |$))+$`)
	lineContinuation  = regexp.MustCompile(`\\\n *`)
)

// blockCommands returns the make and AWS commands in the indented blocks of a page, and all commands in the blocks that
// are marked sh. Commands that only set variables are omitted.
func blockCommands(page string) (out []string) {
	language := ""
	for line := range strings.Lines(lineContinuation.ReplaceAllString(page, "")) {
		line = strings.TrimSuffix(line, "\n")
		info, fence := strings.CutPrefix(line, "```")
		indentedCommand := indentedPattern.FindStringSubmatch(line)
		switch {
		case fence && language == "":
			language = info
		case fence:
			language = ""
		case language == "sh" && !assignmentPattern.MatchString(line):
			out = append(out, line)
		case language == "" && indentedCommand != nil:
			out = append(out, indentedCommand[1])
		}
	}
	return out
}

var commandCall = regexp.MustCompile(
	`s\.(?:runMake\(ctx, [^,"]+|unfinishedOperations\(ctx)((?:, "[^"]*"(?:\+[\w.]+)?)+)`)

// testedCommands returns the make commands that a source file of the suite runs and that must succeed, in the form of
// normalizeCommand.
func testedCommands(source string) map[string]bool {
	out := map[string]bool{}
	for _, call := range commandCall.FindAllStringSubmatch(source, -1) {
		command := "make"
		for _, arg := range regexp.MustCompile(`"([^"]*)"`).FindAllStringSubmatch(call[1], -1) {
			command += " " + arg[1]
		}
		out[normalizeCommand(command)] = true
	}
	return out
}

// normalizeCommand returns a make command with only the names of its
// variables. The variable STAGE is omitted, because every command has it.
func normalizeCommand(command string) string {
	return regexp.MustCompile(`=('[^']*'|\S*)`).ReplaceAllString(strings.ReplaceAll(command, " STAGE=dev", ""), "=")
}
