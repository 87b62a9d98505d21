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
	"github.com/gatewright/gatewright/local/grants"
)

// stage is the name of the installation under test.
const stage = "dev"

// suite is the tests on one emulator that runs.
type suite struct {
	emulator, endpoint string
	stage, region      string // of the installation
	dir                string // scratch
	out                outputs
	context            []string // of the deployment, as arguments of the CDK
	tenant
	// apart says that functions run where this machine's loopback is not theirs.
	apart bool
	// programs is a folder with AWS's command line, "" where none is installed here.
	programs string
	// relay is the origin of the relay beside the emulator, "" for none.
	relay string
	// reserved keeps relay's port from others, such as what an emulator starts by and by, until
	// the relay takes it.
	reserved net.Listener
	// tableStream is the stream of a restored table that is deployed with, "" for none.
	tableStream string
}

// outputs are those of the stack, as `cdk deploy --outputs-file` writes them.
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

// step is a piece of the suite's work.
type step struct {
	name string
	do   func(context.Context) error
}

// run deploys the installation and tests it.
func (s *suite) run(ctx context.Context) error {
	does := s.deployed
	if s.emulator == miniStack {
		does = s.moved
	}
	return does(ctx,
		step{"limits of the account", s.limits},
		step{"commands of docs/aws.md", s.operate},
		step{"removals", s.removals},
		step{"warm requests", s.warm},
		step{"scenario suite and schedules", s.tests},
		step{"grants", s.grants},
		step{"restore", s.restoresHere})
}

// restoresHere is the restore where it can be tried: LocalStack's DynamoDB knows no restored tables.
func (s *suite) restoresHere(ctx context.Context) error {
	if s.emulator != miniStack {
		return nil
	}
	return s.restores(ctx)
}

// measure deploys the installation and prints figures of it.
func (s *suite) measure(ctx context.Context) error {
	return s.deployed(ctx, step{"warm requests", s.warm})
}

// recover deploys the installation, and restores it alone.
func (s *suite) recover(ctx context.Context) error {
	return s.deployed(ctx, step{"restore", s.restores})
}

// operated deploys the installation, and types operators' commands alone.
func (s *suite) operated(ctx context.Context) error {
	return s.deployed(ctx, step{"commands of docs/aws.md", s.operate})
}

// move deploys the installation as one that comes from another region, alone.
func (s *suite) move(ctx context.Context) error { return s.moved(ctx) }

// moved deploys the installation as one that comes from another region, and does then what is asked.
func (s *suite) moved(ctx context.Context, then ...step) error {
	return s.does(ctx, append([]step{
		{"build of the CDK app", s.buildApp},
		{"move", s.moves},
	}, then...)...)
}

func (s *suite) buildApp(ctx context.Context) error {
	return runQuietly(ctx, ".", nil, "go", "build", "-o", s.app(), "./infra")
}

// deployed deploys the installation, and does then what is asked.
func (s *suite) deployed(ctx context.Context, then ...step) error {
	return s.does(ctx, append([]step{
		{"build of the CDK app", s.buildApp},
		{"cdk bootstrap", s.bootstrap},
		{"cdk deploy", s.deploy},
		{"first account", s.account},
	}, then...)...)
}

