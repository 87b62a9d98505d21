package corpus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/gatewright/gatewright/internal/samples"
	"github.com/gatewright/gatewright/shared/format/project"
)

// host is the host of all requests.
const host = "corpus.test"

// callRoutes sends a valid request to each route.
func (k *check) callRoutes(ctx context.Context, s *site) error {
	for i, route := range s.artifact.Routes {
		if route.Handler.Export != forwardHandler {
			continue
		}
		k.result.Routes++
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("call the routes: %w", err)
		}
		request, err := k.document.Request(route.Method, route.Path)
		if errors.Is(err, samples.ErrNoSample) {
			k.refusals.add(StageSample, err.Error(), title(route))
			continue
		}
		if err != nil {
			return err
		}
		for name, values := range s.credentials {
			request.Header[name] = values
		}
		response, err := s.send(ctx, request.Bytes(host))
		if err != nil {
			k.refusals.add(StageSample, err.Error(), title(route))
			continue
		}
		k.judge(route, strconv.Itoa(i), request, response)
	}
	return nil
}

// judge records the refusal of a valid request, and a request that the upstream got from another route or in another
// form.
func (k *check) judge(route project.Route, index string, request samples.Request, response *response) {
	path, _, _ := strings.Cut(request.Target, "?")
	switch got := response.header; {
	case response.status != http.StatusOK:
		k.refusals.add(StageRequest, fmt.Sprintf("%d %s", response.status, reasonOf(response.body.Bytes())), title(route))
	case got.Get(routeField) != index:
		k.refusals.add(StageRoute, "another route served the request", title(route))
	case decodedPath(got.Get(pathField)) != decodedPath(path):
		k.refusals.add(StageRoute, "the upstream got another path", title(route))
	case got.Get(sumField) != sum(request.Body):
		k.refusals.add(StageRoute, "the upstream got another body", title(route))
	}
}

// reasonOf returns the reason in a problem: its first error, or its detail.
func reasonOf(body []byte) string {
	var problem struct {
		Title, Detail string
		Errors        []struct{ In, Pointer, Detail string }
	}
	if err := json.Unmarshal(body, &problem); err != nil {
		return "a body that is no problem"
	}
	if len(problem.Errors) > 0 {
		return problem.Errors[0].In + ": " + problem.Errors[0].Detail
	}
	if problem.Detail != "" {
		return problem.Detail
	}
	return problem.Title
}
