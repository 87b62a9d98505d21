package pipeline

import (
	"fmt"
	"sync"

	"github.com/gatewright/gatewright/shared/format/openapi"
	"github.com/gatewright/gatewright/shared/format/project"
	"github.com/gatewright/gatewright/shared/format/schema"
)

// Description has the compiled descriptions of a route's requests and responses in its OpenAPI document, for policies that
// validate them. It is safe for concurrent use.
type Description struct {
	request   func() (*openapi.Request, error)
	responses func() (*openapi.Response, error)
}

// NewDescription returns the description of a route. definitions are the definitions of the route's artifact. The schemas
// are compiled when they are first used: a deployment can have thousands of routes, and clients call only some of them.
func NewDescription(definitions *schema.Definitions, r *project.Route) *Description {
	return &Description{
		request: sync.OnceValues(func() (*openapi.Request, error) {
			return openapi.CompileRequest(definitions, r.Request)
		}),
		responses: sync.OnceValues(func() (*openapi.Response, error) {
			return openapi.CompileResponse(definitions, r.Responses)
		}),
	}
}

// Compile compiles the descriptions of requests and of responses. It returns an error if one of them is invalid. The build
// of a project calls it, so that Request and Responses return no errors while a project is served.
func (d *Description) Compile() error {
	if _, err := d.request(); err != nil {
		return fmt.Errorf("requests: %w", err)
	}
	if _, err := d.responses(); err != nil {
		return fmt.Errorf("responses: %w", err)
	}
	return nil
}

// Request returns the description of requests. Its error is an error of openapi.CompileRequest.
func (d *Description) Request() (*openapi.Request, error) { return d.request() }

// Responses returns the description of responses. Its error is an error of openapi.CompileResponse.
func (d *Description) Responses() (*openapi.Response, error) { return d.responses() }
