package config

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gatewright/gatewright/shared/lazy"
)

// The variables of the local run beside those that it shares with functions and
// those of its listeners.
const (
	VarAPIAddr     = "GATEWRIGHT_API_ADDR"
	VarGatewayAddr = "GATEWRIGHT_GATEWAY_ADDR"
	VarTLSAddr     = "GATEWRIGHT_TLS_ADDR"
	VarRelayAddr   = "GATEWRIGHT_RELAY_ADDR"
	VarDataDir     = "GATEWRIGHT_DATA_DIR"
	VarReadyFile   = "GATEWRIGHT_READY_FILE"
	VarDomain      = "GATEWRIGHT_DOMAIN"
	// VarTLSCertificate and VarTLSKey name files.
	VarTLSCertificate = "GATEWRIGHT_TLS_CERTIFICATE"
	VarTLSKey         = "GATEWRIGHT_TLS_KEY"
	VarFunctions      = "GATEWRIGHT_FUNCTIONS"
	VarDynoxide       = "GATEWRIGHT_DYNOXIDE"
	VarNoColor        = "NO_COLOR"
	VarAdminAddr      = "GATEWRIGHT_ADMIN_ADDR"
	VarAnnounce       = "GATEWRIGHT_ANNOUNCE"
)

// What holds in the local run where nothing is set.
const (
	DefaultAPIAddr     = "127.0.0.1:9000"
	DefaultGatewayAddr = "127.0.0.1:9001"
	DefaultTLSAddr     = "127.0.0.1:9443"
	// DefaultRelayAddr is not 9002, which the upstream of examples/hello has.
	DefaultRelayAddr = "127.0.0.1:9003"
	// NoAddr is written for no listener: by TLS, for tunnels, for operators.
	NoAddr         = "none"
	DefaultDataDir = ".gatewright"
	// DefaultAdminAddr is where operators ask a gateway in a process of its own.
	DefaultAdminAddr = "127.0.0.1:8081"
	// DefaultAnnounce is how long such a process takes new requests after SIGTERM: three health
	// checks, 5 s apart, that find it draining.
	DefaultAnnounce = 15 * time.Second
	// DefaultFunctionsDataDir holds where functions run as processes of their own.
	DefaultFunctionsDataDir = ".gatewright-lambda"
	// DefaultServerDataDir and the others hold in `gatewright serve`.
	DefaultServerDataDir     = "/var/lib/gatewright"
	DefaultServerGatewayAddr = ":80"
	DefaultServerTLSAddr     = ":443"
)

// prefix is what the names of our variables begin with.
const prefix = "GATEWRIGHT_"

// Kind is what a setting is about.
type Kind int

const (
	// Run settings are read by the local run.
	Run Kind = iota
	// Clients settings bound what clients may take. A gateway without a listener of
	// ours reads those of heads.
	Clients
	// Function settings are for functions in Lambda: the infrastructure sets them,
	// and the local run decides them itself.
	Function
	// Process settings are for the gateway in a process of its own, beside those that it
	// shares with functions.
	Process
)

// Setting is a variable that the product reads.
type Setting struct {
	Name string
	Kind Kind
	// Default says in a few words what holds without it, "" for nothing.
	Default string
	// Server says what holds without it in `gatewright serve`, "" for the same.
	Server string
	// Range says what it may be.
	Range string
	// What says what it is, without Markdown; More goes on with it, in Markdown, for
	// docs/local-run.md alone.
	What, More string
}

