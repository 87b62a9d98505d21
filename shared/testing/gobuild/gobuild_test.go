package gobuild_test

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/testing/gobuild"
)

const repository = "../../.."

// TestMakeExportsTheFlags reads the environment of make's recipes. The environment must have the flags of this package,
// regardless of the caller's environment.
func TestMakeExportsTheFlags(t *testing.T) {
	t.Parallel()
	// In addition to the Makefile, make reads rules from standard input.
	cmd := exec.CommandContext(t.Context(), "make", "-s", "--no-print-directory", "-f", "Makefile", "-f", "-",
		"print-flags")
	cmd.Dir = repository
	cmd.Stdin = strings.NewReader("print-flags:\n\t@echo \"$$CGO_ENABLED $$GOFLAGS\"\n")
	cmd.Env = append(os.Environ(), "MAKEFLAGS=", "MAKELEVEL=", "CGO_ENABLED=1", "GOFLAGS=-mod=readonly -trimpath")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("make print-flags: %v\n%s", err, out)
	}
	want := gobuild.CGO + " -mod=readonly " + strings.Join(gobuild.Flags(), " ")
	if got := strings.TrimSpace(string(out)); got != want {
		t.Errorf("make exports CGO_ENABLED and GOFLAGS = %q, want %q", got, want)
	}
}

func TestEnvironKeepsOtherFlags(t *testing.T) {
	for _, tt := range []struct{ flags, want string }{
		{"", "-trimpath -tags=lambda.norpc"},
		{"-mod=mod", "-mod=mod -trimpath -tags=lambda.norpc"},
		{"-trimpath -tags=lambda.norpc", "-trimpath -tags=lambda.norpc"},
	} {
		t.Setenv("GOFLAGS", tt.flags)
		t.Setenv("CGO_ENABLED", "1")
		environ := gobuild.Environ()
		slices.Reverse(environ) // the last value of a variable wins
		for _, v := range []struct{ name, want string }{{"GOFLAGS", tt.want}, {"CGO_ENABLED", "0"}} {
			i := slices.IndexFunc(environ, func(s string) bool { return strings.HasPrefix(s, v.name+"=") })
			if got := strings.TrimPrefix(environ[i], v.name+"="); got != v.want {
				t.Errorf("Environ() with GOFLAGS=%q: %s = %q, want %q", tt.flags, v.name, got, v.want)
			}
		}
	}
}
