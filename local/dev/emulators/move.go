package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/lambda"

	"github.com/gatewright/gatewright/shared/core/audit/proof"
	"github.com/gatewright/gatewright/shared/core/audit/trail"
	"github.com/gatewright/gatewright/shared/core/blob"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/rootkey"
	"github.com/gatewright/gatewright/shared/resource/accounts"
	"github.com/gatewright/gatewright/shared/testing/readme"
)

// The stage and the region of the installation that moves to another region. MiniStack
// separates regions like AWS: only the names of buckets and roles are global.
const (
	oldStage  = "old"
	oldRegion = "eu-central-1"
)

// moveHeading is a heading in docs/aws.md. The blocks of commands below this heading are the steps of the move.
const moveHeading = "Move to another region"

// The steps of the move, as indices of moveScenario.steps. moveSteps is their number.
const (
	stepNames = iota
	stepStop
	stepExport
	stepImport
	stepStart
	stepVerify // not run here, because MiniStack has no domain names
	stepCopy
	moveSteps
)

// quietPeriod is the time without changes after which an installation counts
// as stopped. It is longer than the time between two writes of a job.
const quietPeriod = 3 * time.Second

// moveScenario is the scenario of an installation that moves to another region
// with the operator's own commands (docs/aws.md, "Move to another region").
type moveScenario struct {
	*suite        // the installation in the new region
	old    *suite // the installation in the old region
	// steps are the steps of the page. exportDir is the folder for the export
	// and its key. program is the path of the command that exports and imports.
	steps              []readme.Step
	exportDir, program string
	// oldDigest is the digest of the old installation after it was stopped.
	// quotasPath is the API path of a customer's remaining quotas.
	oldDigest, quotasPath string
	auditEndBefore        proof.Commitment // the end of the first account's audit log
}

