package auditlogs

import (
	"net/http"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/gatewright/gatewright/shared/core/audit/proof"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/management/api"
)

// Group is the group of operations of this function.
var Group = api.Group{
	Name:        "auditlogs",
	Title:       "Audit logs",
	Description: "Who changed what, and when. A record is never changed, and kept for 90 days.",
	TableAccess: store.TableAccess{
		Reads: []store.KeyPrefix{"audit", "audit-count", "audit-head", "audit-new"},
	},
	Operations: []api.AnyOperation{list, export},
}

var list = api.Operation[listIn, listOut]{
	ID: "AuditLogsService_list", Method: http.MethodGet, Path: "/v1/accounts/{accountName}/audit-logs",
	Summary: "List the audit log",
	Description: "The changes of the account that were made, refused or failed, newest first. All filters that are " +
		"given have to match. " +
		"They are those of the whole account, so that a key which is limited to projects or environments is refused. " +
		"A change is listed as soon as it is answered. total and hasMore are of the moment in which the page was read.",
	Scope: auth.AuditLogs.Read(), Invisible: api.Invisible{
		Project:     http.StatusForbidden,
		Environment: http.StatusForbidden,
	},
	Errors: []int{http.StatusNotFound, http.StatusTooManyRequests},
	Uses:   []api.Use{api.BatchGetItem, api.Query, api.RootKey},
}

var export = api.Operation[exportIn, exportOut]{
	ID: "AuditLogsService_export", Method: http.MethodGet, Path: "/v1/accounts/{accountName}/audit-logs/export",
	Summary: "Export the audit log with its proof",
	Description: "The chained records of the account and their signatures, in pages of 1000 records and 5 MB at most, " +
		"and with the last page what is the first line of the file that they make: header, and then the links in the " +
		"order of seq, " +
		"each as JSON on a line of its own. Who knows the installation's public key verifies such a file anywhere. What is " +
		"chained after the first page was read is in none, and pages are in no order. " +
		"A key which is limited to projects or environments is refused.",
	Scope: auth.AuditLogs.Read(), Invisible: api.Invisible{
		Project:     http.StatusForbidden,
		Environment: http.StatusForbidden,
	},
	Errors: []int{http.StatusNotFound, http.StatusConflict},
	Uses:   []api.Use{api.GetItem, api.Query, api.RootKey},
}

type exportIn struct {
	api.AccountPath
	api.After
}

type exportOut = api.Paged[exported]

type exported struct {
	Links  []proof.Link  `json:"links" nullable:"false" doc:"The records of this page."`
	Header *proof.Header `json:"header,omitempty" doc:"The first line of the file, with the last page alone."`
	Next   *string       `json:"next" nullable:"true" doc:"What to give as after for the next page, null on the last one."`
}

type listIn struct {
	api.AccountPath
	Limit     int                 `query:"limit" minimum:"1" default:"20" doc:"The most records to return. A value over 100 counts as 100."`
	Offset    int                 `query:"offset" minimum:"0" default:"0" doc:"How many records to skip."`
	Action    string              `query:"action" maxLength:"128" doc:"Only this action, such as key-bucket.create."`
	StartDate optional[time.Time] `query:"startDate" doc:"Only changes at this time or later. Without it the list begins 30 days before its end."`
	EndDate   optional[time.Time] `query:"endDate" doc:"Only changes before this time, which is later than startDate, by at most 30 days. Without it the list ends now."`
	Actor     string              `query:"actor" maxLength:"256" doc:"Only what this actor has asked for: an email or a sub, such as the id of an account key."`
	Success   optional[bool]      `query:"success" doc:"Only what was done, or only what was refused or failed."`
	api.After
}

// optional is a parameter that also records whether a request has set it. Use it for parameters whose zero value is a
// valid value.
type optional[T any] struct {
	value T
	isSet bool
}

// pointer returns the parameter's value, or nil if it is missing.
func (o optional[T]) pointer() *T {
	if !o.isSet {
		return nil
	}
	return &o.value
}

// Schema implements huma.SchemaProvider.
func (optional[T]) Schema(r huma.Registry) *huma.Schema {
	return r.Schema(reflect.TypeFor[T](), true, "")
}

