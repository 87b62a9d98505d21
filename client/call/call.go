// Package call calls operations of the management API, by their names and arguments. It sends the request, waits if the
// API demands a pause, repeats requests that are safe to repeat, and returns problems as errors.
//
// It defines no operations: their declarations are in package apitools, which is generated from the API's OpenAPI
// document.
//
// Read call.go first, then problem.go. retry.go has the rules for repeating requests.
package call

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"syscall"
	"time"

	"github.com/google/uuid"

	"github.com/gatewright/gatewright/client/exit"
	"github.com/gatewright/gatewright/client/profile"
	"github.com/gatewright/gatewright/shared/base/release"
	"github.com/gatewright/gatewright/shared/base/webroots"
	"github.com/gatewright/gatewright/shared/format/mcp"
	"github.com/gatewright/gatewright/shared/format/project"
	"github.com/gatewright/gatewright/shared/management/apitools"
)

// maxResponseSize is the maximum size of a response that is read, in bytes. Responses of the API have 6 MB at most.
const maxResponseSize = 64 << 20

// API is a client of one installation.
type API struct {
	// Access has the address of the installation and the key.
	Access profile.Access
	// HTTP sends requests. It follows no redirects (NewHTTPClient).
	HTTP *http.Client
	// Sleep waits, or returns an error when the context ends.
	Sleep func(context.Context, time.Duration) error
	// OnWait is called before each wait with the reason and the duration, if it is not nil.
	OnWait func(reason string, wait time.Duration)
}

// NewHTTPClient returns an HTTP client that follows no redirects, so that a key is sent only to the installation's
// address. It never sends plain HTTP through a proxy. Callers use plain HTTP only for names of this machine
// (profile.IsLoopback). If the DNS resolves such a name, for example api.localhost, to another machine, the request
// fails.
func NewHTTPClient() *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone() //nolint:errcheck // it is an *http.Transport
	transport.ResponseHeaderTimeout = time.Minute
	transport.Proxy = bypassProxyForHTTP(http.ProxyFromEnvironment)
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		d := net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}
		if host, _, err := net.SplitHostPort(address); err == nil && profile.IsLoopback(host) {
			d.Control = requireLoopback
		}
		return d.DialContext(ctx, network, address)
	}
	return &http.Client{
		Transport:     apiTransport{transport},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// errProtocolSwitch is the error for a response that switches to another protocol, although no request has asked for
// it.
var errProtocolSwitch = errors.New("it answers 101, and was not asked for another protocol: check that it is the " +
	"address of a management API")

// apiTransport loads the root certificates before the first certificate is verified, and refuses status
// 101: the body of such a response is the connection itself, and a read of it ignores the context.
type apiTransport struct{ next http.RoundTripper }

func (t apiTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme == "https" {
		webroots.InstallFallback() // it takes a millisecond, so not for plain HTTP
	}
	resp, err := t.next.RoundTrip(r)
	if err == nil && resp.StatusCode == http.StatusSwitchingProtocols {
		_ = resp.Body.Close()
		return nil, errProtocolSwitch
	}
	return resp, err
}

// bypassProxyForHTTP bypasses the proxy for plain HTTP.
func bypassProxyForHTTP(proxy func(*http.Request) (*url.URL, error)) func(*http.Request) (*url.URL, error) {
	return func(r *http.Request) (*url.URL, error) {
		if r.URL.Scheme == "http" {
			return nil, nil
		}
		return proxy(r)
	}
}

// errNotLoopback is the error for a name that belongs to this machine, such as localhost, but resolves to another
// machine.
var errNotLoopback = errors.New("its name is this machine's, and the DNS leads to another one")

// requireLoopback is a net.Dialer.Control that refuses a connection to another machine.
func requireLoopback(_, address string, _ syscall.RawConn) error {
	if addr, err := netip.ParseAddrPort(address); err != nil || !addr.Addr().Unmap().IsLoopback() {
		return errNotLoopback
	}
	return nil
}

// Sleep waits for d. If the context ends first, Sleep returns the context's cause.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// Response is a successful response.
type Response struct {
	Status int
	Header http.Header
	// Body is JSON, empty if there is no body.
	Body []byte
}

// Decode decodes a response of the API, or a part of it. Its error says where the response differs from the expected
// form. A response can differ because another version of the API, or another server, has sent it.
func Decode(document []byte, out any) error {
	err := json.Unmarshal(document, out)
	if err == nil {
		return nil
	}
	reason := "it is no document"
	if typeErr, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		reason = "it has the kind " + typeErr.Value + " where another is due"
		if typeErr.Field != "" {
			reason += ", in " + typeErr.Field
		}
	}
	return fmt.Errorf("%s: check that it is the address of a management API, and that this client is not older than it",
		reason)
}

// AccountArgument is the argument that names the account of an operation.
const AccountArgument = "accountName"

