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

// typed is a make of this repository with an aws of ours, and nothing of this process's AWS.
func typed(t *testing.T, aws string, words ...string) *exec.Cmd {
	t.Helper()
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "aws"), []byte("#!/bin/sh\n"+aws), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "make", words...)
	cmd.Dir = repository
	for _, v := range withoutMake(os.Environ()) {
		if !strings.HasPrefix(v, "AWS_") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, "PATH="+bin+":"+os.Getenv("PATH"), "AWS_REGION=eu-central-1")
	return cmd
}

// TestMakeRefusesWhatIsMistyped: a word that a command does not have, or a value that its word does not, has it do nothing; without that word it would act, as on
// the stage dev, or begin what was only to be asked about.
func TestMakeRefusesWhatIsMistyped(t *testing.T) {
	const asked = `echo "asked: $*" >&2; echo None`
	for _, c := range []struct{ words, want string }{ // words with | between, want in the first line
		{"rotate-root-key|STATSU=true", "make rotate-root-key takes no STATSU=, and has done nothing: its words are STAGE= STATUS="},
		{"rotate-root-key|DRY=1", "make rotate-root-key takes no DRY="},
		{"rotate-root-key|STATUS=yes", "make rotate-root-key takes STATUS=true, which begins nothing, or no STATUS="},
		{"stop-aws|STGE=production", "make stop-aws takes no STGE="},
		{"stop-aws|YES=no", "make stop-aws takes YES=1 or no YES=, and has done nothing"},
		{"restore-aws|LIFT=0", "make restore-aws takes LIFT=1 or no LIFT="},
		{"restore-aws|DRY=yes", "make restore-aws takes DRY=1 or no DRY="},
		{"start-aws|YES=1", "make start-aws takes no YES="},
		{"destroy|DRY=1", "make destroy takes no DRY="},
		{"checks-deploy|STAGE=$(shell echo asked: lambda >&2)", "STAGE= is a name of lower-case letters, digits and hyphens, such as dev"},
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
		{"account-keys|NAME=acme|REVOKE=akey_1|CREATE=all", "make account-keys takes CREATE= to make a key, and LABEL= for it, or REVOKE= to end one"},
		{"account-keys|NAME=acme|LABEL=ci", "make account-keys takes CREATE= to make a key"},
		{`account-keys|NAME=acme|REVOKE=akey_1"`, "make account-keys takes REVOKE= with the id of a key"},
		{`account-keys|NAME=acme|CREATE=all"`, "make account-keys takes CREATE= with scopes such as"},
		{`account-keys|NAME=acme|CREATE=all|LABEL=a\`, "make account-keys takes LABEL= without quotes and backslashes"},
		{"account-keys|NAME=acme|REVOKE=akey_1|FORCE=`touch TRAP`", "make account-keys takes FORCE=true, or no FORCE="},
	} {
		trap := filepath.Join(t.TempDir(), "trap")
		out, err := typed(t, asked, strings.Split(strings.ReplaceAll(c.words, "TRAP", trap), "|")...).CombinedOutput()
		line, _, _ := strings.Cut(string(out), "\n")
		if err == nil || !strings.Contains(line, c.want) || strings.Contains(string(out), "asked: lambda") {
			t.Errorf("make %s: %v, want %q\n%s", c.words, err, c.want, out)
		}
		if _, err := os.Stat(trap); err == nil {
			t.Errorf("make %s has run what was typed", c.words)
		}
	}
}

// TestMakeSaysThatNobodyIsAskedBeforeTheBuild, which takes minutes. A test has no terminal.
func TestMakeSaysThatNobodyIsAskedBeforeTheBuild(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(repository, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"deploy", "destroy"} {
		needs := regexp.MustCompile(`(?m)^` + command + `: (asks-.*) ## `).FindSubmatch(text)
		if needs == nil {
			t.Fatalf("no %s", command)
		}
		order := strings.Fields(string(needs[1]))
		if at := slices.Index(order, "answers-"+command); at < 0 || at > slices.Index(order, "build") || at < slices.Index(order, "checks-"+command) {
			t.Errorf("make %s asks in the order %v", command, order)
		}
		out, err := typed(t, "exit 1", "answers-"+command, "STAGE=dev").CombinedOutput()
		if line, _, _ := strings.Cut(string(out), "\n"); err == nil || line != "make "+command+" has no terminal to ask at (make -j gives it none): look at make diff STAGE=dev, and say YES=1 to have it done without being asked" {
			t.Errorf("make %s with nobody to ask: %v\n%s", command, err, out)
		}
		said := typed(t, "exit 1", "answers-"+command)
		said.Env = append(said.Env, "ANSWER=1")
		if out, err := said.CombinedOutput(); err != nil {
			t.Errorf("make %s YES=1 with nobody to ask: %v\n%s", command, err, out)
		}
	}
}

// TestMakeHandsOnWhatWasTyped to the function, as it was meant.
func TestMakeHandsOnWhatWasTyped(t *testing.T) {
	const asked = `case $1 in sts) echo arn:aws:iam::000000000000:user/me;; lambda) echo "$4 $(cat)" >&2; echo None;; esac`
	for words, want := range map[string]string{
		"account|NAME=acme|STAGE=prod": `gatewright-prod-accounts:live {"name":"acme"}`,
		"account-keys|NAME=acme":       `gatewright-dev-accounts:live {"do":"list-keys","name":"acme","id":"","force":false,"scopes":"","label":""}`,
		"account-keys|NAME=acme|CREATE=deployments:write,projects:read|LABEL=CI, of $x 'main'": `gatewright-dev-accounts:live {"do":"create-key","name":"acme","id":"","force":false,"scopes":"deployments:write,projects:read","label":"CI, of $x 'main'"}`,
		"account-keys|NAME=acme|REVOKE=akey_1|FORCE=true":                                      `gatewright-dev-accounts:live {"do":"revoke-key","name":"acme","id":"akey_1","force":true,"scopes":"","label":""}`,
		"operations":                     `gatewright-dev-operations:live {"do":"list","id":""}`,
		"operations|RESUME=kop_1":        `gatewright-dev-operations:live {"do":"resume","id":"kop_1"}`,
		"operations|REBUILD=all":         `gatewright-dev-operations:live {"do":"rebuild","id":""}`,
		"rotate-root-key":                `gatewright-dev-operations:live {"do":"rotate-root-key","by":"arn:aws:iam::000000000000:user/me"}`,
		"rotate-root-key|STATUS=true":    `gatewright-dev-operations:live {"do":"root-key","by":"arn:aws:iam::000000000000:user/me"}`,
		"rotate-root-key|STATUS=1":       `gatewright-dev-operations:live {"do":"root-key","by":"arn:aws:iam::000000000000:user/me"}`,
		"invoke|FUNCTION=rollup|EVENT=x": ``,
	} {
		out, err := typed(t, asked, strings.Split(words, "|")...).CombinedOutput()
		if line, _, _ := strings.Cut(string(out), "\n"); want != "" && (err != nil || line != want) || want == "" && err == nil {
			t.Errorf("make %s: %v, want %q\n%s", words, err, want, out)
		}
	}
}

// TestMakePrintsTheAnswerAlone: what a function answers is all of the output, with what a file that it goes to had before; what it refuses, or who cannot be asked,
// is one line that is no output.
func TestMakePrintsTheAnswerAlone(t *testing.T) {
	for name, c := range map[string]struct{ aws, out, says string }{
		"an answer":     {`printf '{"key":"gwa_1"}' >"$LAST"; echo None`, "{\"key\":\"gwa_1\"}\n", ""},
		"a refusal":     {`printf '{"errorMessage":"There is \\"acme\\" already.","errorType":"errorString"}' >"$LAST"; echo Unhandled`, "", `make account: There is "acme" already.`},
		"no such stage": {`echo; echo "An error occurred (ResourceNotFoundException) when calling" >&2; exit 254`, "", "make account finds no function gatewright-dev-accounts in eu-central-1: check STAGE and AWS_REGION"},
		"not allowed":   {`echo "An error occurred (AccessDeniedException): no" >&2; exit 254`, "", "An error occurred (AccessDeniedException): no"},
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
			var complaints bytes.Buffer
			cmd := typed(t, "test $1 = sts && exit\nfor LAST; do :; done\ncat >/dev/null\n"+c.aws, "account", "NAME=acme")
			cmd.Stdout, cmd.Stderr = log, &complaints
			err = cmd.Run()
			text, _ := os.ReadFile(file)
			line, _, _ := strings.Cut(complaints.String(), "\n")
			if (err == nil) != (c.says == "") || string(text) != "of before\n"+c.out || line != c.says {
				t.Errorf("error %v, %q is in the file and %q was said, want %q and %q", err, text, complaints.String(), c.out, c.says)
			}
		})
	}
}

