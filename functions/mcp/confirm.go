package mcp

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/apitools"
	sharedmcp "github.com/gatewright/gatewright/shared/mcp"
	"github.com/gatewright/gatewright/shared/project"
)

// confirmation is the id of the one question that is asked, and of its one field.
const confirmation = "confirm"

// askedFor is how long a person has for an answer.
const askedFor = 10 * time.Minute

// question is what is sealed into the state of a question: until when its answer counts. Which call it is about is what
// it is sealed for: a state of another key, tool or argument opens nothing.
type question struct {
	Until time.Time `json:"until"`
}

// confirmed has a person confirm a call (MCP 2026-07-28, "Multi Round-Trip Requests"). It answers nil once that is so,
// and else the result that asks for it, or that says why the call is not made.
func (s *server) confirmed(ctx context.Context, req *mcp.CallToolRequest, t *apitools.Tool, w sharedmcp.Written, arguments map[string]json.RawMessage, call api.Call) (*mcp.CallToolResult, error) {
	capabilities := req.ClientCapabilities()
	if sharedmcp.RequestVersion(ctx) != sharedmcp.Version20260728 || capabilities == nil || capabilities.Elicitation == nil {
		return sharedmcp.Refusal("A person has to confirm this call, and this client cannot ask one: that takes the protocol " + sharedmcp.Version20260728 +
			" and its capability elicitation. Call with dryRun to see what it would change, and have the person do it with another client or by the API."), nil
	}
	purpose, err := purposeOf(callerOf(ctx).principal.KeyID, t.Name, arguments, call.Reveal)
	if err != nil {
		return nil, err
	}
	if req.Params.RequestState == "" {
		return s.question(ctx, t, w, asks(t, w, arguments, call.Reveal), purpose)
	}
	if !s.isOpen(ctx, req.Params.RequestState, purpose) {
		return sharedmcp.Refusal("The confirmation is not of this call, or came too late. Call again without requestState, and a person is asked anew."), nil
	}
	said, ok := req.Params.InputResponses[confirmation].(*mcp.ElicitResult)
	if !ok {
		return sharedmcp.Refusal(`Send the person's answer as inputResponses, under "` + confirmation + `".`), nil
	}
	if said.Action != "accept" || said.Content[confirmation] != true {
		return sharedmcp.Refusal("The person did not confirm it, and nothing was done. Do not call it again unless they ask for it."), nil
	}
	return nil, nil // the call goes on
}

// question asks a person in words, and tells what the call would take along.
func (s *server) question(ctx context.Context, t *apitools.Tool, w sharedmcp.Written, words, purpose string) (*mcp.CallToolResult, error) {
	status, header, body := s.ask(ctx, t, w, api.Call{Source: source, DryRun: true})
	if status >= http.StatusBadRequest { // which the call would be, too
		return s.resultOf(t, api.Call{DryRun: true}, status, header, body), nil
	}
	plain, err := json.Marshal(question{Until: s.parts.Now().Add(askedFor)})
	if err != nil {
		return nil, fmt.Errorf("write the state of a question: %w", err)
	}
	sealed, err := s.sealer.Seal(ctx, plain, purpose)
	if err != nil {
		return nil, err
	}
	return &mcp.CallToolResult{
		RequestState: base64.RawURLEncoding.EncodeToString(sealed),
		InputRequests: mcp.InputRequestMap{confirmation: &mcp.ElicitParams{
			Mode: "form", Message: words + takes(body),
			RequestedSchema: json.RawMessage(`{"type":"object","properties":{"` + confirmation + `":{"type":"boolean","title":"Do it","description":"Whether it shall be done."}},"required":["` + confirmation + `"]}`),
		}},
	}, nil
}

// maxAskedBytes is how much of the arguments a person is shown.
const maxAskedBytes = 2 << 10

// asks is the question in words: which call it is, what it sends, its secrets masked, and whether secrets are shown of it.
func asks(t *apitools.Tool, w sharedmcp.Written, arguments map[string]json.RawMessage, reveal bool) string {
	text := t.Title + ": " + t.Method + " " + w.Path
	if w.Query != "" {
		text += "?" + w.Query
	}
	sent := maps.Clone(arguments)
	for _, a := range t.Arguments {
		if a.Place == project.InPath || a.Place == project.InQuery || a.Place == project.InHeader {
			delete(sent, a.Name)
		}
	}
	if len(sent) > 0 {
		encoded, err := json.Marshal(sent)
		if err != nil {
			panic("mcp: encode arguments: " + err.Error()) // which have just been decoded
		}
		masked, _ := t.MaskArguments(encoded)
		shown := strings.ToValidUTF8(string(masked[:min(len(masked), maxAskedBytes)]), "")
		text += " with " + shown
		if len(shown) < len(masked) {
			text += fmt.Sprintf("… and %d bytes more", len(masked)-len(shown))
		}
	}
	text += "?"
	if reveal {
		text += " Secrets in its answer are shown to the client."
	}
	return text
}

// takes says what a dry run has counted that goes along, "" for nothing.
func takes(dryRun []byte) string {
	var would struct {
		Removes map[string]int `json:"removes"`
	}
	if json.Unmarshal(dryRun, &would) != nil {
		return ""
	}
	var parts []string
	for what, n := range would.Removes {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%s: %d", what, n))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	slices.Sort(parts)
	return " It removes " + strings.Join(parts, ", ") + "."
}

// purposeOf names the one call that a question is about. Whether it shows secrets belongs to it: the arguments do not
// have that any more.
func purposeOf(key, tool string, arguments map[string]json.RawMessage, reveal bool) (string, error) {
	canonical, err := json.Marshal(arguments) // whose names are sorted
	if err != nil {
		return "", fmt.Errorf("write arguments: %w", err)
	}
	sum := sha256.Sum256(canonical)
	return "mcp-confirmation/" + key + "/" + tool + "/" + strconv.FormatBool(reveal) + "/" + base64.RawURLEncoding.EncodeToString(sum[:]), nil
}

// isOpen reports whether a state is that of a question about this call, whose time is not over.
func (s *server) isOpen(ctx context.Context, state, purpose string) bool {
	sealed, err := base64.RawURLEncoding.DecodeString(state)
	if err != nil {
		return false
	}
	plain, err := s.sealer.Open(ctx, sealed, purpose)
	var q question
	return err == nil && json.Unmarshal(plain, &q) == nil && s.parts.Now().Before(q.Until)
}