// Settings are all variables that the product reads, in the order of
// docs/local-run.md; one that a gateway in a process of its own and the local run have other
// defaults of is there for either. Its tables, `local --help` and CheckNames are made of them;
// packages telemetry and cloud have those that are not ours.
func Settings() []Setting {
	return append([]Setting{
		{VarDomain, Run, "", "needed", "a domain name", "the installation's own domain", ": the management API is at `api.` below it, tunnels' agents at `relay.`, and deployments at their names, all by HTTPS ([one server](one-server.md))"},
		{VarTLSCertificate, Run, "", "", "a file", "the certificate of the domain's names and those that signed it, as PEM", ", for `api.`, `relay.` and `*.` below the domain; it is read again when it changes. Without it the authority of `GATEWRIGHT_ACME_DIRECTORY` is asked"},
		{VarTLSKey, Run, "", "", "a file", "the private key of that certificate, as PEM", ""},
		{VarAPIAddr, Run, DefaultAPIAddr, "", "host:port", "where the management API listens", "; port 0 is any free one"},
		{VarAPIURL, Run, "the address it listens on", "https://api.<domain>", "an address", "the public address of the management API", ", which [the cards of its MCP servers](api.md#found-by-mcp-clients) name: that of the proxy before it, path included"},
		{VarOrigins, Run, "", "", "origins with spaces between", "whose pages may call the MCP server of the management API", ": a browser client's, such as `http://localhost:6274`; the API's own may ([browsers](mcp-api.md#from-a-browser))"},
		{VarGatewayAddr, Run, DefaultGatewayAddr, DefaultServerGatewayAddr, "host:port", "where deployments are served", ", as `http://<deployment>.localhost:<port>`; port 0 is any free one"},
		{VarTLSAddr, Run, DefaultTLSAddr, DefaultServerTLSAddr, "host:port, or none", "where deployments are served by TLS", ", as `https://<deployment>.localhost:<port>`, with [certificates of a CA of its own](client-certificates.md#tls-on-this-machine); port 0 is any free one"},
		{VarRelayAddr, Run, DefaultRelayAddr, "at the domain", "host:port, or none", "where agents of tunnels connect", ", at `http://<address>`; port 0 is any free one"},
		{VarDataDir, Run, DefaultDataDir, DefaultServerDataDir, "a folder", "where everything is kept", "; of `make run-lambda` it is `" + DefaultFunctionsDataDir + "`"},
		{VarPrivateUpstreams, Run, "true", "false", "true or false", "lets projects call private addresses", ", which this machine and its network have; link-local ones never"},
		{VarUnderscores, Run, "false", "", "true or false", "passes header fields with _ in their names on", ": [why they are dropped](projects.md#handlers)"},
		{VarLimits, Run, "defaults", "", "NAME=VALUE with spaces between", "what bounds each account", ", such as `projects=100 requests=50`: [names and defaults](limits.md#accounts)"},
		{VarACMEDirectory, Run, "", "", "an https address", "the ACME directory of the authority that certificates are of", ", of custom domains and of a server's own names, such as `https://acme-v02.api.letsencrypt.org/directory`: whoever sets it agrees to its terms; it has to reach this machine at port 443 or 80 of [their hostnames](custom-domains.md#by-tls)"},
		{VarDocsWeights, Run, "found near the binary", "", "a file", "the weights by which the documentation is searched by meaning", ": the file `minilm-l6-v2.weights` of the same release; without it the documentation is [searched by words](mcp-docs.md#by-meaning-or-by-words)"},
		{VarReadyFile, Run, "", "", "a file", "is written once both addresses answer, and removed at the stop", ": the API's address on the first line, the gateway's on the second, its address by TLS on the third, and that of agents on the fourth; an empty line, or none at the end, is for what there is not"},
		{VarAdminAddr, Run, "none", "", "host:port, or none", "where operators ask", ": [`/livez`, `/readyz` and `/metrics`](one-server.md#watch), without a credential, so that no client may reach it"},
		{VarFunctions, Run, "", "", "a folder such as dist/amd64", "has its functions run as processes of their own", ", as `make run-lambda` does, over emulators of DynamoDB and S3; the folder has a `bootstrap` of each function, and the program `emulators`"},
		{VarDynoxide, Run, "found", "", "a file", "the binary of the DynamoDB emulator that run-lambda starts", "; else it is looked for on the `PATH` and below `local/node_modules`"},
		{VarDynamoDBEndpoint, Run, "files of our own", "", "http://host:port", "a DynamoDB that runs elsewhere", "; `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY` are used if they are set"},
		{VarS3Endpoint, Run, "files of our own", "", "http://host:port", "an S3 that runs elsewhere", "; it tells of no uploads, so they are looked for each second"},
		{VarS3PublicEndpoint, Run, "the S3 endpoint, else the API's address", "", "http://host:port", "the address in upload URLs", ": clients of other machines need one that they reach"},
		{VarNoColor, Run, "colours in a terminal", "", "anything", "no colours at all", ""},
		{VarTable, Function, "", "", "a name", "the DynamoDB table", ""},
		{VarBucket, Function, "", "", "a name", "the S3 bucket", ""},
		{VarKeyFile, Function, "", "", "a file", "the root key", ""},
		{VarKMSKey, Function, "", "", "an id", "the KMS key that wraps the root key", ""},
		{VarDeploymentURL, Function, "", "", "an origin with {deployment}", "where deployments are served", ""},
		{VarAPIDomain, Function, "", "", "a domain name", "the management API's own, which is nobody's custom domain", ""},
		{VarDNSRecords, Function, "", "", "a file", "has records that are asked before the DNS is", ""},
		{VarRelay, Function, "", "", "an origin", "the relay, which services behind tunnels are asked through", ""},
		{VarRelayCertificate, Function, "", "", "PEM", "the relay's certificate chain and private key", ""},
		{VarDocsEmbeddings, Function, "", "", "a model's id", "the model of Bedrock by which the documentation is searched", ""},
		{VarDocsAnswers, Function, "", "", "a model's id", "the model of Bedrock that answers questions about the documentation", ""},
		{VarDocsAnswersADay, Function, strconv.Itoa(DefaultDocsAnswersADay), "", "1 to " + strconv.Itoa(mostDocsAnswersADay), "how many questions of a day a process puts to that model", ""},
		{VarBedrockEndpoint, Function, "", "", "http://host:port", "a Bedrock that runs elsewhere", ""},
		{VarDecodedPaths, Function, "false", "", "true or false", "is for emulators that decode paths", ""},
		{VarStreaming, Function, "false", "", "true or false", "has the gateway answer as a stream", ""},
		{VarUsesFile, Function, "", "", "a file", "gets what the function asks of AWS", ""},
		{VarCertificate, Process, "", "", "PEM", "the certificate chain and the private key of *.<domain>, where deployments are served", ": a secret. It is read at the start, and files that `GATEWRIGHT_TLS_CERTIFICATE` and `GATEWRIGHT_TLS_KEY` name in its place are read again when they change"},
		{VarAdminAddr, Process, DefaultAdminAddr, "", "host:port", "where operators ask", ": [/livez, /readyz and /metrics](#the-admin-port), which no client has to reach"},
		{VarAnnounce, Process, short(DefaultAnnounce), "", "0s to " + short(mostAnnounce), "how long new requests are taken after SIGTERM, while /readyz says that they go elsewhere", ""},
	}, listenerSettings()...)
}

