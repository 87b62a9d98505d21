package commands_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gatewright/gatewright/client/call"
	"github.com/gatewright/gatewright/client/commands"
	"github.com/gatewright/gatewright/client/exit"
	"github.com/gatewright/gatewright/client/profile"
	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
	"github.com/gatewright/gatewright/shared/format/credential"
	"github.com/gatewright/gatewright/shared/testing/golden"
)

// result has the exit code and the outputs of a command line.
type result struct {
	code     exit.Code
	out, err string
}

// fixture is an app without a terminal, with its own profiles, and with an API that records each request.
type fixture struct {
	*testing.T
	url, key, profiles string // the API's address, its account key, and the path of the file of profiles
	env                map[string]string
	requests           []string // each with its method, URL and body
	// onSleep is called for each wait, and its error is the result of the wait. If it is nil, the app really waits.
	onSleep func(context.Context, time.Duration) error
	// now is the app's clock, nil for the machine's clock.
	now func() time.Time
}

func (fx *fixture) sleep(ctx context.Context, d time.Duration) error {
	if fx.onSleep == nil {
		return call.Sleep(ctx, d)
	}
	return fx.onSleep(ctx, d)
}

// newFixture returns a fixture whose API has the key buckets a to e. The bucket b has the consumers a to e.
func newFixture(t *testing.T) *fixture {
	t.Helper()
	return newFixtureWith(t, func(w http.ResponseWriter, r *http.Request, _ string) {
		switch r.URL.Path {
		case "/v1/accounts/acme/key-buckets":
			servePage(w, r, false)
		case "/v1/accounts/acme/key-buckets/b/consumers":
			servePage(w, r, true)
		default:
			_, _ = io.WriteString(w, `{}`)
		}
	})
}

