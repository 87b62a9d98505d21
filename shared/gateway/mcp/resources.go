package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gatewright/gatewright/shared/gateway/pipeline"
	sharedmcp "github.com/gatewright/gatewright/shared/mcp"
)

// plainText is what is read where nobody says anything else (specification, "MCP resources").
const plainText = "text/plain"

// addResource offers a route as a resource.
func (c *caller) addResource() {
	o := c.offer.Operation
	meta := metaOf(o.Meta)
	c.server.front.AddResource(&mcp.Resource{
		URI: o.URI, Name: o.Name, Title: o.Name, Description: o.Description, MIMEType: mediaTypeOr(o.MIMEType, plainText), Meta: meta,
	}, func(ctx context.Context, _ *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		a, err := c.run(ctx, func(x *pipeline.Exchange) error { return c.aim(x, c.offer.Route.Info.Path, "") })
		if err != nil {
			return nil, err
		}
		if a.fault != "" {
			return nil, unread("This resource", a)
		}
		// Another status than 2xx is read like one, since clients expect it (contract 4.2): an upstream's page of an
		// error, a policy's or the gateway's own problem. It is called what it is, and not what the resource would be.
		mediaType := a.mediaType
		if a.ok() {
			mediaType = mediaTypeOr(o.MIMEType, a.mediaType)
		}
		contents := &mcp.ResourceContents{URI: o.URI, MIMEType: mediaTypeOr(mediaType, plainText), Meta: meta}
		if a.binary {
			contents.Blob = a.data
		} else {
			contents.Text = a.text()
		}
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{contents}}, nil
	})
}

// unread is the error of a prompt whose route has refused, and of what can't be passed on at all: such a result has no
// place for what is none. The answer is in data.
func unread(what string, a answer) error {
	data, err := json.Marshal(map[string]any{"status": a.status, "body": a.text()})
	if err != nil {
		return err
	}
	text := what + " cannot be read now: its route answered " + strconv.Itoa(a.status) + "."
	if a.fault != "" {
		text = what + " cannot be read now. " + a.fault
	}
	return sharedmcp.Internal(text, data)
}

// addPrompt offers a route as a prompt: it answers {messages: [{role, content}]} (contract 4.3).
func (c *caller) addPrompt() {
	o := c.offer.Operation
	prompt := &mcp.Prompt{Name: o.Name, Title: o.Name, Description: o.Description, Meta: metaOf(o.Meta)}
	types := map[string]string{}
	for _, a := range o.Arguments {
		types[a.Name] = a.Type
		prompt.Arguments = append(prompt.Arguments, &mcp.PromptArgument{Name: a.Name, Description: a.Description, Required: a.Required})
	}
	c.server.front.AddPrompt(prompt, func(ctx context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		arguments, raw, err := promptArguments(req.Params.Arguments, types)
		if err != nil {
			return nil, err
		}
		if err := c.check(ctx, raw); err != nil {
			return nil, err
		}
		a, err := c.run(ctx, func(x *pipeline.Exchange) error { return c.fill(x, arguments) })
		if err != nil {
			return nil, err
		}
		if !a.ok() || a.binary {
			return nil, unread("This prompt", a)
		}
		return readPrompt(a.data, o.Description)
	})
}

// promptArguments are a prompt's arguments, which are sent as texts, by their types; raw is all of them. Together they
// are within the bounds of a message, as each of them is.
func promptArguments(texts, types map[string]string) (arguments map[string]json.RawMessage, raw json.RawMessage, err error) {
	arguments = map[string]json.RawMessage{}
	for name, text := range texts {
		arguments[name] = typed(text, types[name])
	}
	if raw, err = json.Marshal(arguments); err != nil {
		return nil, nil, err
	}
	if refused := sharedmcp.CheckJSON(raw); refused != nil {
		return nil, nil, sharedmcp.Invalid("%s", refused.Error())
	}
	return arguments, raw, nil
}

// typed is a prompt's argument, which is always sent as text, as a value of its schema's type: the text itself
// where it is none, so that the schema refuses it.
func typed(text, kind string) json.RawMessage {
	switch kind {
	case "integer", "number", "boolean", "object", "array":
		if raw := bytes.TrimSpace([]byte(text)); sharedmcp.CheckJSON(raw) == nil {
			return raw
		}
	}
	raw, err := json.Marshal(text)
	if err != nil {
		return json.RawMessage(`""`) // a text always encodes
	}
	return raw
}

// readPrompt reads the messages that a prompt's route answers.
func readPrompt(data []byte, description string) (*mcp.GetPromptResult, error) {
	malformed := sharedmcp.Internal(`The prompt's route answered no messages. It has to answer {"messages": [{"role": "user", "content": "…"}]}.`, nil)
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
			whole, err := json.Marshal(map[string]any{"role": m.Role, "content": m.Content})
			if err != nil || json.Unmarshal(whole, message) != nil || message.Content == nil {
				return nil, malformed
			}
		}
		result.Messages = append(result.Messages, message)
	}
	return result, nil
}
