package product

import (
	"cmp"
	"fmt"
	"net/url"
	"strings"
	"unicode"

	"github.com/gatewright/gatewright/local/rootkey"
	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/limits"
	"github.com/gatewright/gatewright/shared/listen"
	"github.com/gatewright/gatewright/shared/owncert"
)

// Names of the installation's table and bucket.
const (
	tableName  = "gatewright"
	bucketName = "gatewright"
)

// settings are what the environment says about a run.
type settings struct {
	program Program
	// domain is the installation's own, in lower case, below which everything has its name
	// (names.go); "" for a laptop's addresses.
	domain string
	// certificate and certificateKey are the files of the domain's certificate and its private
	// key, "" for one by ACME, or for none.
	certificate, certificateKey string
	// limits are what bounds each account.
	limits limits.Values
	// privateUpstreams lets projects call addresses of private networks.
	privateUpstreams     bool
	apiAddr, gatewayAddr string
	// tlsAddr is config.NoAddr for none.
	tlsAddr string
	// relayAddr is config.NoAddr for none.
	relayAddr string
	// adminAddr is where operators ask, config.NoAddr for nowhere.
	adminAddr          string
	dataDir, readyFile string
	// dynamoDB and s3 are endpoints of servers that run elsewhere, "" for the data
	// directory; of functions in processes of their own, for emulators over it.
	dynamoDB, s3 string
	// functions is the folder with a bootstrap for each function, which then
	// run as processes of their own; "" to call their handlers in this one.
	functions string
	// listener bounds what clients may take, of either address.
	listener config.Listener
	// budget limits the connections of all listeners together. The run sets it.
	budget *listen.Budget
	// underscores lets header fields with "_" in their names pass upstream.
	underscores bool
	getenv      func(string) string
}

// settings reads what the environment says, by getenv (os.Getenv outside tests).
func (p Program) settings(getenv func(string) string) (settings, error) {
	value := func(name, otherwise string) string { return cmp.Or(getenv(name), otherwise) }
	s := settings{
		program:     p,
		domain:      strings.ToLower(getenv(config.VarDomain)),
		apiAddr:     value(config.VarAPIAddr, config.DefaultAPIAddr),
		gatewayAddr: value(config.VarGatewayAddr, p.gatewayAddr),
		tlsAddr:     value(config.VarTLSAddr, p.tlsAddr),
		relayAddr:   value(config.VarRelayAddr, config.DefaultRelayAddr),
		adminAddr:   value(config.VarAdminAddr, config.NoAddr),
		readyFile:   getenv(config.VarReadyFile),
		certificate: getenv(config.VarTLSCertificate), certificateKey: getenv(config.VarTLSKey),
		dynamoDB:  getenv(config.VarDynamoDBEndpoint),
		s3:        getenv(config.VarS3Endpoint),
		functions: getenv(config.VarFunctions),
		getenv:    getenv,
	}
	// Another database, which knows nothing of the first one, and the other way round.
	s.dataDir = value(config.VarDataDir, p.dataDir)
	if s.functions != "" {
		s.dataDir = value(config.VarDataDir, config.DefaultFunctionsDataDir)
	}
	for _, a := range []struct{ name, addr string }{{config.VarAPIAddr, s.apiAddr}, {config.VarGatewayAddr, s.gatewayAddr}, {config.VarTLSAddr, s.tlsAddr}, {config.VarRelayAddr, s.relayAddr}, {config.VarAdminAddr, s.adminAddr}} {
		if (a.name == config.VarTLSAddr || a.name == config.VarRelayAddr || a.name == config.VarAdminAddr) && a.addr == config.NoAddr {
			continue
		}
		if err := config.CheckAddress(a.name, a.addr); err != nil {
			return settings{}, err
		}
	}
	if s.functions != "" && s.adminAddr != config.NoAddr {
		return settings{}, fmt.Errorf("%s has functions run as processes of their own, whose requests %s would not count: unset one of the two", config.VarFunctions, config.VarAdminAddr)
	}
	for _, e := range []struct{ name, value string }{{config.VarDynamoDBEndpoint, s.dynamoDB}, {config.VarS3Endpoint, s.s3}} {
		if u, err := url.Parse(e.value); e.value != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
			return settings{}, fmt.Errorf("%s is no address of a server: write one such as http://127.0.0.1:8000, or leave it empty to do without one", e.name)
		}
	}
	s.privateUpstreams = !p.server // a developer's upstreams are on this machine
	for _, b := range []struct {
		name string
		to   *bool
	}{{config.VarUnderscores, &s.underscores}, {config.VarPrivateUpstreams, &s.privateUpstreams}} {
		switch text := getenv(b.name); text {
		case "":
		case "true", "false":
			*b.to = text == "true"
		default:
			return settings{}, fmt.Errorf("%s is neither true nor false", b.name)
		}
	}
	if err := s.checkFiles(); err != nil {
		return settings{}, err
	}
	var err error
	if s.limits, err = limits.Parse(getenv(config.VarLimits)); err != nil {
		return settings{}, fmt.Errorf("%s: %w", config.VarLimits, err)
	}
	s.listener, err = config.ListenerFromEnvironment(getenv)
	return s, err
}

