package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// runServerCommand runs the product's command on the installation of target, as an
// operator does, with the additional variables env. output is the standard error.
func (m *moveScenario) runServerCommand(
	ctx context.Context, target *suite, env []string, args ...string,
) (output string, err error) {
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, m.program, args...) //nolint:gosec // G204: the command that this program has built
	cmd.Env, cmd.Stderr = append(target.operatorEnv(), env...), &stderr
	err = cmd.Run()
	return stderr.String(), err
}

func (m *moveScenario) exportFile() string { return filepath.Join(m.exportDir, "move.data") }
func (m *moveScenario) keyFile() string    { return filepath.Join(m.exportDir, "move.key") }

// checkRefusals runs invalid commands. Each must fail with one line and must not change either installation.
func (m *moveScenario) checkRefusals(ctx context.Context) error {
	before, err := m.digest(ctx)
	if err != nil {
		return err
	}
	newOut, oldOut := m.out, m.old.out
	arn := func(region, key string) string { return "arn:aws:kms:" + region + ":" + account + ":key/" + key }
	truncated := filepath.Join(m.exportDir, "truncated.data")
	text, err := os.ReadFile(m.exportFile())
	if err == nil {
		err = os.WriteFile(truncated, text[:len(text)-1], 0o600) //nolint:gosec // G703: in the folder made above
	}
	if err != nil {
		return fmt.Errorf("write a truncated copy of the export: %w", err)
	}
	for _, c := range []struct {
		description, command, file string
		target                     *suite
		table, bucket, key         string
		text                       string
	}{
		// There is no case for an export with the key ID of another region: KMS rejects it, but MiniStack decrypts with the
		// right key anyway.
		{
			"the ARN of the new region's key", "export-data", "no.data", m.old, oldOut.Table, oldOut.Bucket,
			arn(m.region, newOut.Key),
			"is in " + m.region + ", and AWS_REGION says " + oldRegion,
		},
		{
			"another region's table", "export-data", "no.data", m.old, newOut.Table, oldOut.Bucket, oldOut.Key,
			"no table " + newOut.Table + " in " + oldRegion,
		},
		{
			"another region's key", "import-data", "move.data", m.suite, newOut.Table, newOut.Bucket, oldOut.Key,
			"KMS has no key " + oldOut.Key + " in " + m.region,
		},
		{
			"the ARN of the old region's key", "import-data", "move.data", m.suite, newOut.Table, newOut.Bucket,
			arn(oldRegion, oldOut.Key),
			"is in " + oldRegion,
		},
		{
			"another region's table", "import-data", "move.data", m.suite, oldOut.Table, newOut.Bucket, newOut.Key,
			"no table " + oldOut.Table + " in " + m.region,
		},
		{
			"a bucket that does not exist", "import-data", "move.data", m.suite, newOut.Table, "gatewright-nobodys", newOut.Key,
			"there is no bucket gatewright-nobodys",
		},
		{
			"an installation that has data", "import-data", "move.data", m.old, oldOut.Table, oldOut.Bucket, oldOut.Key,
			"holds data already, which stay",
		},
		{
			"a truncated export", "import-data", "truncated.data", m.suite, newOut.Table, newOut.Bucket, newOut.Key,
			"is no whole export under this key",
		},
	} {
		output, err := m.runServerCommand(ctx, c.target, nil, c.command, filepath.Join(m.exportDir, c.file), "--key-file",
			m.keyFile(), "--table", c.table, "--bucket", c.bucket, "--kms-key", c.key)
		if _, exited := errors.AsType[*exec.ExitError](err); !exited || strings.Count(output, "\n") != 1 ||
			!strings.Contains(output, c.text) {
			return fmt.Errorf("%s with %s: error %w, output %q, want a line with %q",
				c.command, c.description, err, output, c.text)
		}
	}
	if _, err := os.Stat(filepath.Join(m.exportDir, "no.data")); !errors.Is(err, os.ErrNotExist) {
		return errors.New("an export that was refused has left a file")
	}
	return m.checkUnchanged(ctx, before)
}

