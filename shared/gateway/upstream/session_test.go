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

// TestNoUpstreamSignsIn: an upstream behind another port of the API's host could sign a visitor of the console in to a session of
// its own. Browsers trim spaces (RFC 6265, section 5.2), and send a cookie without a name as its value alone.
func TestNoUpstreamSignsIn(t *testing.T) {
	for name, set := range map[string]http.Header{
		"": {"Set-Cookie": {
			"a=1", "__Host-gatewright-session=gws_x; Path=/; Secure", "__host-Gatewright-Session=", " \t__Host-gatewright-session \t= gws_x", "=__Host-gatewright-session=gws_x",
			" = __Host-gatewright-session=gws_x; Secure", "__Host-gatewright-session", "b=__Host-gatewright-session=gws_x",
		}},
		"no other": {"Set-Cookie": {"__Host-gatewright-session=gws_x"}},
	} {
		for _, status := range []int{http.StatusEarlyHints, http.StatusSwitchingProtocols, http.StatusOK} {
			h, before := set.Clone(), set.Clone()
			theirs := h["Set-Cookie"]
			CleanHeader(h, status)
			want := http.Header{"Set-Cookie": {"a=1", "b=__Host-gatewright-session=gws_x"}}
			if name != "" {
				want = http.Header{}
			}
			if diff := cmp.Diff(want, h); diff != "" {
				t.Errorf("%s, %d: -want +got:\n%s", name, status, diff)
			}
			if diff := cmp.Diff(before["Set-Cookie"], theirs); diff != "" {
				t.Errorf("%s: the values were another's:\n%s", name, diff)
			}
		}
	}
}
