package sessions

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/management/api"
)

const sessionPath = "/v1/session"

// Group is the group of operations of this function.
var Group = api.Group{
	Name:        "sessions",
	Title:       "Sessions",
	Description: "What the caller may, and sessions, which stand for an account key in a browser.",
	TableAccess: store.TableAccess{
		Writes: []store.KeyPrefix{"session"},
	},
	Operations: []api.AnyOperation{create, read, remove},
}

var create = api.Operation[createIn, createdOut]{
	ID: "SessionService_create", Method: http.MethodPost, Path: sessionPath, Status: http.StatusCreated,
	Summary: "Exchange the account key for a session",
	Description: "For pages of the API's own origin: the session is in a cookie that no script reads, and counts for " +
		"requests without Authorization that the browser marks as Sec-Fetch-Site: same-origin. " +
		"It may what its key may, and ends with it, after 30 minutes without a request, or after 12 hours. A session makes " +
		"none. Each request makes another, with an Idempotency-Key too. " +
		"A request that a browser sends for a page of another origin is refused, also where Sec-Fetch-Site is same-site.",
	Invisible: api.InvisibleOmitted, KeyOnly: true, NoIdempotencyKey: true, NoTool: true, Origins: api.SameOrigin,
	Audit: "session.create", Resources: []string{"session"},
	Uses: []api.Use{api.PutItem},
}

var read = api.Operation[readIn, callerOut]{
	ID: "SessionService_read", Method: http.MethodGet, Path: sessionPath,
	Summary: "Read what the caller may",
	Description: "The account, the key and what it may, and the session if the request is made with one. A page that " +
		"asks by itself sends Gatewright-Idle: true with this and other requests, " +
		"which then keep the session from ending no longer.",
	Invisible: api.InvisibleOmitted,
}

var remove = api.Operation[removeIn, removedOut]{
	ID: "SessionService_delete", Method: http.MethodDelete, Path: sessionPath, Status: http.StatusNoContent,
	Summary:     "End the session",
	Description: "It is over at once, in all tabs of the browser. The key stays: to end all of its sessions, revoke it.",
	Invisible:   api.InvisibleOmitted, SessionOnly: true, NoTool: true,
	Audit: "session.delete", Resources: []string{"session"}, Uses: []api.Use{api.DeleteItem},
}

type (
	createIn struct{}
	readIn   struct{}
	removeIn struct{}
)

type createdOut struct {
	SetCookie http.Cookie `header:"Set-Cookie" doc:"The session's token, which stands nowhere else."`
	Body      caller
}

type callerOut = api.Body[caller]

type removedOut struct {
	SetCookie http.Cookie `header:"Set-Cookie" doc:"What removes the session's cookie."`
}

type caller struct {
	Account      string    `json:"account" doc:"The account's name."`
	Sub          string    `json:"sub" doc:"The account key's id." example:"akey_0VDpf4xpZMy03OCIoOSLIPh5"`
	Label        string    `json:"label" doc:"The key's name for people."`
	Scopes       api.Names `json:"scopes" doc:"What it may do: all, or a list."`
	Projects     api.Names `json:"projects" doc:"The projects that it reaches: all, or a list of names."`
	Environments []string  `json:"environments" doc:"The kinds of environment that it reaches."`
	Confirm      bool      `json:"confirmDestructive" doc:"Whether a person has to confirm, in their MCP client, what the key is used for there and removes or replaces something."`
	KeyExpiresOn *string   `json:"keyExpiresOn" format:"date-time" nullable:"true" doc:"When the key stops working, null for never."`
	Session      *session  `json:"session" doc:"The session that the request is made with, or has made; null for one that is made with the key."`
}

type session struct {
	CreatedOn   string `json:"createdOn" format:"date-time" doc:"When it was made."`
	ExpiresOn   string `json:"expiresOn" format:"date-time" doc:"When it ends however much it is used."`
	IdleSeconds int    `json:"idleSeconds" doc:"How long it lasts without being used, in seconds."`
}

// TransformSchema implements huma.SchemaTransformer: the session can be null.
func (session) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	s.Nullable = true
	return s
}
