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

	sharedmcp "github.com/gatewright/gatewright/shared/format/mcp"
	"github.com/gatewright/gatewright/shared/format/project"
	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/management/apitools"
)

// confirmation is the ID of the question to the person. It is also the name of the only field of the person's response.
const confirmation = "confirm"

// confirmationTimeout is the maximum time from a question to the person's response.
const confirmationTimeout = 10 * time.Minute

// questionState is the state of a question. The client receives it sealed, and sends it back with the person's
// response. The purpose of the seal identifies the call, so the state of a question about another call, with another
// key, tool or arguments, cannot be opened. Until is the time when the question expires.
type questionState struct {
	Until time.Time `json:"until"`
}

// checkConfirmed checks that a person has confirmed a call, and returns nil if so (MCP 2026-07-28, "Multi Round-Trip
// Requests"). Otherwise it returns a result that asks for the confirmation, or that says why the call is refused.
func (s *server) checkConfirmed(
	ctx context.Context, req *mcp.CallToolRequest, t *apitools.Tool, request sharedmcp.RequestParts,
	arguments map[string]json.RawMessage, call api.Call,
) (*mcp.CallToolResult, error) {
	capabilities := req.ClientCapabilities()
	if sharedmcp.RequestVersion(ctx) != sharedmcp.Version20260728 || capabilities == nil ||
		capabilities.Elicitation == nil {
		return sharedmcp.Refusal(
			"A person has to confirm this call, and this client cannot ask one: that takes the protocol " +
				sharedmcp.Version20260728 +
				" and its capability elicitation. Call with dryRun to see what it would change, and have the person do it with " +
				"another client or by the API."), nil
	}
	purpose, err := purposeOf(callerOf(ctx).principal.KeyID, t.Name, arguments, call.Reveal)
	if err != nil {
		return nil, err
	}
	if req.Params.RequestState == "" {
		return s.requestConfirmation(ctx, t, request, confirmationQuestion(t, request, arguments, call.Reveal), purpose)
	}
	if !s.isValidState(ctx, req.Params.RequestState, purpose) {
		return sharedmcp.Refusal("The confirmation is not of this call, or came too late. Call again without requestState, " +
			"and a person is asked anew."), nil
	}
	reply, ok := req.Params.InputResponses[confirmation].(*mcp.ElicitResult)
	if !ok {
		return sharedmcp.Refusal(`Send the person's answer as inputResponses, under "` + confirmation + `".`), nil
	}
	if reply.Action != "accept" || reply.Content[confirmation] != true {
		return sharedmcp.Refusal("The person did not confirm it, and nothing was done. Do not call it again unless " +
			"they ask for it."), nil
	}
	return nil, nil // confirmed
}

// requestConfirmation returns a result that asks a person to confirm a call. The message to the person is question,
// followed by a sentence about the objects that the call would remove. requestConfirmation first makes a dry run of the
// call. If the dry run fails, requestConfirmation returns its result instead, because the call would also fail.
func (s *server) requestConfirmation(
	ctx context.Context, t *apitools.Tool, request sharedmcp.RequestParts, question, purpose string,
) (*mcp.CallToolResult, error) {
	status, header, body := s.sendRequest(ctx, t, request, api.Call{Source: source, DryRun: true})
	if status >= http.StatusBadRequest { // the call would fail too
		return s.resultOf(t, api.Call{DryRun: true}, status, header, body), nil
	}
	state, err := json.Marshal(questionState{Until: s.parts.Now().Add(confirmationTimeout)})
	if err != nil {
		return nil, fmt.Errorf("write the state of a question: %w", err)
	}
	sealed, err := s.sealer.Seal(ctx, state, purpose)
	if err != nil {
		return nil, err
	}
	return &mcp.CallToolResult{
		RequestState: base64.RawURLEncoding.EncodeToString(sealed),
		InputRequests: mcp.InputRequestMap{confirmation: &mcp.ElicitParams{
			Mode: "form", Message: question + removalText(body),
			RequestedSchema: json.RawMessage(`{"type":"object","properties":{"` +
				confirmation + `":{"type":"boolean","title":"Do it","description":"Whether it shall be done."}},"required":["` +
				confirmation + `"]}`),
		}},
	}, nil
}

// maxArgumentsBytes is the maximum size of the arguments in the text of a question.
const maxArgumentsBytes = 2 << 10

// confirmationQuestion returns the text of a question. It contains the method, the path and the query of the call, and
// the arguments of the body with masked secrets. If reveal is true, it also says that the client will see the secrets
// in the response.
func confirmationQuestion(
	t *apitools.Tool, request sharedmcp.RequestParts, arguments map[string]json.RawMessage, reveal bool,
) string {
	text := t.Title + ": " + t.Method + " " + request.Path
	if request.Query != "" {
		text += "?" + request.Query
	}
	bodyArguments := maps.Clone(arguments)
	for _, a := range t.Arguments {
		if a.Location == project.InPath || a.Location == project.InQuery || a.Location == project.InHeader {
			delete(bodyArguments, a.Name)
		}
	}
	if len(bodyArguments) > 0 {
		encoded, err := json.Marshal(bodyArguments)
		if err != nil {
			panic("mcp: encode arguments: " + err.Error()) // cannot happen: the arguments were decoded from JSON
		}
		masked, _ := t.MaskArguments(encoded)
		excerpt := strings.ToValidUTF8(string(masked[:min(len(masked), maxArgumentsBytes)]), "")
		text += " with " + excerpt
		if len(excerpt) < len(masked) {
			text += fmt.Sprintf("… and %d bytes more", len(masked)-len(excerpt))
		}
	}
	text += "?"
	if reveal {
		text += " Secrets in its answer are shown to the client."
	}
	return text
}

// removalText returns a sentence about the objects that a call would remove, from the response to its dry run. It
// returns "" if the call would remove none.
func removalText(dryRun []byte) string {
	var report struct {
		Removes map[string]int `json:"removes"`
	}
	if json.Unmarshal(dryRun, &report) != nil {
		return ""
	}
	var parts []string
	for kind, n := range report.Removes {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%s: %d", kind, n))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	slices.Sort(parts)
	return " It removes " + strings.Join(parts, ", ") + "."
}

// purposeOf returns the purpose of the seal of a question, which identifies the call: the ID of its key, its tool and
// arguments, and reveal. It contains reveal separately, because handler removes this flag from the arguments.
func purposeOf(keyID, tool string, arguments map[string]json.RawMessage, reveal bool) (string, error) {
	canonical, err := json.Marshal(arguments) // json.Marshal sorts the names
	if err != nil {
		return "", fmt.Errorf("write arguments: %w", err)
	}
	sum := sha256.Sum256(canonical)
	return "mcp-confirmation/" + keyID + "/" + tool + "/" + strconv.FormatBool(reveal) + "/" +
		base64.RawURLEncoding.EncodeToString(sum[:]), nil
}

// isValidState reports whether state is the sealed state of a question about the call with this purpose, and whether
// the question has not expired.
func (s *server) isValidState(ctx context.Context, state, purpose string) bool {
	sealed, err := base64.RawURLEncoding.DecodeString(state)
	if err != nil {
		return false
	}
	content, err := s.sealer.Open(ctx, sealed, purpose)
	var q questionState
	return err == nil && json.Unmarshal(content, &q) == nil && s.parts.Now().Before(q.Until)
}
