// Package syntheticcheck checks an installation from another region, once a minute. Like a client, it resolves the
// names, connects and verifies the certificates. It sends one request to the management API and one to the gateway. For
// each of these two checks, it reports whether the check has passed. The other alarms of an installation depend on
// metrics from the installation's own processes and region. The alarms for these checks depend on neither.
//
// The function runs only in AWS, in a separate stack, and does not use the parts of an installation. So it is not in
// functions.Triggered(), and gatewright-server does not link it. It does not measure latency, and does not check
// deployments of customers.
//
// Read this file first, which has the checks and their reports. Then read client.go, which sends a request and returns
// the step that failed. The reasons are in docs/decisions/0081.
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

	"github.com/gatewright/gatewright/shared/base/telemetry"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/problem"
	"github.com/gatewright/gatewright/shared/format/credential"
	"github.com/gatewright/gatewright/shared/runtime/trigger"
)

// Function declares the events that call the function.
var Function = trigger.Function{
	Name: "syntheticcheck",
	Description: "Checks an installation from another region: names, certificates, one management request and one " +
		"gateway request.",
	Events: []trigger.Event{{Schedule: &trigger.Schedule{Name: "minutely", Interval: time.Minute}}},
	// The checks need up to one Timeout. The rest is for the start of the process and the report.
	Timeout: 2 * Timeout,
	// No retries are needed, because the next call makes the same checks.
	Retries: trigger.Retries{MaxAge: time.Minute},
}

// Timeout is the maximum duration of one check. API Gateway ends a request after 29 seconds, and clients usually
// earlier.
const Timeout = 15 * time.Second

// The names of the checks. The metric telemetry.ChecksPassed has a dimension with the stage and the name of the check
// (telemetry.CheckDimension).
const (
	Management = "management"
	Gateway    = "gateway"
)

// Certificates is the name for the certificates that this function sees. The metric telemetry.CertificateDays has a
// dimension with the stage and this name (telemetry.CertificateDimension).
const Certificates = "check"

// Account is the name of the account to which the key of the check belongs. The account has no projects.
const Account = "gatewright-check"

// Parameter returns the name of the parameter in Parameter Store that contains the key.
func Parameter(stage string) string { return "/gatewright/" + stage + "/check-key" }

// UnknownDeployment is the name of a deployment that no installation has: real names have a branch between the project
// and the digits. It has the form of a deployment's name, so that gateways look it up in the table.
const UnknownDeployment = "check-0000000"

// The environment variables of the function.
const (
	VarStage     = "CHECK_STAGE"
	VarAPI       = "CHECK_API"
	VarGateway   = "CHECK_GATEWAY"
	VarParameter = "CHECK_PARAMETER"
)

// Settings are the function's settings.
type Settings struct {
	// Stage is the installation's stage, which the names of metrics contain.
	Stage string
	// API is the address of the management API, such as https://api.example.com.
	// Gateway is the address of a deployment that does not exist.
	API, Gateway string
	// Parameter is the name of the parameter that contains the key.
	Parameter string
}

// ReadSettings reads the settings from the environment with getenv. The error names each invalid variable.
func ReadSettings(getenv func(string) string) (Settings, error) {
	s := Settings{
		Stage: getenv(VarStage), API: getenv(VarAPI), Gateway: getenv(VarGateway),
		Parameter: getenv(VarParameter),
	}
	var errs []error
	for name, value := range map[string]string{VarStage: s.Stage, VarParameter: s.Parameter} {
		if value == "" {
			errs = append(errs, fmt.Errorf("%s is not set", name))
		}
	}
	// The address of the API must use https, because the key is sent to it.
	for name, address := range map[string]string{VarAPI: s.API, VarGateway: s.Gateway} {
		u, err := url.Parse(address)
		if err != nil || u.Hostname() == "" || u.Scheme != "https" && (name == VarAPI || u.Scheme != "http") {
			errs = append(errs, fmt.Errorf("%s is not an address such as https://api.example.com", name))
		}
	}
	return s, errors.Join(errs...)
}

// Keys reads the key of the check from Parameter Store. name is the name of the parameter.
type Keys interface {
	Read(ctx context.Context, name string) (string, error)
}

// Checker checks an installation. Do not call Handle concurrently: Lambda runs only one call of a process at a time.
type Checker struct {
	Settings
	Keys Keys
	client
	log *slog.Logger
	now func() time.Time
	// key is the key that Keys has returned. It is "" before the first check, and after the API has refused the key.
	key string
}

// New creates a Checker. It uses the resolver and the certificate authorities of the machine.
func New(s Settings, keys Keys, log *slog.Logger, now func() time.Time) *Checker {
	return &Checker{Settings: s, Keys: keys, client: newClient(), log: log, now: now}
}

// outcome is the result of a check.
type outcome struct {
	check, host string
	// failure is nil for a check that passed.
	failure *failure
	// expiry is the expiry of the host's certificate. It is zero if no certificate was seen.
	expiry   time.Time
	duration time.Duration
}

