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

// gatewright runs the product's command as an operator of an installation does, with what is changed of the environment.
func (m *moving) gatewright(ctx context.Context, of *suite, env []string, words ...string) (said string, err error) {
	var complaints bytes.Buffer
	cmd := exec.CommandContext(ctx, m.program, words...) //nolint:gosec // G204: the command that this program has built
	cmd.Env, cmd.Stderr = append(of.operatorEnv(), env...), &complaints
	err = cmd.Run()
	return complaints.String(), err
}

func (m *moving) file() string { return filepath.Join(m.elsewhere, "move.data") }
func (m *moving) key() string  { return filepath.Join(m.elsewhere, "move.key") }

// refusals are lines, and change nothing, in neither place.
func (m *moving) refusals(ctx context.Context) error {
	before, err := m.digest(ctx)
	if err != nil {
		return err
	}
	ours, theirs := m.out, m.old.out
	arn := func(region, key string) string { return "arn:aws:kms:" + region + ":" + account + ":key/" + key }
	cut := filepath.Join(m.elsewhere, "cut.data")
	text, err := os.ReadFile(m.file())
	if err == nil {
		err = os.WriteFile(cut, text[:len(text)-1], 0o600) //nolint:gosec // G703: in the folder made above
	}
	if err != nil {
		return fmt.Errorf("cut a copy of the export: %w", err)
	}
	for _, c := range []struct {
		what, command, file string
		of                  *suite
		table, bucket, key  string
		text                string
	}{
		// Of a key that it does not know MiniStack takes the one that has wrapped it, when it unwraps: an export by another region's id is refused by KMS alone.
		{"its ARN", "export-data", "no.data", m.old, theirs.Table, theirs.Bucket, arn(m.region, ours.Key), "is in " + m.region + ", and AWS_REGION says " + oldRegion},
		{"another region's table", "export-data", "no.data", m.old, ours.Table, theirs.Bucket, theirs.Key, "no table " + ours.Table + " in " + oldRegion},
		{"another region's key", "import-data", "move.data", m.suite, ours.Table, ours.Bucket, theirs.Key, "KMS has no key " + theirs.Key + " in " + m.region},
		{"its ARN", "import-data", "move.data", m.suite, ours.Table, ours.Bucket, arn(oldRegion, theirs.Key), "is in " + oldRegion},
		{"another region's table", "import-data", "move.data", m.suite, theirs.Table, ours.Bucket, ours.Key, "no table " + theirs.Table + " in " + m.region},
		{"no such bucket", "import-data", "move.data", m.suite, ours.Table, "gatewright-nobodys", ours.Key, "there is no bucket gatewright-nobodys"},
		{"an installation that holds something", "import-data", "move.data", m.old, theirs.Table, theirs.Bucket, theirs.Key, "holds data already, which stay"},
		{"a file that was cut", "import-data", "cut.data", m.suite, ours.Table, ours.Bucket, ours.Key, "is no whole export under this key"},
	} {
		said, err := m.gatewright(ctx, c.of, nil, c.command, filepath.Join(m.elsewhere, c.file), "--key-file", m.key(), "--table", c.table, "--bucket", c.bucket, "--kms-key", c.key)
		if _, ended := errors.AsType[*exec.ExitError](err); !ended || strings.Count(said, "\n") != 1 || !strings.Contains(said, c.text) {
			return fmt.Errorf("%s with %s is answered %w and %q, want a line with %q", c.command, c.what, err, said, c.text)
		}
	}
	if _, err := os.Stat(filepath.Join(m.elsewhere, "no.data")); !errors.Is(err, os.ErrNotExist) {
		return errors.New("an export that was refused has left a file")
	}
	return m.unchanged(ctx, before)
}

// unchanged compares both installations with what they were.
func (m *moving) unchanged(ctx context.Context, before string) error {
	if after, err := m.digest(ctx); err != nil || after != before {
		return fmt.Errorf("the new installation was %s, and is %s (%w)", before, after, err)
	}
	if after, err := m.old.digest(ctx); err != nil || after != m.before {
		return fmt.Errorf("the old installation was %s, and is %s (%w)", m.before, after, err)
	}
	return nil
}

// killed begins the import twice and kills it as a commit has reached the table and its answer has not come back: of the first, and of a later one. Nobody opens
// the installation meanwhile, and nothing else is imported into it or exported of it.
func (m *moving) killed(ctx context.Context) error {
	to, err := url.Parse(m.endpoint)
	if err != nil {
		return err
	}
	words := []string{m.file(), "--key-file", m.key(), "--table", m.out.Table, "--bucket", m.out.Bucket, "--kms-key", m.out.Key}
	for _, last := range []int64{1, 3} {
		killed, kill := context.WithCancel(ctx)
		var commits atomic.Int64
		through := &httputil.ReverseProxy{
			Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to); r.Out.Host = r.In.Host },
			ModifyResponse: func(answer *http.Response) error {
				if strings.HasSuffix(answer.Request.Header.Get("X-Amz-Target"), ".TransactWriteItems") && commits.Add(1) == last {
					kill()
					<-killed.Done()
					return errors.New("the answer is lost")
				}
				return nil
			},
		}
		through.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo) // of what it was told to lose
		proxy := httptest.NewServer(through)
		said, err := m.gatewright(killed, m.suite, []string{"AWS_ENDPOINT_URL=" + proxy.URL}, append([]string{"import-data"}, words...)...)
		proxy.Close()
		kill()
		if err == nil || commits.Load() < last {
			return fmt.Errorf("an import of %d commits was not killed at number %d (%w): %s", commits.Load(), last, err, said)
		}
	}
	return m.halfWay(ctx, words)
}

