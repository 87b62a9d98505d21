package config

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gatewright/gatewright/shared/base/lazy"
	"github.com/gatewright/gatewright/shared/base/spelling"
)

// These are the variables of the local run and of a gateway in a separate process, in addition
// to the variables that they share with functions and the variables of their listeners.
const (
	VarAPIAddr     = "GATEWRIGHT_API_ADDR"
	VarGatewayAddr = "GATEWRIGHT_GATEWAY_ADDR"
	VarTLSAddr     = "GATEWRIGHT_TLS_ADDR"
	VarRelayAddr   = "GATEWRIGHT_RELAY_ADDR"
	VarDataDir     = "GATEWRIGHT_DATA_DIR"
	VarReadyFile   = "GATEWRIGHT_READY_FILE"
	VarDomain      = "GATEWRIGHT_DOMAIN"
	// VarTLSCertificate and VarTLSKey are paths of files.
	VarTLSCertificate = "GATEWRIGHT_TLS_CERTIFICATE"
	VarTLSKey         = "GATEWRIGHT_TLS_KEY"
	VarFunctions      = "GATEWRIGHT_FUNCTIONS"
	VarDynoxide       = "GATEWRIGHT_DYNOXIDE"
	VarNoColor        = "NO_COLOR"
	VarAdminAddr      = "GATEWRIGHT_ADMIN_ADDR"
	VarAnnounce       = "GATEWRIGHT_ANNOUNCE"
)

// The defaults of the local run.
const (
	DefaultAPIAddr     = "127.0.0.1:9000"
	DefaultGatewayAddr = "127.0.0.1:9001"
	DefaultTLSAddr     = "127.0.0.1:9443"
	// DefaultRelayAddr is not 9002, which the upstream of examples/hello uses.
	DefaultRelayAddr = "127.0.0.1:9003"
	// NoAddr is the address that disables a listener: for TLS, for tunnels or for operators.
	NoAddr         = "none"
	DefaultDataDir = ".gatewright"
	// DefaultAdminAddr is the admin address of a gateway in a separate process.
	DefaultAdminAddr = "127.0.0.1:8081"
	// DefaultAnnounce is how long a gateway in a separate process accepts new requests after SIGTERM.
	// This is enough time for three health checks, 5 s apart, to detect that the process is draining.
	DefaultAnnounce = 15 * time.Second
	// DefaultFunctionsDataDir is the default data directory if functions run as separate processes.
	DefaultFunctionsDataDir = ".gatewright-lambda"
	// DefaultServerDataDir and the constants after it are the defaults of `gatewright serve`.
	DefaultServerDataDir     = "/var/lib/gatewright"
	DefaultServerGatewayAddr = ":80"
	DefaultServerTLSAddr     = ":443"
)

// prefix is the prefix of the product's variables.
const prefix = "GATEWRIGHT_"

// Kind is the group of a setting.
type Kind int

const (
	// Run settings are read by the local run.
	Run Kind = iota
	// Listening settings are those of a Listener. A gateway in Lambda, which has no listener, uses
	// only the limits for heads, the trusted proxies and the setting for net/http.
	Listening
	// Function settings are for functions in Lambda: the infrastructure sets them, and the local run chooses their values itself.
	Function
	// Process settings are for the gateway in a separate process,
	// in addition to the settings that it shares with functions.
	Process
)

// Setting is a variable that the product reads.
type Setting struct {
	Name string
	Kind Kind
	// Default describes the default in a few words, "" for none.
	Default string
	// Server describes the default in `gatewright serve`, "" if Default applies there too.
	Server string
	// Range describes the allowed values.
	Range string
	// Description describes the setting, without Markdown. Details continues the description in Markdown, only for docs/local-run.md.
	Description, Details string
}

// Settings returns all variables that servers and functions read, in the order of docs/local-run.md. A
// variable with different defaults for a gateway in a separate process and for the local run is listed for
// both. The tables of docs/local-run.md, `local --help` and CheckNames are derived from this list. Packages
// telemetry and cloud have the variables with other prefixes, except NO_COLOR, which is in this list.
func Settings() []Setting {
	return slices.Concat(addressSettings(), runSettings(), functionSettings(), processSettings(), listenerSettings())
}