// checkUnchanged returns an error if the digest of the new installation is no longer before, or if the old installation
// has changed since it was stopped.
func (m *moveScenario) checkUnchanged(ctx context.Context, before string) error {
	if after, err := m.digest(ctx); err != nil || after != before {
		return fmt.Errorf("the new installation was %s, and is %s (%w)", before, after, err)
	}
	if after, err := m.old.digest(ctx); err != nil || after != m.oldDigest {
		return fmt.Errorf("the old installation was %s, and is %s (%w)", m.oldDigest, after, err)
	}
	return nil
}

// killImport begins the import twice and kills it: during the first commit, and then during the third one. The commit
// has reached the table, but the import has not received the response. While the import is incomplete, no other command
// may export the installation, import another file into it, or start it.
func (m *moveScenario) killImport(ctx context.Context) error {
	target, err := url.Parse(m.endpoint)
	if err != nil {
		return err
	}
	args := []string{
		m.exportFile(), "--key-file", m.keyFile(), "--table", m.out.Table, "--bucket", m.out.Bucket,
		"--kms-key", m.out.Key,
	}
	for _, lastCommit := range []int64{1, 3} {
		killCtx, kill := context.WithCancel(ctx)
		var commits atomic.Int64
		handler := &httputil.ReverseProxy{
			Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target); r.Out.Host = r.In.Host },
			ModifyResponse: func(resp *http.Response) error {
				if strings.HasSuffix(resp.Request.Header.Get("X-Amz-Target"), ".TransactWriteItems") &&
					commits.Add(1) == lastCommit {
					kill()
					<-killCtx.Done()
					return errors.New("the answer is lost")
				}
				return nil
			},
		}
		// Discard the error about the response that the proxy drops intentionally.
		handler.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)
		proxy := httptest.NewServer(handler)
		output, err := m.runServerCommand(killCtx, m.suite, []string{"AWS_ENDPOINT_URL=" + proxy.URL},
			append([]string{"import-data"}, args...)...)
		proxy.Close()
		kill()
		if err == nil || commits.Load() < lastCommit {
			return fmt.Errorf("an import of %d commits was not killed at number %d (%w): %s", commits.Load(), lastCommit, err,
				output)
		}
	}
	return m.checkHalfImported(ctx, args)
}

// checkHalfImported checks that other commands fail while an import is incomplete, and that they change nothing. args
// are the arguments of that import.
func (m *moveScenario) checkHalfImported(ctx context.Context, args []string) error {
	before, err := m.digest(ctx)
	if err != nil {
		return err
	}
	secondExport := filepath.Join(m.exportDir, "again.data")
	source := []string{
		"--key-file", m.keyFile(), "--table", m.old.out.Table, "--bucket", m.old.out.Bucket, "--kms-key",
		m.old.out.Key,
	}
	if output, err := m.runServerCommand(ctx, m.old, nil,
		append([]string{"export-data", secondExport}, source...)...); err != nil {
		return fmt.Errorf("a second export: %w: %s", err, output)
	}
	for text, command := range map[string][]string{
		"the import of another file into": append([]string{"import-data", secondExport},
			args[1:]...),
		"an import into this installation was begun and has not ended": append([]string{
			"export-data",
			filepath.Join(m.exportDir, "no.data"),
		}, args[1:]...),
	} {
		if output, err := m.runServerCommand(ctx, m.suite, nil, command...); err == nil || !strings.Contains(output, text) ||
			strings.Count(output, "\n") != 1 {
			return fmt.Errorf("%s during an incomplete import: error %w, output %q, want a line with %q", command[0], err,
				output, text)
		}
	}
	if err := m.expectFailure(ctx, "stays stopped: an import into it was begun and has not ended",
		"start-aws"); err != nil {
		return err
	}
	if err := m.checkStopped(ctx, true); err != nil {
		return err
	}
	return m.checkUnchanged(ctx, before)
}