// halfWay asks for what must not be while an import is half done.
func (m *moving) halfWay(ctx context.Context, words []string) error {
	before, err := m.digest(ctx)
	if err != nil {
		return err
	}
	again := filepath.Join(m.elsewhere, "again.data")
	from := []string{"--key-file", m.key(), "--table", m.old.out.Table, "--bucket", m.old.out.Bucket, "--kms-key", m.old.out.Key}
	if said, err := m.gatewright(ctx, m.old, nil, append([]string{"export-data", again}, from...)...); err != nil {
		return fmt.Errorf("a second export: %w: %s", err, said)
	}
	for text, asked := range map[string][]string{
		"the import of another file into":                              append([]string{"import-data", again}, words[1:]...),
		"an import into this installation was begun and has not ended": append([]string{"export-data", filepath.Join(m.elsewhere, "no.data")}, words[1:]...),
	} {
		if said, err := m.gatewright(ctx, m.suite, nil, asked...); err == nil || !strings.Contains(said, text) || strings.Count(said, "\n") != 1 {
			return fmt.Errorf("half way %s is answered %w and %q", asked[0], err, said)
		}
	}
	if err := m.refuses(ctx, "stays stopped: an import into it was begun and has not ended", "start-aws"); err != nil {
		return err
	}
	if err := m.stopped(ctx, true); err != nil {
		return err
	}
	return m.unchanged(ctx, before)
}

// arrive types what imports and starts the new one.
func (m *moving) arrive(ctx context.Context) error {
	if err := m.typesSteps(ctx, m.steps[stepImport], m.steps[stepStart]); err != nil {
		return err
	}
	return errors.Join(m.stopped(ctx, false), m.calledByItself(ctx, true))
}

// check looks for everything in the new region, and that it goes on; the old one is as it was.
func (m *moving) check(ctx context.Context) error {
	if err := m.must(ctx, http.MethodGet, "/v1/who-am-i", "", nil); err != nil {
		return err
	}
	if err := m.answers(ctx, map[string]bool{m.kept: true, m.gone: true, "": false}); err != nil {
		return err
	}
	if status, err := m.calls(ctx, m.spent); err != nil || status != http.StatusTooManyRequests {
		return fmt.Errorf("a consumer whose calls are spent is answered %d (%w)", status, err)
	}
	var left map[string]float64
	if err := m.must(ctx, http.MethodGet, m.quotas, "", &left); err != nil || left["requests"] != 1 {
		return fmt.Errorf("of a customer's requests %v are left, want 1 (%w)", left, err)
	}
	type limit struct {
		Name  string
		Value int
		Own   bool
	}
	var of struct{ Limits []limit }
	if err := m.invoke(ctx, `{"do":"list-limits","name":"demo"}`, &of); err != nil {
		return err
	}
	if !slices.Contains(of.Limits, limit{"projects", 7, true}) {
		return fmt.Errorf("the account's own limit is not there: %v", of.Limits)
	}
	if err := m.invoke(ctx, `{"do":"reset-limit","name":"demo","limit":"projects"}`, &of); err != nil {
		return err
	}
	if err := m.copied(ctx); err != nil {
		return err
	}
	// The audit log goes on from the end that was noted.
	if err := m.must(ctx, http.MethodPost, bucketPath, `{"name":"moved"}`, nil); err != nil {
		return err
	}
	if _, err := m.auditEnd(ctx, m.noted); err != nil {
		return err
	}
	words := []string{"import-data", m.file(), "--key-file", m.key(), "--table", m.out.Table, "--bucket", m.out.Bucket, "--kms-key", m.out.Key}
	if said, err := m.gatewright(ctx, m.suite, nil, words...); err == nil || !strings.Contains(said, "holds data already, which stay") {
		return fmt.Errorf("a second import is answered %w and %q", err, said)
	}
	if after, err := m.old.digest(ctx); err != nil || after != m.before {
		return fmt.Errorf("the old installation was %s, and is %s (%w)", m.before, after, err)
	}
	return nil
}

// copied types what exports a copy of the table, while the installation is used.
func (m *moving) copied(ctx context.Context) error {
	if err := m.recoverable(ctx); err != nil {
		return err
	}
	if err := m.typesSteps(ctx, m.steps[stepCopy]); err != nil {
		return err
	}
	made, err := filepath.Glob(filepath.Join(m.elsewhere, m.stage+"-*.data"))
	if err != nil || len(made) != 1 {
		return fmt.Errorf("of copies there are %v (%w)", made, err)
	}
	tables, err := m.dynamoDB().ListTables(ctx, &dynamodb.ListTablesInput{})
	if err == nil && slices.ContainsFunc(tables.TableNames, func(name string) bool { return strings.HasPrefix(name, m.stage+"-") }) {
		err = fmt.Errorf("the copy is still there: %v", tables.TableNames)
	}
	return err
}
