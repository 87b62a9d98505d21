package platform

import (
	"context"

	"github.com/gatewright/gatewright/shared/cards"
	"github.com/gatewright/gatewright/shared/fault"
)

// discovery answers what leads to the platform's MCP servers: their cards, and the catalog of
// these. It is public, and the same for everybody.
type discovery struct {
	// address is the installation's public one, "" where this process does not know it. It comes
	// from the configuration: a card that repeated a request's Host would lead those who find it
	// in a cache wherever somebody else wished.
	address string
}

var errNoAddress = fault.New(fault.NotFound, "This installation does not know its own address, which a card has to name. Its operator has to set GATEWRIGHT_API_URL.")

func (d discovery) platformCard(context.Context, *struct{}) (*cardOut, error) {
	return d.card(cards.API())
}

func (d discovery) docsCard(context.Context, *struct{}) (*cardOut, error) {
	return d.card(cards.Docs())
}

func (d discovery) card(of cards.Server) (*cardOut, error) {
	if d.address == "" {
		return nil, errNoAddress
	}
	body, err := of.Card(d.address)
	if err != nil {
		return nil, err
	}
	return &cardOut{Found: foundBy(cards.MediaType), Body: body}, nil
}

func (d discovery) catalog(context.Context, *struct{}) (*catalogOut, error) {
	if d.address == "" {
		return nil, errNoAddress
	}
	body, err := cards.Catalog(d.address)
	if err != nil {
		return nil, err
	}
	return &catalogOut{Found: foundBy(cards.CatalogType), Body: body}, nil
}

func (d discovery) preflight(context.Context, *struct{}) (*preflightOut, error) {
	return &preflightOut{CrossOrigin: anyOrigin()}, nil
}

// Found is what stands in front of a card and of the catalog, in a 304 too (specification 4.1).
type Found struct {
	CrossOrigin
	ContentType  string `header:"Content-Type" hidden:"true"`
	CacheControl string `header:"Cache-Control" doc:"Any cache may keep it for an hour."`
}

// CrossOrigin lets pages of every origin read an answer: there is nothing in it that is not public.
type CrossOrigin struct {
	AllowHeaders  string `header:"Access-Control-Allow-Headers" doc:"What pages of other origins may send."`
	AllowMethods  string `header:"Access-Control-Allow-Methods" doc:"How pages of other origins may ask."`
	AllowOrigin   string `header:"Access-Control-Allow-Origin" doc:"Pages of every origin may read it."`
	ExposeHeaders string `header:"Access-Control-Expose-Headers" doc:"What pages of other origins may read beside the body."`
}

func foundBy(mediaType string) Found {
	return Found{CrossOrigin: anyOrigin(), ContentType: mediaType, CacheControl: "public, max-age=3600"}
}

func anyOrigin() CrossOrigin {
	return CrossOrigin{AllowHeaders: "Content-Type, If-None-Match", AllowMethods: "GET", AllowOrigin: "*", ExposeHeaders: "ETag"}
}

type cardOut struct {
	Found
	Body []byte `contentType:"application/mcp-server-card+json"`
}

type catalogOut struct {
	Found
	Body []byte `contentType:"application/ai-catalog+json"`
}

type preflightOut struct{ CrossOrigin }