// listenerSettings have their ranges and defaults from what reads them.
func listenerSettings() []Setting {
	l := DefaultListener()
	about := map[string]Setting{
		VarHeaderBytes:           {What: "the largest head of a request: request line, fields and the empty line", More: ". More is a 431, of a request line alone a 414"},
		VarHeaderFields:          {What: "the most fields of a request", More: ": more is a 431"},
		VarHeaderTimeout:         {What: "how long a head may take from its first byte on", More: ": longer is a 408. A new connection on which nothing comes ends silently"},
		VarBodyTimeout:           {What: "how long a body may bring no byte while it is waited for", More: ": longer is a 408, or ends the connection when the answer has begun; the upstream's request ends too"},
		VarSendTimeout:           {What: "how long a client may take no byte of an answer", More: ": after that the connection is reset. What the system buffers for the client counts as taken. It is looked ten times within that time, so that it can be a fifth longer"},
		VarIdleTimeout:           {What: "how long a connection may have no request under way", More: ": after that it ends silently"},
		VarConnections:           {Default: "half of the file descriptors beyond the 640 that the process reserves, or a quarter of all if that is more; 65,536 at most", What: "the most connections to all addresses of the process together, from all clients", More: ": one more is a 503. Each of the addresses keeps an eighth for itself. `0` is as without it"},
		VarConnectionsPerAddress: {What: "the most connections from one client's address, 0 for no bound", More: "; of IPv6 an address is a /64. Loopback has no such bound"},
		VarBufferedBodyBytes:     {What: "the most memory, in bytes, for all request bodies that the process holds whole: those of the management API, of MCP servers and of GraphQL routes", More: ". One client's address or one account gets a quarter of it at most. A quarter of it is only for callers of the management API with an account key. [A body beyond it](limits.md#requests-and-answers) is a 503"},
	}
	var out []Setting
	add := func(name, value, least, most string) {
		s := about[name]
		s.Name, s.Kind, s.Range = name, Clients, least+" to "+most
		if s.Default == "" {
			s.Default = value
		}
		out = append(out, s)
	}
	numbers, times := l.numbers(), l.times()
	for _, n := range numbers[:2] {
		add(n.name, strconv.Itoa(*n.to), strconv.Itoa(n.least), strconv.Itoa(n.most))
	}
	for _, d := range times {
		add(d.name, short(*d.to), short(leastTime), short(mostTime))
	}
	for _, n := range numbers[2:] {
		add(n.name, strconv.Itoa(*n.to), strconv.Itoa(n.least), strconv.Itoa(n.most))
	}
	return append(out,
		Setting{VarTrustedProxies, Clients, "", "", "prefixes with spaces between", "the addresses of proxies and load balancers of your own, such as 10.0.0.0/8", ": their `X-Forwarded-For`, `X-Forwarded-Proto` and `X-Request-Id` are believed, nobody else's, and [a client's address is what they say](gateway-process.md#behind-a-proxy)"},
		Setting{VarProxyProtocol, Clients, "false", "", "true or false", "each connection from a trusted proxy begins with a header of the PROXY protocol", ", version 1 or 2, with the client's address; without one it is closed. Connections from elsewhere have none"},
		Setting{VarStandardHTTP, Clients, "false", "", "true or false", "the standard library alone reads requests and sends them to upstreams", ", without our own parsers: for [an incident](security.md#if-a-parser-is-at-fault)"},
	)
}

