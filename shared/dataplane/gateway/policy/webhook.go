package policy

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gatewright/gatewright/shared/dataplane/gateway/options"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/pipeline"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/upstream"
	"github.com/gatewright/gatewright/shared/format/project"
)

const webhookType = "webhook-signature-inbound"

// webhookOptions are the options of webhook-signature-inbound. The pointers are nil for options that a project does not
// set, because not all options have an effect in all schemes.
type webhookOptions struct {
	Scheme           string   `json:"scheme" required:"true" enum:"standard,hex,timestamped"`
	Secrets          []string `json:"secrets" required:"true"`
	Header           string   `json:"header"`
	Prefix           *string  `json:"prefix"`
	IDHeader         string   `json:"idHeader"`
	ToleranceSeconds *int64   `json:"toleranceSeconds" minimum:"1" maximum:"86400"`
	RejectReplays    bool     `json:"rejectReplays"`
	MaxBodyBytes     int64    `json:"maxBodyBytes" minimum:"1" maximum:"10485760"`
}

// defaultWebhookOptions returns the values of options that a project does not set.
func defaultWebhookOptions() webhookOptions { return webhookOptions{MaxBodyBytes: 1 << 20} }

// The schemes of signatures.
const (
	standardScheme    = "standard"
	hexScheme         = "hex"
	timestampedScheme = "timestamped"
)

const (
	maxWebhookSecrets = 5
	// minSecretBytes is the minimum length of a secret: shorter ones can be guessed.
	minSecretBytes   = 8
	defaultTolerance = 300 * time.Second
	// maxReplays is the maximum number of messages of a policy that are remembered.
	maxReplays = 100_000
	// maxSignatures is the maximum number of signatures of a message: a sender has few secrets.
	maxSignatures = 20
)

// webhook admits requests whose body is signed by one of its secrets.
type webhook struct {
	scheme         string
	keys           [][]byte
	header, prefix string
	idHeader       string
	tolerance      time.Duration
	maxBytes       int64
	memory         *Memory
	replays        *expiring[struct{}] // nil if replays are admitted
	signaturesOf   func(x *pipeline.Exchange) (signedMessage, bool)
	hasTimestamp   bool
}

var _ pipeline.Inbound = (*webhook)(nil)

func newWebhook(name string, raw json.RawMessage, s *Setup) (Provisioned, []project.Problem) {
	o := defaultWebhookOptions()
	problems := options.Read(raw, &o)
	p := &webhook{
		scheme: o.Scheme, tolerance: defaultTolerance, maxBytes: o.MaxBodyBytes, header: http.CanonicalHeaderKey(o.Header),
		idHeader: http.CanonicalHeaderKey(o.IDHeader), hasTimestamp: o.Scheme != hexScheme,
	}
	if o.ToleranceSeconds != nil {
		p.tolerance = time.Duration(*o.ToleranceSeconds) * time.Second
	}
	if len(problems) == 0 {
		problems = append(problems, p.readScheme(&o)...)
		problems = append(problems, p.readSecrets(o.Secrets)...)
	}
	if s == nil || len(problems) > 0 {
		return Provisioned{}, problems
	}
	p.memory = memoryOf(s)
	if o.RejectReplays {
		p.replays = scopeOf(p.memory, scopeName(webhookType, name, s.Identity), func() *expiring[struct{}] {
			return newExpiring[struct{}](maxReplays)
		})
	}
	return Provisioned{Inbound: p}, nil
}

// readScheme reads the options that depend on the scheme.
func (w *webhook) readScheme(o *webhookOptions) (problems []project.Problem) {
	report := func(at, text string) { problems = append(problems, options.Problem(at, "%s", text)) }
	if o.Prefix != nil {
		w.prefix = *o.Prefix
	}
	switch o.Scheme {
	case standardScheme:
		w.signaturesOf = w.readStandard
		if o.Header != "" {
			report("/header", "Remove this option: Standard Webhooks have the headers webhook-id, webhook-timestamp and "+
				"webhook-signature.")
		}
	case hexScheme:
		w.signaturesOf = w.readHex
		if o.Header == "" {
			w.header = "X-Hub-Signature-256"
		}
		if o.Prefix == nil {
			w.prefix = "sha256="
		}
		switch {
		case o.RejectReplays && o.IDHeader == "":
			report("/idHeader", "Name the header with the id of a message, or remove rejectReplays: messages of this scheme "+
				"have no time, so replays cannot be told from new messages without an id.")
		case !o.RejectReplays && (o.IDHeader != "" || o.ToleranceSeconds != nil):
			report("/rejectReplays", "Set this option to true, or remove idHeader and toleranceSeconds: in this scheme, they "+
				"are only for replays.")
		}
	case timestampedScheme:
		w.signaturesOf = w.readTimestamped
		if o.Header == "" {
			report("/header", "Name the header with the time and the signatures, such as X-Signature.")
		}
	}
	if o.Scheme != hexScheme {
		if o.Prefix != nil {
			report("/prefix", "Remove this option: only the scheme hex has a prefix.")
		}
		if o.IDHeader != "" {
			report("/idHeader", "Remove this option: only the scheme hex needs it.")
		}
	}
	if text := upstream.CheckFieldName(o.Header); o.Header != "" && text != "" {
		report("/header", text)
	}
	if text := upstream.CheckFieldName(o.IDHeader); o.IDHeader != "" && text != "" {
		report("/idHeader", text)
	}
	if !isPrintable(w.prefix) || strings.HasPrefix(w.prefix, " ") || len(w.prefix) > 32 {
		report("/prefix", "Write at most 32 characters of ASCII, such as sha256=.")
	}
	return problems
}