// does takes steps one after the other, in a scratch folder, until one fails.
func (s *suite) does(ctx context.Context, steps ...step) (err error) {
	if s.endpoint == "" {
		return errors.New("AWS_ENDPOINT_URL is not set: it names the emulator")
	}
	if s.dir, err = os.MkdirTemp("", "gatewright-suite-"); err != nil {
		return fmt.Errorf("make a scratch folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(s.dir) }()
	for _, step := range steps {
		if err := timed(s.emulator, step.name, func() error { return step.do(ctx) }); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return nil
}

func (s *suite) app() string   { return filepath.Join(s.dir, "infra") }
func (s *suite) synth() string { return filepath.Join(s.dir, "cdk.out") }
func (s *suite) uses() string  { return filepath.Join(s.dir, "uses") }

// usesThere is what functions record in the region that the installation is moved from.
func (s *suite) usesThere() string { return s.uses() + ".there" }

// env is the environment of a command that works on the installation.
func (s *suite) env() []string { return emulated(s.endpoint, s.region) }

// cdk runs the CDK's command line, which `npm ci --prefix infra` installs.
func (s *suite) cdk(ctx context.Context, dir string, args ...string) error {
	binary, err := filepath.Abs("infra/node_modules/.bin/cdk")
	if err != nil {
		return err
	}
	return runQuietly(ctx, dir, s.env(), append([]string{binary, "--no-notices"}, args...)...)
}

// bootstrap makes what the CDK itself needs in an account. Away from cdk.json it
// asks no app of ours.
func (s *suite) bootstrap(ctx context.Context) error {
	return s.cdk(ctx, s.dir, "bootstrap", "aws://"+account+"/"+s.region)
}

func (s *suite) deploy(ctx context.Context) error {
	settings := append(s.settings(), "usesFile="+s.uses())
	if s.tableStream != "" {
		settings = append(settings, "tableStream="+s.tableStream)
	}
	if !s.apart && s.relay == "" {
		if err := s.reserve(ctx); err != nil {
			return err
		}
	}
	if s.relay != "" {
		settings = append(settings, "relayUrl="+s.relay)
	}
	s.context = inContext(settings)
	return s.deployApp(ctx, s.app(), append([]string{"--output", s.synth()}, s.context...)...)
}

// settings are the context of an emulator's installation, as far as it is each one's.
func (s *suite) settings() []string {
	architecture := map[string]string{"amd64": "x86_64", "arm64": "arm64"}[runtime.GOARCH]
	return []string{
		"stage=" + s.stage, "emulator=" + s.emulator, "architecture=" + architecture, "privateUpstreams=true",
		"gatewayUrl=http://{deployment}.apis.example.com", "apiUrl=http://api.example.com", "cron=* * * * *",
	}
}

// inContext are the CDK's arguments for settings.
func inContext(settings []string) (args []string) {
	for _, setting := range settings {
		args = append(args, "--context", setting)
	}
	return args
}

// deployApp deploys what an app, or a folder that it was synthesised into, describes, and reads the outputs.
func (s *suite) deployApp(ctx context.Context, app string, more ...string) error {
	file := filepath.Join(s.dir, "outputs.json")
	args := append([]string{"deploy", "--app", app, "--require-approval", "never", "--outputs-file", file}, more...)
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

// address is where the emulators serve a REST API.
func (s *suite) address(api string) string {
	return s.endpoint + "/_aws/execute-api/" + api + "/" + s.stage
}

// account has the function that makes accounts make one, and a second key of it,
// which it lists and revokes.
func (s *suite) account(ctx context.Context) error {
	var made struct{ Key string }
	if err := s.invoke(ctx, `{"name":"demo"}`, &made); err != nil {
		return err
	}
	s.key = made.Key
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
		return fmt.Errorf("of two keys %v are listed, and %q is revoked in place of %q", listed.Keys, revoked.ID, second.ID)
	}
	return nil
}

// limits has the function that makes accounts set a limit of one, and take it back.
func (s *suite) limits(ctx context.Context) error {
	for _, asked := range []struct {
		in    string
		value int // 0 for the installation's
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
		if err := s.invoke(ctx, asked.in, &out); err != nil {
			return err
		}
		i := slices.IndexFunc(out.Limits, func(l limit) bool { return l.Name == "projects" })
		if i < 0 || out.Limits[i].Own != (asked.value > 0) || asked.value > 0 && out.Limits[i].Value != asked.value {
			return fmt.Errorf("after %s the limits are %v", asked.in, out.Limits)
		}
	}
	return nil
}

// invoke calls the function that makes accounts, as who has the IAM right to.
func (s *suite) invoke(ctx context.Context, in string, out any) error {
	client := s.lambdaClient()
	answer, err := client.Invoke(ctx, &lambda.InvokeInput{FunctionName: aws.String("gatewright-" + s.stage + "-accounts"), Qualifier: aws.String("live"), Payload: []byte(in)})
	switch {
	case err != nil:
		return err
	case answer.FunctionError != nil:
		return fmt.Errorf("the function fails (%s): %s", *answer.FunctionError, answer.Payload)
	}
	if err := json.Unmarshal(answer.Payload, out); err != nil {
		return fmt.Errorf("the function answers %s: %w", answer.Payload, err)
	}
	return nil
}

// warm prints how long a request takes through the emulator's API Gateway, once
// its function runs.
func (s *suite) warm(ctx context.Context) error {
	const n = 100
	var took []time.Duration
	for range n {
		began := time.Now()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.address(s.out.API)+"/v1/who-am-i", nil)
		if err != nil {
			return err
		}
		r.Header.Set("Authorization", "Bearer "+s.key)
		out, err := http.DefaultClient.Do(r)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, out.Body)
		_ = out.Body.Close()
		if err != nil {
			return err
		}
		if out.StatusCode != http.StatusOK {
			return fmt.Errorf("who-am-i answers %s", out.Status)
		}
		took = append(took, time.Since(began))
	}
	cold := took[0]
	slices.Sort(took)
	fmt.Printf("- `GET /v1/who-am-i` through the API Gateway of %s, %d times: %.1f ms at the median, %.1f ms at p99, the first %.0f ms\n",
		s.emulator, n, milliseconds(took[n/2]), milliseconds(took[n*99/100]), milliseconds(cold))
	return nil
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }

// tests runs the scenario suite and waits, meanwhile, for the schedules.
func (s *suite) tests(ctx context.Context) error {
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
	// Sixteen stories and more start all functions at once, and on two busy cores
	// an emulator's DynamoDB then answers nobody within the store's patience. LocalStack's
	// answers more slowly than MiniStack's: with six stories it took more than that on slow cores.
	stories := 3
	if s.emulator == miniStack {
		stories = 6
		env = append(env, "GATEWRIGHT_SCENARIO_DECODED_PATHS=true")
	}
	args := []string{"go", "test", "-count=1", "-timeout=15m", fmt.Sprintf("-parallel=%d", stories)}
	var group sync.WaitGroup
	var scenario, schedule error
	group.Go(func() { scenario = runVisibly(ctx, env, append(args, "./local/scenario")...) })
	group.Go(func() { schedule = s.schedules(ctx) })
	group.Wait()
	return errors.Join(scenario, schedule)
}

// errGrants says that the emulator is not to blame.
var errGrants = errors.New("declarations (Uses) and what the suite exercises disagree")

// grants compares what the functions asked of AWS with what their roles allow.
// A LocalStack in Docker writes into its containers, where it is not seen.
func (s *suite) grants(context.Context) error {
	if _, err := os.Stat(s.uses()); err != nil {
		if s.emulator == miniStack {
			return fmt.Errorf("nothing was recorded: %w", err)
		}
		fmt.Fprintln(os.Stderr, s.emulator+": the functions' records are not on this machine; make test-ministack compares them")
		return nil
	}
	granted, err := grants.Granted(os.DirFS(s.synth()))
	if err != nil {
		return err
	}
	file, err := os.Open(s.uses())
	if err != nil {
		return fmt.Errorf("open the record: %w", err)
	}
	defer func() { _ = file.Close() }()
	used, err := grants.Used(file, s.out.Table, s.out.Bucket)
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "%s: %d uses by %d functions\n", s.emulator, used.Len(), len(used))
	err = grants.Missing(granted, used)
	if s.emulator == miniStack { // elsewhere no schedule fires, and its function does less
		err = grants.Compare(granted, used, rare()...)
	}
	if err = errors.Join(err, s.spaces()); err != nil {
		return fmt.Errorf("%w:\n%w", errGrants, err)
	}
	return nil
}