const mostAnnounce = 5 * time.Minute

// AnnounceFromEnvironment reads how long a process takes new requests after SIGTERM; without a
// value it is otherwise. Its error names the variable and no value.
func AnnounceFromEnvironment(getenv func(string) string, otherwise time.Duration) (time.Duration, error) {
	text := getenv(VarAnnounce)
	if text == "" {
		return otherwise, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || d > mostAnnounce {
		return 0, fmt.Errorf("%s is no time from 0s to %s, such as 15s", VarAnnounce, short(mostAnnounce))
	}
	return d, nil
}

// short writes a duration without what is zero: 2m and not 2m0s.
func short(d time.Duration) string {
	return strings.Replace(strings.Replace(d.String(), "m0s", "m", 1), "h0m", "h", 1)
}

// ofTests are the variables, or with a "_" at the end their beginnings, of tests
// and tools in this repository. A run that they start has them too.
var ofTests = [...]string{
	prefix + "TEST_", prefix + "SCENARIO_", prefix + "SIMULATIONS", prefix + "CLIENTS", prefix + "API", prefix + "BLOB_TEST_SERVER",
}

// The variables of the command line client (package profile), which no server reads. They are no mistake in its environment: people run
// both in one shell. The client's file with a key is called as VarKeyFile is.
const (
	VarClientProfiles = prefix + "PROFILES"
	VarClientProfile  = prefix + "PROFILE"
	VarClientURL      = prefix + "URL"
	VarClientAccount  = prefix + "ACCOUNT"
	VarClientKey      = prefix + "KEY"
)

// ofClient are those.
var ofClient = [...]string{VarClientProfiles, VarClientProfile, VarClientURL, VarClientAccount, VarClientKey}

// CheckNames returns an error that names each variable of environ (of entries
// NAME=value) that looks like one of ours and is not read: a bound that is misspelt
// would not hold, and nobody would know. local says that the local run reads them. Whoever listens
// does not start with such a name: `serve`, the local run, a gateway and a relay in processes of their own.
//
// What Kubernetes tells each container of a Service called gatewright, or gatewright-… , is none of ours
// (https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables).
func CheckNames(environ []string, local bool) error {
	var known, reserved []string
	for _, s := range Settings() {
		if local && (s.Kind == Function || s.Kind == Process) {
			reserved = append(reserved, s.Name)
		} else {
			known = append(known, s.Name)
		}
	}
	var wrong []error
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		switch {
		case !strings.HasPrefix(name, prefix), slices.Contains(known, name), slices.Contains(ofClient[:], name), ofKubernetes(name, value), slices.ContainsFunc(ofTests[:], func(t string) bool {
			return name == t || strings.HasSuffix(t, "_") && strings.HasPrefix(name, t)
		}):
		case slices.Contains(reserved, name):
			wrong = append(wrong, fmt.Errorf("%s is for functions in Lambda and for gateways in processes of their own: unset it, the local run decides it itself", name))
		default:
			wrong = append(wrong, fmt.Errorf("there is no setting %s: %s", name, correction(name, known)))
		}
	}
	slices.SortFunc(wrong, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(wrong...)
}

// ofKubernetes reports whether a variable is one that Kubernetes makes of a Service: its address, or one of its ports. Values
// tell, since one with nothing but PORT after our prefix is a guess that people make too.
func ofKubernetes(name, value string) bool {
	_, wrong := netip.ParseAddr(value)
	_, noPort := strconv.ParseUint(value, 10, 16)
	switch {
	case strings.HasSuffix(name, "_SERVICE_HOST"):
		return wrong == nil
	case strings.HasSuffix(name, "_SERVICE_PORT"):
		return noPort == nil
	case servicePort().MatchString(name): // the name of a port is after the first, and those of one port come with it
		return true
	}
	return strings.HasSuffix(name, "_PORT") && strings.Contains(value, "://")
}

// servicePort is what names of variables of a Service end with, beside those that its first port has.
var servicePort = lazy.Regexp(`_(SERVICE_PORT_[A-Z0-9_]+|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`)

// correction says what to do about a name that is none, and names the one that was meant where that can be told: the one that
// fewest changes of a letter lead to, of one letter in three at most.
func correction(name string, names []string) string {
	near, is := Nearest(strings.ToUpper(name), names, (len(name)-len(prefix))/3)
	if !is {
		return "correct its name, or unset it"
	}
	return DidYouMean(near) + " Correct its name, or unset it"
}

// Nearest is the one of names, of which there is one at least, that fewest changes of a letter lead to from what was typed, and whether
// most of them do.
func Nearest(typed string, names []string, most int) (near string, is bool) {
	near = slices.MinFunc(names, func(a, b string) int { return distance(typed, a) - distance(typed, b) })
	return near, distance(typed, near) <= most
}

// DidYouMean asks whether the name that is near was meant, in the words of all programs and files.
func DidYouMean(near string) string { return "did you mean " + near + "?" }

// distance is Levenshtein's: how many letters have to be put in, left out or
// replaced.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := before
			if a[i] != b[j] {
				replaced++
			}
			before = row[j+1]
			row[j+1] = min(replaced, row[j]+1, before+1)
		}
	}
	return row[len(b)]
}