// Do calls an operation. arguments has the values of the arguments in JSON, by their names. Do adds the account to
// arguments if the operation needs one and they have none: the selected account, or the account of the key. It also
// adds an idempotency key if the operation takes one and they have none. For a response with status 4xx or 5xx, Do
// returns an error that wraps a *Problem.
func (a *API) Do(ctx context.Context, t *apitools.Tool, arguments map[string]json.RawMessage) (*Response, error) {
	if err := a.addAccount(ctx, t, arguments); err != nil {
		return nil, err
	}
	addIdempotencyKey(t, arguments)
	encoded, err := mcp.EncodeArguments(t.Operation(), t.Path, arguments)
	if err != nil {
		return nil, exit.WithCode(exit.Usage, err)
	}
	origin := *a.Access.Origin
	target := origin.String() + encoded.Path
	if encoded.Query != "" {
		target += "?" + encoded.Query
	}
	return a.doWithRetry(ctx, t, func(ctx context.Context) (*http.Request, error) {
		var body io.Reader
		if encoded.Body != nil {
			body = bytes.NewReader(encoded.Body)
		}
		r, err := http.NewRequestWithContext(ctx, t.Method, target, body)
		if err != nil {
			return nil, fmt.Errorf("make a request: %w", err)
		}
		for _, field := range encoded.Fields {
			r.Header.Set(field[0], field[1])
		}
		if encoded.Body != nil {
			r.Header.Set("Content-Type", encoded.ContentType)
		}
		r.Header.Set("Accept", "application/json")
		r.Header.Set("User-Agent", "gatewright/"+release.Version())
		if t.Public {
			return r, nil
		}
		key, err := a.Access.Key(ctx)
		if err != nil {
			return nil, err
		}
		r.Header.Set("Authorization", "Bearer "+key)
		return r, nil
	})
}

// addAccount adds the selected account if an operation needs one and the arguments do not name one.
func (a *API) addAccount(ctx context.Context, t *apitools.Tool, arguments map[string]json.RawMessage) error {
	required := slices.ContainsFunc(t.Arguments, func(arg project.Argument) bool {
		return arg.Name == AccountArgument && arg.Required
	})
	if !required || arguments[AccountArgument] != nil {
		return nil
	}
	account, err := a.Account(ctx)
	if err != nil {
		return err
	}
	text, err := json.Marshal(account)
	arguments[AccountArgument] = text
	return err
}

// Account returns the selected account. If none is selected, it requests the account of the key and selects it.
func (a *API) Account(ctx context.Context) (string, error) {
	if a.Access.Account == "" {
		account, err := a.WhoAmI(ctx)
		if err != nil {
			return "", fmt.Errorf("ask for the key's account: %w", err)
		}
		a.Access.Account = account
	}
	return a.Access.Account, nil
}

// WhoAmI returns the name of the account to which the key belongs.
func (a *API) WhoAmI(ctx context.Context) (account string, err error) {
	resp, err := a.Call(ctx, "V1_whoAmI", nil)
	if err != nil {
		return "", err
	}
	var body struct {
		Account string `json:"account"`
	}
	if err := Decode(resp.Body, &body); err != nil {
		return "", fmt.Errorf("read whose key it is: %w", err)
	}
	if body.Account == "" {
		return "", exit.WithCode(exit.Usage, errors.New("the key is of no account: name one with --account"))
	}
	return body.Account, nil
}

// idempotencyKeyArgument is the argument for the idempotency key. The API makes a change once, even if it receives
// several requests with the same key (contract 9).
const idempotencyKeyArgument = "idempotencyKey"

// addIdempotencyKey adds an idempotency key to a request for a change, if the operation accepts such a key, so that it
// is safe to repeat.
func addIdempotencyKey(t *apitools.Tool, arguments map[string]json.RawMessage) {
	accepts := slices.ContainsFunc(t.Arguments, func(arg project.Argument) bool {
		return arg.Name == idempotencyKeyArgument
	})
	if accepts && arguments[idempotencyKeyArgument] == nil {
		arguments[idempotencyKeyArgument] = json.RawMessage(`"` + uuid.NewString() + `"`)
	}
}

// isRepeatable reports whether a request can be repeated although it may have taken effect: because its operation is
// declared idempotent, or because it has an idempotency key.
func isRepeatable(t *apitools.Tool, r *http.Request) bool {
	return t.Idempotent || r.Header.Get("Idempotency-Key") != ""
}

// Call calls a declared operation by its name. The arguments are encoded as JSON.
func (a *API) Call(ctx context.Context, name string, arguments map[string]any) (*Response, error) {
	t, raw, err := encodeArguments(name, arguments)
	if err != nil {
		return nil, err
	}
	return a.Do(ctx, t, raw)
}

// Operation returns a declared operation by its name.
func Operation(name string) (*apitools.Tool, error) {
	t, err := apitools.ByName(name)
	if err == nil && t == nil {
		err = fmt.Errorf("there is no operation %s", name)
	}
	return t, err
}

// encodeArguments returns the operation with this name, and the arguments in JSON.
func encodeArguments(name string, arguments map[string]any) (*apitools.Tool, map[string]json.RawMessage, error) {
	t, err := Operation(name)
	if err != nil {
		return nil, nil, err
	}
	raw := make(map[string]json.RawMessage, len(arguments))
	for argument, value := range arguments {
		if raw[argument], err = json.Marshal(value); err != nil {
			return nil, nil, fmt.Errorf("write the argument %s: %w", argument, err)
		}
	}
	return t, raw, nil
}
