// Package call asks operations of the management API, by their names and arguments: it writes the request, waits where it is told to,
// asks again what is safe to ask again, and has a problem be an error.
//
// What it is not: it knows no operation. Their declarations are package apitools', which are made of the API's own.
//
// Read call.go first, then problem.go; try.go has the rules for asking again.
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
	"github.com/gatewright/gatewright/shared/apitools"
	"github.com/gatewright/gatewright/shared/mcp"
	"github.com/gatewright/gatewright/shared/project"
	"github.com/gatewright/gatewright/shared/release"
	"github.com/gatewright/gatewright/shared/webroots"
)

// mostAnswer bounds what is read of an answer, in bytes: answers of the API have 6 MB at most.
const mostAnswer = 64 << 20

// API asks one installation.
type API struct {
	// Access says where it is, and as whom to ask.
	Access profile.Access
	// HTTP sends requests. It follows no redirect (Client).
	HTTP *http.Client
	// Sleep waits, or ends with the context.
	Sleep func(context.Context, time.Duration) error
	// Waits is told of a wait before the next try, and why; nil for nobody.
	Waits func(why string, wait time.Duration)
}

// Client sends requests, and leaves a redirect to whoever has asked: a key goes to no other place than the one it is for. What
// goes by plain HTTP goes to this machine and through no proxy, whatever the DNS says of a name such as api.localhost.
func Client() *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone() //nolint:errcheck // it is one
	transport.ResponseHeaderTimeout = time.Minute
	transport.Proxy = plainGoesDirect(http.ProxyFromEnvironment)
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		d := net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}
		if host, _, err := net.SplitHostPort(address); err == nil && profile.Loopback(host) {
			d.Control = thisMachine
		}
		return d.DialContext(ctx, network, address)
	}
	return &http.Client{
		Transport:     oneProtocol{transport},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// errSwitched is for an answer that goes over to another protocol, for which no request asks.
var errSwitched = errors.New("it answers 101, and was not asked for another protocol: check that it is the address of a management API")

// oneProtocol makes the authorities of the web known before a certificate is verified, and refuses 101: the body of such an answer is the
// connection itself, and reading that ends with no context.
type oneProtocol struct{ to http.RoundTripper }

func (o oneProtocol) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme == "https" {
		webroots.Fall() // which takes a millisecond that plain HTTP does not need
	}
	answer, err := o.to.RoundTrip(r)
	if err == nil && answer.StatusCode == http.StatusSwitchingProtocols {
		_ = answer.Body.Close()
		return nil, errSwitched
	}
	return answer, err
}

// plainGoesDirect sends what goes by plain HTTP through no proxy.
func plainGoesDirect(other func(*http.Request) (*url.URL, error)) func(*http.Request) (*url.URL, error) {
	return func(r *http.Request) (*url.URL, error) {
		if r.URL.Scheme == "http" {
			return nil, nil
		}
		return other(r)
	}
}

// errElsewhere is for a name of this machine that is another one's.
var errElsewhere = errors.New("its name is this machine's, and the DNS leads to another one")

// thisMachine refuses a connection to another machine.
func thisMachine(_, address string, _ syscall.RawConn) error {
	if to, err := netip.ParseAddrPort(address); err != nil || !to.Addr().Unmap().IsLoopback() {
		return errElsewhere
	}
	return nil
}

// Sleep waits, or ends with the context.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// Answer is a good one.
type Answer struct {
	Status int
	Header http.Header
	// Body is JSON, empty for none.
	Body []byte
}

// Read reads what the API has answered, or a part of it. Its error says what is another than the client knows it: that comes from another
// version, or from no management API at all.
func Read(document []byte, to any) error {
	err := json.Unmarshal(document, to)
	if err == nil {
		return nil
	}
	said := "it is no document"
	if wrong, is := errors.AsType[*json.UnmarshalTypeError](err); is {
		said = "it has the kind " + wrong.Value + " where another is due"
		if wrong.Field != "" {
			said += ", in " + wrong.Field
		}
	}
	return fmt.Errorf("%s: check that it is the address of a management API, and that this client is not older than it", said)
}

