package platform

import (
	"net/http"

	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/management/servercards"
)

// Group is the group of operations of this function.
var Group = api.Group{
	Name:        "platform",
	Title:       "Platform",
	Description: "The API's description, its MCP servers' cards, the caller and the accounts the caller sees.",
	Operations: []api.AnyOperation{
		openAPI, whoAmI, listAccounts, platformCard, docsCard, aiCatalog,
		docsOverview, docsPage, platformCardPreflight, docsCardPreflight, aiCatalogPreflight,
	},
}

var openAPI = api.Operation[openAPIIn, openAPIOut]{
	ID: "openApi", Method: "GET", Path: "/openapi",
	Summary: "Describe this API",
	Description: "The OpenAPI 3.1 description of this API, in JSON, or in YAML where Accept prefers that. It needs no " +
		"credentials. It has hundreds of kilobytes, more than most models can read at once: tools/list says the same of " +
		"each operation.",
	Public: true,
}

var whoAmI = api.Operation[struct{}, whoAmIOut]{
	ID: "V1_whoAmI", Method: "GET", Path: "/v1/who-am-i",
	Summary:     "Tell who the caller is",
	Description: "What identifies the bearer of the account key, and the account the key belongs to.",
	Invisible:   api.InvisibleOmitted,
}

var listAccounts = api.Operation[listAccountsIn, listAccountsOut]{
	ID: "AccountService_list", Method: "GET", Path: "/v1/accounts",
	Summary:     "List accounts",
	Description: "The accounts that the key sees: an account key sees the one it belongs to.",
	Scope:       auth.Accounts.Read(), Invisible: api.InvisibleOmitted,
}

var platformCard = api.Operation[struct{}, cardOut]{
	ID: "platformMcpServerCard", Method: "GET", Path: servercards.API().CardPath(),
	Summary: "Describe the MCP server of this API",
	Description: "The server card (SEP-2127) of the MCP server that has the operations of this API as tools: what it is " +
		"called, where it is, which versions of the protocol it speaks and that it asks for an account key. The card " +
		"itself needs none.",
	Public: true, NoTool: true, Errors: []int{http.StatusNotFound},
}

var docsCard = api.Operation[struct{}, cardOut]{
	ID: "docsMcpServerCard", Method: "GET", Path: servercards.Docs().CardPath(),
	Summary:     "Describe the MCP server of the documentation",
	Description: "The server card (SEP-2127) of the MCP server that searches the documentation, which anybody may ask.",
	Public:      true, NoTool: true, Errors: []int{http.StatusNotFound},
}

var aiCatalog = api.Operation[struct{}, catalogOut]{
	ID: "aiCatalog", Method: "GET", Path: servercards.CatalogPath,
	Summary: "List the server cards",
	Description: "The AI catalog by which a client that knows this host alone finds the cards of its MCP servers. It " +
		"needs no credentials.",
	Public: true, NoTool: true, Errors: []int{http.StatusNotFound},
}

// A browser sends these preflight requests before it sends a request with If-None-Match for a page of another origin.
// Only these paths and the MCP servers declare a preflight, because all other paths of the API refuse pages of other
// origins.
var (
	platformCardPreflight = preflightOf("platformMcpServerCard", servercards.API().CardPath())
	docsCardPreflight     = preflightOf("docsMcpServerCard", servercards.Docs().CardPath())
	aiCatalogPreflight    = preflightOf("aiCatalog", servercards.CatalogPath)
)

func preflightOf(id, path string) api.Operation[struct{}, preflightOut] {
	return api.Operation[struct{}, preflightOut]{
		ID: id + "_preflight", Method: "OPTIONS", Path: path, Status: http.StatusNoContent,
		Summary: "Let pages of every origin ask",
		Public:  true, Hidden: true,
	}
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

// pageOut is a page with headers that let a browser only display it.
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

// caller describes the caller. Do not add or remove fields, because existing clients merge all fields into their own
// arguments (contract 2.1).
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
