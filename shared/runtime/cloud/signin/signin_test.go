package signin_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/runtime/cloud/signin"
)

// TestEnvironmentHasCredentials checks that complete credentials of the environment are used,
// and otherwise those of the AWS command line. Without either, Environment returns an error.
func TestEnvironmentHasCredentials(t *testing.T) {
	const process = `{"Version": 1, "AccessKeyId": "id", "SecretAccessKey": "secret", "SessionToken": "token"}`
	for name, c := range map[string]struct {
		env         map[string]string
		region, out string
		runErr      error
		want        string // region, access key ID, secret key and session token
		wantErr     error
	}{
		"environment variables": {env: map[string]string{
			"AWS_REGION": "r", "AWS_ACCESS_KEY_ID": "i",
			"AWS_SECRET_ACCESS_KEY": "s",
		}, want: "r i s "},
		"the AWS command line": {env: map[string]string{"AWS_DEFAULT_REGION": "r"}, out: process, want: "r id secret token"},
		"a profile's region":   {region: "p\n", out: process, want: "p id secret token"},
		"an access key without its secret": {
			env: map[string]string{"AWS_REGION": "r", "AWS_ACCESS_KEY_ID": "i"}, out: process,
			want: "r id secret token",
		},
		"a session token without its key": {
			env: map[string]string{"AWS_REGION": "r", "AWS_SESSION_TOKEN": "of before"},
			out: `{"AccessKeyId": "id", "SecretAccessKey": "secret"}`, want: "r id secret ",
		},
		"no region": {out: process, wantErr: signin.ErrNoRegion},
		"unreadable credentials": {
			env: map[string]string{"AWS_REGION": "r"}, out: `{"AccessKeyId": "id", "SecretAccessKey`,
			wantErr: signin.ErrNoCredentials,
		},
		"no credentials": {env: map[string]string{"AWS_REGION": "r"}, out: "{}", wantErr: signin.ErrNoCredentials},
		"an expired session": {
			env: map[string]string{"AWS_REGION": "r"}, runErr: errors.New("the session has expired"),
			wantErr: nil,
		},
	} {
		getenv := func(name string) string { return c.env[name] }
		got, err := signin.Environment(t.Context(), getenv, func(_ context.Context, args ...string) (string, error) {
			if args[1] == "get" {
				return c.region, nil
			}
			return c.out, c.runErr
		})
		switch {
		case c.runErr != nil || c.wantErr != nil:
			if err == nil || c.wantErr != nil && !errors.Is(err, c.wantErr) || c.runErr != nil && !errors.Is(err, c.runErr) ||
				strings.Contains(err.Error(), "secret") {
				t.Errorf("%s: error = %v, want %v without a secret", name, err, errors.Join(c.wantErr, c.runErr))
			}
		case err != nil:
			t.Errorf("%s: error = %v, want none", name, err)
		default:
			if values := strings.Join([]string{
				got(signin.VarRegion), got(signin.AccessKeyID), got(signin.SecretKey),
				got(signin.SessionToken),
			}, " "); values != c.want {
				t.Errorf("%s: variables of Environment() = %q, want %q", name, values, c.want)
			}
		}
	}
}