// newFixtureWith returns a fixture with an API. The API refuses requests without the fixture's key, responds to
// /v1/who-am-i, and passes all other requests to handle.
func newFixtureWith(t *testing.T, handle func(w http.ResponseWriter, r *http.Request, body string)) *fixture {
	t.Helper()
	fx := &fixture{
		T: t, key: credential.New(credential.AccountKey, ids.NewSource(storetest.Random(t), nil)),
		profiles: filepath.Join(t.TempDir(), "profiles.json"),
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fx.requests = append(fx.requests, r.Method+" "+r.RequestURI+" "+string(body))
		if r.Header.Get("Authorization") != "Bearer "+fx.key {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"type":"x","title":"Unauthorized","status":401,"detail":"No such key."}`)
			return
		}
		if r.URL.Path == "/v1/who-am-i" {
			_, _ = io.WriteString(w, `{"sub":"k","account":"acme"}`)
			return
		}
		handle(w, r, string(body))
	}))
	t.Cleanup(server.Close)
	fx.url = server.URL
	fx.env = map[string]string{profile.VarFile: fx.profiles, profile.VarURL: fx.url, profile.VarKey: fx.key}
	return fx
}

// servePage responds with at most two of five entries, from the offset or after the cursor of the request. If
// hasCursors is true, each page except the last also has the cursor of the next page.
func servePage(w http.ResponseWriter, r *http.Request, hasCursors bool) {
	const names = "abcde"
	from, _ := strconv.Atoi(r.FormValue("offset"))
	if after := r.FormValue("after"); after != "" {
		from = strings.Index(names, strings.TrimPrefix(after, "after-")) + 1
	}
	to := min(from+2, len(names))
	data := []any{}
	for _, name := range names[from:to] {
		data = append(data, map[string]string{"name": string(name)})
	}
	resp := map[string]any{"data": data, "limit": 2, "offset": from, "total": len(names)}
	if hasCursors && to < len(names) {
		resp["next"] = "after-" + names[to-1:to]
	}
	_ = json.NewEncoder(w).Encode(resp)
}

// run runs a command line. stdin is its standard input.
func (fx *fixture) run(stdin string, args ...string) result {
	fx.Helper()
	in, err := os.CreateTemp(fx.TempDir(), "stdin")
	if err != nil {
		fx.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	if _, err := in.WriteString(stdin); err != nil {
		fx.Fatal(err)
	}
	if _, err := in.Seek(0, io.SeekStart); err != nil {
		fx.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	app := &commands.App{In: in, Out: &stdout, Err: &stderr, Sleep: fx.sleep, Now: fx.now}
	app.Getenv = func(name string) string { return fx.env[name] }
	return result{app.Run(fx.Context(), args), stdout.String(), stderr.String()}
}

// unresponsiveServer returns the address of an installation that accepts connections and never responds.
func unresponsiveServer(t *testing.T) string {
	t.Helper()
	done := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-done:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(done) })
	return server.URL
}

// withSubcommands returns a command and all of its subcommands.
func withSubcommands(c *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{c}
	for _, sub := range c.Commands() {
		all = append(all, withSubcommands(sub)...)
	}
	return all
}

// root returns the root command with all commands.
func root() *cobra.Command {
	return (&commands.App{Out: io.Discard, Err: io.Discard, Getenv: func(string) string { return "" }}).Root(true)
}

// TestCommandsAreListed compares every command and its flags with a golden file, so that reviews see each change.
func TestCommandsAreListed(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for _, c := range withSubcommands(root()) {
		if !c.Runnable() && c.HasSubCommands() {
			continue
		}
		b.WriteString(c.CommandPath() + strings.TrimPrefix(c.Use, c.Name()))
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if !slices.Contains([]string{"help", "output", "jq", "profile", "url", "account", "timeout"}, f.Name) {
				b.WriteString(" --" + f.Name)
			}
		})
		b.WriteByte('\n')
	}
	golden.Equal(t, "testdata/commands.txt", b.String())
}

// TestEveryCommandHasHelp checks the rules for the help of commands, and runs each command without arguments.
func TestEveryCommandHasHelp(t *testing.T) {
	t.Parallel()
	fx := newFixture(t)
	for _, c := range withSubcommands(root()) {
		name := strings.TrimPrefix(c.CommandPath(), "gatewright")
		args := strings.Fields(name)
		if len(args) == 0 {
			continue
		}
		if c.Short == "" || strings.HasSuffix(c.Short, ".") {
			t.Errorf("%s: Short = %q, want a phrase without a period at its end", name, c.Short)
		}
		if help := fx.run("", append(args, "--help")...); help.code != exit.OK || help.err != "" ||
			!strings.Contains(help.out, "Usage:") || !strings.HasPrefix(help.out, strings.Split(c.Short, "\n")[0]) {
			t.Errorf("%s --help = code %d, stderr %q, stdout %.200q; want code %d, no stderr, and a help text with "+
				"\"Usage:\" that begins with %q", name, help.code, help.err, help.out, exit.OK, strings.Split(c.Short, "\n")[0])
		}
		if c.HasSubCommands() && args[0] != "api" {
			if got := fx.run("", args...); got.code != exit.Usage || got.out != "" {
				t.Errorf("%s without a subcommand = %+v, want code %d and no output", name, got, exit.Usage)
			}
			continue
		}
		if !strings.Contains(c.Example, "gatewright"+name) {
			t.Errorf("%s: Example = %q, want a text that contains %q", name, c.Example, "gatewright"+name)
		}
		if got := fx.run("", append(args, "--no-such-flag=gwa_secret", "--output", "json")...); got.code != exit.Usage ||
			got.out != "" || strings.Contains(got.err, "secret") || !json.Valid([]byte(got.err)) {
			t.Errorf("%s with an unknown flag = %+v, want code %d and an error in JSON without the flag's value",
				name, got, exit.Usage)
		}
		if slices.Contains([]string{"completion"}, args[0]) {
			continue // the command writes a script, and sends no request
		}
		for _, flag := range []string{"output", "jq"} {
			if c.Flags().Lookup(flag) == nil {
				t.Errorf("%s has no --%s, want the flag", name, flag)
			}
		}
		// The app has no terminal. The command must succeed, or say what is missing. It must not wait for input.
		got := fx.run("", append(args, "--output", "json")...)
		switch {
		case got.code == exit.OK && got.out != "" && !json.Valid([]byte(got.out)):
			t.Errorf("%s --output json = %q, want valid JSON", name, got.out)
		case got.code != exit.OK && (got.out != "" || !json.Valid([]byte(got.err))):
			t.Errorf("%s --output json = %+v, want no output and an error in valid JSON", name, got)
		case strings.Contains(got.out+got.err, fx.key):
			t.Errorf("%s --output json = %+v, want the key in neither output", name, got)
		}
	}
}

func TestFlagsBecomeArguments(t *testing.T) {
	t.Parallel()
	fx := newFixture(t)
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte("a key of my own\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		stdin       string
		args        []string
		wantRequest string
	}{
		{
			args:        []string{"ApiKeyBucketsService_create", "--name", "b", "--tags", `{"a":"b"}`, "--is-retrievable=false"},
			wantRequest: `POST /v1/accounts/acme/key-buckets {"isRetrievable":false,"name":"b","tags":{"a":"b"}}`,
		},
		{
			args:        []string{"ApiKeyBucketsService_read", "--bucket-name", "../x", "--account-name", "other"},
			wantRequest: "GET /v1/accounts/other/key-buckets/..%2Fx ",
		},
		{
			args:        []string{"ApiKeyBucketsService_read", "--bucket-name", "b", "--account", "third"},
			wantRequest: "GET /v1/accounts/third/key-buckets/b ",
		},
		{
			stdin: `{"description":"d","metadata":{"n":12345678901234567890}}`,
			args:  []string{"ApiKeyConsumersService_create", "--bucket-name", "b", "--name", "ada", "--body", "-"},
			wantRequest: `POST /v1/accounts/acme/key-buckets/b/consumers {"description":"d",` +
				`"metadata":{"n":12345678901234567890},"name":"ada"}`,
		},
		{
			stdin: "secret text\n",
			args: []string{
				"VariablesService_create", "--project-name", "p", "--branch-name", "main", "--name", "N",
				"--value-file", "-", "--is-secret",
			},
			wantRequest: `POST /v1/accounts/acme/projects/p/branches/main/variables {"isSecret":true,"name":"N",` +
				`"value":"secret text"}`,
		},
		{
			args: []string{
				"ApiKeyKeysService_create", "--bucket-name", "b", "--consumer-name", "c", "--key-file", key,
				"--tag", `{"tag.plan":"gold"}`,
			},
			wantRequest: `POST /v1/accounts/acme/key-buckets/b/consumers/c/keys?tag.plan=gold {"key":"a key of my own"}`,
		},
		{
			stdin:       `[{},{}]`,
			args:        []string{"ApiKeyKeysService_bulkCreate", "--bucket-name", "b", "--consumer-name", "c", "--body", "-"},
			wantRequest: `POST /v1/accounts/acme/key-buckets/b/consumers/c/keys/$bulk [{},{}]`,
		},
	} {
		fx.requests = nil
		got := fx.run(c.stdin, append([]string{"api"}, c.args...)...)
		if requests := fx.apiRequests(); got.code != exit.OK || !slices.Equal(requests, []string{c.wantRequest}) {
			t.Errorf("gatewright api %v = %+v after the requests %q, want code 0 after %q", c.args, got, requests, c.wantRequest)
		}
	}
}

// apiRequests returns the requests, except for requests that read the key's account.
func (fx *fixture) apiRequests() []string {
	return slices.DeleteFunc(fx.requests, func(s string) bool { return strings.HasPrefix(s, "GET /v1/who-am-i") })
}

func TestInvalidFlagsAreUsageErrors(t *testing.T) {
	t.Parallel()
	fx := newFixture(t)
	for _, c := range []struct {
		stdin    string
		args     []string
		wantText string // alternatives, separated by bars
	}{
		{
			args:     []string{"AnalyticsService_recentCalls", "--deployment-name", "d", "--limit", "x"},
			wantText: "a whole number",
		},
		{
			args:     []string{"MeteringSubscriptionsService_list", "--bucket-id", "b", "--status", "odd"},
			wantText: "there is no such flag|one of|unknown flag",
		},
		{args: []string{"ApiKeyBucketsService_read"}, wantText: "it needs --bucket-name"},
		{args: []string{"ApiKeyBucketsService_create", "--name", "b", "--tags", "{"}, wantText: "JSON"},
		{stdin: "[]", args: []string{"ApiKeyBucketsService_create", "--body", "-"}, wantText: "no object"},
		{
			stdin: `{"bucketName":"x"}`, args: []string{"ApiKeyConsumersService_create", "--bucket-name", "b", "--body", "-"},
			wantText: "--bucket-name",
		},
		{
			stdin: "{}",
			args: []string{
				"VariablesService_create", "--project-name", "p", "--branch-name", "main", "--name", "N",
				"--value-file", "-", "--body", "-",
			},
			wantText: "stdin",
		},
		{
			args: []string{
				"ApiKeyKeysService_create", "--bucket-name", "b", "--consumer-name", "c", "--key-file",
				t.TempDir() + "/none",
			},
			wantText: "cannot be read",
		},
		{args: []string{"ApiKeyBucketsService_raed"}, wantText: "did you mean ApiKeyBucketsService_read"},
		{args: []string{"ApiKeyBucketsService_read", "b"}, wantText: "it takes no words"},
	} {
		fx.requests = nil
		got := fx.run(c.stdin, append([]string{"api"}, c.args...)...)
		hasText := false
		for text := range strings.SplitSeq(c.wantText, "|") {
			hasText = hasText || strings.Contains(got.err, text)
		}
		if requests := fx.apiRequests(); got.code != exit.Usage || !hasText || len(requests) > 0 {
			t.Errorf("gatewright api %v = %+v after the requests %q, want code %d and %q without a request",
				c.args, got, requests, exit.Usage, c.wantText)
		}
	}
}

func TestAllFlagMergesPages(t *testing.T) {
	t.Parallel()
	fx := newFixture(t)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"ApiKeyBucketsService_list"}, "abcde\n5\n"},
		{[]string{"ApiKeyBucketsService_list", "--offset", "1"}, "bcde\n5\n"},
		{[]string{"ApiKeyConsumersService_list", "--bucket-name", "b"}, "abcde\n5\n"},
		{[]string{"ApiKeyConsumersService_list", "--bucket-name", "b", "--offset", "2"}, "cde\n5\n"},
	} {
		fx.requests = nil
		got := fx.run("", append(append([]string{"api"}, c.args...), "--all", "--jq", "([.data[].name]|add), .total")...)
		if got.out != c.want {
			t.Errorf("gatewright api %v --all = %+v after the requests %q, want %q", c.args, got, fx.requests, c.want)
		}
	}
}

func TestNoFlagTakesSecret(t *testing.T) {
	t.Parallel()
	for _, c := range withSubcommands(root()) {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if slices.Contains([]string{"key", "value", "token", "password", "secret"}, f.Name) && f.Value.Type() != "bool" {
				t.Errorf("%s takes a secret by --%s, want no such flag", c.CommandPath(), f.Name)
			}
		})
	}
}

func TestLogin(t *testing.T) {
	t.Parallel()
	fx := newFixture(t)
	delete(fx.env, profile.VarURL)
	delete(fx.env, profile.VarKey)
	name := strings.ReplaceAll(strings.TrimPrefix(fx.url, "http://"), ":", "-")
	step := func(want exit.Code, wantText, stdin string, args ...string) {
		t.Helper()
		if got := fx.run(stdin, args...); got.code != want || !strings.Contains(got.out+got.err, wantText) ||
			strings.Contains(got.out+got.err, fx.key) {
			t.Errorf("gatewright %v = %+v, want code %d and %q, without the key", args, got, want, wantText)
		}
	}
	step(exit.Usage, "gatewright login", "", "whoami")
	step(exit.Usage, "--key-stdin", "", "login", fx.url)
	step(exit.Usage, "write https", fx.key, "login", "http://api.example.com", "--key-stdin")
	step(exit.NotAllowed, "No such key", otherKey(t), "login", fx.url, "--key-stdin")
	step(exit.OK, "There are none", "", "profile", "list")
	step(exit.OK, name, fx.key+"\n", "login", fx.url, "--key-stdin")
	step(exit.OK, "acme", "", "whoami")
	step(exit.OK, fx.url, "", "profile", "list", "--output", "json")
	step(exit.OK, "two", fx.key, "login", fx.url, "--name", "two", "--key-stdin")
	step(exit.OK, name, "", "profile", "use", name)
	step(exit.NotFound, "no such profile", "", "profile", "use", "three")
	step(exit.Usage, "--yes", "", "profile", "delete", "two")
	step(exit.OK, "deleted", "", "profile", "delete", "two", "--yes")
	step(exit.OK, "no key any more", "", "logout")
	step(exit.Usage, "there is no key", "", "whoami")
	text, err := os.ReadFile(fx.profiles)
	if err != nil || strings.Contains(string(text), fx.key) {
		t.Errorf("profiles after logout = %s, %v, want no key", text, err)
	}
}

// otherKey returns a valid key that no account has. The first key of the source is the fixture's key, because
// storetest.Random returns the same bytes in each call in a test. So otherKey returns the second key.
func otherKey(t *testing.T) string {
	t.Helper()
	source := ids.NewSource(storetest.Random(t), nil)
	credential.New(credential.AccountKey, source)
	return credential.New(credential.AccountKey, source)
}

// TestTypingErrorGetsSuggestion checks that the error for an invalid command line says what to type, and that no
// request is sent. A mistyped command or flag gets the most similar name, or the command that lists the names.
func TestTypingErrorGetsSuggestion(t *testing.T) {
	t.Parallel()
	fx := newFixture(t)
	for line, wantText := range map[string]string{
		"buket list": "did you mean bucket?", "bucket lst": "did you mean list?", "bucket read b": "did you mean get?",
		"bucket rm b --yes":             "did you mean delete?",
		"consumer read acme --bucket b": "did you mean get?", "consumer list --buckt b": "did you mean --bucket?",
		"bucket create":     "it needs BUCKET:",
		"bucket create a b": "it takes BUCKET, and nothing more", "bucket list b": "it takes no words",
		"mnu": "`gatewright --help` lists them", "validate a b": "it takes [FOLDER], and nothing more",
		"custom-domain list": "did you mean domain?", "client-mtls-ca-certificates list": "did you mean ca?",
		"mtls-certificate list":         "did you mean certificate?",
		"domain certificate put --help": "it has no such command: `gatewright domain certificate --help` lists them",
		"mnu --help":                    "`gatewright --help` lists them", "-h tunnels": "did you mean tunnel?",
		"bucket list --all":           "unknown flag: --all: `gatewright bucket list --help` lists what it takes",
		"whoami --url 127.0.0.1:9000": "begins with https://",
		"bucket list --nothing-like-it": "unknown flag: --nothing-like-it: `gatewright bucket list --help` lists " +
			"what it takes",
	} {
		if got := fx.run("", strings.Fields(line)...); got.code != exit.Usage || got.out != "" ||
			!strings.Contains(got.err, wantText) {
			t.Errorf("gatewright %s = %+v, want code %d and %q", line, got, exit.Usage, wantText)
		}
	}
	if len(fx.requests) > 0 {
		t.Errorf("commands with a typing error send the requests %q, want none", fx.requests)
	}
}

// TestInterruptedCommandExitsWith130 checks the exit code of an interrupted command, also if the command returns
// another error.
func TestInterruptedCommandExitsWith130(t *testing.T) {
	t.Parallel()
	fx := newFixture(t)
	keyCommandProfiles := filepath.Join(t.TempDir(), "profiles.json")
	writeFile(t, keyCommandProfiles, `{"current":"a","profiles":{"a":{"url":"`+fx.url+`","keyCommand":"sleep 60"}}}`)
	for name, env := range map[string]map[string]string{
		"during the API request": fx.env,
		"during the key command": {profile.VarFile: keyCommandProfiles},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(exit.ErrInterrupted)
		var stderr bytes.Buffer
		app := &commands.App{In: os.Stdin, Out: io.Discard, Err: &stderr, Getenv: func(name string) string {
			return env[name]
		}}
		if code := app.Run(ctx, []string{"whoami"}); code != exit.Interrupted {
			t.Errorf("%s: Run(whoami), interrupted = %d with %s, want %d", name, code, &stderr, exit.Interrupted)
		}
	}
}

// TestTimeoutExitsWith7 checks the exit code of a command that exceeds its time limit. Scripts must distinguish it from
// a failure, because the effect may still occur.
func TestTimeoutExitsWith7(t *testing.T) {
	t.Parallel()
	fx := newFixture(t)
	fx.env[profile.VarURL] = unresponsiveServer(t)
	for _, args := range [][]string{{"whoami"}, {"bucket", "create", "partners", "--account", "acme"}} {
		got := fx.run("", append(args, "--timeout", "50ms", "--output", "json")...)
		if got.code != exit.TimedOut || got.out != "" || !strings.Contains(got.err, "longer than 50ms") ||
			!strings.Contains(got.err, `"exitCode":7`) {
			t.Errorf("gatewright %v --timeout 50ms = %+v, want code %d and the timeout in the error", args, got, exit.TimedOut)
		}
	}
}
