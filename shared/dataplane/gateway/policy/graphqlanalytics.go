package policy

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gatewright/gatewright/shared/base/bodies"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/options"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/pipeline"
	"github.com/gatewright/gatewright/shared/format/graphql"
	"github.com/gatewright/gatewright/shared/format/project"
	"github.com/gatewright/gatewright/shared/resource/analytics"
)

// Operations counts GraphQL operations; package analytics implements it. Its method does not block, and reports no error.
type Operations interface {
	Operation(operation analytics.Operation)
}

// analyticsOptions are the options of graphql-analytics-outbound (contract 4.4).
type analyticsOptions struct {
	// ErrorCodeClassification has the classes of error codes. They take precedence over the built-in classes.
	ErrorCodeClassification map[string]json.RawMessage `json:"errorCodeClassification"`
	DefaultErrorClass       string                     `json:"defaultErrorClass" enum:"syntax,validation,auth,timeout,resolver"`
	LogErrors               bool                       `json:"logErrors"`
	MaxScanBytes            int64                      `json:"maxScanBytes" minimum:"1" maximum:"5242880"`
}

// defaultAnalyticsOptions returns the values of options that a project does not set.
func defaultAnalyticsOptions() analyticsOptions {
	return analyticsOptions{DefaultErrorClass: "resolver", MaxScanBytes: 128 << 10}
}

// maxClassifiedCodes limits the number of error codes that a project classifies.
const maxClassifiedCodes = 500

// classNames are the names of the classes in options.
var classNames = map[string]analytics.Class{
	"syntax": analytics.ClassSyntax, "validation": analytics.ClassValidation, "auth": analytics.ClassAuth,
	"timeout": analytics.ClassTimeout, "resolver": analytics.ClassResolver,
}

// builtinClasses has the classes of error codes that many servers use, and of our own codes.
var builtinClasses = map[string]analytics.Class{
	graphql.CodeParse:              analytics.ClassSyntax,
	graphql.CodeValidation:         analytics.ClassValidation,
	graphql.CodeInput:              analytics.ClassValidation,
	graphql.CodeDepth:              analytics.ClassValidation,
	graphql.CodeComplexity:         analytics.ClassValidation,
	"PERSISTED_QUERY_NOT_FOUND":    analytics.ClassValidation,
	graphql.CodePersisted:          analytics.ClassValidation,
	"OPERATION_RESOLUTION_FAILURE": analytics.ClassValidation,
	"UNAUTHENTICATED":              analytics.ClassAuth,
	"FORBIDDEN":                    analytics.ClassAuth,
	"REQUEST_TIMEOUT":              analytics.ClassTimeout,
	"TIMEOUT":                      analytics.ClassTimeout,
	"GATEWAY_TIMEOUT":              analytics.ClassTimeout,
	"INTERNAL_SERVER_ERROR":        analytics.ClassResolver,
	"DOWNSTREAM_SERVICE_ERROR":     analytics.ClassResolver,
}

// graphQLAnalytics counts each operation that a client requests from a route. It
// changes no request or response, except that it limits the response's compression.
type graphQLAnalytics struct {
	reader       graphQLReader
	operations   Operations
	deployment   analytics.Deployment
	classes      map[string]analytics.Class
	defaultClass analytics.Class
	maxScanBytes int64
	log          *slog.Logger // nil logs nothing
	now          func() time.Time
}

var (
	_ pipeline.Outbound = (*graphQLAnalytics)(nil)
	_ pipeline.Opener   = (*graphQLAnalytics)(nil)
	_ pipeline.Preparer = (*graphQLAnalytics)(nil)
)

func newAnalytics(_ string, raw json.RawMessage, s *Setup) (Provisioned, []project.Problem) {
	o := defaultAnalyticsOptions()
	problems := options.Read(raw, &o)
	p := &graphQLAnalytics{
		classes: map[string]analytics.Class{}, defaultClass: classNames[o.DefaultErrorClass],
		maxScanBytes: o.MaxScanBytes,
	}
	if len(o.ErrorCodeClassification) > maxClassifiedCodes {
		problems = append(problems, options.Problem("/errorCodeClassification", "Class at most %d codes.",
			maxClassifiedCodes))
	}
	for _, code := range slices.Sorted(maps.Keys(o.ErrorCodeClassification)) {
		var name string
		problems = append(problems, options.ReadMember(options.Member("/errorCodeClassification", code),
			o.ErrorCodeClassification[code], &name, `enum:"syntax,validation,auth,timeout,resolver"`)...)
		p.classes[code] = classNames[name]
	}
	if s == nil || len(problems) > 0 {
		return Provisioned{}, problems
	}
	p.reader.documents, p.operations, p.now = s.Documents, s.Operations, s.Now
	p.deployment = analytics.Deployment{
		AccountID: s.Identity.AccountID, Project: s.Identity.Project,
		Environment: s.Identity.Environment, Name: s.Identity.Deployment,
	}
	if o.LogErrors {
		p.log = s.Log
	}
	return Provisioned{Outbound: p}, nil
}

