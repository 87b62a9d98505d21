// Package api turns declarations of operations into an HTTP API.
//
// An operation is declared once, as data (Operation), apart from the function that carries it out. A Group is
// the set of operations that one function of the installation serves. The package derives routing, decoding and
// validation, the scope check, the audit record of a refusal and the OpenAPI document from the declarations.
// Other packages derive routes, grants and tools from them. Package huma, over net/http.ServeMux, decodes and
// validates requests and writes the document. This package adds everything else that our contract requires.
//
// The package knows no resource. A handler is a few lines that call a service in shared.
// Handlers return faults (package fault), and only problem.go converts faults to status codes.
//
// Read api.go first, then server.go, which shows the steps of a request. Rules: design 3 and 4, contract 1.
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

	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/store"
)

// Operation declares one operation of the API. In is a struct with path, query and header tags and an optional
// Body. Out is a struct with an optional Body, or NoContent. Validation tags are those of huma.
type Operation[In, Out any] struct {
	// ID is the operation's id, unique in the API, such as "ApiKeyBucketsService_list".
	ID string
	// Method and Path are those of the route. A path segment in braces is a parameter.
	Method, Path string
	// Status is the status code of a success; 0 means 200.
	Status int
	// Summary is one short line and Description is longer. Both are for readers of the OpenAPI document.
	Summary, Description string

	// Public operations need no credentials.
	Public bool
	// Polled is true if clients repeat the request until a result exists. Such an operation
	// responds 500 in place of 429, because these clients stop polling at a 429 (contract 3.1).
	Polled bool
	// Hidden operations serve web pages for people, and files that browsers request on
	// their own. They are routed, granted and tested like all others, but they are left
	// out of the OpenAPI document and of everything that is generated for programs.
	Hidden bool
	// NoTool operations are not offered as tools by the API's own MCP server: they are an MCP server themselves, or
	// describe one.
	NoTool bool
	// Scope is the scope that the caller's key needs. If it is "", any valid key is accepted.
	Scope auth.Scope
	// Invisible is the response to a key that does not see the object
	// of the request. Every operation that is not public must set it.
	Invisible Invisible
	// Audit is the action in the operation's audit record, in the form
	// "resource.verb" (contract 3.3). It is "" for an operation that changes nothing.
	Audit audit.Action
	// KeyOnly operations accept an account key and no session. SessionOnly operations accept a session and no key.
	KeyOnly, SessionOnly bool
	// NoIdempotencyKey operations ignore the Idempotency-Key, because their response contains data that must not be
	// stored anywhere. A repeated request is carried out each time.
	NoIdempotencyKey bool
	// Replaces is true if a POST ends or replaces something that exists, such as a key or the
	// deployment that is served. For other operations, the method determines this (Effect).
	Replaces bool
	// Resources are the types of the resources in the audit record of a success: the first
	// type is in every such record, and the others only if the change affected them.
	Resources []string
	// Errors are the status codes of the operation's errors in addition to those that the package adds (statuses).
	Errors []int
	// Limit is the number of requests per second that an account key may send to this operation and to the others that
	// share the limit.
	Limit Limit
	// ReadPath is the path of the read operation for the object that the operation changes, if that is not the
	// operation's own path. If-Match, the ETag of a response and a dry run refer to that read. Each parameter
	// of ReadPath has the name of a parameter of the operation's path or query, or of a string in its body.
	ReadPath string
	// Uses are the operation's own accesses to resources outside its process. Type Use lists the uses that this
	// package adds.
	Uses []Use
	// Parameters documents the parameters, and Message the body, that In reads by a Resolver rather than
	// by tags. Neither these parameters nor this body are validated before the operation runs.
	Parameters []*huma.Param
	Message    *huma.RequestBody
	// ContainsRequests is true if a request contains requests for other
	// operations. The operation then has the uses of these operations.
	ContainsRequests bool
	// Origins defines which web pages may call the operation from a browser.
	Origins Origins
	// Strict refuses query parameters that In does not declare; other operations ignore them (contract 1.4).
	// Each parameter of a Strict operation narrows its result, so a mistyped name would return too much.
	Strict bool
}

// Invisible holds the status codes of an operation for account keys that do not see the object of a request: Project
// for a key that does not see the project, Environment for a key that sees the project but not that kind of
// environment.
//
// A 404 is the same response, word for word, as for an object that does not exist. A success contains nothing that the
// key does not see, as if it did not exist. A 403 refuses to create an object that the key itself would not see, or to
// show data of the whole account. An object of another account, or a request that names another account, is always a
// 404. A project in the path that the key does not see is always a 404, too.
type Invisible struct{ Project, Environment int }