// testMove creates and uses an installation in another region, and moves its data to
// the installation under test. The rest of the suite tests the moved installation.
func (s *suite) testMove(ctx context.Context) error {
	m := &moveScenario{suite: s, exportDir: filepath.Join(s.dir, "elsewhere")}
	m.old = &suite{
		emulator: s.emulator, endpoint: s.endpoint, stage: oldStage, region: oldRegion, dir: s.dir,
		toolsDir: s.toolsDir,
	}
	if err := os.Mkdir(m.exportDir, 0o700); err != nil {
		return fmt.Errorf("make a folder for the export: %w", err)
	}
	for _, step := range []step{
		{"installation in " + oldRegion, m.install},
		{"test data", m.createData},
		{"cdk bootstrap", s.bootstrap},
		{"cdk deploy", s.deploy},
		{"build of the commands", m.build},
		{"stop and export", m.export},
		{"refusals", m.checkRefusals},
		{"import, killed", m.killImport},
		{"import and start", m.importAndStart},
		{"moved data", m.check},
	} {
		if err := timed(s.emulator, step.name, func() error { return step.do(ctx) }); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return nil
}

// install deploys the installation that moves. Its schedules fire once a year.
func (m *moveScenario) install(ctx context.Context) error {
	if err := m.old.bootstrap(ctx); err != nil {
		return err
	}
	settings := append(m.old.settings(), "cron=0 0 1 1 *", "usesFile="+m.oldUsesFile())
	if err := m.old.deployApp(ctx, m.app(),
		append([]string{"--output", m.synth()}, contextArgs(settings)...)...); err != nil {
		return err
	}
	// Remove the templates of the old installation, because the new installation is
	// synthesized into the same folder. The other files in the folder are used again.
	templates, err := filepath.Glob(filepath.Join(m.synth(), "gatewright-"+oldStage+"*"))
	for _, file := range templates {
		err = errors.Join(err, os.Remove(file))
	}
	return err
}

// createData creates the data that must exist after the move, and uses some of the quotas.
func (m *moveScenario) createData(ctx context.Context) error {
	if err := m.old.createAccount(ctx); err != nil {
		return err
	}
	if err := m.old.createTestData(ctx); err != nil {
		return err
	}
	m.testAccount = m.old.testAccount
	if err := m.old.invoke(ctx, `{"do":"set-limit","name":"demo","limit":"projects","value":7}`, &struct{}{}); err != nil {
		return err
	}
	// These ten calls use up the limit of exhaustedKey. A gateway that
	// does not know the deployment yet may respond to the first calls.
	for range 10 {
		if status, err := m.old.callDeployment(ctx, m.exhaustedKey); err != nil || status == http.StatusTooManyRequests {
			return fmt.Errorf("one of a consumer's first ten calls: status = %d, error %w, want no status 429", status, err)
		}
	}
	if status, err := m.old.callDeployment(ctx, m.exhaustedKey); err != nil || status != http.StatusTooManyRequests {
		return fmt.Errorf("a consumer's eleventh call: status = %d, error %w, want the status 429", status, err)
	}
	return m.createCustomer(ctx)
}

const meteringPath = "/v1/metering"

// createCustomer creates a customer with a plan, and uses a part of the plan's quota.
func (m *moveScenario) createCustomer(ctx context.Context) error {
	var bucket, proPlan, basicPlan, subscription struct{ ID string }
	err := m.old.mustCallAPI(ctx, http.MethodPost, meteringPath, "", &bucket)
	for _, request := range []struct {
		path, body string
		out        *struct{ ID string }
	}{
		{"/plans", `{"label":"Pro","planExternalId":"pro","meters":{"requests":{"max":20}}}`, &proPlan},
		{"/plans", `{"label":"Basic","planExternalId":"basic","meters":{"requests":{"max":3}}}`, &basicPlan},
		{
			"/subscriptions",
			`{"planIds":["PRO"],"planExternalIds":["pro"],"status":"active","type":"periodic","renewalStrategy":"yearly",
			"region":"us-east1","customerKey":"moved","subscriptionExternalId":"sub_1","customerExternalId":"cus_1"}`,
			&subscription,
		},
	} {
		if err == nil {
			err = m.old.mustCallAPI(ctx, http.MethodPost, meteringPath+"/"+bucket.ID+request.path,
				strings.Replace(request.body, "PRO", proPlan.ID, 1), request.out)
		}
	}
	if err != nil {
		return err
	}
	path := meteringPath + "/" + bucket.ID + "/subscriptions/" + subscription.ID
	if err := m.old.mustCallAPI(ctx, http.MethodPatch, path, `{"planExternalIds":["basic"],"prorate":0.5}`,
		nil); err != nil {
		return err
	}
	m.quotasPath = path + "/quotas"
	return nil
}

// build builds the commands that the scenario runs, and reads the steps of the page.
func (m *moveScenario) build(ctx context.Context) (err error) {
	if m.program, err = buildCommand(ctx, "gatewright-server"); err == nil {
		_, err = buildCommand(ctx, "recovery")
	}
	if err != nil {
		return err
	}
	m.steps, err = readme.ReadSteps(filepath.Join("docs", "aws.md"), moveHeading, strings.NewReplacer(
		"/elsewhere", m.exportDir, "production", oldStage, "frankfurt", m.stage, "us-east-1", oldRegion, "eu-central-1",
		m.region))
	if err == nil && len(m.steps) != moveSteps {
		err = fmt.Errorf("docs/aws.md has %d steps, and this knows %d", len(m.steps), moveSteps)
	}
	return err
}

// buildCommand builds a command with the Makefile and returns its path.
func buildCommand(ctx context.Context, name string) (path string, err error) {
	path = filepath.Join("dist", name)
	env := append(os.Environ(), "MAKEFLAGS=", "MAKELEVEL=")
	if err := runQuietly(ctx, ".", env, "make", "-s", path); err != nil {
		return "", err
	}
	return filepath.Abs(path)
}

// runPageSteps runs steps of the page, after the step that sets the names of resources.
func (m *moveScenario) runPageSteps(ctx context.Context, steps ...readme.Step) error {
	_, err := readme.Run(ctx, ".", m.operatorEnv(m.toolsDir), append([]readme.Step{m.steps[stepNames]}, steps...))
	return err
}

// export runs the steps that stop both installations and export the old one.
func (m *moveScenario) export(ctx context.Context) (err error) {
	if m.auditEndBefore, err = m.old.auditEnd(ctx, proof.Commitment{}); err != nil {
		return err
	}
	// Leave an audit record that is not chained yet: the new installation must chain it.
	if err := m.old.setChaining(ctx, false); err != nil {
		return err
	}
	if err := m.old.mustCallAPI(ctx, http.MethodPost, bucketPath, `{"name":"unchained"}`, nil); err != nil {
		return err
	}
	if err := m.runPageSteps(ctx, m.steps[stepStop], m.steps[stepExport]); err != nil {
		return err
	}
	if err := errors.Join(m.checkStopped(ctx, true), m.old.setTriggers(ctx, false),
		m.setTriggers(ctx, false)); err != nil {
		return err
	}
	// As in AWS, calls that began before the stop continue after it. Wait until they have ended.
	var unchangedSince time.Time
	return waitUntil(ctx, "the old installation stands still", func() (bool, error) {
		current, err := m.old.digest(ctx)
		if current != m.oldDigest {
			m.oldDigest, unchangedSince = current, time.Now()
		}
		return time.Since(unchangedSince) > quietPeriod, err
	})
}

// checkStopped checks three functions of each installation. Those of the old installation must be stopped. Those of the
// new installation must be stopped if both is true, and must not be stopped otherwise.
func (m *moveScenario) checkStopped(ctx context.Context, both bool) error {
	for _, s := range []*suite{m.old, m.suite} {
		client := s.lambdaClient()
		for _, name := range []string{"accounts", "builder", "gateway"} {
			f, err := client.GetFunction(ctx,
				&lambda.GetFunctionInput{FunctionName: aws.String("gatewright-" + s.stage + "-" + name)})
			if err != nil {
				return err
			}
			isStopped := f.Concurrency != nil && f.Concurrency.ReservedConcurrentExecutions != nil &&
				*f.Concurrency.ReservedConcurrentExecutions == 0
			if want := s == m.old || both; isStopped != want {
				return fmt.Errorf("the function %s of %s is stopped: %t, want %t", name, s.stage, isStopped, want)
			}
		}
	}
	return nil
}

// digest returns a digest of an installation's items and objects. It
// ignores items that expire within an hour, because the table deletes them.
func (s *suite) digest(ctx context.Context) (string, error) {
	var all []string
	cutoff := time.Now().Add(time.Hour)
	err := store.EachItem(ctx, store.Connect(s.awsConfig(), s.endpoint), s.out.Table, nil, func(item store.Item) error {
		if store.Expired(item, cutoff) {
			return nil
		}
		text, err := json.Marshal(item)
		all = append(all, string(text))
		return err
	})
	if err != nil {
		return "", err
	}
	for o, err := range blob.New(s.awsConfig(), blob.Options{Name: s.out.Bucket, Endpoint: s.endpoint}).List(ctx, "") {
		if err != nil {
			return "", err
		}
		all = append(all, o.Key+" "+o.ETag)
	}
	slices.Sort(all)
	return fmt.Sprintf("%d parts, %x", len(all), sha256.Sum256([]byte(strings.Join(all, "\n")))), nil
}

// parts returns the parts of the installation that are necessary to read its audit logs.
func (s *suite) parts() installation.Parts {
	table := s.table()
	keys := kms.NewFromConfig(s.awsConfig(), func(o *kms.Options) { o.BaseEndpoint = &s.endpoint })
	return installation.Parts{
		Table: table, Key: rootkey.New(keys, s.out.Key, table, time.Now), Random: rand.Reader,
		Now: time.Now,
	}
}

// auditEnd waits until all audit records of the first account are chained, and at least one of them comes after
// earlierEnd. It verifies that the log continues from earlierEnd, and returns the present end of the log.
func (s *suite) auditEnd(ctx context.Context, earlierEnd proof.Commitment) (end proof.Commitment, err error) {
	var accountID string
	err = store.EachItem(ctx, store.Connect(s.awsConfig(), s.endpoint), s.out.Table, nil, func(item store.Item) error {
		var a accounts.Account
		if !accounts.IsAccount(store.KeyOf(item)) {
			return nil
		}
		if err := store.Decode(item, &a); err != nil {
			return err
		}
		if a.Name == "demo" {
			accountID = a.ID
		}
		return nil
	})
	if err != nil {
		return end, err
	}
	err = waitUntil(ctx, "all audit records are chained", func() (bool, error) {
		r, err := trail.Open(s.parts()).Verify(ctx, accountID, earlierEnd)
		if err == nil && r.Break != "" {
			err = fmt.Errorf("the audit log is broken: %s", r.Break)
		}
		end = r.End
		return r.Waiting == 0 && r.End.Seq > earlierEnd.Seq, err
	})
	return end, err
}
