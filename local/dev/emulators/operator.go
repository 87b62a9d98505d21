package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// testOperatorCommands runs an operator's commands exactly as docs/aws.md describes them. It needs the AWS command
// line, which is installed with MiniStack. Without it, testOperatorCommands does nothing.
func (s *suite) testOperatorCommands(ctx context.Context) error {
	if s.toolsDir == "" {
		return nil
	}
	for _, step := range []func(context.Context) error{
		s.testAccountCommands, s.testLimitCommands, s.testOperationCommands,
		s.testRootKeyCommands, s.checkPage,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// runMake runs make with args for the installation, as an operator would type it, and decodes the JSON output into out.
func (s *suite) runMake(ctx context.Context, out any, args ...string) error {
	//nolint:gosec // G204: commands of this file
	command := exec.CommandContext(ctx, "make", append(args, "STAGE="+s.stage)...)
	command.Env = s.operatorEnv(s.toolsDir)
	var stderr strings.Builder
	command.Stderr = &stderr
	output, err := command.Output()
	if err != nil {
		return fmt.Errorf("make %s: %w\n%s%s", strings.Join(args, " "), err, output, stderr.String())
	}
	if err := json.Unmarshal(output, out); err != nil {
		return fmt.Errorf("make %s answers %q: %w", strings.Join(args, " "), output, err)
	}
	return nil
}

// operatorEnv returns the environment for an operator's commands, with the folders first on the PATH.
func (s *suite) operatorEnv(folders ...string) []string {
	path := strings.Join(append(folders, os.Getenv("PATH")), string(filepath.ListSeparator))
	// MAKEFLAGS and MAKELEVEL are empty, so that the arguments of the calling make are not inherited. AWS_PROFILE
	// is removed, because the AWS command line treats an empty value as a profile with an empty name.
	env := append(s.env(), "MAKEFLAGS=", "MAKELEVEL=", "PATH="+path)
	return slices.DeleteFunc(env, func(v string) bool { return strings.HasPrefix(v, "AWS_PROFILE=") })
}

// expectFailure runs make with args, which must fail with an error that contains reason.
func (s *suite) expectFailure(ctx context.Context, reason string, args ...string) error {
	err := s.runMake(ctx, &struct{}{}, args...)
	if _, exited := errors.AsType[*exec.ExitError](err); !exited || !strings.Contains(err.Error(), reason) {
		return fmt.Errorf("make %s does not say %q: %w", strings.Join(args, " "), reason, err)
	}
	return nil
}

// testAccountCommands creates an account, creates a second key of the account and revokes it, and lists the keys.
func (s *suite) testAccountCommands(ctx context.Context) error {
	var created struct{ Key string }
	if err := s.runMake(ctx, &created, "account", "NAME=typed"); err != nil {
		return err
	}
	if err := s.expectFailure(ctx, "already", "account", "NAME=typed"); err != nil {
		return err
	}
	var second, revoked struct{ ID, Key string }
	if err := s.runMake(ctx, &second, "account-keys", "NAME=typed", "CREATE=all", "LABEL=ci"); err != nil {
		return err
	}
	if err := s.runMake(ctx, &revoked, "account-keys", "NAME=typed", "REVOKE="+second.ID); err != nil {
		return err
	}
	for key, want := range map[string]int{created.Key: http.StatusOK, second.Key: http.StatusUnauthorized} {
		if got, err := s.whoAmI(ctx, key); err != nil || got != want {
			return fmt.Errorf("status of a call with a key = %d, want %d, error %w", got, want, err)
		}
	}
	var listed struct{ Keys []struct{ ID string } }
	if err := s.runMake(ctx, &listed, "account-keys", "NAME=typed"); err != nil {
		return err
	}
	if len(listed.Keys) != 1 || listed.Keys[0].ID == second.ID {
		return fmt.Errorf("make account-keys after a revocation lists %v, want one key, and not %s", listed.Keys, second.ID)
	}
	return nil
}

// whoAmI sends a request to /v1/who-am-i with a key and returns the status.
func (s *suite) whoAmI(ctx context.Context, key string) (int, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.address(s.out.API)+"/v1/who-am-i", nil)
	if err != nil {
		return 0, err
	}
	r.Header.Set("Authorization", "Bearer "+key)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

// testLimitCommands lists an account's limits, sets a limit, and resets it.
func (s *suite) testLimitCommands(ctx context.Context) error {
	var listed struct{ Limits []struct{ Name string } }
	if err := s.runMake(ctx, &listed, "account-limits", "NAME=typed"); err != nil {
		return err
	}
	if len(listed.Limits) == 0 {
		return errors.New("make account-limits NAME=typed lists no limit")
	}
	for _, value := range []string{"7", "default"} {
		want, _ := strconv.Atoi(value) // 0 for the installation's default
		type limit struct {
			Name  string
			Value int
			Own   bool
		}
		var out struct{ Limits []limit }
		if err := s.runMake(ctx, &out, "account-limits", "NAME=typed", "LIMIT=projects", "VALUE="+value); err != nil {
			return err
		}
		i := slices.IndexFunc(out.Limits, func(l limit) bool { return l.Name == "projects" })
		if i < 0 || out.Limits[i].Own != (want > 0) || want > 0 && out.Limits[i].Value != want {
			return fmt.Errorf("limits with VALUE=%s = %v, want the limit projects with its own value %d (0 for no own value)",
				value, out.Limits, want)
		}
	}
	return s.expectFailure(ctx, "is none of", "account-limits", "NAME=typed", "LIMIT=colours", "VALUE=1")
}

// unfinishedOperations runs make with args, and returns the kinds of the unfinished operations in its output.
func (s *suite) unfinishedOperations(ctx context.Context, args ...string) (kinds []string, err error) {
	var out struct{ Operations []struct{ Kind string } }
	err = s.runMake(ctx, &out, args...)
	for _, o := range out.Operations {
		kinds = append(kinds, o.Kind)
	}
	return kinds, err
}

// testOperationCommands starts the rebuild of all artifacts of older formats, and waits until this operation ends.
// There are no such artifacts, so it ends soon. It then checks that an unknown operation cannot be resumed.
func (s *suite) testOperationCommands(ctx context.Context) error {
	kinds, err := s.unfinishedOperations(ctx, "operations", "REBUILD=all")
	for deadline := time.Now().Add(time.Minute); err == nil &&
		time.Now().Before(deadline); kinds, err = s.unfinishedOperations(ctx, "operations") {
		if !slices.Contains(kinds, "artifacts-rebuild") {
			return s.expectFailure(ctx, "no operation", "operations", "RESUME=kop_gone")
		}
		time.Sleep(time.Second)
	}
	return fmt.Errorf("make operations REBUILD=all: unfinished operations after a minute = %v, error %w, want no rebuild",
		kinds, err)
}

// testRootKeyCommands begins a rotation of the root key. The rotation
// takes more than a day, so the rest of the suite runs during it.
func (s *suite) testRootKeyCommands(ctx context.Context) error {
	type status struct{ Operation, Stage string }
	var before, started, after status
	if err := s.runMake(ctx, &before, "rotate-root-key", "STATUS=true"); err != nil {
		return err
	}
	if err := s.runMake(ctx, &started, "rotate-root-key"); err != nil {
		return err
	}
	if err := s.runMake(ctx, &after, "rotate-root-key", "STATUS=true"); err != nil {
		return err
	}
	if before != (status{}) || started.Operation == "" || after.Operation != started.Operation || after.Stage == "" {
		return fmt.Errorf("make rotate-root-key: status before = %+v, result = %+v, status after = %+v, want no rotation "+
			"before, and then the same operation twice, with a stage", before, started, after)
	}
	kinds, err := s.unfinishedOperations(ctx, "operations")
	if err != nil || !slices.Contains(kinds, "root-key-rotation") {
		return fmt.Errorf("make operations during a rotation lists %v, error %w, want root-key-rotation", kinds, err)
	}
	return s.expectFailure(ctx, "is under way since", "rotate-root-key")
}
