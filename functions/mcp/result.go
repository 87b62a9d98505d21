package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	sharedmcp "github.com/gatewright/gatewright/shared/format/mcp"
	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/management/apitools"
)

// resultOf creates the result of a call from the API's response. It masks secrets unless the call reveals them. An
// error is always masked. The result of a dry run is always masked too: nobody needs a key that a dry run has created,
// because it is not valid.
func (s *server) resultOf(
	t *apitools.Tool, call api.Call, status int, header http.Header, body []byte,
) *mcp.CallToolResult {
	body = bytes.TrimSpace(body)
	switch {
	case call.DryRun && status < http.StatusBadRequest:
		body = s.catalog().maskDryRun(t, body)
	case !call.Reveal || status >= http.StatusBadRequest:
		body, _ = t.Mask(body)
	}
	if status >= http.StatusBadRequest {
		return problemResult(t, status, header, body)
	}
	result := &mcp.CallToolResult{}
	switch {
	case len(body) == 0:
		result.Content = []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf("Done: %d %s.", status, http.StatusText(status))}}
	default:
		result.Content = []mcp.Content{&mcp.TextContent{Text: string(body)}}
		if body[0] == '{' && json.Valid(body) {
			result.StructuredContent = json.RawMessage(body)
		}
	}
	return result
}

// maskDryRun masks the response of a dry run, which has the states of the object before and after the change. If there
// is a state before the change, both states are responses of the operation that reads the object. So maskDryRun then
// masks with the tool of that operation, if there is one. Otherwise, it masks with t.
func (c *catalog) maskDryRun(t *apitools.Tool, body []byte) []byte {
	var report api.DryRunResult
	if err := json.Unmarshal(body, &report); err != nil {
		masked, _ := t.Mask(body)
		return masked
	}
	masker := t
	if reader := c.readTool(t.Path); string(report.Before) != "null" && reader != nil {
		masker = reader
	}
	for _, part := range []*json.RawMessage{&report.Before, &report.After} {
		*part, _ = masker.Mask(*part)
	}
	masked, err := json.Marshal(report)
	if err != nil {
		panic("mcp: encode a dry run: " + err.Error()) // cannot happen: its parts were decoded from JSON
	}
	return masked
}

// readTool returns the tool that reads the object at this path or, if there is none, at the nearest path above it. It
// returns nil if there is no such tool.
func (c *catalog) readTool(path string) *apitools.Tool {
	for ; path != ""; path = path[:max(0, strings.LastIndexByte(path, '/'))] {
		if t := c.readers[path]; t != nil {
			return t
		}
	}
	return nil
}

// problemResult returns the result of a failed call: a text with a hint for a model, and the API's problem document as
// a second text. The problem document is not structured content, because structured content must match the tool's
// output schema. Clients check the schema for errors too, and would show the mismatch instead of the problem.
func problemResult(t *apitools.Tool, status int, header http.Header, body []byte) *mcp.CallToolResult {
	var problem struct {
		Detail string `json:"detail"`
	}
	text := fmt.Sprintf("%d %s", status, http.StatusText(status))
	if json.Unmarshal(body, &problem) == nil && problem.Detail != "" {
		text += ": " + problem.Detail
	}
	result := sharedmcp.Refusal(text + "\n" + hintOf(t, status, header))
	if json.Valid(body) {
		result.Content = append(result.Content, &mcp.TextContent{Text: string(body)})
	}
	return result
}

// hintOf returns a text for a model that says what to do after a response with this status, which is at least 400.
func hintOf(t *apitools.Tool, status int, header http.Header) string {
	retryAfter := header.Get("Retry-After")
	switch status {
	case http.StatusBadRequest:
		return "Correct the arguments that the problem names, as tools/list describes them, and call again."
	case http.StatusUnauthorized:
		return "The account key is not valid any more. Ask the person for another one: no other call will do."
	case http.StatusForbidden:
		return "This account key may not do it, and calling again does not help. Ask the person for a key that may, " +
			"or do without."
	case http.StatusNotFound:
		return "List what there is with the tool whose name ends in _list, and call again with a name or id from there. " +
			"What the key does not see is not found, either."
	case http.StatusConflict:
		if retryAfter != "" {
			return "The same is being changed at this moment. Call again after " + retryAfter + " s."
		}
		return "Read what is there, and change that, or choose another name."
	case http.StatusPreconditionFailed:
		return "Somebody has changed it meanwhile. Read it again, look whether the change is still right, and call again " +
			"with its new ETag as ifMatch."
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return "Nothing was done. Call again after " + max(retryAfter, "1") + " s."
	}
	if status >= http.StatusInternalServerError {
		if t.ReadOnly || t.Idempotent {
			return "Call again in a while; the same call again does no harm. Quote the request id to the person if it goes on."
		}
		return "It is not known whether it was done: read what is there before you call again, or repeat the call with the " +
			"same idempotencyKey. Quote the request id to the person if it goes on."
	}
	return "Change the call by what the problem says."
}
