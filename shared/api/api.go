// Package api turns declarations of operations into an HTTP API.
//
// An operation is declared once, as data (Operation), apart from the function
// that answers it; a Group is what one function of the installation answers.
// From the declarations come routing, decoding and validation, the scope
// check, the audit record of a refusal, the OpenAPI document, and what other
// packages derive: routes, grants, tools. Decoding, validation and the document
// are the work of huma over net/http.ServeMux; this package adds what our
// contract asks beside it.
//
// What it is not: it knows no resource. A handler is a few lines that call a
// service in shared, and faults (package fault) climb to problem.go, the only
// place where they become status codes.
//
// Read api.go, then server.go for a request's way. Rules: design 3 and 4,
// contract 1.
package api

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/store"
)

// Operation declares one operation of the API. In is a struct with path, query
// and header tags and an optional Body; Out is a struct with an optional Body,
// or NoContent. Validation words are those of huma.
type Operation[In, Out any] struct {
	// ID is the operation's id, unique in the API, such as
	// "ApiKeyBucketsService_list".
	ID string
	// Method and Path of the route; a path segment in braces is a parameter.
	Method, Path string
	// Status of a success, 200 when 0.
	Status int
	// Summary is one short line, Description more, both for readers of the
	// OpenAPI document.
	Summary, Description string

	// Public operations take no credentials.
	Public bool
	// Polled tells that clients ask it again and again until something is there, and take a 429 for the end (contract 3.2).
	Polled bool
	// Hidden operations answer pages, for people, and what browsers ask by themselves: they are routed,
	// granted and asked by tests as all others, and are no part of the OpenAPI document, nor of what is
	// made for programs.
	Hidden bool
	// NoTool operations are no tools of the API's own MCP server: those that are one, or that describe it.
	NoTool bool
	// Scope that the caller's key needs; "" asks for a valid key alone.
	Scope auth.Scope
	// Unseen is what a key is answered that does not see what the request is
	// about. Every operation that is not public says it.
	Unseen Unseen
	// Audit is the action recorded for it, spelled "resource.verb" (contract
	// 3.3), "" for one that changes nothing.
	Audit audit.Action
	// KeyAlone operations take an account key, and no session in its place; SessionAlone ones a session, and no key.
	KeyAlone, SessionAlone bool
	// Unkept operations take no Idempotency-Key: their answer has what may be kept nowhere. Of a repeated request each
	// is carried out.
	Unkept bool
	// Replaces tells of a POST that ends or puts aside what was there, such as a key or what is served. Of
	// other methods it is known.
	Replaces bool
	// Resources are the types of what the record of a success names: always the
	// first, the others where the change touched them too.
	Resources []string
	// Errors are statuses the operation may answer beside 400, 401, 403, 413, 429
	// and 500.
	Errors []int
	// Limit is how often an account key may ask it, with the others of its limit.
	Limit Limit
	// ReadAt is the path of the single read of what the operation changes, where that is not the operation's own path: of
	// that read If-Match, the ETag of an answer and a dry run are. Each parameter of it is one of the operation's path or
	// query, or a text of its body, of the same name.
	ReadAt string
	// Uses is what the operation does outside its process: the grants of its
	// function are the union of its operations'.
	Uses []Use
	// Parameters documents what In reads by a Resolver rather than by tags, and Message a body that it reads so:
	// nothing is checked of that before.
	Parameters []*huma.Param
	Message    *huma.RequestBody
	// Carries says that its requests are those of other operations: it does outside its process what these do.
	Carries bool
	// Origins says from which pages it may be called by browsers.
	Origins Origins
	// Strict refuses parameters of the query that In does not declare, which others let pass (contract 1.4): each of those
	// that it does rules something out, so that a mistyped one would rule out nothing.
	Strict bool
}

// Unseen is what an operation answers to a key of the account that does not see
// what the request is about: the statuses for a key that does not see the
// project, and for one that sees the project but not that kind of environment.
//
// A 404 is word for word the answer to what does not exist. A success holds
// nothing of what the key does not see, as if it did not exist. A 403 refuses to
// make what the key itself would not see, or to show what is the whole account's.
// What belongs to another account, or names one, is a 404 always, and so is a
// project that a path names.
type Unseen struct{ Project, Environment int }

