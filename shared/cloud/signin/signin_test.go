package signin_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/cloud/signin"
)

// TestEnvironmentHasWhoIsSignedIn: its own credentials first, then those of the command line, and nobody's are told with what to do.
func TestEnvironmentHasWhoIsSignedIn(t *testing.T) {
	const process = `{"Version": 1, "AccessKeyId": "id", "SecretAccessKey": "secret", "SessionToken": "token"}`
	for name, c := range map[string]struct {
		env         map[string]string
		region, out string
		failed      error
		want        string // region, id, secret and token
		refused     error
	}{
		"by the environment":   {env: map[string]string{"AWS_REGION": "r", "AWS_ACCESS_KEY_ID": "i", "AWS_SECRET_ACCESS_KEY": "s"}, want: "r i s "},
		"by the command line":  {env: map[string]string{"AWS_DEFAULT_REGION": "r"}, out: process, want: "r id secret token"},
		"by a profile":         {region: "p\n", out: process, want: "p id secret token"},
		"half of the two":      {env: map[string]string{"AWS_REGION": "r", "AWS_ACCESS_KEY_ID": "i"}, out: process, want: "r id secret token"},
		"another's session":    {env: map[string]string{"AWS_REGION": "r", "AWS_SESSION_TOKEN": "of before"}, out: `{"AccessKeyId": "id", "SecretAccessKey": "secret"}`, want: "r id secret "},
		"no region":            {out: process, refused: signin.ErrNoRegion},
		"nothing that is read": {env: map[string]string{"AWS_REGION": "r"}, out: `{"AccessKeyId": "id", "SecretAccessKey`, refused: signin.ErrNobody},
		"nobody":               {env: map[string]string{"AWS_REGION": "r"}, out: "{}", refused: signin.ErrNobody},
		"expired":              {env: map[string]string{"AWS_REGION": "r"}, failed: errors.New("the session has expired"), refused: nil},
	} {
		getenv := func(name string) string { return c.env[name] }
		got, err := signin.Environment(t.Context(), getenv, func(_ context.Context, args ...string) (string, error) {
			if args[1] == "get" {
				return c.region, nil
			}
			return c.out, c.failed
		})
		switch {
		case c.failed != nil || c.refused != nil:
			if err == nil || c.refused != nil && !errors.Is(err, c.refused) || c.failed != nil && !errors.Is(err, c.failed) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%s: it is answered %v", name, err)
			}
		case err != nil:
			t.Errorf("%s: it is answered %v", name, err)
		default:
			if its := strings.Join([]string{got(signin.Region), got(signin.AccessKeyID), got(signin.SecretKey), got(signin.SessionToken)}, " "); its != c.want {
				t.Errorf("%s: it is %q, want %q", name, its, c.want)
			}
		}
	}
}
