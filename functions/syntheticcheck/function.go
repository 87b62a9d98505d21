// Package syntheticcheck asks an installation what clients ask it, once a minute and from another region: it resolves the names, connects,
// verifies the certificates, sends one management request and one gateway request, and counts which of the two checks pass. Alarms of the
// installation depend on what its own processes and its own region report. These checks depend on neither.
//
// It runs in AWS alone, in a stack of its own, and so is no part of functions.Triggered(): no server links it, and it opens no part of an
// installation. What it is not: a measurement of latency, or a test of deployments of customers.
//
// Read this file first, which has what is checked and reported, and then ask.go, which sends a request and says where it failed. The reasons
// are in docs/decisions/0081.
package syntheticcheck

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/gatewright/gatewright/shared/credential"
	"github.com/gatewright/gatewright/shared/gateway/problem"
	"github.com/gatewright/gatewright/shared/telemetry"
	"github.com/gatewright/gatewright/shared/trigger"
)

// Function declares what calls the function.
var Function = trigger.Function{
	Name: "syntheticcheck",
	Does: "Checks an installation from another region: names, certificates, one management request and one gateway request.",
	On:   []trigger.Event{{Schedule: &trigger.Schedule{Name: "minutely", Every: time.Minute}}},
	// Twice what a check may take, for the start and the parameter.
	Timeout: 2 * Within,
	// The next call checks the same.
	Retries: trigger.Retries{MaxAge: time.Minute},
}

// Within is how long one check may take. API Gateway gives up after 29 seconds, and clients before that.
const Within = 15 * time.Second

// The checks, as a dimension of telemetry.ChecksPassed names them (telemetry.CheckOf).
const (
	Management = "management"
	Gateway    = "gateway"
)

// Certificates names, as a dimension of telemetry.CertificateDays, the certificates that clients of the installation see
// (telemetry.CertificateOf).
const Certificates = "check"

// Account is the name of the account that the key of the check belongs to. It has no projects.
const Account = "gatewright-check"

// Parameter returns the name of the parameter of Parameter Store that contains the key.
func Parameter(stage string) string { return "/gatewright/" + stage + "/check-key" }

// Unserved is the name of a deployment that no installation has: the names of deployments have a branch between the project and the digits.
// It has the form that gateways ask the table for.
const Unserved = "check-0000000"

// The variables of the function.
const (
	VarStage     = "CHECK_STAGE"
	VarAPI       = "CHECK_API"
	VarGateway   = "CHECK_GATEWAY"
	VarParameter = "CHECK_PARAMETER"
)

// Settings are what the function is configured with.
type Settings struct {
	// Stage is the installation's, which metrics are named after.
	Stage string
	// API is the address of the management API, such as https://api.example.com, and Gateway that of a deployment which does not exist.
	API, Gateway string
	// Parameter contains the key.
	Parameter string
}

// Configured reads the settings from the environment, by getenv. The error names each variable that is wrong.
func Configured(getenv func(string) string) (Settings, error) {
	s := Settings{Stage: getenv(VarStage), API: getenv(VarAPI), Gateway: getenv(VarGateway), Parameter: getenv(VarParameter)}
	var wrong []error
	for name, value := range map[string]string{VarStage: s.Stage, VarParameter: s.Parameter} {
		if value == "" {
			wrong = append(wrong, fmt.Errorf("%s is not set", name))
		}
	}
	// The key is sent to the API, which therefore is at https.
	for name, address := range map[string]string{VarAPI: s.API, VarGateway: s.Gateway} {
		u, err := url.Parse(address)
		if err != nil || u.Hostname() == "" || u.Scheme != "https" && (name == VarAPI || u.Scheme != "http") {
			wrong = append(wrong, fmt.Errorf("%s is not an address such as https://api.example.com", name))
		}
	}
	return s, errors.Join(wrong...)
}

// Keys reads the key from where it is kept.
type Keys interface {
	Read(ctx context.Context, name string) (string, error)
}

// Checker checks an installation. It must not be used by several goroutines: Lambda calls a function's process once at a time.
type Checker struct {
	Settings
	Keys Keys
	asker
	log *slog.Logger
	now func() time.Time
	// key is what was read of Keys, "" before the first time and after a reply that refused it.
	key string
}

// New makes a Checker which resolves names as its machine does, and trusts the authorities that its machine trusts.
func New(s Settings, keys Keys, log *slog.Logger, now func() time.Time) *Checker {
	return &Checker{Settings: s, Keys: keys, asker: newAsker(), log: log, now: now}
}

// outcome is the result of a check.
type outcome struct {
	check, host string
	// failed is nil for a check that passed.
	failed *failure
	// until is when the certificate of the host expires; zero if none was seen.
	until time.Time
	took  time.Duration
}