// The usual ways.
var (
	// UnseenIsAbsent is for operations on what their request names.
	UnseenIsAbsent = Unseen{http.StatusNotFound, http.StatusNotFound}
	// UnseenIsLeftOut is for lists, and for what is only about the caller.
	UnseenIsLeftOut = Unseen{http.StatusOK, http.StatusOK}
)

// NoContent is the Out of an operation that answers without a body.
type NoContent struct{}

// Use is one thing that an operation does outside its process. A function is
// granted the union of what its operations use, and nothing else: what is
// missing fails where grants are enforced, what is never used is a finding.
//
// Not to be listed is what every operation does by itself: finding the caller
// (GetItem) and recording a change or its refusal (PutItem). What only some of
// their requests do beside that is in Asides.
type Use string

// The uses there are. Package store reads a single item with GetItem and
// several with BatchGetItem; what a transaction does is granted by its parts.
const (
	GetItem      Use = "table: get an item"
	BatchGetItem Use = "table: get items"
	Query        Use = "table: query"
	QueryDue     Use = "table: query the due index"
	// ScanTable is reading all of the table, which the renewal under another root key does and no request.
	ScanTable  Use = "table: scan"
	PutItem    Use = "table: put an item"
	UpdateItem Use = "table: update an item"
	DeleteItem Use = "table: delete an item"
	CheckItem  Use = "table: check an item"
	// RootKey is unwrapping the installation's root key, to seal, open or hash;
	// MakeRootKey is to make it where there is none yet.
	RootKey       Use = "key: unwrap the root key"
	MakeRootKey   Use = "key: make the root key"
	PresignUpload Use = "uploads: sign an address"
	ReadUpload    Use = "uploads: read"
	DeleteUpload  Use = "uploads: delete"
	// ListObjects is also what tells an object that is absent from one that may
	// not be read: S3 answers 403 for both to who may not list.
	ListObjects    Use = "bucket: list"
	ReadSource     Use = "sources: read"
	WriteSource    Use = "sources: write"
	DeleteSource   Use = "sources: delete"
	ReadArtifact   Use = "artifacts: read"
	WriteArtifact  Use = "artifacts: write"
	DeleteArtifact Use = "artifacts: delete"
	// WriteTruststore and DeleteTruststore are of the CAs that API Gateway reads.
	WriteTruststore  Use = "truststores: write"
	DeleteTruststore Use = "truststores: delete"
)

// Declaration is what of an Operation does not depend on its types.
type Declaration struct {
	ID, Method, Path     string
	Status               int
	Summary, Description string
	Public, Hidden       bool
	Polled               bool
	NoTool, Replaces     bool
	KeyAlone, Unkept     bool
	SessionAlone         bool
	Scope                auth.Scope
	Unseen               Unseen
	Audit                audit.Action
	Resources            []string
	Errors               []int
	Limit                Limit
	Uses                 []Use
	Carries              bool
	Origins              Origins
	TakesBody            bool
	// TakesMessage tells that it takes a body of which nothing is checked before it is answered.
	TakesMessage bool
	// Single tells that it reads one thing, and not a list: its answers have an ETag.
	Single bool
	// ReadAt is the path at which what it is about is read: its own, unless it is declared to be another.
	ReadAt string
	// Slashed is the part of Path, in braces, whose values may hold slashes, such
	// as a branch feature/x; "" for none. Its field in In has the tag
	// slashes:"true". A client writes them as %2F; platforms that decode a path
	// before they route it see more segments than there are, so that a route of
	// theirs has to take all that follows.
	Slashed string
}

// Mutates reports whether the operation changes something.
func (d Declaration) Mutates() bool { return d.Audit != "" }

// Repeatable reports whether the operation takes an Idempotency-Key.
func (d Declaration) Repeatable() bool { return !d.Unkept && repeatable(d.Method, d.Audit) }

// Conditional reports whether the operation takes If-Match.
func (d Declaration) Conditional() bool { return conditional(d.Method, d.Audit) }

func repeatable(method string, action audit.Action) bool {
	return action != "" && slices.Contains([]string{http.MethodPost, http.MethodPatch, http.MethodPut}, method)
}

