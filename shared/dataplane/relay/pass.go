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

	"github.com/gatewright/gatewright/shared/core/seal"
	"github.com/gatewright/gatewright/shared/format/tunnel"
)

const (
	// MaxClockSkew is the maximum difference between the clocks of two machines. If the difference is larger, a relay
	// can refuse valid passes (401), and can take valid rows for expired or expired rows for valid.
	MaxClockSkew = 15 * time.Second
	// passLifetime is how long a pass is valid, apart from differences between clocks. By its own clock, a relay accepts
	// a pass from MaxClockSkew before its creation until passLifetime plus MaxClockSkew after it: for a minute.
	passLifetime = 30 * time.Second
	// maxPassBytes limits the length of a pass; ours have about 300 bytes.
	maxPassBytes = 2048
	// fieldPass is the field with the pass of a request. A relay removes it.
	fieldPass = "Gatewright-Relay-Pass"
)

// claims are the content of a pass: the caller of the service, the service, and how the relay may send the request. A
// pass is signed for one method and target.
type claims struct {
	AccountID   string `json:"account"`
	Service     string `json:"service"`
	Project     string `json:"project"`
	Environment string `json:"environment"`
	// Forwarded is set if a relay forwards the request: the next relay does not forward it again.
	Forwarded bool `json:"passed,omitempty"`
	// SingleAttempt is set if the caller repeats the request and counts the attempts. The relay then does not repeat a
	// request that a service may have received: with a count at both ends, the numbers of attempts would multiply.
	SingleAttempt bool `json:"once,omitempty"`
	// IssuedAt is the time of creation, in milliseconds since 1970.
	IssuedAt int64 `json:"made"`
}

func (c claims) caller() tunnel.Caller {
	return tunnel.Caller{Project: c.Project, Environment: c.Environment}
}

// The reasons for refusing a pass. They are for the log: the caller does not see them.
var (
	errNoPass     = errors.New("the request has no pass")
	errForgedPass = errors.New("the pass is not signed for this request by this installation")
	errOldPass    = errors.New("the pass is too old, or from the future: do the clocks differ?")
)

// passes creates and verifies passes. A pass has its claims and a keyed hash over them and the request's method and
// target (RFC 9112, section 3.2), in base64. It is valid only for that method and target. It does not cover the header
// and body, which TLS protects. An attacker who could read a pass could send such a request again until the pass
// expires.
type passes struct {
	hasher *seal.Hasher
	now    func() time.Time
}

func newPasses(key seal.KeySource, now func() time.Time) *passes {
	return &passes{hasher: seal.NewHasher(key, "relay-pass"), now: now}
}

// issue returns the pass of a request.
func (p *passes) issue(ctx context.Context, c claims, method, target string) (string, error) {
	c.IssuedAt = p.now().UnixMilli()
	text, err := json.Marshal(c)
	if err != nil {
		return "", fmt.Errorf("encode a pass: %w", err)
	}
	encoded := base64.RawURLEncoding.EncodeToString(text)
	signature, err := p.sign(ctx, encoded, method, target)
	return encoded + "." + signature, err
}

// signingInput returns the text to sign. It needs no escaping: base64, methods and targets have no line breaks.
func signingInput(encoded, method, target string) string {
	return encoded + "\n" + method + "\n" + target
}

func (p *passes) sign(ctx context.Context, encoded, method, target string) (string, error) {
	signature, err := p.hasher.Hash(ctx, signingInput(encoded, method, target))
	if err != nil {
		return "", fmt.Errorf("sign a pass: %w", err)
	}
	return signature, nil
}

// verify verifies the pass of a request and returns its claims. The error is one of the reasons
// above if the pass is refused. Any other error means that the pass could not be verified.
func (p *passes) verify(r *http.Request) (claims, error) {
	values := r.Header[fieldPass]
	if len(values) != 1 || len(values[0]) > maxPassBytes {
		return claims{}, errNoPass
	}
	encoded, signature, _ := strings.Cut(values[0], ".")
	valid, err := p.hasher.Matches(r.Context(), signingInput(encoded, r.Method, r.RequestURI), signature)
	if err != nil {
		return claims{}, err
	}
	if !valid {
		return claims{}, errForgedPass
	}
	var c claims
	text, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil || json.Unmarshal(text, &c) != nil {
		return claims{}, errForgedPass
	}
	if age := p.now().Sub(time.UnixMilli(c.IssuedAt)); age < -MaxClockSkew || age > passLifetime+MaxClockSkew {
		return claims{}, errOldPass
	}
	return c, nil
}
