package scenario_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// runMake returns a command that runs make in this repository with a substitute for aws, and without the AWS variables of this process.
func runMake(t *testing.T, aws string, args ...string) *exec.Cmd {
	t.Helper()
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "aws"), []byte("#!/bin/sh\n"+aws), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "make", args...)
	cmd.Dir = repository
	for _, v := range withoutMake(os.Environ()) {
		if !strings.HasPrefix(v, "AWS_") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, "PATH="+bin+":"+os.Getenv("PATH"), "AWS_REGION=eu-central-1")
	return cmd
}

// TestMakeRefusesInvalidArguments checks that make refuses a command with an unknown argument, or with an unknown value
// of an argument, before it does anything. Otherwise make would ignore the argument. It could then act on the stage
// dev, or start an operation when the user wanted only its status.
func TestMakeRefusesInvalidArguments(t *testing.T) {
	const prompted = `echo "asked: $*" >&2; echo None`
	for _, c := range []struct{ args, want string }{ // args are separated by |; want is in the first line of the output
		{
			"rotate-root-key|STATSU=true",
			"make rotate-root-key takes no STATSU=, and has done nothing: its words are STAGE= STATUS=",
		},
		{"rotate-root-key|DRY=1", "make rotate-root-key takes no DRY="},
		{"rotate-root-key|STATUS=yes", "make rotate-root-key takes STATUS=true, which begins nothing, or no STATUS="},
		{"stop-aws|STGE=production", "make stop-aws takes no STGE="},
		{"stop-aws|YES=no", "make stop-aws takes YES=1 or no YES=, and has done nothing"},
		{"restore-aws|LIFT=0", "make restore-aws takes LIFT=1 or no LIFT="},
		{"restore-aws|DRY=yes", "make restore-aws takes DRY=1 or no DRY="},
		{"start-aws|YES=1", "make start-aws takes no YES="},
		{"destroy|DRY=1", "make destroy takes no DRY="},
		{
			"checks-deploy|STAGE=$(shell echo asked: lambda >&2)",
			"STAGE= is a name of lower-case letters, digits and hyphens, such as dev",
		},
		{"stop-aws|STAGE=x'`echo asked: lambda >&2`'", "STAGE= is a name of"},
		{"stop-aws|STAGE=../x", "STAGE= is a name of"},
		{"deploy|REMOVED=waf", "make deploy takes no REMOVED="},
		{"deploy|YES=yes", "make deploy takes YES=1 or no YES="},
		{"operations|REBUILD=yes", "make operations takes REBUILD=all, or no REBUILD="},
		{"operations|REBUILD=all|RESUME=x", "make operations takes RESUME= or REBUILD="},
		{`operations|RESUME=x","do":"rotate-root-key`, "make operations takes RESUME= with the id of an operation"},
		{"account|NAME=Acme Inc", "make account takes NAME= of lower-case letters, digits, hyphens and underscores"},
		{`account|NAME=a","do":"list-keys`, "make account takes NAME= of"},
		{"account|NAME=a`touch TRAP`", "make account takes NAME= of"},
		{"account", "make account needs NAME=, the account's name"},
		{
			"account-keys|NAME=acme|REVOKE=akey_1|CREATE=all",
			"make account-keys takes CREATE= to make a key, and LABEL= for it, or REVOKE= to end one",
		},
		{"account-keys|NAME=acme|LABEL=ci", "make account-keys takes CREATE= to make a key"},
		{`account-keys|NAME=acme|REVOKE=akey_1"`, "make account-keys takes REVOKE= with the id of a key"},
		{`account-keys|NAME=acme|CREATE=all"`, "make account-keys takes CREATE= with scopes such as"},
		{`account-keys|NAME=acme|CREATE=all|LABEL=a\`, "make account-keys takes LABEL= without quotes and backslashes"},
		{"account-keys|NAME=acme|REVOKE=akey_1|FORCE=`touch TRAP`", "make account-keys takes FORCE=true, or no FORCE="},
	} {
		trap := filepath.Join(t.TempDir(), "trap")
		out, err := runMake(t, prompted, strings.Split(strings.ReplaceAll(c.args, "TRAP", trap), "|")...).CombinedOutput()
		line, _, _ := strings.Cut(string(out), "\n")
		if err == nil || !strings.Contains(line, c.want) || strings.Contains(string(out), "asked: lambda") {
			t.Errorf("make %s: error = %v, want %q\n%s", c.args, err, c.want, out)
		}
		if _, err := os.Stat(trap); err == nil {
			t.Errorf("make %s has executed its argument as a command, want it refused", c.args)
		}
	}
}

// TestMakeRequiresATerminalBeforeTheBuild checks that make fails without a terminal, because it cannot ask for
// confirmation. It must fail before the build, which takes minutes. A test has no terminal.
func TestMakeRequiresATerminalBeforeTheBuild(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(repository, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"deploy", "destroy"} {
		needs := regexp.MustCompile(`(?m)^` + command + `: (asks-.*) ## `).FindSubmatch(text)
		if needs == nil {
			t.Fatalf("the Makefile has no target %s with asks-…, want one", command)
		}
		order := strings.Fields(string(needs[1]))
		if at := slices.Index(order, "answers-"+command); at < 0 || at > slices.Index(order, "build") ||
			at < slices.Index(order, "checks-"+command) {
			t.Errorf("make %s has the prerequisites %v, want answers-%s after checks-%s and before build", command, order,
				command, command)
		}
		out, err := runMake(t, "exit 1", "answers-"+command, "STAGE=dev").CombinedOutput()
		if line, _, _ := strings.Cut(string(out), "\n"); err == nil ||
			line != "make "+command+" has no terminal to ask at (make -j gives it none): look at make diff STAGE=dev, and say "+
				"YES=1 to have it done without being asked" {
			t.Errorf("make answers-%s without a terminal: error %v, want a failure that explains YES=1:\n%s", command, err, out)
		}
		confirmed := runMake(t, "exit 1", "answers-"+command)
		confirmed.Env = append(confirmed.Env, "ANSWER=1")
		if out, err := confirmed.CombinedOutput(); err != nil {
			t.Errorf("make %s YES=1 without a terminal: error = %v, want none:\n%s", command, err, out)
		}
	}
}

// TestMakePassesItsArguments checks that the function receives the typed values unchanged.
func TestMakePassesItsArguments(t *testing.T) {
	const awsCommand = `case $1 in sts) echo arn:aws:iam::000000000000:user/me;; ` +
		`lambda) echo "$4 $(cat)" >&2; echo None;; esac`
	const accounts, operations = "gatewright-dev-accounts:live ", "gatewright-dev-operations:live "
	for args, want := range map[string]string{
		"account|NAME=acme|STAGE=prod": `gatewright-prod-accounts:live {"name":"acme"}`,
		"account-keys|NAME=acme": accounts +
			`{"do":"list-keys","name":"acme","id":"","force":false,"scopes":"","label":""}`,
		"account-keys|NAME=acme|CREATE=deployments:write,projects:read|LABEL=CI, of $x 'main'": accounts +
			`{"do":"create-key","name":"acme","id":"","force":false,"scopes":"deployments:write,projects:read",` +
			`"label":"CI, of $x 'main'"}`,
		"account-keys|NAME=acme|REVOKE=akey_1|FORCE=true": accounts +
			`{"do":"revoke-key","name":"acme","id":"akey_1","force":true,"scopes":"","label":""}`,
		"operations":                     operations + `{"do":"list","id":""}`,
		"operations|RESUME=kop_1":        operations + `{"do":"resume","id":"kop_1"}`,
		"operations|REBUILD=all":         operations + `{"do":"rebuild","id":""}`,
		"rotate-root-key":                operations + `{"do":"rotate-root-key","by":"arn:aws:iam::000000000000:user/me"}`,
		"rotate-root-key|STATUS=true":    operations + `{"do":"root-key","by":"arn:aws:iam::000000000000:user/me"}`,
		"rotate-root-key|STATUS=1":       operations + `{"do":"root-key","by":"arn:aws:iam::000000000000:user/me"}`,
		"invoke|FUNCTION=rollup|EVENT=x": ``,
	} {
		out, err := runMake(t, awsCommand, strings.Split(args, "|")...).CombinedOutput()
		if line, _, _ := strings.Cut(string(out), "\n"); want != "" && (err != nil || line != want) ||
			want == "" && err == nil {
			t.Errorf("make %s: error = %v, want %q\n%s", args, err, want, out)
		}
	}
}

// TestMakePrintsOnlyTheResponse checks that make writes only the function's response to stdout, and appends it if
// stdout is a file that is opened for appending. An error of the function or of the call must be one line, and not on
// stdout.
func TestMakePrintsOnlyTheResponse(t *testing.T) {
	for name, c := range map[string]struct{ aws, stdout, stderr string }{
		"a response": {`printf '{"key":"gwa_1"}' >"$LAST"; echo None`, "{\"key\":\"gwa_1\"}\n", ""},
		"an error of the function": {
			`printf '{"errorMessage":"There is \\"acme\\" already.","errorType":"errorString"}' >"$LAST"; echo Unhandled`, "",
			`make account: There is "acme" already.`,
		},
		"a missing function": {
			`echo; echo "An error occurred (ResourceNotFoundException) when calling" >&2; exit 254`, "",
			"make account finds no function gatewright-dev-accounts in eu-central-1: check STAGE and AWS_REGION",
		},
		"a denied call": {
			`echo "An error occurred (AccessDeniedException): no" >&2; exit 254`, "",
			"An error occurred (AccessDeniedException): no",
		},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "log")
			if err := os.WriteFile(file, []byte("of before\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			log, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = log.Close() }()
			var stderrOutput bytes.Buffer
			cmd := runMake(t, "test $1 = sts && exit\nfor LAST; do :; done\ncat >/dev/null\n"+c.aws, "account", "NAME=acme")
			cmd.Stdout, cmd.Stderr = log, &stderrOutput
			err = cmd.Run()
			text, _ := os.ReadFile(file)
			line, _, _ := strings.Cut(stderrOutput.String(), "\n")
			if (err == nil) != (c.stderr == "") || string(text) != "of before\n"+c.stdout || line != c.stderr {
				t.Errorf("make account: error %v, stdout %q, stderr %q, want %q and %q", err, text, stderrOutput.String(), c.stdout,
					c.stderr)
			}
		})
	}
}