// observedRequest is a request whose operations are counted when its response has ended.
type observedRequest struct {
	p *graphQLAnalytics
	x *pipeline.Exchange
	// sentBody is the body that was sent upstream, or the recorded beginning of it. It is nil before
	// the body has ended or is closed, and if another policy has parsed the body.
	sentBody atomic.Pointer[[]byte]
	// The other fields are set when the response arrives. total is the time until then since the start of the request,
	// and resolver is the part of it that the upstream took, 0 if a policy has refused the request.
	total, resolver time.Duration
	status          int
	encoding        string
}

// Open registers a function that counts the request if it ends before the handler, for example because a policy refuses
// it.
func (a *graphQLAnalytics) Open(x *pipeline.Exchange) {
	if a.operations == nil {
		return
	}
	if x.Now == nil {
		x.Now = a.now
	}
	x.OnResponse(func(r *http.Response, handled bool) {
		if !handled {
			(&observedRequest{p: a, x: x}).observeResponse(r)
		}
	})
}

// Prepare makes the upstream send a response that this policy can decompress. It records the request's
// body while the body is sent, unless another policy has parsed it. It never refuses a request.
func (a *graphQLAnalytics) Prepare(x *pipeline.Exchange) *http.Response {
	if a.operations == nil {
		return nil
	}
	requestReadableEncoding(x)
	c := &observedRequest{p: a, x: x}
	if x.GraphQL == nil && x.ContentLength != 0 {
		c.recordBody()
	}
	x.OnResponse(func(r *http.Response, handled bool) {
		if handled {
			c.resolver = x.UpstreamLatency
			c.observeResponse(r)
		}
	})
	return nil
}

// maxEagerBytes limits the size of a body that is read before the upstream is called.
const maxEagerBytes = 64 << 10

// recordBody records the body while it is sent upstream. A small body, which usually arrives
// with its head, is read immediately, so that it is recorded even if the upstream is down.
func (or *observedRequest) recordBody() {
	body := or.x.Body
	if or.x.ContentLength < 0 || or.x.ContentLength > maxEagerBytes {
		or.x.Body = &recordedBody{
			ReadCloser: body, limit: graphql.MaxBodyBytes + 1, done: func(recorded []byte) { or.sentBody.Store(&recorded) },
			reserve: func(n int64) bool { return bodies.TryReserve(or.x.Context, n) },
		}
		return
	}
	read, err := bodies.Read(or.x.Context, body, or.x.ContentLength, maxEagerBytes)
	reader := io.Reader(bytes.NewReader(read))
	if err == nil {
		or.sentBody.Store(&read)
	} else { // the handler must get the same error as without this policy
		reader = io.MultiReader(reader, errorReader{err})
	}
	or.x.Body = struct {
		io.Reader
		io.Closer
	}{reader, body}
}

// errorReader is a reader that only returns an error.
type errorReader struct{ err error }

// Read implements io.Reader.
func (r errorReader) Read([]byte) (int, error) { return 0, r.err }

// Outbound returns the response unchanged, because observeResponse has already wrapped its body.
func (a *graphQLAnalytics) Outbound(_ *pipeline.Exchange, r *http.Response) *http.Response { return r }

// observeResponse records the status of the response, and the beginning of its body while the body is forwarded. The
// operations are counted when the body has ended or is closed, and immediately if there is no body.
func (or *observedRequest) observeResponse(r *http.Response) {
	or.total, or.status = or.x.Now().Sub(or.x.Start), r.StatusCode
	if r.StatusCode == http.StatusSwitchingProtocols || r.Body == http.NoBody {
		or.countOperations(nil)
		return
	}
	or.encoding = r.Header.Get("Content-Encoding")
	r.Body = &recordedBody{ReadCloser: r.Body, limit: or.p.maxScanBytes, done: or.countOperations}
}

