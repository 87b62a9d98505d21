package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"mime"
	"net/http"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/gatewright/gatewright/shared/dataplane/gateway/options"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/pipeline"
	"github.com/gatewright/gatewright/shared/format/openapi"
	"github.com/gatewright/gatewright/shared/format/project"
)

// responseValidationType is the type of the policy that validates responses.
const responseValidationType = "response-validation-outbound"

// responseValidationOptions are the options of response-validation-outbound.
type responseValidationOptions struct {
	Mode string `json:"mode" enum:"log,reject"`
	// SampleRate is the share of responses that are checked.
	SampleRate float64 `json:"sampleRate" minimum:"0" maximum:"1"`
}

// maxValidatedResponse is the maximum size of the body of a validated response, before and after it is decompressed.
const maxValidatedResponse = 1 << 20

// responseValidation checks the responses of upstreams against the description of their route.
type responseValidation struct {
	rejects bool
	rate    float64
	memory  *responseMemory
	log     validationLog
}

var (
	_ pipeline.Outbound = (*responseValidation)(nil)
	_ pipeline.Preparer = (*responseValidation)(nil)
)

func newResponseValidation(name string, raw json.RawMessage, s *Setup) (Provisioned, []project.Problem) {
	o := responseValidationOptions{Mode: actionLog, SampleRate: 1}
	problems := options.Read(raw, &o)
	if len(problems) == 0 && o.SampleRate == 0 {
		problems = append(problems, options.Problem("/sampleRate", "With 0, this policy checks nothing. Write a number above "+
			"0, or remove the policy."))
	}
	if s == nil || len(problems) > 0 {
		return Provisioned{}, problems
	}
	p := &responseValidation{rejects: o.Mode == actionReject, rate: o.SampleRate, log: newValidationLog(name, s)}
	if s.ResponseMemory != nil {
		p.memory = &responseMemory{s.ResponseMemory}
	}
	return Provisioned{Outbound: p}, nil
}

// Prepare makes the upstream send a response that this policy can read.
func (p *responseValidation) Prepare(x *pipeline.Exchange) *http.Response {
	if x.Route.Description != nil {
		requestReadableEncoding(x)
	}
	return nil
}

// Outbound checks a response of the upstream. In the mode "reject", it reads the body first, and replaces an invalid
// response by a problem. In the mode "log", it checks the body when the client has received it.
func (p *responseValidation) Outbound(x *pipeline.Exchange, r *http.Response) *http.Response {
	operation := x.Route.Description
	// The gateway's own problems, for example for an upstream that is down, are not the upstream's responses.
	if operation == nil || !x.FromUpstream || x.Cause != nil || p.rate < 1 && rand.Float64() >= p.rate {
		return r
	}
	violations := operation.CheckResponseHead(r.StatusCode, r.Header)
	switch reason := uncheckable(x, r); {
	case !hasBody(x, r) || !operation.HasResponseBody(r.StatusCode):
	case reason != "":
		p.log.unchecked(x, "response", reason)
	case p.rejects:
		found, err := p.readBody(x, operation, r)
		if err != nil {
			x.Cause = fmt.Errorf("read the upstream's response: %w", err)
			_ = r.Body.Close()
			return x.Problem(http.StatusBadGateway, "The upstream's response ended early. Repeat the request.")
		}
		violations = append(violations, found...)
	default:
		p.record(x, operation, r, violations)
		return r
	}
	switch {
	case len(violations) == 0:
		return r
	case !p.rejects:
		p.log.violations(x, "invalid response", InvalidResponses, "admitted", violations)
		return r
	}
	p.log.violations(x, "invalid response", InvalidResponses, "refused", violations)
	_ = r.Body.Close()
	return x.Problem(http.StatusBadGateway, "The upstream's response does not match the API's description, so it was not "+
		"sent. Tell the operators of the API, with the request ID.")
}

// hasBody reports whether a response can have a body.
func hasBody(x *pipeline.Exchange, r *http.Response) bool {
	return x.Method != http.MethodHead && r.StatusCode != http.StatusNoContent && r.StatusCode != http.StatusNotModified &&
		r.ContentLength != 0 && r.Body != http.NoBody
}

