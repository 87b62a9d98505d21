package policy

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"golang.org/x/sync/semaphore"

	"github.com/gatewright/gatewright/shared/dataplane/gateway/pipeline"
	"github.com/gatewright/gatewright/shared/format/project"
	"github.com/gatewright/gatewright/shared/format/schema"
)

// TestMemoryOfResponsesIsReleased checks that the memory for a response is available again after its body was closed, and
// after its body could not be read.
func TestMemoryOfResponsesIsReleased(t *testing.T) {
	t.Parallel()
	const all = maxValidatedResponse + 1
	memory := semaphore.NewWeighted(all)
	description := project.ResponseDescription{"200": {Content: []project.MediaType{
		{Type: "application/json", Schema: json.RawMessage(`{"type": "object"}`)},
	}}}
	route := &pipeline.Route{Description: pipeline.NewDescription(schema.NewDefinitions(nil),
		&project.Route{Responses: description})}
	type received struct {
		mode string
		body io.Reader
	}
	for name, test := range map[string]received{
		"a complete body":       {"reject", strings.NewReader("{}")},
		"a broken body":         {"reject", iotest.ErrReader(io.ErrUnexpectedEOF)},
		"a large body":          {"reject", strings.NewReader(strings.Repeat(" ", 2*maxValidatedResponse))},
		"a logged body":         {"log", strings.NewReader("{}")},
		"a broken, logged body": {"log", io.MultiReader(strings.NewReader("{"), iotest.ErrReader(io.ErrUnexpectedEOF))},
		"a large, logged body":  {"log", strings.NewReader(strings.Repeat(" ", 2*maxValidatedResponse))},
	} {
		provisioned, problems := newResponseValidation("p", json.RawMessage(`{"mode": "`+test.mode+`"}`),
			&Setup{ResponseMemory: memory})
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		x := &pipeline.Exchange{
			Context: t.Context(), Method: http.MethodGet, Route: route, FromUpstream: true, Header: http.Header{},
		}
		r := provisioned.Outbound.Outbound(x, &http.Response{
			StatusCode: http.StatusOK, ContentLength: -1, Body: io.NopCloser(test.body),
			Header: http.Header{"Content-Type": {"application/json"}},
		})
		_, _ = io.ReadAll(r.Body)
		_ = r.Body.Close()
		if !memory.TryAcquire(all) {
			t.Errorf("%s: memory after the response was closed is not available, want all of it", name)
			continue
		}
		memory.Release(all)
	}
}