// Receiver implements huma.ParamWrapper.
func (o *optional[T]) Receiver() reflect.Value { return reflect.ValueOf(&o.value).Elem() }

// OnParamSet implements huma.ParamReactor.
func (o *optional[T]) OnParamSet(isSet bool, _ any) { o.isSet = isSet }

var (
	_ huma.ParamWrapper = (*optional[bool])(nil)
	_ huma.ParamReactor = (*optional[bool])(nil)
)

type listOut = api.Paged[auditLog]

type auditLog struct {
	Data       []entry    `json:"data" nullable:"false" doc:"The records of this page."`
	Pagination pagination `json:"pagination" doc:"Where the page stands in the list."`
	Next       *string    `json:"next" nullable:"true" doc:"What to give as after for the next page, null on the last one."`
}

type pagination struct {
	Limit   int  `json:"limit" doc:"The most records that this page could hold."`
	Offset  int  `json:"offset" doc:"How many records were skipped; 0 with after."`
	Total   int  `json:"total" doc:"How many records match in all."`
	HasMore bool `json:"hasMore" doc:"Whether there are records behind this page."`
}

type entry struct {
	Action    string            `json:"action" doc:"What was to be done, as resource.verb." example:"key-bucket.create"`
	Metadata  map[string]string `json:"metadata" nullable:"true" doc:"More about it, or null."`
	Actor     actor             `json:"actor" doc:"Who asked."`
	Resources []resource        `json:"resources" nullable:"true" doc:"What it was done to, null where nothing was done."`
	Context   origin            `json:"context" doc:"Where the request came from. What is not known is null."`
	Route     route             `json:"route" doc:"The request."`
	Timestamp string            `json:"timestamp" format:"date-time" doc:"When it was asked for."`
	RequestID string            `json:"requestId" doc:"The request's id, as the answer had it in X-Request-Id."`
	Success   *bool             `json:"success" nullable:"true" doc:"Whether it was done; null where that is not known."`
	Error     *string           `json:"error" nullable:"true" doc:"What the caller was told, null for a success."`
}

type actor struct {
	Sub        string            `json:"sub" doc:"Who it is: the id of an account key." example:"akey_5Vb1Nc8Xz4Lk7Jh2Gf6Ds9Qw"`
	Email      *string           `json:"email" nullable:"true" doc:"Their email."`
	Type       string            `json:"type" doc:"What they are: user, consumer, service or anonymous."`
	Connection *string           `json:"connection" nullable:"true" doc:"How they signed in."`
	ActingAs   *actingAs         `json:"actingAs" doc:"Whom they stood for, or null."`
	Metadata   map[string]string `json:"metadata" nullable:"true" doc:"More about them, or null."`
}

type actingAs struct {
	_     struct{} `nullable:"true"`
	Sub   string   `json:"sub" doc:"Who it is."`
	Email *string  `json:"email" nullable:"true" doc:"Their email."`
}

type resource struct {
	Type     string            `json:"type" doc:"What it is." example:"key-bucket"`
	ID       string            `json:"id" doc:"Its id."`
	Metadata map[string]string `json:"metadata" nullable:"true" doc:"Its name and place, or null."`
}

type origin struct {
	IPAddress  *string `json:"ipAddress" nullable:"true" doc:"The address that connected."`
	UserAgent  *string `json:"userAgent" nullable:"true" doc:"The beginning of the header User-Agent."`
	Country    *string `json:"country" nullable:"true" doc:"The country of the address."`
	Region     *string `json:"region" nullable:"true" doc:"Its region."`
	City       *string `json:"city" nullable:"true" doc:"Its city."`
	PostalCode *string `json:"postalCode" nullable:"true" doc:"Its postal code."`
	MetroCode  *string `json:"metroCode" nullable:"true" doc:"Its metro code."`
	ASOrg      *string `json:"asOrg" nullable:"true" doc:"The organisation that the address belongs to."`
}

type route struct {
	Source *string `json:"source" nullable:"true" doc:"Where it was asked: api, mcp or gateway."`
	URL    *string `json:"url" nullable:"true" doc:"The path, without the query."`
	Method *string `json:"method" nullable:"true" doc:"The method."`
}
