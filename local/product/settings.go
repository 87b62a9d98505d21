package product

import (
	"cmp"
	"fmt"
	"net/url"
	"strings"
	"unicode"

	"github.com/gatewright/gatewright/local/rootkey"
	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/core/limits"
	"github.com/gatewright/gatewright/shared/dataplane/listen"
	"github.com/gatewright/gatewright/shared/runtime/servercert"
)

// The names of the installation's table and bucket.
const (
	tableName  = "gatewright"
	bucketName = "gatewright"
)

// settings are the settings of a run, from the environment.
type settings struct {
	program Program
	// domain is the installation's domain in lower case. All host names of the installation are below it (names.go).
	// domain is "" if no domain is set, as usual on a laptop.
	domain string
	// certificate and certificateKey are the files of the domain's certificate and its private key. They are "" if an ACME
	// authority or the local CA issues the certificates, or without TLS.
	certificate, certificateKey string
	// limits are the limits of accounts that have no limits of their own.
	limits limits.Values
	// privateUpstreams reports whether projects may call addresses of private networks.
	privateUpstreams     bool
	apiAddr, gatewayAddr string
	// tlsAddr is config.NoAddr without TLS.
	tlsAddr string
	// relayAddr is config.NoAddr without a relay. With a domain, no listener is opened at relayAddr, because the relay is
	// served at a name of the domain.
	relayAddr string
	// adminAddr is the address for operators. It is config.NoAddr if there is no such address.
	adminAddr string
	dataDir   string
	// readyFile is the file to which a run writes its addresses when it is ready, or "".
	readyFile string
	// dynamoDB and s3 are endpoints of servers that run elsewhere. They are "" if the data is in
	// the data directory. If functions are separate processes, emulators store the data there.
	dynamoDB, s3 string
	// functions is the folder with the functions' executables (bootstraps), which
	// run as separate processes. It is "" if functions run in this process.
	functions string
	// listener limits the resources that clients may use at each listener.
	listener config.Listener
	// budget limits the total number of connections of all listeners. The run sets it.
	budget *listen.Budget
	// allowUnderscores reports whether header fields with "_" in their names are forwarded to upstreams.
	allowUnderscores bool
	getenv           func(string) string
}