// addressSettings returns the settings of the addresses and certificates of the local run.
func addressSettings() []Setting {
	return []Setting{
		{
			VarDomain, Run, "", "needed", "a domain name", "the installation's own domain",
			": the management API is at `api.` below it, tunnels' agents at `relay.`, and deployments at their names, all by " +
				"HTTPS ([one server](one-server.md))",
		},
		{
			VarTLSCertificate, Run, "", "", "a file", "the certificate of the domain's names and those that signed it, as PEM",
			", for `api.`, `relay.` and `*.` below the domain; it is read again when it changes. Without it the authority of " +
				"`GATEWRIGHT_ACME_DIRECTORY` is asked",
		},
		{VarTLSKey, Run, "", "", "a file", "the private key of that certificate, as PEM", ""},
		{VarAPIAddr, Run, DefaultAPIAddr, "", "host:port", "where the management API listens", "; port 0 is any free one"},
		{
			VarAPIURL, Run, "the address it listens on", "https://api.<domain>", "an address",
			"the public address of the management API", ", which [the cards of its MCP servers](api.md#found-by-mcp-clients) " +
				"name: that of the proxy before it, path included",
		},
		{
			VarOrigins, Run, "", "", "origins with spaces between", "whose pages may call the MCP server of the management API",
			": a browser client's, such as `http://localhost:6274`; the API's own may ([browsers](mcp-api.md#from-a-browser))",
		},
		{
			VarGatewayAddr, Run, DefaultGatewayAddr, DefaultServerGatewayAddr, "host:port", "where deployments are served",
			", as `http://<deployment>.localhost:<port>`; port 0 is any free one",
		},
		{
			VarTLSAddr, Run, DefaultTLSAddr, DefaultServerTLSAddr, "host:port, or none", "where deployments are served by TLS",
			", as `https://<deployment>.localhost:<port>`, with [certificates of a CA of its " +
				"own](client-certificates.md#tls-on-this-machine); port 0 is any free one",
		},
		{
			VarRelayAddr, Run, DefaultRelayAddr, "at the domain", "host:port, or none", "where agents of tunnels connect",
			", at `http://<address>`; port 0 is any free one",
		},
	}
}

// runSettings returns the other settings of the local run.
func runSettings() []Setting {
	return []Setting{
		{
			VarDataDir, Run, DefaultDataDir, DefaultServerDataDir, "a folder", "where everything is kept",
			"; of `make run-lambda` it is `" + DefaultFunctionsDataDir + "`",
		},
		{
			VarPrivateUpstreams, Run, "true", "false", "true or false", "lets projects call private addresses",
			", which this machine and its network have; link-local ones never",
		},
		{
			VarUnderscores, Run, "false", "", "true or false", "passes header fields with _ in their names on",
			": [why they are dropped](projects.md#handlers)",
		},
		{
			VarLimits, Run, "defaults", "", "NAME=VALUE with spaces between", "what bounds each account",
			", such as `projects=100 requests=50`: [names and defaults](limits.md#accounts)",
		},
		{
			VarACMEDirectory, Run, "", "", "an https address", "the ACME directory of the authority that certificates are of",
			", of custom domains and of a server's own names, such as `https://acme-v02.api.letsencrypt.org/directory`: " +
				"whoever sets it agrees to its terms; it has to reach this machine at port 443 or 80 of [their " +
				"hostnames](custom-domains.md#by-tls)",
		},
		{
			VarDocsWeights, Run, "found near the binary", "", "a file",
			"the weights by which the documentation is searched by meaning", ": the file `minilm-l6-v2.weights` of the same " +
				"release; without it the documentation is [searched by words](mcp-docs.md#by-meaning-or-by-words)",
		},
		{
			VarReadyFile, Run, "", "", "a file", "is written once both addresses answer, and removed at the stop",
			": the API's address on the first line, the gateway's on the second, its address by TLS on the third, and that of " +
				"agents on the fourth; an empty line, or none at the end, is for what there is not",
		},
		{
			VarAdminAddr, Run, "none", "", "host:port, or none", "where operators ask",
			": [`/livez`, `/readyz` and `/metrics`](one-server.md#watch), without a credential, so that no client may reach it",
		},
		{
			VarFunctions, Run, "", "", "a folder such as dist/amd64", "has its functions run as processes of their own",
			", as `make run-lambda` does, over emulators of DynamoDB and S3; the folder has a `bootstrap` of each function, " +
				"and the program `emulators`",
		},
		{
			VarDynoxide, Run, "found", "", "a file", "the binary of the DynamoDB emulator that run-lambda starts",
			"; else it is looked for on the `PATH` and below `local/dev/node_modules`",
		},
		{
			VarDynamoDBEndpoint, Run, "files of our own", "", "http://host:port", "a DynamoDB that runs elsewhere",
			"; `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY` are used if they are set",
		},
		{
			VarS3Endpoint, Run, "files of our own", "", "http://host:port", "an S3 that runs elsewhere",
			"; it tells of no uploads, so they are looked for each second",
		},
		{
			VarS3PublicEndpoint, Run, "the S3 endpoint, else the API's address", "", "http://host:port",
			"the address in upload URLs", ": clients of other machines need one that they reach",
		},
		{VarNoColor, Run, "colours in a terminal", "", "anything", "no colours at all", ""},
	}
}

