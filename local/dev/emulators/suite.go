package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"

	"github.com/gatewright/gatewright/functions"
	"github.com/gatewright/gatewright/local/dev/grants"
)

// stage is the stage of the installation under test. It is a part of the names of the stack and the functions.
const stage = "dev"

// suite runs the tests with a running emulator.
type suite struct {
	emulator, endpoint string
	stage, region      string // of the installation under test
	dir                string // a temporary folder
	out                outputs
	cdkContext         []string // the context of the deployment, as arguments of the CDK
	testAccount
	// isolated reports whether functions cannot reach the loopback interface of this machine.
	isolated bool
	// toolsDir is the folder of the AWS command line, or "" if it is not installed.
	toolsDir string
	// relay is the origin of the relay, or "" without a relay. It is set before the relay starts.
	relay string
	// relayListener reserves the relay's port until the relay is started, so that no other process takes it.
	relayListener net.Listener
	// tableStream is the stream of the restored table, with which
	// the installation is deployed. It is "" before a restore.
	tableStream string
}

// outputs has the outputs of the stack in the format of `cdk deploy --outputs-file`.
type outputs struct {
	API     string `json:"ApiId"`
	Gateway string `json:"GatewayId"`
	Table   string `json:"TableName"`
	Bucket  string `json:"BucketName"`
	Key     string `json:"RootKeyId"`
}

func newSuite(emulator, endpoint string) *suite {
	return &suite{emulator: emulator, endpoint: endpoint, stage: stage, region: region}
}

// step is a step of the suite.
type step struct {
	name string
	do   func(context.Context) error
}

// run creates the installation and tests it. On MiniStack, the installation is moved here from another region.
func (s *suite) run(ctx context.Context) error {
	runAfter := s.runAfterDeploy
	if s.emulator == miniStack {
		runAfter = s.runAfterMove
	}
	return runAfter(ctx,
		step{"limits of the account", s.testLimits},
		step{"commands of docs/aws.md", s.testOperatorCommands},
		step{"removals", s.checkRemovals},
		step{"warm requests", s.measureWarm},
		step{"scenario suite and schedules", s.testScenarios},
		step{"grants", s.checkGrants},
		step{"restore", s.testRestoreIfSupported})
}

// testRestoreIfSupported tests the restore on MiniStack only, because LocalStack cannot restore tables.
func (s *suite) testRestoreIfSupported(ctx context.Context) error {
	if s.emulator != miniStack {
		return nil
	}
	return s.testRestore(ctx)
}

// measure deploys the installation and prints measured figures.
func (s *suite) measure(ctx context.Context) error {
	return s.runAfterDeploy(ctx, step{"warm requests", s.measureWarm})
}

// runRestore deploys the installation and tests only the restore.
func (s *suite) runRestore(ctx context.Context) error {
	return s.runAfterDeploy(ctx, step{"restore", s.testRestore})
}

// runOperatorCommands deploys the installation and tests only the operators' commands.
func (s *suite) runOperatorCommands(ctx context.Context) error {
	return s.runAfterDeploy(ctx, step{"commands of docs/aws.md", s.testOperatorCommands})
}

// runMove tests only the move of an installation from another region.
func (s *suite) runMove(ctx context.Context) error { return s.runAfterMove(ctx) }

// runAfterMove moves an installation from another region, and then runs further steps.
func (s *suite) runAfterMove(ctx context.Context, steps ...step) error {
	return s.runSteps(ctx, append([]step{
		{"build of the CDK app", s.buildApp},
		{"move", s.testMove},
	}, steps...)...)
}

func (s *suite) buildApp(ctx context.Context) error {
	return runQuietly(ctx, ".", nil, "go", "build", "-o", s.app(), "./infra")
}

// runAfterDeploy deploys the installation, and then runs further steps.
func (s *suite) runAfterDeploy(ctx context.Context, steps ...step) error {
	return s.runSteps(ctx, append([]step{
		{"build of the CDK app", s.buildApp},
		{"cdk bootstrap", s.bootstrap},
		{"cdk deploy", s.deploy},
		{"first account", s.createAccount},
	}, steps...)...)
}

