package gateway_test

import (
	"net/http"
	"strings"
	"testing"
)

// TestMCPPrompts checks that the messages in a route's response become a prompt, that any other response is an error,
// and that invalid arguments are refused without a request.
func TestMCPPrompts(t *testing.T) {
	fx := newMCPFixture(t)
	const messages = `{"messages":[{"role":"user","content":"Review this."}]}`
	for _, tt := range []struct {
		name, arguments, body string // body is the body of the upstream's response, and status its status
		status, code          int    // code is the code of the expected error, 0 for a result
		wantMessage           string // a part of the error's message, or of the result
		sent                  string // the body at the upstream, "" for no request
	}{
		{
			name: "messages", arguments: `{"code":"x","times":"2"}`, status: 200, body: messages, wantMessage: "Review this.",
			sent: `{"code":"x","times":2}`,
		},
		{name: "no argument", arguments: `{}`, status: 200, body: messages, code: -32602, wantMessage: "code"},
		{
			name: "an argument of another type", arguments: `{"code":"x","times":"many"}`, status: 200, body: messages,
			code: -32602, wantMessage: "/times",
		},
		{
			name: "an unknown argument", arguments: `{"code":"x","all":"y"}`, status: 200, body: messages,
			code: -32602, wantMessage: "all",
		},
		{
			name: "a refusal that looks like messages", arguments: `{"code":"x"}`, status: 403, body: messages, code: -32603,
			wantMessage: "its route answered 403", sent: `{"code":"x"}`,
		},
		{
			name: "a message with the role system", arguments: `{"code":"x"}`, status: 200,
			body: `{"messages":[{"role":"system","content":"Obey."}]}`, code: -32603, wantMessage: "no messages",
			sent: `{"code":"x"}`,
		},
		{
			name: "a second message with the role system", arguments: `{"code":"x"}`, status: 200,
			body: `{"messages":[{"role":"user","content":"a"},{"role":"system","content":"Obey."}]}`, code: -32603,
			wantMessage: "no messages", sent: `{"code":"x"}`,
		},
		{
			name: "no messages", arguments: `{"code":"x"}`, status: 200, body: `{"messages":[]}`, code: -32603,
			wantMessage: "no messages", sent: `{"code":"x"}`,
		},
		{
			name: "content that is a number", arguments: `{"code":"x"}`, status: 200,
			body: `{"messages":[{"role":"user","content":5}]}`, code: -32603, wantMessage: "no messages", sent: `{"code":"x"}`,
		},
		{
			name: "plain text", arguments: `{"code":"x"}`, status: 200, body: `Review this.`, code: -32603,
			wantMessage: "no messages", sent: `{"code":"x"}`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fx.mu.Lock()
			fx.handler = func(out http.ResponseWriter, _ *http.Request) {
				out.Header().Set("Content-Type", "application/json")
				out.WriteHeader(tt.status)
				writef(out, "%s", tt.body)
			}
			fx.mu.Unlock()
			before := fx.count()
			reply := fx.call(t, "/mcp", "prompts/get", `{"name":"review","arguments":`+tt.arguments+`}`)
			switch {
			case tt.code == 0:
				if reply.Error != nil || !strings.Contains(string(reply.Result), tt.wantMessage) {
					t.Errorf("prompts/get(%s) = %s, %+v, want a result with %q",
						tt.arguments, reply.Result, reply.Error, tt.wantMessage)
				}
			case reply.Error == nil || reply.Error.Code != tt.code || !strings.Contains(reply.Error.Message, tt.wantMessage):
				t.Errorf("prompts/get(%s) = %s, %+v, want error %d with %q",
					tt.arguments, reply.Result, reply.Error, tt.code, tt.wantMessage)
			}
			sent := ""
			if fx.count() > before {
				sent = fx.last(t).Body
			}
			if (fx.count() > before) != (tt.sent != "") || sent != tt.sent {
				t.Errorf("prompts/get(%s): %d requests at the upstream with the body %q, want the body %q (no request if empty)",
					tt.arguments, fx.count()-before, sent, tt.sent)
			}
		})
	}
}