// functionSettings returns the settings of functions in Lambda.
func functionSettings() []Setting {
	return []Setting{
		{VarTable, Function, "", "", "a name", "the DynamoDB table", ""},
		{VarBucket, Function, "", "", "a name", "the S3 bucket", ""},
		{VarKeyFile, Function, "", "", "a file", "the root key", ""},
		{VarKMSKey, Function, "", "", "an id", "the KMS key that wraps the root key", ""},
		{VarDeploymentURL, Function, "", "", "an origin with {deployment}", "where deployments are served", ""},
		{VarAPIDomain, Function, "", "", "a domain name", "the management API's own, which is nobody's custom domain", ""},
		{VarDNSRecords, Function, "", "", "a file", "has records that are asked before the DNS is", ""},
		{VarRelay, Function, "", "", "an origin", "the relay, which services behind tunnels are asked through", ""},
		{VarRelayCertificate, Function, "", "", "PEM", "the relay's certificate chain and private key", ""},
		{
			VarDocsEmbeddings, Function, "", "", "a model's id", "the model of Bedrock by which the documentation is searched",
			"",
		},
		{
			VarDocsAnswers, Function, "", "", "a model's id",
			"the model of Bedrock that answers questions about the documentation", "",
		},
		{
			VarDocsAnswersADay, Function, strconv.Itoa(DefaultDocsAnswersADay), "", "1 to " + strconv.Itoa(maxDocsAnswersADay),
			"how many questions of a day a process puts to that model", "",
		},
		{VarBedrockEndpoint, Function, "", "", "http://host:port", "a Bedrock that runs elsewhere", ""},
		{VarDecodedPaths, Function, "false", "", "true or false", "is for emulators that decode paths", ""},
		{VarStreaming, Function, "false", "", "true or false", "has the gateway answer as a stream", ""},
		{VarUsesFile, Function, "", "", "a file", "gets what the function asks of AWS", ""},
	}
}

// processSettings returns the settings of the gateway in a separate process.
func processSettings() []Setting {
	return []Setting{
		{
			VarCertificate, Process, "", "", "PEM",
			"the certificate chain and the private key of *.<domain>, where deployments are served",
			": a secret. It is read at the start, and files that `GATEWRIGHT_TLS_CERTIFICATE` and `GATEWRIGHT_TLS_KEY` name " +
				"in its place are read again when they change",
		},
		{
			VarAdminAddr, Process, DefaultAdminAddr, "", "host:port", "where operators ask",
			": [/livez, /readyz and /metrics](#the-admin-port), which no client has to reach",
		},
		{
			VarAnnounce, Process, shortDuration(DefaultAnnounce), "", "0s to " + shortDuration(maxAnnounce),
			"how long new requests are taken after SIGTERM, while /readyz says that they go elsewhere", "",
		},
	}
}