// The usual values of Invisible.
var (
	// InvisibleNotFound is for operations on an object that the request names.
	InvisibleNotFound = Invisible{http.StatusNotFound, http.StatusNotFound}
	// InvisibleOmitted is for lists, and for operations that concern only the caller.
	InvisibleOmitted = Invisible{http.StatusOK, http.StatusOK}
)

// NoContent is the Out of an operation whose response has no body.
type NoContent struct{}

// Use is one access of an operation to a resource outside its process. A function is granted the union of its
// operations' uses and OptionalUses. An access without a declared use fails where grants are enforced. A declared use
// without an access is reported as a finding.
//
// Operations do not list three uses that this package adds: GetItem to find the caller, PutItem to record a change or
// its refusal, and RootKey to seal responses that are stored for an Idempotency-Key. AddReadUses adds the uses of the
// read that a conditional change makes. OptionalUses are further uses, which only some requests need.
type Use string

// The uses. Package store reads a single item with GetItem and several
// with BatchGetItem. The grants for a transaction are those for its parts.
const (
	GetItem      Use = "table: get an item"
	BatchGetItem Use = "table: get items"
	Query        Use = "table: query"
	QueryDue     Use = "table: query the due index"
	// ScanTable reads the whole table. No request does this, only the renewal of all records under another root key.
	ScanTable  Use = "table: scan"
	PutItem    Use = "table: put an item"
	UpdateItem Use = "table: update an item"
	DeleteItem Use = "table: delete an item"
	CheckItem  Use = "table: check an item"
	// RootKey unwraps the installation's root key, to seal, open or hash.
	// CreateRootKey creates the root key of an installation that has none.
	RootKey       Use = "key: unwrap the root key"
	CreateRootKey Use = "key: make the root key"
	PresignUpload Use = "uploads: sign an address"
	ReadUpload    Use = "uploads: read"
	DeleteUpload  Use = "uploads: delete"
	// ListObjects is also needed to distinguish an absent object from one that is not readable: without the permission
	// to list, S3 returns 403 for both.
	ListObjects    Use = "bucket: list"
	ReadSource     Use = "sources: read"
	WriteSource    Use = "sources: write"
	DeleteSource   Use = "sources: delete"
	ReadArtifact   Use = "artifacts: read"
	WriteArtifact  Use = "artifacts: write"
	DeleteArtifact Use = "artifacts: delete"
	// WriteTruststore and DeleteTruststore are for the client CAs that API Gateway reads.
	WriteTruststore  Use = "truststores: write"
	DeleteTruststore Use = "truststores: delete"
)

// Declaration describes an Operation without its type parameters. TakesBody, Single and SlashParameter are derived from
// In and Out. Errors and Uses include what this package adds.
type Declaration struct {
	ID, Method, Path          string
	Status                    int
	Summary, Description      string
	Public, Hidden            bool
	Polled                    bool
	NoTool, Replaces          bool
	KeyOnly, NoIdempotencyKey bool
	SessionOnly               bool
	Scope                     auth.Scope
	Invisible                 Invisible
	Audit                     audit.Action
	Resources                 []string
	Errors                    []int
	Limit                     Limit
	Uses                      []Use
	ContainsRequests          bool
	Origins                   Origins
	TakesBody                 bool
	// TakesMessage is true if the operation accepts a body that is not validated before the operation runs.
	TakesMessage bool
	// Single is true if the operation reads one object, not a List. Its responses have an ETag.
	Single bool
	// ReadPath is the path of the read of the operation's object: the operation's own path, unless it declares another.
	ReadPath string
	// SlashParameter is the path parameter, in braces, whose values may contain slashes, such as the
	// branch feature/x. It is "" if there is no such parameter. Its field in In has the tag
	// slashes:"true". Clients write the slashes as %2F. Platforms that decode a path before they route
	// it see more segments than the client wrote, so their route must match the whole remaining path.
	SlashParameter string
}

// Mutates reports whether the operation changes something.
func (d Declaration) Mutates() bool { return d.Audit != "" }

// TakesIdempotencyKey reports whether the operation takes an Idempotency-Key.
func (d Declaration) TakesIdempotencyKey() bool {
	return !d.NoIdempotencyKey && repeatable(d.Method, d.Audit)
}

// AcceptsIfMatch reports whether the operation takes If-Match.
func (d Declaration) AcceptsIfMatch() bool { return conditional(d.Method, d.Audit) }

func repeatable(method string, action audit.Action) bool {
	return action != "" && slices.Contains([]string{http.MethodPost, http.MethodPatch, http.MethodPut}, method)
}