// checkFiles refuses what cannot be the name of a file that anybody means: the text of a file, which
// may be a secret, and a name with a space before or behind it, as a file of settings leaves one, which
// would be another folder without data. Its error has no value.
func (s settings) checkFiles() error {
	for _, name := range []string{
		config.VarTLSCertificate, config.VarTLSKey, config.VarDataDir, config.VarReadyFile, config.VarFunctions, config.VarDynoxide, config.VarDocsWeights,
	} {
		path := s.getenv(name)
		if path != strings.TrimSpace(path) || strings.ContainsFunc(path, unicode.IsControl) {
			return fmt.Errorf("%s is no name of a file or folder: write its path, in one line with no space before or behind it, and not what is in it", name)
		}
	}
	return nil
}

// check returns what is wrong with the settings, as far as it can be known before anything is made or listens.
func (s settings) check() error {
	if err := s.checkDomain(); err != nil {
		return err
	}
	if err := s.checkPorts(); err != nil {
		return err
	}
	// What the start finds out by itself stands for itself.
	_, err := s.config(rootkey.Name, s.dynamoDB, s.s3, "0")
	return err
}

// checkPorts refuses one address for two purposes: of the second listener the system says that another program has it.
func (s settings) checkPorts() error {
	used := map[string]string{}
	for _, a := range []struct{ name, addr string }{
		{config.VarAPIAddr, s.apiAddr}, {config.VarGatewayAddr, s.gatewayAddr}, {config.VarTLSAddr, s.tlsAddr}, {config.VarRelayAddr, s.relayAddr}, {config.VarAdminAddr, s.adminAddr},
	} {
		if a.addr == config.NoAddr || a.name == config.VarRelayAddr && s.domain != "" || strings.HasSuffix(a.addr, ":0") {
			continue // nothing listens there, or at a port that the system chooses
		}
		if other := used[a.addr]; other != "" {
			return fmt.Errorf("%s and %s are both %s: give each an address of its own", other, a.name, a.addr)
		}
		used[a.addr] = a.name
	}
	return nil
}

// checkDomain returns what is wrong with the domain and how its names are to be served.
func (s settings) checkDomain() error {
	byTLS := s.tlsAddr != config.NoAddr
	switch files := s.certificate != "" || s.certificateKey != ""; {
	case s.domain == "" && files:
		return fmt.Errorf("%s and %s are of a domain: set %s to it", config.VarTLSCertificate, config.VarTLSKey, config.VarDomain)
	case s.domain == "" && s.program.server:
		return fmt.Errorf("%s is not set: name the domain whose DNS leads to this machine, such as apis.example.com; api.apis.example.com will be the management API", config.VarDomain)
	case s.domain == "":
		return nil
	case !isDomain(s.domain):
		return fmt.Errorf("%s is no domain name such as example.com: write it without a scheme, a port, a path, a * or a dot at its end, in ASCII (xn--…) and in at most %d characters", config.VarDomain, maxDomain)
	case s.functions != "":
		return fmt.Errorf("%s has functions run as processes of their own, which a domain is not served by: unset one of it and %s", config.VarFunctions, config.VarDomain)
	case (s.certificate == "") != (s.certificateKey == ""):
		return fmt.Errorf("%s and %s go together: set both to the files of the certificate and of its key, or none", config.VarTLSCertificate, config.VarTLSKey)
	case byTLS && !files && s.getenv(config.VarACMEDirectory) == "":
		return fmt.Errorf("%s has no certificate yet: name an authority in %s, or files in %s and %s, or set %s to %s where a proxy before this machine ends TLS",
			s.domain, config.VarACMEDirectory, config.VarTLSCertificate, config.VarTLSKey, config.VarTLSAddr, config.NoAddr)
	case byTLS && files: // before any data are made
		return owncert.Check(s.certificate, s.certificateKey, s.certified()...)
	}
	return nil
}

// config is the product's configuration, with what this run decides itself.
func (s settings) config(keyFile, dynamoDB, s3, gatewayPort string) (config.Config, error) {
	c := config.Config{
		Table: tableName, Bucket: bucketName, KeyFile: keyFile,
		DeploymentURL:    "http://{deployment}.localhost:" + gatewayPort,
		APIURL:           strings.TrimSuffix(s.getenv(config.VarAPIURL), "/"),
		Origins:          strings.Fields(s.getenv(config.VarOrigins)),
		DynamoDBEndpoint: dynamoDB,
		S3Endpoint:       s3,
		S3PublicEndpoint: s.getenv(config.VarS3PublicEndpoint),
		ACMEDirectory:    s.getenv(config.VarACMEDirectory),
		DocsWeights:      s.getenv(config.VarDocsWeights),
		PrivateUpstreams: s.privateUpstreams,

		HeaderUnderscores: s.underscores,
		HeaderBytes:       s.listener.HeaderBytes, HeaderFields: s.listener.HeaderFields,
		TrustedProxies: s.listener.TrustedProxies, StandardHTTP: s.listener.StandardHTTP,
		Limits: s.limits,
	}
	if s.domain != "" {
		c.DeploymentURL, c.APIDomain = "https://{deployment}."+s.domain, apiName(s.domain)
		c.APIURL = cmp.Or(c.APIURL, "https://"+c.APIDomain)
		if s.relayAddr != config.NoAddr {
			c.Relay = "https://" + relayName(s.domain)
		}
	}
	return c, c.Validate()
}
