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
	"github.com/gatewright/gatewright/local/dev/emulator"
	"github.com/gatewright/gatewright/local/dev/lambdahost"
	"github.com/gatewright/gatewright/local/triggers"
	"github.com/gatewright/gatewright/shared/base/telemetry/otlp"
	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/runtime/trigger"
)

// The memory of functions in MB, as in the defaults of the infrastructure's settings: for a function with Heavy, for
// the gateway, and for all others.
const (
	heavyMemoryMB   = 1769
	gatewayMemoryMB = 512
	memoryMB        = 256
)

// assembleProcesses wires the product with the functions' executables (bootstraps) below folder. As in AWS, each
// function runs in separate processes behind the Runtime API, so it cannot depend on the memory or the wiring of
// another function.
//
// assembleProcesses closes relayListener and starts the relay's process
// at the same address. relayListener is nil if there is no relay.
func assembleProcesses(
	ctx context.Context, res *resources, folder string, apiAddr, gatewayAddr net.Addr, relayListener net.Listener,
) (_ *product, err error) {
	c := res.parts.Config
	if c.KeyFile, err = filepath.Abs(c.KeyFile); err != nil { // functions run in another working directory
		return nil, fmt.Errorf("find the root key: %w", err)
	}
	if c.DocsWeights != "" {
		if c.DocsWeights, err = filepath.Abs(c.DocsWeights); err != nil {
			return nil, fmt.Errorf("find the weights of the documentation's search: %w", err)
		}
	}
	credentials := lambdahost.Credentials{
		AccessKeyID:     res.bucket.credentials.AccessKeyID,
		SecretAccessKey: res.bucket.credentials.SecretAccessKey,
	}
	e := &executables{
		folder:      folder,
		env:         variablesOf(c, res.getenv),
		credentials: credentials,
		host: lambdahost.New(lambdahost.Options{
			Region:      emulator.Region,
			Credentials: credentials,
			IDs:         res.parts.IDs, Random: res.parts.Random, Now: res.parts.Now, Log: res.parts.Log,
		}),
	}
	stop := e.host.Close
	defer func() {
		if err != nil {
			stop()
		}
	}()
	var apiFunctions []apigateway.Function
	for _, g := range functions.Groups() {
		f, err := e.addFunction(trigger.Function{Name: g.Name, Timeout: apigateway.Timeout})
		if err != nil {
			return nil, err
		}
		apiFunctions = append(apiFunctions, apigateway.Function{Group: g.Group, Edge: edge(f)})
	}
	var triggered []triggers.Function
	var gatewayFunction *lambdahost.Function
	for _, t := range functions.Triggered() {
		f, err := e.addFunction(t.Function)
		if err != nil {
			return nil, err
		}
		if t.Name == gateway.Function.Name {
			gatewayFunction = f
			continue
		}
		triggered = append(triggered, triggers.Function{Function: t.Function, Handler: f})
	}
	gatewayFunctions := []apigateway.Function{{Group: api.Group{Name: gateway.Function.Name}, Edge: edge(gatewayFunction)}}
	runner, err := res.newRunner(triggered)
	if err != nil {
		return nil, err
	}
	if relayListener != nil {
		if err := relayListener.Close(); err != nil {
			return nil, fmt.Errorf("leave the address to the relay: %w", err)
		}
		child, err := e.startRelay(ctx, res, relayListener.Addr())
		if err != nil {
			return nil, err
		}
		stop = func() {
			e.host.Close() // first, because functions can have requests in progress through the relay
			child.Stop()
		}
	}
	return &product{
		api:      res.newGateway(apiFunctions, res.authenticator, apiAddr),
		gateway:  res.newGateway(gatewayFunctions, nil, gatewayAddr),
		triggers: runner,
		drain:    func(context.Context) error { return nil }, // as in Lambda, functions are not drained
		close:    stop,
	}, nil
}

// executables starts the functions and the relay from their executables in a folder.
type executables struct {
	folder      string
	env         map[string]string
	credentials lambdahost.Credentials
	host        *lambdahost.Host
}

// addFunction adds the executable of t to the host.
func (e *executables) addFunction(t trigger.Function) (*lambdahost.Function, error) {
	path, err := filepath.Abs(filepath.Join(e.folder, t.Name, "bootstrap"))
	if err != nil {
		return nil, fmt.Errorf("find the function %s: %w", t.Name, err)
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s has no bootstrap of the function %s: `make run-lambda` builds them all, or leave %s empty",
			e.folder, t.Name, config.VarFunctions)
	}
	memory := memoryMB
	switch {
	case t.HighMemory:
		memory = heavyMemoryMB
	case t.Name == gateway.Function.Name:
		memory = gatewayMemoryMB
	}
	timeout := t.Timeout
	if timeout == 0 {
		timeout = time.Minute
	}
	return e.host.Add(lambdahost.Spec{Name: t.Name, Bootstrap: path, Env: e.env, Timeout: timeout, MemoryMB: memory})
}

// variablesOf returns the environment of functions: the configuration in the variables
// of config.FromEnvironment, and the variables of this process for the export of spans.
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

// prefixes returns network prefixes in the format of config.VarTrustedProxies: separated by spaces.
func prefixes(all []netip.Prefix) string {
	text := make([]string, len(all))
	for i, p := range all {
		text[i] = p.String()
	}
	return strings.Join(text, " ")
}

// edge returns an api.Edge that calls f with the events of a REST API.
func edge(f *lambdahost.Function) api.LambdaHandler {
	return func(ctx context.Context,
		event events.APIGatewayProxyRequest,
	) (resp events.APIGatewayProxyResponse, err error) {
		payload, err := json.Marshal(event)
		if err != nil {
			return resp, fmt.Errorf("encode the event: %w", err)
		}
		raw, err := f.Invoke(ctx, payload)
		if err != nil {
			return resp, err
		}
		if err := json.Unmarshal(raw, &resp); err != nil {
			return resp, fmt.Errorf("decode the function's answer: %w", err)
		}
		return resp, nil
	}
}
