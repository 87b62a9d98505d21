package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gatewright/gatewright/shared/dataplane/gateway/pipeline"
	sharedmcp "github.com/gatewright/gatewright/shared/format/mcp"
)

// plainText is the default type of a resource (specification, "MCP resources").
const plainText = "text/plain"

// addResource offers a route as a resource.
func (c *caller) addResource() {
	o := c.offer.Operation
	meta := metaOf(o.Meta)
	c.server.protocol.AddResource(&mcp.Resource{
		URI: o.URI, Name: o.Name, Title: o.Name, Description: o.Description, MIMEType: mediaTypeOr(o.MIMEType, plainText),
		Meta: meta,
	}, func(ctx context.Context, _ *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		resp, err := c.run(ctx, func(x *pipeline.Exchange) error { return c.setTarget(x, c.offer.Route.Info.Path, "") })
		if err != nil {
			return nil, err
		}
		if resp.fault != "" {
			return nil, unreadableError("This resource", resp)
		}
		// Return a response with a status other than 2xx too, because clients expect that (contract 4.2): an
		// upstream's error page, or a problem of a policy or the gateway. Such a response keeps its own type.
		mediaType := resp.mediaType
		if resp.ok() {
			mediaType = mediaTypeOr(o.MIMEType, resp.mediaType)
		}
		contents := &mcp.ResourceContents{URI: o.URI, MIMEType: mediaTypeOr(mediaType, plainText), Meta: meta}
		if resp.binary {
			contents.Blob = resp.data
		} else {
			contents.Text = resp.text()
		}
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{contents}}, nil
	})
}

// unreadableError returns the error for a response that can't be the result of resources/read or prompts/get, such as a
// failure or binary data for a prompt. The error's data contains the response's status and text.
func unreadableError(subject string, resp routeResponse) error {
	data, err := json.Marshal(map[string]any{"status": resp.status, "body": resp.text()})
	if err != nil {
		return err
	}
	text := subject + " cannot be read now: its route answered " + strconv.Itoa(resp.status) + "."
	if resp.fault != "" {
		text = subject + " cannot be read now. " + resp.fault
	}
	return sharedmcp.Internal(text, data)
}

// addPrompt offers a route as a prompt. The route responds with {messages: [{role, content}]} (contract 4.3).
func (c *caller) addPrompt() {
	o := c.offer.Operation
	prompt := &mcp.Prompt{Name: o.Name, Title: o.Name, Description: o.Description, Meta: metaOf(o.Meta)}
	types := map[string]string{}
	for _, a := range o.Arguments {
		types[a.Name] = a.Type
		prompt.Arguments = append(prompt.Arguments, &mcp.PromptArgument{
			Name: a.Name, Description: a.Description,
			Required: a.Required,
		})
	}
	c.server.protocol.AddPrompt(prompt,
		func(ctx context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			arguments, raw, err := promptArguments(req.Params.Arguments, types)
			if err != nil {
				return nil, err
			}
			if err := c.check(ctx, raw); err != nil {
				return nil, err
			}
			resp, err := c.run(ctx, func(x *pipeline.Exchange) error { return c.fill(x, arguments) })
			if err != nil {
				return nil, err
			}
			if !resp.ok() || resp.binary {
				return nil, unreadableError("This prompt", resp)
			}
			return readPrompt(resp.data, o.Description)
		})
}

// promptArguments converts the arguments of a prompt, which are sent as strings, to their types. raw is the JSON
// object with all converted arguments. promptArguments returns an error if raw exceeds the limits of a message.
func promptArguments(
	texts, types map[string]string,
) (arguments map[string]json.RawMessage, raw json.RawMessage, err error) {
	arguments = map[string]json.RawMessage{}
	for name, text := range texts {
		arguments[name] = typedArgument(text, types[name])
	}
	if raw, err = json.Marshal(arguments); err != nil {
		return nil, nil, err
	}
	if jsonErr := sharedmcp.CheckJSON(raw); jsonErr != nil {
		return nil, nil, sharedmcp.Invalid("%s", jsonErr.Error())
	}
	return arguments, raw, nil
}

// typedArgument converts a prompt's argument, which is always sent as a string, to a JSON value for its schema.
// For a type other than string, it returns the JSON value in the string. If the string has no valid JSON, it
// returns the string as JSON. The schema then refuses a value of another type.
func typedArgument(text, kind string) json.RawMessage {
	switch kind {
	case "integer", "number", "boolean", "object", "array":
		if raw := bytes.TrimSpace([]byte(text)); sharedmcp.CheckJSON(raw) == nil {
			return raw
		}
	}
	raw, err := json.Marshal(text)
	if err != nil {
		return json.RawMessage(`""`) // never occurs: a string can always be encoded
	}
	return raw
}

// readPrompt reads the messages in a response of a prompt's route.
func readPrompt(data []byte, description string) (*mcp.GetPromptResult, error) {
	malformed := sharedmcp.Internal(
		`The prompt's route answered no messages. It has to answer {"messages": [{"role": "user", "content": "…"}]}.`, nil)
	var in struct {
		Description string `json:"description"`
		Messages    []struct {
			Role    mcp.Role        `json:"role"`
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
	}
	if json.Unmarshal(data, &in) != nil || len(in.Messages) == 0 {
		return nil, malformed
	}
	if in.Description != "" {
		description = in.Description
	}
	result := &mcp.GetPromptResult{Description: description}
	for _, m := range in.Messages {
		if m.Role != "user" && m.Role != "assistant" {
			return nil, malformed
		}
		var text string
		message := &mcp.PromptMessage{Role: m.Role}
		if json.Unmarshal(m.Content, &text) == nil {
			message.Content = &mcp.TextContent{Text: text}
		} else {
			encoded, err := json.Marshal(map[string]any{"role": m.Role, "content": m.Content})
			if err != nil || json.Unmarshal(encoded, message) != nil || message.Content == nil {
				return nil, malformed
			}
		}
		result.Messages = append(result.Messages, message)
	}
	return result, nil
}
