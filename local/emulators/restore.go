package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/lambda"

	"github.com/gatewright/gatewright/shared/store"
)

// restoring is a story of an installation that is spoilt, loses its table, and is restored by the operator's own
// commands (docs/aws.md, "Restore").
type restoring struct {
	*suite
	tables    *dynamodb.Client
	functions *lambda.Client
	command   string // the binary of local/recovery

	key, leaver     string // texts of account keys
	leaverID        string
	kept, gone      string // texts of consumers' keys
	route, name     string // of the deployment
	backup, adopted string // the backup's ARN, and the restored table's stream
}

// restores is the story. MiniStack restores of a backup what was in the table when it was made, which stands here for a
// moment; of a point in time it restores what is there now.
func (s *suite) restores(ctx context.Context) error {
	r := &restoring{suite: s, key: s.key, command: filepath.Join(s.dir, "recovery")}
	r.tables = store.Connect(s.sdk(), s.endpoint)
	r.functions = lambda.NewFromConfig(s.sdk(), func(o *lambda.Options) { o.BaseEndpoint = &s.endpoint })
	for _, step := range []step{
		{"build of the command", func(ctx context.Context) error {
			return runQuietly(ctx, ".", nil, "go", "build", "-o", r.command, "./local/recovery")
		}},
		{"filling", r.fill},
		{"refusals", r.refusals},
		{"spoiling", r.spoil},
		{"restore", r.restore},
		{"loss and deployment", r.lose},
		{"what is there again", r.check},
		{"a latest moment", r.latest},
	} {
		if err := timed(s.emulator, step.name, func() error { return step.do(ctx) }); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return nil
}

// ask sends a request to the management API, and decodes what it answers.
func (r *restoring) ask(ctx context.Context, key, method, path, body string, out any) (status int, err error) {
	in, err := http.NewRequestWithContext(ctx, method, r.address(r.out.API)+path, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	in.Header.Set("Authorization", "Bearer "+key)
	if body != "" {
		in.Header.Set("Content-Type", "application/json")
	}
	answer, err := http.DefaultClient.Do(in)
	if err != nil {
		return 0, err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err == nil && out != nil && answer.StatusCode < http.StatusMultipleChoices {
		err = json.Unmarshal(text, out)
	}
	return answer.StatusCode, err
}

// must is ask for what has to succeed.
func (r *restoring) must(ctx context.Context, method, path, body string, out any) error {
	status, err := r.ask(ctx, r.key, method, path, body, out)
	if err == nil && status >= http.StatusMultipleChoices {
		err = fmt.Errorf("%s %s is answered with %d", method, path, status)
	}
	return err
}

const bucketPath = "/v1/accounts/demo/key-buckets"

// consumer makes a consumer, and gives the text of its key.
func (r *restoring) consumer(ctx context.Context, name string) (string, error) {
	var made json.RawMessage
	if err := r.must(ctx, http.MethodPost, bucketPath+"/hello-consumers/consumers?with-api-key=true", fmt.Sprintf(`{"name":%q}`, name), &made); err != nil {
		return "", err
	}
	found := keyText.FindSubmatch(made)
	if found == nil {
		return "", fmt.Errorf("the consumer %s has no key", name)
	}
	return string(found[1]), nil
}

var keyText = regexp.MustCompile(`"key":"([^"]+)"`)

// fill makes what shall be there again, and a backup of it, at a moment at which an audit record is not chained yet.
func (r *restoring) fill(ctx context.Context) (err error) {
	var made struct{ ID, Key string }
	if err := r.invoke(ctx, `{"do":"create-key","name":"demo","label":"leaver","scopes":"all"}`, &made); err != nil {
		return err
	}
	r.leaver, r.leaverID = made.Key, made.ID
	if err := r.must(ctx, http.MethodPost, bucketPath, `{"name":"hello-consumers","tags":{"project":"hello"}}`, nil); err != nil {
		return err
	}
	if r.kept, err = r.consumer(ctx, "kept"); err != nil {
		return err
	}
	if r.gone, err = r.consumer(ctx, "gone"); err != nil {
		return err
	}
	if err := r.deployHello(ctx); err != nil {
		return err
	}
	if err := r.answers(ctx, map[string]bool{r.kept: true, r.gone: true, "": false}); err != nil {
		return err
	}
	// MiniStack's CloudFormation passes it over.
	_, err = r.tables.UpdateContinuousBackups(ctx, &dynamodb.UpdateContinuousBackupsInput{TableName: &r.out.Table, PointInTimeRecoverySpecification: &types.PointInTimeRecoverySpecification{
		PointInTimeRecoveryEnabled: aws.Bool(true),
	}})
	if err != nil {
		return err
	}
	if err := r.chains(ctx, false); err != nil {
		return err
	}
	if _, err := r.consumer(ctx, "unchained"); err != nil {
		return err
	}
	if n, err := r.unchained(ctx, r.out.Table); err != nil || n == 0 {
		return fmt.Errorf("no audit record waits to be chained (%w)", err)
	}
	out, err := r.tables.CreateBackup(ctx, &dynamodb.CreateBackupInput{TableName: &r.out.Table, BackupName: aws.String("the-moment")})
	if err != nil {
		return err
	}
	r.backup = aws.ToString(out.BackupDetails.BackupArn)
	return r.chains(ctx, true)
}

// chains has audit records chained, or waiting for it.
func (r *restoring) chains(ctx context.Context, on bool) error {
	found, err := r.functions.ListEventSourceMappings(ctx, &lambda.ListEventSourceMappingsInput{FunctionName: aws.String("gatewright-" + stage + "-auditchain:live")})
	if err != nil {
		return err
	}
	if len(found.EventSourceMappings) != 1 {
		return fmt.Errorf("the function that chains is called by %d streams", len(found.EventSourceMappings))
	}
	_, err = r.functions.UpdateEventSourceMapping(ctx, &lambda.UpdateEventSourceMappingInput{UUID: found.EventSourceMappings[0].UUID, Enabled: &on})
	return err
}

// deployHello deploys the sample.
func (r *restoring) deployHello(ctx context.Context) error {
	var source struct{ UploadURL, DeploymentID string }
	if err := r.must(ctx, http.MethodPost, "/v1/deployments/sources", `{"accountName":"demo","projectName":"hello","branchName":"main"}`, &source); err != nil {
		return err
	}
	archive, err := packed(os.DirFS("examples/hello"))
	if err != nil {
		return err
	}
	in, err := http.NewRequestWithContext(ctx, http.MethodPut, source.UploadURL, bytes.NewReader(archive))
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(in)
	if err != nil {
		return err
	}
	_ = answer.Body.Close()
	return r.built(ctx, source.DeploymentID)
}

// built waits until a build of the sample has ended well.
func (r *restoring) built(ctx context.Context, id string) error {
	var status struct{ Status, URL string }
	err := until(ctx, time.Minute, "the sample's build ends", func() (bool, error) {
		err := r.must(ctx, http.MethodGet, "/v1/accounts/demo/projects/hello/deployment-status/"+id, "", &status)
		return status.Status != "" && status.Status != "IN_PROGRESS", err
	})
	if err != nil || status.Status != "SUCCESS" {
		return fmt.Errorf("the sample's build ends with %q (%w)", status.Status, err)
	}
	u, err := url.Parse(status.URL)
	if err != nil {
		return err
	}
	r.route, r.name = status.URL, strings.SplitN(u.Host, ".", 2)[0]
	return nil
}

// packed packs a project as an upload has to be.
func packed(from fs.FS) ([]byte, error) {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	err := errors.Join(w.AddFS(from), w.Close(), z.Close())
	return out.Bytes(), err
}

// until asks until it is so.
func until(ctx context.Context, longest time.Duration, what string, is func() (bool, error)) error {
	for began := time.Now(); time.Since(began) < longest; {
		done, err := is()
		if done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(200 * time.Millisecond):
		}
	}
	return fmt.Errorf("%s: not within %s", what, longest)
}
