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

// operate types the commands by which an installation in AWS is operated (docs/aws.md), as they stand there, where there
// is AWS's command line: MiniStack's environment has one.
func (s *suite) operate(ctx context.Context) error {
	if s.programs == "" {
		return nil
	}
	for _, step := range []func(context.Context) error{s.operatesAccounts, s.operatesLimits, s.operatesOperations, s.operatesRootKey, s.readsPage} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// types runs a command of the Makefile on the installation, and reads what it answers into out.
func (s *suite) types(ctx context.Context, out any, args ...string) error {
	command := exec.CommandContext(ctx, "make", append(args, "STAGE="+s.stage)...) //nolint:gosec // G204: commands of this file
	command.Env = s.operatorEnv(s.programs)
	var complaints strings.Builder
	command.Stderr = &complaints
	answer, err := command.Output()
	if err != nil {
		return fmt.Errorf("make %s: %w\n%s%s", strings.Join(args, " "), err, answer, complaints.String())
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return fmt.Errorf("make %s answers %q: %w", strings.Join(args, " "), answer, err)
	}
	return nil
}

// operatorEnv is the environment of who operates the installation, with folders of commands.
func (s *suite) operatorEnv(folders ...string) []string {
	path := strings.Join(append(folders, os.Getenv("PATH")), string(filepath.ListSeparator))
	// What this make was asked for is not for that one. To AWS's command line an empty AWS_PROFILE is a profile of no name.
	env := append(s.env(), "MAKEFLAGS=", "MAKELEVEL=", "PATH="+path)
	return slices.DeleteFunc(env, func(v string) bool { return strings.HasPrefix(v, "AWS_PROFILE=") })
}

// refuses runs a command that has to say no, and why.
func (s *suite) refuses(ctx context.Context, why string, args ...string) error {
	err := s.types(ctx, &struct{}{}, args...)
	if _, ended := errors.AsType[*exec.ExitError](err); !ended || !strings.Contains(err.Error(), why) {
		return fmt.Errorf("make %s does not say %q: %w", strings.Join(args, " "), why, err)
	}
	return nil
}

// operatesAccounts makes an account, and a key of it, which it lists and revokes.
func (s *suite) operatesAccounts(ctx context.Context) error {
	var made struct{ Key string }
	if err := s.types(ctx, &made, "account", "NAME=typed"); err != nil {
		return err
	}
	if err := s.refuses(ctx, "already", "account", "NAME=typed"); err != nil {
		return err
	}
	var second, revoked struct{ ID, Key string }
	if err := s.types(ctx, &second, "account-keys", "NAME=typed", "CREATE=all", "LABEL=ci"); err != nil {
		return err
	}
	if err := s.types(ctx, &revoked, "account-keys", "NAME=typed", "REVOKE="+second.ID); err != nil {
		return err
	}
	for key, want := range map[string]int{made.Key: http.StatusOK, second.Key: http.StatusUnauthorized} {
		if got, err := s.whoAmI(ctx, key); err != nil || got != want {
			return fmt.Errorf("a key is answered %d, want %d, error %w", got, want, err)
		}
	}
	var listed struct{ Keys []struct{ ID string } }
	if err := s.types(ctx, &listed, "account-keys", "NAME=typed"); err != nil {
		return err
	}
	if len(listed.Keys) != 1 || listed.Keys[0].ID == second.ID {
		return fmt.Errorf("of the keys that are left %v are listed", listed.Keys)
	}
	return nil
}

// whoAmI asks with a key, and gives the status.
func (s *suite) whoAmI(ctx context.Context, key string) (int, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.address(s.out.API)+"/v1/who-am-i", nil)
	if err != nil {
		return 0, err
	}
	r.Header.Set("Authorization", "Bearer "+key)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err
	}
	return answer.StatusCode, answer.Body.Close()
}

// operatesLimits lists an account's limits, gives it one of its own, and takes it back.
func (s *suite) operatesLimits(ctx context.Context) error {
	var listed struct{ Limits []struct{ Name string } }
	if err := s.types(ctx, &listed, "account-limits", "NAME=typed"); err != nil {
		return err
	}
	if len(listed.Limits) == 0 {
		return errors.New("make account-limits NAME=typed lists no limit")
	}
	for _, value := range []string{"7", "default"} {
		want, _ := strconv.Atoi(value) // 0 for the installation's
		type limit struct {
			Name  string
			Value int
			Own   bool
		}
		var out struct{ Limits []limit }
		if err := s.types(ctx, &out, "account-limits", "NAME=typed", "LIMIT=projects", "VALUE="+value); err != nil {
			return err
		}
		i := slices.IndexFunc(out.Limits, func(l limit) bool { return l.Name == "projects" })
		if i < 0 || out.Limits[i].Own != (want > 0) || want > 0 && out.Limits[i].Value != want {
			return fmt.Errorf("with VALUE=%s the limits are %v", value, out.Limits)
		}
	}
	return s.refuses(ctx, "is none of", "account-limits", "NAME=typed", "LIMIT=colours", "VALUE=1")
}

// underWay are the kinds of the durable operations that have not ended, as a command answers them.
func (s *suite) underWay(ctx context.Context, args ...string) (kinds []string, err error) {
	var out struct{ Operations []struct{ Kind string } }
	err = s.types(ctx, &out, args...)
	for _, o := range out.Operations {
		kinds = append(kinds, o.Kind)
	}
	return kinds, err
}

// operatesOperations has everything built anew that is of an older format, which nothing is, and sees it end.
func (s *suite) operatesOperations(ctx context.Context) error {
	begun, err := s.underWay(ctx, "operations", "REBUILD=all")
	for until := time.Now().Add(time.Minute); err == nil && time.Now().Before(until); begun, err = s.underWay(ctx, "operations") {
		if !slices.Contains(begun, "artifacts-rebuild") {
			return s.refuses(ctx, "no operation", "operations", "RESUME=kop_gone")
		}
		time.Sleep(time.Second)
	}
	return fmt.Errorf("what was to be built anew does not end: %v, error %w", begun, err)
}

// operatesRootKey begins to replace the root key. That takes a day and more: what follows in the suite happens meanwhile.
func (s *suite) operatesRootKey(ctx context.Context) error {
	type status struct{ Operation, Stage string }
	var before, begun, after status
	if err := s.types(ctx, &before, "rotate-root-key", "STATUS=true"); err != nil {
		return err
	}
	if err := s.types(ctx, &begun, "rotate-root-key"); err != nil {
		return err
	}
	if err := s.types(ctx, &after, "rotate-root-key", "STATUS=true"); err != nil {
		return err
	}
	if before != (status{}) || begun.Operation == "" || after.Operation != begun.Operation || after.Stage == "" {
		return fmt.Errorf("before a rotation its status is %+v, then %+v, and then %+v", before, begun, after)
	}
	kinds, err := s.underWay(ctx, "operations")
	if err != nil || !slices.Contains(kinds, "root-key-rotation") {
		return fmt.Errorf("of a rotation that goes on make operations lists %v, error %w", kinds, err)
	}
	return s.refuses(ctx, "is under way since", "rotate-root-key")
}