// listenerSettings returns the settings of listeners. Their ranges and defaults are those of ListenerFromEnvironment.
func listenerSettings() []Setting {
	l := DefaultListener()
	descriptions := map[string]Setting{
		VarHeaderBytes: {
			Description: "the largest head of a request: request line, fields and the empty line",
			Details:     ". More is a 431, of a request line alone a 414",
		},
		VarHeaderFields: {Description: "the most fields of a request", Details: ": more is a 431"},
		VarHeaderTimeout: {
			Description: "how long a head may take from its first byte on",
			Details:     ": longer is a 408. A new connection on which nothing comes ends silently",
		},
		VarBodyTimeout: {
			Description: "how long a body may bring no byte while it is waited for",
			Details:     ": longer is a 408, or ends the connection when the answer has begun; the upstream's request ends too",
		},
		VarSendTimeout: {
			Description: "how long a client may take no byte of an answer",
			Details: ": after that the connection is reset. What the system buffers for the client counts as taken. It is " +
				"looked ten times within that time, so that it can be a fifth longer",
		},
		VarIdleTimeout: {
			Description: "how long a connection may have no request under way",
			Details:     ": after that it ends silently",
		},
		VarConnections: {
			Default: "half of the file descriptors beyond the 640 that the process reserves, or a " +
				"quarter of all if that is more; 65,536 at most",
			Description: "the most connections to all addresses of the process together, from all clients",
			Details:     ": one more is a 503. Each of the addresses keeps an eighth for itself. `0` is as without it",
		},
		VarConnectionsPerAddress: {
			Description: "the most connections from one client's address, 0 for no bound",
			Details:     "; of IPv6 an address is a /64. Loopback has no such bound",
		},
		VarBufferedBodyBytes: {
			Description: "the most memory, in bytes, for all request bodies that the process holds " +
				"whole: those of the management API, of MCP servers and of GraphQL routes",
			Details: ". One client's address or one account gets a quarter of it at most. A quarter of it is only for callers " +
				"of the management API with an account key. [A body beyond it](limits.md#requests-and-answers) is a 503",
		},
	}
	var out []Setting
	add := func(name, value, lowest, highest string) {
		s := descriptions[name]
		s.Name, s.Kind, s.Range = name, Listening, lowest+" to "+highest
		if s.Default == "" {
			s.Default = value
		}
		out = append(out, s)
	}
	numbers, durations := l.numbers(), l.durations()
	for _, n := range numbers[:2] {
		add(n.name, strconv.Itoa(*n.target), strconv.Itoa(n.min), strconv.Itoa(n.max))
	}
	for _, d := range durations {
		add(d.name, shortDuration(*d.target), shortDuration(minTimeout), shortDuration(maxTimeout))
	}
	for _, n := range numbers[2:] {
		add(n.name, strconv.Itoa(*n.target), strconv.Itoa(n.min), strconv.Itoa(n.max))
	}
	return append(out,
		Setting{
			VarTrustedProxies, Listening, "", "", "prefixes with spaces between",
			"the addresses of proxies and load balancers of your own, such as 10.0.0.0/8",
			": their `X-Forwarded-For`, `X-Forwarded-Proto` and `X-Request-Id` are believed, nobody else's, and [a client's " +
				"address is what they say](gateway-process.md#behind-a-proxy)",
		},
		Setting{
			VarProxyProtocol, Listening, "false", "", "true or false",
			"each connection from a trusted proxy begins with a header of the PROXY protocol",
			", version 1 or 2, with the client's address; without one it is closed. Connections from elsewhere have none",
		},
		Setting{
			VarStandardHTTP, Listening, "false", "", "true or false",
			"the standard library alone reads requests and sends them to upstreams",
			", without our own parsers: for [an incident](security.md#if-a-parser-is-at-fault)",
		},
	)
}

const maxAnnounce = 5 * time.Minute

