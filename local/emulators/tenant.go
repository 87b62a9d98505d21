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
	"regexp"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/lambda"

	"github.com/gatewright/gatewright/functions"
)

// tenant is the first account of an installation, and what it has there.
type tenant struct {
	key, leaver string // texts of account keys
	leaverID    string
	// texts of consumers' keys; the calls of spent are.
	kept, gone, spent string
	route, name       string // of the deployment
}

// furnish gives the first account what shall be there after a restore, and after a move: keys, consumers, and a deployment that lets a consumer
// call it ten times a year.
func (s *suite) furnish(ctx context.Context) (err error) {
	var made struct{ ID, Key string }
	if err := s.invoke(ctx, `{"do":"create-key","name":"demo","label":"leaver","scopes":"all"}`, &made); err != nil {
		return err
	}
	s.leaver, s.leaverID = made.Key, made.ID
	if err := s.must(ctx, http.MethodPost, bucketPath, `{"name":"hello-consumers","tags":{"project":"hello"}}`, nil); err != nil {
		return err
	}
	for name, text := range map[string]*string{"kept": &s.kept, "gone": &s.gone, "spent": &s.spent} {
		if *text, err = s.consumer(ctx, name); err != nil {
			return err
		}
	}
	return s.deployHello(ctx)
}

// ask sends a request to the management API, and decodes what it answers.
func (s *suite) ask(ctx context.Context, key, method, path, body string, out any) (status int, err error) {
	in, err := http.NewRequestWithContext(ctx, method, s.address(s.out.API)+path, strings.NewReader(body))
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
func (s *suite) must(ctx context.Context, method, path, body string, out any) error {
	status, err := s.ask(ctx, s.key, method, path, body, out)
	if err == nil && status >= http.StatusMultipleChoices {
		err = fmt.Errorf("%s %s is answered with %d", method, path, status)
	}
	return err
}

const bucketPath = "/v1/accounts/demo/key-buckets"

// consumer makes a consumer, and gives the text of its key.
func (s *suite) consumer(ctx context.Context, name string) (string, error) {
	var made json.RawMessage
	if err := s.must(ctx, http.MethodPost, bucketPath+"/hello-consumers/consumers?with-api-key=true", fmt.Sprintf(`{"name":%q}`, name), &made); err != nil {
		return "", err
	}
	found := keyText.FindSubmatch(made)
	if found == nil {
		return "", fmt.Errorf("the consumer %s has no key", name)
	}
	return string(found[1]), nil
}

var keyText = regexp.MustCompile(`"key":"([^"]+)"`)

// deployHello deploys the sample.
func (s *suite) deployHello(ctx context.Context) error {
	var source struct{ UploadURL, DeploymentID string }
	if err := s.must(ctx, http.MethodPost, "/v1/deployments/sources", `{"accountName":"demo","projectName":"hello","branchName":"main"}`, &source); err != nil {
		return err
	}
	archive, err := packedHello()
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
	return s.isBuilt(ctx, source.DeploymentID)
}

// isBuilt waits until a build of the sample has ended well.
func (s *suite) isBuilt(ctx context.Context, id string) error {
	var status struct{ Status, URL string }
	err := until(ctx, "the sample's build ends", func() (bool, error) {
		err := s.must(ctx, http.MethodGet, "/v1/accounts/demo/projects/hello/deployment-status/"+id, "", &status)
		return status.Status != "" && status.Status != "IN_PROGRESS", err
	})
	if err != nil || status.Status != "SUCCESS" {
		return fmt.Errorf("the sample's build ends with %q (%w)", status.Status, err)
	}
	u, err := url.Parse(status.URL)
	if err != nil {
		return err
	}
	s.route, s.name = status.URL, strings.SplitN(u.Host, ".", 2)[0]
	return nil
}

// packedHello packs the sample as an upload has to be, with a year in place of the minute in which its calls are limited: that would be over
// before they are looked at again.
func packedHello() ([]byte, error) {
	sample := os.DirFS("examples/hello")
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	err := fs.WalkDir(sample, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(sample, path)
		if err != nil {
			return err
		}
		text = bytes.Replace(text, []byte(`"timeWindowMinutes": 1,`), []byte(`"timeWindowMinutes": 525600,`), 1)
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: path, Size: int64(len(text)), Mode: 0o644}); err != nil {
			return err
		}
		_, err = w.Write(text)
		return err
	})
	err = errors.Join(err, w.Close(), z.Close())
	return out.Bytes(), err
}

