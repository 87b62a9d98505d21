package policy

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/gatewright/gatewright/shared/base/bodies"
	"github.com/gatewright/gatewright/shared/base/telemetry"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/options"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/pipeline"
	"github.com/gatewright/gatewright/shared/format/openapi"
	"github.com/gatewright/gatewright/shared/format/project"
)

// requestValidationType is the type of the policy that validates requests.
const requestValidationType = "request-validation-inbound"

// The actions for a part of a request that does not match its description.
const (
	actionReject = "reject"
	actionLog    = "log"
	actionIgnore = "ignore"
)

// requestValidationOptions are the options of request-validation-inbound.
type requestValidationOptions struct {
	PathParameters  string `json:"pathParameters" enum:"reject,log,none"`
	QueryParameters string `json:"queryParameters" enum:"reject,log,none"`
	Headers         string `json:"headers" enum:"reject,log,none"`
	Cookies         string `json:"cookies" enum:"reject,log,none"`
	Body            string `json:"body" enum:"reject,log,none"`
	// UnknownQuery is what happens to query parameters that the description does not have.
	UnknownQuery string `json:"unknownQuery" enum:"ignore,reject"`
	// MaxBodyBytes is the maximum size of a body, before and after it is decompressed.
	MaxBodyBytes int64 `json:"maxBodyBytes" minimum:"1" maximum:"10485760"`
}

// defaultValidatedBytes is the maximum size of a validated body, unless an option says otherwise.
const defaultValidatedBytes = 1 << 20

// defaultRequestValidation returns the default options.
func defaultRequestValidation() requestValidationOptions {
	return requestValidationOptions{
		PathParameters: actionReject, QueryParameters: actionReject, Headers: actionReject, Cookies: actionReject,
		Body: actionReject, UnknownQuery: actionIgnore, MaxBodyBytes: defaultValidatedBytes,
	}
}

// WarnDescribed returns a warning about a policy that has nothing to check on a route with these descriptions, or "".
func WarnDescribed(p project.Policy, request *project.RequestDescription,
	responses project.ResponseDescription,
) string {
	switch p.Type {
	case requestValidationType:
		o := defaultRequestValidation()
		if len(options.Read(p.Handler.Options, &o)) > 0 || o.checks(request) {
			return ""
		}
		return "This policy has no effect on this route, because the description of its requests has nothing that the " +
			"policy checks. Describe parameters or a body, or remove the policy from the route."
	case responseValidationType:
		if len(responses) > 0 {
			return ""
		}
		return "This policy has no effect on this route, because the description has no responses. Describe them, or " +
			"remove the policy from the route."
	}
	return ""
}

// checks reports whether a policy with these options can refuse or log a request with this description.
func (o *requestValidationOptions) checks(request *project.RequestDescription) bool {
	const none = "none"
	if o.QueryParameters != none && o.UnknownQuery == actionReject {
		return true
	}
	if request == nil {
		return false
	}
	actions := map[project.ParameterLocation]string{
		project.PathParameter: o.PathParameters, project.QueryParameter: o.QueryParameters,
		project.InQueryString: o.QueryParameters, project.HeaderParameter: o.Headers, project.CookieParameter: o.Cookies,
	}
	isChecked := func(p project.Parameter) bool { return actions[p.In] != none }
	return request.Body != nil && o.Body != none || slices.ContainsFunc(request.Parameters, isChecked)
}

// requestValidation checks requests against the description of their route.
type requestValidation struct {
	// actions has the action of each part of a request. A part without an action is not checked.
	actions       map[string]string
	rejectUnknown bool
	maxBytes      int64
	slots         checkSlots
	log           validationLog
}

var _ pipeline.Inbound = (*requestValidation)(nil)