// countOperations counts the request's operations. It runs when the response's body
// has ended or is closed, so that it does not delay the body.
func (or *observedRequest) countOperations(recorded []byte) {
	responses, batch := graphql.ReadResults(or.decompress(recorded))
	elapsed := or.x.Now().Sub(or.x.Start)
	errorCount := 0
	var classes []analytics.Class
	for i, operation := range or.operations() {
		o := analytics.Operation{
			Deployment: or.p.deployment, Route: or.x.Route.Info.Path, At: or.x.Start, Total: or.total, Resolver: or.resolver,
		}
		if operation != nil {
			o.Name, o.Type, o.Complexity = operation.Name, operation.Type, operation.Complexity
		}
		var result graphql.Result
		switch {
		case i < len(responses):
			result = responses[i]
		case len(responses) == 1 && !batch:
			result = responses[0] // one response refuses the whole batch
		}
		if result.ResolverTime > 0 && result.ResolverTime <= elapsed { // ignore implausible durations of the upstream
			o.Resolver = result.ResolverTime
		}
		o.Failed, o.Classes = or.classify(result.Codes)
		or.p.operations.Operation(o)
		errorCount += len(result.Codes)
		classes = append(classes, o.Classes...)
	}
	if or.p.log != nil && len(classes) > 0 {
		or.logErrors(errorCount, classes)
	}
}

// operations returns the requested operations. An element is nil if the operation is unknown: the
// request was refused before its body was parsed, or its body is invalid or was not recorded completely.
func (or *observedRequest) operations() []*graphql.Operation {
	g := or.x.GraphQL
	if raw := or.sentBody.Load(); g == nil && raw != nil {
		if body, refused := graphql.Decode(*raw); refused == nil {
			g = &pipeline.GraphQL{Body: body, Documents: make([]*graphql.Document, len(body.Requests))}
			for i := range body.Requests {
				g.Documents[i], _ = or.p.reader.documents.Analyze(body.Requests[i].Query, nil)
			}
		}
	}
	if g == nil {
		return []*graphql.Operation{nil}
	}
	all := make([]*graphql.Operation, len(g.Documents))
	for i, document := range g.Documents {
		if document != nil {
			all[i] = document.Operation(g.Body.Requests[i].OperationName)
		}
	}
	return all
}

// classify reports whether a request has failed, and the classes of its errors.
func (or *observedRequest) classify(codes []string) (bool, []analytics.Class) {
	var classes []analytics.Class
	add := func(class analytics.Class) {
		if !slices.Contains(classes, class) {
			classes = append(classes, class)
		}
	}
	for _, code := range codes {
		if class, configured := or.p.classes[code]; configured {
			add(class)
		} else if class, known := builtinClasses[strings.ToUpper(code)]; known {
			add(class)
		} else if class, known := classOfStatus(or.status); known {
			add(class)
		} else {
			add(or.p.defaultClass)
		}
	}
	if len(codes) > 0 || or.status < http.StatusBadRequest {
		return len(codes) > 0, classes
	}
	if class, known := classOfStatus(or.status); known {
		add(class)
	}
	return true, classes
}

// classOfStatus returns the class of an error without a code, according to the status. It
// returns false for a successful response and for a rate limit, which have no class.
func classOfStatus(status int) (analytics.Class, bool) {
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return analytics.ClassAuth, true
	case status == http.StatusRequestTimeout, status == http.StatusGatewayTimeout:
		return analytics.ClassTimeout, true
	case status >= http.StatusInternalServerError:
		return analytics.ClassResolver, true
	case status == http.StatusTooManyRequests, status < http.StatusBadRequest:
		return 0, false
	}
	return analytics.ClassValidation, true
}

// decompress returns the recorded part of a response, decompressed as far as possible.
func (or *observedRequest) decompress(recorded []byte) []byte {
	if or.encoding == "" || strings.EqualFold(or.encoding, "identity") {
		return recorded
	}
	gr, err := openResponse(&http.Response{
		Header: http.Header{"Content-Encoding": {or.encoding}},
		Body:   io.NopCloser(bytes.NewReader(recorded)),
	})
	if err != nil {
		return nil
	}
	// a truncated response is decompressed as far as possible
	text, _ := io.ReadAll(io.LimitReader(gr.text, or.p.maxScanBytes))
	return text
}

// logErrors logs a request with errors. It does not log their messages, which are for the client.
func (or *observedRequest) logErrors(errorCount int, classes []analytics.Class) {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(classNames)) {
		if slices.Contains(classes, classNames[name]) {
			names = append(names, name)
		}
	}
	or.p.log.LogAttrs(or.x.Context, slog.LevelWarn, "graphql errors",
		slog.String("requestId", or.x.RequestID), slog.String("deployment", or.p.deployment.Name),
		slog.String("operation", or.x.Route.Info.OperationID), slog.Int("status", or.status),
		slog.Int("errors", errorCount), slog.String("classes", strings.Join(names, ",")))
}
