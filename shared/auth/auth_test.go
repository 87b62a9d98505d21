package auth_test

import (
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/environment"
)

func TestWriteHoldsRead(t *testing.T) {
	p := auth.Principal{Permissions: auth.Permissions{Scopes: []auth.Scope{auth.Tunnels.Write(), auth.Logs.Read()}}}
	for scope, want := range map[auth.Scope]bool{
		auth.Tunnels.Write(): true, auth.Tunnels.Read(): true,
		auth.Logs.Read(): true, auth.Logs.Write(): false,
		auth.Metering.Read(): false,
	} {
		if got := p.Allows(scope); got != want {
			t.Errorf("%s: %v", scope, got)
		}
	}
}

func TestKeySeesOnlyItsProjectsAndEnvironments(t *testing.T) {
	limited := auth.Permissions{Projects: []string{"shop"}, Environments: []environment.Kind{environment.Preview}}
	allPreviews := auth.Permissions{Projects: []string{auth.AllProjects}, Environments: []environment.Kind{environment.Preview}}
	for _, c := range []struct {
		name          string
		permissions   auth.Permissions
		project, kind string
		want          bool
	}{
		{"its own", limited, "shop", "PREVIEW", true},
		{"another spelling", limited, "shop", "preview", true},
		{"another project", limited, "blog", "PREVIEW", false},
		{"another environment", limited, "shop", "PRODUCTION", false},
		{"no project", limited, "", "PREVIEW", false},
		{"no environment", limited, "shop", "", false},
		{"no environment kind", limited, "shop", "staging", false},
		{"any project", allPreviews, "blog", "PREVIEW", true},
		{"no project with all projects", allPreviews, "", "PREVIEW", true},
		{"unplaced without all environments", allPreviews, "", "", false},
		{"unplaced with everything", auth.Full(), "", "", true},
		{"nothing", auth.Permissions{}, "shop", "PREVIEW", false},
	} {
		if got := (auth.Principal{Permissions: c.permissions}).MaySee(c.project, c.kind); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestScopesAreParsed(t *testing.T) {
	for _, c := range []struct {
		text string
		want int
		bad  bool
	}{
		{"all", 2 * len(auth.Resources()), false},
		{"none", 0, false},
		{"key-buckets:read", 1, false},
		{"key-buckets:read, tunnels:write,key-buckets:read", 2, false},
		{"", 0, true},
		{"key-buckets", 0, true},
		{"key-buckets:delete", 0, true},
		{"all,tunnels:read", 0, true},
	} {
		got, err := auth.ParseScopes(c.text)
		if len(got) != c.want || (err != nil) != c.bad {
			t.Errorf("%q: %v, %v", c.text, got, err)
		}
		if err != nil && !strings.Contains(err.Error(), "custom-domains") {
			t.Errorf("the error does not list the resources: %v", err)
		}
	}
}

func TestPublicOperationHasNoCaller(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("somebody was found")
		}
	}()
	auth.From(t.Context())
}
