package upstream

import (
	"crypto/rand"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/format/credential"
)

// TestAPISessionsAreNotSentUpstream checks that the token of an API session is
// removed from a request's header. Browsers send the cookies of the API's host to
// all of its ports, so a deployment on another port receives this cookie, too.
func TestAPISessionsAreNotSentUpstream(t *testing.T) {
	token := credential.New(credential.SessionToken, ids.NewSource(rand.Reader, time.Now))
	h := http.Header{"Cookie": {"a=1; __Host-gatewright-session=" + token + "; b=2"}, "X-Copy": {token}}
	Credentials{}.Header(h)
	if diff := cmp.Diff(http.Header{"Cookie": {"a=1; b=2"}}, h); diff != "" {
		t.Errorf("Header() (-want +got):\n%s", diff)
	}
}

// TestUpstreamCannotSetTheSessionCookie checks that the session cookie is removed from
// responses. An upstream on another port of the API's host could otherwise sign a visitor of
// the console in to the upstream's own session. Browsers trim spaces (RFC 6265, section 5.2),
// and send a cookie without a name as only its value, which can look like the session cookie.
func TestUpstreamCannotSetTheSessionCookie(t *testing.T) {
	for name, set := range map[string]http.Header{
		"other cookies": {"Set-Cookie": {
			"a=1", "__Host-gatewright-session=gws_x; Path=/; Secure", "__host-Gatewright-Session=",
			" \t__Host-gatewright-session \t= gws_x", "=__Host-gatewright-session=gws_x",
			" = __Host-gatewright-session=gws_x; Secure", "__Host-gatewright-session", "b=__Host-gatewright-session=gws_x",
		}},
		"no other cookies": {"Set-Cookie": {"__Host-gatewright-session=gws_x"}},
	} {
		for _, status := range []int{http.StatusEarlyHints, http.StatusSwitchingProtocols, http.StatusOK} {
			h, before := set.Clone(), set.Clone()
			otherCookies := h["Set-Cookie"]
			CleanHeader(h, status)
			want := http.Header{"Set-Cookie": {"a=1", "b=__Host-gatewright-session=gws_x"}}
			if name == "no other cookies" {
				want = http.Header{}
			}
			if diff := cmp.Diff(want, h); diff != "" {
				t.Errorf("CleanHeader(%s, status %d): header (-want +got):\n%s", name, status, diff)
			}
			if diff := cmp.Diff(before["Set-Cookie"], otherCookies); diff != "" {
				t.Errorf("CleanHeader(%s, status %d): original slice of Set-Cookie, want it unchanged (-want +got):\n%s",
					name, status, diff)
			}
		}
	}
}