func newRequestValidation(name string, raw json.RawMessage, s *Setup) (Provisioned, []project.Problem) {
	o := defaultRequestValidation()
	problems := options.Read(raw, &o)
	p := &requestValidation{
		actions: map[string]string{}, rejectUnknown: o.UnknownQuery == actionReject, maxBytes: o.MaxBodyBytes,
	}
	for part, action := range map[string]string{
		openapi.InPath: o.PathParameters, openapi.InQuery: o.QueryParameters, openapi.InHeader: o.Headers,
		openapi.InCookie: o.Cookies, openapi.InBody: o.Body,
	} {
		if action == actionReject || action == actionLog {
			p.actions[part] = action
		}
	}
	if len(problems) == 0 && len(p.actions) == 0 {
		problems = append(problems, options.Problem("", "This policy checks nothing. Set an option to %q or %q, or remove "+
			"the policy.", actionReject, actionLog))
	}
	if p.rejectUnknown && p.actions[openapi.InQuery] != actionReject && len(problems) == 0 {
		problems = append(problems, options.Problem("/unknownQuery", `This has no effect, because queryParameters is not `+
			`%q. Set queryParameters to %[1]q, or remove this option.`, actionReject))
	}
	if s == nil || len(problems) > 0 {
		return Provisioned{}, problems
	}
	p.log, p.slots = newValidationLog(name, s), checkSlots{s.CheckSlots}
	return Provisioned{Inbound: p}, nil
}

// Inbound refuses a request that does not match the description of its route. It logs violations in parts with the
// action "log".
func (p *requestValidation) Inbound(x *pipeline.Exchange) *http.Response {
	description, err := x.Route.Description.Request()
	if err != nil { // the build has compiled it
		x.Cause = fmt.Errorf("compile the description of a route: %w", err)
		return x.Problem(http.StatusInternalServerError, "The gateway cannot check this request. Tell its operators.")
	}
	var rejected, logged openapi.Report
	reportFor := func(part string) *openapi.Report {
		switch p.actions[part] {
		case actionReject:
			return &rejected
		case actionLog:
			return &logged
		}
		return nil
	}
	if r := reportFor(openapi.InPath); r != nil {
		description.CheckPath(r, x.Params.Raw)
	}
	if r := reportFor(openapi.InQuery); r != nil {
		description.CheckQuery(r, x.Query)
		if p.rejectUnknown {
			r.RejectUnknownQuery()
		}
	}
	if r := reportFor(openapi.InHeader); r != nil {
		description.CheckHeaders(r, fields(x))
	}
	if r := reportFor(openapi.InCookie); r != nil {
		description.CheckCookies(r, x.Header)
	}
	if r := reportFor(openapi.InBody); r != nil {
		if refusal := p.checkBody(x, description, r, r == &rejected); refusal != nil {
			return refusal
		}
	}
	if !logged.IsValid() {
		outcome := "admitted"
		if !rejected.IsValid() {
			outcome = "refused"
		}
		p.log.violations(x, InvalidRequests, outcome, logged.Violations)
	}
	if rejected.IsValid() {
		return nil
	}
	return x.Invalid(rejected)
}

// fields returns all header fields of a request, including those that are not sent upstream.
func fields(x *pipeline.Exchange) http.Header {
	if len(x.Unsent) == 0 {
		return x.Header
	}
	all := maps.Clone(x.Unsent)
	maps.Copy(all, x.Header)
	return all
}