func conditional(method string, action audit.Action) bool {
	return action != "" && slices.Contains([]string{http.MethodPatch, http.MethodPut, http.MethodDelete}, method)
}

func (o Operation[In, Out]) takesIdempotencyKey() bool {
	return !o.NoIdempotencyKey && repeatable(o.Method, o.Audit)
}
func (o Operation[In, Out]) conditional() bool { return conditional(o.Method, o.Audit) }

// AnyOperation is an Operation with any In and Out.
type AnyOperation interface {
	Declaration() Declaration
	outline() Declaration
	route(tag string) Route
}

// Declaration implements AnyOperation.
func (o Operation[In, Out]) Declaration() Declaration { return o.declaration(newInput[In]()) }

func (o Operation[In, Out]) declaration(in *input) Declaration {
	d := o.outline()
	_, d.TakesBody = reflect.TypeFor[In]().FieldByName("Body")
	d.Errors, d.SlashParameter = o.statuses(d.TakesBody), in.slashParameter
	return d
}

// outline returns the declaration without the parts that depend on In: TakesBody, Errors and SlashParameter.
func (o Operation[In, Out]) outline() Declaration {
	status := o.Status
	if status == 0 {
		status = http.StatusOK
	}
	return Declaration{
		ID: o.ID, Method: o.Method, Path: o.Path, Status: status,
		Summary: o.Summary, Description: o.Description,
		Public: o.Public, Hidden: o.Hidden, NoTool: o.NoTool, Scope: o.Scope, Invisible: o.Invisible,
		Audit: o.Audit, Replaces: o.Replaces, Resources: o.Resources,
		Limit: o.Limit, Uses: o.uses(), TakesMessage: o.Message != nil,
		Single:           o.Method == http.MethodGet && status < http.StatusMultipleChoices && single(reflect.TypeFor[Out]()),
		ReadPath:         cmp.Or(o.ReadPath, o.Path),
		ContainsRequests: o.ContainsRequests, Origins: o.Origins, Polled: o.Polled, KeyOnly: o.KeyOnly,
		SessionOnly: o.SessionOnly, NoIdempotencyKey: o.NoIdempotencyKey,
	}
}

// OptionalUses returns the uses that only some requests of the operation need:
// to record the day on which a key was used and the time at which a session was
// used, and to count requests for a limit. A function is granted these uses too.
func (d Declaration) OptionalUses() []Use {
	if d.Public {
		return nil
	}
	return []Use{UpdateItem}
}