// spaces compares the spaces of the table that functions reached with those that their roles are held to.
func (s *suite) spaces() error {
	fences, err := grants.Fenced(os.DirFS(s.synth()))
	if err != nil {
		return err
	}
	record, err := os.ReadFile(s.uses())
	if err != nil {
		return fmt.Errorf("read the record: %w", err)
	}
	// The installation that this one was moved from has made the root key, as this would have.
	moved, err := os.ReadFile(s.usesThere())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the record of the other region: %w", err)
	}
	moved = bytes.ReplaceAll(moved, []byte("gatewright-"+oldStage+"-"), []byte("gatewright-"+stage+"-"))
	reached, err := grants.Reaches(bytes.NewReader(slices.Concat(record, moved)))
	if err != nil {
		return err
	}
	if s.emulator != miniStack { // elsewhere the suite does less
		return grants.MissingSpaces(fences, reached)
	}
	// What groups reach is compared both ways where each operation's good requests are asked (package functions): scenarios ask some of them.
	ofGroups := make(grants.Fences)
	for _, g := range functions.Groups() {
		name := "gatewright-" + stage + "-" + g.Name
		ofGroups[name] = fences[name]
		delete(fences, name)
	}
	return errors.Join(grants.MissingSpaces(ofGroups, reached), grants.CompareSpaces(fences, reached, rareSpaces()...))
}