func conditional(method string, action audit.Action) bool {
	return action != "" && slices.Contains([]string{http.MethodPatch, http.MethodPut, http.MethodDelete}, method)
}

func (o Operation[In, Out]) repeatable() bool  { return !o.Unkept && repeatable(o.Method, o.Audit) }
func (o Operation[In, Out]) conditional() bool { return conditional(o.Method, o.Audit) }

// Declared is an Operation of any types.
type Declared interface {
	Declaration() Declaration
	outline() Declaration
	route(tag string) Route
}

// Declaration implements Declared.
func (o Operation[In, Out]) Declaration() Declaration { return o.declaration(inputOf[In]()) }

func (o Operation[In, Out]) declaration(in *input) Declaration {
	d := o.outline()
	_, d.TakesBody = reflect.TypeFor[In]().FieldByName("Body")
	d.Errors, d.Slashed = o.statuses(d.TakesBody), in.slashed
	return d
}

// outline is the declaration without what has to be read of In.
func (o Operation[In, Out]) outline() Declaration {
	status := o.Status
	if status == 0 {
		status = http.StatusOK
	}
	return Declaration{
		ID: o.ID, Method: o.Method, Path: o.Path, Status: status,
		Summary: o.Summary, Description: o.Description,
		Public: o.Public, Hidden: o.Hidden, NoTool: o.NoTool, Scope: o.Scope, Unseen: o.Unseen,
		Audit: o.Audit, Replaces: o.Replaces, Resources: o.Resources,
		Limit: o.Limit, Uses: o.uses(), TakesMessage: o.Message != nil,
		Single:  o.Method == http.MethodGet && status < http.StatusMultipleChoices && single(reflect.TypeFor[Out]()),
		ReadAt:  cmp.Or(o.ReadAt, o.Path),
		Carries: o.Carries, Origins: o.Origins, Polled: o.Polled, KeyAlone: o.KeyAlone, SessionAlone: o.SessionAlone, Unkept: o.Unkept,
	}
}

// Asides is what the operation's function does beside it for some requests: noting
// the day on which a key was used and when a session was, and counting what a limit allows. It is granted
// as Uses are.
func (d Declaration) Asides() []Use {
	if d.Public {
		return nil
	}
	return []Use{UpdateItem}
}