// AnnounceFromEnvironment reads how long a process accepts new requests after SIGTERM. If the variable
// is not set, it returns fallback. Its error names the variable and does not contain its value.
func AnnounceFromEnvironment(getenv func(string) string, fallback time.Duration) (time.Duration, error) {
	text := getenv(VarAnnounce)
	if text == "" {
		return fallback, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || d > maxAnnounce {
		return 0, fmt.Errorf("%s is no time from 0s to %s, such as 15s", VarAnnounce, shortDuration(maxAnnounce))
	}
	return d, nil
}

// shortDuration formats a duration without zero parts: 2m and not 2m0s.
func shortDuration(d time.Duration) string {
	return strings.Replace(strings.Replace(d.String(), "m0s", "m", 1), "h0m", "h", 1)
}

// testVariables has the variables of tests and tools in this repository. A name that
// ends in "_" is a prefix. Processes that tests and tools start inherit these variables.
var testVariables = [...]string{
	prefix + "TEST_", prefix + "SCENARIO_", prefix + "SIMULATIONS", prefix + "CLIENTS", prefix + "API",
	prefix + "BLOB_TEST_SERVER",
}

// The variables of the command line client (package profile), which no server reads. They
// are no mistake in a server's environment, because people run the client and the server
// in one shell. The client's variable for its key file has the same name as VarKeyFile.
const (
	VarClientProfiles = prefix + "PROFILES"
	VarClientProfile  = prefix + "PROFILE"
	VarClientURL      = prefix + "URL"
	VarClientAccount  = prefix + "ACCOUNT"
	VarClientKey      = prefix + "KEY"
)

// clientVariables has the variables of the client.
var clientVariables = [...]string{VarClientProfiles, VarClientProfile, VarClientURL, VarClientAccount, VarClientKey}

// CheckNames returns an error that names each variable in environ (entries NAME=value) that has the product's
// prefix but is no setting: otherwise a misspelled limit would silently have no effect. local means that the
// local run reads the variables: then CheckNames also refuses the Function and Process settings. Every process that
// listens calls CheckNames, and does not start after an error: `serve`, the local run, and a gateway and a relay in
// separate processes.
//
// CheckNames ignores the variables of the client and of tests. It also ignores variables
// that Kubernetes sets in each container for a Service called gatewright, or
// gatewright-… (https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables).
func CheckNames(environ []string, local bool) error {
	var known, reserved []string
	for _, s := range Settings() {
		if local && (s.Kind == Function || s.Kind == Process) {
			reserved = append(reserved, s.Name)
		} else {
			known = append(known, s.Name)
		}
	}
	var errs []error
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		switch {
		case !strings.HasPrefix(name, prefix), slices.Contains(known, name), slices.Contains(clientVariables[:], name),
			isKubernetesVariable(name, value), slices.ContainsFunc(testVariables[:], func(t string) bool {
				return name == t || strings.HasSuffix(t, "_") && strings.HasPrefix(name, t)
			}):
		case slices.Contains(reserved, name):
			errs = append(errs, fmt.Errorf("%s is for functions in Lambda and for gateways in processes of their own: unset "+
				"it, the local run decides it itself", name))
		default:
			errs = append(errs, fmt.Errorf("there is no setting %s: %s", name, correction(name, known)))
		}
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}

// isKubernetesVariable reports whether a variable is one that Kubernetes derives from a Service: its address, or one
// of its ports. If the name is one that people may guess and set, isKubernetesVariable also checks the value.
func isKubernetesVariable(name, value string) bool {
	_, addrErr := netip.ParseAddr(value)
	_, portErr := strconv.ParseUint(value, 10, 16)
	switch {
	case strings.HasSuffix(name, "_SERVICE_HOST"):
		return addrErr == nil
	case strings.HasSuffix(name, "_SERVICE_PORT"):
		return portErr == nil
	case servicePort().MatchString(name): // the variables of a port by its name, or by its number
		return true
	}
	return strings.HasSuffix(name, "_PORT") && strings.Contains(value, "://")
}

// servicePort matches the suffixes of a Service's variables that contain the name or the number of a port.
var servicePort = lazy.Regexp(`_(SERVICE_PORT_[A-Z0-9_]+|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`)

// correction returns advice about an unknown name. It names the most similar known name if at most one letter in three differs.
func correction(name string, names []string) string {
	nearest, ok := spelling.Nearest(strings.ToUpper(name), names, (len(name)-len(prefix))/3)
	if !ok {
		return "correct its name, or unset it"
	}
	return spelling.DidYouMean(nearest) + " Correct its name, or unset it"
}
