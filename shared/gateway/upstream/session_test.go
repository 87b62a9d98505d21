package upstream

import (
	"crypto/rand"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gatewright/gatewright/shared/credential"
	"github.com/gatewright/gatewright/shared/ids"
)

// TestSessionsOfTheAPIReachNoUpstream: browsers send the cookie of the API's host to every port of it, so that a deployment at another one
// is sent it, too.
func TestSessionsOfTheAPIReachNoUpstream(t *testing.T) {
	token := credential.New(credential.SessionToken, ids.NewSource(rand.Reader, time.Now))
	h := http.Header{"Cookie": {"a=1; __Host-gatewright-session=" + token + "; b=2"}, "X-Copy": {token}}
	Credentials{}.Header(h)
	if diff := cmp.Diff(http.Header{"Cookie": {"a=1; b=2"}}, h); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