// readSecrets reads the secrets. The problems do not repeat them.
func (w *webhook) readSecrets(secrets []string) (problems []project.Problem) {
	if len(secrets) == 0 || len(secrets) > maxWebhookSecrets {
		return []project.Problem{options.Problem("/secrets", "Name 1 to %d secrets: the current one, and others while the "+
			"sender changes it.", maxWebhookSecrets)}
	}
	for i, secret := range secrets {
		at := fmt.Sprintf("/secrets/%d", i)
		key := []byte(secret)
		if w.scheme == standardScheme {
			var ok bool
			if key, ok = standardKey(secret); !ok {
				problems = append(problems, options.Problem(at, "Write the secret as the sender shows it: whsec_ and Base64."))
				continue
			}
		}
		switch {
		case len(key) < minSecretBytes:
			problems = append(problems, options.Problem(at, "Use a secret of at least %d bytes: shorter ones can be guessed.",
				minSecretBytes))
		case strings.TrimSpace(secret) != secret:
			problems = append(problems, options.Problem(at, "Remove the spaces or line breaks around the secret."))
		case slices.Contains(secrets[:i], secret):
			problems = append(problems, options.Problem(at, "Remove this secret: it is in the list already."))
		}
		w.keys = append(w.keys, key)
	}
	return problems
}

// invalidSignature is the detail of every message that is refused for its signature or its time, so that a client does
// not learn how near a forged message is.
const invalidSignature = "Sign the exact bytes of the body with a secret of this webhook, and send the signature " +
	"with the current time: the signature is missing or wrong, or the message is too old."

// Inbound checks the signature of the body. It reads the body only if the headers can be those of a valid message.
func (w *webhook) Inbound(x *pipeline.Exchange) *http.Response {
	m, ok := w.signaturesOf(x)
	if !ok || !w.isCurrent(m) {
		return x.Problem(http.StatusUnauthorized, invalidSignature)
	}
	body, whole, refusal := x.ReadBody(w.maxBytes, false)
	switch {
	case refusal != nil:
		return refusal
	case !whole:
		return x.Problem(http.StatusRequestEntityTooLarge, fmt.Sprintf("Send a body of at most %d bytes: the signature of a "+
			"larger one is not checked.", w.maxBytes))
	// A slow body can take longer than the tolerance.
	case !w.isSigned(m, body), !w.isCurrent(m):
		return x.Problem(http.StatusUnauthorized, invalidSignature)
	case w.replays == nil:
		return nil
	}
	return w.admitOnce(x, m, body)
}

// isCurrent reports whether the time of a message is near the gateway's clock.
func (w *webhook) isCurrent(m signedMessage) bool {
	return !w.hasTimestamp || m.time.Sub(w.memory.now()).Abs() <= w.tolerance
}

// isSigned reports whether one of the signatures is that of one of the keys. It compares all of them, in constant time.
func (w *webhook) isSigned(m signedMessage, body []byte) bool {
	matches := false
	for _, key := range w.keys {
		h := hmac.New(sha256.New, key)
		h.Write([]byte(m.prefix))
		h.Write(body)
		sum := h.Sum(nil)
		for _, signature := range m.signatures {
			if hmac.Equal(sum, signature) {
				matches = true
			}
		}
	}
	return matches
}

// admitOnce refuses a message that was received before, with 409. It forgets a message that was not accepted, with a
// status from 200 to 299, so that the sender can repeat it.
func (w *webhook) admitOnce(x *pipeline.Exchange, m signedMessage, body []byte) *http.Response {
	now := w.memory.now()
	end := now.Add(w.tolerance)
	key := w.memory.fingerprint("id", m.id)
	if w.hasTimestamp {
		end = m.time.Add(w.tolerance + time.Second)
		digest := sha256.Sum256(body)
		key = w.memory.fingerprint("message", m.prefix, string(digest[:]))
	}
	w.replays.mu.Lock()
	_, repeated := w.replays.get(key, now)
	hasRoom := w.replays.hasRoom(now)
	if !repeated && hasRoom {
		w.replays.put(key, struct{}{}, now, end)
	}
	w.replays.mu.Unlock()
	switch {
	case repeated:
		return x.Problem(http.StatusConflict, "This message was received before. Do not send it again.")
	case !hasRoom: // to forget another message would admit its replay
		response := x.Problem(http.StatusServiceUnavailable,
			"Too many messages were received. Repeat the request after the time in Retry-After.")
		response.Header["Retry-After"] = []string{"5"}
		return response
	}
	accepted := false
	x.OnResponse(func(response *http.Response, handled bool) {
		accepted = handled && response.StatusCode >= 200 && response.StatusCode <= 299
	})
	x.OnEnd(func() {
		if !accepted {
			w.replays.remove(key)
		}
	})
	return nil
}
