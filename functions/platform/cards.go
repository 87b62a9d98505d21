package platform

import (
	"context"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/management/servercards"
)

// discovery serves the documents with which clients find the platform's MCP servers: the cards of the servers, and
// their catalog. The documents are public, and the same for all callers.
type discovery struct {
	// apiURL is the public URL of the API from the configuration, or "" if it is not configured. The cards do not use the
	// Host of the request: otherwise an attacker could put a card with another URL into a cache.
	apiURL string
}

var errNoAddress = fault.New(fault.NotFound, "This installation does not know its own address, which a card has to "+
	"name. Its operator has to set GATEWRIGHT_API_URL.")

func (d discovery) platformCard(context.Context, *struct{}) (*cardOut, error) {
	return d.card(servercards.API())
}

func (d discovery) docsCard(context.Context, *struct{}) (*cardOut, error) {
	return d.card(servercards.Docs())
}

func (d discovery) card(server servercards.Server) (*cardOut, error) {
	if d.apiURL == "" {
		return nil, errNoAddress
	}
	body, err := server.Card(d.apiURL)
	if err != nil {
		return nil, err
	}
	return &cardOut{CardHeaders: cardHeaders(servercards.MediaType), Body: body}, nil
}

func (d discovery) catalog(context.Context, *struct{}) (*catalogOut, error) {
	if d.apiURL == "" {
		return nil, errNoAddress
	}
	body, err := servercards.Catalog(d.apiURL)
	if err != nil {
		return nil, err
	}
	return &catalogOut{CardHeaders: cardHeaders(servercards.CatalogType), Body: body}, nil
}

func (d discovery) preflight(context.Context, *struct{}) (*preflightOut, error) {
	return &preflightOut{CrossOrigin: anyOrigin()}, nil
}

// CardHeaders has the headers of a card or the catalog. A 304 response has them too (specification 4.1).
type CardHeaders struct {
	CrossOrigin
	ContentType  string `header:"Content-Type" hidden:"true"`
	CacheControl string `header:"Cache-Control" doc:"Any cache may keep it for an hour."`
}

// CrossOrigin has the CORS headers that let pages of every origin read a public response.
type CrossOrigin struct {
	AllowHeaders  string `header:"Access-Control-Allow-Headers" doc:"What pages of other origins may send."`
	AllowMethods  string `header:"Access-Control-Allow-Methods" doc:"How pages of other origins may ask."`
	AllowOrigin   string `header:"Access-Control-Allow-Origin" doc:"Pages of every origin may read it."`
	ExposeHeaders string `header:"Access-Control-Expose-Headers" doc:"What pages of other origins may read beside the body."`
}

func cardHeaders(mediaType string) CardHeaders {
	return CardHeaders{CrossOrigin: anyOrigin(), ContentType: mediaType, CacheControl: "public, max-age=3600"}
}

func anyOrigin() CrossOrigin {
	return CrossOrigin{
		AllowHeaders: "Content-Type, If-None-Match", AllowMethods: "GET", AllowOrigin: "*",
		ExposeHeaders: "ETag",
	}
}

type cardOut struct {
	CardHeaders
	Body []byte `contentType:"application/mcp-server-card+json"`
}

type catalogOut struct {
	CardHeaders
	Body []byte `contentType:"application/ai-catalog+json"`
}

type preflightOut struct{ CrossOrigin }