// TestTheMakefileKnowsTheWordsOfItsCommands: what each command that operates an installation reads, it names in its help, by which mistyped words are refused.
func TestTheMakefileKnowsTheWordsOfItsCommands(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(repository, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	operating := regexp.MustCompile(`(?m)^OPERATING := \$\(filter ([a-z ,-]+),`).FindSubmatch(text)
	if operating == nil {
		t.Fatal("no OPERATING")
	}
	names := strings.Fields(string(operating[1]))
	for _, name := range []string{"deploy", "destroy", "restore-aws", "rotate-root-key", "account-keys"} {
		if !slices.Contains(names, name) {
			t.Errorf("make %s takes what it does not know", name)
		}
	}
	// Of the page: each `make COMMAND WORD=…` is one that the command takes.
	page, err := os.ReadFile(filepath.Join(repository, "docs", "aws.md"))
	if err != nil {
		t.Fatal(err)
	}
	commands := regexp.MustCompile("make ((?:"+strings.Join(names, "|")+")\\b(?: [A-Z_]+=(?:'[^']*'|[^ ,`\n]*))*)").FindAllSubmatch(page, -1)
	if len(commands) < 30 {
		t.Fatalf("%d commands are on the page", len(commands))
	}
	for _, command := range commands {
		words := regexp.MustCompile(`[A-Z_]+=('[^']*'|[^ ]*)|[a-z-]+`).FindAllString(string(command[1]), -1)
		// With -n make shows what it would do, and does nothing of it.
		out, err := typed(t, "exit 1", append([]string{"-n"}, words...)...).CombinedOutput()
		if err != nil {
			t.Errorf("make %q: %v\n%s", words, err, out)
		}
	}
}