// uncheckable returns why the body of a response cannot be checked, or "".
func uncheckable(x *pipeline.Exchange, r *http.Response) string {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	names := encodings(r.Header["Content-Encoding"])
	switch {
	case isStream(r) || err == nil && slices.Contains([]string{"application/x-ndjson", "application/jsonl",
		"application/json-seq", "application/grpc"}, kind) || x.Header.Get("Accept") == "text/event-stream":
		return "streamed"
	case r.ContentLength > maxValidatedResponse:
		return "too large"
	case r.StatusCode == http.StatusPartialContent:
		return "partial"
	case len(names) > 1 || len(names) == 1 && !strings.HasSuffix(names[0], "gzip"):
		return "content encoding"
	}
	return ""
}

// readBody reads the body of a response and returns its violations. The response keeps the bytes. A body that is too
// large continues to stream, and is logged as not checked.
func (p *responseValidation) readBody(
	x *pipeline.Exchange, operation *openapi.Operation, r *http.Response,
) ([]openapi.Violation, error) {
	size := r.ContentLength
	if size < 0 {
		size = maxValidatedResponse + 1
	}
	if !p.memory.reserve(size) {
		p.log.unchecked(x, "response", "no memory")
		return nil, nil
	}
	source := r.Body
	raw, err := io.ReadAll(io.LimitReader(source, maxValidatedResponse+1))
	release := sync.OnceFunc(func() { p.memory.release(size) })
	if err != nil {
		release()
		return nil, err
	}
	kept := &keptResponse{Reader: bytes.NewReader(raw), source: source, release: release}
	r.Body = kept
	if len(raw) > maxValidatedResponse {
		p.log.unchecked(x, "response", "too large")
		kept.Reader = io.MultiReader(kept.Reader, source)
		return nil, nil
	}
	violations, reason := checkResponseBody(x, operation, r.StatusCode, r.Header, raw)
	if reason != "" {
		p.log.unchecked(x, "response", reason)
	}
	return violations, nil
}

// keptResponse is the body of a response whose beginning was read into memory.
type keptResponse struct {
	io.Reader
	source  io.Closer
	release func() // makes the memory available again
}

// Close implements io.Closer.
func (k *keptResponse) Close() error {
	k.release()
	return k.source.Close()
}

// record checks the body of a response when it was sent to the client, and logs its violations with those of the head.
func (p *responseValidation) record(
	x *pipeline.Exchange, operation *openapi.Operation, r *http.Response, head []openapi.Violation,
) {
	var reserved int64
	body := &recordedBody{ReadCloser: r.Body, limit: maxValidatedResponse + 1, reserve: func(n int64) bool {
		fits := p.memory.reserve(n)
		if fits {
			reserved += n
		}
		return fits
	}}
	status, header := r.StatusCode, r.Header.Clone()
	body.done = func(data []byte) {
		defer func() { p.memory.release(reserved) }()
		found, reason := []openapi.Violation(nil), ""
		switch {
		case body.dropped:
			reason = "no memory"
		case len(data) > maxValidatedResponse:
			reason = "too large"
		case !body.ended:
			reason = "ended early"
		default:
			found, reason = checkResponseBody(x, operation, status, header, data)
		}
		if reason != "" {
			p.log.unchecked(x, "response", reason)
		}
		if all := slices.Concat(head, found); len(all) > 0 {
			p.log.violations(x, "invalid response", InvalidResponses, "admitted", all)
		}
	}
	r.Body = body
}

// responseMemory is the memory for the bodies of responses that are checked. nil is without a limit.
type responseMemory struct{ *semaphore.Weighted }

// reserve takes n bytes, and reports whether they are free.
func (m *responseMemory) reserve(n int64) bool { return m == nil || n == 0 || m.TryAcquire(n) }

// release returns n bytes.
func (m *responseMemory) release(n int64) {
	if m != nil && n > 0 {
		m.Release(n)
	}
}

// checkResponseBody returns the violations of a body that was received completely, or why it was not checked.
func checkResponseBody(
	x *pipeline.Exchange, operation *openapi.Operation, status int, header http.Header, raw []byte,
) (violations []openapi.Violation, reason string) {
	decoded, err := decodeBody(x, header["Content-Encoding"], raw, maxValidatedResponse)
	switch {
	case errors.Is(err, errDecodedTooLarge):
		return nil, "too large"
	case err != nil:
		return nil, "content encoding"
	}
	return operation.CheckResponseBody(status, contentType(header), decoded), ""
}
