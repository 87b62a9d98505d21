package releasecheck_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"reflect"
	"testing"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"

	"github.com/gatewright/gatewright/functions"
	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/functions/gateway"
	"github.com/gatewright/gatewright/functions/releasecheck"
	"github.com/gatewright/gatewright/shared/accounts"
	"github.com/gatewright/gatewright/shared/allowance"
	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/cloud/codedeploy"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/sessions"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/storetest"
	"github.com/gatewright/gatewright/shared/trigger"
)

// opened are all functions that are released, by name, each as its main opens it.
func opened() map[string]func(installation.Parts) (any, error) {
	out := map[string]func(installation.Parts) (any, error){}
	for _, g := range functions.Groups() {
		out[g.Name] = func(p installation.Parts) (any, error) {
			return api.Open(p, sessions.Open(p, accounts.Open(p)), g.Bind(p)).Edge(), nil
		}
	}
	for _, f := range functions.Triggered() {
		out[f.Name] = f.Open
	}
	return out
}

func probesOf(t *testing.T, w *functionstest.World) releasecheck.Probes {
	t.Helper()
	var called []trigger.Function
	for _, f := range functions.Triggered() {
		called = append(called, f.Function)
	}
	probes, err := releasecheck.ProbesOf(functions.Described(), called, w.Parts.IDs)
	if err != nil {
		t.Fatal(err)
	}
	return probes
}

// call calls a handler as Lambda does: a panic is an error of the function.
func call(ctx context.Context, handler any, event []byte) (r codedeploy.Result) {
	defer func() {
		if recover() != nil {
			r = codedeploy.Result{FailedWith: "panic"}
		}
	}()
	out, err := lambda.NewHandler(handler).Invoke(ctx, event)
	if err != nil {
		return codedeploy.Result{FailedWith: err.Error()}
	}
	return codedeploy.Result{Payload: out}
}

// passes judges what a function answers its probe with.
func passes(ctx context.Context, p releasecheck.Probe, open func(installation.Parts) (any, error), parts installation.Parts) error {
	handler, err := open(parts)
	if err != nil {
		return err // its process ends
	}
	r := call(ctx, handler, p.Event)
	if r.FailedWith != "" {
		return errors.New(r.FailedWith)
	}
	return p.Judge(r.Payload)
}

// withoutTable are the functions that answer their probe without a read of the table: pages and documents are part of their binary.
var withoutTable = map[string]bool{"console": true, "mcpdocs": true}

// away is a table that cannot be reached, or that a role may not read.
type away struct{ store.Backend }

// Read implements store.Backend.
func (away) Read(context.Context, []store.Key) ([]store.Item, error) {
	return nil, errors.New("AccessDeniedException")
}

// Query implements store.Backend.
func (away) Query(context.Context, store.Query) ([]store.Item, string, error) {
	return nil, "", errors.New("AccessDeniedException")
}

// TestEveryFunctionAnswersItsProbe, in an installation with an account and in one without, and writes nothing. The check notices a table
// that cannot be read, a panic, an error, a refusal of the platform, and a function that does not open.
func TestEveryFunctionAnswersItsProbe(t *testing.T) {
	w := functionstest.New(t)
	probes, all := probesOf(t, w), opened()
	if len(probes) != len(all) {
		t.Errorf("there are probes of %d functions, want %d", len(probes), len(all))
	}
	w.Parts.Rates = allowance.NewRates(w.Parts.Table, w.Parts.Now)
	for _, account := range []string{"", "acme"} {
		if account != "" {
			w.Account(account)
		}
		before := w.Items.Snapshot()
		w.Uses.Clear()
		for name, open := range all {
			t.Run(name+account, func(t *testing.T) {
				if err := passes(t.Context(), probes[name], open, w.Parts); err != nil {
					t.Errorf("the probe of %s failed: %v", name, err)
				}
			})
		}
		if after := w.Items.Snapshot(); !reflect.DeepEqual(before, after) {
			t.Errorf("after the probes the table has %d items and other contents, want the %d of before", len(after), len(before))
		}
		for _, use := range w.Uses.Done() {
			if use != api.GetItem && use != api.BatchGetItem && use != api.Query && use != api.QueryDue {
				t.Errorf("a probe did %q, want reads of the table alone", use)
			}
		}
	}
	broken := w.Parts
	broken.Table = storetest.Over(t, away{w.Items}, storetest.Clock(w.Parts.Now))
	for name, open := range all {
		if err := passes(t.Context(), probes[name], open, broken); (err == nil) != withoutTable[name] {
			t.Errorf("the probe of %s without a table = %v, want an error unless it reads none", name, err)
		}
	}
}

