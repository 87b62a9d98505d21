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

	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/credential"
	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/trigger"
	"github.com/gatewright/gatewright/shared/trigger/probe"
)

// Probe is an event that a version of a function answers without an effect, and the answer that it must give.
type Probe struct {
	Event []byte
	// Judge returns what is wrong with an answer, nil if it is right. Its error repeats nothing of the answer but its status and type.
	Judge func(answer []byte) error
}

// Probes are those of an installation's functions, by name.
type Probes map[string]Probe

// nobody is a host name that no deployment and no custom domain can have (RFC 2606).
const nobody = "release-check.invalid"

// ProbesOf returns the probes of groups of operations and of functions that events call.
//
//   - A group is asked for one of its operations with an account key that nobody has. It reads the table to find the key, and answers 401
//     whatever the operation is. A group whose operations are all public answers one of them that only reads.
//   - The gateway is asked for a host that no deployment can have. It reads the table to find one, and answers 404.
//   - The functions that other events call have an event of their own for this (package probe).
func ProbesOf(groups []api.Group, called []trigger.Function, source *ids.Source) (Probes, error) {
	out := Probes{}
	for _, g := range groups {
		d, ok := asked(g.Declarations())
		if !ok {
			return nil, fmt.Errorf("the group %s has no operation that a release may ask for: give it a GET", g.Name)
		}
		status := d.Status
		headers := map[string][]string{"Host": {nobody}, "Content-Type": {"application/json"}}
		if !d.Public {
			status = http.StatusUnauthorized
			headers["Authorization"] = []string{"Bearer " + credential.New(credential.AccountKey, source)}
		}
		out[g.Name] = request(d.Method, parameter.ReplaceAllString(d.Path, "release-check"), headers, status)
	}
	for _, f := range called {
		if slices.ContainsFunc(f.On, func(e trigger.Event) bool { return e.HTTP }) {
			out[f.Name] = request(http.MethodGet, "/", map[string][]string{"Host": {nobody}, "X-Forwarded-Proto": {"https"}}, http.StatusNotFound)
			continue
		}
		out[f.Name] = Probe{Event: []byte(probe.Event), Judge: same(probe.Answer)}
	}
	return out, nil
}

// parameter is one of a path.
var parameter = regexp.MustCompile(`\{[^}]*\}`)

// asked returns the operation that a group is asked for: one that takes account keys, and a GET if there is one. Of public operations it
// is a GET without parameters.
func asked(all []api.Declaration) (d api.Declaration, ok bool) {
	for _, fits := range []func(api.Declaration) bool{
		func(d api.Declaration) bool { return !d.Public && !d.SessionAlone && d.Method == http.MethodGet },
		func(d api.Declaration) bool { return !d.Public && !d.SessionAlone },
		func(d api.Declaration) bool {
			return d.Public && d.Method == http.MethodGet && !strings.Contains(d.Path, "{")
		},
	} {
		if i := slices.IndexFunc(all, fits); i >= 0 {
			return all[i], true
		}
	}
	return api.Declaration{}, false
}

// request returns the probe of a request as API Gateway hands it over.
func request(method, path string, headers map[string][]string, status int) Probe {
	event := events.APIGatewayProxyRequest{
		Resource: path, Path: path, HTTPMethod: method, MultiValueHeaders: headers, Body: "",
		RequestContext: events.APIGatewayProxyRequestContext{RequestID: "release-check", HTTPMethod: method, Path: path},
	}
	raw, err := json.Marshal(event)
	if err != nil {
		panic(fmt.Sprintf("releasecheck: %v", err)) // it is made of texts
	}
	return Probe{Event: raw, Judge: answers(status)}
}

// answers judges an answer to a request by its status, and a refusal by its form too: our own are problem documents. An answer that
// streams has its body after these fields.
func answers(status int) func([]byte) error {
	return func(answer []byte) error {
		var got struct {
			Status  int                 `json:"statusCode"`
			Headers map[string]string   `json:"headers"`
			Values  map[string][]string `json:"multiValueHeaders"`
		}
		if err := json.NewDecoder(bytes.NewReader(answer)).Decode(&got); err != nil {
			return fmt.Errorf("it answers %d bytes that are no response, want status %d", len(answer), status)
		}
		if got.Status != status {
			return fmt.Errorf("it answers status %d, want %d: look for the request in its log", got.Status, status)
		}
		fields := http.Header{}
		for name, value := range got.Headers {
			fields.Set(name, value)
		}
		for name, values := range got.Values {
			fields[http.CanonicalHeaderKey(name)] = values
		}
		kind, _, _ := mime.ParseMediaType(fields.Get("Content-Type"))
		if refusal := status == http.StatusUnauthorized || status == http.StatusNotFound; refusal && kind != "application/problem+json" {
			return fmt.Errorf("it answers status %d with the type %q, want application/problem+json", got.Status, kind)
		}
		return nil
	}
}

// same judges an answer that is known to the byte.
func same(want string) func([]byte) error {
	return func(answer []byte) error {
		if string(bytes.TrimSpace(answer)) != want {
			return fmt.Errorf("it answers %d bytes that are not %s", len(answer), want)
		}
		return nil
	}
}
