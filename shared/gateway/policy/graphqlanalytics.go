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
	"sync"
	"sync/atomic"
	"time"

	"github.com/gatewright/gatewright/shared/analytics"
	"github.com/gatewright/gatewright/shared/bodies"
	"github.com/gatewright/gatewright/shared/gateway/options"
	"github.com/gatewright/gatewright/shared/gateway/pipeline"
	"github.com/gatewright/gatewright/shared/graphql"
	"github.com/gatewright/gatewright/shared/project"
)

// Operations counts GraphQL operations: package analytics does. It neither blocks nor fails.
type Operations interface {
	Operation(operation analytics.Operation)
}

// analyticsOptions are those of graphql-analytics-outbound (contract 4.4).
type analyticsOptions struct {
	// ErrorCodeClassification has classes by the codes of errors, before the built-in ones.
	ErrorCodeClassification map[string]json.RawMessage `json:"errorCodeClassification"`
	DefaultErrorClass       string                     `json:"defaultErrorClass" enum:"syntax,validation,auth,timeout,resolver"`
	LogErrors               bool                       `json:"logErrors"`
	MaxScanBytes            int64                      `json:"maxScanBytes" minimum:"1" maximum:"5242880"`
}

// maxClassified bounds the codes that a project classes itself.
const maxClassified = 500

// classNames are the classes as options have them.
var classNames = map[string]analytics.Class{
	"syntax": analytics.ClassSyntax, "validation": analytics.ClassValidation, "auth": analytics.ClassAuth,
	"timeout": analytics.ClassTimeout, "resolver": analytics.ClassResolver,
}

// builtinClasses are the classes of codes that servers agree on, and of ours.
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

// graphQLAnalytics tells of each operation that a route is asked for, and changes nothing.
type graphQLAnalytics struct {
	reader     graphQLReader
	operations Operations
	deployment analytics.Deployment
	classes    map[string]analytics.Class
	otherwise  analytics.Class
	scan       int64
	log        *slog.Logger // nil for no lines
	now        func() time.Time
}

var (
	_ pipeline.Outbound = (*graphQLAnalytics)(nil)
	_ pipeline.Opener   = (*graphQLAnalytics)(nil)
	_ pipeline.Preparer = (*graphQLAnalytics)(nil)
)

func newAnalytics(_ string, raw json.RawMessage, s *Setup) (Provisioned, []project.Problem) {
	o := analyticsOptions{DefaultErrorClass: "resolver", MaxScanBytes: 128 << 10}
	problems := options.Read(raw, &o)
	p := &graphQLAnalytics{classes: map[string]analytics.Class{}, otherwise: classNames[o.DefaultErrorClass], scan: o.MaxScanBytes}
	if len(o.ErrorCodeClassification) > maxClassified {
		problems = append(problems, options.Problem("/errorCodeClassification", "Class at most %d codes.", maxClassified))
	}
	for _, code := range slices.Sorted(maps.Keys(o.ErrorCodeClassification)) {
		var name string
		problems = append(problems, options.ReadMember(options.Member("/errorCodeClassification", code), o.ErrorCodeClassification[code], &name, `enum:"syntax,validation,auth,timeout,resolver"`)...)
		p.classes[code] = classNames[name]
	}
	if s == nil || len(problems) > 0 {
		return Provisioned{}, problems
	}
	p.reader.documents, p.operations, p.now = s.Documents, s.Operations, s.Now
	p.deployment = analytics.Deployment{AccountID: s.Identity.AccountID, Project: s.Identity.Project, Environment: s.Identity.Environment, Name: s.Identity.Deployment}
	if o.LogErrors {
		p.log = s.Log
	}
	return Provisioned{Outbound: p}, nil
}

// counted is a request that the analytics are to be told of.
type counted struct {
	p *graphQLAnalytics
	x *pipeline.Exchange
	// sent is the body that went upstream, nil where other policies have read it, or before it
	// has been sent whole.
	sent atomic.Pointer[[]byte]
	// The rest is known once there is an answer.
	total, resolver time.Duration
	status          int
	encoding        string
}