// AccountArgument is the argument of the operations that are about an account.
const AccountArgument = "accountName"

// Do calls an operation by its arguments, in JSON by their names. Without an account it is the profile's, or that of the
// key. An answer that is none of 2xx is a *Problem.
func (a *API) Do(ctx context.Context, t *apitools.Tool, arguments map[string]json.RawMessage) (*Answer, error) {
	if err := a.addAccount(ctx, t, arguments); err != nil {
		return nil, err
	}
	addTry(t, arguments)
	w, err := mcp.Write(t.Operation(), t.Path, arguments)
	if err != nil {
		return nil, exit.With(exit.Usage, err)
	}
	to := *a.Access.Origin
	target := to.String() + w.Path
	if w.Query != "" {
		target += "?" + w.Query
	}
	return a.tried(ctx, t, func(ctx context.Context) (*http.Request, error) {
		var body io.Reader
		if w.Body != nil {
			body = bytes.NewReader(w.Body)
		}
		r, err := http.NewRequestWithContext(ctx, t.Method, target, body)
		if err != nil {
			return nil, fmt.Errorf("make a request: %w", err)
		}
		for _, field := range w.Fields {
			r.Header.Set(field[0], field[1])
		}
		if w.Body != nil {
			r.Header.Set("Content-Type", w.ContentType)
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

// addAccount adds the account that is meant where none is named.
func (a *API) addAccount(ctx context.Context, t *apitools.Tool, arguments map[string]json.RawMessage) error {
	needed := slices.ContainsFunc(t.Arguments, func(g project.Argument) bool { return g.Name == AccountArgument && g.Required })
	if !needed || arguments[AccountArgument] != nil {
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

// Account is the account that is meant: the one that is named, or that of the key.
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

// WhoAmI is the account of the key.
func (a *API) WhoAmI(ctx context.Context) (account string, err error) {
	answer, err := a.Named(ctx, "V1_whoAmI", nil)
	if err != nil {
		return "", err
	}
	var who struct {
		Account string `json:"account"`
	}
	if err := Read(answer.Body, &who); err != nil {
		return "", fmt.Errorf("read whose key it is: %w", err)
	}
	if who.Account == "" {
		return "", exit.With(exit.Usage, errors.New("the key is of no account: name one with --account"))
	}
	return who.Account, nil
}

// tryArgument is the argument by which a change is made once, however often it is asked for (contract 9).
const tryArgument = "idempotencyKey"

// addTry has a change that takes it be safe to ask for again.
func addTry(t *apitools.Tool, arguments map[string]json.RawMessage) {
	takes := slices.ContainsFunc(t.Arguments, func(g project.Argument) bool { return g.Name == tryArgument })
	if takes && arguments[tryArgument] == nil {
		arguments[tryArgument] = json.RawMessage(`"` + uuid.NewString() + `"`)
	}
}

// repeatable reports whether a request may be sent again when nothing is known of the first: by its method, or since it says that
// it is the same one.
func repeatable(t *apitools.Tool, r *http.Request) bool {
	return t.Idempotent || r.Header.Get("Idempotency-Key") != ""
}

// Named calls an operation by its name, which is one of the declarations', with arguments that are written in JSON.
func (a *API) Named(ctx context.Context, name string, arguments map[string]any) (*Answer, error) {
	t, raw, err := written(name, arguments)
	if err != nil {
		return nil, err
	}
	return a.Do(ctx, t, raw)
}

// Operation is a declared operation by its name.
func Operation(name string) (*apitools.Tool, error) {
	t, err := apitools.Named(name)
	if err == nil && t == nil {
		err = fmt.Errorf("there is no operation %s", name)
	}
	return t, err
}

// written is an operation by its name, and arguments of it in JSON.
func written(name string, arguments map[string]any) (*apitools.Tool, map[string]json.RawMessage, error) {
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