// answers calls the deployment by keys, and compares who is let in: behind a good key stands an upstream that is not
// there, which is another answer than 401.
func (s *suite) answers(ctx context.Context, want map[string]bool) error {
	for key, let := range want {
		status, err := s.calls(ctx, key)
		switch {
		case err != nil:
			return err
		case status == http.StatusNotFound || status == http.StatusInternalServerError:
			return fmt.Errorf("the deployment answers %d", status)
		case (status != http.StatusUnauthorized) != let:
			return fmt.Errorf("with a key (%t) the deployment answers %d", key != "", status)
		}
	}
	return nil
}

// calls calls the deployment by a key, "" for none, and gives the status.
func (s *suite) calls(ctx context.Context, key string) (int, error) {
	u, err := url.Parse(s.route)
	if err != nil {
		return 0, err
	}
	in, err := http.NewRequestWithContext(ctx, http.MethodGet, s.address(s.out.Gateway)+"/hello", nil)
	if err != nil {
		return 0, err
	}
	in.Host = u.Host
	if key != "" {
		in.Header.Set("Authorization", "Bearer "+key)
	}
	answer, err := http.DefaultClient.Do(in)
	if err != nil {
		return 0, err
	}
	return answer.StatusCode, answer.Body.Close()
}

// chains has audit records chained, or waiting for it.
func (s *suite) chains(ctx context.Context, on bool) error { return s.streams(ctx, "auditchain", on) }

// streams has the table's stream call a function, or wait.
func (s *suite) streams(ctx context.Context, function string, on bool) error {
	client := s.lambdaClient()
	found, err := client.ListEventSourceMappings(ctx, &lambda.ListEventSourceMappingsInput{FunctionName: aws.String("gatewright-" + s.stage + "-" + function + ":live")})
	if err != nil {
		return err
	}
	if len(found.EventSourceMappings) != 1 {
		return fmt.Errorf("the function %s is called by %d streams", function, len(found.EventSourceMappings))
	}
	_, err = client.UpdateEventSourceMapping(ctx, &lambda.UpdateEventSourceMappingInput{UUID: found.EventSourceMappings[0].UUID, Enabled: &on})
	return err
}

// calledByItself has streams and schedules call the installation's functions, or not: MiniStack calls them past a reserved concurrency of 0, as AWS does not.
func (s *suite) calledByItself(ctx context.Context, on bool) error {
	for _, f := range functions.Triggered() {
		for _, e := range f.On {
			if !e.StreamRecords {
				continue
			}
			if err := s.streams(ctx, f.Name, on); err != nil {
				return err
			}
		}
	}
	var found struct{ Schedules []struct{ Name string } }
	if err := s.scheduler(ctx, http.MethodGet, "?MaxResults=100", nil, &found); err != nil {
		return err
	}
	if len(found.Schedules) == 0 {
		return errors.New("the installation has no schedules")
	}
	state := map[bool]string{true: "ENABLED", false: "DISABLED"}[on]
	for _, schedule := range found.Schedules {
		at := "/" + schedule.Name
		is := map[string]any{}
		if err := s.scheduler(ctx, http.MethodGet, at, nil, &is); err != nil {
			return err
		}
		is["State"] = state
		if err := s.scheduler(ctx, http.MethodPut, at, is, nil); err != nil {
			return err
		}
	}
	return nil
}

// scheduler asks EventBridge Scheduler of the installation's region, by its protocol: its SDK would come along for three requests.
func (s *suite) scheduler(ctx context.Context, method, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("encode a request: %w", err)
	}
	r, err := http.NewRequestWithContext(ctx, method, s.endpoint+"/schedules"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=test/20260101/"+s.region+"/scheduler/aws4_request, SignedHeaders=host, Signature=0")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s of schedules%s is answered with %s", method, path, answer.Status)
	}
	if out == nil {
		return nil
	}
	return json.NewDecoder(answer.Body).Decode(out)
}

// recoverable has the table be recovered to a point in time, which MiniStack's CloudFormation passes over.
func (s *suite) recoverable(ctx context.Context) error {
	_, err := s.dynamoDB().UpdateContinuousBackups(ctx, &dynamodb.UpdateContinuousBackupsInput{
		TableName: &s.out.Table, PointInTimeRecoverySpecification: &types.PointInTimeRecoverySpecification{PointInTimeRecoveryEnabled: aws.Bool(true)},
	})
	return err
}