// TestMakefileKnowsItsCommandArguments checks that the Makefile accepts each command of docs/aws.md with its arguments.
// Otherwise the check for mistyped arguments would refuse an argument that the command reads.
func TestMakefileKnowsItsCommandArguments(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(repository, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	operating := regexp.MustCompile(`(?m)^OPERATING := \$\(filter ([a-z ,-]+),`).FindSubmatch(text)
	if operating == nil {
		t.Fatal("the Makefile has no OPERATING, want the list of its operating commands")
	}
	names := strings.Fields(string(operating[1]))
	for _, name := range []string{"deploy", "destroy", "restore-aws", "rotate-root-key", "account-keys"} {
		if !slices.Contains(names, name) {
			t.Errorf("OPERATING in the Makefile lacks %s, want it in the list: unknown arguments are refused only there", name)
		}
	}
	// The Makefile must accept each `make COMMAND ARGUMENT=…` on the page.
	page, err := os.ReadFile(filepath.Join(repository, "docs", "aws.md"))
	if err != nil {
		t.Fatal(err)
	}
	commands := regexp.MustCompile("make ((?:"+strings.Join(names, "|")+
		")\\b(?: [A-Z_]+=(?:'[^']*'|[^ ,`\n]*))*)").FindAllSubmatch(page, -1)
	if len(commands) < 30 {
		t.Fatalf("the page has %d commands, want at least 30", len(commands))
	}
	for _, command := range commands {
		args := regexp.MustCompile(`[A-Z_]+=('[^']*'|[^ ]*)|[a-z-]+`).FindAllString(string(command[1]), -1)
		// With -n, make prints the commands and does not run them.
		out, err := runMake(t, "exit 1", append([]string{"-n"}, args...)...).CombinedOutput()
		if err != nil {
			t.Errorf("make %q: error = %v, want none:\n%s", args, err, out)
		}
	}
}
