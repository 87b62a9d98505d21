// Package config reads the settings of a process from its environment: the names of its table, bucket and key, and
// its addresses. The Lambda functions and the local process use the same Config, so that the same code runs in both.
//
// The package opens nothing and does not import the AWS SDK (packages store and blob call AWS). A Config has no
// secrets: it names the file or the key service that has the root key, and never contains the key. The variables
// with the private keys of certificates (VarRelayCertificate, VarCertificate) are not part of a Config.
//
// Read config.go first, then settings.go, which lists every variable. The variables
// are defined in design, section 9. The infrastructure sets them for functions.
package config

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/gatewright/gatewright/shared/base/origin"
	"github.com/gatewright/gatewright/shared/core/limits"
)

// The variables. Names of resources have no default: a wrong guess would write into another installation.
const (
	VarTable            = "GATEWRIGHT_TABLE"
	VarBucket           = "GATEWRIGHT_BUCKET"
	VarKeyFile          = "GATEWRIGHT_KEY_FILE"
	VarKMSKey           = "GATEWRIGHT_KMS_KEY"
	VarDeploymentURL    = "GATEWRIGHT_DEPLOYMENT_URL"
	VarDynamoDBEndpoint = "GATEWRIGHT_DYNAMODB_ENDPOINT"
	VarS3Endpoint       = "GATEWRIGHT_S3_ENDPOINT"
	VarS3PublicEndpoint = "GATEWRIGHT_S3_PUBLIC_ENDPOINT"
	VarAPIDomain        = "GATEWRIGHT_API_DOMAIN"
	VarAPIURL           = "GATEWRIGHT_API_URL"
	VarOrigins          = "GATEWRIGHT_ORIGINS"
	VarDNSRecords       = "GATEWRIGHT_DNS_RECORDS"
	VarACMEDirectory    = "GATEWRIGHT_ACME_DIRECTORY"
	VarPrivateUpstreams = "GATEWRIGHT_PRIVATE_UPSTREAMS"
	VarDecodedPaths     = "GATEWRIGHT_DECODED_PATHS"
	VarStreaming        = "GATEWRIGHT_STREAMING"
	VarUnderscores      = "GATEWRIGHT_HEADER_UNDERSCORES"
	VarRelay            = "GATEWRIGHT_RELAY"
	VarDocsWeights      = "GATEWRIGHT_DOCS_WEIGHTS"
	VarDocsEmbeddings   = "GATEWRIGHT_DOCS_EMBEDDINGS"
	VarDocsAnswers      = "GATEWRIGHT_DOCS_ANSWERS"
	VarDocsAnswersADay  = "GATEWRIGHT_DOCS_ANSWERS_A_DAY"
	VarBedrockEndpoint  = "GATEWRIGHT_BEDROCK_ENDPOINT"
	VarLimits           = "GATEWRIGHT_LIMITS"
)

// VarRelayCertificate is the variable with the relay's certificate chain and
// private key, as PEM. It is not part of a Config, which holds no secret.
const VarRelayCertificate = "GATEWRIGHT_RELAY_CERTIFICATE"

// VarCertificate is the variable with the certificate chain and the private key, as
// PEM, for the deployments' host names (below the deployment domain) at a gateway
// in a separate process. It is not part of a Config, which holds no secret.
const VarCertificate = "GATEWRIGHT_CERTIFICATE"

// VarUsesFile is the variable with the path of a file to which a function appends its AWS
// calls. A test compares them with the function's role. It is not part of a Config.
const VarUsesFile = "GATEWRIGHT_USES_FILE"

// placeholder is replaced by a deployment's name in DeploymentURL.
const placeholder = "{deployment}"