// settings reads the settings from the environment through getenv (os.Getenv outside tests).
func (p Program) settings(getenv func(string) string) (settings, error) {
	value := func(name, fallback string) string { return cmp.Or(getenv(name), fallback) }
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
	// With functions as separate processes, the default is another data
	// directory, because the emulators' data is independent of the store.
	s.dataDir = value(config.VarDataDir, p.dataDir)
	if s.functions != "" {
		s.dataDir = value(config.VarDataDir, config.DefaultFunctionsDataDir)
	}
	for _, a := range []struct{ name, addr string }{
		{config.VarAPIAddr, s.apiAddr},
		{config.VarGatewayAddr, s.gatewayAddr},
		{config.VarTLSAddr, s.tlsAddr},
		{config.VarRelayAddr, s.relayAddr},
		{config.VarAdminAddr, s.adminAddr},
	} {
		if (a.name == config.VarTLSAddr || a.name == config.VarRelayAddr || a.name == config.VarAdminAddr) &&
			a.addr == config.NoAddr {
			continue
		}
		if err := config.CheckAddress(a.name, a.addr); err != nil {
			return settings{}, err
		}
	}
	if s.functions != "" && s.adminAddr != config.NoAddr {
		return settings{}, fmt.Errorf("%s has functions run as processes of their own, whose requests %s would not count: "+
			"unset one of the two", config.VarFunctions, config.VarAdminAddr)
	}
	for _, e := range []struct{ name, value string }{
		{config.VarDynamoDBEndpoint, s.dynamoDB},
		{config.VarS3Endpoint, s.s3},
	} {
		if u, err := url.Parse(e.value); e.value != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" ||
			u.Host == "") {
			return settings{}, fmt.Errorf("%s is no address of a server: write one such as http://127.0.0.1:8000, or leave it "+
				"empty to do without one", e.name)
		}
	}
	s.privateUpstreams = !p.server // a developer's upstreams are on this machine
	for _, b := range []struct {
		name string
		to   *bool
	}{{config.VarUnderscores, &s.allowUnderscores}, {config.VarPrivateUpstreams, &s.privateUpstreams}} {
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

// checkFiles returns an error for values that are probably not the intended file name. One example is the content of a
// file, which can be a secret. Another example is a name with a space at its beginning or end, which would name another
// folder. The error does not contain the value.
func (s settings) checkFiles() error {
	for _, name := range []string{
		config.VarTLSCertificate, config.VarTLSKey, config.VarDataDir, config.VarReadyFile, config.VarFunctions,
		config.VarDynoxide, config.VarDocsWeights,
	} {
		path := s.getenv(name)
		if path != strings.TrimSpace(path) || strings.ContainsFunc(path, unicode.IsControl) {
			return fmt.Errorf("%s is no name of a file or folder: write its path, in one line with no space before or behind "+
				"it, and not what is in it", name)
		}
	}
	return nil
}

// check returns an error for invalid settings, before a start creates files or listens.
func (s settings) check() error {
	if err := s.checkDomain(); err != nil {
		return err
	}
	if err := s.checkPorts(); err != nil {
		return err
	}
	// The arguments are placeholders for values that are known only during the start.
	_, err := s.config(rootkey.Name, s.dynamoDB, s.s3, "0")
	return err
}

// checkPorts returns an error if two listeners have the same address. Without this check, the system would report for
// the second listener that another program uses the address.
func (s settings) checkPorts() error {
	used := map[string]string{}
	for _, a := range []struct{ name, addr string }{
		{config.VarAPIAddr, s.apiAddr},
		{config.VarGatewayAddr, s.gatewayAddr},
		{config.VarTLSAddr, s.tlsAddr},
		{config.VarRelayAddr, s.relayAddr},
		{config.VarAdminAddr, s.adminAddr},
	} {
		if a.addr == config.NoAddr || a.name == config.VarRelayAddr && s.domain != "" || strings.HasSuffix(a.addr, ":0") {
			continue // disabled, or the system chooses the port
		}
		if other := used[a.addr]; other != "" {
			return fmt.Errorf("%s and %s are both %s: give each an address of its own", other, a.name, a.addr)
		}
		used[a.addr] = a.name
	}
	return nil
}

// checkDomain returns an error for an invalid domain, or for settings that contradict the domain.
func (s settings) checkDomain() error {
	usesTLS := s.tlsAddr != config.NoAddr
	switch hasFiles := s.certificate != "" || s.certificateKey != ""; {
	case s.domain == "" && hasFiles:
		return fmt.Errorf("%s and %s are of a domain: set %s to it", config.VarTLSCertificate, config.VarTLSKey,
			config.VarDomain)
	case s.domain == "" && s.program.server:
		return fmt.Errorf("%s is not set: name the domain whose DNS leads to this machine, such as apis.example.com; "+
			"api.apis.example.com will be the management API", config.VarDomain)
	case s.domain == "":
		return nil
	case !isDomain(s.domain):
		return fmt.Errorf("%s is no domain name such as example.com: write it without a scheme, a port, a path, a * or a "+
			"dot at its end, in ASCII (xn--…) and in at most %d characters", config.VarDomain, maxDomain)
	case s.functions != "":
		return fmt.Errorf("%s has functions run as processes of their own, which a domain is not served by: unset one "+
			"of it and %s", config.VarFunctions, config.VarDomain)
	case (s.certificate == "") != (s.certificateKey == ""):
		return fmt.Errorf("%s and %s go together: set both to the files of the certificate and of its key, or none",
			config.VarTLSCertificate, config.VarTLSKey)
	case usesTLS && !hasFiles && s.getenv(config.VarACMEDirectory) == "":
		return fmt.Errorf("%s has no certificate yet: name an authority in %s, or files in %s and %s, or set %s to %s "+
			"where a proxy before this machine ends TLS",
			s.domain, config.VarACMEDirectory, config.VarTLSCertificate, config.VarTLSKey, config.VarTLSAddr, config.NoAddr)
	case usesTLS && hasFiles: // check the files before a start creates data
		return servercert.Check(s.certificate, s.certificateKey, s.certificateNames()...)
	}
	return nil
}

// config returns the product's configuration, from the settings and from the values that this run has determined.
func (s settings) config(keyFile, dynamoDBEndpoint, s3Endpoint, gatewayPort string) (config.Config, error) {
	c := config.Config{
		Table: tableName, Bucket: bucketName, KeyFile: keyFile,
		DeploymentURL:    "http://{deployment}.localhost:" + gatewayPort,
		APIURL:           strings.TrimSuffix(s.getenv(config.VarAPIURL), "/"),
		Origins:          strings.Fields(s.getenv(config.VarOrigins)),
		DynamoDBEndpoint: dynamoDBEndpoint,
		S3Endpoint:       s3Endpoint,
		S3PublicEndpoint: s.getenv(config.VarS3PublicEndpoint),
		ACMEDirectory:    s.getenv(config.VarACMEDirectory),
		DocsWeights:      s.getenv(config.VarDocsWeights),
		PrivateUpstreams: s.privateUpstreams,

		HeaderUnderscores: s.allowUnderscores,
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