// TestBrokenVersionsFailTheirProbe: whatever the function is, these answers are wrong.
func TestBrokenVersionsFailTheirProbe(t *testing.T) {
	w := functionstest.New(t)
	answer := func(status int, kind, body string) func(installation.Parts) (any, error) {
		return func(installation.Parts) (any, error) {
			return func(context.Context, any) (events.APIGatewayProxyResponse, error) {
				return events.APIGatewayProxyResponse{StatusCode: status, MultiValueHeaders: map[string][]string{"Content-Type": {kind}}, Body: body}, nil
			}, nil
		}
	}
	broken := map[string]func(installation.Parts) (any, error){
		"does not open": func(installation.Parts) (any, error) { return nil, errors.New("a setting is missing") },
		"panics":        func(installation.Parts) (any, error) { return func(context.Context) error { panic("broken") }, nil },
		"fails": func(installation.Parts) (any, error) {
			return func(context.Context) error { return errors.New("broken") }, nil
		},
		"answers nothing": func(installation.Parts) (any, error) { return func(context.Context) error { return nil }, nil },
		"500":             answer(http.StatusInternalServerError, "application/problem+json", `{"status":500}`),
		"502":             answer(http.StatusBadGateway, "application/json", `{"message":"Internal server error"}`),
		"401 of others":   answer(http.StatusUnauthorized, "application/json", `{"message":"Unauthorized"}`),
		"404 of others":   answer(http.StatusNotFound, "text/html", "<h1>404</h1>"),
		"403":             answer(http.StatusForbidden, "application/problem+json", `{"status":403}`),
	}
	for name, p := range probesOf(t, w) {
		for what, open := range broken {
			if err := passes(t.Context(), p, open, w.Parts); err == nil {
				t.Errorf("a version of %s that %s passes, want an error", name, what)
			}
		}
	}
}

// TestTheGatewayAnswersItsProbeAsAStream, where an installation streams: the answer's fields come first, and its body after them.
func TestTheGatewayAnswersItsProbeAsAStream(t *testing.T) {
	w := functionstest.New(t)
	p := probesOf(t, w)["gateway"]
	w.Parts.Config.Streaming = true
	handler, err := opened()["gateway"](w.Parts)
	if err != nil {
		t.Fatal(err)
	}
	answer, ok := handler.(gateway.Streaming)
	if !ok {
		t.Fatalf("the handler is a %T, want one that streams", handler)
	}
	var event events.APIGatewayProxyRequest
	if err := json.Unmarshal(p.Event, &event); err != nil {
		t.Fatal(err)
	}
	out, err := answer(t.Context(), event)
	if err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(out)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(all, make([]byte, 8)) {
		t.Fatalf("the answer is no stream: %q", all)
	}
	if err := p.Judge(all); err != nil {
		t.Errorf("Judge(%q) = %v, want nil", all, err)
	}
}

// TestProbesAskForWhatGroupsDeclare: nothing of it is listed by hand, and a group that has nothing to ask for is refused.
func TestProbesAskForWhatGroupsDeclare(t *testing.T) {
	w := functionstest.New(t)
	probes := probesOf(t, w)
	for _, g := range functions.Groups() {
		var event events.APIGatewayProxyRequest
		if err := json.Unmarshal(probes[g.Name].Event, &event); err != nil {
			t.Fatal(err)
		}
		routes := map[string]bool{}
		for _, d := range g.Declarations() {
			routes[d.Method] = true
		}
		if !routes[event.HTTPMethod] {
			t.Errorf("%s is asked for %s %s, want one of its methods %v", g.Name, event.HTTPMethod, event.Path, maps.Keys(routes))
		}
	}
	if _, err := releasecheck.ProbesOf([]api.Group{{Name: "empty"}}, nil, w.Parts.IDs); err == nil {
		t.Error("ProbesOf(a group without operations) = nil, want an error")
	}
}