// runSteps runs steps in order, with a temporary folder, until a step fails.
func (s *suite) runSteps(ctx context.Context, steps ...step) (err error) {
	if s.endpoint == "" {
		return errors.New("AWS_ENDPOINT_URL is not set: it names the emulator")
	}
	if s.dir, err = os.MkdirTemp("", "gatewright-suite-"); err != nil {
		return fmt.Errorf("make a temporary folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(s.dir) }()
	for _, step := range steps {
		if err := timed(s.emulator, step.name, func() error { return step.do(ctx) }); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return nil
}

// app, synth and usesFile return the paths of the CDK app, of the folder with the synthesized templates, and of the
// file with the recorded requests of functions to AWS.
func (s *suite) app() string      { return filepath.Join(s.dir, "infra") }
func (s *suite) synth() string    { return filepath.Join(s.dir, "cdk.out") }
func (s *suite) usesFile() string { return filepath.Join(s.dir, "uses") }

// oldUsesFile returns the path of the file with the recorded
// requests of the old installation's functions (moveScenario).
func (s *suite) oldUsesFile() string { return s.usesFile() + ".there" }

// env returns the environment for a command that uses the installation.
func (s *suite) env() []string { return emulatorEnv(s.endpoint, s.region) }

// cdk runs the CDK's command line, which `npm ci --prefix infra` installs.
func (s *suite) cdk(ctx context.Context, dir string, args ...string) error {
	binary, err := filepath.Abs("infra/node_modules/.bin/cdk")
	if err != nil {
		return err
	}
	return runQuietly(ctx, dir, s.env(), append([]string{binary, "--no-notices"}, args...)...)
}

// bootstrap creates the resources that the CDK needs in an account. It runs the
// CDK outside of the folder of cdk.json, so that the CDK does not run our app.
func (s *suite) bootstrap(ctx context.Context) error {
	return s.cdk(ctx, s.dir, "bootstrap", "aws://"+account+"/"+s.region)
}

// deploy deploys the CDK app of this checkout. At its first call it reserves a port for the relay, unless functions
// cannot reach this machine.
func (s *suite) deploy(ctx context.Context) error {
	settings := append(s.settings(), "usesFile="+s.usesFile())
	if s.tableStream != "" {
		settings = append(settings, "tableStream="+s.tableStream)
	}
	if !s.isolated && s.relay == "" {
		if err := s.reserveRelayPort(ctx); err != nil {
			return err
		}
	}
	if s.relay != "" {
		settings = append(settings, "relayUrl="+s.relay)
	}
	s.cdkContext = contextArgs(settings)
	return s.deployApp(ctx, s.app(), append([]string{"--output", s.synth()}, s.cdkContext...)...)
}

// settings returns the settings of the CDK context that are the same for all installations on emulators.
func (s *suite) settings() []string {
	architecture := map[string]string{"amd64": "x86_64", "arm64": "arm64"}[runtime.GOARCH]
	return []string{
		"stage=" + s.stage, "emulator=" + s.emulator, "architecture=" + architecture, "privateUpstreams=true",
		"gatewayUrl=http://{deployment}.apis.example.com", "apiUrl=http://api.example.com", "cron=* * * * *",
	}
}

// contextArgs returns settings as arguments of the CDK.
func contextArgs(settings []string) (args []string) {
	for _, setting := range settings {
		args = append(args, "--context", setting)
	}
	return args
}

// deployApp deploys a CDK app, or a folder with synthesized templates, and reads the outputs.
func (s *suite) deployApp(ctx context.Context, app string, extra ...string) error {
	file := filepath.Join(s.dir, "outputs.json")
	args := append([]string{"deploy", "--app", app, "--require-approval", "never", "--outputs-file", file}, extra...)
	if err := s.cdk(ctx, ".", args...); err != nil {
		return err
	}
	text, err := os.ReadFile(file) //nolint:gosec // G304: our own file
	if err != nil {
		return fmt.Errorf("read the stack's outputs: %w", err)
	}
	stacks := map[string]outputs{}
	if err := json.Unmarshal(text, &stacks); err != nil {
		return fmt.Errorf("decode the stack's outputs: %w", err)
	}
	s.out = stacks["gatewright-"+s.stage]
	if s.out.API == "" || s.out.Gateway == "" || s.out.Table == "" {
		return fmt.Errorf("the stack's outputs lack an API or the table: %s", text)
	}
	return nil
}

// address returns the URL at which the emulator serves a REST API.
func (s *suite) address(api string) string {
	return s.endpoint + "/_aws/execute-api/" + api + "/" + s.stage
}

// createAccount invokes the accounts function to create an account, to create
// a second key of the account, to list the keys, and to revoke the second key.
func (s *suite) createAccount(ctx context.Context) error {
	var created struct{ Key string }
	if err := s.invoke(ctx, `{"name":"demo"}`, &created); err != nil {
		return err
	}
	s.key = created.Key
	var second, revoked struct{ ID string }
	if err := s.invoke(ctx, `{"do":"create-key","name":"demo","label":"second","scopes":"all"}`, &second); err != nil {
		return err
	}
	var listed struct{ Keys []struct{ ID string } }
	if err := s.invoke(ctx, `{"do":"list-keys","name":"demo"}`, &listed); err != nil {
		return err
	}
	if err := s.invoke(ctx, fmt.Sprintf(`{"do":"revoke-key","name":"demo","id":%q}`, second.ID), &revoked); err != nil {
		return err
	}
	if s.key == "" || len(listed.Keys) != 2 || revoked.ID != second.ID {
		return fmt.Errorf("first key = %q, list-keys = %v, revoke-key = %q, want a key, 2 keys and %q", s.key, listed.Keys,
			revoked.ID, second.ID)
	}
	return nil
}

// testLimits invokes the accounts function to set and reset a limit of an account.
func (s *suite) testLimits(ctx context.Context) error {
	for _, change := range []struct {
		payload string
		value   int // 0 for the installation's default
	}{
		{`{"do":"set-limit","name":"demo","limit":"projects","value":7}`, 7},
		{`{"do":"reset-limit","name":"demo","limit":"projects"}`, 0},
	} {
		type limit struct {
			Name  string
			Value int
			Own   bool
		}
		var out struct{ Limits []limit }
		if err := s.invoke(ctx, change.payload, &out); err != nil {
			return err
		}
		i := slices.IndexFunc(out.Limits, func(l limit) bool { return l.Name == "projects" })
		if i < 0 || out.Limits[i].Own != (change.value > 0) || change.value > 0 && out.Limits[i].Value != change.value {
			return fmt.Errorf("limits after %s = %v, want the limit projects with its own value %d (0 for no own value)",
				change.payload, out.Limits, change.value)
		}
	}
	return nil
}

// invoke invokes the accounts function directly, and decodes the result into out.
func (s *suite) invoke(ctx context.Context, payload string, out any) error {
	client := s.lambdaClient()
	resp, err := client.Invoke(ctx, &lambda.InvokeInput{
		FunctionName: aws.String("gatewright-" + s.stage + "-accounts"),
		Qualifier:    aws.String("live"), Payload: []byte(payload),
	})
	switch {
	case err != nil:
		return err
	case resp.FunctionError != nil:
		return fmt.Errorf("the function fails (%s): %s", *resp.FunctionError, resp.Payload)
	}
	if err := json.Unmarshal(resp.Payload, out); err != nil {
		return fmt.Errorf("the function answers %s: %w", resp.Payload, err)
	}
	return nil
}

// measureWarm prints the durations of 100 requests through the emulator's API Gateway to one function: the median, the
// 99th percentile, and the first request, which can start the function.
func (s *suite) measureWarm(ctx context.Context) error {
	const n = 100
	var durations []time.Duration
	for range n {
		start := time.Now()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.address(s.out.API)+"/v1/who-am-i", nil)
		if err != nil {
			return err
		}
		r.Header.Set("Authorization", "Bearer "+s.key)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if err != nil {
			return err
		}
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("GET /v1/who-am-i: status = %s, want 200", resp.Status)
		}
		durations = append(durations, time.Since(start))
	}
	cold := durations[0]
	slices.Sort(durations)
	fmt.Printf("- `GET /v1/who-am-i` through the API Gateway of %s, %d times: %.1f ms at the median, %.1f ms at p99, "+
		"the first %.0f ms\n",
		s.emulator, n, milliseconds(durations[n/2]), milliseconds(durations[n*99/100]), milliseconds(cold))
	return nil
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }

// testScenarios runs the scenario suite, and concurrently waits for the schedules.
func (s *suite) testScenarios(ctx context.Context) error {
	relay, err := s.startRelay(ctx)
	if err != nil {
		return err
	}
	if relay != nil {
		defer relay.Stop()
	}
	env := append(os.Environ(),
		"GATEWRIGHT_SCENARIO_API="+s.address(s.out.API), "GATEWRIGHT_SCENARIO_GATEWAY="+s.address(s.out.Gateway),
		"GATEWRIGHT_SCENARIO_KEY="+s.key, "GATEWRIGHT_SCENARIO_RELAY="+s.relay)
	// With sixteen or more parallel scenarios, all functions start at the same time. On two busy cores, an emulator's
	// DynamoDB then exceeds the store's timeout. LocalStack's DynamoDB is slower: on slow cores, six scenarios exceeded
	// the timeout.
	parallel := 3
	if s.emulator == miniStack {
		parallel = 6
		env = append(env, "GATEWRIGHT_SCENARIO_DECODED_PATHS=true")
	}
	args := []string{"go", "test", "-count=1", "-timeout=15m", fmt.Sprintf("-parallel=%d", parallel)}
	var group sync.WaitGroup
	var scenarioErr, scheduleErr error
	group.Go(func() { scenarioErr = runWithOutput(ctx, env, append(args, "./internal/system/scenario")...) })
	group.Go(func() { scheduleErr = s.testSchedules(ctx) })
	group.Wait()
	return errors.Join(scenarioErr, scheduleErr)
}

// errGrants is the error for a wrong declaration: the product is at fault, and not the emulator.
var errGrants = errors.New("declarations (Uses) and what the suite exercises disagree")

// checkGrants compares the functions' requests to AWS with the grants of their roles. It does nothing
// for LocalStack in Docker, whose functions write the requests to a file in their containers.
func (s *suite) checkGrants(context.Context) error {
	if _, err := os.Stat(s.usesFile()); err != nil {
		if s.emulator == miniStack {
			return fmt.Errorf("nothing was recorded: %w", err)
		}
		fmt.Fprintln(os.Stderr, s.emulator+": the functions' records are not on this machine; make test-ministack "+
			"compares them")
		return nil
	}
	granted, err := grants.ReadGrants(os.DirFS(s.synth()))
	if err != nil {
		return err
	}
	file, err := os.Open(s.usesFile())
	if err != nil {
		return fmt.Errorf("open the record: %w", err)
	}
	defer func() { _ = file.Close() }()
	used, err := grants.ReadUses(file, s.out.Table, s.out.Bucket)
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "%s: %d uses by %d functions\n", s.emulator, used.Len(), len(used))
	err = grants.Missing(granted, used)
	if s.emulator == miniStack { // on LocalStack, schedules do not fire, so some grants are not used
		err = grants.Compare(granted, used, rareGrants()...)
	}
	if err = errors.Join(err, s.checkPrefixes()); err != nil {
		return fmt.Errorf("%w:\n%w", errGrants, err)
	}
	return nil
}

