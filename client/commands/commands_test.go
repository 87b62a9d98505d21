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
	"github.com/gatewright/gatewright/internal/golden"
	"github.com/gatewright/gatewright/shared/credential"
	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

// ran is a command line that ran.
type ran struct {
	code     exit.Code
	out, err string
}

// line is an app without a terminal, with profiles of its own, and an API that answers each request with the request.
type line struct {
	*testing.T
	url, key, profiles string
	env                map[string]string
	asked              []string
	// waits is told of each wait, and ends it by its error; nil for waits as they are.
	waits func(context.Context, time.Duration) error
	// now is the clock, nil for the machine's.
	now func() time.Time
}

func (l *line) sleep(ctx context.Context, d time.Duration) error {
	if l.waits == nil {
		return call.Sleep(ctx, d)
	}
	return l.waits(ctx, d)
}

func newLine(t *testing.T) *line {
	t.Helper()
	return newLineOf(t, func(w http.ResponseWriter, r *http.Request, _ string) {
		switch r.URL.Path {
		case "/v1/accounts/acme/key-buckets":
			page(w, r, false)
		case "/v1/accounts/acme/key-buckets/b/consumers":
			page(w, r, true)
		default:
			_, _ = io.WriteString(w, `{}`)
		}
	})
}

// newLineOf is one with an API that answers so, a body beside each request.
func newLineOf(t *testing.T, answer func(w http.ResponseWriter, r *http.Request, body string)) *line {
	t.Helper()
	l := &line{T: t, key: credential.New(credential.AccountKey, ids.NewSource(storetest.Random(t), nil)), profiles: filepath.Join(t.TempDir(), "profiles.json")}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		l.asked = append(l.asked, r.Method+" "+r.RequestURI+" "+string(body))
		if r.Header.Get("Authorization") != "Bearer "+l.key {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"type":"x","title":"Unauthorized","status":401,"detail":"No such key."}`)
			return
		}
		if r.URL.Path == "/v1/who-am-i" {
			_, _ = io.WriteString(w, `{"sub":"k","account":"acme"}`)
			return
		}
		answer(w, r, string(body))
	}))
	t.Cleanup(server.Close)
	l.url = server.URL
	l.env = map[string]string{profile.VarFile: l.profiles, profile.VarURL: l.url, profile.VarKey: l.key}
	return l
}

// page answers with two of five entries at a time, of a list that has cursors or of one that has none.
func page(w http.ResponseWriter, r *http.Request, cursors bool) {
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
	answer := map[string]any{"data": data, "limit": 2, "offset": from, "total": len(names)}
	if cursors && to < len(names) {
		answer["next"] = "after-" + names[to-1:to]
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// run runs a command line, with what stdin has.
func (l *line) run(stdin string, args ...string) ran {
	l.Helper()
	in, err := os.CreateTemp(l.TempDir(), "stdin")
	if err != nil {
		l.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	if _, err := in.WriteString(stdin); err != nil {
		l.Fatal(err)
	}
	if _, err := in.Seek(0, io.SeekStart); err != nil {
		l.Fatal(err)
	}
	var out, told bytes.Buffer
	app := &commands.App{In: in, Out: &out, Err: &told, Getenv: func(name string) string { return l.env[name] }, Sleep: l.sleep, Now: l.now}
	return ran{app.Run(l.Context(), args), out.String(), told.String()}
}

// silent is the address of an installation that takes connections and says nothing.
func silent(t *testing.T) string {
	t.Helper()
	ended := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-ended:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(ended) })
	return server.URL
}

// every is each command below one, that one too.
func every(c *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{c}
	for _, sub := range c.Commands() {
		all = append(all, every(sub)...)
	}
	return all
}

// root is the whole command line.
func root() *cobra.Command {
	return (&commands.App{Out: io.Discard, Err: io.Discard, Getenv: func(string) string { return "" }}).Root(true)
}

// TestCommandsAreListed has the golden list, which a review reads, name every command with its flags.
func TestCommandsAreListed(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for _, c := range every(root()) {
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

// TestEveryCommandKeepsTheRules walks the tree.
func TestEveryCommandKeepsTheRules(t *testing.T) {
	t.Parallel()
	l := newLine(t)
	for _, c := range every(root()) {
		name := strings.TrimPrefix(c.CommandPath(), "gatewright")
		words := strings.Fields(name)
		if len(words) == 0 {
			continue
		}
		if c.Short == "" || strings.HasSuffix(c.Short, ".") {
			t.Errorf("%s: its short help is %q", name, c.Short)
		}
		if help := l.run("", append(words, "--help")...); help.code != exit.OK || help.err != "" || !strings.Contains(help.out, "Usage:") || !strings.HasPrefix(help.out, strings.Split(c.Short, "\n")[0]) {
			t.Errorf("%s --help: %d %q %.200q", name, help.code, help.err, help.out)
		}
		if c.HasSubCommands() && words[0] != "api" {
			if got := l.run("", words...); got.code != exit.Usage || got.out != "" {
				t.Errorf("%s alone: %+v", name, got)
			}
			continue
		}
		if !strings.Contains(c.Example, "gatewright"+name) {
			t.Errorf("%s: its example is %q", name, c.Example)
		}
		if got := l.run("", append(words, "--no-such-flag=gwa_secret", "--output", "json")...); got.code != exit.Usage || got.out != "" || strings.Contains(got.err, "secret") || !json.Valid([]byte(got.err)) {
			t.Errorf("%s with a flag that it has not: %+v", name, got)
		}
		if slices.Contains([]string{"completion"}, words[0]) {
			continue // what it writes is a text for a shell or a manual, and nothing is asked
		}
		for _, flag := range []string{"output", "jq"} {
			if c.Flags().Lookup(flag) == nil {
				t.Errorf("%s has no --%s", name, flag)
			}
		}
		// Nobody can be asked: it runs, or says what is missing. It never waits.
		got := l.run("", append(words, "--output", "json")...)
		switch {
		case got.code == exit.OK && got.out != "" && !json.Valid([]byte(got.out)):
			t.Errorf("%s: its JSON is %q", name, got.out)
		case got.code != exit.OK && (got.out != "" || !json.Valid([]byte(got.err))):
			t.Errorf("%s: it fails with %+v", name, got)
		case strings.Contains(got.out+got.err, l.key):
			t.Errorf("%s shows the key: %+v", name, got)
		}
	}
}

func TestFlagsBecomeArguments(t *testing.T) {
	t.Parallel()
	l := newLine(t)
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte("a key of my own\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		stdin string
		words []string
		asked string // the request
		code  exit.Code
		says  string
	}{
		{words: []string{"ApiKeyBucketsService_create", "--name", "b", "--tags", `{"a":"b"}`, "--is-retrievable=false"}, asked: `POST /v1/accounts/acme/key-buckets {"isRetrievable":false,"name":"b","tags":{"a":"b"}}`},
		{words: []string{"ApiKeyBucketsService_read", "--bucket-name", "../x", "--account-name", "other"}, asked: "GET /v1/accounts/other/key-buckets/..%2Fx "},
		{words: []string{"ApiKeyBucketsService_read", "--bucket-name", "b", "--account", "third"}, asked: "GET /v1/accounts/third/key-buckets/b "},
		{stdin: `{"description":"d","metadata":{"n":12345678901234567890}}`, words: []string{"ApiKeyConsumersService_create", "--bucket-name", "b", "--name", "ada", "--body", "-"}, asked: `POST /v1/accounts/acme/key-buckets/b/consumers {"description":"d","metadata":{"n":12345678901234567890},"name":"ada"}`},
		{stdin: "secret text\n", words: []string{"VariablesService_create", "--project-name", "p", "--branch-name", "main", "--name", "N", "--value-file", "-", "--is-secret"}, asked: `POST /v1/accounts/acme/projects/p/branches/main/variables {"isSecret":true,"name":"N","value":"secret text"}`},
		{words: []string{"ApiKeyKeysService_create", "--bucket-name", "b", "--consumer-name", "c", "--key-file", key, "--tag", `{"tag.plan":"gold"}`}, asked: `POST /v1/accounts/acme/key-buckets/b/consumers/c/keys?tag.plan=gold {"key":"a key of my own"}`},
		{stdin: `[{},{}]`, words: []string{"ApiKeyKeysService_bulkCreate", "--bucket-name", "b", "--consumer-name", "c", "--body", "-"}, asked: `POST /v1/accounts/acme/key-buckets/b/consumers/c/keys/$bulk [{},{}]`},
		{words: []string{"AnalyticsService_recentCalls", "--deployment-name", "d", "--limit", "x"}, code: exit.Usage, says: "a whole number"},
		{words: []string{"MeteringSubscriptionsService_list", "--bucket-id", "b", "--status", "odd"}, code: exit.Usage, says: "there is no such flag|one of|unknown flag"},
		{words: []string{"ApiKeyBucketsService_read"}, code: exit.Usage, says: "it needs --bucket-name"},
		{words: []string{"ApiKeyBucketsService_create", "--name", "b", "--tags", "{"}, code: exit.Usage, says: "JSON"},
		{stdin: "[]", words: []string{"ApiKeyBucketsService_create", "--body", "-"}, code: exit.Usage, says: "no object"},
		{stdin: `{"bucketName":"x"}`, words: []string{"ApiKeyConsumersService_create", "--bucket-name", "b", "--body", "-"}, code: exit.Usage, says: "--bucket-name"},
		{stdin: "{}", words: []string{"VariablesService_create", "--project-name", "p", "--branch-name", "main", "--name", "N", "--value-file", "-", "--body", "-"}, code: exit.Usage, says: "stdin"},
		{words: []string{"ApiKeyKeysService_create", "--bucket-name", "b", "--consumer-name", "c", "--key-file", key + "x"}, code: exit.Usage, says: "cannot be read"},
		{words: []string{"ApiKeyBucketsService_raed"}, code: exit.Usage, says: "did you mean ApiKeyBucketsService_read"},
		{words: []string{"ApiKeyBucketsService_read", "b"}, code: exit.Usage, says: "it takes no words"},
	} {
		l.asked = nil
		got := l.run(c.stdin, append([]string{"api"}, c.words...)...)
		says := c.says == ""
		for one := range strings.SplitSeq(c.says, "|") {
			says = says || strings.Contains(got.err, one)
		}
		asked := slices.DeleteFunc(l.asked, func(s string) bool { return strings.HasPrefix(s, "GET /v1/who-am-i") })
		if got.code != c.code || !says || c.asked == "" && len(asked) > 0 || c.asked != "" && !slices.Equal(asked, []string{c.asked}) {
			t.Errorf("%v: %+v asks %q", c.words, got, asked)
		}
	}
}

func TestAllPagesAreOneList(t *testing.T) {
	t.Parallel()
	l := newLine(t)
	for _, c := range []struct {
		words []string
		want  string
	}{
		{[]string{"ApiKeyBucketsService_list"}, "abcde\n5\n"},
		{[]string{"ApiKeyBucketsService_list", "--offset", "1"}, "bcde\n5\n"},
		{[]string{"ApiKeyConsumersService_list", "--bucket-name", "b"}, "abcde\n5\n"},
		{[]string{"ApiKeyConsumersService_list", "--bucket-name", "b", "--offset", "2"}, "cde\n5\n"},
	} {
		l.asked = nil
		if got := l.run("", append(append([]string{"api"}, c.words...), "--all", "--jq", "([.data[].name]|add), .total")...); got.out != c.want {
			t.Errorf("%v: %+v after %q", c.words, got, l.asked)
		}
	}
}

func TestKeysAreNoWordsOfACommandLine(t *testing.T) {
	t.Parallel()
	for _, c := range every(root()) {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if slices.Contains([]string{"key", "value", "token", "password", "secret"}, f.Name) && f.Value.Type() != "bool" {
				t.Errorf("%s takes a secret by --%s", c.CommandPath(), f.Name)
			}
		})
	}
}

func TestLogin(t *testing.T) {
	t.Parallel()
	l := newLine(t)
	delete(l.env, profile.VarURL)
	delete(l.env, profile.VarKey)
	name := strings.ReplaceAll(strings.TrimPrefix(l.url, "http://"), ":", "-")
	step := func(want exit.Code, says, stdin string, words ...string) {
		t.Helper()
		if got := l.run(stdin, words...); got.code != want || !strings.Contains(got.out+got.err, says) || strings.Contains(got.out+got.err, l.key) {
			t.Errorf("%v: %+v", words, got)
		}
	}
	step(exit.Usage, "gatewright login", "", "whoami")
	step(exit.Usage, "--key-stdin", "", "login", l.url)
	step(exit.Usage, "write https", l.key, "login", "http://api.example.com", "--key-stdin")
	step(exit.NotAllowed, "No such key", otherKey(t), "login", l.url, "--key-stdin")
	step(exit.OK, "There are none", "", "profile", "list")
	step(exit.OK, name, l.key+"\n", "login", l.url, "--key-stdin")
	step(exit.OK, "acme", "", "whoami")
	step(exit.OK, l.url, "", "profile", "list", "--output", "json")
	step(exit.OK, "two", l.key, "login", l.url, "--name", "two", "--key-stdin")
	step(exit.OK, name, "", "profile", "use", name)
	step(exit.NotFound, "no such profile", "", "profile", "use", "three")
	step(exit.Usage, "--yes", "", "profile", "delete", "two")
	step(exit.OK, "deleted", "", "profile", "delete", "two", "--yes")
	step(exit.OK, "no key any more", "", "logout")
	step(exit.Usage, "there is no key", "", "whoami")
	text, err := os.ReadFile(l.profiles)
	if err != nil || strings.Contains(string(text), l.key) {
		t.Errorf("after the logout the profiles are %s, %v", text, err)
	}
}

// otherKey is one that nobody has.
func otherKey(t *testing.T) string {
	t.Helper()
	source := ids.NewSource(storetest.Random(t), nil)
	credential.New(credential.AccountKey, source)
	return credential.New(credential.AccountKey, source)
}

// TestMistakesOfTypingAreToldWhatWasMeant, and nothing is asked.
func TestMistakesOfTypingAreToldWhatWasMeant(t *testing.T) {
	t.Parallel()
	l := newLine(t)
	for words, says := range map[string]string{
		"buket list": "did you mean bucket?", "bucket lst": "did you mean list?", "bucket read b": "did you mean get?", "bucket rm b --yes": "did you mean delete?",
		"consumer read acme --bucket b": "did you mean get?", "consumer list --buckt b": "did you mean --bucket?", "bucket create": "it needs BUCKET:",
		"bucket create a b": "it takes BUCKET, and nothing more", "bucket list b": "it takes no words", "mnu": "`gatewright --help` lists them", "validate a b": "it takes [FOLDER], and nothing more",
		"custom-domain list": "did you mean domain?", "client-mtls-ca-certificates list": "did you mean ca?", "mtls-certificate list": "did you mean certificate?",
		"domain certificate put --help": "it has no such command: `gatewright domain certificate --help` lists them", "mnu --help": "`gatewright --help` lists them", "-h tunnels": "did you mean tunnel?",
		"bucket list --all": "unknown flag: --all: `gatewright bucket list --help` lists what it takes", "whoami --url 127.0.0.1:9000": "begins with https://",
		"bucket list --nothing-like-it": "unknown flag: --nothing-like-it: `gatewright bucket list --help` lists what it takes",
	} {
		if got := l.run("", strings.Fields(words)...); got.code != exit.Usage || got.out != "" || !strings.Contains(got.err, says) {
			t.Errorf("%s: %+v", words, got)
		}
	}
	if len(l.asked) > 0 {
		t.Errorf("it asks %q", l.asked)
	}
}

// TestInterruptedCommandEndsWith130, also where what it was about when the signal came says something else of its end.
func TestInterruptedCommandEndsWith130(t *testing.T) {
	t.Parallel()
	l := newLine(t)
	asks := filepath.Join(t.TempDir(), "profiles.json")
	write(t, asks, `{"current":"a","profiles":{"a":{"url":"`+l.url+`","keyCommand":"sleep 60"}}}`)
	for name, env := range map[string]map[string]string{"asking the installation": l.env, "asking a command for the key": {profile.VarFile: asks}} {
		ctx, end := context.WithCancelCause(t.Context())
		end(exit.ErrInterrupted)
		var told bytes.Buffer
		app := &commands.App{In: os.Stdin, Out: io.Discard, Err: &told, Getenv: func(name string) string { return env[name] }}
		if code := app.Run(ctx, []string{"whoami"}); code != exit.Interrupted {
			t.Errorf("%s it ends with %d: %s", name, code, &told)
		}
	}
}

// TestCommandThatTakesTooLongEndsWith7: it may still happen, which a script has to tell from what has failed.
func TestCommandThatTakesTooLongEndsWith7(t *testing.T) {
	t.Parallel()
	l := newLine(t)
	l.env[profile.VarURL] = silent(t)
	for _, words := range [][]string{{"whoami"}, {"bucket", "create", "partners", "--account", "acme"}} {
		got := l.run("", append(words, "--timeout", "50ms", "--output", "json")...)
		if got.code != exit.TimedOut || got.out != "" || !strings.Contains(got.err, "longer than 50ms") || !strings.Contains(got.err, `"exitCode":7`) {
			t.Errorf("%v: %+v", words, got)
		}
	}
}