// Open begins to look at a request, before a policy may refuse it.
func (p *graphQLAnalytics) Open(x *pipeline.Exchange) {
	if p.operations == nil {
		return
	}
	if x.Now == nil {
		x.Now = p.now
	}
	x.After(func(r *http.Response, handled bool) {
		if !handled {
			(&counted{p: p, x: x}).answered(r)
		}
	})
}

// Prepare has the upstream answer what can be read, and keeps what it is sent where no policy has
// read it. This one alone refuses nothing.
func (p *graphQLAnalytics) Prepare(x *pipeline.Exchange) *http.Response {
	if p.operations == nil {
		return nil
	}
	askReadable(x)
	c := &counted{p: p, x: x}
	if x.GraphQL == nil && x.ContentLength != 0 {
		c.keep()
	}
	x.After(func(r *http.Response, handled bool) {
		if handled {
			c.resolver = x.Waited
			c.answered(r)
		}
	})
	return nil
}

// maxEarlyBytes is how large a body may be that is read before the upstream is asked.
const maxEarlyBytes = 64 << 10

// keep keeps the body that goes upstream. A small one, which has come with its head as a rule, is read at once: an
// upstream that is down reads none.
func (c *counted) keep() {
	body := c.x.Body
	if c.x.ContentLength < 0 || c.x.ContentLength > maxEarlyBytes {
		c.x.Body = &keptBody{
			ReadCloser: body, most: graphql.MaxBodyBytes + 1, ended: func(kept []byte) { c.sent.Store(&kept) },
			room: func(n int64) bool { return bodies.TryTake(c.x.Context, n) },
		}
		return
	}
	read, err := bodies.Read(c.x.Context, body, c.x.ContentLength, maxEarlyBytes)
	rest := io.Reader(bytes.NewReader(read))
	if err == nil {
		c.sent.Store(&read)
	} else { // the handler is to meet it, as it would have
		rest = io.MultiReader(rest, broken{err})
	}
	c.x.Body = struct {
		io.Reader
		io.Closer
	}{rest, body}
}

// broken is a reader of which nothing comes but an error.
type broken struct{ err error }

// Read implements io.Reader.
func (b broken) Read([]byte) (int, error) { return 0, b.err }

// Outbound passes the answer on: it is read as it passes (answered).
func (p *graphQLAnalytics) Outbound(_ *pipeline.Exchange, r *http.Response) *http.Response { return r }

// answered looks at the head of the answer, and has the body be kept as it passes.
func (c *counted) answered(r *http.Response) {
	c.total, c.status = c.x.Now().Sub(c.x.Start), r.StatusCode
	if r.StatusCode == http.StatusSwitchingProtocols || r.Body == http.NoBody {
		c.count(nil)
		return
	}
	c.encoding = r.Header.Get("Content-Encoding")
	r.Body = &keptBody{ReadCloser: r.Body, most: c.p.scan, ended: c.count}
}

// keptBody keeps the beginning of a body that passes, and tells once when it has ended or is
// closed. It holds nothing back.
type keptBody struct {
	io.ReadCloser
	most  int64
	once  sync.Once
	ended func(kept []byte)
	// room reports whether n more bytes may be kept. nil means always. If there is no room, nothing of the body is kept.
	room func(n int64) bool

	mu   sync.Mutex // a body may be closed while it is read: HTTP/2 does, where an answer comes early
	kept []byte
}

// Read implements io.Reader.
func (b *keptBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.keep(p[:n])
	if err != nil {
		b.end()
	}
	return n, err
}

// Close implements io.Closer.
func (b *keptBody) Close() error {
	err := b.ReadCloser.Close()
	b.end()
	return err
}

func (b *keptBody) keep(read []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	left := b.most - int64(len(b.kept))
	if left <= 0 {
		return
	}
	read = read[:min(int64(len(read)), left)]
	before := cap(b.kept)
	kept := slices.Grow(b.kept, len(read))
	if b.room != nil && cap(kept) > before && !b.room(int64(cap(kept)-before)) {
		b.kept, b.most = nil, 0
		return
	}
	b.kept = append(kept, read...)
}

