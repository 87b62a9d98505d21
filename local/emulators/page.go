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

// awsTyped are AWS's own commands on a page of the documentation: in a span of code, or as a line of a block.
var awsTyped = regexp.MustCompile("(?m)`(aws [^`\n]+)`|^ *(aws .+)$")

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
	for _, m := range awsTyped.FindAllStringSubmatch(page, -1) {
		if command := m[1] + m[2]; !strings.HasPrefix(command, "aws configure ") && !strings.HasPrefix(command, "aws sso ") {
			out = append(out, command)
		}
	}
	return out
}

// reads has AWS's command line read a command, and write what it would ask.
func (s *suite) reads(ctx context.Context, command string) error {
	shell := exec.CommandContext(ctx, "sh", "-c", "named() { echo x; }; new=x copy=x; "+command+" --generate-cli-skeleton") //nolint:gosec // G204: of our own page
	shell.Env = s.operatorEnv(s.programs)
	if out, err := shell.CombinedOutput(); err != nil {
		return fmt.Errorf("docs/aws.md types %s: %w\n%s", command, err, out)
	}
	return nil
}
