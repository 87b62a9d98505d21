package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/apitools"
	sharedmcp "github.com/gatewright/gatewright/shared/mcp"
)

// resultOf makes the result of a call of what the API has answered. Secrets are masked but where they were asked for,
// and in what was only tried always: a key that a dry run made opens nothing.
func (s *server) resultOf(t *apitools.Tool, call api.Call, status int, header http.Header, body []byte) *mcp.CallToolResult {
	body = bytes.TrimSpace(body)
	switch {
	case call.DryRun && status < http.StatusBadRequest:
		body = s.catalogue().maskTried(t, body)
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

// maskTried masks what a dry run answers: what is there before and after as its read would be, and what only the change
// itself answers as that.
func (c *catalogue) maskTried(t *apitools.Tool, body []byte) []byte {
	var tried api.DryRun
	if err := json.Unmarshal(body, &tried); err != nil {
		masked, _ := t.Mask(body)
		return masked
	}
	by := t
	if reader := c.readerOf(t.Path); string(tried.Before) != "null" && reader != nil {
		by = reader
	}
	for _, part := range []*json.RawMessage{&tried.Before, &tried.After} {
		*part, _ = by.Mask(*part)
	}
	masked, err := json.Marshal(tried)
	if err != nil {
		panic("mcp: encode a dry run: " + err.Error()) // of parts that have just been decoded
	}
	return masked
}

// readerOf is the tool that reads what a path is about: itself, or what it is a part or an action of.
func (c *catalogue) readerOf(path string) *apitools.Tool {
	for ; path != ""; path = path[:max(0, strings.LastIndexByte(path, '/'))] {
		if t := c.readers[path]; t != nil {
			return t
		}
	}
	return nil
}

// problemResult is the result of a call that was refused: what is wrong in words for a model, with what it can do, and
// the problem as the API has answered it. The problem is a text of its own and no structured content, which would have to
// fit the tool's output schema: clients hold it against that in errors too, and show what does not fit instead of the problem.
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

// hintOf says what to do about a refusal, by a tool of the same server where there is one.
func hintOf(t *apitools.Tool, status int, header http.Header) string {
	after := header.Get("Retry-After")
	switch status {
	case http.StatusBadRequest:
		return "Correct the arguments that the problem names, as tools/list describes them, and call again."
	case http.StatusUnauthorized:
		return "The account key is not valid any more. Ask the person for another one: no other call will do."
	case http.StatusForbidden:
		return "This account key may not do it, and calling again does not help. Ask the person for a key that may, or do without."
	case http.StatusNotFound:
		return "List what there is with the tool whose name ends in _list, and call again with a name or id from there. What the key does not see is not found, either."
	case http.StatusConflict:
		if after != "" {
			return "The same is being changed at this moment. Call again after " + after + " s."
		}
		return "Read what is there, and change that, or choose another name."
	case http.StatusPreconditionFailed:
		return "Somebody has changed it meanwhile. Read it again, look whether the change is still right, and call again with its new ETag as ifMatch."
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return "Nothing was done. Call again after " + max(after, "1") + " s."
	}
	if status >= http.StatusInternalServerError {
		if t.ReadOnly || t.Idempotent {
			return "Call again in a while; the same call again does no harm. Quote the request id to the person if it goes on."
		}
		return "It is not known whether it was done: read what is there before you call again, or repeat the call with the same idempotencyKey. Quote the request id to the person if it goes on."
	}
	return "Change the call by what the problem says."
}