// uses returns all uses of the operation, sorted.
func (o Operation[In, Out]) uses() []Use {
	all := slices.Clone(o.Uses)
	if !o.Public {
		all = append(all, GetItem)
	}
	if o.Audit != "" {
		all = append(all, PutItem)
	}
	if o.takesIdempotencyKey() {
		all = append(all, RootKey) // to seal stored responses
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// statuses returns the status codes of all errors of the operation, in ascending order.
func (o Operation[In, Out]) statuses(takesBody bool) []int {
	// Any path or query can contain invalid text, and any operation can fail.
	all := append(slices.Clone(o.Errors), http.StatusBadRequest, http.StatusInternalServerError)
	if !o.Public {
		all = append(all, http.StatusUnauthorized)
	}
	if o.Scope != "" || o.Origins == KnownOrigins || o.Origins == SameOrigin {
		all = append(all, http.StatusForbidden)
	}
	if takesBody {
		all = append(all, http.StatusRequestEntityTooLarge)
	}
	if o.takesIdempotencyKey() {
		all = append(all, http.StatusConflict, http.StatusUnprocessableEntity)
	}
	if o.SessionOnly {
		all = append(all, http.StatusConflict)
	}
	if o.conditional() {
		all = append(all, http.StatusPreconditionFailed)
	}
	if !o.Public && !o.Polled { // the account's limits apply (package limits)
		all = append(all, http.StatusTooManyRequests)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Route is an operation with the function that carries it out.
type Route struct {
	Declaration
	in *input
	// register adds the operation to an API of huma, with a middleware or nil.
	register func(a huma.API, middleware func(huma.Context, func(huma.Context)))
	handler  any // func(context.Context, *In) (*Out, error), of the operation's types
}

// HandledBy binds the operation to the function that carries it out. Errors that wrap a fault
// become its problem document. All other errors become a 500, and their cause is logged.
func (o Operation[In, Out]) HandledBy(handler func(context.Context, *In) (*Out, error)) Route {
	r := o.route("")
	r.handler = handler
	return r
}

// route returns the operation as a Route without a handler. If tag is not "", the Route is for the OpenAPI document.
// route panics if ReadPath has a parameter that the operation does not have.
func (o Operation[In, Out]) route(tag string) Route {
	fields := newInput[In]()
	d := o.declaration(fields)
	fields.strict = o.Strict
	if name := fields.unknownReadParameter(d); name != "" {
		panic(fmt.Sprintf("api: %s is read at %s, and has no parameter and no text {%s}", d.ID, d.ReadPath, name))
	}
	return Route{
		Declaration: d, in: fields,
		register: func(a huma.API, middleware func(huma.Context, func(huma.Context))) {
			op := huma.Operation{
				OperationID: d.ID, Method: d.Method, Path: d.Path, DefaultStatus: d.Status,
				Summary: d.Summary, Description: d.Description,
				Parameters: slices.Clone(o.Parameters),
				// readRequestBody reads the body and checks its size before huma runs.
				MaxBodyBytes:    -1,
				BodyReadTimeout: -1,
			}
			if tag != "" {
				op.Tags = []string{tag}
				op.Responses = errorResponses(a.OpenAPI(), d)
				d.documentHeaders(&op)
				if body, ok := reflect.TypeFor[Out]().FieldByName("Body"); ok && body.Type == reflect.TypeFor[[]byte]() {
					op.Responses[strconv.Itoa(d.Status)].Content = rawContent(cmp.Or(body.Tag.Get("contentType"), "application/json"))
				}
			}
			if tag != "" { // otherwise huma would read the body
				op.RequestBody = o.Message
			}
			if d.TakesBody { // huma adds the content
				op.RequestBody = &huma.RequestBody{Content: map[string]*huma.MediaType{}}
			}
			op.Extensions = d.extensions()
			op.Security = d.security()
			if middleware != nil {
				op.Middlewares = huma.Middlewares{middleware}
			}
			huma.Register(a, op, func(ctx context.Context, in *In) (*Out, error) {
				handler, _ := stateOf(ctx).handler.(func(context.Context, *In) (*Out, error))
				out, err := handler(ctx, in)
				if err != nil {
					return nil, asStatusError(ctx, err, fields)
				}
				return out, nil
			})
			if d.Single && tag != "" { // huma has added the headers of Out
				maps.Copy(op.Responses[strconv.Itoa(http.StatusNotModified)].Headers, op.Responses[strconv.Itoa(d.Status)].Headers)
			}
			if d.TakesBody {
				schemas, body := a.OpenAPI().Components.Schemas, op.RequestBody.Content["application/json"].Schema
				fields.shape = newBodyShape(schemas, body)
				allowNull(schemas, body)
			}
		},
	}
}

// Group is the set of operations that one function serves: a resource and its operations.
type Group struct {
	// Name is the name of its folder and of its function.
	Name string
	// Title and Description are its tag in the OpenAPI document. The names of its schemas begin with the title, so a
	// new title renames them all.
	Title, Description string
	// CPUBound is true if the group's operations are limited by the processor rather than by
	// waiting. In AWS its function has more memory, and with it a larger share of a processor.
	CPUBound bool
	// UsesModels is true if the group's function may call models of Bedrock. In AWS, the function
	// receives the model names in the installation's context, and is granted these models and no others.
	UsesModels bool
	// TableAccess is the set of the table's key prefixes that its operations access, in addition to those that this
	// package accesses for each of them (FullTableAccess).
	TableAccess store.TableAccess
	// Operations are the group's operations, in the order of their documentation.
	Operations []AnyOperation
}

// Declarations returns the group's operations.
func (g Group) Declarations() []Declaration {
	return g.completed(AnyOperation.Declaration)
}

// completed returns the declarations of the group's operations, completed by AddReadUses.
func (g Group) completed(declaration func(AnyOperation) Declaration) []Declaration {
	out := make([]Declaration, 0, len(g.Operations))
	for _, o := range g.Operations {
		out = append(out, declaration(o))
	}
	return AddReadUses(out)
}

// AddReadUses completes the declarations of one group in place, and returns them: a conditional change (If-Match) also
// has the uses of the read of its object. The conditional commit also checks items that the
// read used and the change does not write. A change with such items declares CheckItem itself.
func AddReadUses(all []Declaration) []Declaration {
	for i, d := range all {
		if !d.AcceptsIfMatch() {
			continue
		}
		for _, read := range all {
			if read.Single && read.Path == d.ReadPath {
				uses := slices.Concat(d.Uses, read.Uses)
				slices.Sort(uses)
				all[i].Uses = slices.Compact(uses)
			}
		}
	}
	return all
}