// importAndStart runs the steps that import and start the new installation.
func (m *moveScenario) importAndStart(ctx context.Context) error {
	if err := m.runPageSteps(ctx, m.steps[stepImport], m.steps[stepStart]); err != nil {
		return err
	}
	return errors.Join(m.checkStopped(ctx, false), m.setTriggers(ctx, true))
}

// check verifies that the new installation has the test data and works, and that the old installation is unchanged.
func (m *moveScenario) check(ctx context.Context) error {
	if err := m.mustCallAPI(ctx, http.MethodGet, "/v1/who-am-i", "", nil); err != nil {
		return err
	}
	if err := m.checkKeys(ctx, map[string]bool{m.keptKey: true, m.deletedKey: true, "": false}); err != nil {
		return err
	}
	if status, err := m.callDeployment(ctx, m.exhaustedKey); err != nil || status != http.StatusTooManyRequests {
		return fmt.Errorf("a call after the consumer's limit: status = %d, error %w, want the status 429", status, err)
	}
	var remaining map[string]float64
	if err := m.mustCallAPI(ctx, http.MethodGet, m.quotasPath, "", &remaining); err != nil || remaining["requests"] != 1 {
		return fmt.Errorf("remaining quotas of a customer = %v, error %w, want 1 request", remaining, err)
	}
	type limit struct {
		Name  string
		Value int
		Own   bool
	}
	var account struct{ Limits []limit }
	if err := m.invoke(ctx, `{"do":"list-limits","name":"demo"}`, &account); err != nil {
		return err
	}
	if !slices.Contains(account.Limits, limit{"projects", 7, true}) {
		return fmt.Errorf("limits of the account = %v, want its own limit of 7 projects", account.Limits)
	}
	if err := m.invoke(ctx, `{"do":"reset-limit","name":"demo","limit":"projects"}`, &account); err != nil {
		return err
	}
	if err := m.exportCopy(ctx); err != nil {
		return err
	}
	// The audit log must continue from the end that it had before the move.
	if err := m.mustCallAPI(ctx, http.MethodPost, bucketPath, `{"name":"moved"}`, nil); err != nil {
		return err
	}
	if _, err := m.auditEnd(ctx, m.auditEndBefore); err != nil {
		return err
	}
	args := []string{
		"import-data", m.exportFile(), "--key-file", m.keyFile(), "--table", m.out.Table, "--bucket",
		m.out.Bucket, "--kms-key", m.out.Key,
	}
	if output, err := m.runServerCommand(ctx, m.suite, nil, args...); err == nil ||
		!strings.Contains(output, "holds data already, which stay") {
		return fmt.Errorf("a second import: error %w, output %q, want a refusal, because the table has data", err, output)
	}
	if after, err := m.old.digest(ctx); err != nil || after != m.oldDigest {
		return fmt.Errorf("the old installation was %s, and is %s (%w)", m.oldDigest, after, err)
	}
	return nil
}

// exportCopy runs the step that exports a copy of the table while the installation is in use.
func (m *moveScenario) exportCopy(ctx context.Context) error {
	if err := m.enableRecovery(ctx); err != nil {
		return err
	}
	if err := m.runPageSteps(ctx, m.steps[stepCopy]); err != nil {
		return err
	}
	copies, err := filepath.Glob(filepath.Join(m.exportDir, m.stage+"-*.data"))
	if err != nil || len(copies) != 1 {
		return fmt.Errorf("exports of a copy = %v, error %w, want one file", copies, err)
	}
	tables, err := m.dynamoDB().ListTables(ctx, &dynamodb.ListTablesInput{})
	if err == nil && slices.ContainsFunc(tables.TableNames, func(name string) bool {
		return strings.HasPrefix(name, m.stage+"-")
	}) {
		err = fmt.Errorf("tables after the export of a copy = %v, want the copy deleted", tables.TableNames)
	}
	return err
}
