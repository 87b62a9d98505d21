package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
)

// awsCommandStart matches the beginning of an AWS command in a page: at
// the beginning of a code span or a line, or within a shell command.
var awsCommandStart = regexp.MustCompile("(?m)(`|^ *|\\$\\(|[{;|&] )aws ")

// checkPage parses each AWS command in docs/aws.md with the AWS command line, without sending
// requests. It reports unknown services, operations and options, but not missing options.
func (s *suite) checkPage(ctx context.Context) error {
	page, err := os.ReadFile("docs/aws.md")
	if err != nil {
		return fmt.Errorf("read the page: %w", err)
	}
	commands := awsCommands(string(page))
	if len(commands) < 10 {
		return fmt.Errorf("AWS commands in docs/aws.md = %d, want at least 10: %q", len(commands), commands)
	}
	var errs []error
	for _, command := range commands {
		if err := s.checkCommand(ctx, command); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// awsCommands returns the AWS commands of a page, except those of aws configure and aws sso, which only set up the
// command line.
func awsCommands(page string) (out []string) {
	for _, match := range awsCommandStart.FindAllStringSubmatchIndex(page, -1) {
		prefix, rest := page[match[2]:match[3]], page[match[3]:]
		command, _, _ := strings.Cut(rest, "`")
		if prefix != "`" {
			command = shellCommand(rest)
		}
		if !strings.HasPrefix(command, "aws configure ") && !strings.HasPrefix(command, "aws sso ") {
			out = append(out, command)
		}
	}
	return out
}

// shellCommand returns the shell command at the beginning of text. The command ends at the end of
// the line, at a shell operator, or at a closing parenthesis that does not belong to the command.
func shellCommand(text string) string {
	var quote byte // the quotation mark of the current quotation, 0 for none
	depth := 0     // of nested substitutions
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '\\' && quote != '\'':
			i++
		case quote == '\'' && c != quote:
		case c == '\'' && quote == 0, c == '"' && quote == 0 && depth == 0:
			quote = c
		case c == quote:
			quote = 0
		case c == '(':
			depth++
		case c == ')' && depth > 0:
			depth--
		case quote == 0 && depth == 0 && strings.IndexByte("\n|;&)", c) >= 0:
			return strings.TrimSpace(text[:i])
		}
	}
	return text
}

// shellVariables matches the shell variables of the page, and shellCalls the calls of its shell functions. When an
// operator runs the commands, these values come from responses of AWS.
var (
	shellVariables = regexp.MustCompile(`\$([a-z]+)`)
	shellCalls     = regexp.MustCompile(`\$\(([a-z]+) `)
)

// checkCommand parses a command with the AWS command line. Its option
// --generate-cli-skeleton prints the form of the request instead of sending it.
func (s *suite) checkCommand(ctx context.Context, command string) error {
	prelude := "set -- x x x; "
	for _, name := range shellVariables.FindAllStringSubmatch(command, -1) {
		prelude += name[1] + "=x; "
	}
	for _, name := range shellCalls.FindAllStringSubmatch(command, -1) {
		prelude += name[1] + "() { echo x; }; "
	}
	//nolint:gosec // G204: a command of our own page
	shell := exec.CommandContext(ctx, "sh", "-c", prelude+command+" --generate-cli-skeleton")
	shell.Env = s.operatorEnv(s.toolsDir)
	shell.Stdin = strings.NewReader("{}") // for commands that read JSON from standard input
	if out, err := shell.CombinedOutput(); err != nil {
		return fmt.Errorf("the command %s in docs/aws.md: %w\n%s", command, err, out)
	}
	return nil
}
