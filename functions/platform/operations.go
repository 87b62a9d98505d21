package platform

import (
	"net/http"

	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/auth"
)

// Group is what this function answers.
var Group = api.Group{
	Name:        "platform",
	Title:       "Platform",
	Description: "The API's description, the caller and the accounts the caller sees.",
	Operations:  []api.Declared{openAPI, whoAmI, listAccounts, docsOverview, docsPage},
}

var openAPI = api.Operation[openAPIIn, openAPIOut]{
	ID: "openApi", Method: "GET", Path: "/openapi",
	Summary:     "Describe this API",
	Description: "The OpenAPI 3.1 description of this API, in JSON, or in YAML where Accept prefers that. It needs no credentials.",
	Public:      true,
}

var whoAmI = api.Operation[struct{}, whoAmIOut]{
	ID: "V1_whoAmI", Method: "GET", Path: "/v1/who-am-i",
	Summary:     "Tell who the caller is",
	Description: "What identifies the bearer of the account key, and the account the key belongs to.",
	Unseen:      api.UnseenIsLeftOut,
}

var listAccounts = api.Operation[listAccountsIn, listAccountsOut]{
	ID: "AccountService_list", Method: "GET", Path: "/v1/accounts",
	Summary:     "List accounts",
	Description: "The accounts that the key sees: an account key sees the one it belongs to.",
	Scope:       auth.Accounts.Read(), Unseen: api.UnseenIsLeftOut,
}

var docsOverview = api.Operation[struct{}, pageOut]{
	ID: "docs", Method: "GET", Path: "/docs",
	Summary: "Show the map of the documentation",
	Public:  true, Hidden: true,
}

var docsPage = api.Operation[pageIn, pageOut]{
	ID: "docs_page", Method: "GET", Path: "/docs/{page}",
	Summary: "Show a guide, or the reference of the operations",
	Public:  true, Hidden: true,
	Errors: []int{http.StatusNotFound},
}

type openAPIIn struct {
	Accept string `header:"Accept" hidden:"true"`
}

type openAPIOut struct {
	ContentType string `header:"Content-Type" hidden:"true"`
	Vary        string `header:"Vary" hidden:"true"`
	Body        []byte `contentType:"application/json,application/yaml"`
}

type pageIn struct {
	Page string `path:"page" maxLength:"256" doc:"The page's name: that of a guide, or reference."`
}

// pageOut is a page, and what a browser may do with it: nothing but show it.
type pageOut struct {
	ContentType     string `header:"Content-Type"`
	ContentSecurity string `header:"Content-Security-Policy"`
	ContentSniffing string `header:"X-Content-Type-Options"`
	Referrer        string `header:"Referrer-Policy"`
	Body            []byte
}

type whoAmIOut struct {
	Body caller
}

// caller has these fields and no others, ever: existing clients merge every
// field of it into their own arguments (contract 2.1).
type caller struct {
	Sub     string `json:"sub" doc:"The id of the account key."`
	Account string `json:"account,omitempty" doc:"The name of the account that the key belongs to."`
}

type listAccountsIn struct {
	api.Page
}

type listAccountsOut struct {
	Body api.List[account]
}

type account struct {
	ID   string `json:"id" format:"uuid" doc:"The account's id."`
	Name string `json:"name" doc:"The account's name, as it stands in paths."`
}
