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

// testAccount is the first account of an installation, and its data.
type testAccount struct {
	// key and revokedKey are texts of account keys. restoreScenario revokes revokedKey.
	key, revokedKey string
	revokedKeyID    string
	// keptKey, deletedKey and exhaustedKey are texts of consumers' keys. restoreScenario deletes
	// the consumer of deletedKey. moveScenario uses up the limit of exhaustedKey.
	keptKey, deletedKey, exhaustedKey string
	deploymentURL, deploymentName     string
}

// createTestData creates data in the first account: an account key, consumers, and a deployment that a consumer
// can call ten times a year. The scenarios check this data after a restore and after a move.
func (s *suite) createTestData(ctx context.Context) (err error) {
	var created struct{ ID, Key string }
	if err := s.invoke(ctx, `{"do":"create-key","name":"demo","label":"leaver","scopes":"all"}`, &created); err != nil {
		return err
	}
	s.revokedKey, s.revokedKeyID = created.Key, created.ID
	if err := s.mustCallAPI(ctx, http.MethodPost, bucketPath, `{"name":"hello-consumers","tags":{"project":"hello"}}`,
		nil); err != nil {
		return err
	}
	for name, text := range map[string]*string{"kept": &s.keptKey, "gone": &s.deletedKey, "spent": &s.exhaustedKey} {
		if *text, err = s.createConsumer(ctx, name); err != nil {
			return err
		}
	}
	return s.deployHello(ctx)
}

// callAPI sends a request to the management API and returns the status. If out is not nil, it decodes the body of a
// successful response into out.
func (s *suite) callAPI(ctx context.Context, key, method, path, body string, out any) (status int, err error) {
	req, err := http.NewRequestWithContext(ctx, method, s.address(s.out.API)+path, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Authorization", "Bearer "+key)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err == nil && out != nil && resp.StatusCode < http.StatusMultipleChoices {
		err = json.Unmarshal(text, out)
	}
	return resp.StatusCode, err
}

// mustCallAPI calls callAPI with the first account's key. It returns an error if the status is not 2xx.
func (s *suite) mustCallAPI(ctx context.Context, method, path, body string, out any) error {
	status, err := s.callAPI(ctx, s.key, method, path, body, out)
	if err == nil && status >= http.StatusMultipleChoices {
		err = fmt.Errorf("%s %s: status = %d, want 2xx", method, path, status)
	}
	return err
}

const bucketPath = "/v1/accounts/demo/key-buckets"

// createConsumer creates a consumer, and returns the text of its key.
func (s *suite) createConsumer(ctx context.Context, name string) (string, error) {
	var created json.RawMessage
	if err := s.mustCallAPI(ctx, http.MethodPost, bucketPath+"/hello-consumers/consumers?with-api-key=true",
		fmt.Sprintf(`{"name":%q}`, name), &created); err != nil {
		return "", err
	}
	match := keyPattern.FindSubmatch(created)
	if match == nil {
		return "", fmt.Errorf("the consumer %s has no key", name)
	}
	return string(match[1]), nil
}

var keyPattern = regexp.MustCompile(`"key":"([^"]+)"`)

// deployHello deploys the sample project hello.
func (s *suite) deployHello(ctx context.Context) error {
	var source struct{ UploadURL, DeploymentID string }
	if err := s.mustCallAPI(ctx, http.MethodPost, "/v1/deployments/sources",
		`{"accountName":"demo","projectName":"hello","branchName":"main"}`, &source); err != nil {
		return err
	}
	archive, err := packHello()
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, source.UploadURL, bytes.NewReader(archive))
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	_ = resp.Body.Close()
	return s.waitBuilt(ctx, source.DeploymentID)
}

// waitBuilt waits until a build of the sample has ended, and returns an error if the build failed. Otherwise it sets
// s.deploymentURL and s.deploymentName.
func (s *suite) waitBuilt(ctx context.Context, id string) error {
	var status struct{ Status, URL string }
	err := waitUntil(ctx, "the sample's build ends", func() (bool, error) {
		err := s.mustCallAPI(ctx, http.MethodGet, "/v1/accounts/demo/projects/hello/deployment-status/"+id, "", &status)
		return status.Status != "" && status.Status != "IN_PROGRESS", err
	})
	if err != nil {
		return err
	}
	if status.Status != "SUCCESS" {
		return fmt.Errorf("status of the sample's build = %q, want %q", status.Status, "SUCCESS")
	}
	u, err := url.Parse(status.URL)
	if err != nil {
		return err
	}
	s.deploymentURL, s.deploymentName = status.URL, strings.SplitN(u.Host, ".", 2)[0]
	return nil
}

// packHello returns the sample project as an archive for an upload. It extends the time window of
// the sample's limit from a minute to a year, because the scenario takes longer than a minute.
func packHello() ([]byte, error) {
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
		if err := w.WriteHeader(&tar.Header{
			Typeflag: tar.TypeReg, Name: path, Size: int64(len(text)),
			Mode: 0o644,
		}); err != nil {
			return err
		}
		_, err = w.Write(text)
		return err
	})
	err = errors.Join(err, w.Close(), z.Close())
	return out.Bytes(), err
}

