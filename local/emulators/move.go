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

	"github.com/gatewright/gatewright/internal/readme"
	"github.com/gatewright/gatewright/shared/accounts"
	"github.com/gatewright/gatewright/shared/audit/proof"
	"github.com/gatewright/gatewright/shared/audit/trail"
	"github.com/gatewright/gatewright/shared/blob"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/rootkey"
)

// The installation that moves, and the region that it comes from. MiniStack keeps what is of a region apart, all but the names of buckets and of roles, as AWS does.
const (
	oldStage  = "old"
	oldRegion = "eu-central-1"
)

// movePage is the heading in docs/aws.md. Its steps are the blocks of commands below it.
const movePage = "Move to another region"

const (
	stepNames = iota
	stepStop
	stepExport
	stepImport
	stepStart
	stepTry // is not typed: MiniStack has no domain names
	stepCopy
	moveSteps
)

// standsStill is how long nothing changes in an installation, before it counts as stopped: longer than a job waits between its writes.
const standsStill = 3 * time.Second

// moving is a story of an installation that moves to another region by the operator's own commands (docs/aws.md, "Move to another region").
type moving struct {
	*suite        // the installation in the new region
	old    *suite // in the one that it leaves
	// steps are the commands of the page; elsewhere is where its file and the file's key lie, and program what writes and reads them.
	steps              []readme.Step
	elsewhere, program string
	// before is what the old installation was when it was stopped, and quotas what a customer had left.
	before, quotas string
	noted          proof.Commitment // the end of the first account's audit log
}