// Handle runs all checks once and logs their results, which CloudWatch turns into metrics. It returns no error:
// otherwise Lambda would count the failure of a check as a failure of the function.
func (c *Checker) Handle(ctx context.Context, _ json.RawMessage) error {
	var management, gateway outcome
	var wg sync.WaitGroup
	wg.Go(func() { management = c.runTimed(ctx, Management, c.API+"/v1/who-am-i", c.checkManagement) })
	wg.Go(func() { gateway = c.runTimed(ctx, Gateway, c.Gateway+"/", c.checkGateway) })
	wg.Wait()
	c.report(ctx, management)
	c.report(ctx, gateway)
	return nil
}

func (c *Checker) runTimed(
	ctx context.Context, check, address string, run func(context.Context, string) (time.Time, *failure),
) outcome {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	start := c.now()
	expiry, fail := run(ctx, address)
	host := ""
	if u, err := url.Parse(address); err == nil {
		host = u.Hostname()
	}
	return outcome{check: check, host: host, failure: fail, expiry: expiry, duration: c.now().Sub(start)}
}

// checkManagement sends a request that needs a key, but no scope, to the management API.
func (c *Checker) checkManagement(ctx context.Context, address string) (expiry time.Time, fail *failure) {
	if c.key == "" {
		key, err := c.Keys.Read(ctx, c.Parameter)
		if err != nil {
			return expiry, &failure{stepKey, err}
		}
		if !credential.WellFormed(credential.AccountKey, key) {
			return expiry, &failure{stepKey, fmt.Errorf("the parameter %s does not contain an account key", c.Parameter)}
		}
		c.key = key
	}
	resp, expiry, fail := c.get(ctx, address, c.key)
	if fail != nil {
		return expiry, fail
	}
	if resp.status == http.StatusUnauthorized {
		c.key = "" // read the key again for the next check, because it may have been replaced
	}
	var caller struct {
		Sub     string `json:"sub"`
		Account string `json:"account"`
	}
	if err := resp.decode(http.StatusOK, "application/json", &caller); err != nil {
		return expiry, &failure{stepResponse, err}
	}
	if caller.Sub == "" || caller.Account != Account {
		return expiry,
			&failure{
				stepResponse,
				fmt.Errorf("the reply does not name the account %s: something else than the management API has replied", Account),
			}
	}
	return expiry, nil
}

// checkGateway sends a request to a deployment that does not exist. The gateway's 404 response proves that the gateway
// runs and reads its table.
func (c *Checker) checkGateway(ctx context.Context, address string) (expiry time.Time, fail *failure) {
	resp, expiry, fail := c.get(ctx, address, "")
	if fail != nil {
		return expiry, fail
	}
	var got problem.Document
	if err := resp.decode(http.StatusNotFound, problem.ContentType, &got); err != nil {
		return expiry, &failure{stepResponse, err}
	}
	// Check that the 404 is from the gateway itself: a 404 from a deployment contains a build, and other servers have
	// other request IDs.
	if want := problem.New(http.StatusNotFound, ""); got.Type != want.Type || got.Status != want.Status ||
		got.Trace.RequestID == "" || got.Trace.BuildID != "" {
		return expiry,
			&failure{
				stepResponse,
				errors.New("the reply is not the gateway's for a host without a deployment: something else has replied"),
			}
	}
	return expiry, nil
}

// decode decodes the JSON of a response into target. It returns an error if the response has another status or media
// type.
func (r *httpResponse) decode(status int, mediaType string, target any) error {
	got, _, err := mime.ParseMediaType(r.contentType)
	if r.status != status || err != nil || got != mediaType {
		return fmt.Errorf("the reply has the status %d and the type %q, and not %d and %s", r.status, r.contentType, status,
			mediaType)
	}
	if err := json.Unmarshal(r.body, target); err != nil {
		return fmt.Errorf("the reply is not JSON: %w", err)
	}
	return nil
}

// maxErrorBytes is the maximum length of a logged error. Errors can contain text from a server, which can be longer.
const maxErrorBytes = 500

func (c *Checker) report(ctx context.Context, o outcome) {
	now := c.now()
	level, passedCount := slog.LevelInfo, 1
	attrs := []slog.Attr{
		slog.String("check", telemetry.CheckDimension(c.Stage, o.check)), slog.String("host", o.host),
		slog.Float64("took", telemetry.Milliseconds(o.duration)),
	}
	if o.failure != nil {
		level, passedCount = slog.LevelError, 0
		text := credential.Redact(strings.ToValidUTF8(o.failure.err.Error(), "\ufffd"))
		attrs = append(attrs, slog.String("step", o.failure.step), slog.String("error", text[:min(len(text), maxErrorBytes)]))
	}
	c.log.LogAttrs(ctx, level, "check from another region",
		append(attrs, slog.Int(telemetry.ChecksPassed, passedCount),
			telemetry.Count(now, telemetry.ChecksPassed, "check"))...)
	if o.expiry.IsZero() {
		return
	}
	c.log.LogAttrs(ctx, slog.LevelInfo, "certificate expiry",
		slog.String("certificate", telemetry.CertificateDimension(c.Stage, Certificates)), slog.String("host", o.host),
		slog.String("until", o.expiry.UTC().Format(time.RFC3339)),
		slog.Float64(telemetry.CertificateDays, telemetry.Days(now, o.expiry)),
		telemetry.Count(now, telemetry.CertificateDays, "certificate"))
}
