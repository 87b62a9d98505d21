package relay

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/gatewright/gatewright/shared/seal"
	"github.com/gatewright/gatewright/shared/tunnel"
)

const (
	// ClockDifference is how far the clocks of two machines may be apart. With more between
	// them, a relay refuses passes (401), and takes rows for older or newer than they are.
	ClockDifference = 15 * time.Second
	// passLife is how long a pass is good by its maker's clock. By that of any relay it is
	// passLife and twice ClockDifference, a minute, at most.
	passLife = 30 * time.Second
	// maxPassBytes bounds a pass; ours have some 300.
	maxPassBytes = 2048
	// fieldPass is where a request has its pass. A relay takes it off.
	fieldPass = "Gatewright-Relay-Pass"
)

// claims are what a pass is good for, besides the one method and target that it is signed
// with: whose request it is, and for which service.
type claims struct {
	AccountID   string `json:"account"`
	Service     string `json:"service"`
	Project     string `json:"project"`
	Environment string `json:"environment"`
	// Passed says that a relay passes the request on: who is asked does not do so again.
	Passed bool `json:"passed,omitempty"`
	// Once says that who asks repeats the request, and counts how often it was sent: who is asked
	// sends it once, whatever becomes of it. A count at each end would be the product of both.
	Once bool `json:"once,omitempty"`
	// Made is when, in milliseconds since 1970.
	Made int64 `json:"made"`
}

func (c claims) caller() tunnel.Caller {
	return tunnel.Caller{Project: c.Project, Environment: c.Environment}
}

// The reasons why a pass is refused. They are for the log: who asks learns none.
var (
	errNoPass     = errors.New("the request has no pass")
	errForgedPass = errors.New("the pass is not signed for this request by this installation")
	errOldPass    = errors.New("the pass is too old, or from the future: do the clocks differ?")
)

// passes makes passes and opens them. A pass is its claims and a keyed hash over them and
// the request's method and target (RFC 9112, section 3.2), in base64. It is good for that request alone,
// its header and body apart, which TLS protects; who could read it could send such
// a request again within its life.
type passes struct {
	hasher *seal.Hasher
	now    func() time.Time
}

func newPasses(key seal.KeySource, now func() time.Time) *passes {
	return &passes{hasher: seal.NewHasher(key, "relay-pass"), now: now}
}

// make makes the pass of a request.
func (p *passes) make(ctx context.Context, c claims, method, target string) (string, error) {
	c.Made = p.now().UnixMilli()
	text, err := json.Marshal(c)
	if err != nil {
		return "", fmt.Errorf("encode a pass: %w", err)
	}
	encoded := base64.RawURLEncoding.EncodeToString(text)
	signature, err := p.sign(ctx, encoded, method, target)
	return encoded + "." + signature, err
}

// signed needs no escaping: neither base64 nor a method nor a target has a line's end.
func signed(encoded, method, target string) string { return encoded + "\n" + method + "\n" + target }

func (p *passes) sign(ctx context.Context, encoded, method, target string) (string, error) {
	signature, err := p.hasher.Hash(ctx, signed(encoded, method, target))
	if err != nil {
		return "", fmt.Errorf("sign a pass: %w", err)
	}
	return signature, nil
}

// open gives what the pass of a request is good for. The error is one of the reasons above
// where it is refused, any other where that is not known.
func (p *passes) open(r *http.Request) (claims, error) {
	values := r.Header[fieldPass]
	if len(values) != 1 || len(values[0]) > maxPassBytes {
		return claims{}, errNoPass
	}
	encoded, signature, _ := strings.Cut(values[0], ".")
	ours, err := p.hasher.Matches(r.Context(), signed(encoded, r.Method, r.RequestURI), signature)
	if err != nil {
		return claims{}, err
	}
	if !ours {
		return claims{}, errForgedPass
	}
	var c claims
	text, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil || json.Unmarshal(text, &c) != nil {
		return claims{}, errForgedPass
	}
	if age := p.now().Sub(time.UnixMilli(c.Made)); age < -ClockDifference || age > passLife+ClockDifference {
		return claims{}, errOldPass
	}
	return c, nil
}
