package auth_test

import (
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/format/environment"
)

func TestWriteScopeIncludesRead(t *testing.T) {
	p := auth.Principal{Permissions: auth.Permissions{Scopes: []auth.Scope{auth.Tunnels.Write(), auth.Logs.Read()}}}
	for scope, want := range map[auth.Scope]bool{
		auth.Tunnels.Write(): true, auth.Tunnels.Read(): true,
		auth.Logs.Read(): true, auth.Logs.Write(): false,
		auth.Metering.Read(): false,
	} {
		if got := p.Allows(scope); got != want {
			t.Errorf("Allows(%s) = %t, want %t", scope, got, want)
		}
	}
}

func TestKeySeesOnlyItsProjectsAndEnvironments(t *testing.T) {
	limited := auth.Permissions{Projects: []string{"shop"}, Environments: []environment.Kind{environment.Preview}}
	allPreviews := auth.Permissions{
		Projects:     []string{auth.AllProjects},
		Environments: []environment.Kind{environment.Preview},
	}
	for _, c := range []struct {
		name          string
		permissions   auth.Permissions
		project, kind string
		want          bool
	}{
		{"the key's environment", limited, "shop", "PREVIEW", true},
		{"the key's environment in lower case", limited, "shop", "preview", true},
		{"another project", limited, "blog", "PREVIEW", false},
		{"another environment", limited, "shop", "PRODUCTION", false},
		{"no project", limited, "", "PREVIEW", false},
		{"no environment", limited, "shop", "", false},
		{"an unknown kind of environment", limited, "shop", "staging", false},
		{"another project with all projects", allPreviews, "blog", "PREVIEW", true},
		{"no project with all projects", allPreviews, "", "PREVIEW", true},
		{"no project or kind without all environments", allPreviews, "", "", false},
		{"no project or kind with full permissions", auth.Full(), "", "", true},
		{"no permissions", auth.Permissions{}, "shop", "PREVIEW", false},
	} {
		if got := (auth.Principal{Permissions: c.permissions}).CanSee(c.project, c.kind); got != c.want {
			t.Errorf("%s: CanSee(%q, %q) = %t, want %t", c.name, c.project, c.kind, got, c.want)
		}
	}
}

func TestScopesAreParsed(t *testing.T) {
	for _, c := range []struct {
		text    string
		want    int
		wantErr bool
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
		if len(got) != c.want {
			t.Errorf("ParseScopes(%q) = %v, want %d scopes", c.text, got, c.want)
		}
		if (err != nil) != c.wantErr {
			t.Errorf("ParseScopes(%q) error = %v, want an error: %t", c.text, err, c.wantErr)
		}
		if err != nil && !strings.Contains(err.Error(), "custom-domains") {
			t.Errorf("ParseScopes(%q) error = %v, want a list of the resources in it", c.text, err)
		}
	}
}

func TestPrincipalFromPanicsWithoutPrincipal(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("PrincipalFrom() without a principal returns, want a panic")
		}
	}()
	auth.PrincipalFrom(t.Context())
}
