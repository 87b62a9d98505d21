package policy

import (
	"bytes"
	"context"
	"encoding/json"
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
	// SampleRate is the share of responses that are checked, above 0.
	SampleRate float64 `json:"sampleRate" minimum:"0" maximum:"1"`
}

// defaultResponseValidation returns the values of options that a project does not set.
func defaultResponseValidation() responseValidationOptions {
	return responseValidationOptions{Mode: actionLog, SampleRate: 1}
}

// maxValidatedResponse is the maximum size of the body of a validated response, before and after it is decompressed.
const maxValidatedResponse = 1 << 20

// responseValidation checks the responses of upstreams against the description of their route.
type responseValidation struct {
	rejects bool
	rate    float64
	memory  *responseMemory
	slots   checkSlots
	log     validationLog
}

var (
	_ pipeline.Outbound = (*responseValidation)(nil)
	_ pipeline.Preparer = (*responseValidation)(nil)
)

func newResponseValidation(name string, raw json.RawMessage, s *Setup) (Provisioned, []project.Problem) {
	o := defaultResponseValidation()
	problems := options.Read(raw, &o)
	if len(problems) == 0 && o.SampleRate == 0 {
		problems = append(problems, options.Problem("/sampleRate", "With 0, this policy checks nothing. Write a number "+
			"above 0, or remove the policy."))
	}
	if s == nil || len(problems) > 0 {
		return Provisioned{}, problems
	}
	p := &responseValidation{
		rejects: o.Mode == actionReject, rate: o.SampleRate, slots: checkSlots{s.CheckSlots}, log: newValidationLog(name, s),
	}
	if s.ResponseMemory != nil {
		p.memory = &responseMemory{s.ResponseMemory}
	}
	return Provisioned{Outbound: p}, nil
}

// Prepare asks the upstream for a response in a content encoding that this policy can read.
func (p *responseValidation) Prepare(x *pipeline.Exchange) *http.Response {
	requestReadableEncoding(x)
	return nil
}

// Outbound checks a response of the upstream. In the mode "reject", it reads the body first, and replaces an invalid
// response with a problem. In the mode "log", it checks the body after it was sent to the client.
func (p *responseValidation) Outbound(x *pipeline.Exchange, r *http.Response) *http.Response {
	// The gateway's own problems, for example for an upstream that is down, are not the upstream's responses.
	isSampled := p.rate >= 1 || rand.Float64() < p.rate //nolint:gosec // a sample is no secret
	if !x.FromUpstream || x.Cause != nil || !isSampled {
		return r
	}
	description, err := x.Route.Description.Responses()
	if err != nil { // the build has compiled it
		x.Cause = fmt.Errorf("compile the description of a route: %w", err)
		return r
	}
	report := &openapi.Report{}
	description.CheckHead(report, r.StatusCode, r.Header)
	switch reason := uncheckable(r); {
	case !hasBody(x, r):
	case reason != "":
		p.log.unchecked(x, "response", reason)
	case p.rejects, r.ContentLength == 0:
		if err := p.readBody(x, description, report, r); err != nil {
			x.Cause = fmt.Errorf("read the upstream's response: %w", err)
			_ = r.Body.Close()
			return x.Problem(http.StatusBadGateway, "The upstream's response ended early. Repeat the request.")
		}
	default:
		p.record(x, description, report, r)
		return r
	}
	switch {
	case report.IsValid():
		return r
	case !p.rejects:
		p.log.violations(x, InvalidResponses, "admitted", report.Violations)
		return r
	}
	p.log.violations(x, InvalidResponses, "refused", report.Violations)
	x.RefusedBy = p.log.policy
	_ = r.Body.Close()
	return x.Problem(http.StatusBadGateway, "The upstream's response does not match the API's description, so it was not "+
		"sent. Tell the operators of the API, with the request ID.")
}

// hasBody reports whether a response has a body, or lacks one although it has a Content-Type.
func hasBody(x *pipeline.Exchange, r *http.Response) bool {
	return x.Method != http.MethodHead && r.StatusCode != http.StatusNoContent && r.StatusCode != http.StatusNotModified &&
		(r.ContentLength != 0 && r.Body != http.NoBody || r.Header.Get("Content-Type") != "")
}

