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

// suggested are what a shell is told for a line.
func suggested(l *line, words ...string) []string {
	l.Helper()
	got := l.run("", append([]string{"__complete"}, words...)...)
	if got.code != exit.OK || strings.Contains(got.out+got.err, l.key) {
		l.Errorf("%v: %+v", words, got)
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
	l := newLine(t)
	for _, c := range []struct {
		words, want []string
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
		{[]string{"analytics", "graphql", "x", "--since", ""}, []string{"last-hour", "last-24-hours", "last-7-days", "last-30-days", "last-3-months"}},
		{[]string{"completion", ""}, []string{"bash", "fish", "powershell", "zsh"}},
		{[]string{"api", "CustomDomainsService_create", "--stage", ""}, []string{"api", "dev-portal"}},
	} {
		if got := suggested(l, c.words...); !slices.Equal(got, c.want) {
			t.Errorf("%v is completed by %q, want %q", c.words, got, c.want)
		}
	}
}

// TestNamesAreThoseOfTheAccountThatIsTyped, and not of the one that is meant without it.
func TestNamesAreThoseOfTheAccountThatIsTyped(t *testing.T) {
	t.Parallel()
	l := newLine(t)
	if got := suggested(l, "bucket", "get", "--account", "other", ""); len(got) > 0 || len(l.asked) != 1 || !strings.HasPrefix(l.asked[0], "GET /v1/accounts/other/key-buckets") {
		t.Errorf("it is completed by %q after %q", got, l.asked)
	}
}

// TestNamesThatAShellTakesForMoreAreNotCompleted has an installation with names that are flags, messages of a shell and lines.
func TestNamesThatAShellTakesForMoreAreNotCompleted(t *testing.T) {
	t.Parallel()
	l := newLineOf(t, func(w http.ResponseWriter, _ *http.Request, _ string) {
		_, _ = io.WriteString(w, `{"data":[{"name":"--yes"},{"name":"-o"},{"name":"_activeHelp_ pay"},{"name":"a\nb"},{"name":"a\tb"},{"name":"a-b_c"}],"total":6}`)
	})
	if got := suggested(l, "bucket", "get", ""); !slices.Equal(got, []string{"a-b_c"}) {
		t.Errorf("it is completed by %q", got)
	}
}

// TestNobodyWaitsForNames has the installation not answer: there are no names, within a second and what a machine needs.
func TestNobodyWaitsForNames(t *testing.T) {
	t.Parallel()
	l := newLine(t)
	l.env[profile.VarURL] = silent(t)
	began := time.Now()
	if got := suggested(l, "api", "ApiKeyBucketsService_read", "--account-name", "acme", "--bucket-name", ""); len(got) > 0 {
		t.Errorf("it is completed by %q", got)
	}
	if took := time.Since(began); took > 30*time.Second { // the request itself may take a minute
		t.Errorf("it takes %s", took)
	}
}

func TestShellsAreWritten(t *testing.T) {
	t.Parallel()
	l := newLine(t)
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if got := l.run("", "completion", shell); got.code != exit.OK || !strings.Contains(got.out, "__complete") {
			t.Errorf("%s: %d, %q, %.100q", shell, got.code, got.err, got.out)
		}
	}
	if got := l.run("", "completion", "tcsh"); got.code != exit.Usage {
		t.Errorf("another shell: %+v", got)
	}
}
