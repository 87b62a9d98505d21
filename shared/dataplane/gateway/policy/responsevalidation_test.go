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
	provisioned, problems := newResponseValidation("p", json.RawMessage(`{"mode": "reject"}`),
		&Setup{ResponseMemory: memory})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	description := project.ResponseDescription{"200": {Content: []project.MediaType{
		{Type: "application/json", Schema: json.RawMessage(`{"type": "object"}`)},
	}}}
	route := &pipeline.Route{Description: pipeline.NewDescription(schema.NewDefinitions(nil),
		&project.Route{Responses: description})}
	for name, body := range map[string]io.Reader{
		"a complete body": strings.NewReader("{}"), "a broken body": iotest.ErrReader(io.ErrUnexpectedEOF),
	} {
		x := &pipeline.Exchange{
			Context: t.Context(), Method: http.MethodGet, Route: route, FromUpstream: true, Header: http.Header{},
		}
		r := provisioned.Outbound.Outbound(x, &http.Response{
			StatusCode: http.StatusOK, ContentLength: -1, Body: io.NopCloser(body),
			Header: http.Header{"Content-Type": {"application/json"}},
		})
		_ = r.Body.Close()
		if !memory.TryAcquire(all) {
			t.Errorf("%s: memory after the response was closed is not available, want all of it", name)
			continue
		}
		memory.Release(all)
	}
}
