package main

import (
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/gatewright/gatewright/shared/config"
)

// Names of the installation's table and bucket.
const (
	tableName  = "gatewright"
	bucketName = "gatewright"
)

// settings are what the environment says about a local run.
type settings struct {
	apiAddr, gatewayAddr string
	// tlsAddr is config.NoAddr for none.
	tlsAddr string
	// relayAddr is config.NoAddr for none.
	relayAddr          string
	dataDir, readyFile string
	// dynamoDB and s3 are endpoints of servers that run elsewhere, "" for the data
	// directory; of functions in processes of their own, for emulators over it.
	dynamoDB, s3 string
	// functions is the folder with a bootstrap for each function, which then
	// run as processes of their own; "" to call their handlers in this one.
	functions string
	// listener bounds what clients may take, of either address.
	listener config.Listener
	// underscores lets header fields with "_" in their names pass upstream.
	underscores bool
	getenv      func(string) string
}

func settingsFrom(getenv func(string) string) (settings, error) {
	value := func(name, otherwise string) string {
		if v := getenv(name); v != "" {
			return v
		}
		return otherwise
	}
	s := settings{
		apiAddr:     value(config.VarAPIAddr, config.DefaultAPIAddr),
		gatewayAddr: value(config.VarGatewayAddr, config.DefaultGatewayAddr),
		tlsAddr:     value(config.VarTLSAddr, config.DefaultTLSAddr),
		relayAddr:   value(config.VarRelayAddr, config.DefaultRelayAddr),
		readyFile:   getenv(config.VarReadyFile),
		dynamoDB:    getenv(config.VarDynamoDBEndpoint),
		s3:          getenv(config.VarS3Endpoint),
		functions:   getenv(config.VarFunctions),
		getenv:      getenv,
	}
	// Another database, which knows nothing of the first one, and the other way round.
	s.dataDir = value(config.VarDataDir, config.DefaultDataDir)
	if s.functions != "" {
		s.dataDir = value(config.VarDataDir, config.DefaultFunctionsDataDir)
	}
	for _, a := range []struct{ name, addr string }{{config.VarAPIAddr, s.apiAddr}, {config.VarGatewayAddr, s.gatewayAddr}, {config.VarTLSAddr, s.tlsAddr}, {config.VarRelayAddr, s.relayAddr}} {
		if (a.name == config.VarTLSAddr || a.name == config.VarRelayAddr) && a.addr == config.NoAddr {
			continue
		}
		_, port, err := net.SplitHostPort(a.addr)
		if err == nil {
			_, err = strconv.ParseUint(port, 10, 16)
		}
		if err != nil {
			return settings{}, fmt.Errorf("%s is no address to listen on: write host:port, such as 127.0.0.1:9000", a.name)
		}
	}
	for _, e := range []struct{ name, value string }{{config.VarDynamoDBEndpoint, s.dynamoDB}, {config.VarS3Endpoint, s.s3}} {
		if u, err := url.Parse(e.value); e.value != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
			return settings{}, fmt.Errorf("%s is no address of a server: write one such as http://127.0.0.1:8000, or leave it empty to do without one", e.name)
		}
	}
	switch underscores := getenv(config.VarUnderscores); underscores {
	case "", "true", "false":
		s.underscores = underscores == "true"
	default:
		return settings{}, fmt.Errorf("%s is neither true nor false", config.VarUnderscores)
	}
	var err error
	s.listener, err = config.ListenerFromEnvironment(getenv)
	return s, err
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
		PrivateUpstreams: true, // a developer's upstreams are on this machine

		HeaderUnderscores: s.underscores,
		HeaderBytes:       s.listener.HeaderBytes, HeaderFields: s.listener.HeaderFields,
	}
	return c, c.Validate()
}