// checkBody adds the violations of the body to a report. For a body that cannot be checked, it returns a response if
// rejects is set, and otherwise logs the reason.
func (p *requestValidation) checkBody(
	x *pipeline.Exchange, description *openapi.Request, report *openapi.Report, rejects bool,
) *http.Response {
	if len(description.ContentTypes()) == 0 && !description.RequiresBody() {
		return nil
	}
	mediaType := contentType(x.Header)
	hasBody := x.HasBody()
	isAccepted, isRead := description.Accepts(mediaType), description.ReadsBody(mediaType)
	if hasBody && isAccepted && !isRead && (x.ContentLength > 0 || !description.RequiresBody()) {
		return nil // every body that is not empty is valid
	}
	if hasBody && x.ContentLength < 0 && (!isAccepted || !isRead) { // the type matters only if there are bytes
		_, isEmpty, refusal := x.ReadBody(0, true)
		if refusal != nil || !isEmpty && isAccepted {
			return refusal
		}
		hasBody = !isEmpty
	}
	if hasBody && !isAccepted {
		if !rejects {
			p.log.unchecked(x, "request", "media type")
			return nil
		}
		base, _, hasParameters := strings.Cut(mediaType, ";")
		if hasParameters && description.Accepts(base) {
			return x.Problem(http.StatusUnsupportedMediaType, "Send the body in UTF-8, and no other charset in Content-Type.")
		}
		return x.Problem(http.StatusUnsupportedMediaType, "Send the body as "+joinWithOr(description.ContentTypes())+
			", with its type in one Content-Type.")
	}
	raw, whole, refusal := x.ReadBody(p.maxBytes, !rejects)
	switch {
	case refusal != nil:
		return refusal
	case !whole && rejects:
		return x.Problem(http.StatusRequestEntityTooLarge, fmt.Sprintf("Send a body of at most %d bytes: larger ones cannot "+
			"be checked.", p.maxBytes))
	case !whole:
		p.log.unchecked(x, "request", "too large")
		return nil
	}
	decoded, err := decodeBody(x.Context, x.Header["Content-Encoding"], raw, p.maxBytes)
	if err != nil && !rejects {
		p.log.unchecked(x, "request", cmp.Or(undecodedReason(err), "content encoding"))
		return nil
	}
	if err != nil {
		return p.refuseEncoding(x, err)
	}
	release, err := p.slots.acquire(x.Context, len(decoded))
	if err != nil {
		x.Cause = fmt.Errorf("wait for the check of a body: %w", err)
		return x.Problem(http.StatusServiceUnavailable, "The request ended before its body could be checked. Send it again.")
	}
	before := len(report.Violations)
	description.CheckBody(report, mediaType, decoded)
	release()
	if rejects && len(report.Violations) == before && isEncoded(x.Header["Content-Encoding"]) {
		// The upstream gets the bytes that were checked. Its own decoder could read other bytes from the compressed body.
		x.ReplaceBody(decoded)
	}
	return nil
}

// refuseEncoding returns the response to a request whose body could not be decompressed.
func (p *requestValidation) refuseEncoding(x *pipeline.Exchange, err error) *http.Response {
	switch {
	case errors.Is(err, errUnsupportedEncoding):
		response := x.Problem(http.StatusUnsupportedMediaType, "Send the body without Content-Encoding, or with gzip.")
		response.Header["Accept-Encoding"] = []string{"gzip"} // RFC 9110, section 12.5.3
		return response
	case errors.Is(err, errDecodedTooLarge):
		return x.Problem(http.StatusRequestEntityTooLarge, fmt.Sprintf("Send a body of at most %d bytes after it is "+
			"decompressed: larger ones cannot be checked.", p.maxBytes))
	case undecodedReason(err) != "":
		return x.RefuseBody(err)
	}
	return x.Problem(http.StatusBadRequest, "Send the body as its Content-Encoding says: it is no valid gzip.")
}

// contentType returns the value of Content-Type. Several fields become one text, which is no media type.
func contentType(h http.Header) string { return strings.Join(h["Content-Type"], ", ") }

var (
	errUnsupportedEncoding = errors.New("policy: the content encoding is not supported")
	errDecodedTooLarge     = errors.New("policy: the decompressed body is too large")
)

// encodings returns the content encodings in the values of a header, without identity.
func encodings(values []string) []string {
	var out []string
	for _, value := range values {
		for name := range strings.SplitSeq(value, ",") {
			if name = strings.ToLower(strings.TrimSpace(name)); name != "" && name != "identity" {
				out = append(out, name)
			}
		}
	}
	return out
}

