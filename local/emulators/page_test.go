package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/internal/readme"
)

// TestCommandsOfAWSAreFound in spans and in blocks, and ours are not.
func TestCommandsOfAWSAreFound(t *testing.T) {
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

// untyped are the commands of docs/aws.md's blocks that nothing types as they stand there and AWS's command line does not read, with the reason.
var untyped = map[string]string{
	"make deploy STAGE=dev": "deploysAgain runs the program behind it, which has nobody to ask there",
	"make bootstrap BOOTSTRAP='--cloudformation-execution-policies arn:aws:iam::ACCOUNT:policy/gatewright-cloudformation'": "an emulator enforces no policy: TestBootstrapPassesItsOptions of local/scenario runs the recipe",
	"dist/gatewright login https://api.example.com": "an emulator has no domain names: TestCommandLinePages of local/scenario types such commands of the client",
	"dist/gatewright whoami":                        "the same",
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

// TestEachCommandOfThePageIsTyped: MiniStack's suite types it, or has AWS's command line read it, or there is a reason why nothing can.
func TestEachCommandOfThePageIsTyped(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "aws.md")
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	suite, err := os.ReadFile("operator.go")
	if err != nil {
		t.Fatal(err)
	}
	typed := typedWords(string(suite))
	steps, err := readme.Page(path, movePage, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range steps {
		for _, command := range blockCommands("```sh\n" + s.Commands + "\n```") {
			typed[command] = typed[command] || i < moveSteps && i != stepTry
		}
	}
	commands := blockCommands(string(page))
	if len(commands) < 25 {
		t.Fatalf("docs/aws.md has %d commands in blocks, want 25 at least: %q", len(commands), commands)
	}
	for _, command := range commands {
		if len(awsCommands(command)) == 0 && !typed[command] && !typed[words(command)] && untyped[command] == "" {
			t.Errorf("docs/aws.md has the command\n%s\nwhich nothing types: type it in operator.go, or give the reason in untyped", command)
		}
	}
	for command := range untyped {
		if !slices.Contains(commands, command) || typed[command] || typed[words(command)] || len(awsCommands(command)) > 0 {
			t.Errorf("untyped has %s, which docs/aws.md does not have or something types: remove it", command)
		}
	}
}

func TestCommandsOfBlocksAreFound(t *testing.T) {
	got := blockCommands("Type `make run`:\n\n        make deploy STAGE=dev\n\n```json\n    make no\n```\n\n```sh\nold=a new=b\nx=$(aws y)\nmake z \\\n  --a b\n```\n")
	if want := []string{"make deploy STAGE=dev", "x=$(aws y)", "make z --a b"}; !slices.Equal(got, want) {
		t.Errorf("blockCommands(page) = %q, want %q", got, want)
	}
	typed := typedWords(`s.types(ctx, &out, "keys", "NAME=typed", "REVOKE="+id); s.refuses(ctx, "why", "gone"); s.underWay(ctx, "operations")`)
	for command, want := range map[string]bool{
		"make keys NAME=acme REVOKE=akey_1 STAGE=dev": true, "make keys NAME=acme STAGE=dev": false, "make operations STAGE=dev": true, "make gone STAGE=dev": false,
	} {
		if typed[words(command)] != want {
			t.Errorf("typed[words(%q)] = %t, want %t", command, !want, want)
		}
	}
}

var (
	indented    = regexp.MustCompile(`^ {4,}((?:make|aws) .+)$`)
	assignments = regexp.MustCompile(`^([a-z]+=[^ $]*( |$))+$`)
	continued   = regexp.MustCompile(`\\\n *`)
)

// blockCommands are the commands in the blocks of a page that are marked sh or indented, without those that only set variables.
func blockCommands(page string) (out []string) {
	language := ""
	for line := range strings.Lines(continued.ReplaceAllString(page, "")) {
		line = strings.TrimSuffix(line, "\n")
		mark, fence := strings.CutPrefix(line, "```")
		found := indented.FindStringSubmatch(line)
		switch {
		case fence && language == "":
			language = mark
		case fence:
			language = ""
		case language == "sh" && !assignments.MatchString(line):
			out = append(out, line)
		case language == "" && found != nil:
			out = append(out, found[1])
		}
	}
	return out
}

var typing = regexp.MustCompile(`s\.(?:types\(ctx, [^,"]+|underWay\(ctx)((?:, "[^"]*"(?:\+[\w.]+)?)+)`)

// typedWords are the commands of make that a source of the suite types, as words has them.
func typedWords(source string) map[string]bool {
	out := map[string]bool{}
	for _, call := range typing.FindAllStringSubmatch(source, -1) {
		command := "make"
		for _, word := range regexp.MustCompile(`"([^"]*)"`).FindAllStringSubmatch(call[1], -1) {
			command += " " + word[1]
		}
		out[words(command)] = true
	}
	return out
}

// words is a command of make with the names of its words, and without the stage, which each has.
func words(command string) string {
	return regexp.MustCompile(`=('[^']*'|\S*)`).ReplaceAllString(strings.ReplaceAll(command, " STAGE=dev", ""), "=")
}