// checkKeys calls the deployment with each key of want. It returns an error unless the deployment accepts exactly the
// keys whose value is true. The key "" means a call without a key. A rejected key gets the status 401. An accepted key
// gets another status, because the upstream does not exist.
func (s *suite) checkKeys(ctx context.Context, want map[string]bool) error {
	for key, accepted := range want {
		status, err := s.callDeployment(ctx, key)
		switch {
		case err != nil:
			return err
		case status == http.StatusNotFound || status == http.StatusInternalServerError:
			return fmt.Errorf("GET /hello: status = %d, want that of a served deployment: neither 404 nor 500", status)
		case (status != http.StatusUnauthorized) != accepted:
			name := map[string]string{s.keptKey: "keptKey", s.deletedKey: "deletedKey", "": "no key"}[key]
			return fmt.Errorf("GET /hello with %s: status = %d, want 401: %t", name, status, !accepted)
		}
	}
	return nil
}

// callDeployment calls the deployment with a key, or without a key if key is "", and returns the status.
func (s *suite) callDeployment(ctx context.Context, key string) (int, error) {
	u, err := url.Parse(s.deploymentURL)
	if err != nil {
		return 0, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.address(s.out.Gateway)+"/hello", nil)
	if err != nil {
		return 0, err
	}
	req.Host = u.Host
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

// setChaining enables or disables the chaining of audit records.
func (s *suite) setChaining(ctx context.Context, enabled bool) error {
	return s.setEventSourceMapping(ctx, "auditchain", enabled)
}

// setEventSourceMapping enables or disables the event source mapping through which the table's stream calls a function.
func (s *suite) setEventSourceMapping(ctx context.Context, function string, enabled bool) error {
	client := s.lambdaClient()
	mappings, err := client.ListEventSourceMappings(ctx,
		&lambda.ListEventSourceMappingsInput{FunctionName: aws.String("gatewright-" + s.stage + "-" + function + ":live")})
	if err != nil {
		return err
	}
	if len(mappings.EventSourceMappings) != 1 {
		return fmt.Errorf("the function %s has %d event source mappings, want 1", function, len(mappings.EventSourceMappings))
	}
	_, err = client.UpdateEventSourceMapping(ctx,
		&lambda.UpdateEventSourceMappingInput{UUID: mappings.EventSourceMappings[0].UUID, Enabled: &enabled})
	return err
}

// setTriggers enables or disables the event source mappings and the schedules that call the installation's functions.
// Unlike AWS, MiniStack calls a function even if its reserved concurrency is 0.
func (s *suite) setTriggers(ctx context.Context, enabled bool) error {
	for _, f := range functions.Triggered() {
		for _, e := range f.Events {
			if !e.FromStream {
				continue
			}
			if err := s.setEventSourceMapping(ctx, f.Name, enabled); err != nil {
				return err
			}
		}
	}
	var listing struct{ Schedules []struct{ Name string } }
	if err := s.callScheduler(ctx, http.MethodGet, "?MaxResults=100", nil, &listing); err != nil {
		return err
	}
	if len(listing.Schedules) == 0 {
		return errors.New("the installation has no schedules")
	}
	state := map[bool]string{true: "ENABLED", false: "DISABLED"}[enabled]
	for _, schedule := range listing.Schedules {
		path := "/" + schedule.Name
		definition := map[string]any{}
		if err := s.callScheduler(ctx, http.MethodGet, path, nil, &definition); err != nil {
			return err
		}
		definition["State"] = state
		if err := s.callScheduler(ctx, http.MethodPut, path, definition, nil); err != nil {
			return err
		}
	}
	return nil
}

// callScheduler sends a request to EventBridge Scheduler in the installation's
// region. It does not use the SDK, to avoid a dependency for only three requests.
func (s *suite) callScheduler(ctx context.Context, method, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("encode a request: %w", err)
	}
	r, err := http.NewRequestWithContext(ctx, method, s.endpoint+"/schedules"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=test/20260101/"+
		s.region+"/scheduler/aws4_request, SignedHeaders=host, Signature=0")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s /schedules%s: status = %s, want 200", method, path, resp.Status)
	}
	if out == nil {
		return nil
	}
	return json.NewDecoder(resp.Body).Decode(out)
}

// enableRecovery enables point-in-time recovery of the table, which MiniStack's CloudFormation ignores.
func (s *suite) enableRecovery(ctx context.Context) error {
	_, err := s.dynamoDB().UpdateContinuousBackups(ctx, &dynamodb.UpdateContinuousBackupsInput{
		TableName:                        &s.out.Table,
		PointInTimeRecoverySpecification: &types.PointInTimeRecoverySpecification{PointInTimeRecoveryEnabled: aws.Bool(true)},
	})
	return err
}