func (b *keptBody) end() {
	b.once.Do(func() {
		b.mu.Lock()
		kept := b.kept
		b.mu.Unlock()
		b.ended(kept)
	})
}

// count tells of the request's operations. It runs when the answer has passed, so that no
// request waits for it.
func (c *counted) count(kept []byte) {
	answers, batch := graphql.ReadAnswers(c.plain(kept))
	took := c.x.Now().Sub(c.x.Start)
	errorCount := 0
	var told []analytics.Class
	for i, asked := range c.asked() {
		o := analytics.Operation{
			Deployment: c.p.deployment, Route: c.x.Route.Info.Path, At: c.x.Start, Total: c.total, Resolver: c.resolver,
		}
		if asked != nil {
			o.Name, o.Type, o.Complexity = asked.Name, asked.Type, asked.Complexity
		}
		var a graphql.Answer
		switch {
		case i < len(answers):
			a = answers[i]
		case len(answers) == 1 && !batch:
			a = answers[0] // a refusal of the whole batch
		}
		if a.Resolver > 0 && a.Resolver <= took { // an upstream may claim anything
			o.Resolver = a.Resolver
		}
		o.Failed, o.Classes = c.failed(a.Codes)
		c.p.operations.Operation(o)
		errorCount += len(a.Codes)
		told = append(told, o.Classes...)
	}
	if c.p.log != nil && len(told) > 0 {
		c.line(errorCount, told)
	}
}

// asked are the operations that were asked for, nil for one that nobody can tell: a request that was
// refused before it was read, or is none.
func (c *counted) asked() []*graphql.Operation {
	g := c.x.GraphQL
	if sent := c.sent.Load(); g == nil && sent != nil {
		if body, refused := graphql.Decode(*sent); refused == nil {
			g = &pipeline.GraphQL{Body: body, Documents: make([]*graphql.Document, len(body.Requests))}
			for i := range body.Requests {
				g.Documents[i], _ = c.p.reader.documents.Analyse(body.Requests[i].Query, nil)
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

// failed is whether a request has failed, and of what classes its errors are.
func (c *counted) failed(codes []string) (bool, []analytics.Class) {
	var classes []analytics.Class
	add := func(class analytics.Class) {
		if !slices.Contains(classes, class) {
			classes = append(classes, class)
		}
	}
	for _, code := range codes {
		if class, own := c.p.classes[code]; own {
			add(class)
		} else if class, known := builtinClasses[strings.ToUpper(code)]; known {
			add(class)
		} else if class, known := classOfStatus(c.status); known {
			add(class)
		} else {
			add(c.p.otherwise)
		}
	}
	if len(codes) > 0 || c.status < http.StatusBadRequest {
		return len(codes) > 0, classes
	}
	if class, known := classOfStatus(c.status); known {
		add(class)
	}
	return true, classes
}

// classOfStatus is what a status says of an error without a code. What is too much at a time is of
// none of the classes.
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

// plain is what was kept of an answer without its compression, as far as it goes.
func (c *counted) plain(kept []byte) []byte {
	if c.encoding == "" || strings.EqualFold(c.encoding, "identity") {
		return kept
	}
	a, err := openAnswer(&http.Response{Header: http.Header{"Content-Encoding": {c.encoding}}, Body: io.NopCloser(bytes.NewReader(kept))})
	if err != nil {
		return nil
	}
	text, _ := io.ReadAll(io.LimitReader(a.text, c.p.scan)) // of one that was cut off, what there is
	return text
}

// line writes one for a request with errors: nothing of what they say, which is for the client.
func (c *counted) line(errorCount int, classes []analytics.Class) {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(classNames)) {
		if slices.Contains(classes, classNames[name]) {
			names = append(names, name)
		}
	}
	c.p.log.LogAttrs(c.x.Context, slog.LevelWarn, "graphql errors",
		slog.String("requestId", c.x.RequestID), slog.String("deployment", c.p.deployment.Name),
		slog.String("operation", c.x.Route.Info.OperationID), slog.Int("status", c.status),
		slog.Int("errors", errorCount), slog.String("classes", strings.Join(names, ",")))
}