// Config is the configuration of an installation for one of its processes.
type Config struct {
	// Table and Bucket are the names of the DynamoDB table and the S3 bucket.
	Table  string
	Bucket string
	// KeyFile is the path of the root key on this machine, KMSKey the
	// id of the KMS key that wraps it. Exactly one of the two is set.
	KeyFile string
	KMSKey  string
	// DeploymentURL is the public origin of a deployment, with {deployment}
	// instead of its name, such as http://{deployment}.localhost:9001.
	DeploymentURL string
	// DNSRecords is a file of records that override the DNS (package localdns), "" for
	// none: for a local run, never for a shared installation.
	DNSRecords string
	// ACMEDirectory is the address of the ACME directory of the authority that issues certificates for custom domains, "" for none.
	ACMEDirectory string
	// APIDomain is the management API's own domain name, "" for none.
	APIDomain string
	// APIURL is the public address of the management API, without a trailing slash, such as
	// https://api.example.com, or one with a path. It is "" if the process does not know it.
	// Code that generates addresses of the API uses APIURL, and never an address from a request.
	APIURL string
	// Origins are the additional origins of pages that may call the MCP server of the management
	// API, such as https://inspector.example.com. The API's own origin is always allowed.
	Origins []string
	// DynamoDBEndpoint and S3Endpoint are base addresses of emulators, "" for AWS.
	// S3PublicEndpoint is the address at which clients reach S3, "" if it is S3Endpoint.
	DynamoDBEndpoint string
	S3Endpoint       string
	S3PublicEndpoint string
	// PrivateUpstreams allows the gateway to call loopback and private addresses,
	// but not link-local ones: for a local run, never for a shared installation.
	PrivateUpstreams bool
	// DecodedPaths is for functions behind an emulator that decodes the paths of requests. API Gateway passes paths on unchanged.
	DecodedPaths bool
	// Streaming makes the gateway's function stream its responses. API Gateway must be configured for this.
	Streaming bool
	// Relay is the public origin of the relay, such as https://relay.example.com, "" if there is none. Agents of
	// tunnels connect to it, and gateways in other processes send requests to the services behind tunnels through it.
	Relay string
	// DocsWeights is the file of weights for the search in the documentation, "" for the file near the binary (functions/mcpdocs).
	DocsWeights string
	// DocsEmbeddings and DocsAnswers are Bedrock models for the search in the documentation
	// and for answering questions (functions/mcpdocs), "" for none. DocsAnswersADay is the
	// maximum number of questions per day that one process sends to DocsAnswers.
	DocsEmbeddings, DocsAnswers string
	DocsAnswersADay             int
	// BedrockEndpoint is the base address of an emulator, "" for AWS.
	BedrockEndpoint string
	// HeaderUnderscores passes header fields with "_" in their names on to
	// upstreams, which may mistake them for fields of the gateway.
	HeaderUnderscores bool
	// HeaderBytes and HeaderFields limit a request's header if the request did not come through a
	// listener of package listen (Listener has the same fields). 0 means the gateway's default limits.
	HeaderBytes, HeaderFields int
	// StandardHTTP makes a gateway send every request through http.Transport (Listener has the same field).
	StandardHTTP bool
	// TrustedProxies are the proxies whose forwarding headers a gateway trusts (Listener has the same field).
	TrustedProxies []netip.Prefix
	// Limits has the limits of accounts that have no value of their own. nil means the defaults.
	Limits limits.Values
}

// FromEnvironment reads a Config with getenv (os.Getenv outside tests). Its
// error names every invalid variable, but never contains a value.
func FromEnvironment(getenv func(string) string) (Config, error) {
	c := Config{
		Table:            getenv(VarTable),
		Bucket:           getenv(VarBucket),
		KeyFile:          getenv(VarKeyFile),
		KMSKey:           getenv(VarKMSKey),
		DeploymentURL:    getenv(VarDeploymentURL),
		APIDomain:        getenv(VarAPIDomain),
		APIURL:           strings.TrimSuffix(getenv(VarAPIURL), "/"),
		Origins:          strings.Fields(getenv(VarOrigins)),
		ACMEDirectory:    getenv(VarACMEDirectory),
		DNSRecords:       getenv(VarDNSRecords),
		DynamoDBEndpoint: getenv(VarDynamoDBEndpoint),
		S3Endpoint:       getenv(VarS3Endpoint),
		S3PublicEndpoint: getenv(VarS3PublicEndpoint),
		Relay:            getenv(VarRelay),
		DocsWeights:      getenv(VarDocsWeights),
		DocsEmbeddings:   getenv(VarDocsEmbeddings),
		DocsAnswers:      getenv(VarDocsAnswers),
		DocsAnswersADay:  DefaultDocsAnswersADay,
		BedrockEndpoint:  getenv(VarBedrockEndpoint),
	}
	var errs []error
	if text := getenv(VarDocsAnswersADay); text != "" {
		n, err := strconv.Atoi(text)
		if c.DocsAnswersADay = n; err != nil || !IsDocsAnswersADay(n) {
			errs = append(errs, fmt.Errorf("%s is no number from 1 to %d", VarDocsAnswersADay, maxDocsAnswersADay))
		}
	}
	var err error
	if c.Limits, err = limits.Parse(getenv(VarLimits)); err != nil {
		errs = append(errs, fmt.Errorf("%s: %w", VarLimits, err))
	}
	for _, v := range []struct {
		name   string
		target *bool
	}{
		{VarPrivateUpstreams, &c.PrivateUpstreams},
		{VarDecodedPaths, &c.DecodedPaths},
		{VarStreaming, &c.Streaming},
		{VarUnderscores, &c.HeaderUnderscores},
	} {
		switch getenv(v.name) {
		case "", "false":
		case "true":
			*v.target = true
		default:
			errs = append(errs, fmt.Errorf("%s is neither true nor false", v.name))
		}
	}
	listener, err := ListenerFromEnvironment(getenv)
	c.HeaderBytes, c.HeaderFields, c.TrustedProxies, c.StandardHTTP = listener.HeaderBytes, listener.HeaderFields,
		listener.TrustedProxies, listener.StandardHTTP
	return c, errors.Join(append(errs, err, c.Validate())...)
}