// checkPrefixes compares the key prefixes that functions have used with the key prefixes that their roles allow.
func (s *suite) checkPrefixes() error {
	restrictions, err := grants.ReadRestrictions(os.DirFS(s.synth()))
	if err != nil {
		return err
	}
	record, err := os.ReadFile(s.usesFile())
	if err != nil {
		return fmt.Errorf("read the record: %w", err)
	}
	// The functions of the old installation have created the root key. Without the
	// move, the functions of this installation would have used these key prefixes.
	oldRecord, err := os.ReadFile(s.oldUsesFile())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the record of the other region: %w", err)
	}
	oldRecord = bytes.ReplaceAll(oldRecord, []byte("gatewright-"+oldStage+"-"), []byte("gatewright-"+stage+"-"))
	used, err := grants.ReadUsedPrefixes(bytes.NewReader(slices.Concat(record, oldRecord)))
	if err != nil {
		return err
	}
	if s.emulator != miniStack { // on LocalStack, the suite does not use all key prefixes
		return grants.MissingPrefixes(restrictions, used)
	}
	// For groups of operations, the tests of package functions already check that each allowed key prefix
	// is used, with valid requests for every operation. Scenarios send only some of these requests.
	groupRestrictions := make(grants.Restrictions)
	for _, g := range functions.Groups() {
		name := "gatewright-" + stage + "-" + g.Name
		groupRestrictions[name] = restrictions[name]
		delete(restrictions, name)
	}
	return errors.Join(grants.MissingPrefixes(groupRestrictions, used),
		grants.ComparePrefixes(restrictions, used, rarePrefixes()...))
}
