package scaffold

import "testing"

// TestVariablePrefix checks that names of security schemes become valid names of variables.
func TestVariablePrefix(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"bearerAuth": "BEARER_AUTH", "JWT": "JWT", "OAuth2": "OAUTH2", "my-login.v2": "MY_LOGIN_V2", "é": "JWT",
		"2nd": "JWT_2ND", "": "JWT", "jwt_token": "JWT_TOKEN",
	} {
		if got := variablePrefix(name); got != want {
			t.Errorf("variablePrefix(%q) = %q, want %q", name, got, want)
		}
	}
}