// Validate returns an error that lists all invalid settings of c.
func (c Config) Validate() error {
	var errs []error
	for _, v := range []struct{ name, value string }{
		{VarTable, c.Table}, {VarBucket, c.Bucket}, {VarDeploymentURL, c.DeploymentURL},
	} {
		if v.value == "" {
			errs = append(errs, fmt.Errorf("%s is not set", v.name))
		}
	}
	if (c.KeyFile == "") == (c.KMSKey == "") {
		errs = append(errs, fmt.Errorf("exactly one of %s and %s has to be set", VarKeyFile, VarKMSKey))
	}
	if c.DeploymentURL != "" && !origin.Valid(c.DeploymentOrigin("name")) ||
		strings.Count(c.DeploymentURL, placeholder) > 1 {
		errs = append(errs, fmt.Errorf("%s is no address such as http://%s.example.com", VarDeploymentURL, placeholder))
	}
	for _, v := range []struct{ name, value string }{
		{VarDynamoDBEndpoint, c.DynamoDBEndpoint},
		{VarS3Endpoint, c.S3Endpoint},
		{VarS3PublicEndpoint, c.S3PublicEndpoint},
		{VarBedrockEndpoint, c.BedrockEndpoint},
	} {
		if v.value != "" && !origin.Valid(strings.TrimSuffix(v.value, "/")) {
			errs = append(errs, fmt.Errorf("%s is no address such as http://127.0.0.1:8000", v.name))
		}
	}
	if c.APIURL != "" && !IsBaseURL(c.APIURL) {
		errs = append(errs, fmt.Errorf("%s is no address such as https://api.example.com", VarAPIURL))
	}
	if slices.ContainsFunc(c.Origins, func(o string) bool { return !origin.Valid(o) }) {
		errs = append(errs, fmt.Errorf("%s has one that is no origin such as https://inspector.example.com; write them "+
			"with spaces between", VarOrigins))
	}
	if c.DocsEmbeddings != "" && !IsEmbeddingModel(c.DocsEmbeddings) {
		errs = append(errs, fmt.Errorf("%s is none of %s", VarDocsEmbeddings, strings.Join(EmbeddingModels(), ", ")))
	}
	if c.DocsAnswers != "" && !IsModel(c.DocsAnswers) {
		errs = append(errs, fmt.Errorf("%s is no model's id such as amazon.nova-lite-v1:0", VarDocsAnswers))
	}
	if c.Relay != "" && !origin.Valid(c.Relay) {
		errs = append(errs, fmt.Errorf("%s is no address such as https://relay.example.com", VarRelay))
	}
	if u, err := url.Parse(c.ACMEDirectory); c.ACMEDirectory != "" && (err != nil || u.Scheme != "https" || u.Host == "" ||
		u.User != nil) {
		errs = append(errs, fmt.Errorf("%s is no address such as https://acme.example.com/directory", VarACMEDirectory))
	}
	return errors.Join(errs...)
}

// IsBaseURL reports whether text is an origin, or an origin with a path that does not end in a slash.
func IsBaseURL(text string) bool {
	u, err := url.Parse(text)
	if err != nil || strings.HasSuffix(u.Path, "/") || strings.ContainsAny(text, "?#{} ") {
		return false
	}
	u.Path, u.RawPath = "", ""
	return origin.Valid(u.String())
}

// DeploymentOrigin returns the public origin of a deployment: its `url`.
func (c Config) DeploymentOrigin(deployment string) string {
	return strings.ReplaceAll(c.DeploymentURL, placeholder, deployment)
}

// DeploymentDomain returns the part of a deployment's host name after the
// deployment's name and a dot, in lower case and without a port.
func (c Config) DeploymentDomain() string {
	pattern, err := url.Parse(c.DeploymentOrigin("name"))
	if err != nil {
		return ""
	}
	return strings.ToLower(strings.TrimPrefix(pattern.Hostname(), "name."))
}

// OwnDomains returns the installation's own domains, in lower case. Names below them cannot be custom domains.
func (c Config) OwnDomains() []string {
	domains := []string{c.DeploymentDomain(), strings.ToLower(c.APIDomain)}
	return slices.DeleteFunc(domains, func(d string) bool { return d == "" })
}