// Handle runs all checks once and logs their results, of which CloudWatch makes metrics. It returns no error: Lambda would count the failure
// of an installation as one of the function.
func (c *Checker) Handle(ctx context.Context, _ json.RawMessage) error {
	var management, gateway outcome
	var both sync.WaitGroup
	both.Go(func() { management = c.timed(ctx, Management, c.API+"/v1/who-am-i", c.management) })
	both.Go(func() { gateway = c.timed(ctx, Gateway, c.Gateway+"/", c.gateway) })
	both.Wait()
	c.report(ctx, management)
	c.report(ctx, gateway)
	return nil
}

func (c *Checker) timed(ctx context.Context, check, address string, run func(context.Context, string) (time.Time, *failure)) outcome {
	ctx, cancel := context.WithTimeout(ctx, c.within)
	defer cancel()
	began := c.now()
	until, failed := run(ctx, address)
	host := ""
	if u, err := url.Parse(address); err == nil {
		host = u.Hostname()
	}
	return outcome{check: check, host: host, failed: failed, until: until, took: c.now().Sub(began)}
}

// management sends the request that needs a key and no scope.
func (c *Checker) management(ctx context.Context, address string) (until time.Time, failed *failure) {
	if c.key == "" {
		key, err := c.Keys.Read(ctx, c.Parameter)
		if err != nil {
			return until, &failure{stepKey, err}
		}
		if !credential.WellFormed(credential.AccountKey, key) {
			return until, &failure{stepKey, fmt.Errorf("the parameter %s does not contain an account key", c.Parameter)}
		}
		c.key = key
	}
	reply, until, failed := c.ask(ctx, address, c.key)
	if failed != nil {
		return until, failed
	}
	if reply.status == http.StatusUnauthorized {
		c.key = "" // the next check reads the key again, which somebody may have replaced
	}
	var caller struct {
		Sub     string `json:"sub"`
		Account string `json:"account"`
	}
	if err := reply.expect(http.StatusOK, "application/json", &caller); err != nil {
		return until, &failure{stepReply, err}
	}
	if caller.Sub == "" || caller.Account != Account {
		return until, &failure{stepReply, fmt.Errorf("the reply does not name the account %s: something else than the management API has replied", Account)}
	}
	return until, nil
}

// gateway sends a request to a deployment that does not exist. The gateway's own reply to it proves that the gateway runs and reads its table.
func (c *Checker) gateway(ctx context.Context, address string) (until time.Time, failed *failure) {
	reply, until, failed := c.ask(ctx, address, "")
	if failed != nil {
		return until, failed
	}
	var got problem.Document
	if err := reply.expect(http.StatusNotFound, problem.ContentType, &got); err != nil {
		return until, &failure{stepReply, err}
	}
	// A deployment that replies 404 has a build, and other servers do not name their requests this way.
	if want := problem.New(http.StatusNotFound, ""); got.Type != want.Type || got.Status != want.Status || got.Trace.RequestID == "" || got.Trace.BuildID != "" {
		return until, &failure{stepReply, errors.New("the reply is not the gateway's for a host without a deployment: something else has replied")}
	}
	return until, nil
}

// expect decodes the JSON of a reply that has a status and a media type.
func (r *reply) expect(status int, kind string, into any) error {
	got, _, err := mime.ParseMediaType(r.contentType)
	if r.status != status || err != nil || got != kind {
		return fmt.Errorf("the reply has the status %d and the type %q, and not %d and %s", r.status, r.contentType, status, kind)
	}
	if err := json.Unmarshal(r.body, into); err != nil {
		return fmt.Errorf("the reply is not JSON: %w", err)
	}
	return nil
}

// maxErrorBytes is how much of an error is logged. A server may send anything.
const maxErrorBytes = 500

func (c *Checker) report(ctx context.Context, o outcome) {
	at := c.now()
	level, passed := slog.LevelInfo, 1
	attrs := []slog.Attr{
		slog.String("check", telemetry.CheckOf(c.Stage, o.check)), slog.String("host", o.host), slog.Float64("took", telemetry.Milliseconds(o.took)),
	}
	if o.failed != nil {
		level, passed = slog.LevelError, 0
		text := credential.Redact(strings.ToValidUTF8(o.failed.err.Error(), "\ufffd"))
		attrs = append(attrs, slog.String("step", o.failed.step), slog.String("error", text[:min(len(text), maxErrorBytes)]))
	}
	c.log.LogAttrs(ctx, level, "check from another region",
		append(attrs, slog.Int(telemetry.ChecksPassed, passed), telemetry.Count(at, telemetry.ChecksPassed, "check"))...)
	if o.until.IsZero() {
		return
	}
	c.log.LogAttrs(ctx, slog.LevelInfo, "certificate expiry",
		slog.String("certificate", telemetry.CertificateOf(c.Stage, Certificates)), slog.String("host", o.host), slog.String("until", o.until.UTC().Format(time.RFC3339)),
		slog.Float64(telemetry.CertificateDays, telemetry.Days(at, o.until)), telemetry.Count(at, telemetry.CertificateDays, "certificate"))
}
