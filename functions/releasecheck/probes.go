package releasecheck

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/aws/aws-lambda-go/events"

	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/format/credential"
	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/runtime/trigger"
	"github.com/gatewright/gatewright/shared/runtime/trigger/probe"
)

// Probe is an event that a version of a function handles without effects, and a check of the response.
type Probe struct {
	Event []byte
	// Evaluate returns an error that says what is wrong with a response, or nil. The error contains only the status,
	// the type and the size of the response.
	Evaluate func(response []byte) error
}

// Probes are the probes of an installation's functions, by the names of the functions.
type Probes map[string]Probe

// unknownHost is a host name that no deployment and no custom domain can have (RFC 2606).
const unknownHost = "release-check.invalid"

// NewProbes returns the probes of the functions of groups, and of the functions that events call.
//
//   - A group gets a request for one of its operations, with an unknown account key. It reads the table to find the
//     key, and responds with 401 for any operation. A group with only public operations gets a request for one that
//     only reads.
//   - The gateway gets a request for a host that no deployment can have. It reads the table to find one, and responds
//     with 404.
//   - The functions that other events call get the event of package probe.
func NewProbes(groups []api.Group, triggered []trigger.Function, source *ids.Source) (Probes, error) {
	out := Probes{}
	for _, g := range groups {
		d, ok := probeOperation(g.Declarations())
		if !ok {
			return nil, fmt.Errorf("the group %s has no operation that a release may ask for: give it a GET", g.Name)
		}
		status := d.Status
		headers := map[string][]string{"Host": {unknownHost}, "Content-Type": {"application/json"}}
		if !d.Public {
			status = http.StatusUnauthorized
			headers["Authorization"] = []string{"Bearer " + credential.New(credential.AccountKey, source)}
		}
		out[g.Name] = requestProbe(d.Method, parameter.ReplaceAllString(d.Path, "release-check"), headers, status)
	}
	for _, f := range triggered {
		if slices.ContainsFunc(f.Events, func(e trigger.Event) bool { return e.HTTP }) {
			out[f.Name] = requestProbe(http.MethodGet, "/",
				map[string][]string{"Host": {unknownHost}, "X-Forwarded-Proto": {"https"}}, http.StatusNotFound)
			continue
		}
		out[f.Name] = Probe{Event: []byte(probe.Event), Evaluate: checkEqual(probe.Response)}
	}
	return out, nil
}

// parameter matches a parameter in a path, such as {id}.
var parameter = regexp.MustCompile(`\{[^}]*\}`)

// probeOperation returns the operation of a group that is used for its probe: an operation that requires an account
// key, preferably a GET. If there is none, it returns a public GET without parameters. ok is false if there is neither.
func probeOperation(declarations []api.Declaration) (d api.Declaration, ok bool) {
	for _, matches := range []func(api.Declaration) bool{
		func(d api.Declaration) bool { return !d.Public && !d.SessionOnly && d.Method == http.MethodGet },
		func(d api.Declaration) bool { return !d.Public && !d.SessionOnly },
		func(d api.Declaration) bool {
			return d.Public && d.Method == http.MethodGet && !strings.Contains(d.Path, "{")
		},
	} {
		if i := slices.IndexFunc(declarations, matches); i >= 0 {
			return declarations[i], true
		}
	}
	return api.Declaration{}, false
}

// requestProbe returns the probe of a request in the form of API Gateway's events.
func requestProbe(method, path string, headers map[string][]string, status int) Probe {
	event := events.APIGatewayProxyRequest{
		Resource: path, Path: path, HTTPMethod: method, MultiValueHeaders: headers, Body: "",
		RequestContext: events.APIGatewayProxyRequestContext{RequestID: "release-check", HTTPMethod: method, Path: path},
	}
	raw, err := json.Marshal(event)
	if err != nil {
		panic(fmt.Sprintf("releasecheck: %v", err)) // cannot happen: the event can be encoded
	}
	return Probe{Event: raw, Evaluate: checkStatus(status)}
}

// checkStatus returns the Evaluate of a probe that expects a response with this status. A response with status 401 or
// 404 must also be a problem document. The Evaluate also works for streamed responses: it decodes only the JSON object
// with the status and headers, and the body follows this object.
func checkStatus(status int) func([]byte) error {
	return func(response []byte) error {
		var got struct {
			Status  int                 `json:"statusCode"`
			Headers map[string]string   `json:"headers"`
			Values  map[string][]string `json:"multiValueHeaders"`
		}
		if err := json.NewDecoder(bytes.NewReader(response)).Decode(&got); err != nil {
			return fmt.Errorf("it answers %d bytes that are no response, want status %d", len(response), status)
		}
		if got.Status != status {
			return fmt.Errorf("it answers status %d, want %d: look for the request in its log", got.Status, status)
		}
		header := http.Header{}
		for name, value := range got.Headers {
			header.Set(name, value)
		}
		for name, values := range got.Values {
			header[http.CanonicalHeaderKey(name)] = values
		}
		kind, _, _ := mime.ParseMediaType(header.Get("Content-Type"))
		if isRefusal := status == http.StatusUnauthorized || status == http.StatusNotFound; isRefusal &&
			kind != "application/problem+json" {
			return fmt.Errorf("it answers status %d with the type %q, want application/problem+json", got.Status, kind)
		}
		return nil
	}
}

// checkEqual returns the Evaluate of a probe. want is the expected response. White space around the response is
// ignored.
func checkEqual(want string) func([]byte) error {
	return func(response []byte) error {
		if string(bytes.TrimSpace(response)) != want {
			return fmt.Errorf("it answers %d bytes that are not %s", len(response), want)
		}
		return nil
	}
}
