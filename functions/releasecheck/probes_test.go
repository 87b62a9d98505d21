package releasecheck_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"
	"testing"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"

	"github.com/gatewright/gatewright/functions"
	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/functions/gateway"
	"github.com/gatewright/gatewright/functions/releasecheck"
	"github.com/gatewright/gatewright/shared/core/allowance"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/resource/accounts"
	"github.com/gatewright/gatewright/shared/resource/sessions"
	"github.com/gatewright/gatewright/shared/runtime/cloud/codedeploy"
	"github.com/gatewright/gatewright/shared/runtime/trigger"
)

// openers returns, for each released function by its name, a function that opens it as its main does.
func openers() map[string]func(installation.Parts) (any, error) {
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

func newProbes(t *testing.T, fx *functionstest.Fixture) releasecheck.Probes {
	t.Helper()
	var triggered []trigger.Function
	for _, f := range functions.Triggered() {
		triggered = append(triggered, f.Function)
	}
	probes, err := releasecheck.NewProbes(functions.APIGroups(), triggered, fx.Parts.IDs)
	if err != nil {
		t.Fatal(err)
	}
	return probes
}

// call calls a handler as Lambda does: a panic is an error of the function.
func call(ctx context.Context, handler any, event []byte) (result codedeploy.Result) {
	defer func() {
		if recover() != nil {
			result = codedeploy.Result{ErrorType: "panic"}
		}
	}()
	out, err := lambda.NewHandler(handler).Invoke(ctx, event)
	if err != nil {
		return codedeploy.Result{ErrorType: err.Error()}
	}
	return codedeploy.Result{Payload: out}
}

// runProbe opens a function, calls it with its probe, and returns what is wrong with the result, or nil.
func runProbe(
	ctx context.Context, p releasecheck.Probe, open func(installation.Parts) (any, error), parts installation.Parts,
) error {
	handler, err := open(parts)
	if err != nil {
		return err // the function's process would end
	}
	r := call(ctx, handler, p.Event)
	if r.ErrorType != "" {
		return errors.New(r.ErrorType)
	}
	return p.Evaluate(r.Payload)
}

// tablelessFunctions are the functions that handle their probe without a read of the table, because their pages and
// documents are part of the binary.
var tablelessFunctions = map[string]bool{"console": true, "mcpdocs": true}

// failingReads is a backend whose reads fail, such as a table that the function's role cannot read.
type failingReads struct{ store.Backend }

// Read implements store.Backend.
func (failingReads) Read(context.Context, []store.Key) ([]store.Item, error) {
	return nil, errors.New("AccessDeniedException")
}

// Query implements store.Backend.
func (failingReads) Query(context.Context, store.Query) ([]store.Item, string, error) {
	return nil, "", errors.New("AccessDeniedException")
}

// TestEveryFunctionPassesItsProbe checks that every function passes its probe, in an installation with and without an
// account, and that the probe writes nothing. If the table cannot be read, every function except tablelessFunctions
// must fail its probe.
func TestEveryFunctionPassesItsProbe(t *testing.T) {
	fx := functionstest.New(t)
	probes, byName := newProbes(t, fx), openers()
	if len(probes) != len(byName) {
		t.Errorf("number of probes = %d, want %d", len(probes), len(byName))
	}
	fx.Parts.Rates = allowance.NewRates(fx.Parts.Table, fx.Parts.Now)
	for _, account := range []string{"", "acme"} {
		if account != "" {
			fx.CreateAccount(account)
		}
		before := fx.Items.Snapshot()
		fx.Uses.Clear()
		for name, open := range byName {
			t.Run(name+account, func(t *testing.T) {
				if err := runProbe(t.Context(), probes[name], open, fx.Parts); err != nil {
					t.Errorf("probe of %s: error = %v, want none", name, err)
				}
			})
		}
		if after := fx.Items.Snapshot(); !reflect.DeepEqual(before, after) {
			t.Errorf("after the probes the table has %d items and other contents, want the %d of before", len(after),
				len(before))
		}
		for _, use := range fx.Uses.Recorded() {
			if use != api.GetItem && use != api.BatchGetItem && use != api.Query && use != api.QueryDue {
				t.Errorf("a probe did %q, want reads of the table alone", use)
			}
		}
	}
	brokenParts := fx.Parts
	brokenParts.Table = storetest.NewWithBackend(t, failingReads{fx.Items}, storetest.Clock(fx.Parts.Now))
	for name, open := range byName {
		if err := runProbe(t.Context(), probes[name], open, brokenParts); (err == nil) != tablelessFunctions[name] {
			t.Errorf("the probe of %s without a table = %v, want an error unless it reads none", name, err)
		}
	}
}

// TestBrokenVersionsFailTheirProbe checks that a version fails its probe if it does not open, panics, returns an error,
// or returns a response that is wrong for every function.
func TestBrokenVersionsFailTheirProbe(t *testing.T) {
	fx := functionstest.New(t)
	respond := func(status int, kind, body string) func(installation.Parts) (any, error) {
		return func(installation.Parts) (any, error) {
			return func(context.Context, any) (events.APIGatewayProxyResponse, error) {
				return events.APIGatewayProxyResponse{
					StatusCode:        status,
					MultiValueHeaders: map[string][]string{"Content-Type": {kind}}, Body: body,
				}, nil
			}, nil
		}
	}
	brokenVersions := map[string]func(installation.Parts) (any, error){
		"error at the start": func(installation.Parts) (any, error) { return nil, errors.New("a setting is missing") },
		"panic": func(installation.Parts) (any, error) {
			return func(context.Context) error { panic("broken") }, nil
		},
		"error": func(installation.Parts) (any, error) {
			return func(context.Context) error { return errors.New("broken") }, nil
		},
		"empty response": func(installation.Parts) (any, error) {
			return func(context.Context) error { return nil }, nil
		},
		"500":                   respond(http.StatusInternalServerError, "application/problem+json", `{"status":500}`),
		"502":                   respond(http.StatusBadGateway, "application/json", `{"message":"Internal server error"}`),
		"401 of another server": respond(http.StatusUnauthorized, "application/json", `{"message":"Unauthorized"}`),
		"404 of another server": respond(http.StatusNotFound, "text/html", "<h1>404</h1>"),
		"403":                   respond(http.StatusForbidden, "application/problem+json", `{"status":403}`),
	}
	for name, p := range newProbes(t, fx) {
		for label, open := range brokenVersions {
			if err := runProbe(t.Context(), p, open, fx.Parts); err == nil {
				t.Errorf("probe of a broken version of %s (%s): error = nil, want one", name, label)
			}
		}
	}
}

// TestStreamingGatewayPassesItsProbe checks that a gateway that streams its responses passes its probe. In a streamed
// response, the body follows the JSON with status and headers.
func TestStreamingGatewayPassesItsProbe(t *testing.T) {
	fx := functionstest.New(t)
	p := newProbes(t, fx)["gateway"]
	fx.Parts.Config.Streaming = true
	handler, err := openers()["gateway"](fx.Parts)
	if err != nil {
		t.Fatal(err)
	}
	streaming, ok := handler.(gateway.StreamingHandler)
	if !ok {
		t.Fatalf("the handler is a %T, want one that streams", handler)
	}
	var event events.APIGatewayProxyRequest
	if err := json.Unmarshal(p.Event, &event); err != nil {
		t.Fatal(err)
	}
	out, err := streaming(t.Context(), event)
	if err != nil {
		t.Fatal(err)
	}
	response, err := io.ReadAll(out)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(response, make([]byte, 8)) {
		t.Fatalf("response = %q, want a stream with 8 zeros", response)
	}
	if err := p.Evaluate(response); err != nil {
		t.Errorf("Evaluate(%q) = %v, want nil", response, err)
	}
}

// TestProbesUseDeclaredMethods checks that the probe of each group uses the method of one of the group's operations,
// and that a group without a suitable operation is an error.
func TestProbesUseDeclaredMethods(t *testing.T) {
	fx := functionstest.New(t)
	probes := newProbes(t, fx)
	for _, g := range functions.Groups() {
		var event events.APIGatewayProxyRequest
		if err := json.Unmarshal(probes[g.Name].Event, &event); err != nil {
			t.Fatal(err)
		}
		methods := map[string]bool{}
		for _, d := range g.Declarations() {
			methods[d.Method] = true
		}
		if !methods[event.HTTPMethod] {
			t.Errorf("probe of %s = %s %s, want one of its methods %v", g.Name, event.HTTPMethod, event.Path, methods)
		}
	}
	if _, err := releasecheck.NewProbes([]api.Group{{Name: "empty"}}, nil, fx.Parts.IDs); err == nil {
		t.Error("NewProbes(a group without operations) = nil, want an error")
	}
}