// moves has the installation come from another region, where it was made and used: its first account, keys and
// deployment are those of there. What comes after in the suite works on what has moved.
func (s *suite) moves(ctx context.Context) error {
	m := &moving{suite: s, elsewhere: filepath.Join(s.dir, "elsewhere")}
	m.old = &suite{emulator: s.emulator, endpoint: s.endpoint, stage: oldStage, region: oldRegion, dir: s.dir, programs: s.programs}
	if err := os.Mkdir(m.elsewhere, 0o700); err != nil {
		return fmt.Errorf("make a folder for the export: %w", err)
	}
	for _, step := range []step{
		{"installation in " + oldRegion, m.install},
		{"use of it", m.use},
		{"cdk bootstrap", s.bootstrap},
		{"cdk deploy", s.deploy},
		{"build of the commands", m.build},
		{"stop and export", m.export},
		{"refusals", m.refusals},
		{"import, killed", m.killed},
		{"import and start", m.arrive},
		{"what has moved", m.check},
	} {
		if err := timed(s.emulator, step.name, func() error { return step.do(ctx) }); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return nil
}

// install deploys the installation that moves, whose schedules fire once a year.
func (m *moving) install(ctx context.Context) error {
	if err := m.old.bootstrap(ctx); err != nil {
		return err
	}
	settings := append(m.old.settings(), "cron=0 0 1 1 *", "usesFile="+m.usesThere())
	if err := m.old.deployApp(ctx, m.app(), append([]string{"--output", m.synth()}, inContext(settings)...)...); err != nil {
		return err
	}
	// The other installation is described into the same folder, which has what is uploaded in place; of this one it has nothing more to say.
	described, err := filepath.Glob(filepath.Join(m.synth(), "gatewright-"+oldStage+"*"))
	for _, file := range described {
		err = errors.Join(err, os.Remove(file))
	}
	return err
}

// use makes what shall be there afterwards, some of it used up.
func (m *moving) use(ctx context.Context) error {
	if err := m.old.account(ctx); err != nil {
		return err
	}
	if err := m.old.furnish(ctx); err != nil {
		return err
	}
	m.tenant = m.old.tenant
	if err := m.old.invoke(ctx, `{"do":"set-limit","name":"demo","limit":"projects","value":7}`, &struct{}{}); err != nil {
		return err
	}
	// A call is counted when it passed the limit: the first of them may still be on their way to a gateway that knows no deployment yet.
	for range 10 {
		if status, err := m.old.calls(ctx, m.spent); err != nil || status == http.StatusTooManyRequests {
			return fmt.Errorf("a consumer's first calls are answered %d (%w)", status, err)
		}
	}
	if status, err := m.old.calls(ctx, m.spent); err != nil || status != http.StatusTooManyRequests {
		return fmt.Errorf("a consumer's eleventh call is answered %d (%w)", status, err)
	}
	return m.sell(ctx)
}

const meteringPath = "/v1/metering"

// sell has a customer with a part of a plan left.
func (m *moving) sell(ctx context.Context) error {
	var bucket, pro, basic, sold struct{ ID string }
	err := m.old.must(ctx, http.MethodPost, meteringPath, "", &bucket)
	for _, asked := range []struct {
		path, body string
		out        *struct{ ID string }
	}{
		{"/plans", `{"label":"Pro","planExternalId":"pro","meters":{"requests":{"max":20}}}`, &pro},
		{"/plans", `{"label":"Basic","planExternalId":"basic","meters":{"requests":{"max":3}}}`, &basic},
		{"/subscriptions", `{"planIds":["PRO"],"planExternalIds":["pro"],"status":"active","type":"periodic","renewalStrategy":"yearly","region":"us-east1",
			"customerKey":"moved","subscriptionExternalId":"sub_1","customerExternalId":"cus_1"}`, &sold},
	} {
		if err == nil {
			err = m.old.must(ctx, http.MethodPost, meteringPath+"/"+bucket.ID+asked.path, strings.Replace(asked.body, "PRO", pro.ID, 1), asked.out)
		}
	}
	if err != nil {
		return err
	}
	at := meteringPath + "/" + bucket.ID + "/subscriptions/" + sold.ID
	if err := m.old.must(ctx, http.MethodPatch, at, `{"planExternalIds":["basic"],"prorate":0.5}`, nil); err != nil {
		return err
	}
	m.quotas = at + "/quotas"
	return nil
}

// build has the commands that are typed.
func (m *moving) build(ctx context.Context) (err error) {
	if m.program, err = built(ctx, "gatewright-server"); err == nil {
		_, err = built(ctx, "recovery")
	}
	if err != nil {
		return err
	}
	m.steps, err = readme.Page(filepath.Join("docs", "aws.md"), movePage, strings.NewReplacer(
		"/elsewhere", m.elsewhere, "production", oldStage, "frankfurt", m.stage, "us-east-1", oldRegion, "eu-central-1", m.region))
	if err == nil && len(m.steps) != moveSteps {
		err = fmt.Errorf("docs/aws.md has %d steps, and this knows %d", len(m.steps), moveSteps)
	}
	return err
}

// built is a command of the Makefile's.
func built(ctx context.Context, name string) (path string, err error) {
	path = filepath.Join("dist", name)
	env := append(os.Environ(), "MAKEFLAGS=", "MAKELEVEL=")
	if err := runQuietly(ctx, ".", env, "make", "-s", path); err != nil {
		return "", err
	}
	return filepath.Abs(path)
}

// typesSteps types commands of the page, after those that name things.
func (m *moving) typesSteps(ctx context.Context, steps ...readme.Step) error {
	_, err := readme.Run(ctx, ".", m.operatorEnv(m.programs), append([]readme.Step{m.steps[stepNames]}, steps...))
	return err
}

// export types what stops both and exports the old one.
func (m *moving) export(ctx context.Context) (err error) {
	if m.noted, err = m.old.auditEnd(ctx, proof.Commitment{}); err != nil {
		return err
	}
	// An audit record that nobody has chained is for the new one to chain.
	if err := m.old.chains(ctx, false); err != nil {
		return err
	}
	if err := m.old.must(ctx, http.MethodPost, bucketPath, `{"name":"unchained"}`, nil); err != nil {
		return err
	}
	if err := m.typesSteps(ctx, m.steps[stepStop], m.steps[stepExport]); err != nil {
		return err
	}
	if err := errors.Join(m.stopped(ctx, true), m.old.calledByItself(ctx, false), m.calledByItself(ctx, false)); err != nil {
		return err
	}
	// What was called before goes on after the stop, as in AWS.
	var since time.Time
	return until(ctx, "the old installation stands still", func() (bool, error) {
		is, err := m.old.digest(ctx)
		if is != m.before {
			m.before, since = is, time.Now()
		}
		return time.Since(since) > standsStill, err
	})
}

// stopped asks whether all functions of both are stopped, or those of the old one alone.
func (m *moving) stopped(ctx context.Context, both bool) error {
	for _, s := range []*suite{m.old, m.suite} {
		client := s.lambdaClient()
		for _, name := range []string{"accounts", "builder", "gateway"} {
			f, err := client.GetFunction(ctx, &lambda.GetFunctionInput{FunctionName: aws.String("gatewright-" + s.stage + "-" + name)})
			if err != nil {
				return err
			}
			is := f.Concurrency != nil && f.Concurrency.ReservedConcurrentExecutions != nil && *f.Concurrency.ReservedConcurrentExecutions == 0
			if want := s == m.old || both; is != want {
				return fmt.Errorf("the function %s of %s is stopped: %t", name, s.stage, is)
			}
		}
	}
	return nil
}

// digest is what an installation has: its items and objects, without what is about to expire, which a table removes by itself.
func (s *suite) digest(ctx context.Context) (string, error) {
	var all []string
	soon := time.Now().Add(time.Hour)
	err := store.EachItem(ctx, store.Connect(s.sdk(), s.endpoint), s.out.Table, nil, func(item store.Item) error {
		if store.Expired(item, soon) {
			return nil
		}
		text, err := json.Marshal(item)
		all = append(all, string(text))
		return err
	})
	if err != nil {
		return "", err
	}
	for o, err := range blob.New(s.sdk(), blob.Options{Name: s.out.Bucket, Endpoint: s.endpoint}).List(ctx, "") {
		if err != nil {
			return "", err
		}
		all = append(all, o.Key+" "+o.ETag)
	}
	slices.Sort(all)
	return fmt.Sprintf("%d parts, %x", len(all), sha256.Sum256([]byte(strings.Join(all, "\n")))), nil
}

// parts are an installation, as far as its audit logs need it.
func (s *suite) parts() installation.Parts {
	table := s.table()
	keys := kms.NewFromConfig(s.sdk(), func(o *kms.Options) { o.BaseEndpoint = &s.endpoint })
	return installation.Parts{Table: table, Key: rootkey.New(keys, s.out.Key, table, time.Now), Random: rand.Reader, Now: time.Now}
}

// auditEnd waits until the first account's audit records are chained, unless nobody chains them, verifies the log from an end that was noted, and gives its own.
func (s *suite) auditEnd(ctx context.Context, noted proof.Commitment) (end proof.Commitment, err error) {
	var accountID string
	err = store.EachItem(ctx, store.Connect(s.sdk(), s.endpoint), s.out.Table, nil, func(item store.Item) error {
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
	err = until(ctx, "all audit records are chained", func() (bool, error) {
		r, err := trail.Open(s.parts()).Verify(ctx, accountID, noted)
		if err == nil && r.Break != "" {
			err = fmt.Errorf("the audit log is broken: %s", r.Break)
		}
		end = r.End
		return r.Waiting == 0 && r.End.Seq > noted.Seq, err
	})
	return end, err
}
