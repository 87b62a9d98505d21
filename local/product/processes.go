package product

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/gatewright/gatewright/functions"
	"github.com/gatewright/gatewright/functions/gateway"
	"github.com/gatewright/gatewright/local/apigateway"
	"github.com/gatewright/gatewright/local/emulator"
	"github.com/gatewright/gatewright/local/lambdahost"
	"github.com/gatewright/gatewright/local/triggers"
	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/telemetry/otlp"
	"github.com/gatewright/gatewright/shared/trigger"
)

// What functions get, as the infrastructure has it.
const (
	memoryMB        = 256
	gatewayMemoryMB = 512
	heavyMemoryMB   = 1769
)

// assembleProcesses wires the product of the bootstraps below a folder, each a
// process of its own behind the Runtime API, as in AWS: state that only one
// process has, and wiring that only a main has, do not help here.
//
// relayListener is closed, nil where there is to be no relay: its process takes the address.
func assembleProcesses(ctx context.Context, o *opened, folder string, apiAddr, gatewayAddr net.Addr, relayListener net.Listener) (_ *product, err error) {
	c := o.parts.Config
	if c.KeyFile, err = filepath.Abs(c.KeyFile); err != nil { // functions have a working directory of their own
		return nil, fmt.Errorf("find the root key: %w", err)
	}
	if c.DocsWeights != "" {
		if c.DocsWeights, err = filepath.Abs(c.DocsWeights); err != nil {
			return nil, fmt.Errorf("find the weights of the documentation's search: %w", err)
		}
	}
	credentials := lambdahost.Credentials{AccessKeyID: o.bucket.credentials.AccessKeyID, SecretAccessKey: o.bucket.credentials.SecretAccessKey}
	w := &bootstraps{
		folder:      folder,
		env:         variablesOf(c, o.getenv),
		credentials: credentials,
		host: lambdahost.New(lambdahost.Options{
			Region:      emulator.Region,
			Credentials: credentials,
			IDs:         o.parts.IDs, Random: o.parts.Random, Now: o.parts.Now, Log: o.parts.Log,
		}),
	}
	stop := w.host.Close
	defer func() {
		if err != nil {
			stop()
		}
	}()
	var front []apigateway.Function
	for _, g := range functions.Groups() {
		f, err := w.function(trigger.Function{Name: g.Name, Timeout: apigateway.Timeout})
		if err != nil {
			return nil, err
		}
		front = append(front, apigateway.Function{Group: g.Group, Edge: edge(f)})
	}
	var called []triggers.Function
	var served *lambdahost.Function
	for _, t := range functions.Triggered() {
		f, err := w.function(t.Function)
		if err != nil {
			return nil, err
		}
		if t.Name == gateway.Function.Name {
			served = f
			continue
		}
		called = append(called, triggers.Function{Function: t.Function, Handler: f})
	}
	whole := []apigateway.Function{{Group: api.Group{Name: gateway.Function.Name}, Edge: edge(served)}}
	runner, err := o.runner(called)
	if err != nil {
		return nil, err
	}
	if relayListener != nil {
		if err := relayListener.Close(); err != nil {
			return nil, fmt.Errorf("leave the address to the relay: %w", err)
		}
		child, err := w.startRelay(ctx, o, relayListener.Addr())
		if err != nil {
			return nil, err
		}
		stop = func() {
			w.host.Close() // with the requests that are under way through the relay
			child.Stop()
		}
	}
	return &product{
		api:      o.front(front, o.callers, apiAddr),
		gateway:  o.front(whole, nil, gatewayAddr),
		triggers: runner,
		drain:    func(context.Context) error { return nil }, // a Lambda is not asked before it ends
		close:    stop,
	}, nil
}

// bootstraps makes functions of the bootstraps in a folder.
type bootstraps struct {
	folder      string
	env         map[string]string
	credentials lambdahost.Credentials
	host        *lambdahost.Host
}

func (w *bootstraps) function(t trigger.Function) (*lambdahost.Function, error) {
	path, err := filepath.Abs(filepath.Join(w.folder, t.Name, "bootstrap"))
	if err != nil {
		return nil, fmt.Errorf("find the function %s: %w", t.Name, err)
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s has no bootstrap of the function %s: `make run-lambda` builds them all, or leave %s empty", w.folder, t.Name, config.VarFunctions)
	}
	memory := memoryMB
	switch {
	case t.Heavy:
		memory = heavyMemoryMB
	case t.Name == gateway.Function.Name:
		memory = gatewayMemoryMB
	}
	timeout := t.Timeout
	if timeout == 0 {
		timeout = time.Minute
	}
	return w.host.Add(lambdahost.Spec{Name: t.Name, Bootstrap: path, Env: w.env, Timeout: timeout, MemoryMB: memory})
}

// variablesOf is a configuration as functions read it (config.FromEnvironment),
// and where this run's environment wants spans to go.
func variablesOf(c config.Config, getenv func(string) string) map[string]string {
	env := map[string]string{
		config.VarTable:            c.Table,
		config.VarBucket:           c.Bucket,
		config.VarKeyFile:          c.KeyFile,
		config.VarDeploymentURL:    c.DeploymentURL,
		config.VarAPIURL:           c.APIURL,
		config.VarOrigins:          strings.Join(c.Origins, " "),
		config.VarDynamoDBEndpoint: c.DynamoDBEndpoint,
		config.VarS3Endpoint:       c.S3Endpoint,
		config.VarS3PublicEndpoint: c.S3PublicEndpoint,
		config.VarDNSRecords:       c.DNSRecords,
		config.VarACMEDirectory:    c.ACMEDirectory,
		config.VarRelay:            c.Relay,
		config.VarDocsWeights:      c.DocsWeights,
		config.VarPrivateUpstreams: strconv.FormatBool(c.PrivateUpstreams),
		config.VarUnderscores:      strconv.FormatBool(c.HeaderUnderscores),
		config.VarHeaderBytes:      strconv.Itoa(c.HeaderBytes),
		config.VarHeaderFields:     strconv.Itoa(c.HeaderFields),
		config.VarTrustedProxies:   prefixes(c.TrustedProxies),
		config.VarStandardHTTP:     strconv.FormatBool(c.StandardHTTP),
		config.VarLimits:           c.Limits.String(),
	}
	for _, name := range otlp.Variables() {
		if value := getenv(name); value != "" {
			env[name] = value
		}
	}
	return env
}

// prefixes are addresses as a setting has them.
func prefixes(all []netip.Prefix) string {
	text := make([]string, len(all))
	for i, p := range all {
		text[i] = p.String()
	}
	return strings.Join(text, " ")
}

// edge calls a function with the events of a REST API.
func edge(f *lambdahost.Function) api.Edge {
	return func(ctx context.Context, event events.APIGatewayProxyRequest) (answer events.APIGatewayProxyResponse, err error) {
		payload, err := json.Marshal(event)
		if err != nil {
			return answer, fmt.Errorf("encode the event: %w", err)
		}
		raw, err := f.Invoke(ctx, payload)
		if err != nil {
			return answer, err
		}
		if err := json.Unmarshal(raw, &answer); err != nil {
			return answer, fmt.Errorf("decode the function's answer: %w", err)
		}
		return answer, nil
	}
}