// streamTypes are the media types of streams, in addition to those of isStream.
var streamTypes = [...]string{"application/x-ndjson", "application/jsonl", "application/json-seq", "application/grpc"}

// uncheckable returns the reason why the body of a response cannot be checked, or "" if it can.
func uncheckable(r *http.Response) string {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	names := encodings(r.Header["Content-Encoding"])
	switch {
	case isStream(r) || err == nil && slices.Contains(streamTypes[:], kind):
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

// readBody reads the body of a response, and adds its violations to the report. The response can still be sent: its body
// begins with the bytes that were read. readBody logs a body that cannot be checked, for example because it is too large.
func (p *responseValidation) readBody(
	x *pipeline.Exchange, description *openapi.Response, report *openapi.Report, r *http.Response,
) error {
	size := r.ContentLength
	if size < 0 {
		size = maxValidatedResponse + 1
	}
	if !p.memory.reserve(size) {
		p.log.unchecked(x, "response", "no memory")
		return nil
	}
	source := r.Body
	raw, err := io.ReadAll(io.LimitReader(source, maxValidatedResponse+1))
	release := sync.OnceFunc(func() { p.memory.release(size) })
	if err != nil {
		release()
		return err
	}
	kept := &keptResponse{Reader: bytes.NewReader(raw), source: source, release: release}
	r.Body = kept
	if len(raw) > maxValidatedResponse {
		p.log.unchecked(x, "response", "too large")
		kept.Reader = io.MultiReader(kept.Reader, source)
		return nil
	}
	done, err := p.slots.acquire(x.Context, checkedSize(r.Header, raw))
	if err != nil { // the client has gone
		return nil
	}
	defer done()
	if reason := checkResponseBody(x.Context, description, report, r.StatusCode, r.Header, raw); reason != "" {
		p.log.unchecked(x, "response", reason)
	}
	return nil
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

// record checks the body of a response after it was sent to the client. It logs the violations of the body together with
// those of the status and the header fields, which the report has.
func (p *responseValidation) record(
	x *pipeline.Exchange, description *openapi.Response, report *openapi.Report, r *http.Response,
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
		var reason string
		switch {
		case body.dropped:
			reason = "no memory"
		case len(data) > maxValidatedResponse:
			reason = "too large"
		case !body.ended:
			reason = "ended early"
		default:
			// The client waits for the end of the body, so this does not wait for a slot.
			if release, ok := p.slots.tryAcquire(checkedSize(header, data)); ok {
				reason = checkResponseBody(x.Context, description, report, status, header, data)
				release()
			} else {
				reason = "no memory"
			}
		}
		if reason != "" {
			p.log.unchecked(x, "response", reason)
		}
		if !report.IsValid() {
			p.log.violations(x, InvalidResponses, "admitted", report.Violations)
		}
	}
	r.Body = body
}

// responseMemory is the memory for the bodies of validated responses. nil means no limit.
type responseMemory struct{ *semaphore.Weighted }

// reserve reserves n bytes. It returns false if they are not available.
func (m *responseMemory) reserve(n int64) bool { return m == nil || n == 0 || m.TryAcquire(n) }

// release makes n reserved bytes available again.
func (m *responseMemory) release(n int64) {
	if m != nil && n > 0 {
		m.Release(n)
	}
}

// checkedSize returns the maximum size of a body after it is decompressed.
func checkedSize(header http.Header, raw []byte) int {
	if isEncoded(header["Content-Encoding"]) {
		return maxValidatedResponse
	}
	return len(raw)
}

// checkResponseBody adds the violations of a complete body to a report. It returns the reason why the body was not checked,
// or "" if it was checked.
func checkResponseBody(
	ctx context.Context, description *openapi.Response, report *openapi.Report, status int, header http.Header,
	raw []byte,
) string {
	decoded, err := decodeBody(ctx, header["Content-Encoding"], raw, maxValidatedResponse)
	if reason := undecodedReason(err); reason != "" {
		return reason
	}
	if err != nil {
		report.RejectEncoding()
		return ""
	}
	// A response without a Content-Length can turn out to have no body. That is valid only if it names no type.
	if len(decoded) > 0 || header.Get("Content-Type") != "" {
		description.CheckBody(report, status, contentType(header), decoded)
	}
	return ""
}
