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

// awsTyped are the places of a page where a command of AWS's begins: a span of code, a line, or a part of a shell's command.
var awsTyped = regexp.MustCompile("(?m)(`|^ *|\\$\\(|[{;|&] )aws ")

// readsPage has AWS's command line read each of its commands that docs/aws.md types, as it stands there, and call nothing: services,
// operations and options that it does not know are told. What a command lacks is not.
func (s *suite) readsPage(ctx context.Context) error {
	page, err := os.ReadFile("docs/aws.md")
	if err != nil {
		return fmt.Errorf("read the page: %w", err)
	}
	typed := awsCommands(string(page))
	if len(typed) < 10 {
		return fmt.Errorf("docs/aws.md types %d commands of AWS: %q", len(typed), typed)
	}
	var wrong []error
	for _, command := range typed {
		if err := s.reads(ctx, command); err != nil {
			wrong = append(wrong, err)
		}
	}
	return errors.Join(wrong...)
}

// awsCommands are AWS's commands of a page, without those that its command line runs by itself, asking nobody.
func awsCommands(page string) (out []string) {
	for _, at := range awsTyped.FindAllStringSubmatchIndex(page, -1) {
		begin, rest := page[at[2]:at[3]], page[at[3]:]
		command, _, _ := strings.Cut(rest, "`")
		if begin != "`" {
			command = shellCommand(rest)
		}
		if !strings.HasPrefix(command, "aws configure ") && !strings.HasPrefix(command, "aws sso ") {
			out = append(out, command)
		}
	}
	return out
}

// shellCommand returns the command that a text begins with, up to a line's end, an operator of the shell, or a parenthesis that closes a
// substitution which has begun before the text.
func shellCommand(text string) string {
	var quote byte // the quotation mark that the text is within, 0 for none
	depth := 0     // of substitutions
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

// variables and calls are the page's own variables and functions of the shell, which stand for answers of AWS.
var (
	variables = regexp.MustCompile(`\$([a-z]+)`)
	calls     = regexp.MustCompile(`\$\(([a-z]+) `)
)

// reads has AWS's command line read a command, and write what it would ask.
func (s *suite) reads(ctx context.Context, command string) error {
	before := "set -- x x x; "
	for _, name := range variables.FindAllStringSubmatch(command, -1) {
		before += name[1] + "=x; "
	}
	for _, name := range calls.FindAllStringSubmatch(command, -1) {
		before += name[1] + "() { echo x; }; "
	}
	shell := exec.CommandContext(ctx, "sh", "-c", before+command+" --generate-cli-skeleton") //nolint:gosec // G204: of our own page
	shell.Env = s.operatorEnv(s.programs)
	shell.Stdin = strings.NewReader("{}") // for commands that read JSON there
	if out, err := shell.CombinedOutput(); err != nil {
		return fmt.Errorf("docs/aws.md types %s: %w\n%s", command, err, out)
	}
	return nil
}