// uses lists all that the operation does outside its process, sorted.
func (o Operation[In, Out]) uses() []Use {
	all := slices.Clone(o.Uses)
	if !o.Public {
		all = append(all, GetItem)
	}
	if o.Audit != "" {
		all = append(all, PutItem)
	}
	if o.repeatable() {
		all = append(all, RootKey) // which seals the answers that are kept
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// statuses lists all errors the operation may answer, in rising order.
func (o Operation[In, Out]) statuses(takesBody bool) []int {
	// Any path and query may be no text, and anything may go wrong.
	all := append(slices.Clone(o.Errors), http.StatusBadRequest, http.StatusInternalServerError)
	if !o.Public {
		all = append(all, http.StatusUnauthorized)
	}
	if o.Scope != "" || o.Origins == KnownOrigins || o.Origins == OwnOrigin {
		all = append(all, http.StatusForbidden)
	}
	if takesBody {
		all = append(all, http.StatusRequestEntityTooLarge)
	}
	if o.repeatable() {
		all = append(all, http.StatusConflict, http.StatusUnprocessableEntity)
	}
	if o.SessionAlone {
		all = append(all, http.StatusConflict)
	}
	if o.conditional() {
		all = append(all, http.StatusPreconditionFailed)
	}
	if !o.Public && !o.Polled { // its account has limits (package limits)
		all = append(all, http.StatusTooManyRequests)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Route is an operation with the function that answers it.
type Route struct {
	Declaration
	in       *input
	register func(huma.API, func(huma.Context, func(huma.Context)))
	answer   any // func(context.Context, *In) (*Out, error), of the operation's types
}

// To binds the operation to the function that answers it. Errors that hold a
// fault become its problem document, all others a 500 whose cause is logged.
func (o Operation[In, Out]) To(answer func(context.Context, *In) (*Out, error)) Route {
	r := o.route("")
	r.answer = answer
	return r
}

// route is the operation without an answer. With a tag it is for the document.
func (o Operation[In, Out]) route(tag string) Route {
	fields := inputOf[In]()
	d := o.declaration(fields)
	fields.strict = o.Strict
	if name := fields.unknown(d); name != "" {
		panic(fmt.Sprintf("api: %s is read at %s, and has no parameter and no text {%s}", d.ID, d.ReadAt, name))
	}
	return Route{Declaration: d, in: fields, register: func(a huma.API, middleware func(huma.Context, func(huma.Context))) {
		op := huma.Operation{
			OperationID: d.ID, Method: d.Method, Path: d.Path, DefaultStatus: d.Status,
			Summary: d.Summary, Description: d.Description,
			Parameters: slices.Clone(o.Parameters),
			// The body is read and bounded by body.go, before huma.
			MaxBodyBytes:    -1,
			BodyReadTimeout: -1,
		}
		if tag != "" {
			op.Tags = []string{tag}
			op.Responses = responses(a.OpenAPI(), d)
			d.documentHeaders(&op)
			if body, ok := reflect.TypeFor[Out]().FieldByName("Body"); ok && body.Type == reflect.TypeFor[[]byte]() {
				op.Responses[strconv.Itoa(d.Status)].Content = written(cmp.Or(body.Tag.Get("contentType"), "application/json"))
			}
		}
		if tag != "" { // else huma would read the body
			op.RequestBody = o.Message
		}
		if d.TakesBody { // huma fills it in
			op.RequestBody = &huma.RequestBody{Content: map[string]*huma.MediaType{}}
		}
		op.Extensions = d.extensions()
		op.Security = d.security()
		if middleware != nil {
			op.Middlewares = huma.Middlewares{middleware}
		}
		huma.Register(a, op, func(ctx context.Context, in *In) (*Out, error) {
			answer, _ := stateOf(ctx).answer.(func(context.Context, *In) (*Out, error))
			out, err := answer(ctx, in)
			if err != nil {
				return nil, asStatusError(ctx, err, fields)
			}
			return out, nil
		})
		if d.Single && tag != "" { // huma has added what Out says
			maps.Copy(op.Responses[strconv.Itoa(http.StatusNotModified)].Headers, op.Responses[strconv.Itoa(d.Status)].Headers)
		}
		if d.TakesBody {
			schemas, body := a.OpenAPI().Components.Schemas, op.RequestBody.Content["application/json"].Schema
			fields.form = formOf(schemas, body)
			letNull(schemas, body)
		}
	}}
}

// Group is what one function answers: a resource and its operations.
type Group struct {
	// Name is the folder's, and the function's.
	Name string
	// Title and Description are its tag in the OpenAPI document. The names of
	// its schemas begin with the title, so that a new one renames them all.
	Title, Description string
	// Computes says that its operations take the processor rather than wait for others: in AWS its function has a larger share
	// of one, which comes with memory.
	Computes bool
	// Models says that its function may ask models of Bedrock: in AWS it is told those that the installation's context names, and granted
	// them and no others.
	Models bool
	// Reach is which spaces of the table its operations ask for, beside what this package does for each of them (Reached).
	Reach store.Reach
	// Operations in the order in which a reader wants them.
	Operations []Declared
}

// Declarations returns the group's operations.
func (g Group) Declarations() []Declaration {
	return g.related(Declared.Declaration)
}

func (g Group) related(declaration func(Declared) Declaration) []Declaration {
	out := make([]Declaration, 0, len(g.Operations))
	for _, o := range g.Operations {
		out = append(out, declaration(o))
	}
	return Related(out)
}

// Related completes declarations that stand beside each other: a change that is
// made on a condition (If-Match) does what the read of what it is about does, too. What that
// was made of and the change leaves alone is checked as well: such a change declares
// CheckItem itself.
func Related(all []Declaration) []Declaration {
	for i, d := range all {
		if !d.Conditional() {
			continue
		}
		for _, read := range all {
			if read.Single && read.Path == d.ReadAt {
				uses := slices.Concat(d.Uses, read.Uses)
				slices.Sort(uses)
				all[i].Uses = slices.Compact(uses)
			}
		}
	}
	return all
}
