package commands_test

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/client/exit"
	"github.com/gatewright/gatewright/client/profile"
)

// complete returns the completions of a command line.
func complete(fx *fixture, args ...string) []string {
	fx.Helper()
	got := fx.run("", append([]string{"__complete"}, args...)...)
	if got.code != exit.OK || strings.Contains(got.out+got.err, fx.key) {
		fx.Errorf("__complete %v = %+v, want code 0 and no key", args, got)
	}
	var names []string
	for name := range strings.SplitSeq(strings.TrimSpace(got.out), "\n") {
		if name, _, _ = strings.Cut(name, "\t"); !strings.HasPrefix(name, ":") {
			names = append(names, name)
		}
	}
	return names
}

func TestNamesAreCompleted(t *testing.T) {
	t.Parallel()
	fx := newFixture(t)
	for _, c := range []struct {
		args, want []string
	}{
		{[]string{"depl"}, []string{"deploy", "deployment"}},
		{[]string{"api", "ApiKeyBucketsService_r"}, []string{"ApiKeyBucketsService_read"}},
		{[]string{"api", "ApiKeyBucketsService_read", "--bucket-name", ""}, []string{"a", "b"}},
		{[]string{"api", "ApiKeyBucketsService_read", "--bucket-name", "b"}, []string{"b"}},
		{[]string{"api", "ApiKeyConsumersService_read", "--bucket-name", "b", "--consumer-name", ""}, []string{"a", "b"}},
		{[]string{"api", "ApiKeyConsumersService_read", "--consumer-name", ""}, nil},
		{[]string{"bucket", "get", ""}, []string{"a", "b"}},
		{[]string{"bucket", "get", "a", ""}, nil},
		{[]string{"consumer", "get", "--bucket", "b", ""}, []string{"a", "b"}},
		{[]string{"consumer", "key", "roll", "--bucket", "b", "--consumer", "a"}, []string{"a"}},
		{[]string{"consumer", "get", ""}, nil},
		{
			[]string{"analytics", "graphql", "x", "--since", ""},
			[]string{"last-hour", "last-24-hours", "last-7-days", "last-30-days", "last-3-months"},
		},
		{[]string{"completion", ""}, []string{"bash", "fish", "powershell", "zsh"}},
		{[]string{"api", "CustomDomainsService_create", "--stage", ""}, []string{"api", "dev-portal"}},
	} {
		if got := complete(fx, c.args...); !slices.Equal(got, c.want) {
			t.Errorf("%v is completed by %q, want %q", c.args, got, c.want)
		}
	}
}

// TestCompletionUsesAccountFlag checks that completion uses the account of the command line, and not the default
// account.
func TestCompletionUsesAccountFlag(t *testing.T) {
	t.Parallel()
	fx := newFixture(t)
	if got := complete(fx, "bucket", "get", "--account", "other", ""); len(got) > 0 || len(fx.requests) != 1 ||
		!strings.HasPrefix(fx.requests[0], "GET /v1/accounts/other/key-buckets") {
		t.Errorf("completion with --account other = %q after the requests %q, want none after a list of the account other",
			got, fx.requests)
	}
}

// TestUnsafeNamesAreNotCompleted checks that completion omits names that a command would parse as a flag, that a shell
// would show as a message, or that have line breaks or tabs.
func TestUnsafeNamesAreNotCompleted(t *testing.T) {
	t.Parallel()
	fx := newFixtureWith(t, func(w http.ResponseWriter, _ *http.Request, _ string) {
		_, _ = io.WriteString(w,
			`{"data":[{"name":"--yes"},{"name":"-o"},{"name":"_activeHelp_ pay"},{"name":"a\nb"},{"name":"a\tb"},`+
				`{"name":"a-b_c"}],"total":6}`)
	})
	if got := complete(fx, "bucket", "get", ""); !slices.Equal(got, []string{"a-b_c"}) {
		t.Errorf("completion of names = %q, want a-b_c alone", got)
	}
}

// TestCompletionTimesOut checks that completion has its own time limit, and returns no names if the installation does
// not respond.
func TestCompletionTimesOut(t *testing.T) {
	t.Parallel()
	fx := newFixture(t)
	fx.env[profile.VarURL] = unresponsiveServer(t)
	start := time.Now()
	got := complete(fx, "api", "ApiKeyBucketsService_read", "--account-name", "acme", "--bucket-name", "")
	if len(got) > 0 {
		t.Errorf("completion with a server that does not respond = %q, want none", got)
	}
	if elapsed := time.Since(start); elapsed > 30*time.Second { // without its own timeout, the request takes a minute
		t.Errorf("completion with a server that does not respond takes %s, want at most 30s", elapsed)
	}
}

func TestCompletionScriptsAreWritten(t *testing.T) {
	t.Parallel()
	fx := newFixture(t)
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if got := fx.run("", "completion", shell); got.code != exit.OK || !strings.Contains(got.out, "__complete") {
			t.Errorf("completion %s = %d, %q, %.100q, want code 0 and a script that calls __complete",
				shell, got.code, got.err, got.out)
		}
	}
	if got := fx.run("", "completion", "tcsh"); got.code != exit.Usage {
		t.Errorf("completion tcsh = %+v, want code %d", got, exit.Usage)
	}
}