// isEncoded reports whether a body has a content encoding.
func isEncoded(values []string) bool { return len(encodings(values)) > 0 }

// undecodedReason returns why decodeBody has not decompressed a body that can be valid. It returns "" for a body that is not
// encoded as its header says.
func undecodedReason(err error) string {
	_, exceedsMemory := errors.AsType[*http.MaxBytesError](err)
	switch {
	case errors.Is(err, errUnsupportedEncoding):
		return "content encoding"
	case errors.Is(err, errDecodedTooLarge):
		return "too large"
	case exceedsMemory || errors.Is(err, bodies.ErrBusy):
		return "no memory"
	}
	return ""
}

// decodeBody decompresses a body. The result has at most limit bytes, which count toward the memory for bodies of the
// context's request. Its errors are errUnsupportedEncoding, errDecodedTooLarge, and errors of gzip and of package bodies.
func decodeBody(ctx context.Context, header []string, raw []byte, limit int64) ([]byte, error) {
	switch names := encodings(header); {
	case len(names) == 0, len(raw) == 0:
		return raw, nil
	case len(names) > 1 || names[0] != "gzip" && names[0] != "x-gzip":
		return nil, errUnsupportedEncoding
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("read the header of gzip: %w", err)
	}
	decoded, err := bodies.Read(ctx, unzipped, -1, limit)
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok && tooLarge.Limit == limit {
		return nil, errDecodedTooLarge
	}
	if err != nil {
		return nil, fmt.Errorf("decompress a body: %w", err)
	}
	return decoded, nil
}

// The metrics of validation. InvalidRequests counts requests with violations that are only logged. InvalidResponses counts
// responses with violations, by outcome (admitted or refused). UncheckedBodies counts bodies of requests and responses that
// were not checked, by reason.
const (
	InvalidRequests  = "invalidRequests"
	InvalidResponses = "invalidResponses"
	UncheckedBodies  = "uncheckedBodies"
)

// validationLog writes the lines of a validation policy.
type validationLog struct {
	setup  *Setup
	policy string
}

func newValidationLog(policy string, s *Setup) validationLog { return validationLog{s, policy} }

// maxLoggedViolations is the maximum number of violations in a line of the log.
const maxLoggedViolations = 5

// violations logs the first maxLoggedViolations violations. They contain no values of the message.
func (l validationLog) violations(x *pipeline.Exchange, metric, outcome string, all []openapi.Violation) {
	texts := make([]string, 0, maxLoggedViolations)
	for _, v := range all[:min(len(all), maxLoggedViolations)] {
		texts = append(texts, strings.TrimSpace(v.In+" "+v.Pointer)+": "+v.Detail)
	}
	const line = "message does not match its description"
	if l.setup.Log != nil {
		l.setup.Log.LogAttrs(x.Context, slog.LevelWarn, line, l.attributes(x, metric, "outcome", outcome,
			slog.Any("violations", texts))...)
	}
}

// unchecked logs a request or a response that could not be checked, and the reason.
func (l validationLog) unchecked(x *pipeline.Exchange, part, reason string) {
	if l.setup.Log != nil {
		l.setup.Log.LogAttrs(x.Context, slog.LevelWarn, "body not checked", l.attributes(x, UncheckedBodies, "reason", reason,
			slog.String("part", part))...)
	}
}

// attributes returns the attributes of a line that increments a metric. value is the value of the metric's dimension.
func (l validationLog) attributes(
	x *pipeline.Exchange, metric, dimension, value string, more ...slog.Attr,
) []slog.Attr {
	attributes := append(more, slog.String("requestId", x.RequestID),
		slog.String("deployment", l.setup.Identity.Deployment), slog.String("operation", x.Route.Info.OperationID),
		slog.String("policy", l.policy), slog.String(dimension, value), slog.Int(metric, 1))
	if l.setup.Metrics {
		attributes = append(attributes, telemetry.Count(l.setup.Now(), metric, dimension))
	}
	return attributes
}
